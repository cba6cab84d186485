/* Tensors on the GPU for onnxruntime: memory info, allocator, copies. All adapters share one memory, "gpu" 0 without a vendor,
 * because a tensor moves to a device only when a run uses it. If another provider has announced the same memory, as onnxruntime's
 * WebGPU provider does, we announce none: the host distinguishes memory only by these numbers, and would pass our tensors to that
 * provider. */
#include "ort/internal.h"

/* ---- values ------------------------------------------------------------------------------------------------------------ */

int tgi_get_data(const tgi_factory *factory, const tgo_value *value, size_t *bytes, void **data, tg_error *err) {
  const tgo_api *api = factory->api;
  const tgo_ep_api *ep_api = factory->ep_api;
  if (tgi_take_status(api, api->get_byte_count(value, bytes), err) ||
      tgi_take_status(api, api->get_tensor_data((tgo_value *)value, data), err))
    return 1;
  if (!*bytes || ep_api->get_memory_device_kind(ep_api->get_value_device(value)) == TGO_CPU || tgi_tensor_is_known(*data))
    return 0;
  if (!*data) return tgi_fail(err, "There was not enough memory for a tensor of %zu bytes.", *bytes);
  return tgi_fail(err, "A tensor is in GPU memory of another provider; copy it to the CPU first.");
}

/* ---- allocator --------------------------------------------------------------------------------------------------------- */

typedef struct allocator {
  tgo_allocator host;
  const tgi_factory *factory;
} allocator;

static void *alloc(tgo_allocator *host, size_t bytes) { return tgi_tensor_alloc(bytes); }

static void free_tensor(tgo_allocator *host, void *memory) { tgi_tensor_free(memory); }

static const tgo_memory *info(const tgo_allocator *host) { return ((const allocator *)host)->factory->memory; }

static tgo_status *shrink(tgo_allocator *host) {
  tgi_tensor_shrink();
  return NULL;
}

static tgo_status *get_stats(const tgo_allocator *host, tgo_pairs **stats) {
  const tgo_api *api = ((const allocator *)host)->factory->api;
  tg_tensor_state state;
  tg_tensor_get_state(&state);
  const struct {
    const char *key;
    uint64_t number;
  } rows[] = {{"InUse", state.bytes},
              {"MaxInUse", state.most_bytes},
              {"TotalAllocated", state.bytes + state.kept_bytes},
              {"NumAllocs", state.blocks}};
  api->create_pairs(stats);
  for (size_t i = 0; *stats && i < sizeof rows / sizeof *rows; i++) {
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)rows[i].number);
    api->add_pair(*stats, rows[i].key, text);
  }
  return NULL;
}

tgo_status *tgi_create_allocator(tgo_factory *host, const tgo_memory *memory, const tgo_pairs *options,
                                 tgo_allocator **made) {
  const tgi_factory *factory = (const tgi_factory *)host;
  allocator *one = calloc(1, sizeof *one);
  *made = &one->host;
  if (!one) return tgi_status(factory->api, "not enough memory for an allocator.");
  one->host = (tgo_allocator){.version = host->version,
                              .alloc = alloc,
                              .free = free_tensor,
                              .info = info,
                              .reserve = alloc,
                              .get_stats = get_stats,
                              .shrink = shrink};
  one->factory = factory;
  return NULL;
}

void tgi_release_allocator(tgo_factory *host, tgo_allocator *allocator) { free(allocator); }

/* ---- copies ------------------------------------------------------------------------------------------------------------ */

typedef struct transfer {
  tgo_transfer host;
  const tgi_factory *factory;
} transfer;

static bool is_ours(const tgi_factory *factory, const tgo_memory_device *device) {
  return factory->ep_api->are_equal(device, factory->ep_api->get_memory_device(factory->memory));
}

static bool can_copy(const tgo_transfer *host, const tgo_memory_device *from, const tgo_memory_device *to) {
  const tgi_factory *factory = ((const transfer *)host)->factory;
  int from_kind = factory->ep_api->get_memory_device_kind(from), to_kind = factory->ep_api->get_memory_device_kind(to);
  bool from_ours = is_ours(factory, from), to_ours = is_ours(factory, to);
  return (from_ours && (to_ours || to_kind == TGO_CPU)) || (to_ours && from_kind == TGO_CPU);
}

typedef struct copying {
  const tgi_factory *factory;
  const tgo_value *const *from;
  tgo_value *const *to;
  size_t count;
  bool borrows;                    /* a tensor may refer to its source, which lasts until the run ends, instead of a copy */
  tg_error err;
  int failed;
} copying;

static int copy_one(copying *c, size_t i) {
  size_t bytes = 0, room = 0;
  void *from = NULL, *to = NULL;
  if (tgi_get_data(c->factory, c->from[i], &bytes, &from, &c->err) || tgi_get_data(c->factory, c->to[i], &room, &to, &c->err))
    return 1;
  if (bytes != room) return tgi_fail(&c->err, "A tensor of %zu bytes cannot be copied to one of %zu bytes.", bytes, room);
  return c->borrows && tgi_tensor_borrow(to, from, bytes) ? 0 : tgi_tensor_copy(to, from, bytes, &c->err);
}

static void copy_all(void *given) {
  copying *c = given;
  for (size_t i = 0; !c->failed && i < c->count; i++) c->failed = copy_one(c, i);
}

static tgo_status *run_copies(copying *c) {
  if (tgi_run_is_present()) copy_all(c);   /* the host has released the GIL for the run */
  else tgi_without_python(copy_all, c);
  tgi_log_deliver();
  return c->failed ? tgi_coded_status(c->factory->api, TGO_FAIL, c->err.text) : NULL;
}

static tgo_status *copy(tgo_transfer *host, const tgo_value **from, tgo_value **to, tgo_stream **streams, size_t count) {
  copying c = {.factory = ((const transfer *)host)->factory, .from = from, .to = to, .count = count, .borrows = true};
  return run_copies(&c);
}

static void release_transfer(tgo_transfer *host) { free(host); }

tgo_status *tgi_create_transfer(tgo_factory *host, tgo_transfer **made) {
  const tgi_factory *factory = (const tgi_factory *)host;
  *made = NULL;
  if (!factory->memory) return NULL;
  transfer *one = calloc(1, sizeof *one);
  *made = &one->host;
  if (!one) return tgi_status(factory->api, "not enough memory for a data transfer.");
  one->host = (tgo_transfer){host->version, release_transfer, can_copy, copy};
  one->factory = factory;
  return NULL;
}

/* ---- kernels: copies between nodes of this provider and of the CPU's ------------------------------------------------------ */

typedef struct kernel {
  tgo_kernel host;
  const tgi_factory *factory;
} kernel;

static tgo_status *run_copy(tgo_kernel *host, tgo_context *context) {
  const tgi_factory *factory = ((const kernel *)host)->factory;
  const tgo_api *api = factory->api;
  const tgo_value *from = NULL;
  const int64_t *dims = NULL;
  tgo_value *to = NULL;
  size_t rank = 0;
  int kind = 0;
  tgo_status *status = api->get_input(context, 0, &from);
  if (!status) status = api->get_kind_and_dims(from, &kind, &dims, &rank);
  if (!status) status = api->get_output(context, 0, dims, rank, &to);
  copying c = {.factory = factory, .from = &from, .to = &to, .count = 1};
  return status || !to ? status : run_copies(&c);
}

static void release_kernel(tgo_kernel *host) { free(host); }

static tgo_status *create_kernel(void *given, const tgo_kernel_info *unused, tgo_kernel **made) {
  const tgi_factory *factory = given;
  kernel *one = calloc(1, sizeof *one);
  *made = &one->host;
  if (!one) return tgi_status(factory->api, "not enough memory for a copy.");
  one->host = (tgo_kernel){.version = factory->host.version, .compute = run_copy, .release = release_kernel};
  one->factory = factory;
  return NULL;
}

static tgo_status *build(const tgo_ep_api *ep_api, tgo_kernel_def_builder *builder, bool from_host, tgo_kernel_def **def) {
  tgo_status *status = ep_api->set_op_type(builder, from_host ? "MemcpyFromHost" : "MemcpyToHost");
  if (!status) status = ep_api->set_domain(builder, "");
  if (!status) status = ep_api->set_versions(builder, 1, 1);
  if (!status) status = ep_api->set_provider(builder, TGI_EP_NAME);
  if (!status)
    status = from_host ? ep_api->set_input_memory(builder, 0, TGO_CPU_INPUT)
                       : ep_api->set_output_memory(builder, 0, TGO_CPU_OUTPUT);
  return status ? status : ep_api->build_kernel_def(builder, def);
}

static tgo_status *add_kernel(tgi_factory *factory, bool from_host) {
  const tgo_ep_api *ep_api = factory->ep_api;
  tgo_kernel_def_builder *builder = NULL;
  tgo_kernel_def *def = NULL;
  tgo_status *status = ep_api->create_kernel_def_builder(&builder);
  if (!status) status = build(ep_api, builder, from_host, &def);
  if (!status) status = ep_api->add_kernel(factory->kernels, def, create_kernel, factory);
  if (def) ep_api->release_kernel_def(def);
  if (builder) ep_api->release_kernel_def_builder(builder);
  return status;
}

static atomic_bool avoids;

void tg_ort_avoid_memory(void) { atomic_store(&avoids, true); }

static bool has_webgpu(const tgo_api *api) {
  char **names = NULL;
  int count = 0;
  bool found = false;
  tg_error ignored;
  if (tgi_take_status(api, api->get_providers(&names, &count), &ignored)) return false;
  for (int i = 0; i < count; i++) found |= !strcmp(names[i], "WebGpuExecutionProvider");
  tgi_take_status(api, api->release_providers(names, count), &ignored);
  return found;
}

tgo_status *tgi_announce(tgi_factory *factory) {
  if (atomic_load(&avoids) || has_webgpu(factory->api)) return NULL;
  tgo_status *status = factory->api->create_memory("tflgpu", TGO_GPU, 0, 0, 0, 0, 0, &factory->memory);
  if (!status) status = factory->ep_api->create_kernel_registry(&factory->kernels);
  if (!status) status = add_kernel(factory, true);
  return status ? status : add_kernel(factory, false);
}
