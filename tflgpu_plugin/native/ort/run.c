/* Compute: one run of a partition. No Python, but for shapes that have no plan yet. */
#include "ort/internal.h"

typedef struct call {
  const tgi_compute *compute;
  tg_ort_partition *partition;
  const tgo_api *api;
  tgo_context *context;
  tgi_memory memory;               /* of the lists that follow, but for shapes */
  tg_port *inputs, *outputs;       /* behind the outputs the counts */
  int32_t *counts;
  void **held;                     /* per output: ours, where a count says how much of it the host gets; else NULL */
  int32_t *shapes;                 /* of all inputs: rank, then extents; then of those that matter a count and numbers */
  size_t shape_count, shape_room;
  int code;                        /* of the status, should the run fail: the host gives up the provider for TGO_EP_FAIL */
} call;

static bool append(call *c, int64_t number) {
  if (number < INT32_MIN || number > INT32_MAX) return false;
  if (c->shape_count == c->shape_room) {
    size_t room = 2 * c->shape_room + 32;
    int32_t *larger = realloc(c->shapes, room * sizeof *larger);
    if (!larger) return false;
    c->shapes = larger;
    c->shape_room = room;
  }
  c->shapes[c->shape_count++] = (int32_t)number;
  return true;
}

static int read_input(call *c, size_t i, tg_error *err) {
  const tgo_api *api = c->api;
  const tgo_value *value = NULL;
  const int64_t *dims = NULL;
  size_t rank = 0;
  int kind = 0;
  if (tgi_take_status(api, api->get_input(c->context, c->compute->inputs[i], &value), err)) return 1;
  if (!value) return tgi_fail(err, "Input \"%s\" is absent.", c->partition->inputs[i]);
  if (tgi_take_status(api, api->get_kind_and_dims(value, &kind, &dims, &rank), err)) return 1;
  bool fits = append(c, (int64_t)rank);
  for (size_t k = 0; fits && k < rank; k++) fits = append(c, dims[k]);
  if (!fits) return tgi_fail(err, "The shape of input \"%s\" is too large.", c->partition->inputs[i]);
  if (i >= c->partition->base.arity.ports) return 0;
  size_t bytes = 0;
  if (tgi_take_status(api, api->get_byte_count(value, &bytes), err)) return 1;
  c->inputs[i].bytes = bytes;
  return tgi_take_status(api, api->get_tensor_data((tgo_value *)value, &c->inputs[i].host), err);
}

static int read_inputs(call *c, tg_error *err) {
  for (size_t i = 0; i < c->partition->base.arity.inputs; i++)
    if (read_input(c, i, err)) return 1;
  return 0;
}

/* What is beyond int32 becomes the nearest in it; floats are their bits. */
static int32_t number_at(const void *data, int kind, size_t k) {
  if (kind == TGO_BOOL) return ((const uint8_t *)data)[k] != 0;
  if (kind != TGO_I64) return ((const int32_t *)data)[k];
  int64_t number = ((const int64_t *)data)[k];
  return number < INT32_MIN ? INT32_MIN : number > INT32_MAX ? INT32_MAX : (int32_t)number;
}

static int read_value(call *c, size_t i, tg_error *err) {
  const tgo_api *api = c->api;
  const char *name = c->partition->values[i];
  const tgo_value *value = NULL;
  const int64_t *dims = NULL;
  size_t rank = 0, count = 1;
  void *data = NULL;
  int kind = 0;
  if (tgi_take_status(api, api->get_input(c->context, c->compute->values[i], &value), err)) return 1;
  if (!value) return tgi_fail(err, "Input \"%s\" is absent.", name);
  if (tgi_take_status(api, api->get_kind_and_dims(value, &kind, &dims, &rank), err) ||
      tgi_take_status(api, api->get_tensor_data((tgo_value *)value, &data), err))
    return 1;
  for (size_t k = 0; k < rank; k++) count *= (size_t)dims[k];
  bool known = kind == TGO_F32 || kind == TGO_I32 || kind == TGO_I64 || kind == TGO_BOOL;
  if (!known || count > TG_MAX_NUMBERS) return tgi_fail(err, "Input \"%s\" has too many numbers to plan for.", name);
  bool fits = append(c, (int64_t)count);
  for (size_t k = 0; fits && k < count; k++) fits = append(c, number_at(data, kind, k));
  return fits ? 0 : tgi_fail(err, "not enough memory for a run.");
}

static int read_values(call *c, tg_error *err) {
  for (size_t i = 0; i < c->partition->base.arity.values; i++)
    if (read_value(c, i, err)) return 1;
  return 0;
}

/* A default that the user has replaced would make what was planned with it wrong. */
static int check_guard(const call *c, size_t i, tg_error *err) {
  const tgo_api *api = c->api;
  const tgo_value *value = NULL;
  size_t bytes = 0;
  void *data = NULL;
  if (tgi_take_status(api, api->get_input(c->context, c->compute->guards[i], &value), err)) return 1;
  if (!value) return tgi_fail(err, "Input \"%s\" is absent.", c->partition->guards[i]);
  if (tgi_take_status(api, api->get_byte_count(value, &bytes), err) ||
      tgi_take_status(api, api->get_tensor_data((tgo_value *)value, &data), err))
    return 1;
  if (bytes == c->partition->guard_bytes[i] && !memcmp(data, c->partition->guard_data[i], bytes)) return 0;
  return tgi_fail(err,
                  "Input \"%s\" was given another value than the default in the model, which was planned as a constant. "
                  "Remove the default from the model, or leave the nodes that use it to the CPU with the option exclude.",
                  c->partition->guards[i]);
}

static int check_guards(const call *c, tg_error *err) {
  for (size_t i = 0; i < c->partition->guard_count; i++)
    if (check_guard(c, i, err)) return 1;
  return 0;
}

static bool is_counted(const int32_t *shape) {
  for (int32_t k = 1; k <= shape[0]; k++)
    if (shape[k] < 0) return true;
  return false;
}

static int read_output(call *c, size_t i, const int32_t *shape, uint64_t bytes, tg_error *err) {
  const tgo_api *api = c->api;
  int64_t dims[8];
  size_t rank = (size_t)shape[0], held = 0;
  tgo_value *value = NULL;
  if (rank > 8) return tgi_fail(err, "Output \"%s\" has rank %zu.", c->partition->outputs[i], rank);
  for (size_t k = 0; k < rank; k++) dims[k] = shape[k + 1];
  if (tgi_take_status(api, api->get_output(c->context, c->compute->outputs[i], dims, rank, &value), err)) return 1;
  if (!value) return 0;            /* nobody wants it: it stays on the device */
  if (tgi_take_status(api, api->get_byte_count(value, &held), err)) return 1;
  if (held != bytes)
    return tgi_fail(err, "Output \"%s\" has %zu bytes, but its plan gives %llu.", c->partition->outputs[i], held,
                    (unsigned long long)bytes);
  c->outputs[i].bytes = held;
  return tgi_take_status(api, api->get_tensor_data(value, &c->outputs[i].host), err);
}

static int read_outputs(call *c, const tgi_entry *entry, tg_error *err) {
  const int32_t *shape = entry->output_shapes;
  for (size_t i = 0; i < c->partition->base.arity.outputs; i++, shape += 1 + shape[0]) {
    uint64_t bytes = entry->replay->outputs[i].bytes;
    if (!is_counted(shape)) {
      if (read_output(c, i, shape, bytes, err)) return 1;
      continue;
    }
    if (!(c->held[i] = tgi_zeros(&c->memory, bytes, 1))) return tgi_fail(err, "not enough memory for a run.");
    c->outputs[i].host = c->held[i];
    c->outputs[i].bytes = bytes;
  }
  return 0;
}

/* As much of an output as the run has counted. */
static int give_counted(call *c, size_t i, const int32_t *shape, uint64_t bytes, tg_error *err) {
  const tgo_api *api = c->api;
  int64_t dims[8];
  size_t rank = (size_t)shape[0], held = 0, lines = 1;
  tgo_value *value = NULL;
  void *data = NULL;
  bool inside = false;
  if (rank > 8) return tgi_fail(err, "Output \"%s\" has rank %zu.", c->partition->outputs[i], rank);
  for (size_t k = 0; k < rank; k++) {
    dims[k] = shape[k + 1] < 0 ? c->counts[-1 - shape[k + 1]] : shape[k + 1];
    if (dims[k] < 0) return tgi_fail(err, "Output \"%s\" has %lld elements.", c->partition->outputs[i], (long long)dims[k]);
    inside |= shape[k + 1] < 0;
    if (!inside) lines *= (size_t)dims[k];
  }
  if (tgi_take_status(api, api->get_output(c->context, c->compute->outputs[i], dims, rank, &value), err)) return 1;
  if (!value) return 0;
  if (tgi_take_status(api, api->get_byte_count(value, &held), err) ||
      tgi_take_status(api, api->get_tensor_data(value, &data), err))
    return 1;
  if (held > bytes)
    return tgi_fail(err, "Output \"%s\" has %zu bytes, but its plan has room for %llu.", c->partition->outputs[i], held,
                    (unsigned long long)bytes);
  for (size_t k = 0; k < lines && held; k++)
    memcpy((char *)data + k * (held / lines), (char *)c->held[i] + k * (bytes / lines), held / lines);
  return 0;
}

static int give_outputs(call *c, const tgi_entry *entry, tg_error *err) {
  const int32_t *shape = entry->output_shapes;
  for (size_t i = 0; i < c->partition->base.arity.outputs; i++, shape += 1 + shape[0])
    if (c->held[i] && give_counted(c, i, shape, entry->replay->outputs[i].bytes, err)) return 1;
  return 0;
}

typedef struct building {
  call *call;
  int built;
  tg_error *err;
} building;

static void call_build(void *given) {
  building *b = given;
  tg_ort_partition *partition = b->call->partition;
  b->built = partition->functions.build(partition->base.number, partition, b->call->shapes, b->call->shape_count, b->err);
}

static int build(call *c, tg_error *err) {
  tg_ort_callbacks newest;
  building b = {.call = c, .err = err};
  if (!tgi_ort_call(&newest, call_build, &b, err)) return 1;
  if (b.built < 0) c->code = TGO_INVALID_ARGUMENT;
  return b.built <= 0;
}

static tgi_entry *find_entry(call *c, tg_error *err) {
  tg_partition *partition = &c->partition->base;
  tgi_entry *entry = tgi_entry_find(partition, c->shapes, c->shape_count);
  if (!entry && !build(c, err)) entry = tgi_entry_find(partition, c->shapes, c->shape_count);
  return entry;
}

static int check_inputs(const call *c, const tgi_entry *entry, tg_error *err) {
  for (size_t i = 0; i < c->partition->base.arity.ports; i++)
    if (c->inputs[i].bytes != entry->replay->inputs[i].bytes)
      return tgi_fail(err, "Input \"%s\" has %llu bytes, but its plan takes %llu.", c->partition->inputs[i],
                      (unsigned long long)c->inputs[i].bytes, (unsigned long long)entry->replay->inputs[i].bytes);
  return 0;
}

static int run_entry(call *c, const tgi_entry *entry, tg_error *err) {
  if (!entry->replay) return tgi_fail(err, "These input shapes cannot run on the GPU: %s", entry->reason);
  return check_inputs(c, entry, err) || read_outputs(c, entry, err) ||
         tgi_partition_run(&c->partition->base, entry, c->inputs, c->outputs, NULL, err) || give_outputs(c, entry, err);
}

static int run(call *c, tg_error *err) {
  tgi_arity arity = c->partition->base.arity;
  c->inputs = tgi_zeros(&c->memory, arity.inputs + arity.outputs + arity.counts, sizeof *c->inputs);
  c->counts = tgi_zeros(&c->memory, arity.counts, sizeof *c->counts);
  c->held = tgi_zeros(&c->memory, arity.outputs, sizeof *c->held);
  if (c->memory.lacks) return tgi_fail(err, "not enough memory for a run.");
  c->outputs = c->inputs + arity.inputs;
  for (size_t k = 0; k < arity.counts; k++)
    c->outputs[arity.outputs + k] = (tg_port){.host = &c->counts[k], .bytes = sizeof c->counts[k]};
  if (tgi_is_forked()) {           /* Python's threads are gone here */
    tgi_enter(err);
    return 1;
  }
  if (read_inputs(c, err) || read_values(c, err) || check_guards(c, err)) return 1;
  tgi_entry *entry = find_entry(c, err);
  int failed = !entry || run_entry(c, entry, err);
  tgi_entry_release(entry);
  return failed;
}

/* A run that the GPU could not do goes to the host's kernels, whose errors are the model's own. */
static tgo_status *run_elsewhere(const call *c, const tg_error *reason, int *failed) {
  tg_error err = {0};
  tgo_status *status = NULL;
  const char *text = reason->text[0] ? reason->text : "this run failed without a reason.";
  if (tgi_is_forked()) return tgi_coded_status(c->api, c->code, text);
  if (!tgi_fallback_run((tgi_compute *)c->compute, c->context, text, &status, &err)) {
    *failed = status != NULL;
    return status;
  }
  char both[sizeof err.text];
  snprintf(both, sizeof both, "%.1800s onnxruntime's own kernels could not be used instead: %.1800s", text, err.text);
  return tgi_coded_status(c->api, c->code, both);
}

tgo_status *tgi_compute_run(tgo_compute *host, void *state, tgo_context *context) {
  (void)state;
  const tgi_compute *compute = (const tgi_compute *)host;
  call c = {.compute = compute, .partition = compute->partition, .api = compute->api, .context = context,
            .code = TGO_EP_FAIL};
  tg_error err = {0};
  tgo_status *status = NULL;
  int failed = run(&c, &err), on_gpu = !failed;
  if (failed) status = run_elsewhere(&c, &err, &failed);
  tgi_memory_free(&c.memory);
  free(c.shapes);
  if (failed || on_gpu) atomic_fetch_add(failed ? &c.partition->base.failures : &c.partition->base.runs, 1);
  return status;
}
