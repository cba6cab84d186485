/* Running a replay: writes inputs, encodes one pass, submits, waits, reads outputs. */
#include "core/run.h"

enum {
  LONG_RUN = 200000000,            /* nanoseconds; encoding is a negligible part of a run that takes this long */
  LASTING = 8                      /* after this many runs with one shape, commands prepared for another shape are dropped */
};

/* ---- one run ---------------------------------------------------------------------------------------------------------- */

static void encode(const tgi_run *r, bool staged, WGPUCommandEncoder encoder) {
  tgi_ports_encode_inputs(r, staged, encoder);
  if (r->replay->check) W(CommandEncoderClearBuffer)(encoder, r->replay->check->wgpu, 0, CHECK_BYTES);
  tgi_encode_steps(encoder, r->replay->steps, tgi_bindings_groups(r), r->steps, r->timestamping, r->replay->queries);
  tgi_ports_encode_outputs(r, encoder);
}

/* Returns whether commands for this run may serve other runs, too: it runs all steps, from host memory to host memory
 * (states may stay on the device). */
static bool is_plain(const tgi_run *r) {
  const tg_replay *replay = r->replay;
  bool plain = r->steps == replay->step_count;
  for (size_t i = 0; i < replay->input_count; i++) plain &= !r->inputs[i].device;
  size_t fetched = r->keeps_states ? replay->output_count : tgi_result_count(r);
  for (size_t i = 0; i < fetched; i++) plain &= tgi_result(r, i)->host && !tgi_result(r, i)->device;
  return plain;
}

/* Encodes the commands of a run. `staged`: inputs that cannot be mapped come from the staging buffer, not from queue writes. */
static WGPUCommandBuffer make_commands(const tgi_run *r, bool staged, tg_error *err) {
  tg_device *device = r->replay->device;
  unsigned mark = tgi_scope_begin(device);
  WGPUCommandEncoder encoder = W(DeviceCreateCommandEncoder)(device->wgpu, NULL);
  encode(r, staged, encoder);
  return tgi_finish(device, encoder, mark, err);
}

/* Encodes the next run's commands while the device executes this one. Not after the first run with a shape, which may be the only
 * one. Prepared commands must be submitted even if the shape changes (see drop_prepared), which costs as much as a run and changes
 * states. So a plan with symbols prepares commands only once a shape lasts, and only without states. */
static void prepare_next(const tgi_run *r) {
  tg_error ignored;
  tg_replay *replay = r->replay;
  if (replay->prepared || replay->repeats < (replay->symbols ? LASTING : 1)) return;
  if (atomic_load(&replay->last_nanoseconds) > LONG_RUN) return;
  if (replay->symbols && replay->state_count) return;
  if (is_plain(r)) replay->prepared = make_commands(r, true, &ignored);
  replay->prepared_timestamping = r->timestamping;
  replay->prepared_shape = replay->shape;
  replay->prepared_keeps_states = r->keeps_states;
}

/* Gets rid of prepared commands for another shape than that of the last runs, by submitting them: wgpu-native leaks commands that
 * are not submitted. They compute with the inputs and states of the last run; the present run writes its own afterwards, unless the
 * states are kept. */
static int drop_prepared(const tgi_run *r, tg_error *err) {
  tg_replay *replay = r->replay;
  WGPUSubmissionIndex index;
  if (!replay->prepared || replay->prepared_shape == replay->shape || replay->repeats < LASTING) return 0;
  if (r->keeps_states && replay->state_count) return 0;
  int failed = tgi_queue(replay->device, &replay->prepared, &index, err);
  W(CommandBufferRelease)(replay->prepared);
  replay->prepared = NULL;
  return failed;
}

static WGPUCommandBuffer take_commands(tgi_run *r, tg_error *err) {
  tg_replay *replay = r->replay;
  WGPUCommandBuffer prepared = replay->prepared;
  bool like = replay->prepared_timestamping == r->timestamping && replay->prepared_shape == replay->shape &&
              replay->prepared_keeps_states == r->keeps_states && r->staged == (replay->upload != NULL);
  if (!prepared || !like || !is_plain(r)) return make_commands(r, r->staged, err);
  replay->prepared = NULL;
  return prepared;
}

/* Fails if a port is a buffer of another partition that another thread has mapped to read it. */
static int check_unmapped(const tgi_run *r, tg_error *err) {
  bool busy = false;
  for (size_t i = 0; i < r->replay->input_count; i++)
    busy |= r->inputs[i].device && atomic_load(&r->inputs[i].device->mapped);
  for (size_t i = 0; i < r->replay->output_count; i++)
    busy |= r->outputs[i].device && atomic_load(&r->outputs[i].device->mapped);
  return busy ? tgi_fail(err, "A tensor of this run is being read by another thread; let that run end first.") : 0;
}

static int submit(tgi_run *r, tgi_ticket *ticket, tg_error *err) {
  tg_device *device = r->replay->device;
  tgi_device_lock(device);
  if (check_unmapped(r, err)) {
    tgi_device_unlock(device);
    return 1;
  }
  tgi_unmap_ports(r->replay);
  int failed = drop_prepared(r, err) || tgi_bindings_find(r, err);
  unsigned mark = tgi_scope_begin(device);
  tgi_write_uniforms(r->replay);
  tgi_ports_write(r);
  failed |= tgi_scope_end(device, mark, "Writing the inputs", err);
  if (!failed) {
    r->replay->has_new_words = false;
    WGPUCommandBuffer commands = take_commands(r, err);
    tgi_ports_list_mappings(r);
    failed = tgi_submit(device, commands, r->replay->mappings, r->mapping_count, ticket, err);
    r->traffic.submitted = tgi_now();
  }
  if (!failed) tgi_ports_start_readbacks(r, ticket->index);
  if (!failed && ticket->mapped) prepare_next(r);
  tgi_device_unlock(device);
  return failed;
}

/* A run whose results all stay on the device is not waited for. Instead the second run before it is, so that work does not pile
 * up. */
static void wait_for_earlier(tg_replay *replay, WGPUSubmissionIndex index) {
  if (replay->in_flight[0]) tgi_wait(replay->device, replay->in_flight[0]);
  replay->in_flight[0] = replay->in_flight[1];
  replay->in_flight[1] = index;
}

static int finish(tgi_run *r, tgi_ticket *ticket, tg_error *err) {
  if (!ticket->mapped) {
    wait_for_earlier(r->replay, ticket->index);
    if (r->timestamping) tgi_wait(r->replay->device, ticket->index);   /* so that a profile has the time of its end */
    r->traffic.finished = tgi_now();
    return 0;
  }
  if (tgi_collect(r->replay->device, ticket, err)) return 1;
  r->traffic.finished = tgi_now();
  tgi_ports_keep_inputs(r);
  return tgi_ports_take_outputs(r, err);
}

/* Runs the replay; with the run lock held. Where only its timestamps cannot be taken or read, the run has succeeded, because the
 * host's kernels would repeat one that failed. */
static int run_locked(tgi_run *r, tg_error *err) {
  tgi_ticket ticket;
  tgi_ports_take_back(r->replay);
  if (tgi_reshape(r->replay, r->setting, err) || tgi_ports_check(r, err)) return 1;
  bool wanted = r->timestamping != TGI_NO_TIMESTAMPS;
  if (wanted && tgi_timestamps_ready(r->replay, err)) r->timestamping = TGI_NO_TIMESTAMPS;
  tgi_ports_write_mapped(r);
  if (submit(r, &ticket, err)) return 1;
  r->replay->states_are_ahead = r->keeps_states;
  if (finish(r, &ticket, err)) return 1;
  r->replay->states_are_ahead = false;
  r->traffic.nanoseconds = tgi_now() - r->traffic.start;
  if (r->replay->repeats < UINT32_MAX) r->replay->repeats++;
  bool timed = r->timestamping && !tgi_timestamps_read(r->replay, r->steps, r->timestamping, r->timestamps, err);
  r->traffic.untimed = wanted && !timed;
  return 0;
}

static void count(tgi_run *r, int failed) {
  tg_replay *replay = r->replay;
  if (failed) r->traffic.nanoseconds = tgi_now() - r->traffic.start;
  atomic_fetch_add(failed ? &replay->failures : &replay->runs, 1);
  atomic_fetch_add(&replay->uploaded, r->traffic.uploaded);
  atomic_fetch_add(&replay->downloaded, r->traffic.downloaded);
  atomic_fetch_add(&replay->copied, r->traffic.copied);
  atomic_store(&replay->last_nanoseconds, r->traffic.nanoseconds);
}

int tgi_replay_run(tg_replay *replay, const tgi_setting *setting, const tgi_ports *ports, const tg_run_options *options,
                   tgi_traffic *traffic, tg_error *err) {
  static atomic_flag first = ATOMIC_FLAG_INIT;
  tgi_run r = {.replay = replay, .setting = setting, .inputs = ports->inputs, .outputs = ports->outputs,
               .states = ports->states, .stay = ports->stay, .readbacks = ports->readbacks,
               .keeps_states = ports->keeps_states, .steps = replay->step_count};
  if (options) {
    r.timestamps = options->timestamps;
    if (options->stop_after && options->stop_after < r.steps) r.steps = options->stop_after;
    if (r.timestamps) r.timestamping = options->ends_only ? TGI_ENDS : TGI_EACH;
  }
  if (tgi_enter(err)) {
    atomic_fetch_add(&replay->failures, 1);
    return 1;
  }
  r.traffic.start = tgi_now();
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
  tgi_ports ports = {inputs, outputs, states, NULL, NULL, false};
  return tgi_replay_run(replay, NULL, &ports, options, &traffic, err) || traffic.untimed;
}

/* ---- reading an output later ------------------------------------------------------------------------------------------ */

static int read_output(tg_replay *replay, size_t index, void *host, uint64_t bytes, tg_error *err) {
  const tgi_slot *slot = &replay->outputs[index];
  if (slot->bytes != bytes)
    return tgi_fail(err, "Output %zu has %llu bytes on the GPU, but %llu are asked for.", index,
                    (unsigned long long)slot->bytes, (unsigned long long)bytes);
  if (!bytes) return 0;
  if (tgi_check_alive(replay->device, err)) return 1;
  if (index >= replay->output_count && replay->states_are_ahead) return tgi_states_lost(err);
  tg_buffer *staging = tgi_can_map(slot, WGPUMapMode_Read) ? slot->buffer : replay->readback;
  tgi_ports_take_back(replay);
  tgi_device_lock(replay->device);
  tgi_unmap_ports(replay);
  tgi_device_unlock(replay->device);
  if (tgi_buffer_read(slot->buffer, staging, host, slot->bytes, err)) return 1;
  atomic_fetch_add(&replay->downloaded, slot->bytes);
  return 0;
}

int tg_replay_read_output(tg_replay *replay, size_t index, void *host, uint64_t bytes, tg_error *err) {
  if (index >= replay->output_count + replay->state_count) return tgi_fail(err, "There is no output %zu.", index);
  if (tgi_enter(err)) return 1;
  tgi_mutex_lock(&replay->run_lock);
  int failed = read_output(replay, index, host, bytes, err);
  tgi_mutex_unlock(&replay->run_lock);
  tgi_leave();
  return failed;
}
