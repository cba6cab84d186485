/* Functions of the C library that libdrm and Mesa use to find and open the node. Paths below /dev/dri and parts of /sys lead to the
 * folder SHIM_TREE; the node's descriptor is the memory file. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "shim.h"

enum { MOST_FILES = 1 << 16, MAJOR = 226, MINOR = 128 };

static const char NODE[] = "/dev/dri/renderD128";

static unsigned char ours[MOST_FILES];

#define REAL(name) ((__typeof__(&name))real(#name))

static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

static int is_node_file(int file) { return file >= 0 && file < MOST_FILES && ours[file]; }

static int mark(int file, int as) {
  if (file >= 0 && file < MOST_FILES) ours[file] = (unsigned char)as;
  return file;
}

/* Returns the path in the emulated tree (in `room`), or the path unchanged. */
static const char *redirected(const char *path, char *room) {
  static const char *const starts[] = {"/dev/dri", "/sys/dev/char/226:", "/sys/class/drm", "/sys/bus/pci", "/sys/bus/platform", "/sys/devices/shim",
                                       "/sys/module/i915", "/sys/module/xe"};
  const char *tree = getenv("SHIM_TREE");
  for (size_t i = 0; path && tree && i < sizeof starts / sizeof *starts; i++)
    if (!strncmp(path, starts[i], strlen(starts[i]))) {
      snprintf(room, PATH_MAX, "%s%s", tree, path);
      log_line(3, "%s", room);
      return room;
    }
  return path;
}

static int is_node(const char *path) {
  const char *tree = getenv("SHIM_TREE");
  size_t length = tree ? strlen(tree) : 0;
  if (path && tree && !strncmp(path, tree, length)) path += length;
  return path && !strcmp(path, NODE);
}

static int open_node(int flags) { return mark(fcntl(memory_file(), flags & O_CLOEXEC ? F_DUPFD_CLOEXEC : F_DUPFD, 0), 1); }

#define OPEN(name)                                                                    \
  int name(const char *path, int flags, ...) {                                        \
    char room[PATH_MAX];                                                              \
    va_list values;                                                                   \
    va_start(values, flags);                                                          \
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(values, mode_t) : 0;         \
    va_end(values);                                                                   \
    if (is_node(path)) return open_node(flags);                                       \
    return mark(((int (*)(const char *, int, ...))real(#name))(redirected(path, room), flags, mode), 0); \
  }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                  \
  int name(int folder, const char *path, int flags, ...) {                            \
    char room[PATH_MAX];                                                              \
    va_list values;                                                                   \
    va_start(values, flags);                                                          \
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(values, mode_t) : 0;         \
    va_end(values);                                                                   \
    if (is_node(path)) return open_node(flags);                                       \
    return mark(((int (*)(int, const char *, int, ...))real(#name))(folder, redirected(path, room), flags, mode), 0); \
  }
OPENAT(openat)
OPENAT(openat64)

int __open_2(const char *path, int flags) { return open(path, flags); }
int __open64_2(const char *path, int flags) { return open64(path, flags); }

FILE *fopen(const char *path, const char *mode) {
  char room[PATH_MAX];
  return REAL(fopen)(redirected(path, room), mode);
}

FILE *fopen64(const char *path, const char *mode) {
  char room[PATH_MAX];
  return REAL(fopen64)(redirected(path, room), mode);
}

DIR *opendir(const char *path) {
  char room[PATH_MAX];
  return REAL(opendir)(redirected(path, room));
}

int scandir(const char *path, struct dirent ***found, int (*filter)(const struct dirent *),
            int (*order)(const struct dirent **, const struct dirent **)) {
  char room[PATH_MAX];
  return REAL(scandir)(redirected(path, room), found, filter, order);
}

int access(const char *path, int mode) {
  char room[PATH_MAX];
  return REAL(access)(redirected(path, room), mode);
}

ssize_t readlink(const char *path, char *into, size_t most) {
  char room[PATH_MAX];
  return REAL(readlink)(redirected(path, room), into, most);
}

ssize_t __readlink_chk(const char *path, char *into, size_t most, size_t length) {
  return readlink(path, into, most < length ? most : length);
}

/* Removes the emulated tree from a path, so that callers see system paths. */
static char *restored(char *path) {
  const char *tree = getenv("SHIM_TREE");
  size_t length = tree ? strlen(tree) : 0;
  if (path && tree && !strncmp(path, tree, length)) memmove(path, path + length, strlen(path + length) + 1);
  return path;
}

char *realpath(const char *path, char *into) {
  char room[PATH_MAX];
  return restored(REAL(realpath)(redirected(path, room), into));
}

char *__realpath_chk(const char *path, char *into, size_t length) {
  (void)length;
  return realpath(path, into);
}

#define AS_NODE(found)                          \
  do {                                          \
    (found)->st_mode = S_IFCHR | 0666;          \
    (found)->st_rdev = makedev(MAJOR, MINOR);   \
    (found)->st_size = 0;                       \
  } while (0)

#define STAT(name, type)                                             \
  int name(const char *path, struct type *found) {                   \
    char room[PATH_MAX];                                             \
    int result = REAL(name)(redirected(path, room), found);              \
    if (!result && is_node(path)) AS_NODE(found);                    \
    return result;                                                   \
  }
STAT(stat, stat)
STAT(stat64, stat64)
STAT(lstat, stat)
STAT(lstat64, stat64)

#define FSTAT(name, type)                                            \
  int name(int file, struct type *found) {                           \
    int result = REAL(name)(file, found);                            \
    if (!result && is_node_file(file)) AS_NODE(found);                    \
    return result;                                                   \
  }
FSTAT(fstat, stat)
FSTAT(fstat64, stat64)

#define FSTATAT(name, type)                                          \
  int name(int folder, const char *path, struct type *found, int flags) { \
    char room[PATH_MAX];                                             \
    int result = REAL(name)(folder, redirected(path, room), found, flags); \
    if (!result && (is_node(path) || (is_node_file(folder) && !*path))) AS_NODE(found); \
    return result;                                                   \
  }
FSTATAT(fstatat, stat)
FSTATAT(fstatat64, stat64)

int close(int file) {
  mark(file, 0);
  return REAL(close)(file);
}

int dup(int file) {
  int made = REAL(dup)(file);
  return made < 0 ? made : mark(made, is_node_file(file));
}

static int control(const char *name, int file, int command, void *argument) {
  int result = ((int (*)(int, int, ...))real(name))(file, command, argument);
  if (result >= 0 && (command == F_DUPFD || command == F_DUPFD_CLOEXEC)) mark(result, is_node_file(file));
  return result;
}

#define FCNTL(name)                                 \
  int name(int file, int command, ...) {            \
    va_list values;                                 \
    va_start(values, command);                      \
    void *argument = va_arg(values, void *);        \
    va_end(values);                                 \
    return control(#name, file, command, argument); \
  }
FCNTL(fcntl)
FCNTL(fcntl64)

int ioctl(int file, unsigned long request, ...) {
  va_list values;
  va_start(values, request);
  void *argument = va_arg(values, void *);
  va_end(values);
  if (is_node_file(file)) return handle_ioctl(request, argument);
  return ((int (*)(int, unsigned long, ...))real("ioctl"))(file, request, argument);
}

/* Offsets beyond the memory file are device registers: zero pages. */
#define MMAP(name)                                                                                        \
  void *name(void *start, size_t size, int access, int flags, int file, off_t offset) {                   \
    int past = is_node_file(file) && (uint64_t)offset >= memory_size();                                                 \
    if (past) flags = (flags & ~(MAP_SHARED | MAP_PRIVATE)) | MAP_PRIVATE | MAP_ANONYMOUS, file = -1, offset = 0; \
    return REAL(name)(start, size, access, flags, file, offset);                                          \
  }
MMAP(mmap)
MMAP(mmap64)
