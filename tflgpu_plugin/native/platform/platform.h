/* What differs between operating systems. No other folder names one. */
#ifndef TFLGPU_PLATFORM_H
#define TFLGPU_PLATFORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef _WIN32
typedef struct tgi_mutex {
  void *held;                      /* an SRWLOCK */
} tgi_mutex;
#define TGI_MUTEX {NULL}
#define TGI_PATH(text) L##text     /* as hosts take them */
#else
#include <pthread.h>
typedef pthread_mutex_t tgi_mutex;
#define TGI_MUTEX PTHREAD_MUTEX_INITIALIZER
#define TGI_PATH(text) text
#endif

/* ---- threads and time --------------------------------------------------------------------------------------------- */

void tgi_mutex_init(tgi_mutex *mutex);
void tgi_mutex_lock(tgi_mutex *mutex);
bool tgi_mutex_try(tgi_mutex *mutex); /* true: it is locked now */
void tgi_mutex_unlock(tgi_mutex *mutex);
void tgi_mutex_destroy(tgi_mutex *mutex);

uintptr_t tgi_thread(void);        /* of the thread that calls, among those that run */
void tgi_sleep(uint32_t microseconds);
void tgi_park(void);               /* this thread stays here for good */
typedef struct tgi_task {
  void (*work)(void *);
  void *given;
} tgi_task;
enum { TGI_STACK_BYTES = 16 << 20 };   /* of such threads: some systems give them too little for a compiler of shaders */
/* Run `work` on a new thread and wait for its end; false when no thread could be made. */
bool tgi_on_new_thread(void (*work)(void *), void *given);
/* Run `work`; false where a C++ exception of the host left it, which ends here. Where the system has no such thing, it goes on. */
bool tgi_attempt(void (*work)(void *), void *given);
uint64_t tgi_now(void);            /* nanoseconds of a clock that never goes back */

/* ---- the process ---------------------------------------------------------------------------------------------------- */

/* Call `handler` when the process ends, the newest first. True: this is a forked child that has to end at once, with the
 * exit status that it has; where the system does not tell that, the child goes on with the handlers of others. */
void tgi_at_exit(bool (*handler)(void));
bool tgi_exits_alone(void);        /* when these handlers run, the other threads are gone */
/* Around every fork, and in its child. */
void tgi_at_fork(void (*before)(void), void (*after)(void), void (*in_child)(void));

/* ---- libraries ------------------------------------------------------------------------------------------------------ */

/* The library at this path (UTF-8), for good; NULL with a reason. */
void *tgi_load(const char *path, char *reason, size_t size);
void *tgi_symbol(void *library, const char *name);
/* The path (UTF-8) of the library that has this code, "" where the system does not tell. */
void tgi_library_of(const void *code, char *path, size_t size);
void *tgi_process_symbol(const char *name);  /* whichever library of the process has it */

/* ---- memory that may not be there --------------------------------------------------------------------------------- */

typedef struct tgi_probe {
  int ends[2];                     /* of a pipe, where one is needed */
} tgi_probe;

bool tgi_probe_open(tgi_probe *probe);
/* Copy what lies at `from` up to the end of its page, `most` bytes at most; returns how many there were. */
size_t tgi_probe_copy(const tgi_probe *probe, const void *from, void *to, size_t most);
void tgi_probe_close(tgi_probe *probe);

#endif
