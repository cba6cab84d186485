/* Runs work for a host's thread on a helper thread, and reports which host thread it is working for. */
#include "core/internal.h"

/* A thread that called into a host, for which a helper thread works. */
typedef struct caller {
  uintptr_t thread;
  int64_t number;
} caller;

static _Thread_local caller own;   /* this thread as a caller; number 0 before the first use */
static _Thread_local const caller *working_for;   /* NULL on a host's threads */

static const caller *present_caller(void) {
  static atomic_llong last;
  if (working_for) return working_for;
  if (!own.number) own = (caller){tgi_thread(), (int64_t)atomic_fetch_add(&last, 1) + 1};
  return &own;
}

uint64_t tg_caller_thread(void) { return present_caller()->thread; }
int64_t tg_caller_number(void) { return present_caller()->number; }

/* Python's functions for a wait without its lock (the GIL). They are looked up, because Python is not linked. */
typedef struct python_lock {
  void *(*current)(void), *(*of_this_thread)(void), *(*release)(void);
  void (*acquire)(void *);
} python_lock;

static bool find_lock(python_lock *lock) {
  *(void **)(void *)&lock->current = tgi_process_symbol("_PyThreadState_UncheckedGet");
  if (!lock->current) *(void **)(void *)&lock->current = tgi_process_symbol("PyThreadState_GetUnchecked");
  *(void **)(void *)&lock->of_this_thread = tgi_process_symbol("PyGILState_GetThisThreadState");
  *(void **)(void *)&lock->release = tgi_process_symbol("PyEval_SaveThread");
  *(void **)(void *)&lock->acquire = tgi_process_symbol("PyEval_RestoreThread");
  return lock->current && lock->of_this_thread && lock->release && lock->acquire;
}

/* Gives up Python's lock if this thread has it; returns what take_lock needs, NULL without the lock. */
static void *give_up_lock(const python_lock *lock) {
  void *state = lock->current();
  return state && state == lock->of_this_thread() ? lock->release() : NULL;
}

static void take_lock(const python_lock *lock, void *state) {
  if (state) lock->acquire(state);
}

void tgi_without_python(void (*work)(void *), void *call) {
  python_lock lock;
  bool found = find_lock(&lock);
  void *state = found ? give_up_lock(&lock) : NULL;
  work(call);
  if (found) take_lock(&lock, state);
}

typedef struct task {
  void (*work)(void *);
  void *call;
  const caller *caller;
  bool done;
} task;

static void run_task(void *given) {
  task *one = given;
  working_for = one->caller;
  one->work(one->call);
  one->done = true;
}

void tgi_run_on_helper(void (*work)(void *), void *call) {
  python_lock lock;
  task one = {work, call, present_caller(), false};
  if (working_for || !find_lock(&lock)) {
    work(call);
    return;
  }
  void *state = give_up_lock(&lock);
  bool ran = tgi_on_new_thread(run_task, &one);
  if (ran && !one.done) tgi_park();
  take_lock(&lock, state);
  if (!ran) work(call);
}
