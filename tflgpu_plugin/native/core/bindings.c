/* Bind groups of runs that have tensors on the device at their ports: kernels read and write these tensors where they are, instead
 * of copies in the buffers of the replay. */
#include "core/run.h"

enum {
  ALIGNMENT = 256,                 /* alignment of a tensor in its buffer that every adapter allows */
  SETS = 4                         /* sets of bind groups that a replay keeps, and runs after which it releases an unused one */
};

/* The tensor that is bound in place of a port's own buffer. */
typedef struct bound {
  uint64_t buffer;                 /* its number; 0: none */
  uint64_t offset;
} bound;

/* A set of bind groups: for runs with the same tensors at the same ports. It holds no reference to their buffers, which are freed
 * with the tensors: a number is never used again. wgpu keeps the memory of a buffer until its bind groups are released. */
struct tgi_bindings {
  uint64_t shape;
  uint64_t used;                   /* number of the last run that used it; 0: it is empty */
  bound *ports;                    /* of inputs, then outputs */
  WGPUBindGroup *groups;           /* per step; NULL where a step binds none of the tensors */
};

static uint64_t whole_vectors(uint64_t bytes) { return tgi_round_up(bytes, TGI_VECTOR_BYTES); }

static size_t port_count(const tg_replay *replay) { return replay->input_count + replay->output_count; }

static const tg_port *port_at(const tgi_run *r, size_t i) {
  size_t inputs = r->replay->input_count;
  return i < inputs ? &r->inputs[i] : &r->outputs[i - inputs];
}

void tgi_step_views(const tg_replay *replay, const tgi_step *step, tgi_view *views) {
  tg_buffer *uniforms = replay->buffers[replay->buffer_count - 1];
  for (size_t i = 0; i < step->pipeline->binding_count; i++) {
    tg_buffer *buffer = replay->buffers[step->first_binding + i];
    if (step->pipeline->kinds[i] != 'u') views[i] = tgi_whole_view(buffer);
    else views[i] = (tgi_view){buffer ? buffer : uniforms, step->uniform_offset, TGI_UNIFORM_BYTES};
  }
}

/* ---- the tensors of a run ------------------------------------------------------------------------------------------------ */

static bool is_own(const tg_replay *replay, const tg_buffer *buffer) {
  for (size_t i = 0; i < port_count(replay); i++)
    if (replay->inputs[i].buffer == buffer) return true;
  return false;
}

/* An input and an output with one buffer may also have one tensor. */
static bool is_at_another_port(const tgi_run *r, const tg_buffer *buffer, size_t port) {
  size_t partner = r->replay->inputs[port].partner;
  for (size_t i = 0; i < port_count(r->replay); i++) {
    bool same = i == partner && port_at(r, i)->offset == port_at(r, port)->offset;
    if (i != port && !same && port_at(r, i)->device == buffer) return true;
  }
  return false;
}

/* Returns whether kernels may access the tensor at a port where it is. They access whole vectors; nothing may follow an input in
 * its last vector, where they rely on zeros. Nothing that they read may be written before: an output that is an input, too, is
 * copied after all dispatches, and so is one that goes to the host. Of an input and an output with one buffer, only the output is
 * bound: the input is copied there. */
static bool may_bind(const tgi_run *r, size_t port) {
  size_t partner = r->replay->inputs[port].partner;
  if (partner != TGI_NO_PORT && (port < partner || !port_at(r, partner)->device)) return false;
  uint64_t bytes = r->replay->inputs[port].bytes, offset = port_at(r, port)->offset;
  const tg_buffer *buffer = port_at(r, port)->device;
  if (!buffer || !bytes || offset % ALIGNMENT || !(buffer->usage & WGPUBufferUsage_Storage)) return false;
  if (offset + whole_vectors(bytes) > whole_vectors(buffer->bytes)) return false;
  if (is_own(r->replay, buffer)) return false;
  if (port < r->replay->input_count && bytes % TGI_VECTOR_BYTES) return false;
  return port < r->replay->input_count || (!port_at(r, port)->host && !is_at_another_port(r, buffer, port));
}

/* Writes which tensors are bound; returns whether any is. */
static bool choose(const tgi_run *r, bound *ports) {
  bool any = false;
  for (size_t i = 0; i < port_count(r->replay); i++) {
    ports[i] = (bound){0};
    if (may_bind(r, i)) ports[i] = (bound){port_at(r, i)->device->number, port_at(r, i)->offset};
    any |= ports[i].buffer != 0;
  }
  return any;
}

bool tgi_is_bound(const tgi_run *r, size_t port) { return r->bindings && r->bindings->ports[port].buffer; }

/* ---- sets of bind groups ------------------------------------------------------------------------------------------------- */

static void clear(const tg_replay *replay, struct tgi_bindings *set) {
  for (size_t i = 0; i < replay->step_count; i++) {
    if (set->groups[i]) W(BindGroupRelease)(set->groups[i]);
    set->groups[i] = NULL;
  }
  set->used = 0;
}

void tgi_bindings_release(tg_replay *replay) {
  for (size_t i = 0; replay->bindings && i < SETS; i++) clear(replay, &replay->bindings[i]);
}

/* The last set only has room for the tensors of the present run. */
static int make_sets(tg_replay *replay, tg_error *err) {
  struct tgi_bindings *sets = tgi_zeros(&replay->memory, SETS + 1, sizeof *sets);
  for (size_t i = 0; sets && i <= SETS; i++) {
    sets[i].ports = tgi_zeros(&replay->memory, port_count(replay), sizeof *sets[i].ports);
    sets[i].groups = tgi_zeros(&replay->memory, replay->step_count, sizeof *sets[i].groups);
  }
  if (replay->memory.lacks) return tgi_no_memory(err, "a run");
  replay->bindings = sets;
  return 0;
}

static void release_unused(const tg_replay *replay) {
  for (size_t i = 0; i < SETS; i++) {
    struct tgi_bindings *set = &replay->bindings[i];
    if (set->used && set->used + SETS < replay->bound_runs) clear(replay, set);
  }
}

static struct tgi_bindings *find(const tg_replay *replay, const bound *ports) {
  for (size_t i = 0; i < SETS; i++) {
    struct tgi_bindings *set = &replay->bindings[i];
    if (!set->used || set->shape != replay->shape) continue;
    if (!memcmp(set->ports, ports, port_count(replay) * sizeof *ports)) return set;
  }
  return NULL;
}

static struct tgi_bindings *oldest(const tg_replay *replay) {
  struct tgi_bindings *found = replay->bindings;
  for (size_t i = 1; i < SETS; i++)
    if (replay->bindings[i].used < found->used) found = &replay->bindings[i];
  return found;
}

/* Makes the bind group of a step; returns NULL if it binds none of the tensors. */
static WGPUBindGroup bind_step(const tgi_run *r, const tgi_step *step, const bound *ports) {
  const tg_replay *replay = r->replay;
  tgi_view views[TGI_MAX_BINDINGS];
  bool any = false;
  tgi_step_views(replay, step, views);
  for (size_t i = 0; i < step->pipeline->binding_count; i++) {
    uint32_t port = replay->ports[step->first_binding + i];
    if (port == TGI_NO_PORT || !ports[port].buffer) continue;
    views[i] = (tgi_view){port_at(r, port)->device, ports[port].offset, whole_vectors(replay->inputs[port].bytes)};
    any = true;
  }
  return any ? tgi_bind(step->pipeline, views) : NULL;
}

static int make_set(const tgi_run *r, struct tgi_bindings *set, const bound *ports, tg_error *err) {
  const tg_replay *replay = r->replay;
  clear(replay, set);
  set->shape = replay->shape;
  memcpy(set->ports, ports, port_count(replay) * sizeof *ports);
  unsigned mark = tgi_scope_begin(replay->device);
  for (size_t i = 0; i < replay->step_count; i++)
    if (replay->steps[i].group) set->groups[i] = bind_step(r, &replay->steps[i], ports);
  int failed = tgi_scope_end(replay->device, mark, "Binding the tensors of a run", err);
  if (failed) clear(replay, set);
  return failed;
}

int tgi_bindings_find(tgi_run *r, tg_error *err) {
  tg_replay *replay = r->replay;
  bool any = replay->bindings != NULL;
  for (size_t i = 0; i < port_count(replay); i++) any |= port_at(r, i)->device != NULL;
  if (!any) return 0;
  if (!replay->bindings && make_sets(replay, err)) return 1;
  bound *ports = replay->bindings[SETS].ports;
  replay->bound_runs++;
  release_unused(replay);
  if (!choose(r, ports)) return 0;
  struct tgi_bindings *set = find(replay, ports);
  if (!set && make_set(r, set = oldest(replay), ports, err)) return 1;
  set->used = replay->bound_runs;
  r->bindings = set;
  return 0;
}

const WGPUBindGroup *tgi_bindings_groups(const tgi_run *r) { return r->bindings ? r->bindings->groups : NULL; }
