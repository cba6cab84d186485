/* A partition: its 8 most recently used plans by input shapes, the plans derived from their symbols, and counters. */
#include "core/plans.h"
#include "core/symbols.h"

/* Returns whether a flat list describes this number of tensors, with counts that exist as dynamic extents. */
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

void tgi_plan_release(tgi_plan *plan) {
  if (!plan || atomic_fetch_sub(&plan->refs, 1) != 1) return;
  tg_replay_release(plan->replay);
  tgi_symbols_release(plan->setting.symbols);
  tgi_plan_release(plan->last);
  tgi_memory_free(&plan->memory);
  free(plan);
}

static void make_setting(tgi_plan *plan, const tg_replay *replay, tgi_symbols *symbols) {
  static atomic_ullong numbers;
  tgi_setting *setting = &plan->setting;
  size_t count = replay->input_count + replay->output_count + replay->state_count;
  setting->number = ++numbers;
  setting->bytes = tgi_zeros(&plan->memory, count, sizeof *setting->bytes);
  if (!setting->bytes) return;
  for (size_t i = 0; i < count; i++) setting->bytes[i] = replay->inputs[i].made;
  plan->inputs = setting->bytes;
  plan->outputs = plan->inputs + replay->input_count;
  plan->states = plan->outputs + replay->output_count;
  if (!symbols) return;
  tgi_retain(setting->symbols = symbols);
  setting->registers = tgi_zeros(&plan->memory, symbols->register_count, sizeof *setting->registers);
}

static tgi_plan *make_plan(const tg_plan_spec *spec, tgi_symbols *symbols) {
  tgi_plan *plan = calloc(1, sizeof *plan);
  if (!plan) return NULL;
  plan->refs = 1;
  plan->shapes = tgi_copy(&plan->memory, spec->shapes, spec->shape_count, sizeof *spec->shapes);
  plan->shape_count = spec->shape_count;
  plan->output_shapes = tgi_copy(&plan->memory, spec->output_shapes, spec->output_shape_count, sizeof *spec->output_shapes);
  plan->output_shape_count = spec->output_shape_count;
  plan->reason = tgi_copy_text(&plan->memory, spec->reason ? spec->reason : "no reason was given");
  if ((plan->replay = spec->replay)) {
    tgi_retain(spec->replay);
    make_setting(plan, spec->replay, symbols);
  }
  if (!plan->memory.lacks) return plan;
  tgi_plan_release(plan);
  return NULL;
}

/* Derives the plan for these shapes from the symbols of another; returns NULL where these do not apply. */
static tgi_plan *follow(const tgi_plan *from, const int32_t *shapes, size_t count) {
  tg_plan_spec spec = {shapes, count, from->output_shapes, from->output_shape_count, from->replay, from->reason, NULL};
  tgi_symbols *symbols = from->setting.symbols;
  tgi_plan *plan = make_plan(&spec, symbols);
  if (plan && tgi_symbols_apply(symbols, shapes, count, plan->setting.registers, plan->setting.bytes, plan->output_shapes))
    return plan;
  tgi_plan_release(plan);
  return NULL;
}

static bool is_for(const tgi_plan *plan, const int32_t *shapes, size_t count) {
  return plan->shape_count == count && !memcmp(plan->shapes, shapes, count * sizeof *shapes);
}

static size_t index_of(const tgi_plans *plans, const int32_t *shapes, size_t count) {
  size_t i = 0;
  while (i < plans->count && !is_for(plans->list[i], shapes, count)) i++;
  return i;
}

/* Returns the plan that was made for these shapes, or the last one derived from symbols if it has these shapes; with tgi_lock
 * held. */
static tgi_plan *look_up(tgi_plans *plans, const int32_t *shapes, size_t count) {
  size_t i = index_of(plans, shapes, count);
  tgi_plan *found = i < plans->count ? plans->list[i] : NULL;
  for (size_t k = 0; !found && k < plans->count; k++) {
    tgi_plan *last = plans->list[i = k]->last;
    if (last && is_for(last, shapes, count)) found = last;
  }
  if (!found) return NULL;
  plans->list[i]->used = ++plans->clock;
  tgi_retain(found);
  return found;
}

/* Keeps a derived plan with the plan from which it was derived, in place of the previous one. */
static void keep_last(tgi_plans *plans, tgi_plan *from, tgi_plan *plan) {
  tgi_retain(plan);
  tgi_lock();
  tgi_plan *before = from->last;
  from->last = plan;
  from->used = ++plans->clock;
  tgi_unlock();
  tgi_plan_release(before);
}

static int32_t clamp(int64_t wide) {
  if (wide > INT32_MAX) return wide == INT64_MAX ? INT32_MAX : INT32_MAX - 1;
  return wide < INT32_MIN ? INT32_MIN : (int32_t)wide;
}

bool tgi_plan_number(const void *data, size_t element_bytes, size_t k, bool clamps, int32_t *to) {
  int64_t wide;
  const uint8_t *at = (const uint8_t *)data + k * element_bytes;
  if (element_bytes == 1) return *to = *at != 0, true;
  if (element_bytes == sizeof *to) return memcpy(to, at, sizeof *to), true;
  memcpy(&wide, at, sizeof wide);
  *to = clamp(wide);
  return clamps || wide == *to;
}

tgi_plan *tgi_plan_find(tg_partition *partition, const int32_t *shapes, size_t count) {
  tgi_plans *plans = &partition->plans;
  tgi_plan *list[TGI_MAX_PLANS];
  size_t others = 0;
  tgi_lock();
  tgi_plan *plan = look_up(plans, shapes, count);
  for (size_t i = 0; !plan && i < plans->count; i++)
    if (plans->list[i]->setting.symbols) tgi_retain(list[others++] = plans->list[i]);
  tgi_unlock();
  for (size_t i = 0; i < others; i++) {
    if (!plan && (plan = follow(list[i], shapes, count))) keep_last(plans, list[i], plan);
    tgi_plan_release(list[i]);
  }
  return plan;
}

static size_t oldest(const tgi_plans *plans) {
  size_t found = 0;
  for (size_t i = 1; i < plans->count; i++)
    if (plans->list[i]->used < plans->list[found]->used) found = i;
  return found;
}

/* Adds a plan; takes over the caller's reference. */
static void insert(tgi_plans *plans, tgi_plan *plan) {
  tgi_plan *dropped = NULL;
  tgi_lock();
  size_t i = index_of(plans, plan->shapes, plan->shape_count);
  if (i == plans->count && i == TGI_MAX_PLANS) i = oldest(plans);
  if (i == plans->count) plans->count++;
  else dropped = plans->list[i];
  plans->list[i] = plan;
  plan->used = ++plans->clock;
  tgi_unlock();
  tgi_plan_release(dropped);
}

void tgi_plans_drop(tg_partition *partition) {
  tgi_plans *plans = &partition->plans;
  tgi_plan *dropped[TGI_MAX_PLANS];
  tgi_lock();
  size_t count = plans->count;
  memcpy(dropped, plans->list, count * sizeof *dropped);
  plans->count = 0;
  tgi_unlock();
  for (size_t i = 0; i < count; i++) tgi_plan_release(dropped[i]);
}

int tg_partition_plans(tg_partition *partition, const int32_t *shapes, size_t count) {
  tgi_plan *plan = tgi_plan_find(partition, shapes, count);
  bool planned = plan && plan->replay;
  tgi_plan_release(plan);
  return planned;
}

void tg_partition_drop(tg_partition *partition, const int32_t *shapes, size_t count) {
  tgi_plans *plans = &partition->plans;
  tgi_plan *dropped = NULL;
  tgi_lock();
  size_t i = index_of(plans, shapes, count);
  if (i < plans->count && !(plans->list[i]->replay && plans->list[i]->replay->state_count)) {
    dropped = plans->list[i];
    plans->list[i] = plans->list[--plans->count];
  }
  tgi_unlock();
  tgi_plan_release(dropped);
}

static int check_replay(tgi_arity arity, const tg_replay *replay, tg_error *err) {
  size_t outputs = arity.outputs + arity.counts;
  if (replay->input_count != arity.ports || replay->output_count != outputs || replay->state_count != arity.states)
    return tgi_fail(err, "The plan has %zu inputs, %zu outputs and %zu states, but its partition has %zu, %zu and %zu.",
                    replay->input_count, replay->output_count, replay->state_count, arity.ports, outputs, arity.states);
  for (size_t i = arity.outputs; i < outputs; i++)
    if (replay->outputs[i].made != sizeof(int32_t)) return tgi_fail(err, "Output %zu of the plan is not a count.", i);
  return 0;
}

int tg_partition_add(tg_partition *partition, const tg_plan_spec *spec, tg_error *err) {
  tgi_arity arity = partition->arity;
  if (!well_formed(spec->shapes, spec->shape_count, arity.inputs + arity.values, (size_t)INT32_MAX + 1))
    return tgi_fail(err, "The list of input shapes does not describe %zu tensors.", arity.inputs + arity.values);
  if ((spec->replay || spec->output_shape_count > 0) &&
      !well_formed(spec->output_shapes, spec->output_shape_count, arity.outputs, arity.counts))
    return tgi_fail(err, "The list of output shapes does not describe %zu tensors.", arity.outputs);
  if (spec->replay && check_replay(arity, spec->replay, err)) return 1;
  tgi_symbols *symbols = NULL;
  if (spec->symbols && !(symbols = tgi_symbols_create(spec, err))) return 1;
  tgi_plan *plan = make_plan(spec, symbols);
  tgi_symbols_release(symbols);
  if (!plan) return tgi_no_memory(err, "a plan");
  int failed = symbols && tgi_symbols_check(symbols, spec, &plan->setting, plan->output_shapes, err);
  if (failed) tgi_plan_release(plan);
  else insert(&partition->plans, plan);
  return failed;
}

void tg_partition_adopt(tg_partition *partition, tg_partition *from) {
  if (memcmp(&partition->arity, &from->arity, sizeof from->arity)) return;
  tgi_plan *list[TGI_MAX_PLANS];
  tgi_lock();
  size_t count = from->plans.count;
  memcpy(list, from->plans.list, count * sizeof *list);
  for (size_t i = 0; i < count; i++) tgi_retain(list[i]);
  tgi_unlock();
  for (size_t i = 0; i < count; i++)
    if (list[i]->replay) insert(&partition->plans, list[i]);
    else tgi_plan_release(list[i]);   /* plans that say why shapes have none are not taken over: the reason may be gone */
}

void tgi_partition_freed(tg_partition *partition) {
  atomic_store(&partition->live, 0);
  atomic_fetch_add(&partition->times_freed, 1);
}

const tg_port *tgi_plan_past(const tgi_plan *plan, const tg_port *inputs, size_t output) {
  size_t partner = plan->replay->outputs[output].partner;
  return partner == TGI_NO_PORT ? NULL : &inputs[partner];
}

int tgi_partition_run(tg_partition *partition, const tgi_plan *plan, const tgi_ports *ports, tg_error *err) {
  tgi_traffic traffic = {0};
  tg_run_options options = {0};
  bool recorded = tgi_is_recorded(partition, plan->replay, &options);
  int failed = tgi_replay_run(plan->replay, &plan->setting, ports, recorded ? &options : NULL, &traffic, err);
  if (recorded && !failed) tgi_record(partition, plan->replay, &options, &traffic);
  free(options.timestamps);
  atomic_fetch_add(&partition->uploaded, traffic.uploaded);
  atomic_fetch_add(&partition->downloaded, traffic.downloaded);
  if (failed) return 1;
  atomic_store(&partition->last_nanoseconds, traffic.nanoseconds);
  tgi_count_time(traffic.nanoseconds);
  return 0;
}

void tgi_partition_failed(tg_partition *partition, const char *reason) {
  atomic_fetch_add(&partition->failures, 1);
  tgi_lock();
  snprintf(partition->failure, sizeof partition->failure, "%s", reason);
  tgi_unlock();
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
  tgi_lock();
  memcpy(out->failure, partition->failure, sizeof out->failure);
  tgi_unlock();
  for (size_t i = 0; partition->habits && i < partition->arity.outputs; i++) {
    out->downloaded_bytes += tgi_habit_bytes(partition->habits[i]);
    out->last_nanoseconds += tgi_habit_nanoseconds(partition->habits[i]);
  }
}

static void count_replay(const tg_replay *replay, uint64_t number, tg_memory *out) {
  for (size_t i = 0; i < replay->buffer_count; i++) tgi_buffer_count(replay->buffers[i], number, out);
  for (const tgi_slot *slot = replay->inputs; slot < replay->states + replay->state_count; slot++)
    tgi_buffer_count(slot->buffer, number, out);
  tg_buffer *others[] = {replay->check, replay->upload, replay->readback, replay->resolved};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) tgi_buffer_count(others[i], number, out);
}

void tg_partitions_get_memory(tg_partition *const *partitions, size_t count, tg_memory *out) {
  static uint64_t last;            /* number of a count; under tgi_lock */
  *out = (tg_memory){0};
  tgi_lock();
  last++;
  for (size_t i = 0; i < count; i++)
    for (size_t k = 0; k < partitions[i]->plans.count; k++)
      if (partitions[i]->plans.list[k]->replay) count_replay(partitions[i]->plans.list[k]->replay, last, out);
  tgi_unlock();
}
