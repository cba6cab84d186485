/* Delegates and kernels, and their references. A kernel is one partition in one interpreter. */
#include "tflite/internal.h"

#include "core/tensors.h"

void tgi_delegate_release(tgi_delegate *delegate) {
  if (atomic_fetch_sub(&delegate->refs, 1) != 1) return;
  tgi_client_remove(&delegate->client);
  free(delegate);
}

static void enlist(tg_kernel *kernel) {
  tgi_lock();
  kernel->next = kernel->delegate->kernels;
  kernel->delegate->kernels = kernel;
  tgi_unlock();
}

static void remove_from_list(tg_kernel *kernel) {
  tgi_lock();
  tg_kernel **at = &kernel->delegate->kernels;
  while (*at != kernel) at = &(*at)->next;
  *at = kernel->next;
  tgi_unlock();
}

/* Returns a kernel that the host has freed and that still has plans, retained, or NULL. */
static tg_kernel *find_freed(const tgi_delegate *delegate) {
  tgi_lock();
  tg_kernel *found = delegate->destroyed ? delegate->kernels : NULL;
  while (found && (found->base.live || !found->base.plans.count)) found = found->next;
  if (found) tgi_retain(&found->base);
  tgi_unlock();
  return found;
}

void tgi_kernels_sweep(tgi_delegate *delegate) {
  for (tg_kernel *kernel; (kernel = find_freed(delegate)); tg_kernel_release(kernel)) tgi_plans_drop(&kernel->base);
}

int64_t tg_tflite_delegate_number(void *delegate) {
  return delegate ? tgi_client_number(&((tgi_delegate *)delegate)->client) : 0;
}

int tgi_report(tgl_context *context, const char *prefix, const char *text) {
  if (context->report_error) context->report_error(context, "%s%s\n", prefix, text);
  return TGL_ERROR;
}

int tgi_compare(const void *a, const void *b) {
  int32_t left = *(const int32_t *)a, right = *(const int32_t *)b;
  return (left > right) - (left < right);
}

static void copy_spec(tg_kernel *kernel, const tg_kernel_spec *spec) {
  tgi_memory *memory = &kernel->memory;
  kernel->node_count = spec->node_count;
  kernel->base.arity = (tgi_arity){.inputs = spec->input_count + spec->shape_only_count,
                                   .ports = spec->input_count,
                                   .values = spec->value_count,
                                   .outputs = spec->output_count,
                                   .states = spec->state_count};
  kernel->nodes = tgi_copy(memory, spec->node_list, spec->node_count, sizeof *kernel->nodes);
  if (kernel->nodes) qsort(kernel->nodes, kernel->node_count, sizeof *kernel->nodes, tgi_compare);
  kernel->inputs = tgi_zeros(memory, kernel->base.arity.inputs, sizeof *kernel->inputs);
  for (size_t i = 0; kernel->inputs && i < kernel->base.arity.inputs; i++)
    kernel->inputs[i] = i < spec->input_count ? spec->input_list[i] : spec->shape_only_list[i - spec->input_count];
  kernel->values = tgi_copy(memory, spec->value_list, spec->value_count, sizeof *kernel->values);
  kernel->outputs = tgi_copy(memory, spec->output_list, spec->output_count, sizeof *kernel->outputs);
  kernel->states = tgi_copy(memory, spec->state_list, spec->state_count, sizeof *kernel->states);
  kernel->kept_at = tgi_zeros(memory, spec->state_count, sizeof *kernel->kept_at);
  kernel->keeps_states = spec->keeps_states != 0;
  kernel->handles = tgi_zeros(memory, spec->output_count, sizeof *kernel->handles);
  for (size_t i = 0; kernel->handles && i < spec->output_count; i++) kernel->handles[i] = TGL_NO_HANDLE;
  kernel->stays = tgi_copy(memory, spec->stays, spec->output_count, 1);
  if (spec->lent_inputs) kernel->lent_inputs = tgi_copy(memory, spec->lent_inputs, spec->input_count, 1);
  if (spec->lent_outputs) kernel->lent_outputs = tgi_copy(memory, spec->lent_outputs, spec->output_count, 1);
  kernel->open = tgi_zeros(memory, spec->output_count, 1);
  kernel->callers = tgi_copy(memory, spec->caller_list, spec->caller_count, sizeof *kernel->callers);
  kernel->caller_count = spec->caller_count;
  kernel->names = tgi_copy_text(memory, spec->names);
}

static void make_habits(tg_kernel *kernel) {
  size_t count = kernel->base.arity.outputs;
  tgi_habit **habits = kernel->base.habits = tgi_zeros(&kernel->memory, count, sizeof(tgi_habit *));
  for (size_t i = 0; habits && i < count; i++) kernel->memory.lacks |= !(habits[i] = tgi_habit_create());
}

static void free_kernel(tg_kernel *kernel) {
  for (size_t i = 0; kernel->base.habits && i < kernel->base.arity.outputs; i++) tgi_habit_release(kernel->base.habits[i]);
  tgi_memory_free(&kernel->memory);
  free(kernel->host_nodes);
  free(kernel);
}

void tgi_operator_name(const tg_kernel *kernel, int32_t node, char *text, size_t size) {
  const char *line = kernel->names;
  for (size_t i = 0; line && i < kernel->node_count && kernel->nodes[i] != node; i++) {
    line = strchr(line, '\n');
    line = line ? line + 1 : NULL;
  }
  if (line && *line) snprintf(text, size, "%.*s", (int)strcspn(line, "\n"), line);
  else snprintf(text, size, "an operator of the host");
  tgi_trim(text);
}

tg_kernel *tg_kernel_create(void *delegate, const tg_kernel_spec *spec, tg_error *err) {
  if (!tg_tflite_delegate_number(delegate)) return tgi_none(err, "This is not a delegate of tflgpu.");
  tg_kernel *kernel = calloc(1, sizeof *kernel);
  if (kernel) copy_spec(kernel, spec);
  if (kernel && ((const tgi_delegate *)delegate)->lender) make_habits(kernel);
  if (!kernel || kernel->memory.lacks) {
    if (kernel) free_kernel(kernel);
    return (tgi_no_memory(err, "a kernel"), NULL);
  }
  kernel->base.refs = 1;
  kernel->base.number = spec->number;
  kernel->delegate = delegate;
  tgi_retain(kernel->delegate);
  enlist(kernel);
  return kernel;
}

void tgi_newest_drop(tg_kernel *kernel) {
  tgi_lock();
  tg_replay *newest = kernel->newest;
  kernel->newest = NULL;
  tgi_unlock();
  tg_replay_release(newest);
}

void tg_kernel_release(tg_kernel *kernel) {
  if (!kernel || atomic_fetch_sub(&kernel->base.refs, 1) != 1) return;
  remove_from_list(kernel);
  tgi_plans_drop(&kernel->base);
  tgi_newest_drop(kernel);
  tgi_delegate_release(kernel->delegate);
  free_kernel(kernel);
}
