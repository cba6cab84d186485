/* Running a replay: writes inputs, encodes one pass, submits, waits, reads outputs. */
#include "core/internal.h"
#include "core/tensors.h"

enum {
  LONG_RUN = 200000000,            /* nanoseconds; encoding takes next to nothing of such a run */
  LASTING = 8                      /* runs after which a shape is worth the loss of commands prepared for another */
};

typedef struct run {
  tg_replay *replay;
  const tgi_setting *setting;
  const tg_port *inputs, *outputs, *states;
  const bool *stay;
  uint64_t *timestamps;
  size_t steps;
  bool staged;                     /* inputs that cannot be mapped were written to the staging buffer */
  tgi_timestamping timestamping;
  bool reads_back;                 /* results or the check come through the staging buffer */
  size_t mapping_count;
  uint64_t start;
  tgi_traffic traffic;
} run;

/* Results are the outputs, then the states. */
static size_t result_count(const run *r) { return r->replay->output_count + r->replay->state_count; }

static const tg_port *result(const run *r, size_t i) {
  size_t outputs = r->replay->output_count;
  return i < outputs ? &r->outputs[i] : &r->states[i - outputs];
}

/* ---- before and after the pass -------------------------------------------------------------------------------------- */

static bool is_staged(const tgi_slot *input) { return !tgi_is_mappable(input, WGPUMapMode_Write); }

/* Copies what tensors still have in mapped memory of the last run. */
static void take_back(tg_replay *replay) {
  for (size_t i = 0; i < replay->output_count; i++) {
    tgi_slot *slot = &replay->outputs[i];
    if (slot->lent_to) tgi_tensor_take_back(slot->lent_to, slot->mapped, slot->bytes);
    slot->lent_to = NULL;
  }
}

/* Writes inputs to memory that the last run left mapped. It is unmapped later, with the device's lock held. */
static void write_mapped_inputs(run *r) {
  for (size_t i = 0; i < r->replay->input_count; i++) {
    tgi_slot *slot = &r->replay->inputs[i];
    r->staged |= slot->mapped && is_staged(slot);
    slot->written = slot->mapped && slot->bytes && !r->inputs[i].device;
    if (!slot->written) continue;
    memcpy(slot->mapped, r->inputs[i].host, slot->bytes);
    memset(slot->mapped + slot->bytes, 0, tgi_round_up(slot->bytes, 4) - slot->bytes);
  }
}

static void write_inputs(run *r) {
  const tg_replay *replay = r->replay;
  for (size_t i = 0; i < replay->input_count; i++) {
    const tgi_slot *slot = &replay->inputs[i];
    if (r->inputs[i].device || !slot->bytes) continue;
    if (!slot->written) tgi_write_padded(slot->buffer, r->inputs[i].host, slot->bytes);
    r->traffic.uploaded += slot->bytes;
  }
  for (size_t i = 0; i < replay->state_count; i++) {
    tgi_slot *state = &replay->states[i];
    const void *host = r->states[i].host;
    if (!host || (state->shadow_valid && !memcmp(state->shadow, host, state->bytes))) continue;
    tgi_write_padded(state->buffer, host, state->bytes);
    r->traffic.uploaded += state->bytes;
  }
}

static void copy(WGPUCommandEncoder encoder, const tg_buffer *from, uint64_t from_offset, const tg_buffer *to,
                 uint64_t to_offset, uint64_t bytes) {
  if (bytes)
    W(CommandEncoderCopyBufferToBuffer)(encoder, from->wgpu, from_offset, to->wgpu, to_offset, tgi_round_up(bytes, 4));
}

static void encode_inputs(const run *r, bool staged, WGPUCommandEncoder encoder) {
  for (size_t i = 0; i < r->replay->input_count; i++) {
    const tgi_slot *slot = &r->replay->inputs[i];
    if (r->inputs[i].device) copy(encoder, r->inputs[i].device, r->inputs[i].offset, slot->buffer, 0, slot->bytes);
    else if (staged && is_staged(slot)) copy(encoder, r->replay->upload, slot->place, slot->buffer, 0, slot->bytes);
  }
}

static void map_later(run *r, tg_buffer *buffer, uint64_t bytes, WGPUMapMode mode) {
  r->replay->mappings[r->mapping_count++] = (tgi_mapping){buffer, bytes, mode};
}

/* The check is at the end of the staging buffer. */
static uint64_t check_place(const tg_replay *replay) { return replay->readback->bytes - CHECK_BYTES; }

static void encode_outputs(const run *r, WGPUCommandEncoder encoder) {
  const tg_replay *replay = r->replay;
  for (size_t i = 0; i < result_count(r); i++) {
    const tgi_slot *slot = &replay->outputs[i];
    const tg_port *port = result(r, i);
    if (port->device) copy(encoder, slot->buffer, 0, port->device, port->offset, slot->bytes);
    if (port->host && !tgi_can_map(slot, WGPUMapMode_Read))
      copy(encoder, slot->buffer, 0, replay->readback, slot->place, slot->bytes);
  }
  if (replay->check) copy(encoder, replay->check, 0, replay->readback, check_place(replay), CHECK_BYTES);
}

/* Lists the buffers to map after the run: results and, when the run is waited for, inputs for the next run. */
static void list_mappings(run *r) {
  const tg_replay *replay = r->replay;
  r->reads_back = replay->check != NULL;
  for (size_t i = 0; i < result_count(r); i++) {
    const tgi_slot *slot = &replay->outputs[i];
    if (!result(r, i)->host || !slot->bytes) continue;
    if (tgi_can_map(slot, WGPUMapMode_Read)) map_later(r, slot->buffer, slot->bytes, WGPUMapMode_Read);
    else r->reads_back = true;
  }
  if (r->reads_back) map_later(r, replay->readback, replay->readback->bytes, WGPUMapMode_Read);
  for (size_t i = 0; i < replay->input_count && r->mapping_count; i++)
    if (tgi_can_map(&replay->inputs[i], WGPUMapMode_Write))
      map_later(r, replay->inputs[i].buffer, replay->inputs[i].buffer->bytes, WGPUMapMode_Write);
  if (replay->upload && r->mapping_count) map_later(r, replay->upload, replay->upload->bytes, WGPUMapMode_Write);
}

/* Copies a result to the host; `staged` is the memory of the staging buffer. */
static int take(run *r, const tgi_slot *slot, const uint8_t *staged, void *host, tg_error *err) {
  r->traffic.downloaded += slot->bytes;
  if (tgi_can_map(slot, WGPUMapMode_Read)) return tgi_take(slot->buffer, host, slot->bytes, err);
  if (!slot->bytes) return 0;
  if (!staged) return tgi_unreadable(r->replay->device, err);
  memcpy(host, staged + slot->place, slot->bytes);
  return 0;
}

/* Finds the memory of a result that stays mapped. */
static int find_mapped(const run *r, tgi_slot *slot, const uint8_t *staged, tg_error *err) {
  if (tgi_can_map(slot, WGPUMapMode_Read)) slot->mapped = tgi_mapped_range(slot->buffer, WGPUMapMode_Read, slot->bytes);
  else if (staged) slot->mapped = (uint8_t *)staged + slot->place;
  return slot->mapped ? 0 : tgi_unreadable(r->replay->device, err);
}

static bool stays(const run *r, size_t i) { return r->stay && i < r->replay->output_count && r->stay[i]; }

/* Leaves results to the tensors at their ports. With the run lock held, so that the next run takes them back. */
static void lend(run *r) {
  for (size_t i = 0; i < r->replay->output_count; i++) {
    tgi_slot *slot = &r->replay->outputs[i];
    if (!stays(r, i)) continue;
    slot->lent_to = r->outputs[i].host;
    tgi_tensor_stay(slot->lent_to, slot->mapped, slot->bytes, r->replay);
    r->traffic.downloaded += slot->bytes;
  }
}

/* Why kernels reject a run, by the number that they give put_check. */
static const char *const FLAGS[] = {
    "",
    ("An integer of this run is beyond int32, in which the GPU computes. Leave the nodes that read or make it to the CPU "
     "with the option exclude."),   /* in parentheses, else clang suspects a missing comma */
    "An index of this run is out of range.",
    "An integer of this run is divided by zero, or raised to a negative power."};
enum { MOST_FLAG = sizeof FLAGS / sizeof *FLAGS - 1 };

static int check(const run *r, const uint8_t *staged, tg_error *err) {
  uint32_t flag;
  if (!staged) return tgi_unreadable(r->replay->device, err);
  memcpy(&flag, staged + check_place(r->replay), sizeof flag);
  return flag ? tgi_fail(err, "%s", FLAGS[flag < MOST_FLAG ? flag : MOST_FLAG]) : 0;
}

/* A rejected run leaves the host's outputs and variables unchanged. */
static void leave_results(const run *r) {
  for (size_t i = 0; i < result_count(r); i++) {
    const tgi_slot *slot = &r->replay->outputs[i];
    if (result(r, i)->host && tgi_can_map(slot, WGPUMapMode_Read)) tgi_give_back(slot->buffer);
  }
}

static int take_outputs(run *r, tg_error *err) {
  tg_replay *replay = r->replay;
  const uint8_t *staged = NULL;
  if (r->reads_back) staged = tgi_mapped_range(replay->readback, WGPUMapMode_Read, replay->readback->bytes);
  int failed = replay->check && check(r, staged, err);
  bool flagged = failed, staged_lent = false;
  if (flagged) leave_results(r);
  for (size_t i = 0; !flagged && i < result_count(r); i++) {
    tgi_slot *slot = &replay->outputs[i];
    void *host = result(r, i)->host;
    if (!host) continue;
    if (stays(r, i)) {
      failed |= find_mapped(r, slot, staged, err);
      staged_lent |= !tgi_is_mappable(slot, WGPUMapMode_Read);
      continue;
    }
    failed |= take(r, slot, staged, host, err);
    if (!slot->shadow) continue;
    memcpy(slot->shadow, host, slot->bytes);
    slot->shadow_valid = true;
  }
  if (!failed) lend(r);
  if (r->reads_back && !staged_lent) tgi_give_back(replay->readback);
  return failed;
}

static uint8_t *keep(tg_buffer *buffer, uint64_t bytes) {
  uint8_t *mapped = tgi_mapped_range(buffer, WGPUMapMode_Write, bytes);
  if (!mapped) tgi_give_back(buffer);
  return mapped;
}

static void keep_inputs(const run *r) {
  tg_buffer *upload = r->replay->upload;
  uint8_t *staged = upload ? keep(upload, upload->bytes) : NULL;
  for (size_t i = 0; i < r->replay->input_count; i++) {
    tgi_slot *slot = &r->replay->inputs[i];
    if (tgi_can_map(slot, WGPUMapMode_Write)) slot->mapped = keep(slot->buffer, slot->buffer->bytes);
    if (staged && is_staged(slot)) slot->mapped = staged + slot->place;
  }
}

/* ---- one run ---------------------------------------------------------------------------------------------------------- */

static void encode(const run *r, bool staged, WGPUCommandEncoder encoder) {
  encode_inputs(r, staged, encoder);
  if (r->replay->check) W(CommandEncoderClearBuffer)(encoder, r->replay->check->wgpu, 0, CHECK_BYTES);
  tgi_encode_steps(encoder, r->replay->steps, r->steps, r->timestamping, r->replay->queries);
  encode_outputs(r, encoder);
}

/* Returns whether other runs may have the same commands: all steps, from host memory to host memory. */
static bool is_plain(const run *r) {
  const tg_replay *replay = r->replay;
  bool plain = r->steps == replay->step_count;
  for (size_t i = 0; i < replay->input_count; i++) plain &= !r->inputs[i].device;
  for (size_t i = 0; i < result_count(r); i++) plain &= result(r, i)->host && !result(r, i)->device;
  return plain;
}

/* `staged`: inputs that cannot be mapped come from the staging buffer instead of queue writes. */
static WGPUCommandBuffer make_commands(const run *r, bool staged, tg_error *err) {
  tg_device *device = r->replay->device;
  unsigned mark = tgi_scope_begin(device);
  WGPUCommandEncoder encoder = W(DeviceCreateCommandEncoder)(device->wgpu, NULL);
  encode(r, staged, encoder);
  return tgi_finish(device, encoder, mark, err);
}

/* Encodes the next run's commands while the device works on this one; not after the first run of a shape, which may be the only
 * one, and not where commands for a shape that does not come again would change states. */
static void prepare_next(const run *r) {
  tg_error ignored;
  tg_replay *replay = r->replay;
  if (replay->prepared || !replay->repeats || atomic_load(&replay->last_nanoseconds) > LONG_RUN) return;
  if (replay->symbols && replay->state_count) return;
  if (is_plain(r)) replay->prepared = make_commands(r, true, &ignored);
  replay->prepared_timestamping = r->timestamping;
  replay->prepared_shape = replay->shape;
}

/* Submits commands for another shape than that of the last runs, because wgpu-native leaks those that are not submitted. They
 * run on what the last run left; this run writes its inputs afterwards. */
static int drop_prepared(const run *r, tg_error *err) {
  tg_replay *replay = r->replay;
  WGPUSubmissionIndex index;
  if (!replay->prepared || replay->prepared_shape == replay->shape || replay->repeats < LASTING) return 0;
  int failed = tgi_queue(replay->device, &replay->prepared, &index, err);
  W(CommandBufferRelease)(replay->prepared);
  replay->prepared = NULL;
  for (size_t i = 0; i < replay->state_count; i++) replay->states[i].shadow_valid = false;
  return failed;
}

static WGPUCommandBuffer take_commands(run *r, tg_error *err) {
  tg_replay *replay = r->replay;
  WGPUCommandBuffer prepared = replay->prepared;
  bool like = replay->prepared_timestamping == r->timestamping && replay->prepared_shape == replay->shape &&
              r->staged == (replay->upload != NULL);
  if (!prepared || !like || !is_plain(r)) return make_commands(r, r->staged, err);
  replay->prepared = NULL;
  return prepared;
}

/* Refuses buffers of other partitions that a run on another thread is reading back. */
static int check_unmapped(const run *r, tg_error *err) {
  bool busy = false;
  for (size_t i = 0; i < r->replay->input_count; i++)
    busy |= r->inputs[i].device && atomic_load(&r->inputs[i].device->mapped);
  for (size_t i = 0; i < r->replay->output_count; i++)
    busy |= r->outputs[i].device && atomic_load(&r->outputs[i].device->mapped);
  return busy ? tgi_fail(err, "A tensor of this run is being read by another thread; let that run end first.") : 0;
}

static int submit(run *r, tgi_ticket *ticket, tg_error *err) {
  tg_device *device = r->replay->device;
  tgi_device_lock(device);
  if (check_unmapped(r, err)) {
    tgi_device_unlock(device);
    return 1;
  }
  tgi_unmap_ports(r->replay);
  int failed = drop_prepared(r, err);
  unsigned mark = tgi_scope_begin(device);
  tgi_write_uniforms(r->replay);
  write_inputs(r);
  failed |= tgi_scope_end(device, mark, "Writing the inputs", err);
  if (!failed) {
    r->replay->has_new_words = false;
    WGPUCommandBuffer commands = take_commands(r, err);
    list_mappings(r);
    failed = tgi_submit(device, commands, r->replay->mappings, r->mapping_count, ticket, err);
  }
  if (!failed && ticket->mapped) prepare_next(r);
  tgi_device_unlock(device);
  return failed;
}

/* A run whose results all stay on the device is not waited for, but the run before it is, so that work does not pile up. */
static void wait_for_previous(tg_replay *replay, WGPUSubmissionIndex index) {
  if (replay->has_last_index) tgi_wait(replay->device, replay->last_index);
  replay->last_index = index;
  replay->has_last_index = true;
}

static int finish(run *r, tgi_ticket *ticket, tg_error *err) {
  if (!ticket->mapped) {
    wait_for_previous(r->replay, ticket->index);
    return 0;
  }
  if (tgi_collect(r->replay->device, ticket, err)) return 1;
  keep_inputs(r);
  return take_outputs(r, err);
}

/* Checks the sizes and devices of ports. Those that stay on the device have no bytes of the host's. */
static int check_list(const run *r, const char *what, const tg_port *ports, const tgi_slot *slots, size_t count,
                      tg_error *err) {
  for (size_t i = 0; i < count; i++) {
    if ((ports[i].host || ports[i].device) && ports[i].bytes != slots[i].bytes)
      return tgi_fail(err, "%s %zu of the partition has %llu bytes, but its plan has %llu.", what, i,
                      (unsigned long long)ports[i].bytes, (unsigned long long)slots[i].bytes);
    if (ports[i].device && ports[i].device->device != r->replay->device)
      return tgi_fail(err, "%s %zu of the partition is on another GPU device.", what, i);
  }
  return 0;
}

static int check_ports(const run *r, tg_error *err) {
  const tg_replay *replay = r->replay;
  if (tgi_check_alive(replay->device, err) ||
      check_list(r, "Input", r->inputs, replay->inputs, replay->input_count, err) ||
      check_list(r, "Output", r->outputs, replay->outputs, replay->output_count, err) ||
      check_list(r, "State", r->states, replay->states, replay->state_count, err))
    return 1;
  for (size_t i = 0; i < replay->input_count; i++)
    if (!r->inputs[i].device && !r->inputs[i].host && replay->inputs[i].bytes)
      return tgi_fail(err, "Input %zu of the partition has no data.", i);
  return 0;
}

/* With the run lock held. */
static int run_locked(run *r, tg_error *err) {
  tgi_ticket ticket;
  take_back(r->replay);
  if (tgi_reshape(r->replay, r->setting, err) || check_ports(r, err)) return 1;
  if (r->timestamps && tgi_timestamps_ready(r->replay, err)) return 1;
  write_mapped_inputs(r);
  if (submit(r, &ticket, err) || finish(r, &ticket, err)) {
    for (size_t i = 0; i < r->replay->state_count; i++) r->replay->states[i].shadow_valid = false;
    return 1;
  }
  r->traffic.nanoseconds = tgi_now() - r->start;
  if (r->replay->repeats < UINT32_MAX) r->replay->repeats++;
  return r->timestamps ? tgi_timestamps_read(r->replay, r->steps, r->timestamping, r->timestamps, err) : 0;
}

static void count(run *r, int failed) {
  tg_replay *replay = r->replay;
  if (failed) r->traffic.nanoseconds = tgi_now() - r->start;
  atomic_fetch_add(failed ? &replay->failures : &replay->runs, 1);
  atomic_fetch_add(&replay->uploaded, r->traffic.uploaded);
  atomic_fetch_add(&replay->downloaded, r->traffic.downloaded);
  atomic_store(&replay->last_nanoseconds, r->traffic.nanoseconds);
}

int tgi_replay_run(tg_replay *replay, const tgi_setting *setting, const tgi_ports *ports, const tg_run_options *options,
                   tgi_traffic *traffic, tg_error *err) {
  static atomic_flag first = ATOMIC_FLAG_INIT;
  run r = {.replay = replay, .setting = setting, .inputs = ports->inputs, .outputs = ports->outputs, .states = ports->states,
           .stay = ports->stay, .steps = replay->step_count};
  if (options) {
    r.timestamps = options->timestamps;
    if (options->stop_after && options->stop_after < r.steps) r.steps = options->stop_after;
    if (r.timestamps) r.timestamping = options->ends_only ? TGI_ENDS : TGI_EACH;
  }
  if (tgi_enter(err)) {
    atomic_fetch_add(&replay->failures, 1);
    return 1;
  }
  r.start = tgi_now();
  tgi_mutex_lock(&replay->run_lock);
  int failed = run_locked(&r, err);
  tgi_mutex_unlock(&replay->run_lock);
  count(&r, failed);
  *traffic = r.traffic;
  if (!atomic_flag_test_and_set(&first)) tgi_register_exit();
  tgi_leave();
  return failed;
}

int tg_replay_run(tg_replay *replay, const tg_port *inputs, const tg_port *outputs, const tg_port *states,
                  const tg_run_options *options, tg_error *err) {
  tgi_traffic traffic;
  tgi_ports ports = {inputs, outputs, states, NULL};
  return tgi_replay_run(replay, NULL, &ports, options, &traffic, err);
}

/* ---- reading an output later ------------------------------------------------------------------------------------------ */

static int read_output(tg_replay *replay, size_t index, void *host, uint64_t bytes, tg_error *err) {
  const tgi_slot *slot = &replay->outputs[index];
  if (slot->bytes != bytes)
    return tgi_fail(err, "Output %zu has %llu bytes on the GPU, but %llu are asked for.", index,
                    (unsigned long long)slot->bytes, (unsigned long long)bytes);
  if (!bytes) return 0;
  tg_buffer *staging = tgi_can_map(slot, WGPUMapMode_Read) ? slot->buffer : replay->readback;
  take_back(replay);
  tgi_device_lock(replay->device);
  tgi_unmap_ports(replay);
  tgi_device_unlock(replay->device);
  if (tgi_check_alive(replay->device, err) || tgi_buffer_read(slot->buffer, staging, host, slot->bytes, err)) return 1;
  atomic_fetch_add(&replay->downloaded, slot->bytes);
  return 0;
}

int tg_replay_read_output(tg_replay *replay, size_t index, void *host, uint64_t bytes, tg_error *err) {
  if (index >= replay->output_count) return tgi_fail(err, "There is no output %zu.", index);
  if (tgi_enter(err)) return 1;
  tgi_mutex_lock(&replay->run_lock);
  int failed = read_output(replay, index, host, bytes, err);
  tgi_mutex_unlock(&replay->run_lock);
  tgi_leave();
  return failed;
}
