/* The plans of a kernel, found by the host's present shapes. */
#include "tflite/internal.h"

/* ---- shapes ------------------------------------------------------------------------------------------------------------- */

static size_t rank_of(const tgl_tensor *tensor) { return tensor->dims ? (size_t)tensor->dims->size : 0; }

int32_t *tgi_shapes_of(const tgl_context *context, const int32_t *tensors, size_t tensor_count, size_t *count) {
  size_t used = 0, total = 0;
  for (size_t i = 0; i < tensor_count; i++) total += 1 + rank_of(&context->tensors[tensors[i]]);
  int32_t *shapes = malloc((total + 1) * sizeof *shapes);
  for (size_t i = 0; shapes && i < tensor_count; i++) {
    const tgl_tensor *tensor = &context->tensors[tensors[i]];
    size_t rank = rank_of(tensor);
    shapes[used++] = (int32_t)rank;
    if (rank) memcpy(shapes + used, tensor->dims->data, rank * sizeof *shapes);
    used += rank;
  }
  *count = total;
  return shapes;
}

/* ---- the list ----------------------------------------------------------------------------------------------------------- */

static tgi_arity arity_of(const tg_kernel *kernel) {
  return (tgi_arity){.inputs = kernel->input_count + kernel->shape_only_count,
                     .ports = kernel->input_count,
                     .outputs = kernel->output_count,
                     .states = kernel->state_count};
}

tgi_entry *tgi_entry_find(tg_kernel *kernel, const tgl_context *context) {
  size_t count;
  int32_t *shapes = tgi_shapes_of(context, kernel->inputs, arity_of(kernel).inputs, &count);
  tgi_entry *entry = shapes ? tgi_plans_find(&kernel->plans, shapes, count) : NULL;
  free(shapes);
  return entry;
}

void tgi_entries_drop(tg_kernel *kernel) {
  tgi_plans_drop(&kernel->plans);
  tgi_lock();
  tg_replay *newest = kernel->newest;
  kernel->newest = NULL;
  tgi_unlock();
  tg_replay_release(newest);
}

void tgi_entry_refuse(tg_kernel *kernel, const tgl_context *context, const char *reason) {
  tg_error err;
  size_t count;
  int32_t *shapes = tgi_shapes_of(context, kernel->inputs, arity_of(kernel).inputs, &count);
  if (shapes) tgi_plans_add(&kernel->plans, arity_of(kernel), shapes, count, NULL, 0, NULL, reason, &err);
  free(shapes);
}

int tg_kernel_add(tg_kernel *kernel, const int32_t *shapes, size_t shape_count, const int32_t *output_shapes,
                  size_t output_shape_count, tg_replay *replay, const char *reason, tg_error *err) {
  return tgi_plans_add(&kernel->plans, arity_of(kernel), shapes, shape_count, output_shapes, output_shape_count, replay,
                       reason, err);
}
