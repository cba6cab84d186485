/* Selects the plan of a kernel for the host's present shapes, and for the values that decide others. */
#include "tflite/internal.h"

/* For each input its rank and extents, then for each value its count and numbers. */
typedef struct key {
  int32_t *list;
  size_t count;
} key;

static size_t rank_of(const tgl_tensor *tensor) { return tensor->dims ? (size_t)tensor->dims->size : 0; }

static size_t count_of(const tgl_tensor *value) {
  size_t each = tgi_element_bytes(value->type);
  return each ? value->bytes / each : 0;
}

bool tgi_values_are_known(const tg_kernel *kernel, const tgl_context *context) {
  for (size_t i = 0; i < kernel->base.arity.values; i++) {
    int32_t allocation = context->tensors[kernel->values[i]].allocation;
    if (allocation != TGL_IN_MODEL && allocation != TGL_IN_PERSISTENT_CONSTANT) return false;
  }
  return true;
}

static void add_shape(key *to, const tgl_tensor *tensor) {
  size_t rank = rank_of(tensor);
  to->list[to->count++] = (int32_t)rank;
  if (rank) memcpy(to->list + to->count, tensor->dims->data, rank * sizeof *to->list);
  to->count += rank;
}

static int add_value(key *to, const tgl_tensor *value, tg_error *err) {
  size_t count = count_of(value);
  if (count > TG_MAX_NUMBERS || (count && !value->data))
    return tgi_fail(err, "Input tensor \"%s\" has no numbers to plan for.", value->name ? value->name : "");
  to->list[to->count++] = (int32_t)count;
  for (size_t k = 0; k < count; k++)
    if (!tgi_plan_number(value->data, tgi_element_bytes(value->type), k, false, &to->list[to->count++]))
      return tgi_fail(err, "Input tensor \"%s\" has an integer beyond int32, in which the GPU computes.",
                      value->name ? value->name : "");
  return 0;
}

/* The caller frees the list. */
static int read_key(const tg_kernel *kernel, tgl_context *context, key *to, tg_error *err) {
  tgi_arity arity = kernel->base.arity;
  size_t room = 1;
  for (size_t i = 0; i < arity.inputs; i++) room += 1 + rank_of(&context->tensors[kernel->inputs[i]]);
  *to = (key){malloc((room + arity.values * (1 + TG_MAX_NUMBERS)) * sizeof *to->list), 0};
  if (!to->list) return tgi_no_memory(err, "a run");
  int failed = 0;
  for (size_t i = 0; i < arity.inputs; i++) add_shape(to, &context->tensors[kernel->inputs[i]]);
  for (size_t i = 0; !failed && i < arity.values; i++) {
    tgl_tensor *value = &context->tensors[kernel->values[i]];
    failed = tgi_fetch(context, value, err) || add_value(to, value, err);
  }
  return failed;
}

/* Where no plan can be built, the reason is kept. A build that failed for another reason (Ctrl-C) may succeed now. */
static tgi_plan *build(tg_kernel *kernel, const key *of, tg_error *err) {
  if (tgi_build(kernel, of->list, of->count, err) && tgi_build(kernel, of->list, of->count, err)) {
    tg_plan_spec spec = {.shapes = of->list, .shape_count = of->count, .reason = err->text};
    tg_partition_add(&kernel->base, &spec, NULL);
  }
  return tgi_plan_find(&kernel->base, of->list, of->count);
}

tgi_plan *tgi_present_plan(tg_kernel *kernel, tgl_context *context, bool prepares, tg_error *err) {
  key of;
  tgi_plan *plan = NULL;
  if (!read_key(kernel, context, &of, err)) {
    plan = tgi_plan_find(&kernel->base, of.list, of.count);
    bool builds = prepares ? !plan || !plan->replay : !plan && kernel->base.arity.values;
    if (builds) {
      tgi_plan_release(plan);
      err->text[0] = 0;
      plan = build(kernel, &of, err);
    }
    if (!plan && !builds) tgi_fail(err, "There is no plan for these input shapes; call allocate_tensors().");
    else if (!plan && !err->text[0]) tgi_fail(err, "The plan for these input shapes could not be kept.");
  }
  free(of.list);
  return plan;
}
