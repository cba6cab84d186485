/* A partition: its 8 most recently used plans, by input shapes, and its counters. */
#include "core/plans.h"

/* ---- shapes ------------------------------------------------------------------------------------------------------------- */

/* The flat list must describe as many tensors as the kernel has, open extents by counts that there are. */
static bool well_formed(const int32_t *shapes, size_t count, size_t tensor_count, size_t counts) {
  size_t at = 0;
  for (size_t i = 0; i < tensor_count; i++) {
    if (at >= count || shapes[at] < 0 || (size_t)shapes[at] > count - at - 1) return false;
    for (int32_t k = 1; k <= shapes[at]; k++)
      if (shapes[at + k] < 0 && (size_t)(-1 - shapes[at + k]) >= counts) return false;
    at += 1 + (size_t)shapes[at];
  }
  return at == count;
}

/* ---- one entry ---------------------------------------------------------------------------------------------------------- */

void tgi_entry_release(tgi_entry *entry) {
  if (!entry || atomic_fetch_sub(&entry->refs, 1) != 1) return;
  tg_replay_release(entry->replay);
  tgi_memory_free(&entry->memory);
  free(entry);
}

static tgi_entry *make_entry(const int32_t *shapes, size_t shape_count, const int32_t *output_shapes,
                             size_t output_shape_count, tg_replay *replay, const char *reason) {
  tgi_entry *entry = calloc(1, sizeof *entry);
  if (!entry) return NULL;
  entry->refs = 1;
  entry->shapes = tgi_copy(&entry->memory, shapes, shape_count, sizeof *shapes);
  entry->shape_count = shape_count;
  entry->output_shapes = tgi_copy(&entry->memory, output_shapes, output_shape_count, sizeof *output_shapes);
  entry->output_shape_count = output_shape_count;
  entry->reason = tgi_copy_text(&entry->memory, reason ? reason : "no reason was given");
  if ((entry->replay = replay)) tg_replay_retain(replay);
  if (!entry->memory.lacks) return entry;
  tgi_entry_release(entry);
  return NULL;
}

/* ---- the list ----------------------------------------------------------------------------------------------------------- */

static size_t index_of(const tgi_plans *plans, const int32_t *shapes, size_t count) {
  size_t i = 0;
  for (; i < plans->count; i++) {
    const tgi_entry *entry = plans->entries[i];
    if (entry->shape_count == count && !memcmp(entry->shapes, shapes, count * sizeof *shapes)) break;
  }
  return i;
}

tgi_entry *tgi_entry_find(tg_partition *partition, const int32_t *shapes, size_t count) {
  tgi_plans *plans = &partition->plans;
  tgi_entry *entry = NULL;
  tgi_lock();
  size_t i = index_of(plans, shapes, count);
  if (i < plans->count) {
    entry = plans->entries[i];
    entry->used = ++plans->clock;
    atomic_fetch_add(&entry->refs, 1);
  }
  tgi_unlock();
  return entry;
}

static size_t oldest(const tgi_plans *plans) {
  size_t found = 0;
  for (size_t i = 1; i < plans->count; i++)
    if (plans->entries[i]->used < plans->entries[found]->used) found = i;
  return found;
}

/* Takes over the caller's reference. */
static void insert(tgi_plans *plans, tgi_entry *entry) {
  tgi_entry *dropped = NULL;
  tgi_lock();
  size_t i = index_of(plans, entry->shapes, entry->shape_count);
  if (i == plans->count && i == TGI_MAX_ENTRIES) i = oldest(plans);
  if (i == plans->count) plans->count++;
  else dropped = plans->entries[i];
  plans->entries[i] = entry;
  entry->used = ++plans->clock;
  tgi_unlock();
  tgi_entry_release(dropped);
}

void tgi_plans_drop(tg_partition *partition) {
  tgi_plans *plans = &partition->plans;
  tgi_entry *dropped[TGI_MAX_ENTRIES];
  tgi_lock();
  size_t count = plans->count;
  memcpy(dropped, plans->entries, count * sizeof *dropped);
  plans->count = 0;
  tgi_unlock();
  for (size_t i = 0; i < count; i++) tgi_entry_release(dropped[i]);
}

static int check_replay(tgi_arity arity, const tg_replay *replay, tg_error *err) {
  size_t outputs = arity.outputs + arity.counts;
  if (replay->input_count != arity.ports || replay->output_count != outputs || replay->state_count != arity.states)
    return tgi_fail(err, "The plan has %zu inputs, %zu outputs and %zu states, but its partition has %zu, %zu and %zu.",
                    replay->input_count, replay->output_count, replay->state_count, arity.ports, outputs, arity.states);
  for (size_t i = arity.outputs; i < outputs; i++)
    if (replay->outputs[i].bytes != sizeof(int32_t)) return tgi_fail(err, "Output %zu of the plan is not a count.", i);
  return 0;
}

int tg_partition_add(tg_partition *partition, const int32_t *shapes, size_t shape_count, const int32_t *output_shapes,
                     size_t output_shape_count, tg_replay *replay, const char *reason, tg_error *err) {
  tgi_arity arity = partition->arity;
  if (!well_formed(shapes, shape_count, arity.inputs + arity.values, (size_t)INT32_MAX + 1))
    return tgi_fail(err, "The list of input shapes does not describe %zu tensors.", arity.inputs + arity.values);
  if ((replay || output_shape_count > 0) && !well_formed(output_shapes, output_shape_count, arity.outputs, arity.counts))
    return tgi_fail(err, "The list of output shapes does not describe %zu tensors.", arity.outputs);
  if (replay && check_replay(arity, replay, err)) return 1;
  tgi_entry *entry = make_entry(shapes, shape_count, output_shapes, output_shape_count, replay, reason);
  if (!entry) return tgi_fail(err, "Not enough memory to keep a plan.");
  insert(&partition->plans, entry);
  return 0;
}

void tg_partition_adopt(tg_partition *partition, tg_partition *from) {
  if (memcmp(&partition->arity, &from->arity, sizeof from->arity)) return;
  tgi_entry *entries[TGI_MAX_ENTRIES];
  tgi_lock();
  size_t count = from->plans.count;
  memcpy(entries, from->plans.entries, count * sizeof *entries);
  for (size_t i = 0; i < count; i++) atomic_fetch_add(&entries[i]->refs, 1);
  tgi_unlock();
  for (size_t i = 0; i < count; i++)
    if (entries[i]->replay) insert(&partition->plans, entries[i]);   /* why there is none is found out again */
    else tgi_entry_release(entries[i]);
}

/* ---- counters ----------------------------------------------------------------------------------------------------------- */

void tgi_partition_freed(tg_partition *partition) {
  atomic_store(&partition->live, 0);
  atomic_fetch_add(&partition->times_freed, 1);
}

int tgi_partition_run(tg_partition *partition, const tgi_entry *entry, const tg_port *inputs, const tg_port *outputs,
                      const tg_port *states, tg_error *err) {
  tgi_traffic traffic = {0};
  int failed = tgi_replay_run(entry->replay, inputs, outputs, states, NULL, &traffic, err);
  atomic_fetch_add(&partition->uploaded, traffic.uploaded);
  atomic_fetch_add(&partition->downloaded, traffic.downloaded);
  if (!failed) atomic_store(&partition->last_nanoseconds, traffic.nanoseconds);
  return failed;
}

void tg_partition_get_state(tg_partition *partition, tg_partition_state *out) {
  *out = (tg_partition_state){.live = partition->live,
                              .times_freed = partition->times_freed,
                              .runs = partition->runs,
                              .host_runs = partition->host_runs,
                              .failures = partition->failures,
                              .uploaded_bytes = partition->uploaded,
                              .downloaded_bytes = partition->downloaded,
                              .last_nanoseconds = partition->last_nanoseconds,
                              .device_inputs = partition->device_inputs};
}
