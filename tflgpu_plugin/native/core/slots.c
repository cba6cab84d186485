/* Which buffers of a replay's inputs and outputs can be mapped, and unmapping them. */
#include "core/internal.h"

bool tgi_is_mappable(const tgi_slot *slot, WGPUMapMode mode) {
  return slot->buffer->usage & (mode == WGPUMapMode_Read ? WGPUBufferUsage_MapRead : WGPUBufferUsage_MapWrite);
}

bool tgi_can_map(const tgi_slot *slot, WGPUMapMode mode) { return slot->bytes && tgi_is_mappable(slot, mode); }

static void unmap_outputs(tg_replay *replay) {
  bool staged = false;
  for (size_t i = 0; i < replay->output_count; i++) {
    tgi_slot *slot = &replay->outputs[i];
    if (slot->mapped && tgi_is_mappable(slot, WGPUMapMode_Read)) tgi_unmap(slot->buffer);
    else if (slot->mapped) staged = true;
    slot->mapped = NULL;
  }
  if (staged) tgi_unmap(replay->readback);
}

void tgi_unmap_ports(tg_replay *replay) {
  bool staged = false;
  unmap_outputs(replay);
  for (size_t i = 0; i < replay->input_count; i++) {
    tgi_slot *slot = &replay->inputs[i];
    if (slot->mapped && !tgi_is_mappable(slot, WGPUMapMode_Write)) staged = true;
    else if (slot->mapped) tgi_unmap(slot->buffer);
    slot->mapped = NULL;
  }
  if (staged) tgi_unmap(replay->upload);
}
