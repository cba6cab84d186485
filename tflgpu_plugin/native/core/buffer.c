/* Device buffers. */
#include "core/internal.h"

/* Writes are submitted after this many bytes, because wgpu keeps a staging copy of them until they are submitted. */
static const uint64_t flush_bytes = (uint64_t)4 << 20;

static WGPUBufferUsage native_usage(const tg_device *device, uint32_t usage) {
  return (usage & TG_BUFFER_STORAGE ? WGPUBufferUsage_Storage : 0) | (usage & TG_BUFFER_UNIFORM ? WGPUBufferUsage_Uniform : 0) |
         (usage & TG_BUFFER_COPY_SRC ? WGPUBufferUsage_CopySrc : 0) | (usage & TG_BUFFER_COPY_DST ? WGPUBufferUsage_CopyDst : 0) |
         (usage & TG_BUFFER_HOST_READ && device->mappable ? WGPUBufferUsage_MapRead : 0) |
         (usage & (TG_BUFFER_HOST_WRITE | TG_BUFFER_FILL_FIRST) && device->mappable ? WGPUBufferUsage_MapWrite : 0);
}

static tg_buffer *make(tg_device *device, uint64_t bytes, WGPUBufferUsage usage, bool mapped, tg_error *err) {
  static atomic_ullong numbers;
  tg_buffer *buffer = calloc(1, sizeof *buffer);
  if (!buffer) return (tgi_no_memory(err, "a buffer"), NULL);
  buffer->refs = 1;
  buffer->number = atomic_fetch_add(&numbers, 1) + 1;
  buffer->usage = usage;
  buffer->bytes = bytes;
  buffer->device = device;
  tgi_retain(device);
  WGPUBufferDescriptor descriptor = {
      .usage = usage, .size = tgi_round_up(bytes ? bytes : 4, TGI_VECTOR_BYTES), .mappedAtCreation = mapped};
  char what[64];
  snprintf(what, sizeof what, "Making a buffer of %llu bytes", (unsigned long long)bytes);
  tgi_device_lock(device);
  unsigned mark = tgi_scope_begin(device);
  buffer->wgpu = W(DeviceCreateBuffer)(device->wgpu, &descriptor);
  int failed = tgi_scope_end(device, mark, what, err);
  if (!failed && mapped && !(buffer->memory = W(BufferGetMappedRange)(buffer->wgpu, 0, descriptor.size)))
    failed = tgi_fail(err, "%s failed: its memory could not be mapped.", what);
  buffer->mapped = mapped;
  tgi_device_unlock(device);
  if (!failed) return buffer;
  tg_buffer_release(buffer);
  return NULL;
}

tg_buffer *tgi_buffer_create(tg_device *device, uint64_t bytes, WGPUBufferUsage usage, tg_error *err) {
  return make(device, bytes, usage, false, err);
}

tg_buffer *tg_buffer_create(tg_device *device, uint64_t bytes, uint32_t usage, tg_error *err) {
  if (tgi_enter(err)) return NULL;
  bool mapped = usage & TG_BUFFER_FILL_FIRST && device->mappable;
  tg_buffer *buffer = make(device, bytes, native_usage(device, usage), mapped, err);
  tgi_leave();
  return buffer;
}

int tg_buffer_filled(tg_buffer *buffer, tg_error *err) {
  if (tgi_enter(err)) return 1;
  tg_device *device = buffer->device;
  tgi_device_lock(device);
  unsigned mark = tgi_scope_begin(device);
  if (buffer->memory) tgi_unmap(buffer);
  buffer->memory = NULL;
  int failed = tgi_scope_end(device, mark, "Filling a buffer", err);
  tgi_device_unlock(device);
  tgi_leave();
  return failed;
}

void tg_buffer_release(tg_buffer *buffer) {
  if (!buffer || atomic_fetch_sub(&buffer->refs, 1) != 1) return;
  if (tgi_enter_release()) {
    if (buffer->wgpu) W(BufferRelease)(buffer->wgpu);
    tgi_leave_release();
  }
  tg_device_release(buffer->device);
  free(buffer);
}

void tgi_write_padded(tg_buffer *buffer, const void *data, uint64_t bytes) {
  uint64_t aligned = bytes / 4 * 4;
  if (aligned) W(QueueWriteBuffer)(buffer->device->queue, buffer->wgpu, 0, data, aligned);
  if (aligned < bytes) {
    uint8_t tail[4] = {0};
    memcpy(tail, (const uint8_t *)data + aligned, bytes - aligned);
    W(QueueWriteBuffer)(buffer->device->queue, buffer->wgpu, aligned, tail, 4);
  }
  buffer->device->unflushed += bytes;
}

static int check_range(tg_buffer *buffer, uint64_t offset, uint64_t bytes, tg_error *err) {
  uint64_t capacity = tgi_round_up(buffer->bytes, 4);
  if (offset % 4 || bytes % 4) return tgi_fail(err, "Offset and length must be multiples of 4 bytes.");
  if (offset > capacity || bytes > capacity - offset)
    return tgi_fail(err, "Bytes %llu to %llu lie outside a buffer of %llu bytes.", (unsigned long long)offset,
                    (unsigned long long)(offset + bytes), (unsigned long long)capacity);
  return 0;
}

static int write_slice(tg_buffer *buffer, uint64_t offset, const void *data, uint64_t bytes, tg_error *err) {
  tg_device *device = buffer->device;
  WGPUSubmissionIndex index = 0;
  bool flush = false;
  tgi_device_lock(device);
  unsigned mark = tgi_scope_begin(device);
  W(QueueWriteBuffer)(device->queue, buffer->wgpu, offset, data, bytes);
  int failed = tgi_scope_end(device, mark, "Writing to a buffer", err);
  device->unflushed += bytes;
  if (!failed && device->unflushed >= flush_bytes) {
    failed = tgi_queue(device, NULL, &index, err);
    flush = !failed;
  }
  tgi_device_unlock(device);
  if (flush) tgi_wait(device, index);
  return failed;
}

static int write_all(tg_buffer *buffer, uint64_t offset, const uint8_t *data, uint64_t bytes, tg_error *err) {
  while (bytes) {
    uint64_t slice = bytes < flush_bytes ? bytes : flush_bytes;
    if (write_slice(buffer, offset, data, slice, err)) return 1;
    offset += slice;
    data += slice;
    bytes -= slice;
  }
  return 0;
}

int tg_buffer_write(tg_buffer *buffer, uint64_t offset, const void *data, uint64_t bytes, tg_error *err) {
  if (check_range(buffer, offset, bytes, err) || tgi_enter(err)) return 1;
  int failed = 0;
  if (buffer->memory) memcpy(buffer->memory + offset, data, bytes);
  else failed = write_all(buffer, offset, data, bytes, err);
  tgi_leave();
  return failed;
}

int tg_buffer_fill(tg_buffer *buffer, uint32_t word, tg_error *err) {
  enum { WORDS = 1 << 18 };
  uint64_t left = tgi_round_up(buffer->bytes, 4), offset = 0;
  uint32_t *words = malloc(WORDS * sizeof *words);
  if (!words) return tgi_no_memory(err, "filling a buffer");
  for (size_t i = 0; i < WORDS; i++) words[i] = word;
  int failed = tgi_enter(err);
  if (!failed) {
    for (uint64_t slice; left && !failed; left -= slice, offset += slice) {
      slice = left < WORDS * sizeof *words ? left : WORDS * sizeof *words;
      failed = write_slice(buffer, offset, words, slice, err);
    }
    tgi_leave();
  }
  free(words);
  return failed;
}

int tgi_buffer_read(tg_buffer *buffer, tg_buffer *staging, void *data, uint64_t bytes, tg_error *err) {
  tg_device *device = buffer->device;
  tgi_mapping mapping = {staging, bytes, WGPUMapMode_Read};
  tgi_ticket ticket;
  tgi_device_lock(device);
  unsigned mark = tgi_scope_begin(device);
  WGPUCommandEncoder encoder = W(DeviceCreateCommandEncoder)(device->wgpu, NULL);
  if (staging != buffer)
    W(CommandEncoderCopyBufferToBuffer)(encoder, buffer->wgpu, 0, staging->wgpu, 0, tgi_round_up(bytes, 4));
  WGPUCommandBuffer commands = tgi_finish(device, encoder, mark, err);
  int failed = tgi_submit(device, commands, &mapping, 1, &ticket, err);
  tgi_device_unlock(device);
  return failed || tgi_collect(device, &ticket, err) || tgi_take(staging, data, bytes, err);
}
