/* A replay: a partition's dispatches with their bind groups, made once and encoded for every inference. */
#include "core/symbols.h"

/* ---- making ------------------------------------------------------------------------------------------------------- */

static int check_dispatch(const tg_device *device, const tg_replay_spec *spec, size_t index, tg_error *err) {
  const tg_dispatch_spec *dispatch = &spec->dispatches[index];
  const tg_pipeline *pipeline = dispatch->pipeline;
  tg_buffer *const *bindings = spec->bindings + dispatch->first_binding;
  if (dispatch->x > device->max_groups || dispatch->y > device->max_groups || dispatch->z > device->max_groups)
    return tgi_fail(err, "Dispatch %zu has %u x %u x %u workgroups; the adapter's limit is %u per dimension.", index,
                    dispatch->x, dispatch->y, dispatch->z, device->max_groups);
  if (dispatch->first_binding + pipeline->binding_count > spec->binding_count)
    return tgi_fail(err, "Dispatch %zu has more bindings than the plan.", index);
  if (pipeline->device != device) return tgi_fail(err, "The pipeline of dispatch %zu belongs to another device.", index);
  for (size_t i = 0; i < pipeline->binding_count; i++) {
    if (bindings[i] && bindings[i]->device != device)
      return tgi_fail(err, "Dispatch %zu binds a buffer of another device.", index);
    if (!bindings[i] && !(pipeline->kinds[i] == 'u' && spec->uniforms))
      return tgi_fail(err, "Dispatch %zu has no buffer at binding %zu.", index, i);
    for (size_t k = 0; k < i && pipeline->kinds[i] != 'u'; k++)
      if (bindings[k] == bindings[i] && (pipeline->kinds[k] == 'w') != (pipeline->kinds[i] == 'w'))
        return tgi_fail(err, "Dispatch %zu binds one buffer for reading and writing (bindings %zu and %zu).", index, k,
                        i);
  }
  return 0;
}

static int check_ports(const tg_device *device, const char *what, const tg_port_spec *ports, size_t count, tg_error *err) {
  for (size_t i = 0; i < count; i++) {
    if (ports[i].buffer->device != device) return tgi_fail(err, "The buffer of %s %zu belongs to another device.", what, i);
    if (ports[i].buffer->bytes < ports[i].bytes)
      return tgi_fail(err, "The buffer of %s %zu is smaller than its tensor.", what, i);
  }
  return 0;
}

/* wgpu-native may abort the process for a handle of another device, so devices are compared here. */
static int check_spec(const tg_device *device, const tg_replay_spec *spec, tg_error *err) {
  if (spec->version != tg_abi_version())
    return tgi_fail(err, "The plan was made for version %u of the native library, which has version %u.", spec->version,
                    tg_abi_version());
  if (spec->uniforms && spec->uniforms->device != device) return tgi_fail(err, "The uniform buffer belongs to another device.");
  if (spec->check && spec->check->device != device) return tgi_fail(err, "The check buffer belongs to another device.");
  for (size_t i = 0; i < spec->dispatch_count; i++)
    if (check_dispatch(device, spec, i, err)) return 1;
  return check_ports(device, "input", spec->inputs, spec->input_count, err) ||
         check_ports(device, "output", spec->outputs, spec->output_count, err) ||
         check_ports(device, "state", spec->states, spec->state_count, err);
}

static tgi_slot *copy_ports(tgi_slot *slots, const tg_port_spec *ports, size_t count) {
  for (size_t i = 0; i < count; i++) {
    slots[i] = (tgi_slot){.buffer = ports[i].buffer, .bytes = ports[i].bytes, .made = ports[i].bytes};
    tgi_retain(slots[i].buffer);
  }
  return slots + count;
}

static bool copy_slots(tg_replay *replay, const tg_replay_spec *spec) {
  size_t count = spec->input_count + spec->output_count + spec->state_count;
  replay->mappings = tgi_zeros(&replay->memory, count + 2, sizeof *replay->mappings);
  replay->inputs = tgi_zeros(&replay->memory, count, sizeof *replay->inputs);
  if (replay->memory.lacks) return false;
  replay->outputs = copy_ports(replay->inputs, spec->inputs, replay->input_count = spec->input_count);
  replay->states = copy_ports(replay->outputs, spec->outputs, replay->output_count = spec->output_count);
  copy_ports(replay->states, spec->states, replay->state_count = spec->state_count);
  return true;
}

/* Returns the input or output that has this buffer; the output, if both have it. Outputs are counted after inputs. */
static uint32_t port_of(const tg_replay *replay, const tg_buffer *buffer) {
  for (size_t i = replay->input_count + replay->output_count; i--;)
    if (replay->inputs[i].buffer == buffer) return (uint32_t)i;
  return TGI_NO_PORT;
}

/* Finds the inputs whose buffer is that of an output, too. */
static void find_partners(tg_replay *replay) {
  for (size_t i = 0; i < replay->input_count + replay->output_count; i++) replay->inputs[i].partner = TGI_NO_PORT;
  for (size_t i = 0; i < replay->input_count; i++) {
    uint32_t port = port_of(replay, replay->inputs[i].buffer);
    if (port < replay->input_count) continue;
    replay->inputs[i].partner = port;
    replay->inputs[port].partner = i;
  }
}

static bool copy_spec(tg_replay *replay, const tg_replay_spec *spec) {
  replay->steps = tgi_zeros(&replay->memory, spec->dispatch_count, sizeof *replay->steps);
  replay->buffers = tgi_zeros(&replay->memory, spec->binding_count + 1, sizeof *replay->buffers);
  replay->ports = tgi_zeros(&replay->memory, spec->binding_count + 1, sizeof *replay->ports);
  replay->labels = tgi_copy_text(&replay->memory, spec->labels);
  if (!copy_slots(replay, spec)) return false;
  find_partners(replay);
  replay->step_count = spec->dispatch_count;
  replay->buffer_count = spec->binding_count + 1;
  for (size_t i = 0; i < spec->binding_count; i++)
    if ((replay->buffers[i] = spec->bindings[i])) tgi_retain(spec->bindings[i]);
  if ((replay->buffers[spec->binding_count] = spec->uniforms)) tgi_retain(spec->uniforms);
  if ((replay->check = spec->check)) tgi_retain(spec->check);
  for (size_t i = 0; i < spec->dispatch_count; i++) {
    const tg_dispatch_spec *dispatch = &spec->dispatches[i];
    replay->steps[i] = (tgi_step){.pipeline = dispatch->pipeline,
                                  .first_binding = dispatch->first_binding,
                                  .uniform_offset = dispatch->uniform_offset};
    tgi_retain(dispatch->pipeline);
  }
  for (size_t i = 0; i < spec->binding_count; i++) replay->ports[i] = port_of(replay, replay->buffers[i]);
  return true;
}

static void bind_steps(tg_replay *replay, const tg_replay_spec *spec) {
  tgi_view views[TGI_MAX_BINDINGS];
  for (size_t i = 0; i < spec->dispatch_count; i++) {
    const tg_dispatch_spec *dispatch = &spec->dispatches[i];
    tgi_step *step = &replay->steps[i];
    tgi_step_views(replay, step, views);
    if (dispatch->optional || (dispatch->x && dispatch->y && dispatch->z)) step->group = tgi_bind(step->pipeline, views);
  }
}

static void set_sizes(tg_replay *replay, const tg_replay_spec *spec) {
  for (size_t i = 0; i < spec->dispatch_count; i++) {
    const tg_dispatch_spec *dispatch = &spec->dispatches[i];
    const uint32_t groups[] = {dispatch->x, dispatch->y, dispatch->z};
    memcpy(replay->steps[i].groups, groups, sizeof groups);
    memcpy(replay->steps[i].made, groups, sizeof groups);
    tgi_note_idle(&replay->steps[i]);
  }
}

/* Makes the bind groups and runs all steps once without workgroups, so that wgpu refuses an invalid plan before the host hands
 * over its nodes. (The commands are submitted because wgpu-native leaks those that are not.) */
static int rehearse(tg_replay *replay, const tg_replay_spec *spec, tg_error *err) {
  tg_device *device = replay->device;
  tgi_ticket ticket;
  tgi_device_lock(device);
  unsigned mark = tgi_scope_begin(device);
  bind_steps(replay, spec);
  int failed = tgi_submit_steps(device, mark, replay->steps, replay->step_count, &ticket, err);
  tgi_device_unlock(device);
  set_sizes(replay, spec);
  return failed;
}

/* Gives each slot that cannot be mapped an offset in a staging buffer, with room for its whole buffer; returns the size of the
 * staging buffer. */
static uint64_t stage(tgi_slot *slots, size_t count, WGPUBufferUsage usage) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < count; i++) {
    slots[i].place = bytes;
    if (!(slots[i].buffer->usage & usage)) bytes += tgi_round_up(slots[i].buffer->bytes, 16);
  }
  return bytes;
}

static int make_staging(tg_replay *replay, tg_error *err) {
  size_t results = replay->output_count + replay->state_count;
  uint64_t up = stage(replay->inputs, replay->input_count, WGPUBufferUsage_MapWrite);
  uint64_t down = stage(replay->outputs, results, WGPUBufferUsage_MapRead) + (replay->check ? CHECK_BYTES : 0);
  WGPUBufferUsage written = WGPUBufferUsage_MapWrite | WGPUBufferUsage_CopySrc;
  WGPUBufferUsage read = WGPUBufferUsage_MapRead | WGPUBufferUsage_CopyDst;
  return (up && !(replay->upload = tgi_staging_create(replay->device, up, written, err))) ||
         (down && !(replay->readback = tgi_staging_create(replay->device, down, read, err)));
}

static int fill_replay(tg_replay *replay, const tg_replay_spec *spec, tg_error *err) {
  if (!copy_spec(replay, spec)) return tgi_no_memory(err, "a plan");
  return rehearse(replay, spec, err) || make_staging(replay, err);
}

tg_replay *tg_replay_create(tg_device *device, const tg_replay_spec *spec, tg_error *err) {
  if (check_spec(device, spec, err)) return NULL;
  tg_replay *replay = calloc(1, sizeof *replay);
  if (!replay) return (tgi_no_memory(err, "a plan"), NULL);
  replay->refs = 1;
  replay->device = device;
  tgi_retain(device);
  tgi_mutex_init(&replay->run_lock);
  tgi_mutex_init(&replay->lent_lock);
  int failed = tgi_enter(err);
  if (!failed) {
    failed = fill_replay(replay, spec, err);
    tgi_leave();
  }
  if (!failed) return replay;
  tg_replay_release(replay);
  return NULL;
}

/* ---- references --------------------------------------------------------------------------------------------------- */

/* wgpu-native never frees commands that were not submitted, nor what they use, so prepared commands are submitted now. The
 * replay is not in use, so its inputs and outputs are the only buffers that may be mapped. */
static void end_replay(tgi_ending *ending) {
  tg_replay *replay = (tg_replay *)ending;
  WGPUSubmissionIndex index;
  tgi_unmap_ports(replay);
  if (!replay->prepared) return;
  tgi_queue(replay->device, &replay->prepared, &index, NULL);
  W(CommandBufferRelease)(replay->prepared);
}

static void free_replay(tgi_ending *ending) {
  tg_replay *replay = (tg_replay *)ending;
  if (tgi_enter_release()) {
    for (size_t i = 0; i < replay->step_count; i++)
      if (replay->steps[i].group) W(BindGroupRelease)(replay->steps[i].group);
    tgi_bindings_release(replay);
    if (replay->queries) W(QuerySetRelease)(replay->queries);
    tgi_leave_release();
  }
  for (size_t i = 0; i < replay->step_count; i++) tg_pipeline_release(replay->steps[i].pipeline);
  for (size_t i = 0; i < replay->buffer_count; i++) tg_buffer_release(replay->buffers[i]);
  for (const tgi_slot *slot = replay->inputs; slot < replay->states + replay->state_count; slot++)
    tg_buffer_release(slot->buffer);
  tg_buffer_release(replay->check);
  tg_buffer_release(replay->upload);
  tg_buffer_release(replay->readback);
  tg_buffer_release(replay->resolved);
  tgi_symbols_release(replay->symbols);
  tgi_memory_free(&replay->memory);
  tgi_mutex_destroy(&replay->run_lock);
  tgi_mutex_destroy(&replay->lent_lock);
  tg_device_release(replay->device);
  free(replay);
}

void tg_replay_release(tg_replay *replay) {
  if (!replay || atomic_fetch_sub(&replay->refs, 1) != 1) return;
  tg_device *device = replay->device;
  replay->ending = (tgi_ending){.end = end_replay, .release = free_replay};
  if (!tgi_enter_release()) {
    free_replay(&replay->ending);
    return;
  }
  tgi_retain(device);
  tgi_end(device, &replay->ending);
  tgi_leave_release();
  tg_device_release(device);
}

void tg_replay_counters(tg_replay *replay, tg_counters *out) {
  *out = (tg_counters){.runs = replay->runs,
                       .failures = replay->failures,
                       .uploaded_bytes = replay->uploaded,
                       .downloaded_bytes = replay->downloaded,
                       .last_nanoseconds = replay->last_nanoseconds,
                       .copied_bytes = replay->copied};
}
