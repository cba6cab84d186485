/* Outputs that stay on the device: the host gets a handle, and asks for the bytes when one of its own nodes reads the tensor. */
#include "tflite/internal.h"

/* A handle. Numbers are never used twice: an outdated handle is not found, rather than referring to other bytes. */
typedef struct record {
  int32_t handle;                  /* first, for tgi_compare */
  tg_kernel *kernel;               /* without a reference: a kernel withdraws its handles before it is freed */
  size_t index;
} record;

static struct {                    /* under tgi_lock; sorted by handle, because numbers only grow */
  record *records;
  size_t count;
  int32_t last;
} table;

static record *find(int32_t handle) {
  if (!table.count) return NULL;
  return bsearch(&handle, table.records, table.count, sizeof *table.records, tgi_compare);
}

static int32_t add(tg_kernel *kernel, size_t index) {
  if (table.last == INT32_MAX) return TGL_NO_HANDLE;
  record *records = realloc(table.records, (table.count + 1) * sizeof *records);
  if (!records) return TGL_NO_HANDLE;
  table.records = records;
  records[table.count++] = (record){++table.last, kernel, index};
  return table.last;
}

static void take_out(record *old) {
  old->kernel->handles[old->index] = TGL_NO_HANDLE;
  memmove(old, old + 1, (size_t)(table.records + table.count - (old + 1)) * sizeof *old);
  table.count--;
}

void tgi_handle_publish(tg_kernel *kernel, size_t index, tgl_tensor *tensor) {
  tgi_lock();
  if (kernel->handles[index] == TGL_NO_HANDLE) kernel->handles[index] = add(kernel, index);
  tensor->handle = kernel->handles[index];
  tgi_unlock();
  tensor->is_stale = true;
}

void tgi_handles_withdraw(tg_kernel *kernel, tgl_context *context) {
  tgi_lock();
  for (size_t i = 0; i < kernel->base.arity.outputs; i++) {
    int32_t handle = kernel->handles[i];
    record *mine = find(handle);
    if (!mine) continue;
    take_out(mine);
    tgl_tensor *tensor = &context->tensors[kernel->outputs[i]];
    if (tensor->handle != handle) continue;
    tensor->handle = TGL_NO_HANDLE;
    tensor->is_stale = false;
  }
  tgi_unlock();
}

tg_replay *tgi_handle_find(const tgl_delegate *delegate, int32_t handle, size_t *index, tg_kernel **kernel) {
  tg_replay *replay = NULL;
  tgi_lock();
  record *found = find(handle);
  if (found && &found->kernel->delegate->host == delegate && (replay = found->kernel->newest)) {
    tgi_retain(replay);
    tgi_retain(&found->kernel->base);
    *index = found->index;
    *kernel = found->kernel;
  }
  tgi_unlock();
  return replay;
}

int32_t tgi_copy_from_handle(tgl_context *context, tgl_delegate *delegate, int32_t handle, tgl_tensor *tensor) {
  tg_error err;
  size_t index;
  tg_kernel *kernel;
  tg_replay *replay = tgi_handle_find(delegate, handle, &index, &kernel);
  if (!replay) return tgi_report(context, "tflgpu: ", "this tensor's bytes are no longer on the GPU; run the model again.");
  int failed = tensor->data || !tensor->bytes ? tg_replay_read_output(replay, index, tensor->data, tensor->bytes, &err)
                                              : tgi_fail(&err, "The host has no memory for this tensor.");
  if (!failed) atomic_fetch_add(&kernel->base.downloaded, tensor->bytes);
  tg_replay_release(replay);
  tg_kernel_release(kernel);
  return failed ? tgi_report(context, "tflgpu: ", err.text) : TGL_OK;
}

void tgi_free_handle(tgl_context *context, tgl_delegate *delegate, int32_t *handle) {
  tgi_lock();
  record *old = find(*handle);
  if (old) take_out(old);
  tgi_unlock();
  *handle = TGL_NO_HANDLE;
}

int tgi_fetch(tgl_context *context, tgl_tensor *tensor, tg_error *err) {
  if (!tensor->is_stale) return 0;
  if (!tensor->delegate || tensor->delegate->copy_from_handle(context, tensor->delegate, tensor->handle, tensor) != TGL_OK)
    return tgi_fail(err, "An input could not be fetched from the GPU.");
  tensor->is_stale = false;
  return 0;
}
