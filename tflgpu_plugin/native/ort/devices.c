/* What onnxruntime is told about adapters: a table that Python fills and the factory reads. */
#include "ort/internal.h"

typedef struct device {
  char *texts[5];                  /* name, vendor, driver, backend, type */
  uint32_t vendor_id, device_id;
  bool software, offered;
} device;

/* Replaced as a whole and never freed: a factory may be reading an older one. */
typedef struct list {
  size_t count;
  device devices[];
} list;

static list *newest;               /* under tgi_lock */

static bool copy_device(device *to, const tg_ort_adapter *from) {
  const char *texts[5] = {from->name, from->vendor, from->driver, from->backend, from->type};
  bool copied = true;
  for (size_t k = 0; k < 5; k++) copied &= (to->texts[k] = strdup(texts[k] ? texts[k] : "")) != NULL;
  to->vendor_id = from->vendor_id;
  to->device_id = from->device_id;
  to->software = from->software;
  to->offered = from->offered;
  return copied;
}

static bool is_same(const device *ours, const tg_ort_adapter *given) {
  return !strcmp(ours->texts[0], given->name) && !strcmp(ours->texts[2], given->driver) &&
         !strcmp(ours->texts[3], given->backend) && ours->vendor_id == given->vendor_id &&
         ours->device_id == given->device_id && ours->offered == (given->offered != 0);
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
    if (!is_same(&known->devices[i], &adapters[i])) return false;
  return true;
}

int tg_ort_set_adapters(const tg_ort_adapter *adapters, size_t count, tg_error *err) {
  if (is_current(adapters, count)) return 0;
  list *made = calloc(1, sizeof *made + count * sizeof made->devices[0]);
  bool copied = made != NULL;
  for (size_t i = 0; copied && i < count; i++) copied = copy_device(&made->devices[i], &adapters[i]);
  if (!copied) return tgi_fail(err, "Not enough memory for a list of adapters.");
  made->count = count;
  tgi_lock();
  newest = made;
  tgi_unlock();
  return 0;
}

static tgo_pairs *describe(const tgo_api *api, const device *from, size_t index) {
  static const char *const keys[5] = {"adapter", "adapter_vendor", "driver", "backend", "type"};
  char number[24];
  tgo_pairs *pairs = NULL;
  api->create_pairs(&pairs);
  for (size_t k = 0; pairs && k < 5; k++) api->add_pair(pairs, keys[k], from->texts[k]);
  snprintf(number, sizeof number, "%zu", index);
  if (pairs) api->add_pair(pairs, "adapter_index", number);
  return pairs;
}

/* The host's own entry for this adapter, if it has found the GPU. */
static const tgo_hardware *match(const tgo_api *api, const device *wanted, const tgo_hardware *const *hardware, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (api->get_device_kind(hardware[i]) == TGO_GPU && api->get_device_vendor_id(hardware[i]) == wanted->vendor_id &&
        api->get_device_id(hardware[i]) == wanted->device_id)
      return hardware[i];
  return NULL;
}

/* No kind of hardware is left alone by every automatic policy. A GPU would be taken by those that look for speed, a CPU by
 * all of them; an NPU is taken only by those that look for one, or for efficiency.
 *
 * Containers, WSL and boards without PCI have GPUs that the host does not find, and it never lists software adapters. What
 * is made here is never released: sessions may outlive the registration. */
static tgo_status *make_hardware(const tgi_factory *factory, const device *from, const tgo_hardware **made) {
  tgo_hardware *hardware = NULL;
  int kind = from->offered ? TGO_GPU : TGO_NPU;
  tgo_status *status =
      factory->ep_api->create_hardware(kind, from->vendor_id, from->device_id, from->texts[1], NULL, &hardware);
  *made = hardware;
  return status;
}

static tgo_status *offer(tgi_factory *factory, const device *from, size_t index, const tgo_hardware *const *hardware,
                         size_t count, tgo_ep_device **made) {
  const tgo_hardware *at = from->software ? NULL : match(factory->api, from, hardware, count);
  tgo_status *status = at ? NULL : make_hardware(factory, from, &at);
  if (status) return status;
  tgo_pairs *metadata = describe(factory->api, from, index);
  status = factory->ep_api->create_ep_device(&factory->host, at, metadata, NULL, made);
  factory->api->release_pairs(metadata);
  return status;
}

tgo_status *tgi_get_devices(tgo_factory *host, const tgo_hardware *const *hardware, size_t count, tgo_ep_device **devices,
                            size_t capacity, size_t *written) {
  tgi_factory *factory = (tgi_factory *)host;
  const list *known = current();
  tgo_status *status = NULL;
  *written = 0;
  for (size_t i = 0; known && i < known->count && *written < capacity && !status; i++) {
    status = offer(factory, &known->devices[i], i, hardware, count, &devices[*written]);
    if (!status) (*written)++;
  }
  return status;
}
