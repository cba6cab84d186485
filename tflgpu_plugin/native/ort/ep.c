/* The execution provider of a session: partitions, GetCapability and Compile. */
#include "ort/internal.h"

/* ---- partitions ------------------------------------------------------------------------------------------------------------ */

static int compare(const void *a, const void *b) {
  uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
  return (left > right) - (left < right);
}

static void free_partition(tg_ort_partition *partition) {
  for (size_t i = 0; partition->base.habits && i < partition->base.arity.outputs; i++)
    tgi_habit_release(partition->base.habits[i]);
  tgi_memory_free(&partition->memory);
  free(partition);
}

static void copy_guards(tg_ort_partition *partition, const tg_ort_partition_spec *spec) {
  tgi_memory *memory = &partition->memory;
  partition->guard_count = spec->guard_count;
  partition->guards = tgi_copy_texts(memory, spec->guards, spec->guard_count);
  partition->guard_data = tgi_zeros(memory, spec->guard_count, sizeof *partition->guard_data);
  partition->guard_bytes = tgi_copy(memory, spec->guard_bytes, spec->guard_count, sizeof *spec->guard_bytes);
  partition->guard_shapes = tgi_zeros(memory, spec->guard_count, sizeof *partition->guard_shapes);
  for (size_t i = 0; partition->guard_data && partition->guard_shapes && i < spec->guard_count; i++) {
    const int64_t *shape = spec->guard_shapes[i];
    partition->guard_data[i] = tgi_copy(memory, spec->guard_data[i], spec->guard_bytes[i], 1);
    partition->guard_shapes[i] = tgi_copy(memory, shape, 1 + (size_t)shape[0], sizeof *shape);
  }
}

static void make_habits(tg_ort_partition *partition) {
  size_t count = partition->base.arity.outputs;
  tgi_habit **habits = partition->base.habits = tgi_zeros(&partition->memory, count, sizeof(tgi_habit *));
  for (size_t i = 0; habits && i < count; i++) partition->memory.lacks |= !(habits[i] = tgi_habit_create());
}

static void copy_spec(tg_ort_partition *partition, const tg_ort_partition_spec *spec) {
  tgi_memory *memory = &partition->memory;
  partition->base.refs = 1;
  partition->base.number = spec->number;
  partition->base.arity = (tgi_arity){.inputs = spec->input_count, .ports = spec->port_count,
                                      .values = spec->value_count + (spec->room ? 1 : 0),
                                      .outputs = spec->output_count, .counts = spec->count_count};
  partition->node_count = spec->node_count;
  partition->nodes = tgi_copy(memory, spec->nodes, spec->node_count, sizeof *spec->nodes);
  if (partition->nodes) qsort(partition->nodes, partition->node_count, sizeof *partition->nodes, compare);
  partition->inputs = tgi_copy_texts(memory, spec->inputs, spec->input_count);
  partition->outputs = tgi_copy_texts(memory, spec->outputs, spec->output_count);
  partition->value_count = spec->value_count;
  partition->values = tgi_copy_texts(memory, spec->values, spec->value_count);
  partition->clamps = tgi_copy(memory, spec->clamps, spec->value_count, 1);
  partition->grows = tgi_copy(memory, spec->grows, spec->count_count, 1);
  atomic_init(&partition->room, partition->first_room = spec->room);
  copy_guards(partition, spec);
  make_habits(partition);
  if (spec->context) partition->context = tgi_copy(memory, spec->context, spec->context_bytes, 1);
  partition->context_bytes = spec->context_bytes;
  partition->embedded = spec->embedded;
  partition->refusal = tgi_copy_text(memory, spec->refusal);
}

tg_ort_partition *tg_ort_partition_create(const tg_ort_partition_spec *spec, tg_error *err) {
  tg_ort_partition *partition = calloc(1, sizeof *partition);
  if (partition) copy_spec(partition, spec);
  if (partition && !partition->memory.lacks) return partition;
  if (partition) free_partition(partition);
  return (tgi_no_memory(err, "a partition"), NULL);
}

void tg_ort_partition_release(tg_ort_partition *partition) {
  if (!partition || atomic_fetch_sub(&partition->base.refs, 1) != 1) return;
  tgi_plans_drop(&partition->base);
  free_partition(partition);
}

/* ---- the nodes of a graph ------------------------------------------------------------------------------------------------ */

typedef struct nodes {
  tgi_memory memory;
  size_t count;
  const tgo_node **handles;
  uint64_t *ids;                   /* one for each handle */
} nodes;

static int read_nodes(const tgo_api *api, const tgo_graph *graph, nodes *list, tg_error *err) {
  if (tgi_take_status(api, api->get_node_count(graph, &list->count), err)) return 1;
  list->handles = tgi_zeros(&list->memory, list->count, sizeof *list->handles);
  list->ids = tgi_zeros(&list->memory, list->count, sizeof *list->ids);
  if (list->memory.lacks) return tgi_no_memory(err, "a graph");
  if (tgi_take_status(api, api->get_nodes(graph, list->handles, list->count), err)) return 1;
  for (size_t i = 0; i < list->count; i++) {
    size_t id;
    if (tgi_take_status(api, api->get_node_id(list->handles[i], &id), err)) return 1;
    list->ids[i] = id;
  }
  return 0;
}

static bool is_ours(const void *ep) { return ep && tgi_client_number(&((const tgi_ep *)ep)->client); }

/* ---- GetCapability ------------------------------------------------------------------------------------------------------- */

static void drop_claimed(tgi_ep *ep) {
  for (size_t i = 0; i < ep->claimed_count; i++) tg_ort_partition_release(ep->claimed[i]);
  free(ep->claimed);
  ep->claimed = NULL;
  ep->claimed_count = 0;
}

static int fuse(const tgi_ep *ep, const nodes *all, tgo_support *support, const tg_ort_partition *partition, tg_error *err) {
  const tgo_fusion fusion = {.version = ep->host.version, .drop_constants = true};
  const tgo_node **group = calloc(partition->node_count + 1, sizeof *group);
  size_t found = 0;
  if (!group) return tgi_no_memory(err, "a partition");
  for (size_t i = 0; i < all->count; i++)
    if (bsearch(&all->ids[i], partition->nodes, partition->node_count, sizeof *partition->nodes, compare))
      group[found++] = all->handles[i];
  const tgo_api *api = ep->factory->api;
  int failed = found != partition->node_count
                   ? tgi_fail(err, "The graph lacks nodes of the partition.")
                   : tgi_take_status(api, ep->factory->ep_api->add_nodes_to_fuse(support, group, found, &fusion), err);
  free(group);
  return failed;
}

static int remember(tgi_ep *ep, tg_ort_partition *const *partitions, size_t count, tg_error *err) {
  drop_claimed(ep);
  ep->claimed = calloc(count + 1, sizeof *ep->claimed);
  if (!ep->claimed) return tgi_no_memory(err, "partitions");
  for (size_t i = 0; i < count; i++) {
    partitions[i]->functions = ep->functions;
    partitions[i]->base.session = ep->client.number;
    tgi_retain(&partitions[i]->base);
    ep->claimed[ep->claimed_count++] = partitions[i];
  }
  return 0;
}

static bool gives(tg_ort_partition *const *partitions, size_t count, const char *name) {
  for (size_t i = 0; i < count; i++)
    for (size_t k = 0; k < partitions[i]->base.arity.outputs; k++)
      if (!strcmp(partitions[i]->outputs[k], name)) return true;
  return false;
}

/* Records what on_run_start needs to know about the graph. */
static int note_graph(tgi_ep *ep, const tgo_graph *graph, tg_ort_partition *const *partitions, size_t count, tg_error *err) {
  const tgo_api *api = ep->factory->api;
  const tgo_node *parent = NULL;
  size_t outputs = 0;
  if (tgi_take_status(api, api->get_parent_node(graph, &parent), err)) return 1;
  ep->in_bodies |= parent && count;
  if (parent) return 0;
  if (tgi_take_status(api, api->get_graph_output_count(graph, &outputs), err)) return 1;
  const tgo_value_info **values = calloc(outputs + 1, sizeof(const tgo_value_info *));
  if (!values) return tgi_no_memory(err, "a graph");
  int failed = tgi_take_status(api, api->get_graph_outputs(graph, values, outputs), err);
  ep->gives_outputs = !failed;
  for (size_t i = 0; !failed && i < outputs; i++) {
    const char *name = "";
    failed = tgi_take_status(api, api->get_name(values[i], &name), err);
    ep->gives_outputs &= !failed && gives(partitions, count, name);
  }
  free(values);
  return failed;
}

int tg_ort_claim(void *host, const void *graph, void *support, tg_ort_partition *const *partitions, size_t count,
                 tg_error *err) {
  if (!is_ours(host)) return tgi_fail(err, "This is not a session of tflgpu.");
  tgi_ep *ep = host;
  nodes all = {0};
  int failed = remember(ep, partitions, count, err) || note_graph(ep, graph, partitions, count, err) ||
               read_nodes(ep->factory->api, graph, &all, err);
  for (size_t i = 0; !failed && i < count; i++) failed = fuse(ep, &all, support, partitions[i], err);
  tgi_memory_free(&all.memory);
  return failed;
}

void tg_ort_log(void *host, int level, const char *text) {
  if (!is_ours(host)) return;
  const tgi_ep *ep = host;
  const tgo_api *api = ep->factory->api;
  tgo_status *status = api->log(ep->logger, level, text, TGI_PATH("tflgpu"), 0, "GetCapability");
  if (status) api->release_status(status);
}

typedef struct planning {
  tgi_ep *ep;
  const tgo_graph *graph;
  tgo_support *support;
  int done;
  tg_error *err;
} planning;

static void call_plan(void *given) {
  planning *p = given;
  tgi_ep *ep = p->ep;
  p->done = ep->functions.plan(ep->client.number, ep, ep->factory->api, p->graph, p->support, p->err);
}

static tgo_status *get_capability(tgo_ep *host, const tgo_graph *graph, tgo_support *support) {
  tgi_ep *ep = (tgi_ep *)host;
  tg_error err = {0};
  drop_claimed(ep);
  planning p = {.ep = ep, .graph = graph, .support = support, .err = &err};
  if (tgi_ort_call(NULL, call_plan, &p, &err) && p.done) return NULL;
  return tgi_status(ep->factory->api, err.text[0] ? err.text : "the model could not be planned.");
}

/* ---- Compile -------------------------------------------------------------------------------------------------------------- */

static tgo_status *create_state(tgo_compute *compute, void *context, void **state) {
  *state = NULL;
  return NULL;
}

static void release_state(tgo_compute *compute, void *state) {}

/* Returns the positions of these names among the fused node's values. */
static size_t *find_positions(tgi_memory *memory, char *const *there, size_t count, char *const *names, size_t name_count,
                              tg_error *err) {
  size_t *positions = tgi_zeros(memory, name_count, sizeof *positions);
  for (size_t i = 0; positions && i < name_count; i++) {
    while (positions[i] < count && strcmp(there[positions[i]], names[i])) positions[i]++;
    if (positions[i] == count) return tgi_none(err, "The fused node lacks the value \"%s\".", names[i]);
  }
  return positions;
}

static void free_compute(tgi_compute *compute) {
  tgi_fallback_free(atomic_load(&compute->fallback));
  tgi_memory_free(&compute->memory);
  free(compute);
}

static bool read_values(tgi_compute *compute, const tgo_node *fused, tg_error *err) {
  const tgo_api *api = compute->api;
  const tg_ort_partition *partition = compute->partition;
  tgi_memory *memory = &compute->memory;
  tgi_names *of = &compute->names;
  tgi_arity arity = partition->base.arity;
  of->inputs = tgi_names_of(api, fused, api->get_node_input_count, api->get_node_inputs, memory, &of->input_count, err);
  of->outputs = tgi_names_of(api, fused, api->get_node_output_count, api->get_node_outputs, memory, &of->output_count, err);
  if (!of->inputs || !of->outputs) return false;
  compute->inputs = find_positions(memory, of->inputs, of->input_count, partition->inputs, arity.inputs, err);
  compute->outputs = find_positions(memory, of->outputs, of->output_count, partition->outputs, arity.outputs, err);
  compute->guards = find_positions(memory, of->inputs, of->input_count, partition->guards, partition->guard_count, err);
  compute->values = find_positions(memory, of->inputs, of->input_count, partition->values, partition->value_count, err);
  return compute->inputs && compute->outputs && compute->guards && compute->values;
}

static tgi_compute *make_compute(const tgi_ep *ep, tg_ort_partition *partition, const tgo_node *fused, tg_error *err) {
  const tgo_api *api = ep->factory->api;
  tgi_compute *compute = calloc(1, sizeof *compute);
  if (!compute) return NULL;
  compute->host = (tgo_compute){ep->host.version, create_state, tgi_compute_run, release_state};
  compute->factory = ep->factory;
  compute->api = api;
  compute->partition = partition;
  if (read_values(compute, fused, err)) {
    tgi_retain(&partition->base);
    atomic_store(&partition->base.live, 1);
    return compute;
  }
  free_compute(compute);
  return NULL;
}

static tg_ort_partition *find_claimed(const tgi_ep *ep, nodes *all) {
  qsort(all->ids, all->count, sizeof *all->ids, compare);
  for (size_t i = 0; i < ep->claimed_count; i++) {
    tg_ort_partition *partition = ep->claimed[i];
    if (partition->node_count == all->count && !memcmp(partition->nodes, all->ids, all->count * sizeof *all->ids))
      return partition;
  }
  return NULL;
}

static tgo_compute *compile_one(const tgi_ep *ep, const tgo_graph *graph, const tgo_node *fused, tg_error *err) {
  nodes all = {0};
  tgi_compute *compute = NULL;
  if (!read_nodes(ep->factory->api, graph, &all, err)) {
    tg_ort_partition *partition = find_claimed(ep, &all);
    if (partition && partition->refusal) tgi_fail(err, "%s", partition->refusal);
    else if (partition) compute = make_compute(ep, partition, fused, err);
    else tgi_fail(err, "onnxruntime compiles nodes that were not claimed together.");
  }
  tgi_memory_free(&all.memory);
  return compute ? &compute->host : NULL;
}

static void release_computes(tgo_ep *ep, tgo_compute **computes, size_t count) {
  for (size_t i = 0; i < count; i++) {
    tgi_compute *compute = (tgi_compute *)computes[i];
    if (!compute) continue;
    tg_ort_partition *partition = compute->partition;
    free_compute(compute);         /* first, because its session refers to data that Python keeps for the partition */
    tgi_partition_freed(&partition->base);
    tgi_plans_drop(&partition->base);   /* frees GPU memory now, because no session uses it again */
    tg_ort_partition_release(partition);
  }
}

static int add_context(const tgi_ep *ep, tgo_compute *compute, const tgo_node *fused, tgo_node **node, tg_error *err) {
  const tg_ort_partition *partition = ((const tgi_compute *)compute)->partition;
  if (!node || !partition->context) return 0;
  *node = tgi_context_node(ep->factory->api, fused, partition, err);
  return !*node;
}

/* Everything was decided in GetCapability, so that only allocations can fail here. */
static tgo_status *compile(tgo_ep *host, const tgo_graph **graphs, const tgo_node **fused, size_t count,
                           tgo_compute **computes, tgo_node **context_nodes) {
  const tgi_ep *ep = (const tgi_ep *)host;
  tg_error err = {0};
  for (size_t i = 0; i < count; i++) {
    computes[i] = compile_one(ep, graphs[i], fused[i], &err);
    tgo_node **node = context_nodes ? &context_nodes[i] : NULL;
    if (computes[i] && !add_context(ep, computes[i], fused[i], node, &err)) continue;
    release_computes(host, computes, i + 1);
    memset(computes, 0, count * sizeof *computes);
    return tgi_status(ep->factory->api, err.text[0] ? err.text : "not enough memory to compile a model.");
  }
  return NULL;
}

/* ---- the session ----------------------------------------------------------------------------------------------------------- */

static _Thread_local int64_t identified;

/* report() uses this to find the session of a Python object. */
static tgo_status *set_dynamic_options(tgo_ep *ep, const char *const *keys, const char *const *values, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (!strcmp(keys[i], "tflgpu.identify")) identified = ((const tgi_ep *)ep)->client.number;
  return NULL;
}

int64_t tg_ort_identified(void) {
  int64_t number = identified;
  identified = 0;
  return number;
}

/* If partitions compute all outputs of the model and none is in a control-flow body, all copies that the host makes from the CPU
 * during a run are of the run's inputs. */
static tgo_status *on_run_start(tgo_ep *host, const tgo_run_options *options) {
  const tgi_ep *ep = (const tgi_ep *)host;
  tgi_run_begin(ep->gives_outputs && !ep->in_bodies);
  return NULL;
}

static tgo_status *on_run_end(tgo_ep *ep, const tgo_run_options *options, bool synchronize) {
  tgi_run_end();
  return NULL;
}

static tgo_status *get_kernel_registry(tgo_ep *ep, const tgo_kernel_registry **registry) {
  *registry = ((const tgi_ep *)ep)->factory->kernels;
  return NULL;
}

static const char *get_name(const tgo_ep *ep) { return TGI_EP_NAME; }

tgo_ep *tgi_ep_create(const tgi_factory *factory, const tgo_logger *logger, int64_t number,
                      const tg_ort_callbacks *functions) {
  tgi_ep *ep = calloc(1, sizeof *ep);
  if (!ep) return NULL;
  ep->host = (tgo_ep){.version = factory->host.version,
                      .get_name = get_name,
                      .get_capability = get_capability,
                      .compile = compile,
                      .release_computes = release_computes,
                      .set_dynamic_options = set_dynamic_options,
                      .on_run_start = on_run_start,
                      .on_run_end = on_run_end,
                      .get_kernel_registry = get_kernel_registry,
                      .create_profiler = tgi_create_profiler};
  ep->factory = factory;
  ep->logger = logger;
  ep->client.number = number;
  ep->functions = *functions;
  tgi_client_enlist(&ep->client);
  return &ep->host;
}

void tgi_ep_release(tgo_factory *factory, tgo_ep *host) {
  tgi_ep *ep = (tgi_ep *)host;
  if (!ep) return;
  tgi_client_remove(&ep->client);
  drop_claimed(ep);
  tgi_tensor_shrink();
  free(ep);
}
