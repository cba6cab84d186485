/* The library's two entry points for onnxruntime, the factory, and making sessions. */
#include "ort/internal.h"

enum { MAX_DEVICES = 8 };
static const char context_prefix[] = "ep.context_";           /* prefix of session settings about compiled models */
static const char prefix[] = "ep.tflgpuexecutionprovider.";   /* prefix of our options in session settings, as the host spells it */

/* Returns the decimal number at the start of a text. (strtoul of newer headers requires glibc 2.38, and wheels run with older
 * ones.) */
static uint32_t number_of(const char *text) {
  uint32_t number = 0;
  for (; *text >= '0' && *text <= '9'; text++) number = number * 10 + (uint32_t)(*text - '0');
  return number;
}

/* Returns the name that Python gets for a setting, NULL for settings that are not ours. */
static const char *key_for_us(const char *key) {
  if (!strncmp(key, prefix, sizeof prefix - 1)) return key + sizeof prefix - 1;
  return strncmp(key, context_prefix, sizeof context_prefix - 1) ? NULL : key;
}

typedef struct creation {
  tg_ort_callbacks functions;      /* the session keeps a copy */
  const char *const *keys, *const *values;
  size_t count;
  uint32_t adapters[MAX_DEVICES];
  size_t adapter_count;
  int64_t number;
  tg_error err;
} creation;

static void create(void *given) {
  creation *c = given;
  c->number = c->functions.create(c->keys, c->values, c->count, c->adapters, c->adapter_count, &c->err);
}

/* Reads the indices of the chosen adapters from the metadata that devices.c has set. */
static void read_adapters(creation *c, const tgo_api *api, const tgo_pairs *const *metadata, size_t count) {
  for (size_t i = 0; i < count && c->adapter_count < MAX_DEVICES; i++) {
    const char *index = metadata && metadata[i] ? api->get_pair(metadata[i], "adapter_index") : NULL;
    if (index) c->adapters[c->adapter_count++] = number_of(index);
  }
}

/* Calls Python's create with those session settings that are ours. */
static void call_create(creation *c, const tgo_api *api, const tgo_pairs *config) {
  const char *const *keys = NULL, *const *values = NULL;
  size_t count = 0;
  api->get_pairs(config, &keys, &values, &count);
  const char **ours = malloc((2 * count + 1) * sizeof *ours);
  if (!ours) {
    tgi_no_memory(&c->err, "a session");
    return;
  }
  for (size_t i = 0; i < count; i++) {
    const char *key = key_for_us(keys[i]);
    if (!key) continue;
    ours[c->count] = key;
    ours[count + c->count++] = values[i];
  }
  c->keys = ours;
  c->values = ours + count;
  tgi_ort_call(&c->functions, create, c, &c->err);
  free(ours);
}

static tgo_status *create_ep(tgo_factory *host, const tgo_hardware *const *hardware, const tgo_pairs *const *metadata,
                             size_t count, const tgo_session_options *options, const tgo_logger *logger, tgo_ep **ep) {
  const tgi_factory *factory = (const tgi_factory *)host;
  creation c = {0};
  tgo_pairs *config = NULL;
  tgo_status *status = factory->api->get_config(options, &config);
  if (status) return status;
  read_adapters(&c, factory->api, metadata, count);
  call_create(&c, factory->api, config);
  factory->api->release_pairs(config);
  if (c.number <= 0) return tgi_status(factory->api, c.err.text[0] ? c.err.text : "the session could not be made.");
  *ep = tgi_ep_create(factory, logger, c.number, &c.functions);
  return *ep ? NULL : tgi_status(factory->api, "not enough memory for a session.");
}

static const char *factory_name(const tgo_factory *factory) { return TGI_EP_NAME; }

static const char *factory_vendor(const tgo_factory *factory) { return "tflgpu"; }

static uint32_t factory_vendor_id(const tgo_factory *factory) { return 0; }

static const char *factory_version(const tgo_factory *factory) { return TFLGPU_VERSION; }

static bool is_stream_aware(const tgo_factory *factory) { return false; }

static const tgo_factory functions = {
    .get_name = factory_name,
    .get_vendor = factory_vendor,
    .get_devices = tgi_get_devices,
    .create_ep = create_ep,
    .release_ep = tgi_ep_release,
    .get_vendor_id = factory_vendor_id,
    .get_version = factory_version,
    .create_allocator = tgi_create_allocator,
    .release_allocator = tgi_release_allocator,
    .create_transfer = tgi_create_transfer,
    .is_stream_aware = is_stream_aware,
};

/* Returns the second number of "1.31.1". */
static unsigned minor_of(const char *version) {
  const char *dot = version ? strchr(version, '.') : NULL;
  return dot ? number_of(dot + 1) : 0;
}

static tgo_status *too_old(const tgo_base *base) {
  const tgo_api *first = base->get_api(1);   /* every host has version 1, which is the start of the later tables */
  char text[256];
  snprintf(text, sizeof text, "tflgpu needs onnxruntime 1.24.4 or newer, and this is %s. Run: pip install -U onnxruntime",
           base->get_version());
  return first ? first->create_status(TGO_FAIL, text) : NULL;
}

/* Returns whether the table is the known one. Wrong slot numbers would crash later. */
static bool is_known_table(const tgo_api *api) {
  static const char start[] = "ORT Build Info";
  const char *info = api->get_build_info();
  return info && !strncmp(info, start, sizeof start - 1) && api->get_ep_api();
}

tgo_status *CreateEpFactories(const char *name, const tgo_base *base, const tgo_logger *logger, tgo_factory **factories,
                                     size_t capacity, size_t *written) {
  *written = 0;
  unsigned minor = minor_of(base->get_version());
  if (minor < TGO_OLDEST) return too_old(base);
  uint32_t version = minor < TGO_NEWEST ? minor : TGO_NEWEST;
  const tgo_api *api = base->get_api(version);
  if (!api) return too_old(base);
  if (!is_known_table(api)) return tgi_status(api, "this onnxruntime has an unknown interface; update tflgpu-plugin.");
  /* Python is not called here, because onnxruntime holds a lock for which a thread with the GIL may be waiting. */
  if (!tgi_adapters_are_known())
    return tgi_status(api, "this process does not know its adapters yet: call tflgpu_plugin.register() instead, or "
                           "tflgpu_plugin.get_library_path() before you register the path.");
  if (!capacity) return tgi_status(api, "onnxruntime has no room for a factory.");
  tgi_factory *factory = calloc(1, sizeof *factory);
  if (!factory) return tgi_status(api, "not enough memory for a factory.");
  factory->host = functions;
  factory->host.version = version;
  factory->api = api;
  factory->ep_api = api->get_ep_api();
  tgo_status *status = tgi_announce(factory);
  if (!status) factories[(*written)++] = &factory->host;
  return status;
}

tgo_status *ReleaseEpFactory(tgo_factory *factory) {
  return NULL;                     /* see tgi_factory */
}
