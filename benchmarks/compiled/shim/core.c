/* A preloaded library that emulates a DRM render node: ioctls, buffers and sync objects. Mesa's Vulkan drivers open it as a device
 * of any maker and compile kernels for it. Submissions complete at once without effect. SHIM_LOG=1 prints unknown ioctls, 2 all. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <drm/drm.h>

#include "shim.h"

enum { MOST_BUFFERS = 1 << 20, MOST_SYNCOBJS = 1 << 20, GRAIN = 1 << 16 };

static const uint64_t ROOM = 1ull << 42;

static int memory = -1;
static Buffer buffers[MOST_BUFFERS];
static uint32_t last_buffer, last_syncobj;
static uint64_t used = GRAIN, points[MOST_SYNCOBJS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void log_line(int level, const char *format, ...) {
  static int wanted = -1;
  if (wanted < 0) wanted = (int)setting("LOG", 0);
  if (level > wanted) return;
  va_list values;
  va_start(values, format);
  fprintf(stderr, "shim: ");
  vfprintf(stderr, format, values);
  fprintf(stderr, "\n");
  va_end(values);
}

uint64_t setting(const char *name, uint64_t otherwise) {
  char whole[64];
  snprintf(whole, sizeof whole, "SHIM_%s", name);
  const char *value = getenv(whole);
  return value && *value ? strtoull(value, NULL, 0) : otherwise;
}

uint64_t memory_size(void) { return ROOM; }

int memory_file(void) {
  if (memory >= 0) return memory;
  memory = memfd_create("device", MFD_CLOEXEC);
  if (memory >= 0 && ftruncate(memory, (off_t)ROOM)) memory = -1;
  return memory;
}

uint32_t buffer_new(uint64_t size) {
  uint32_t made = 0;
  size = (size + GRAIN - 1) / GRAIN * GRAIN;
  pthread_mutex_lock(&lock);
  if (last_buffer + 1 < MOST_BUFFERS && used + size <= ROOM && memory_file() >= 0) {
    made = ++last_buffer;
    buffers[made] = (Buffer){used, size};
    used += size;
  }
  pthread_mutex_unlock(&lock);
  return made;
}

Buffer *buffer_of(uint32_t handle) { return handle && handle <= last_buffer && buffers[handle].size ? &buffers[handle] : NULL; }

void buffer_free(uint32_t handle) {
  Buffer *buffer = buffer_of(handle);
  if (!buffer) return;
  fallocate(memory_file(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)buffer->offset, (off_t)buffer->size);
  buffer->size = 0;
}

void *buffer_map(uint32_t handle) {
  Buffer *buffer = buffer_of(handle);
  if (!buffer) return NULL;
  void *start = mmap(NULL, buffer->size, PROT_READ | PROT_WRITE, MAP_SHARED, memory_file(), (off_t)buffer->offset);
  return start == MAP_FAILED ? NULL : start;
}

static uint32_t new_syncobj(void) {
  pthread_mutex_lock(&lock);
  uint32_t made = last_syncobj + 1 < MOST_SYNCOBJS ? ++last_syncobj : 0;
  pthread_mutex_unlock(&lock);
  return made;
}

void signal_syncobj(uint32_t handle, uint64_t point) {
  if (handle < MOST_SYNCOBJS && points[handle] < point) points[handle] = point;
}

static void put(char *room, __kernel_size_t *length, const char *text) {
  size_t most = *length;
  *length = strlen(text);
  if (room && most) memcpy(room, text, most < *length ? most : *length);
}

static int version(struct drm_version *found) {
  const char *driver = getenv("SHIM_DRIVER");
  found->version_major = (int)setting("MAJOR", 1);
  found->version_minor = (int)setting("MINOR", 6);
  found->version_patchlevel = (int)setting("PATCH", 0);
  put(found->name, &found->name_len, driver ? driver : "none");
  put(found->date, &found->date_len, "20250101");
  put(found->desc, &found->desc_len, "no device");
  return 0;
}

static int capability(struct drm_get_cap *found) {
  switch (found->capability) {
    case DRM_CAP_PRIME: found->value = DRM_PRIME_CAP_IMPORT | DRM_PRIME_CAP_EXPORT; return 0;
    case DRM_CAP_DUMB_BUFFER:
    case DRM_CAP_TIMESTAMP_MONOTONIC:
    case DRM_CAP_ADDFB2_MODIFIERS:
    case DRM_CAP_SYNCOBJ:
    case DRM_CAP_SYNCOBJ_TIMELINE: found->value = 1; return 0;
    default: found->value = 0; return 0;
  }
}

static int handle_core(unsigned long request, void *argument) {
  switch (request) {
    case DRM_IOCTL_VERSION: return version(argument);
    case DRM_IOCTL_GET_CAP: return capability(argument);
    case DRM_IOCTL_SET_CLIENT_CAP: return -EINVAL;
    case DRM_IOCTL_GET_UNIQUE: return ((struct drm_unique *)argument)->unique_len = 0;
    case DRM_IOCTL_GEM_CLOSE: return buffer_free(((struct drm_gem_close *)argument)->handle), 0;
    case DRM_IOCTL_PRIME_HANDLE_TO_FD: {
      struct drm_prime_handle *prime = argument;
      prime->fd = fcntl(memory_file(), F_DUPFD_CLOEXEC, 0);
      return prime->fd < 0 ? -errno : 0;
    }
    case DRM_IOCTL_SYNCOBJ_CREATE: return (((struct drm_syncobj_create *)argument)->handle = new_syncobj()) ? 0 : -ENOMEM;
    case DRM_IOCTL_SYNCOBJ_DESTROY: return 0;
    case DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD: {
      struct drm_syncobj_handle *handle = argument;
      handle->fd = eventfd(1, EFD_CLOEXEC); /* readable, as a signalled fence is */
      return handle->fd < 0 ? -errno : 0;
    }
    case DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE: {
      struct drm_syncobj_handle *handle = argument;
      if (!(handle->flags & DRM_SYNCOBJ_FD_TO_HANDLE_FLAGS_IMPORT_SYNC_FILE)) handle->handle = new_syncobj();
      return 0;
    }
    case DRM_IOCTL_SYNCOBJ_WAIT: return ((struct drm_syncobj_wait *)argument)->first_signaled = 0;
    case DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT: return ((struct drm_syncobj_timeline_wait *)argument)->first_signaled = 0;
    case DRM_IOCTL_SYNCOBJ_RESET:
    case DRM_IOCTL_SYNCOBJ_SIGNAL: return 0;
    case DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL:
    case DRM_IOCTL_SYNCOBJ_QUERY: {
      struct drm_syncobj_timeline_array *array = argument;
      const uint32_t *handles = (const uint32_t *)(uintptr_t)array->handles;
      uint64_t *values = (uint64_t *)(uintptr_t)array->points;
      for (uint32_t i = 0; i < array->count_handles; i++)
        if (request == DRM_IOCTL_SYNCOBJ_QUERY) values[i] = handles[i] < MOST_SYNCOBJS ? points[handles[i]] : 0;
        else signal_syncobj(handles[i], values[i]);
      return 0;
    }
    case DRM_IOCTL_SYNCOBJ_TRANSFER: {
      struct drm_syncobj_transfer *transfer = argument;
      signal_syncobj(transfer->dst_handle, transfer->dst_point);
      return 0;
    }
    default: return -ENOTTY;
  }
}

/* Returns the handler of the driver that SHIM_DRIVER names. */
static Handler *driver(void) {
  static const struct {
    const char *name;
    Handler *answer;
  } known[] = {
      {"i915", handle_i915}, {"xe", handle_xe}, {"nouveau", handle_nouveau}, {"msm", handle_msm}, {"asahi", handle_asahi},
  };
  const char *name = getenv("SHIM_DRIVER");
  for (size_t i = 0; name && i < sizeof known / sizeof *known; i++)
    if (!strcmp(name, known[i].name)) return known[i].answer;
  return NULL;
}

int handle_ioctl(unsigned long request, void *argument) {
  unsigned number = _IOC_NR(request);
  Handler *own = driver();
  int result = -ENOTTY;
  if (_IOC_TYPE(request) == DRM_IOCTL_BASE) {
    if (number >= DRM_COMMAND_BASE && number < DRM_COMMAND_END && own)
      result = own(number - DRM_COMMAND_BASE, argument, _IOC_SIZE(request));
    else
      result = handle_core(request, argument);
  }
  log_line(result == -ENOTTY ? 1 : 2, "ioctl %s 0x%02x%s, %u bytes: %d", number >= DRM_COMMAND_BASE && number < DRM_COMMAND_END ? "driver" : "drm",
      number >= DRM_COMMAND_BASE && number < DRM_COMMAND_END ? number - DRM_COMMAND_BASE : number, result == -ENOTTY ? " UNKNOWN" : "",
      (unsigned)_IOC_SIZE(request), result);
  if (result < 0) {
    errno = result == -ENOTTY ? EINVAL : -result;
    return -1;
  }
  return result;
}
