/* Submitting commands, waiting for them, and mapped buffers. */
#include "core/internal.h"

enum {
  ALONE = 8,                       /* submissions in a row by one thread, after which no other one is expected */
  SHORTEST_SLEEP = 20, LONGEST_SLEEP = 1000        /* microseconds */
};

/* Buffers that are being mapped. */
typedef struct tgi_mapped {
  atomic_size_t refs;              /* of the thread that waits, and of each callback that is to come */
  atomic_size_t waiting;
  atomic_bool failed;
  char text[512];                  /* why the first one failed */
  size_t count;
  const tgi_mapping *mappings;     /* owned by the thread that waits */
  atomic_int status[];
} tgi_mapped;

static void release(tgi_mapped *mapped) {
  if (mapped && atomic_fetch_sub(&mapped->refs, 1) == 1) free(mapped);
}

static void on_mapped(WGPUMapAsyncStatus status, WGPUStringView message, void *data, void *place) {
  tgi_mapped *mapped = data;
  if (status != WGPUMapAsyncStatus_Success && !atomic_exchange(&mapped->failed, true))
    tgi_readable(message, mapped->text, sizeof mapped->text);
  atomic_store((atomic_int *)place, (int)status);
  atomic_fetch_sub(&mapped->waiting, 1);
  release(mapped);
}

int tgi_ticket_make(tgi_ticket *ticket, const tgi_mapping *mappings, size_t count, tg_error *err) {
  *ticket = (tgi_ticket){0};
  if (!count) return 0;
  tgi_mapped *mapped = ticket->mapped = calloc(1, sizeof *mapped + count * sizeof mapped->status[0]);
  if (!mapped) return tgi_no_memory(err, "a GPU run");
  mapped->refs = 1;
  mapped->waiting = mapped->count = count;
  mapped->mappings = mappings;
  return 0;
}

void tgi_ticket_drop(tgi_ticket *ticket) {
  release(ticket->mapped);
  ticket->mapped = NULL;
}

void tgi_ticket_start(tgi_ticket *ticket, WGPUSubmissionIndex index) {
  tgi_mapped *mapped = ticket->mapped;
  ticket->index = index;
  for (size_t i = 0; mapped && i < mapped->count; i++) {
    atomic_fetch_add(&mapped->refs, 1);
    const tgi_mapping *one = &mapped->mappings[i];
    atomic_store(&one->buffer->mapped, true);
    W(BufferMapAsync)
    (one->buffer->wgpu, one->mode, 0, tgi_round_up(one->bytes, 4),
     (WGPUBufferMapCallbackInfo){.mode = WGPUCallbackMode_AllowSpontaneous,
                                 .callback = on_mapped,
                                 .userdata1 = mapped,
                                 .userdata2 = &mapped->status[i]});
  }
}

WGPUCommandBuffer tgi_finish(tg_device *device, WGPUCommandEncoder encoder, unsigned mark, tg_error *err) {
  WGPUCommandBuffer commands = W(CommandEncoderFinish)(encoder, NULL);
  W(CommandEncoderRelease)(encoder);
  int failed = tgi_scope_end(device, mark, "Encoding a GPU run", err);
  if (!failed || !commands) return commands;
  W(CommandBufferRelease)(commands);
  return NULL;
}

/* Submissions are done in the order of their numbers. */
static void on_done(WGPUQueueWorkDoneStatus status, WGPUStringView message, void *data, void *index) {
  tgi_fate *fate = data;
  unsigned long long done = atomic_load(&fate->done), mine = (uintptr_t)index;
  while (done < mine && !atomic_compare_exchange_weak(&fate->done, &done, mine)) continue;
}

static void note_submission(tg_device *device, WGPUSubmissionIndex index) {
  uintptr_t thread = tgi_thread();
  if (device->submitter != thread) atomic_store(&device->in_a_row, 0);
  device->submitter = thread;
  atomic_fetch_add(&device->in_a_row, 1);
  device->unflushed = 0;
  W(QueueOnSubmittedWorkDone)
  (device->queue, (WGPUQueueWorkDoneCallbackInfo){.mode = WGPUCallbackMode_AllowSpontaneous,
                                                  .callback = on_done,
                                                  .userdata1 = device->fate,
                                                  .userdata2 = (void *)(uintptr_t)index});
}

int tgi_queue(tg_device *device, const WGPUCommandBuffer *commands, WGPUSubmissionIndex *index, tg_error *err) {
  if (!tgi_is_alive(device)) return tgi_lost(err);
  *index = W(QueueSubmitForIndex)(device->queue, commands ? 1 : 0, commands);
  note_submission(device, *index);
  return 0;
}

int tgi_submit(tg_device *device, WGPUCommandBuffer commands, const tgi_mapping *mappings, size_t count, tgi_ticket *ticket,
               tg_error *err) {
  WGPUSubmissionIndex index;
  if (!commands) return 1;
  int failed = tgi_ticket_make(ticket, mappings, count, err) || tgi_queue(device, &commands, &index, err);
  W(CommandBufferRelease)(commands);
  if (failed) tgi_ticket_drop(ticket);
  else tgi_ticket_start(ticket, index);
  return failed;
}

/* Polls the device at intervals that grow with the time that has passed. */
static void watch(tg_device *device, WGPUSubmissionIndex index) {
  uint64_t start = tgi_now();
  for (;;) {
    W(DevicePoll)(device->wgpu, false, NULL);
    if (atomic_load(&device->fate->done) >= index) return;
    uint64_t passed = (tgi_now() - start) / 8000;
    if (passed >= LONGEST_SLEEP && tgi_check_alive(device, NULL)) return;
    tgi_sleep(passed < SHORTEST_SLEEP ? SHORTEST_SLEEP : passed < LONGEST_SLEEP ? (uint32_t)passed : LONGEST_SLEEP);
  }
}

/* While a thread waits in wgpu, no other one can submit: so the GPU would have nothing to do between their runs. */
void tgi_wait(tg_device *device, WGPUSubmissionIndex index) {
  if (tgi_is_known_lost(device) || atomic_load(&device->fate->done) >= index) return;
  if (atomic_load(&device->in_a_row) < ALONE) watch(device, index);
  else W(DevicePoll)(device->wgpu, true, &index);
}

/* Unmaps all buffers where one could not be mapped. */
static int finish_mapping(tgi_mapped *mapped, tg_error *err) {
  bool failed = atomic_load(&mapped->failed);
  for (size_t i = 0; i < mapped->count; i++) {
    if (atomic_load(&mapped->status[i]) != (int)WGPUMapAsyncStatus_Success)
      atomic_store(&mapped->mappings[i].buffer->mapped, false);
    else if (failed)
      tgi_give_back(mapped->mappings[i].buffer);
  }
  return failed ? tgi_fail(err, "The results could not be read back: %s", mapped->text) : 0;
}

int tgi_collect(tg_device *device, tgi_ticket *ticket, tg_error *err) {
  tgi_mapped *mapped = ticket->mapped;
  tgi_wait(device, ticket->index);
  /* Another thread's poll may have taken our callback and be about to call it. */
  int failed = 0;
  while (atomic_load(&mapped->waiting)) {
    if ((failed = tgi_check_alive(device, err))) break;
    W(DevicePoll)(device->wgpu, false, NULL);
    tgi_sleep(SHORTEST_SLEEP);
  }
  failed = failed || finish_mapping(mapped, err);
  tgi_ticket_drop(ticket);
  return failed;
}

void *tgi_mapped_range(tg_buffer *buffer, WGPUMapMode mode, uint64_t bytes) {
  void *data = NULL;
  tgi_device_lock(buffer->device);
  if (tgi_is_alive(buffer->device))
    data = mode == WGPUMapMode_Read ? (void *)W(BufferGetConstMappedRange)(buffer->wgpu, 0, tgi_round_up(bytes, 4))
                                    : W(BufferGetMappedRange)(buffer->wgpu, 0, tgi_round_up(bytes, 4));
  tgi_device_unlock(buffer->device);
  return data;
}

int tgi_take(tg_buffer *buffer, void *host, uint64_t bytes, tg_error *err) {
  const void *data = tgi_mapped_range(buffer, WGPUMapMode_Read, bytes);
  if (data) memcpy(host, data, bytes);
  tgi_give_back(buffer);
  return data ? 0 : tgi_unreadable(buffer->device, err);
}

int tgi_unreadable(tg_device *device, tg_error *err) {
  if (tgi_is_known_lost(device)) return tgi_lost(err);
  return tgi_fail(err, "The results could not be read back: they are not mapped.");
}

void tgi_unmap(tg_buffer *buffer) {
  W(BufferUnmap)(buffer->wgpu);
  atomic_store(&buffer->mapped, false);
}

void tgi_give_back(tg_buffer *buffer) {
  tgi_device_lock(buffer->device);
  tgi_unmap(buffer);
  tgi_device_unlock(buffer->device);
}
