/* Tensors on the GPU as inputs and outputs of runs: the device buffers that runs read and write instead of host memory. */
#include "core/tensor_blocks.h"

static bool covers(const tgi_tensor *one, tgi_range r) {
  return one->offset <= r.offset && r.offset + r.bytes <= one->offset + one->bytes;
}

static tg_buffer *make_buffer(tg_device *device, uint64_t bytes, uint32_t more) {
  tg_error ignored;
  return tg_buffer_create(device, bytes, TG_BUFFER_STORAGE | TG_BUFFER_COPY_SRC | TG_BUFFER_COPY_DST | more, TG_TENSOR,
                          &ignored);
}

static bool serves(const tg_buffer *buffer, const tg_device *device) {
  return buffer && buffer->device == device && atomic_load(&buffer->refs) == 1;
}

/* Returns a buffer of the tensor at this address that nobody else uses, or a new one; NULL where there is not enough memory. */
static tg_buffer *buffer_for(tg_device *device, const void *address, uint64_t bytes, uint32_t more) {
  tg_buffer *found = NULL;
  tgi_lock();
  const tgi_tensor *one = tgi_tensor_find(tgi_range_of(address, bytes), tgi_tensor_is_exact);
  if (one && serves(one->buffer, device)) found = one->buffer;
  else if (one && serves(one->spare, device)) found = one->spare;
  if (found) tgi_retain(found);
  tgi_unlock();
  return found ? found : make_buffer(device, bytes, more);
}

/* Keeps bytes of the host on the device, too, because a second run reads them. Returns NULL where that fails. */
static tg_buffer *upload(tg_device *device, void *address, uint64_t bytes) {
  tg_error ignored;
  tg_buffer *buffer = buffer_for(device, address, bytes, TG_BUFFER_FILL_FIRST);
  if (!buffer) return NULL;
  if (tg_buffer_write(buffer, 0, address, tgi_round_up(bytes, 4), &ignored) || tg_buffer_filled(buffer, NULL, &ignored)) {
    tg_buffer_release(buffer);
    return NULL;
  }
  tgi_tensors_moved(bytes, 0);
  tgi_tensor_set(address, bytes, (tgi_written){.on_host = true, .buffer = buffer});
  return buffer;
}

int tgi_tensor_input(tg_device *device, tg_port *port, tg_error *err) {
  void *address = port->host;
  bool again = false;
  tgi_lock();
  tgi_range r = tgi_range_of(address, port->bytes);
  tgi_tensor *one = tgi_tensor_find(r, covers);
  if (one) {
    port->offset = r.offset - one->offset;
    tgi_habit_note(one->habit, TGI_ON_DEVICE);
    if (one->on_device && one->buffer->device == device && port->offset % 4 == 0) tgi_retain(port->device = one->buffer);
    again = one->on_host && one->used && tgi_tensor_is_exact(one, r);
    one->used = true;
    if (one->lender && !one->replay) port->host = (uint8_t *)one->lender + port->offset;
  }
  tgi_unlock();
  if (!port->device && again) port->device = upload(device, address, port->bytes);
  return port->device || port->host != address ? 0 : tgi_tensor_settle(address, port->bytes, false, err);
}

/* Returns a staging buffer of the tensor at this address that is in no use, or NULL. */
static tg_buffer *find_staging(const tg_device *device, const void *address, uint64_t bytes) {
  tgi_lock();
  const tgi_tensor *one = tgi_tensor_find(tgi_range_of(address, bytes), tgi_tensor_is_exact);
  bool found = one && serves(one->staging, device) && !atomic_load(&one->staging->mapped);
  tg_buffer *staging = found ? one->staging : NULL;
  if (staging) tgi_retain(staging);
  tgi_unlock();
  return staging;
}

/* Keeps the staging buffer for the next readback of the tensor at this address. */
static void keep_staging(const void *address, uint64_t bytes, tg_buffer *staging) {
  tgi_lock();
  tgi_tensor *one = tgi_tensor_find(tgi_range_of(address, bytes), tgi_tensor_is_exact);
  tg_buffer *old = one ? one->staging : NULL;
  if (one && old != staging) tgi_retain(one->staging = staging);
  tgi_unlock();
  if (old != staging) tg_buffer_release(old);
}

static tgi_readback *make_readback(tg_device *device, const void *address, uint64_t bytes) {
  tg_error ignored;
  tg_buffer *staging = find_staging(device, address, bytes);
  if (!staging) staging = tgi_staging_create(device, bytes, WGPUBufferUsage_MapRead | WGPUBufferUsage_CopyDst, &ignored);
  tgi_readback *made = staging ? tgi_readback_create(staging, bytes) : NULL;
  tg_buffer_release(staging);
  return made;
}

/* Returns whether an output is the same tensor as an input of the run, in a buffer that nothing else uses: besides the tensor, only
 * the port of the input refers to it. Then the run replaces a part of it where it is. */
static bool is_in_place(const tg_port *past, const tg_port *port) {
  bool same = past && past->device && past->host == port->host && past->bytes == port->bytes && !past->offset;
  return same && atomic_load(&past->device->refs) == 2;
}

int tgi_tensor_output(tg_device *device, const tg_port *past, tgi_habit *habit, tg_port *port, tgi_readback **readback,
                      tg_error *err) {
  if (!port->bytes || !tgi_tensor_is_known(port->host)) return 0;
  int readers = tgi_habit_guess(habit);
  if (tgi_tensor_settle(port->host, port->bytes, true, err)) return 1;
  if (!(readers & (TGI_ON_DEVICE | TGI_LATER))) return 0;
  if (is_in_place(past, port)) tgi_retain(port->device = past->device);
  else port->device = buffer_for(device, port->host, port->bytes, 0);
  if (!port->device || readers & TGI_ON_HOST) return 0;
  if (readers & TGI_LATER) *readback = make_readback(device, port->host, port->bytes);
  port->host = NULL;
  return 0;
}

void tgi_tensor_wrote(void *address, const tg_port *port, tgi_habit *habit, tgi_readback *readback) {
  tgi_tensor_set(address, port->bytes, (tgi_written){.on_host = port->host != NULL, .buffer = port->device, .habit = habit,
                                                     .readback = readback});
  if (readback) keep_staging(address, port->bytes, tgi_readback_buffer(readback));
}

void tgi_tensor_stayed(void *address, uint64_t bytes, tgi_habit *habit) {
  tgi_lock();
  tgi_tensor *one = tgi_tensor_find(tgi_range_of(address, bytes), tgi_tensor_is_exact);
  if (one && !one->habit) tgi_habit_retain(one->habit = habit);
  tgi_unlock();
}

void tgi_tensor_leave(tg_port *port) {
  tg_buffer_release(port->device);
  port->device = NULL;
}
