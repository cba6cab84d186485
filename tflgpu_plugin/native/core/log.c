/* Messages for Python's `logging`: from wgpu, about a lost device, and of errors that no error scope caught.
 *
 * wgpu logs from any thread, even while it holds its own locks, where a call into Python would wait for the GIL. So messages
 * are kept here until Python takes them; a host's call that leaves some asks Python to do so when it holds no lock. */
#include <stdarg.h>

#include "core/internal.h"

static struct {                    /* under tgi_lock */
  size_t used;
  unsigned dropped;                /* messages that found no room */
  char text[TG_LOG_BYTES - 64];    /* for each message the digit of its level, its text and a zero byte */
} kept;
static atomic_bool pending;        /* there are messages */

void tgi_log(tgi_level level, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  tgi_lock();
  char *message = kept.text + kept.used;
  size_t room = sizeof kept.text - kept.used;
  size_t bytes = room > 1 ? (size_t)vsnprintf(message + 1, room - 1, format, arguments) + 2 : SIZE_MAX;
  if (bytes <= room) {
    message[0] = (char)('0' + level);
    kept.used += bytes;
  } else {
    kept.dropped++;
  }
  tgi_unlock();
  va_end(arguments);
  atomic_store(&pending, true);
}

void tgi_on_log(WGPULogLevel level, WGPUStringView message, void *unused) {
  char text[1024];
  if (level > WGPULogLevel_Warn) return;
  tgi_readable(message, text, sizeof text);
  tgi_log(level == WGPULogLevel_Error ? TGI_ERROR : TGI_WARNING, "wgpu: %s", text);
}

int tg_has_log(void) { return atomic_load(&pending) && !tgi_is_forked(); }

size_t tg_take_log(char *text) {
  atomic_store(&pending, false);
  tgi_lock();
  size_t used = kept.used;
  memcpy(text, kept.text, used);
  if (kept.dropped)
    used += (size_t)snprintf(text + used, TG_LOG_BYTES - used, "%d%u more messages of the GPU were dropped.", TGI_WARNING,
                             kept.dropped) + 1;
  kept.used = kept.dropped = 0;
  tgi_unlock();
  return used;
}

static void (*table)(void);
static tgi_python python = {&table, sizeof table, "", "import tflgpu_plugin", false, 0};

void tg_set_log_callback(void (*take)(void)) { tgi_python_set(&python, take ? &take : NULL); }

static void deliver(void *take) { (*(void (**)(void))take)(); }

void tgi_log_deliver(void) {
  tg_error ignored;
  void (*take)(void);
  if (tg_has_log()) tgi_python_call(&python, &take, deliver, &take, &ignored);
}

/* A child of a fork does not log the messages of its parent. It has only this thread, so it needs no lock. */
static void forget(void) {
  kept.used = kept.dropped = 0;
  atomic_store(&pending, false);
}

__attribute__((constructor)) static void on_load(void) { tgi_at_fork(NULL, NULL, forget); }
