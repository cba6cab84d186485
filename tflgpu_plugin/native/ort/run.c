/* Compute: one run of a partition. It calls Python only for shapes without a plan. */
#include "ort/internal.h"

enum { SPARE_RUNS = 8 };

typedef struct call {
  const tgi_compute *compute;
  tg_ort_partition *partition;
  const tgo_api *api;
  tgo_context *context;
  tg_error *err;
  tgi_memory memory;               /* owns the following lists except shapes */
  tg_port *inputs, *outputs;       /* counts follow the outputs */
  void **addresses;                /* addresses of outputs in memory that the host gets */
  bool *stay;                      /* see tgi_ports */
  tgi_readback **readbacks;        /* see tgi_ports */
  int32_t *counts;
  int32_t room;                    /* of the counts that grow */
  void **counted;                  /* for each output, our own memory if a count determines its size for the host, else NULL */
  int32_t *shapes;                 /* for each input rank and extents, then for each of `values` a count and numbers */
  size_t shape_count, shape_room;
  int built;                       /* result of Python's build for these shapes */
  int code;                        /* status code for a failed run; with TGO_EP_FAIL the host gives up the provider */
} call;

static bool failed(const call *c, tgo_status *status) { return tgi_take_status(c->api, status, c->err); }

static int no_memory(const call *c) { return tgi_no_memory(c->err, "a run"); }

/* Appends a number of the input of this name to the shapes. */
static int append(call *c, const char *name, int64_t number) {
  if (number < INT32_MIN || number > INT32_MAX) return tgi_fail(c->err, "The shape of input \"%s\" is too large.", name);
  if (c->shape_count == c->shape_room) {
    size_t room = 2 * c->shape_room + 32;
    int32_t *larger = realloc(c->shapes, room * sizeof *larger);
    if (!larger) return no_memory(c);
    c->shapes = larger;
    c->shape_room = room;
  }
  c->shapes[c->shape_count++] = (int32_t)number;
  return 0;
}

/* Gets the input at a position of the fused node. */
static int get_input(const call *c, size_t position, const char *name, const tgo_value **value) {
  if (failed(c, c->api->get_input(c->context, position, value))) return 1;
  return *value ? 0 : tgi_fail(c->err, "Input \"%s\" is absent.", name);
}

static int get_data(const call *c, const tgo_value *value, size_t *bytes, void **data) {
  return tgi_get_data(c->compute->factory, value, bytes, data, c->err);
}

/* Gets data that is read here, on the CPU. */
static int get_host_data(const call *c, const tgo_value *value, size_t *bytes, void **data) {
  return get_data(c, value, bytes, data) || tgi_tensor_read(*data, *bytes, c->err);
}

static int read_input(call *c, size_t i) {
  const char *name = c->partition->inputs[i];
  const tgo_value *value = NULL;
  const int64_t *dims = NULL;
  size_t rank = 0, bytes = 0;
  int kind = 0;
  if (get_input(c, c->compute->inputs[i], name, &value) ||
      failed(c, c->api->get_kind_and_dims(value, &kind, &dims, &rank)))
    return 1;
  if (append(c, name, (int64_t)rank)) return 1;
  for (size_t k = 0; k < rank; k++)
    if (append(c, name, dims[k])) return 1;
  if (i >= c->partition->base.arity.ports) return 0;
  if (get_data(c, value, &bytes, &c->inputs[i].host)) return 1;
  c->inputs[i].bytes = bytes;
  return 0;
}

static int read_value(call *c, size_t i) {
  const char *name = c->partition->values[i];
  const tgo_value *value = NULL;
  const int64_t *dims = NULL;
  size_t rank = 0, count = 1, bytes = 0;
  void *data = NULL;
  int kind = 0;
  if (get_input(c, c->compute->values[i], name, &value) ||
      failed(c, c->api->get_kind_and_dims(value, &kind, &dims, &rank)) || get_host_data(c, value, &bytes, &data))
    return 1;
  for (size_t k = 0; k < rank; k++) count *= (size_t)dims[k];
  bool known = kind == TGO_F32 || kind == TGO_I32 || kind == TGO_I64 || kind == TGO_BOOL;
  if (!known || count > TG_MAX_NUMBERS) return tgi_fail(c->err, "Input \"%s\" has too many numbers to plan for.", name);
  size_t each = kind == TGO_BOOL ? 1 : kind == TGO_I64 ? 8 : 4;
  int failed = append(c, name, (int64_t)count);
  for (size_t k = 0; !failed && k < count; k++) {
    int32_t number;
    if (!tgi_plan_number(data, each, k, c->partition->clamps[i], &number))
      return tgi_fail(c->err, "Input \"%s\" has an integer beyond int32, in which the GPU computes.", name);
    failed = append(c, name, number);
  }
  return failed;
}

/* Refuses another value for an input whose default was planned as a constant. */
static int check_guard(call *c, size_t i) {
  const char *name = c->partition->guards[i];
  const tgo_value *value = NULL;
  const int64_t *dims = NULL, *shape = c->partition->guard_shapes[i];
  size_t rank = 0, bytes = 0;
  int kind = 0;
  void *data = NULL;
  if (get_input(c, c->compute->guards[i], name, &value) ||
      failed(c, c->api->get_kind_and_dims(value, &kind, &dims, &rank)) || get_host_data(c, value, &bytes, &data))
    return 1;
  bool same = bytes == c->partition->guard_bytes[i] && rank == (size_t)shape[0];
  for (size_t k = 0; same && k < rank; k++) same = dims[k] == shape[k + 1];
  if (same && !memcmp(data, c->partition->guard_data[i], bytes)) return 0;
  return tgi_fail(c->err,
                  "Input \"%s\" was given another value than the default in the model, which was planned as a constant. "
                  "Remove the default from the model, or leave the nodes that use it to the CPU with the option exclude.",
                  name);
}

static bool is_counted(const int32_t *shape) {
  for (int32_t k = 1; k <= shape[0]; k++)
    if (shape[k] < 0) return true;
  return false;
}

/* Gets an output of this shape, whose dynamic extents are counts of the run; its address is NULL if it is not requested. */
static int get_output(const call *c, size_t i, const int32_t *shape, tgo_value **value) {
  const char *name = c->partition->outputs[i];
  int64_t dims[8];
  size_t rank = (size_t)shape[0];
  if (rank > 8) return tgi_fail(c->err, "Output \"%s\" has rank %zu.", name, rank);
  for (size_t k = 0; k < rank; k++) {
    dims[k] = shape[k + 1] < 0 ? c->counts[-1 - shape[k + 1]] : shape[k + 1];
    if (dims[k] < 0) return tgi_fail(c->err, "Output \"%s\" has %lld elements.", name, (long long)dims[k]);
  }
  return failed(c, c->api->get_output(c->context, c->compute->outputs[i], dims, rank, value));
}

static int read_output(call *c, size_t i, const int32_t *shape, uint64_t bytes) {
  size_t size = 0;
  tgo_value *value = NULL;
  if (get_output(c, i, shape, &value)) return 1;
  if (!value) return 0;            /* not requested: it stays on the device */
  if (get_data(c, value, &size, &c->addresses[i])) return 1;
  if (size != bytes)
    return tgi_fail(c->err, "Output \"%s\" has %zu bytes, but its plan gives %llu.", c->partition->outputs[i], size,
                    (unsigned long long)bytes);
  c->outputs[i].host = c->addresses[i];
  c->outputs[i].bytes = size;
  return 0;
}

static int read_outputs(call *c, const tgi_plan *plan) {
  const int32_t *shape = plan->output_shapes;
  for (size_t i = 0; i < c->partition->base.arity.outputs; i++, shape += 1 + shape[0]) {
    uint64_t bytes = plan->outputs[i];
    if (!is_counted(shape)) {
      if (read_output(c, i, shape, bytes)) return 1;
      continue;
    }
    if (!(c->counted[i] = tgi_zeros(&c->memory, bytes, 1))) return no_memory(c);
    c->outputs[i].host = c->counted[i];
    c->outputs[i].bytes = bytes;
  }
  return 0;
}

/* Copies the counted part of an output to the host. */
static int give_counted(call *c, size_t i, const int32_t *shape, uint64_t bytes) {
  size_t size = 0, lines = 1;
  tgo_value *value = NULL;
  void *data = NULL;
  for (int32_t k = 1; k <= shape[0] && shape[k] >= 0; k++) lines *= (size_t)shape[k];
  if (get_output(c, i, shape, &value)) return 1;
  if (!value) return 0;
  if (get_data(c, value, &size, &data)) return 1;
  if (size > bytes)
    return tgi_fail(c->err, "Output \"%s\" has %zu bytes, but its plan has room for %llu.", c->partition->outputs[i], size,
                    (unsigned long long)bytes);
  for (size_t k = 0; k < lines && size; k++)
    memcpy((char *)data + k * (size / lines), (char *)c->counted[i] + k * (bytes / lines), size / lines);
  tgi_tensor_wrote(data, &(tg_port){.host = data, .bytes = size}, NULL, NULL);
  return 0;
}

static int give_outputs(call *c, const tgi_plan *plan) {
  const int32_t *shape = plan->output_shapes;
  for (size_t i = 0; i < c->partition->base.arity.outputs; i++, shape += 1 + shape[0])
    if (c->counted[i] && give_counted(c, i, shape, plan->outputs[i])) return 1;
  return 0;
}

static void call_build(void *given) {
  call *c = given;
  tg_ort_partition *partition = c->partition;
  c->built = partition->functions.build(partition->base.number, partition, c->shapes, c->shape_count, c->err);
}

static int build(call *c) {
  if (!tgi_ort_call(NULL, call_build, c, c->err)) return 1;
  if (c->built < 0) c->code = TGO_INVALID_ARGUMENT;
  return c->built <= 0;
}

/* A plan that was built for this run may be gone before it is found: other threads have had plans built for larger shapes. */
static tgi_plan *find_plan(call *c) {
  tg_partition *partition = &c->partition->base;
  tgi_plan *plan = tgi_plan_find(partition, c->shapes, c->shape_count);
  for (int k = 0; !plan && k < TGI_MAX_PLANS && !build(c); k++) plan = tgi_plan_find(partition, c->shapes, c->shape_count);
  return plan;
}

/* Calls a function with each index until one fails; returns whether one has failed. */
static int each(call *c, size_t count, int (*one)(call *, size_t)) {
  int failed = 0;
  for (size_t i = 0; !failed && i < count; i++) failed = one(c, i);
  return failed;
}

static int check_inputs(const call *c, const tgi_plan *plan) {
  for (size_t i = 0; i < c->partition->base.arity.ports; i++)
    if (c->inputs[i].bytes != plan->inputs[i])
      return tgi_fail(c->err, "Input \"%s\" has %llu bytes, but its plan takes %llu.", c->partition->inputs[i],
                      (unsigned long long)c->inputs[i].bytes, (unsigned long long)plan->inputs[i]);
  return 0;
}

/* Sets the ports of tensors that are on the GPU, or will be after the run. */
static int find_tensors(call *c, const tgi_plan *plan) {
  tg_device *device = plan->replay->device;
  for (size_t i = 0; i < c->partition->base.arity.ports; i++)
    if (tgi_tensor_input(device, &c->inputs[i], c->err)) return 1;
  for (size_t i = 0; i < c->partition->base.arity.outputs; i++)
    if (c->addresses[i]) {
      const tg_port *past = tgi_plan_past(plan, c->inputs, i);
      tgi_habit *habit = c->partition->base.habits[i];
      if (tgi_tensor_output(device, past, habit, &c->outputs[i], &c->readbacks[i], c->err)) return 1;
      c->stay[i] = tgi_tensor_may_stay(&c->outputs[i]);
    }
  return 0;
}

static void leave_tensors(call *c, bool written) {
  tgi_habit *const *habits = c->partition->base.habits;
  for (size_t i = 0; i < c->partition->base.arity.ports; i++) tgi_tensor_leave(&c->inputs[i]);
  for (size_t i = 0; i < c->partition->base.arity.outputs; i++) {
    tg_port *port = &c->outputs[i];
    if (c->stay[i] && written) tgi_tensor_stayed(c->addresses[i], port->bytes, habits[i]);
    else if (c->addresses[i] && written) tgi_tensor_wrote(c->addresses[i], port, habits[i], c->readbacks[i]);
    tgi_readback_release(c->readbacks[i]);
    tgi_tensor_leave(port);
  }
}

/* Returns the largest of the counts that grow. */
static int32_t largest_count(const call *c) {
  int32_t most = 0;
  for (size_t k = 0; c->room && k < c->partition->base.arity.counts; k++)
    if (c->partition->grows[k] && c->counts[k] > most) most = c->counts[k];
  return most;
}

static int run_plan(call *c, const tgi_plan *plan) {
  if (!plan->replay) return tgi_fail(c->err, "This run could not be planned for the GPU: %s", plan->reason);
  if (check_inputs(c, plan) || read_outputs(c, plan)) return 1;
  tgi_ports ports = {c->inputs, c->outputs, NULL, c->stay, c->readbacks, false};
  int failed = find_tensors(c, plan) ||
               tgi_partition_run(&c->partition->base, plan, &ports, c->err);
  bool fits = !failed && largest_count(c) <= c->room;
  leave_tensors(c, fits);
  return failed || (fits && give_outputs(c, plan));
}

/* Sets the ports of a run to nothing, apart from those of counts. */
static void clear_ports(call *c) {
  tgi_arity arity = c->partition->base.arity;
  memset(c->inputs, 0, (arity.inputs + arity.outputs + arity.counts) * sizeof *c->inputs);
  memset(c->addresses, 0, arity.outputs * sizeof *c->addresses);
  memset(c->stay, 0, (arity.outputs + arity.counts) * sizeof *c->stay);
  memset(c->readbacks, 0, (arity.outputs + arity.counts) * sizeof *c->readbacks);
  for (size_t k = 0; k < arity.counts; k++)
    c->outputs[arity.outputs + k] = (tg_port){.host = &c->counts[k], .bytes = sizeof c->counts[k]};
}

static int run_once(call *c) {
  tgi_arity arity = c->partition->base.arity;
  clear_ports(c);
  c->shape_count = 0;
  c->room = atomic_load(&c->partition->room);
  if (each(c, arity.inputs, read_input) || each(c, c->partition->value_count, read_value) ||
      each(c, c->partition->guard_count, check_guard))
    return 1;
  if (c->room && (append(c, "", 1) || append(c, "", c->room))) return 1;
  tgi_plan *plan = find_plan(c);
  int failed = !plan || run_plan(c, plan);
  tgi_plan_release(plan);
  return failed;
}

static void change_room(const call *c, int32_t room) {
  int32_t before = c->room;        /* else another thread has changed it meanwhile */
  atomic_compare_exchange_strong(&c->partition->room, &before, room);
}

/* Makes room for a count of this run, and a quarter more, in plans of this run and later ones. */
static int grow(const call *c, int32_t most) {
  if (most > TG_MOST_ROOM)
    return tgi_fail(c->err, "A run counts %d elements, more than the %d for which the GPU has room.", most, TG_MOST_ROOM);
  change_room(c, most + most / 4 < TG_MOST_ROOM ? most + most / 4 : TG_MOST_ROOM);
  return 0;
}

/* Halves the room, down to that of the first plan, after some runs in a row that have used at most a quarter of it, since kernels
 * compute for all of it. */
static void shrink(const call *c, int32_t most) {
  int32_t first = c->partition->first_room, half = c->room / 2;
  if (c->room <= first || most > c->room / 4) {
    atomic_store(&c->partition->spare_runs, 0);
  } else if (atomic_fetch_add(&c->partition->spare_runs, 1) + 1 >= SPARE_RUNS) {
    atomic_store(&c->partition->spare_runs, 0);
    change_room(c, half > first ? half : first);
  }
}

static int run(call *c) {
  tgi_arity arity = c->partition->base.arity;
  c->inputs = tgi_zeros(&c->memory, arity.inputs + arity.outputs + arity.counts, sizeof *c->inputs);
  c->counts = tgi_zeros(&c->memory, arity.counts, sizeof *c->counts);
  c->counted = tgi_zeros(&c->memory, arity.outputs, sizeof *c->counted);
  c->addresses = tgi_zeros(&c->memory, arity.outputs, sizeof *c->addresses);
  c->stay = tgi_zeros(&c->memory, arity.outputs + arity.counts, sizeof *c->stay);
  c->readbacks = tgi_zeros(&c->memory, arity.outputs + arity.counts, sizeof *c->readbacks);
  if (c->memory.lacks) return no_memory(c);
  c->outputs = c->inputs + arity.inputs;
  if (tg_is_forked(c->err)) return 1;
  int32_t first = atomic_load(&c->partition->room);
  for (;;) {
    if (run_once(c)) {
      if (c->room > first) change_room(c, first);   /* later runs may need less */
      return 1;
    }
    int32_t most = largest_count(c);
    if (most <= c->room) {
      shrink(c, most);
      return 0;
    }
    if (grow(c, most)) return 1;
  }
}

/* Runs the host's own kernels after the GPU has failed. Their errors are errors of the model. */
static tgo_status *run_elsewhere(const call *c, int *failed) {
  tg_error err = {0};
  tgo_status *status = NULL;
  const char *text = c->err->text[0] ? c->err->text : "this run failed without a reason.";
  if (tgi_is_forked()) return tgi_coded_status(c->api, c->code, text);
  if (!tgi_fallback_run((tgi_compute *)c->compute, c->context, text, &status, &err)) {
    *failed = status != NULL;
    return status;
  }
  char first[1801], both[sizeof err.text];
  snprintf(first, sizeof first, "%.1800s", text);
  tgi_trim(first);
  snprintf(both, sizeof both, "%s onnxruntime's own kernels could not be used instead: %.1800s", first, err.text);
  tgi_trim(both);
  return tgi_coded_status(c->api, c->code, both);
}

tgo_status *tgi_compute_run(tgo_compute *host, void *state, tgo_context *context) {
  const tgi_compute *compute = (const tgi_compute *)host;
  tg_error err = {0};
  call c = {.compute = compute, .partition = compute->partition, .api = compute->api, .context = context, .err = &err,
            .code = TGO_EP_FAIL};
  tgo_status *status = NULL;
  int failed = run(&c), on_gpu = !failed;
  if (failed) status = run_elsewhere(&c, &failed);
  tgi_memory_free(&c.memory);
  free(c.shapes);
  if (on_gpu) atomic_fetch_add(&c.partition->base.runs, 1);
  if (failed) tgi_partition_failed(&c.partition->base, err.text);
  tgi_log_deliver();
  return status;
}
