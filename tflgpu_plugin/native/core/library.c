/* Binding to the loaded wgpu library, its log, the gate for exit and fork, error text, and copying. */
#include <stdarg.h>

#include "core/internal.h"

tgi_wgpu_table tgi_wgpu;

uint32_t tg_abi_version(void) { return 4; }

int64_t tg_next_number(void) {
  static atomic_llong last;
  return (int64_t)atomic_fetch_add(&last, 1) + 1;
}

static tgi_mutex short_lock = TGI_MUTEX;

void tgi_lock(void) { tgi_mutex_lock(&short_lock); }
void tgi_unlock(void) { tgi_mutex_unlock(&short_lock); }

/* ---- error text --------------------------------------------------------------------------------------------------- */

int tgi_fail(tg_error *err, const char *format, ...) {
  if (err) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(err->text, sizeof err->text, format, arguments);
    va_end(arguments);
  }
  return 1;
}

static bool is_scaffolding(const char *line, size_t length) {
  static const char *const prefixes[] = {"Validation Error", "Caused by:", "In wgpu", "In a "};
  for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
    size_t n = strlen(prefixes[i]);
    if (length >= n && !memcmp(line, prefixes[i], n)) return true;
  }
  return length == 0;
}

void tgi_readable(WGPUStringView message, char *text, size_t size) {
  const char *at = message.data ? message.data : "";
  size_t left = message.length == WGPU_STRLEN ? strlen(at) : message.length;
  size_t used = 0;
  while (left && used + 4 < size) {
    const char *newline = memchr(at, '\n', left);
    size_t length = newline ? (size_t)(newline - at) : left, skip = length + (newline ? 1 : 0);
    const char *line = at;
    while (length && (*line == ' ' || *line == '\t')) line++, length--;
    while (length && (line[length - 1] == ' ' || line[length - 1] == '\r')) length--;
    if (!is_scaffolding(line, length)) {
      if (used) text[used++] = ' ';
      for (size_t i = 0; i < length && used + 1 < size; i++)
        if (line[i] != ' ' || text[used - 1] != ' ') text[used++] = line[i];
    }
    at += skip;
    left -= skip;
  }
  text[used] = 0;
}

/* ---- log ring ----------------------------------------------------------------------------------------------------- */

/* wgpu logs from any thread, also from ones that hold locks of its own; a Python callback there would need the GIL. */
static struct {
  size_t start, used;
  char text[16384];
} ring;

static void ring_put(char c) {
  ring.text[(ring.start + ring.used) % sizeof ring.text] = c;
  if (ring.used < sizeof ring.text) ring.used++;
  else ring.start = (ring.start + 1) % sizeof ring.text;
}

void tgi_log(const char *text, size_t length) {
  tgi_lock();
  for (size_t i = 0; i < length; i++) ring_put(text[i]);
  ring_put('\n');
  tgi_unlock();
}

static void on_log(WGPULogLevel level, WGPUStringView message, void *unused) {
  if (level > WGPULogLevel_Warn || !message.data) return;
  tgi_log(message.data, message.length == WGPU_STRLEN ? strlen(message.data) : message.length);
}

void tgi_take_over_log(void) { W(SetLogCallback)(on_log, NULL); }

size_t tg_take_log(char *text, size_t size) {
  tgi_lock();
  size_t count = ring.used < size ? ring.used : size;
  size_t first = ring.start + ring.used - count;
  for (size_t i = 0; i < count; i++) text[i] = ring.text[(first + i) % sizeof ring.text];
  ring.used = 0;
  tgi_unlock();
  return count;
}

/* ---- the gate ----------------------------------------------------------------------------------------------------- */

static const char FORKED[] = "This process was forked after the GPU was opened, or while it was; a GPU cannot be shared across a "
                             "fork. Start the process with the spawn method, or load delegates and make sessions only after "
                             "the fork.";

enum { OPEN, CLOSING, GONE };      /* GONE: exit handlers of the driver may have run, so wgpu must not be called */

static atomic_int gate = OPEN;
static atomic_int in_flight;
static atomic_bool child, opened, forked;   /* a child of a fork; the GPU was opened; both in this order */
static atomic_int busy;            /* calls of our Python code: they may hold locks, which a forked child would wait for */
static atomic_ullong closer;       /* the thread that exits the process; written before CLOSING */

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
  return false;                    /* leaks, on purpose: the process ends */
}

void tgi_leave_release(void) { atomic_fetch_sub(&in_flight, 1); }

/* When the process exits, a thread that returned to its host would run host and Python code while these are taken down
 * (CPython ends such a thread with pthread_exit, which aborts in C++ hosts). It is parked; exit does not wait for it. */
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

/* A driver joins its threads when a process exits, but a forked child does not have them: Mesa crashes there. So the
 * child ends here; Python's own exit handlers have run already. */
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

/* ---- binding ------------------------------------------------------------------------------------------------------ */

static int resolve(void *library, const char *path, tgi_wgpu_table *table, tg_error *err) {
#define TGI_RESOLVE(name)                                               \
  if (!(*(void **)(void *)&table->name = tgi_symbol(library, "wgpu" #name))) \
    return tgi_fail(err, "%s has no function wgpu" #name "; install wgpu>=0.32,<0.33.", path);
  TGI_WGPU_FUNCTIONS(TGI_RESOLVE)
#undef TGI_RESOLVE
  return 0;
}

int tg_bind_wgpu(const char *path, tg_error *err) {
  static tgi_mutex lock = TGI_MUTEX;
  static bool bound;
  int status = 0;
  tgi_mutex_lock(&lock);
  if (!bound) {
    tgi_wgpu_table table;
    char reason[512];
    void *library = tgi_load(path, reason, sizeof reason);
    if (!library) status = tgi_fail(err, "%s cannot be loaded: %s", path, reason);
    else status = resolve(library, path, &table, err);
    if (!status) {
      tgi_wgpu = table;
      tgi_take_over_log();
      bound = true;
    }
  }
  tgi_mutex_unlock(&lock);
  return status;
}
