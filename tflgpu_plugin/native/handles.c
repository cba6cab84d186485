/* Outputs that stay on the device: the host sees a number and asks for the bytes when somebody else reads the tensor. */
#include "internal_tflite.h"

/* A number is never used twice, so an old one on a tensor leads nowhere instead of to other bytes. A record whose kernel
 * is gone stays until the host frees the handle, because it still calls through the delegate then. */
typedef struct record {
  int32_t handle;
  tgi_delegate *delegate;          /* one reference */
  tg_kernel *kernel;               /* NULL: dead. Not a reference: a kernel kills its handles before it dies */
  size_t index;
} record;

static struct {                    /* under tgi_lock; sorted, since numbers only grow */
  record *records;
  size_t count, capacity;
  int32_t last;
} table;

static record *find(int32_t handle) {
  size_t low = 0, high = table.count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (table.records[middle].handle < handle) low = middle + 1;
    else high = middle;
  }
  return low < table.count && table.records[low].handle == handle ? &table.records[low] : NULL;
}

static bool has_room(void) {
  if (table.count < table.capacity) return true;
  size_t capacity = table.capacity ? 2 * table.capacity : 64;
  record *records = realloc(table.records, capacity * sizeof *records);
  if (!records) return false;
  table.records = records;
  table.capacity = capacity;
  return true;
}

static int32_t add(tg_kernel *kernel, size_t index) {
  if (table.last == INT32_MAX || !has_room()) return TGL_NO_HANDLE;
  tgi_delegate_retain(kernel->delegate);
  table.records[table.count++] = (record){++table.last, kernel->delegate, kernel, index};
  return table.last;
}

/* Returns the delegate whose reference the record held. */
static tgi_delegate *take_out(record *old) {
  tgi_delegate *delegate = old->delegate;
  if (old->kernel) old->kernel->handles[old->index] = TGL_NO_HANDLE;
  memmove(old, old + 1, (size_t)(table.records + table.count - (old + 1)) * sizeof *old);
  table.count--;
  return delegate;
}

void tgi_handle_publish(tg_kernel *kernel, size_t index, tgl_tensor *tensor) {
  tgi_delegate *forgotten = NULL;
  tgi_lock();
  if (kernel->handles[index] == TGL_NO_HANDLE) kernel->handles[index] = add(kernel, index);
  int32_t handle = kernel->handles[index];
  /* After an undo the tensor may carry the number of a kernel that is gone; the host will never free that one. */
  record *old = tensor->handle != handle && tensor->handle >= 0 ? find(tensor->handle) : NULL;
  if (old && !old->kernel) forgotten = take_out(old);
  tgi_unlock();
  tensor->handle = handle;
  tensor->is_stale = true;
  if (forgotten) tgi_delegate_release(forgotten);
}

void tgi_handles_kill(tg_kernel *kernel) {
  tgi_lock();
  for (size_t i = 0; i < kernel->output_count; i++) {
    record *mine = kernel->handles[i] == TGL_NO_HANDLE ? NULL : find(kernel->handles[i]);
    if (mine) mine->kernel = NULL;
    kernel->handles[i] = TGL_NO_HANDLE;
  }
  tgi_unlock();
}

tg_replay *tgi_handle_find(const tgl_delegate *delegate, int32_t handle, size_t *index, tg_kernel **kernel) {
  tg_replay *replay = NULL;
  tgi_lock();
  record *found = handle < 0 ? NULL : find(handle);
  if (found && found->kernel && &found->delegate->host == delegate && (replay = found->kernel->newest)) {
    tg_replay_retain(replay);
    tg_kernel_retain(found->kernel);
    *index = found->index;
    *kernel = found->kernel;
  }
  tgi_unlock();
  return replay;
}

int32_t tgi_copy_from_handle(tgl_context *context, tgl_delegate *delegate, int32_t handle, tgl_tensor *tensor) {
  char err[1024];
  size_t index;
  tg_kernel *kernel;
  tg_replay *replay = tgi_handle_find(delegate, handle, &index, &kernel);
  if (!replay) return tgi_report(context, "tflgpu: this tensor's bytes are no longer on the GPU; run the model again.");
  int failed = tensor->data ? tg_replay_read_output(replay, index, tensor->data, tensor->bytes, err, sizeof err)
                            : tgi_fail(err, sizeof err, "The host has no memory for this tensor.");
  if (!failed) atomic_fetch_add(&kernel->downloaded, tensor->bytes);
  tg_replay_release(replay);
  tg_kernel_release(kernel);
  if (!failed) return TGL_OK;
  char text[1100];
  snprintf(text, sizeof text, "tflgpu: %s", err);
  return tgi_report(context, text);
}

void tgi_free_handle(tgl_context *context, tgl_delegate *delegate, int32_t *handle) {
  (void)context, (void)delegate;
  tgi_lock();
  record *old = *handle < 0 ? NULL : find(*handle);
  tgi_delegate *released = old ? take_out(old) : NULL;
  tgi_unlock();
  *handle = TGL_NO_HANDLE;
  if (released) tgi_delegate_release(released);
}
