/* Device buffers. */
#include "core/internal.h"

/* Writes are submitted after this many bytes, because wgpu keeps a staging copy of them until they are submitted. */
static const uint64_t flush_bytes = (uint64_t)2 << 20;

static WGPUBufferUsage native_usage(const tg_device *device, uint32_t usage) {
  return (usage & TG_BUFFER_STORAGE ? WGPUBufferUsage_Storage : 0) | (usage & TG_BUFFER_UNIFORM ? WGPUBufferUsage_Uniform : 0) |
         (usage & TG_BUFFER_COPY_SRC ? WGPUBufferUsage_CopySrc : 0) | (usage & TG_BUFFER_COPY_DST ? WGPUBufferUsage_CopyDst : 0) |
         (usage & TG_BUFFER_HOST_READ && device->mappable ? WGPUBufferUsage_MapRead : 0) |
         (usage & (TG_BUFFER_HOST_WRITE | TG_BUFFER_FILL_FIRST) && device->mappable ? WGPUBufferUsage_MapWrite : 0);
}

static atomic_ullong held[TG_KINDS];   /* bytes of all buffers */

static uint64_t size_of(const tg_buffer *buffer) { return tgi_round_up(buffer->bytes ? buffer->bytes : 4, TGI_VECTOR_BYTES); }

void tg_memory_get(tg_memory *out) {
  for (size_t i = 0; i < TG_KINDS; i++) out->bytes[i] = held[i];
}

void tgi_buffer_count(tg_buffer *buffer, uint64_t number, tg_memory *out) {
  if (!buffer || buffer->counted == number) return;
  buffer->counted = number;
  out->bytes[buffer->kind] += size_of(buffer);
}

static tg_buffer *make(tg_device *device, uint64_t bytes, WGPUBufferUsage usage, uint32_t kind, bool mapped, tg_error *err) {
  static atomic_ullong numbers;
  tg_buffer *buffer = calloc(1, sizeof *buffer);
  if (!buffer) return (tgi_no_memory(err, "a buffer"), NULL);
  buffer->refs = 1;
  buffer->number = atomic_fetch_add(&numbers, 1) + 1;
  buffer->usage = usage;
  buffer->kind = kind;
  buffer->bytes = bytes;
  buffer->device = device;
  tgi_retain(device);
  WGPUBufferDescriptor descriptor = {
      .usage = usage, .size = size_of(buffer), .mappedAtCreation = mapped};
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
  atomic_fetch_add(&held[kind], size_of(buffer));
  if (!failed) return buffer;
  tg_buffer_release(buffer);
  return NULL;
}

tg_buffer *tgi_staging_create(tg_device *device, uint64_t bytes, WGPUBufferUsage usage, tg_error *err) {
  return make(device, bytes, usage, TG_STAGING, false, err);
}

tg_buffer *tg_buffer_create(tg_device *device, uint64_t bytes, uint32_t usage, uint32_t kind, tg_error *err) {
  if (tgi_enter(err)) return NULL;
  bool mapped = usage & TG_BUFFER_FILL_FIRST && device->mappable;
  tg_buffer *buffer = make(device, bytes, native_usage(device, usage), kind, mapped, err);
  tgi_leave();
  return buffer;
}

/* ---- buffers that are found by a key ------------------------------------------------------------------------------- */

static void add_key(tg_buffer *buffer, const uint8_t *key) {
  memcpy(buffer->key, key, TG_KEY_BYTES);
  buffer->has_key = true;
  tgi_lock();
  buffer->next_keyed = buffer->device->keyed;
  buffer->device->keyed = buffer;
  tgi_unlock();
}

static void remove_key(tg_buffer *buffer) {
  tgi_lock();
  tg_buffer **at = &buffer->device->keyed;
  while (*at != buffer) at = &(*at)->next_keyed;
  *at = buffer->next_keyed;
  tgi_unlock();
}

/* Takes a reference, unless the last one was given back and the buffer is about to be freed. */
static bool retain_living(tg_buffer *buffer) {
  size_t refs = atomic_load(&buffer->refs);
  while (refs && !atomic_compare_exchange_weak(&buffer->refs, &refs, refs + 1)) continue;
  return refs != 0;
}

tg_buffer *tg_buffer_find(tg_device *device, const uint8_t *key) {
  tgi_lock();
  tg_buffer *found = device->keyed;
  while (found && (memcmp(found->key, key, TG_KEY_BYTES) || !retain_living(found))) found = found->next_keyed;
  tgi_unlock();
  return found;
}

int tg_buffer_filled(tg_buffer *buffer, const uint8_t *key, tg_error *err) {
  if (tgi_enter(err)) return 1;
  tg_device *device = buffer->device;
  tgi_device_lock(device);
  unsigned mark = tgi_scope_begin(device);
  if (buffer->memory) tgi_unmap(buffer);
  buffer->memory = NULL;
  int failed = tgi_scope_end(device, mark, "Filling a buffer", err);
  tgi_device_unlock(device);
  tgi_leave();
  if (!failed && key) add_key(buffer, key);
  return failed;
}

void tg_buffer_release(tg_buffer *buffer) {
  if (!buffer || atomic_fetch_sub(&buffer->refs, 1) != 1) return;
  if (buffer->has_key) remove_key(buffer);
  atomic_fetch_sub(&held[buffer->kind], size_of(buffer));
  if (tgi_enter_release()) {
    if (buffer->wgpu) W(BufferRelease)(buffer->wgpu);
    tgi_leave_release();
  }
  tg_device_release(buffer->device);
  free(buffer);
}

void tgi_write_padded(tg_buffer *buffer, const void *data, uint64_t bytes) {
  uint64_t aligned = bytes / TGI_VECTOR_BYTES * TGI_VECTOR_BYTES;
  if (aligned) W(QueueWriteBuffer)(buffer->device->queue, buffer->wgpu, 0, data, aligned);
  if (aligned < bytes) {
    uint8_t tail[TGI_VECTOR_BYTES] = {0};
    memcpy(tail, (const uint8_t *)data + aligned, bytes - aligned);
    W(QueueWriteBuffer)(buffer->device->queue, buffer->wgpu, aligned, tail, sizeof tail);
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
  tgi_mutex_lock(&device->writing);
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
  tgi_mutex_unlock(&device->writing);
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
