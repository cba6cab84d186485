/* Everything that differs between operating systems. No other folder names one. */
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
#define TGI_PATH(text) L##text     /* a path as hosts expect it */
#else
#include <pthread.h>
typedef pthread_mutex_t tgi_mutex;
#define TGI_MUTEX PTHREAD_MUTEX_INITIALIZER
#define TGI_PATH(text) text
#endif

/* ---- threads and time --------------------------------------------------------------------------------------------- */

void tgi_mutex_init(tgi_mutex *mutex);
void tgi_mutex_lock(tgi_mutex *mutex);
bool tgi_mutex_try(tgi_mutex *mutex); /* locks the mutex if it is free; returns whether it did */
void tgi_mutex_unlock(tgi_mutex *mutex);
void tgi_mutex_destroy(tgi_mutex *mutex);

uintptr_t tgi_thread(void);        /* the present thread, unique among running threads */
void tgi_sleep(uint32_t microseconds);
void tgi_park(void);               /* never returns */
typedef struct tgi_task {
  void (*work)(void *);
  void *given;
} tgi_task;
enum { TGI_STACK_BYTES = 16 << 20 };   /* of new threads: the default of some systems is too small for a shader compiler */
/* Runs `work` on a new thread and waits for its end; returns false when no thread could be made. */
bool tgi_on_new_thread(void (*work)(void *), void *given);
/* Runs `work`; returns false where it throws a C++ exception, which is caught where the system allows that. */
bool tgi_attempt(void (*work)(void *), void *given);
uint64_t tgi_now(void);            /* nanoseconds of a monotonic clock */

/* ---- the process ---------------------------------------------------------------------------------------------------- */

/* Calls `handler` when the process exits, the newest first. If it returns true, this is a forked child, which ends at once with
 * its exit status; where the system does not pass the status, the child goes on with the other handlers. */
void tgi_at_exit(bool (*handler)(void));
bool tgi_exits_alone(void);        /* whether the other threads are gone when these handlers run */
/* Calls these before and after every fork, and in its child; NULL for none. */
void tgi_at_fork(void (*before)(void), void (*after)(void), void (*in_child)(void));

/* ---- libraries ------------------------------------------------------------------------------------------------------ */

/* Loads the library at this path (UTF-8) for good; returns NULL with a reason. */
void *tgi_load(const char *path, char *reason, size_t size);
void *tgi_symbol(void *library, const char *name);
/* Writes the path (UTF-8) of the library that contains this code, "" where it is not known. */
void tgi_library_of(const void *code, char *path, size_t size);
void *tgi_process_symbol(const char *name);  /* from any library of the process */

/* ---- memory that crosses libraries -------------------------------------------------------------------------------- */

/* Memory that this library allocates and a host frees, or the other way round: from the heap that their C runtimes share. */
void *tgi_shared_alloc(size_t bytes);
void tgi_shared_free(void *memory);

/* ---- memory that may be invalid ----------------------------------------------------------------------------------- */

typedef struct tgi_probe {
  int ends[2];                     /* of a pipe, on systems that need one */
} tgi_probe;

bool tgi_probe_open(tgi_probe *probe);
/* Copies up to `most` bytes from `from`, not beyond the end of its page; returns how many could be read. */
size_t tgi_probe_copy(const tgi_probe *probe, const void *from, void *to, size_t most);
void tgi_probe_close(tgi_probe *probe);

#endif
