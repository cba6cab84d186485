/* The ports of a run: checks them, moves inputs to the device and results to the host, in mapped or staging buffers. */
#include "core/run.h"
#include "core/tensors.h"

/* The results are the outputs, followed by the states. */
size_t tgi_result_count(const tgi_run *r) { return r->replay->output_count + r->replay->state_count; }

const tg_port *tgi_result(const tgi_run *r, size_t i) {
  size_t outputs = r->replay->output_count;
  return i < outputs ? &r->outputs[i] : &r->states[i - outputs];
}

void *tgi_destination(const tgi_run *r, size_t i) {
  return r->keeps_states && i >= r->replay->output_count ? NULL : tgi_result(r, i)->host;
}

/* Checks the sizes and devices of ports. Outputs that stay on the device have no host memory. */
static int check_list(const tgi_run *r, const char *what, const tg_port *ports, const tgi_slot *slots, size_t count,
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

int tgi_states_lost(tg_error *err) { return tgi_fail(err, "A run changed the states on the GPU, and then failed."); }

int tgi_ports_check(const tgi_run *r, tg_error *err) {
  const tg_replay *replay = r->replay;
  if (tgi_check_alive(replay->device, err) ||
      check_list(r, "Input", r->inputs, replay->inputs, replay->input_count, err) ||
      check_list(r, "Output", r->outputs, replay->outputs, replay->output_count, err) ||
      check_list(r, "State", r->states, replay->states, replay->state_count, err))
    return 1;
  for (size_t i = 0; i < replay->input_count; i++)
    if (!r->inputs[i].device && !r->inputs[i].host && replay->inputs[i].bytes)
      return tgi_fail(err, "Input %zu of the partition has no data.", i);
  for (size_t i = 0; replay->states_are_ahead && i < replay->state_count; i++)
    if (!r->states[i].host) return tgi_states_lost(err);
  return 0;
}

/* Returns the tensor that is bound to the output with the buffer of an input; NULL where there is none. */
static const tg_port *bound_partner(const tgi_run *r, size_t input) {
  size_t partner = r->replay->inputs[input].partner;
  return partner != TGI_NO_PORT && tgi_is_bound(r, partner) ? &r->outputs[partner - r->replay->input_count] : NULL;
}

/* Returns whether a tensor on the device is copied to an input: not if kernels access it where it is. */
static bool is_copied(const tgi_run *r, size_t input) {
  const tg_port *made = bound_partner(r, input);
  return r->inputs[input].device && !tgi_is_bound(r, input) && !(made && made->device == r->inputs[input].device);
}

static bool is_staged(const tgi_slot *input) { return !tgi_is_mappable(input, WGPUMapMode_Write); }

/* Copies the tensors that are still in mapped memory of the last run to their own memory. */
void tgi_ports_take_back(tg_replay *replay) {
  for (size_t i = 0; i < replay->output_count; i++) {
    tgi_slot *slot = &replay->outputs[i];
    if (slot->lent_to) tgi_tensor_take_back(slot->lent_to, slot->mapped, slot->bytes);
    slot->lent_to = NULL;
  }
}

/* Returns the bytes of an input and of the padding after it: kernels read its last elements as a vector, whose other lanes must be
 * 0, whatever tensor was there before. */
static uint64_t padded_bytes(const tgi_slot *slot) {
  uint64_t whole = tgi_round_up(slot->bytes, TGI_VECTOR_BYTES), room = tgi_round_up(slot->buffer->bytes, 4);
  return whole < room ? whole : room;
}

/* Writes inputs to memory that the last run left mapped. It is unmapped later, with the device's lock held. */
void tgi_ports_write_mapped(tgi_run *r) {
  for (size_t i = 0; i < r->replay->input_count; i++) {
    tgi_slot *slot = &r->replay->inputs[i];
    r->staged |= slot->mapped && is_staged(slot);
    slot->written = slot->mapped && slot->bytes && !r->inputs[i].device;
    if (!slot->written) continue;
    memcpy(slot->mapped, r->inputs[i].host, slot->bytes);
    memset(slot->mapped + slot->bytes, 0, padded_bytes(slot) - slot->bytes);
  }
}

void tgi_ports_write(tgi_run *r) {
  const tg_replay *replay = r->replay;
  for (size_t i = 0; i < replay->input_count; i++) {
    const tgi_slot *slot = &replay->inputs[i];
    if (is_copied(r, i)) r->traffic.copied += slot->bytes;
    if (r->inputs[i].device || !slot->bytes) continue;
    if (!slot->written) tgi_write_padded(slot->buffer, r->inputs[i].host, slot->bytes);
    r->traffic.uploaded += slot->bytes;
  }
  for (size_t i = 0; i < replay->state_count; i++) {
    const tgi_slot *state = &replay->states[i];
    if (!r->states[i].host) continue;
    tgi_write_padded(state->buffer, r->states[i].host, state->bytes);
    r->traffic.uploaded += state->bytes;
  }
}

static void copy(WGPUCommandEncoder encoder, const tg_buffer *from, uint64_t from_offset, const tg_buffer *to,
                 uint64_t to_offset, uint64_t bytes) {
  if (bytes)
    W(CommandEncoderCopyBufferToBuffer)(encoder, from->wgpu, from_offset, to->wgpu, to_offset, tgi_round_up(bytes, 4));
}

/* Copies a tensor on the device to an input, and zeros to its padding; or to the tensor that is bound to an output with the buffer
 * of this input. */
static void copy_tensor(const tgi_run *r, WGPUCommandEncoder encoder, size_t i) {
  const tg_port *from = &r->inputs[i], *made = bound_partner(r, i);
  const tgi_slot *to = &r->replay->inputs[i];
  uint64_t end = tgi_round_up(to->bytes, 4), padded = padded_bytes(to);
  copy(encoder, from->device, from->offset, made ? made->device : to->buffer, made ? made->offset : 0, to->bytes);
  if (!made && end < padded) W(CommandEncoderClearBuffer)(encoder, to->buffer->wgpu, end, padded - end);
}

void tgi_ports_encode_inputs(const tgi_run *r, bool staged, WGPUCommandEncoder encoder) {
  for (size_t i = 0; i < r->replay->input_count; i++) {
    const tgi_slot *slot = &r->replay->inputs[i];
    if (is_copied(r, i)) copy_tensor(r, encoder, i);
    else if (!r->inputs[i].device && staged && is_staged(slot))
      copy(encoder, r->replay->upload, slot->place, slot->buffer, 0, padded_bytes(slot));
  }
}

static void map_later(tgi_run *r, tg_buffer *buffer, uint64_t bytes, WGPUMapMode mode) {
  r->replay->mappings[r->mapping_count++] = (tgi_mapping){buffer, bytes, mode};
}

/* The check is at the end of the staging buffer. */
static uint64_t check_place(const tg_replay *replay) { return replay->readback->bytes - CHECK_BYTES; }

static tgi_readback *readback_of(const tgi_run *r, size_t i) {
  return r->readbacks && i < r->replay->output_count ? r->readbacks[i] : NULL;
}

void tgi_ports_start_readbacks(const tgi_run *r, WGPUSubmissionIndex index) {
  for (size_t i = 0; i < r->replay->output_count; i++)
    if (readback_of(r, i)) tgi_readback_start(readback_of(r, i), index);
}

/* Returns whether kernels write a result to the tensor at its port. */
static bool is_bound(const tgi_run *r, size_t i) {
  return i < r->replay->output_count && tgi_is_bound(r, r->replay->input_count + i);
}

void tgi_ports_encode_outputs(const tgi_run *r, WGPUCommandEncoder encoder) {
  const tg_replay *replay = r->replay;
  for (size_t i = 0; i < tgi_result_count(r); i++) {
    const tgi_slot *slot = &replay->outputs[i];
    const tg_port *port = tgi_result(r, i);
    const tg_buffer *made = is_bound(r, i) ? port->device : slot->buffer;
    uint64_t offset = is_bound(r, i) ? port->offset : 0;
    if (port->device && !is_bound(r, i)) copy(encoder, made, 0, port->device, port->offset, slot->bytes);
    if (tgi_destination(r, i) && !tgi_can_map(slot, WGPUMapMode_Read))
      copy(encoder, made, offset, replay->readback, slot->place, slot->bytes);
    if (readback_of(r, i)) copy(encoder, made, offset, tgi_readback_buffer(readback_of(r, i)), 0, slot->bytes);
  }
  if (replay->check) copy(encoder, replay->check, 0, replay->readback, check_place(replay), CHECK_BYTES);
}

/* Lists the buffers to map after the run: results and, when the run is waited for, inputs for the next run. */
void tgi_ports_list_mappings(tgi_run *r) {
  const tg_replay *replay = r->replay;
  r->reads_back = replay->check != NULL;
  for (size_t i = 0; i < tgi_result_count(r); i++) {
    const tgi_slot *slot = &replay->outputs[i];
    if (tgi_result(r, i)->device && !is_bound(r, i)) r->traffic.copied += slot->bytes;
    if (!tgi_destination(r, i) || !slot->bytes) continue;
    if (tgi_can_map(slot, WGPUMapMode_Read)) map_later(r, slot->buffer, slot->bytes, WGPUMapMode_Read);
    else r->reads_back = true;
  }
  if (r->reads_back) map_later(r, replay->readback, replay->readback->bytes, WGPUMapMode_Read);
  for (size_t i = 0; i < replay->input_count && r->mapping_count; i++)
    if (tgi_can_map(&replay->inputs[i], WGPUMapMode_Write))
      map_later(r, replay->inputs[i].buffer, replay->inputs[i].buffer->bytes, WGPUMapMode_Write);
  if (replay->upload && r->mapping_count) map_later(r, replay->upload, replay->upload->bytes, WGPUMapMode_Write);
}

/* Finds the mapped memory of a result; `staged` is that of the staging buffer. */
static int find_mapped(const tgi_run *r, tgi_slot *slot, const uint8_t *staged, tg_error *err) {
  if (tgi_can_map(slot, WGPUMapMode_Read)) slot->mapped = tgi_mapped_range(slot->buffer, WGPUMapMode_Read, slot->bytes);
  else if (staged) slot->mapped = (uint8_t *)staged + slot->place;
  return slot->mapped || !slot->bytes ? 0 : tgi_unreadable(r->replay->device, err);
}

/* Finds all results before the host gets any: a run that fails must leave the host's outputs and variables unchanged, because the
 * host's kernels repeat it. */
static int find_results(const tgi_run *r, const uint8_t *staged, tg_error *err) {
  int failed = 0;
  for (size_t i = 0; !failed && i < tgi_result_count(r); i++)
    if (tgi_destination(r, i)) failed = find_mapped(r, &r->replay->outputs[i], staged, err);
  return failed;
}

static void leave(tgi_slot *slot) {
  if (tgi_can_map(slot, WGPUMapMode_Read)) tgi_give_back(slot->buffer);
  slot->mapped = NULL;
}

static void take(tgi_run *r, tgi_slot *slot, void *host) {
  if (slot->bytes) memcpy(host, slot->mapped, slot->bytes);
  r->traffic.downloaded += slot->bytes;
  leave(slot);
}

static bool stays(const tgi_run *r, size_t i) { return r->stay && i < r->replay->output_count && r->stay[i]; }

/* Lets tensors refer to results in mapped memory. With the run lock held, so that the next run can take the memory back. */
static void lend(tgi_run *r) {
  for (size_t i = 0; i < r->replay->output_count; i++) {
    tgi_slot *slot = &r->replay->outputs[i];
    if (!stays(r, i)) continue;
    slot->lent_to = r->outputs[i].host;
    tgi_tensor_stay(slot->lent_to, slot->mapped, slot->bytes, r->replay);
    r->traffic.downloaded += slot->bytes;
  }
}

/* The reasons for which kernels reject a run, by the number that they pass to put_check. */
static const char *const FLAGS[] = {
    "",
    ("A number of this run is beyond int32 or float32, in which the GPU computes. Leave the nodes that read or make it to the CPU "
     "with the option exclude."),   /* in parentheses, else clang suspects a missing comma */
    "An index of this run is out of range.",
    "An integer of this run is divided by zero, or raised to a negative power."};
enum { MOST_FLAG = sizeof FLAGS / sizeof *FLAGS - 1 };

static int check(const tgi_run *r, const uint8_t *staged, tg_error *err) {
  uint32_t flag;
  if (!staged) return tgi_unreadable(r->replay->device, err);
  memcpy(&flag, staged + check_place(r->replay), sizeof flag);
  return flag ? tgi_fail(err, "%s", FLAGS[flag < MOST_FLAG ? flag : MOST_FLAG]) : 0;
}

static void leave_results(const tgi_run *r) {
  for (size_t i = 0; i < tgi_result_count(r); i++)
    if (tgi_destination(r, i)) leave(&r->replay->outputs[i]);
}

int tgi_ports_take_outputs(tgi_run *r, tg_error *err) {
  tg_replay *replay = r->replay;
  const uint8_t *staged = NULL;
  bool staged_lent = false;
  if (r->reads_back) staged = tgi_mapped_range(replay->readback, WGPUMapMode_Read, replay->readback->bytes);
  int failed = (replay->check && check(r, staged, err)) || find_results(r, staged, err);
  if (failed) leave_results(r);
  for (size_t i = 0; !failed && i < tgi_result_count(r); i++) {
    tgi_slot *slot = &replay->outputs[i];
    if (stays(r, i)) staged_lent |= !tgi_is_mappable(slot, WGPUMapMode_Read);
    else if (tgi_destination(r, i)) take(r, slot, tgi_destination(r, i));
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

void tgi_ports_keep_inputs(const tgi_run *r) {
  tg_buffer *upload = r->replay->upload;
  uint8_t *staged = upload ? keep(upload, upload->bytes) : NULL;
  for (size_t i = 0; i < r->replay->input_count; i++) {
    tgi_slot *slot = &r->replay->inputs[i];
    if (tgi_can_map(slot, WGPUMapMode_Write)) slot->mapped = keep(slot->buffer, slot->buffer->bytes);
    if (staged && is_staged(slot)) slot->mapped = staged + slot->place;
  }
}
