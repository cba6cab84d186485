/* The gate through which every use of the GPU goes: it is closed when the process exits, and in forked children. Also the lock of
 * small tables, and unique numbers. */
#include "core/internal.h"

uint32_t tg_abi_version(void) { return 7; }

int64_t tg_next_number(void) {
  static atomic_llong last;
  return (int64_t)atomic_fetch_add(&last, 1) + 1;
}

static tgi_mutex short_lock = TGI_MUTEX;

void tgi_lock(void) { tgi_mutex_lock(&short_lock); }
void tgi_unlock(void) { tgi_mutex_unlock(&short_lock); }

static const char FORKED[] = "This process was forked after the GPU was opened, or while it was; a GPU cannot be shared across a "
                             "fork. Start the process with the spawn method, or load delegates and make sessions only after "
                             "the fork.";

enum { OPEN, CLOSING, GONE };      /* GONE: the driver's exit handlers may have run, so wgpu must not be called */

static atomic_int gate = OPEN;
static atomic_int in_flight;
static atomic_bool child, opened, forked;   /* a child of a fork; the GPU was opened; the child comes after that */
static atomic_int busy;            /* calls of our Python code, which may hold locks that a forked child would wait for */
static atomic_ullong closer;       /* the thread that exits the process; set before CLOSING */

bool tgi_is_forked(void) { return atomic_load(&forked); }
int tg_is_forked(tg_error *err) { return tgi_is_forked() ? tgi_fail(err, "%s", FORKED) : 0; }
void tg_busy(int change) { atomic_fetch_add(&busy, change); }
bool tgi_is_open(void) { return atomic_load(&gate) == OPEN && !atomic_load(&child); }

static bool is_closer(void) { return tg_caller_thread() == atomic_load(&closer); }

bool tgi_enter_release(void) {
  if (atomic_load(&forked)) return false;
  atomic_fetch_add(&in_flight, 1);
  int state = atomic_load(&gate);
  if (state == OPEN || (state == CLOSING && is_closer())) return true;
  atomic_fetch_sub(&in_flight, 1);
  return false;                    /* the caller leaks on purpose: the process ends */
}

void tgi_leave_release(void) { atomic_fetch_sub(&in_flight, 1); }

/* When the process exits, a thread that returned to its host would run host and Python code while these are destroyed
 * (CPython ends such a thread with pthread_exit, which aborts in C++ hosts). So it is parked; exit does not wait for it. */
int tgi_enter(tg_error *err) {
  if (tg_is_forked(err)) return 1;
  if (tgi_enter_release()) return 0;
  if (!is_closer()) tgi_park();
  return tgi_fail(err, "The process is exiting; the GPU is closed.");
}

void tgi_leave(void) {
  bool caught = atomic_load(&gate) != OPEN && !is_closer();
  atomic_fetch_sub(&in_flight, 1);
  if (caught) tgi_park();
}

void tg_close(void) {
  if (atomic_load(&forked)) return;
  atomic_store(&closer, tg_caller_thread());
  int expected = OPEN;
  atomic_compare_exchange_strong(&gate, &expected, CLOSING);
  for (int i = 0; atomic_load(&in_flight) > 0 && i < 10000; i++) tgi_sleep(1000);
}

/* A driver joins its threads when a process exits; a forked child does not have them, and Mesa crashes there. So the child
 * ends here; Python's own exit handlers have run already. */
static bool at_exit(void) {
  if (atomic_load(&forked)) return true;
  if (!tgi_exits_alone()) tg_close();
  atomic_store(&gate, GONE);
  return false;
}

void tgi_register_exit(void) {
  atomic_store(&opened, true);
  tgi_at_exit(at_exit);
}

static void in_child(void) {
  tgi_unlock();
  atomic_store(&child, true);
  if (atomic_load(&opened) || atomic_load(&busy)) atomic_store(&forked, true);
}

__attribute__((constructor)) static void on_load(void) { tgi_at_fork(tgi_lock, tgi_unlock, in_child); }
