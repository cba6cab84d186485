/* The adapters that the factory offers to onnxruntime: a table that Python fills and the factory reads. */
#include "ort/internal.h"

/* A list is never changed or freed, because a factory may be reading it while a newer one replaces it. */
typedef struct list {
  tgi_memory memory;               /* owns the texts */
  size_t count;
  tg_ort_adapter adapters[];
} list;

static list *newest;               /* under tgi_lock */

static char *text(tgi_memory *memory, const char *given) { return tgi_copy_text(memory, given ? given : ""); }

static void add(list *to, const tg_ort_adapter *from) {
  tg_ort_adapter *one = &to->adapters[to->count++];
  *one = *from;
  one->name = text(&to->memory, from->name);
  one->vendor = text(&to->memory, from->vendor);
  one->driver = text(&to->memory, from->driver);
  one->backend = text(&to->memory, from->backend);
  one->type = text(&to->memory, from->type);
}

static bool is_same(const tg_ort_adapter *ours, const tg_ort_adapter *given) {
  return !strcmp(ours->name, given->name) && !strcmp(ours->driver, given->driver) &&
         !strcmp(ours->backend, given->backend) && ours->vendor_id == given->vendor_id &&
         ours->device_id == given->device_id && !ours->offered == !given->offered;
}

static const list *current(void) {
  tgi_lock();
  const list *found = newest;
  tgi_unlock();
  return found;
}

bool tgi_adapters_are_known(void) { return current() != NULL; }

static bool is_current(const tg_ort_adapter *adapters, size_t count) {
  const list *known = current();
  if (!known || known->count != count) return false;
  for (size_t i = 0; i < count; i++)
    if (!is_same(&known->adapters[i], &adapters[i])) return false;
  return true;
}

int tg_ort_set_adapters(const tg_ort_adapter *adapters, size_t count, tg_error *err) {
  if (is_current(adapters, count)) return 0;
  list *made = calloc(1, sizeof *made + count * sizeof made->adapters[0]);
  for (size_t i = 0; made && i < count; i++) add(made, &adapters[i]);
  if (!made || made->memory.lacks) return tgi_no_memory(err, "a list of adapters");
  tgi_lock();
  newest = made;
  tgi_unlock();
  return 0;
}

static tgo_pairs *describe(const tgo_api *api, const tg_ort_adapter *from, size_t index) {
  static const char *const keys[5] = {"adapter", "adapter_vendor", "driver", "backend", "type"};
  const char *texts[5] = {from->name, from->vendor, from->driver, from->backend, from->type};
  char number[24];
  tgo_pairs *pairs = NULL;
  api->create_pairs(&pairs);
  for (size_t k = 0; pairs && k < 5; k++) api->add_pair(pairs, keys[k], texts[k]);
  snprintf(number, sizeof number, "%zu", index);
  if (pairs) api->add_pair(pairs, "adapter_index", number);
  return pairs;
}

/* Returns the host's own entry for this adapter, if it has found the GPU. */
static const tgo_hardware *match(const tgo_api *api, const tg_ort_adapter *wanted, const tgo_hardware *const *hardware,
                                 size_t count) {
  for (size_t i = 0; i < count; i++)
    if (api->get_device_kind(hardware[i]) == TGO_GPU && api->get_device_vendor_id(hardware[i]) == wanted->vendor_id &&
        api->get_device_id(hardware[i]) == wanted->device_id)
      return hardware[i];
  return NULL;
}

/* Makes a hardware entry, which is never released, because sessions may outlive the registration. The host does not find GPUs in
 * containers, in WSL and on boards without PCI, and never lists software adapters.
 *
 * No kind of hardware is ignored by all automatic policies. Those that prefer speed take a GPU, all of them take a CPU, and
 * only those that prefer an NPU or efficiency take an NPU. */
static tgo_status *make_hardware(const tgi_factory *factory, const tg_ort_adapter *from, const tgo_hardware **made) {
  tgo_hardware *hardware = NULL;
  int kind = from->offered ? TGO_GPU : TGO_NPU;
  tgo_status *status =
      factory->ep_api->create_hardware(kind, from->vendor_id, from->device_id, from->vendor, NULL, &hardware);
  *made = hardware;
  return status;
}

static tgo_status *offer(tgi_factory *factory, const tg_ort_adapter *from, size_t index, const tgo_hardware *const *hardware,
                         size_t count, tgo_ep_device **made) {
  const tgo_hardware *at = from->software ? NULL : match(factory->api, from, hardware, count);
  tgo_status *status = at ? NULL : make_hardware(factory, from, &at);
  if (status) return status;
  tgo_pairs *metadata = describe(factory->api, from, index);
  status = factory->ep_api->create_ep_device(&factory->host, at, metadata, NULL, made);
  factory->api->release_pairs(metadata);
  return status || !factory->memory ? status : factory->ep_api->add_memory(*made, factory->memory);
}

tgo_status *tgi_get_devices(tgo_factory *host, const tgo_hardware *const *hardware, size_t count, tgo_ep_device **devices,
                            size_t capacity, size_t *written) {
  tgi_factory *factory = (tgi_factory *)host;
  const list *known = current();
  tgo_status *status = NULL;
  *written = 0;
  for (size_t i = 0; known && i < known->count && *written < capacity && !status; i++) {
    status = offer(factory, &known->adapters[i], i, hardware, count, &devices[*written]);
    if (!status) (*written)++;
  }
  return status;
}
