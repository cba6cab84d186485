/* An output on its way to the host while nobody waits for it. */
#include "core/tensors.h"

struct tgi_readback {
  atomic_size_t refs;
  tg_buffer *buffer;
  tgi_mapping mapping;
  tgi_mutex lock;
  tgi_ticket ticket;               /* under lock; nothing is mapped before the run has submitted, nor after it was taken */
  bool taken;                      /* under lock */
};

tgi_readback *tgi_readback_create(tg_buffer *buffer, uint64_t bytes) {
  tg_error ignored;
  tgi_readback *made = calloc(1, sizeof *made);
  if (!made) return NULL;
  made->refs = 1;
  made->mapping = (tgi_mapping){buffer, bytes, WGPUMapMode_Read};
  if (tgi_ticket_make(&made->ticket, &made->mapping, 1, &ignored)) {
    free(made);
    return NULL;
  }
  tgi_retain(made->buffer = buffer);
  tgi_mutex_init(&made->lock);
  return made;
}

void tgi_readback_retain(tgi_readback *readback) { tgi_retain(readback); }

void tgi_readback_release(tgi_readback *readback) {
  if (!readback || atomic_fetch_sub(&readback->refs, 1) != 1) return;
  tgi_ticket_drop(&readback->ticket);
  tg_buffer_release(readback->buffer);
  tgi_mutex_destroy(&readback->lock);
  free(readback);
}

tg_buffer *tgi_readback_buffer(const tgi_readback *readback) { return readback->buffer; }

void tgi_readback_start(tgi_readback *readback, WGPUSubmissionIndex index) { tgi_ticket_start(&readback->ticket, index); }

/* With its lock held. */
static int take(tgi_readback *readback, void *to, tg_error *err) {
  tg_device *device = readback->buffer->device;
  if (readback->taken) return 0;
  if (!readback->ticket.mapped) return tgi_unreadable(device, err);   /* an earlier reader has failed */
  if (tgi_check_alive(device, err) || tgi_collect(device, &readback->ticket, err)) return 1;
  readback->taken = !tgi_take(readback->buffer, to, readback->mapping.bytes, err);
  return !readback->taken;
}

int tgi_readback_take(tgi_readback *readback, void *to, tg_error *err) {
  if (tgi_enter(err)) return 1;
  tgi_mutex_lock(&readback->lock);
  int failed = take(readback, to, err);
  tgi_mutex_unlock(&readback->lock);
  tgi_leave();
  return failed;
}
