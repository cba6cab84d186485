/* Linux and macOS. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "platform/glibc.h"
#include "platform/platform.h"

void tgi_mutex_init(tgi_mutex *mutex) { pthread_mutex_init(mutex, NULL); }
void tgi_mutex_lock(tgi_mutex *mutex) { pthread_mutex_lock(mutex); }
bool tgi_mutex_try(tgi_mutex *mutex) { return !pthread_mutex_trylock(mutex); }
void tgi_mutex_unlock(tgi_mutex *mutex) { pthread_mutex_unlock(mutex); }
void tgi_mutex_destroy(tgi_mutex *mutex) { pthread_mutex_destroy(mutex); }

uintptr_t tgi_thread(void) { return (uintptr_t)pthread_self(); }

void tgi_sleep(uint32_t microseconds) {
  nanosleep(&(struct timespec){microseconds / 1000000, microseconds % 1000000 * 1000L}, NULL);
}

void tgi_park(void) {
  for (;;) pause();
}

static void *run_task(void *given) {
  const tgi_task *one = given;
  one->work(one->given);
  return NULL;
}

bool tgi_on_new_thread(void (*work)(void *), void *given) {
  tgi_task one = {work, given};
  pthread_attr_t attributes;
  pthread_t thread;
  if (pthread_attr_init(&attributes)) return false;
  bool made = !pthread_attr_setstacksize(&attributes, TGI_STACK_BYTES) && !pthread_create(&thread, &attributes, run_task, &one);
  pthread_attr_destroy(&attributes);
  if (made) pthread_join(thread, NULL);
  return made;
}

/* A frame that catches exceptions of the host's C++ code, whichever C++ runtimes the process has: the unwinder calls the
 * personality function of each frame (Itanium C++ ABI: Exception Handling, 1.3 and 1.6.3), and ours frees the exception and
 * jumps. */
#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))
typedef struct attempt {
  jmp_buf start;
  struct attempt *outer;
} attempt;
typedef struct exception {
  uint64_t kind;
  void (*free)(int reason, struct exception *thrown);
} exception;
enum { SEARCH = 1, HANDLER = 4, FORCED = 8 };           /* actions */
enum { CAUGHT = 1, FOUND = 6, CONTINUE = 8 };           /* reason codes */

static _Thread_local attempt *innermost;

int tgi_personality(int version, int actions, uint64_t kind, exception *thrown, void *context) {
  if (actions & FORCED) return CONTINUE;                 /* the thread ends */
  if (actions & SEARCH) return FOUND;
  if (!(actions & HANDLER)) return CONTINUE;
  if (thrown->free) thrown->free(CAUGHT, thrown);
  longjmp(innermost->start, 1);
}

static __attribute__((noinline)) void run_guarded(void (*work)(void *), void *given) {
  __asm__ volatile(".cfi_personality 0x1b, tgi_personality");
  work(given);
  __asm__ volatile("");                                  /* prevents a tail call */
}

bool tgi_attempt(void (*work)(void *), void *given) {
  attempt one = {.outer = innermost};
  bool thrown = true;
  innermost = &one;
  if (!setjmp(one.start)) {
    run_guarded(work, given);
    thrown = false;
  }
  innermost = one.outer;
  return !thrown;
}
#else
bool tgi_attempt(void (*work)(void *), void *given) {
  work(given);
  return true;
}
#endif

uint64_t tgi_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Set by each thread that opens a device. */
static bool (*_Atomic at_exit)(void);

#ifdef __GLIBC__
static void on_status(int status, void *unused) {
  if (!atomic_load(&at_exit)()) return;
  fflush(NULL);
  _exit(status);
}
#else
static void on_plain_exit(void) { atomic_load(&at_exit)(); }
#endif

void tgi_at_exit(bool (*handler)(void)) {
  atomic_store(&at_exit, handler);
#ifdef __GLIBC__
  on_exit(on_status, NULL);
#else
  atexit(on_plain_exit);
#endif
}

bool tgi_exits_alone(void) { return false; }

void tgi_at_fork(void (*before)(void), void (*after)(void), void (*in_child)(void)) {
  pthread_atfork(before, after, in_child);
}

void *tgi_load(const char *path, char *reason, size_t size) {
  void *library = dlopen(path, RTLD_NOW);
  if (!library) snprintf(reason, size, "%s", dlerror());
  return library;
}

void *tgi_symbol(void *library, const char *name) { return dlsym(library, name); }

void tgi_library_of(const void *code, char *path, size_t size) {
  Dl_info info;
  snprintf(path, size, "%s", dladdr(code, &info) && info.dli_fname ? info.dli_fname : "");
}

void *tgi_process_symbol(const char *name) { return dlsym(RTLD_DEFAULT, name); }

void *tgi_shared_alloc(size_t bytes) { return malloc(bytes); }
void tgi_shared_free(void *memory) { free(memory); }

/* The kernel copies the memory into a pipe: for an invalid address it returns an error instead of ending the process. */
bool tgi_probe_open(tgi_probe *probe) {
#ifdef __linux__
  return !pipe2(probe->ends, O_CLOEXEC);
#else
  if (pipe(probe->ends)) return false;
  for (int i = 0; i < 2; i++) fcntl(probe->ends[i], F_SETFD, FD_CLOEXEC);
  return true;
#endif
}

size_t tgi_probe_copy(const tgi_probe *probe, const void *from, void *to, size_t most) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), here = page - (uintptr_t)from % page;
  ssize_t sent = write(probe->ends[1], from, here < most ? here : most);
  ssize_t got = sent > 0 ? read(probe->ends[0], to, (size_t)sent) : 0;
  return got > 0 ? (size_t)got : 0;
}

void tgi_probe_close(tgi_probe *probe) {
  close(probe->ends[0]);
  close(probe->ends[1]);
}
