/* The functions that the host calls on a kernel. */
#include "tflite/internal.h"

#include "core/tensors.h"

/* ---- init, free, prepare ------------------------------------------------------------------------------------------------- */

/* Copies the nodes that the kernel replaces; inside the delegate's prepare. */
static int read_host_nodes(tg_kernel *kernel, tgl_context *context, const tgl_ints *nodes, tg_error *err) {
  if (!context->get_node) return tgi_fail(err, "The host gives no access to its nodes.");
  tgi_host_node *list = calloc((size_t)nodes->size + 1, sizeof *list);
  if (!list) return tgi_no_memory(err, "the nodes of a partition");
  for (int32_t i = 0; i < nodes->size; i++) {
    tgl_node *node = NULL;
    tgl_registration *registration = NULL;
    if (context->get_node(context, nodes->data[i], &node, &registration) || !node || !registration) {
      free(list);
      return tgi_fail(err, "The host gives no access to its node %d.", nodes->data[i]);
    }
    list[i] = (tgi_host_node){*node, *registration, nodes->data[i]};
  }
  free(kernel->host_nodes);
  kernel->host_nodes = list;
  kernel->host_node_count = (size_t)nodes->size;
  return 0;
}

static void *kernel_init(tgl_context *context, const char *buffer, size_t length) {
  const tgl_partition *partition = (const tgl_partition *)(const void *)buffer;
  tg_kernel *kernel = tgi_take_claimed(context, partition);
  tg_error ignored;
  if (!kernel) return NULL;
  read_host_nodes(kernel, context, partition->nodes, &ignored);   /* a run that needs them reports their absence */
  atomic_store(&kernel->base.live, 1);
  tgi_lent_announce(kernel, context);
  return kernel;
}

static void kernel_free(tgl_context *context, void *data) {
  tg_kernel *kernel = data;
  if (!kernel) return;
  tgi_handles_withdraw(kernel, context);
  tgi_states_forget(kernel);
  tgi_partition_freed(&kernel->base);
  tgi_newest_drop(kernel);
  tgi_kernels_sweep(kernel->delegate);
  tg_kernel_release(kernel);
}

static bool has_shape(const tgl_tensor *tensor, const int32_t *shape) { return tgi_has_shape(tensor, shape[0], shape + 1); }

/* Sets the shapes of outputs. Those that the host would only learn by running a node are known here, so that it can plan memory
 * for these tensors, too. */
static int32_t resize_outputs(tgl_context *context, const tg_kernel *kernel, const int32_t *shape) {
  for (size_t i = 0; i < kernel->base.arity.outputs; i++, shape += 1 + shape[0]) {
    tgl_tensor *tensor = &context->tensors[kernel->outputs[i]];
    if (tensor->allocation == TGL_IN_DYNAMIC && !tensor->data) tensor->allocation = TGL_IN_ARENA;
    if (!has_shape(tensor, shape) && tgi_resize(context, tensor, shape[0], shape + 1) != TGL_OK)
      return tgi_report(context, "tflgpu: ", "the host could not resize an output.");
  }
  return TGL_OK;
}

/* An error here would make the interpreter unusable, or move the graph to the CPU without a message. So the reason why shapes have
 * no plan is kept, and runs go to the host's kernels, which report invalid shapes. Where values that only a run provides select the
 * plan, the shapes that follow from them stay open. */
static int32_t kernel_prepare(tgl_context *context, tgl_node *node) {
  tg_kernel *kernel = node->user_data;
  if (!kernel) return tgi_report(context, "tflgpu: ", "the host made a kernel that was not asked for.");
  if (tgi_is_forked()) return TGL_OK;
  int32_t status = TGL_OK;
  tg_error err = {0};
  if (kernel->base.arity.outputs) memset(kernel->open, 0, kernel->base.arity.outputs);
  tgi_plan *plan = tgi_values_are_known(kernel, context) ? tgi_present_plan(kernel, context, true, &err) : NULL;
  if (plan && plan->output_shape_count) status = resize_outputs(context, kernel, plan->output_shapes);
  else if (kernel->host_nodes) tgi_fallback_prepare(kernel, context, &err);
  if (plan && plan->replay && status == TGL_OK) tgi_lent_announce(kernel, context);
  tgi_plan_release(plan);
  return status;
}

/* ---- invoke --------------------------------------------------------------------------------------------------------------- */

/* The ports of a run, and references that it needs. */
typedef struct ports {
  tgi_memory memory;
  tg_port *inputs, *outputs, *states;
  tg_replay **producers;           /* for inputs from other partitions a reference to the replay */
  tgi_lent *lent;                  /* memory of a lender, for the ports and then the outputs */
  tgi_readback **readbacks;        /* of such outputs that move */
} ports;

static bool make_ports(ports *p, const tg_kernel *kernel) {
  tgi_arity arity = kernel->base.arity;
  p->inputs = tgi_zeros(&p->memory, arity.ports + arity.outputs + arity.states, sizeof *p->inputs);
  p->producers = tgi_zeros(&p->memory, arity.ports, sizeof *p->producers);
  if (kernel->delegate->lender) {
    p->lent = tgi_zeros(&p->memory, arity.ports + arity.outputs, sizeof *p->lent);
    p->readbacks = tgi_zeros(&p->memory, arity.outputs + arity.counts, sizeof *p->readbacks);
  }
  if (p->memory.lacks) return false;
  p->outputs = p->inputs + arity.ports;
  p->states = p->outputs + arity.outputs;
  return true;
}

static void free_ports(ports *p, const tg_kernel *kernel) {
  for (size_t i = 0; p->producers && i < kernel->base.arity.ports; i++) tg_replay_release(p->producers[i]);
  tgi_memory_free(&p->memory);
}

static const char *name_of(const tgl_tensor *tensor) { return tensor->name ? tensor->name : ""; }

static int wrong_bytes(const tgl_tensor *tensor, uint64_t bytes, tg_error *err) {
  return tgi_fail(err, "Tensor \"%s\" has %zu bytes, but its plan expects %llu.", name_of(tensor), tensor->bytes,
                  (unsigned long long)bytes);
}

static int no_memory(const char *what, const tgl_tensor *tensor, tg_error *err) {
  return tgi_fail(err, "%s tensor \"%s\" has no memory.", what, name_of(tensor));
}

static int wrong_shape(const tgl_tensor *tensor, const int32_t *shape, tg_error *err) {
  char text[TGI_SHAPE_TEXT];
  tgi_shape_text(shape[0], shape + 1, text);
  return tgi_fail(err, "Output tensor \"%s\" does not have the shape of its plan, %s.", name_of(tensor), text);
}

/* Takes an input on the device from the partition that computed it. (Its bytes there stay valid even if the host has copied them
 * for another node.) If no partition has it, the host's bytes are used unless they are stale. */
static int device_input(tg_kernel *kernel, tgl_tensor *tensor, const tgi_plan *plan, size_t i, ports *p, tg_error *err) {
  size_t index;
  tg_kernel *maker;
  tg_replay *producer = NULL;
  if (tensor->delegate == &kernel->delegate->host)
    producer = tgi_handle_find(tensor->delegate, tensor->handle, &index, &maker);
  if (!producer && !tensor->is_stale) return 0;
  if (!producer) return tgi_fail(err, "Input tensor \"%s\" is stale: its bytes are no longer on the GPU.", name_of(tensor));
  tg_kernel_release(maker);
  p->producers[i] = producer;
  if (producer->outputs[index].bytes != tensor->bytes) return wrong_bytes(tensor, producer->outputs[index].bytes, err);
  if (producer->device == plan->replay->device) {
    p->inputs[i] = (tg_port){.device = producer->outputs[index].buffer, .bytes = tensor->bytes};
    atomic_fetch_add(&kernel->base.device_inputs, 1);
    return 0;
  }
  if (!tensor->is_stale) return 0;
  /* The device was replaced between the two plans, so the bytes go through the host. */
  return tensor->data ? tg_replay_read_output(producer, index, tensor->data, tensor->bytes, err)
                      : tgi_fail(err, "An input is on another GPU device and has no memory on the host.");
}

static int lent_input(tg_kernel *kernel, tgl_context *context, const tgl_tensor *tensor, const tgi_plan *plan, size_t i, ports *p,
                      tg_error *err) {
  if (tgi_lent_find(kernel, context, tensor, false, &p->inputs[i], &p->lent[i], err)) return 1;
  if (p->lent[i].moves && tgi_tensor_input(plan->replay->device, &p->inputs[i], err)) return 1;
  if (p->inputs[i].device) atomic_fetch_add(&kernel->base.device_inputs, 1);
  return 0;
}

static int fill_inputs(tg_kernel *kernel, tgl_context *context, const tgi_plan *plan, ports *p, tg_error *err) {
  for (size_t i = 0; i < kernel->base.arity.ports; i++) {
    tgl_tensor *tensor = &context->tensors[kernel->inputs[i]];
    if (tensor->bytes != plan->inputs[i]) return wrong_bytes(tensor, plan->inputs[i], err);
    if (tgi_is_lent(kernel, tensor)) {
      if (lent_input(kernel, context, tensor, plan, i, p, err)) return 1;
      continue;
    }
    p->inputs[i] = (tg_port){.host = tensor->data, .bytes = tensor->bytes};
    if ((tensor->is_stale || tensor->handle >= 0) && device_input(kernel, tensor, plan, i, p, err)) return 1;
    if (!p->inputs[i].device && !tensor->data && tensor->bytes) return no_memory("Input", tensor, err);
  }
  return 0;
}

/* Programs look at memory of their own, and at buffers that they lend, without a notice: these have the bytes after each run. */
static bool is_the_programs(const tgl_tensor *tensor) { return tensor->allocation == TGL_IN_CUSTOM; }

static bool stays(const tg_kernel *kernel, size_t i, const tgl_tensor *output) {
  return kernel->stays[i] && !is_the_programs(output) && !tgi_is_lent(kernel, output);
}

static int lent_output(const tg_kernel *kernel, tgl_context *context, const tgi_plan *plan, size_t i, ports *p, tg_error *err) {
  tgi_lent *lent = &p->lent[kernel->base.arity.ports + i];
  if (tgi_lent_find(kernel, context, &context->tensors[kernel->outputs[i]], true, &p->outputs[i], lent, err)) return 1;
  if (!lent->moves) return 0;
  const tg_port *past = tgi_plan_past(plan, p->inputs, i);
  return tgi_tensor_output(plan->replay->device, past, kernel->base.habits[i], &p->outputs[i], &p->readbacks[i], err);
}

static int fill_outputs(const tg_kernel *kernel, tgl_context *context, const tgi_plan *plan, ports *p, tg_error *err) {
  const int32_t *shape = plan->output_shapes;
  for (size_t i = 0; i < kernel->base.arity.outputs; i++, shape += 1 + shape[0]) {
    tgl_tensor *tensor = &context->tensors[kernel->outputs[i]];
    if (tgi_lent_shape(kernel, context, i, shape[0], shape + 1, err)) return 1;
    bool open = tensor->allocation == TGL_IN_DYNAMIC;
    bool fits = open ? tgi_set_open_shape(context, tensor, shape[0], shape + 1) : has_shape(tensor, shape);
    if (!fits) return wrong_shape(tensor, shape, err);
    if (tensor->bytes != plan->outputs[i]) return wrong_bytes(tensor, plan->outputs[i], err);
    if (stays(kernel, i, tensor)) continue;
    if (tgi_is_lent(kernel, tensor)) {
      if (lent_output(kernel, context, plan, i, p, err)) return 1;
      continue;
    }
    p->outputs[i] = (tg_port){.host = tensor->data, .bytes = tensor->bytes};
    if (!tensor->data && tensor->bytes) return no_memory("Output", tensor, err);
  }
  return 0;
}

/* Returns whether states stay on the device between runs. They do not if a run may be rejected (`check`), since that must leave
 * them unchanged, or if they are so small that a program might assign the byte pattern that marks kept states. */
static bool keeps_states(const tg_kernel *kernel, const tgl_context *context, const tgi_plan *plan) {
  bool keeps = kernel->keeps_states && kernel->base.arity.states && !plan->replay->check;
  for (size_t i = 0; i < kernel->base.arity.states; i++)
    keeps &= plan->states[i] >= TGI_LEAST_KEPT && !is_the_programs(&context->tensors[kernel->states[i]]);
  return keeps;
}

static int fill_states(tg_kernel *kernel, tgl_context *context, const tgi_plan *plan, ports *p, tg_error *err) {
  if (kernel->keeper != plan->replay && tgi_states_fetch(kernel, context, err)) return 1;
  for (size_t i = 0; i < kernel->base.arity.states; i++) {
    tgl_tensor *tensor = &context->tensors[kernel->states[i]];
    if (tensor->bytes != plan->states[i]) return wrong_bytes(tensor, plan->states[i], err);
    p->states[i] = (tg_port){.host = tensor->data, .bytes = tensor->bytes};
    if (!tensor->data) return no_memory("Variable", tensor, err);
    if (tgi_state_is_kept(kernel, tensor)) p->states[i].host = NULL;
  }
  return 0;
}

static void publish_outputs(tg_kernel *kernel, tgl_context *context, tg_replay *replay) {
  tgi_retain(replay);
  tgi_lock();
  tg_replay *before = kernel->newest;
  kernel->newest = replay;
  tgi_unlock();
  tg_replay_release(before);
  for (size_t i = 0; i < kernel->base.arity.outputs; i++) {
    tgl_tensor *tensor = &context->tensors[kernel->outputs[i]];
    if (stays(kernel, i, tensor)) tgi_handle_publish(kernel, i, tensor);
    else tensor->is_stale = false;
  }
}

/* Records where outputs of a lender are after a run, and releases what its tensors lent. */
static void leave_lent(const ports *p, const tg_kernel *kernel, bool written) {
  tgi_arity arity = kernel->base.arity;
  if (!p->lent || !p->readbacks) return;
  for (size_t i = 0; i < arity.ports; i++)
    if (p->lent[i].moves) tgi_tensor_leave(&p->inputs[i]);
  for (size_t i = 0; i < arity.outputs; i++) {
    const tgi_lent *lent = &p->lent[arity.ports + i];
    if (lent->moves && written) tgi_tensor_wrote(lent->address, &p->outputs[i], kernel->base.habits[i], p->readbacks[i]);
    if (written) tgi_lent_halve(lent, p->outputs[i].bytes);
    tgi_readback_release(p->readbacks[i]);
    if (lent->moves) tgi_tensor_leave(&p->outputs[i]);
  }
}

static int run(tg_kernel *kernel, tgl_context *context, const tgi_plan *plan, tg_error *err) {
  ports p = {0};
  bool keeps = keeps_states(kernel, context, plan);
  int failed = !make_ports(&p, kernel)
                   ? tgi_no_memory(err, "a run")
                   : fill_inputs(kernel, context, plan, &p, err) || fill_outputs(kernel, context, plan, &p, err) ||
                         fill_states(kernel, context, plan, &p, err) ||
                         tgi_partition_run(&kernel->base, plan,
                                           &(tgi_ports){p.inputs, p.outputs, p.states, NULL, p.readbacks, keeps}, err);
  leave_lent(&p, kernel, !failed);
  free_ports(&p, kernel);
  if (!failed) publish_outputs(kernel, context, plan->replay);
  if (!failed && keeps) tgi_states_keep(kernel, context, plan->replay);
  return failed;
}

static int run_plan(tg_kernel *kernel, tgl_context *context, const tgi_plan *plan, tg_error *err) {
  if (!plan->replay) return tgi_fail(err, "This run could not be planned for the GPU: %s", plan->reason);
  return run(kernel, context, plan, err);
}

/* Runs the host's kernels after the GPU has failed. */
static int run_elsewhere(tg_kernel *kernel, tgl_context *context, tg_error *err) {
  tg_error reason = *err;
  if (!kernel->host_nodes || tgi_enter(err)) return 1;
  int failed = tgi_lent_open(kernel, context, err) || tgi_fallback_invoke(kernel, context, err);
  tgi_lent_close(kernel, context, !failed);
  if (!failed) {
    atomic_fetch_add(&kernel->base.host_runs, 1);
    tgi_fell_back(kernel, reason.text);
  }
  tgi_leave();
  return failed;
}

static int32_t kernel_invoke(tgl_context *context, tgl_node *node) {
  tg_kernel *kernel = node->user_data;
  tg_error err;
  if (!kernel) return tgi_report(context, "tflgpu: ", "the host made a kernel that was not asked for.");
  int failed = tg_is_forked(&err), on_gpu = 0;
  if (!failed) {
    tgi_plan *plan = tgi_present_plan(kernel, context, false, &err);
    failed = !plan || run_plan(kernel, context, plan, &err);
    on_gpu = !failed;
    if (failed) failed = run_elsewhere(kernel, context, &err);
    tgi_plan_release(plan);
  }
  if (on_gpu) atomic_fetch_add(&kernel->base.runs, 1);
  if (failed) tgi_partition_failed(&kernel->base, err.text);
  tgi_log_deliver();
  return failed ? tgi_report(context, "tflgpu: ", err.text) : TGL_OK;
}

const tgl_registration tgi_registration = {
    .init = kernel_init,
    .free = kernel_free,
    .prepare = kernel_prepare,
    .invoke = kernel_invoke,
    .custom_name = "TflGpuDelegate",
    .version = 1,
};
