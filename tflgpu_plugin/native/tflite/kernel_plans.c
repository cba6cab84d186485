/* Selects the plan of a kernel for the host's present shapes. */
#include "tflite/internal.h"

static size_t rank_of(const tgl_tensor *tensor) { return tensor->dims ? (size_t)tensor->dims->size : 0; }

/* Returns a list of the rank and the extents of each input, which the caller frees; NULL if there is no memory. */
static int32_t *present_shapes(const tg_kernel *kernel, const tgl_context *context, size_t *count) {
  const int32_t *tensors = kernel->inputs;
  size_t used = 0, total = 0, tensor_count = kernel->base.arity.inputs;
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

tgi_plan *tgi_present_plan(tg_kernel *kernel, const tgl_context *context, tg_error *err) {
  size_t count;
  int32_t *shapes = present_shapes(kernel, context, &count);
  tgi_plan *plan = shapes ? tgi_plan_find(&kernel->base, shapes, count) : NULL;
  if (!shapes) tgi_no_memory(err, "a run");
  else if (!plan) tgi_fail(err, "There is no plan for these input shapes; call allocate_tensors().");
  free(shapes);
  return plan;
}

void tgi_plan_refuse(tg_kernel *kernel, const tgl_context *context, const char *reason) {
  size_t count;
  int32_t *shapes = present_shapes(kernel, context, &count);
  tg_plan_spec spec = {.shapes = shapes, .shape_count = count, .reason = reason};
  if (shapes) tg_partition_add(&kernel->base, &spec, NULL);
  free(shapes);
}
