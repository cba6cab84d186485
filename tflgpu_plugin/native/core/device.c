/* The device: opening it, its lock, error scopes. */
#include "core/internal.h"

/* ---- opening and closing ------------------------------------------------------------------------------------------ */

/* Logs once that a device is lost, with the driver's message if there is one. */
static void log_lost(tgi_fate *fate, const char *text) {
  if (atomic_exchange(&fate->logged, true)) return;
  tgi_log(TGI_ERROR, *text ? "The GPU device was lost: %s" : "The GPU device was lost.%s", text);
}

static void on_lost(WGPUDevice const *device, WGPUDeviceLostReason reason, WGPUStringView message, void *data, void *unused) {
  tgi_fate *fate = data;
  char text[512];
  tgi_readable(message, text, sizeof text);
  atomic_store(&fate->lost, true);
  if (reason == WGPUDeviceLostReason_Destroyed || reason == WGPUDeviceLostReason_CallbackCancelled) return;
  log_lost(fate, text);
}

static void on_uncaptured(WGPUDevice const *device, WGPUErrorType type, WGPUStringView message, void *data, void *unused) {
  tgi_fate *fate = data;
  char text[512];
  if (atomic_load(&fate->lost)) return;   /* the loss is logged, and each call that ends an object would log it again */
  tgi_readable(message, text, sizeof text);
  tgi_log(TGI_ERROR, "The GPU reported an error that no call expected: %s", text);
  tgi_lock();
  memcpy(fate->text, text, sizeof text);
  tgi_unlock();
  atomic_fetch_add(&fate->uncaptured, 1);
}

typedef struct request {
  WGPUDevice device;
  char text[512];
} request;

static void on_device(WGPURequestDeviceStatus status, WGPUDevice device, WGPUStringView message, void *data, void *unused) {
  request *answer = data;
  if (status == WGPURequestDeviceStatus_Success) answer->device = device;
  else tgi_readable(message, answer->text, sizeof answer->text);
}

/* Sets the device's handle and limit; NULL and a sentence on failure. */
static void request_device(tg_device *device, WGPUAdapter adapter, const uint32_t *features, size_t feature_count,
                           tg_error *err) {
  WGPUNativeLimits native = {.chain = {.sType = (WGPUSType)WGPUSType_NativeLimits}};
  WGPULimits limits = {.nextInChain = &native.chain};
  if (W(AdapterGetLimits)(adapter, &limits) != WGPUStatus_Success) {
    tgi_fail(err, "The adapter does not report its limits.");
    return;
  }
  WGPUDeviceDescriptor descriptor = {
      .label = {"tflgpu", 6},
      .requiredFeatureCount = feature_count,
      .requiredFeatures = (const WGPUFeatureName *)features,
      .requiredLimits = &limits,
      .deviceLostCallbackInfo = {.mode = WGPUCallbackMode_AllowSpontaneous, .callback = on_lost, .userdata1 = device->fate},
      .uncapturedErrorCallbackInfo = {.callback = on_uncaptured, .userdata1 = device->fate},
  };
  request answer = {0};
  W(AdapterRequestDevice)
  (adapter, &descriptor,
   (WGPURequestDeviceCallbackInfo){
       .mode = WGPUCallbackMode_AllowSpontaneous, .callback = on_device, .userdata1 = &answer});
  if (!answer.device) tgi_fail(err, "The adapter could not open a device: %s", answer.text);
  device->wgpu = answer.device;
  device->max_groups = limits.maxComputeWorkgroupsPerDimension;
}

static bool has_feature(const uint32_t *features, size_t count, uint32_t feature) {
  for (size_t i = 0; i < count; i++)
    if (features[i] == feature) return true;
  return false;
}

tg_device *tg_device_create(void *adapter, const uint32_t *features, size_t feature_count, tg_error *err) {
  if (!W(AdapterRequestDevice)) return tgi_none(err, "tg_bind_wgpu was not called.");
  if (tgi_enter(err)) return NULL;
  W(SetLogCallback)(tgi_on_log, NULL);
  tg_device *device = calloc(1, sizeof *device);
  if (device && (device->fate = calloc(1, sizeof *device->fate))) request_device(device, adapter, features, feature_count, err);
  else tgi_no_memory(err, "a device");
  if (device && device->wgpu) {
    device->refs = 1;
    device->queue = W(DeviceGetQueue)(device->wgpu);
    device->timestamps = has_feature(features, feature_count, WGPUFeatureName_TimestampQuery) &&
                         has_feature(features, feature_count, WGPUNativeFeature_TimestampQueryInsidePasses);
    device->mappable = has_feature(features, feature_count, WGPUNativeFeature_MappablePrimaryBuffers);
    tgi_mutex_init(&device->lock);
    tgi_mutex_init(&device->writing);
    tgi_device_lock(device);
    device->probe = W(DeviceCreateBindGroupLayout)(device->wgpu, &(WGPUBindGroupLayoutDescriptor){0});
    tgi_device_unlock(device);
    tgi_register_exit();
  } else {
    free(device);
    device = NULL;
  }
  tgi_leave();
  return device;
}

void tg_device_release(tg_device *device) {
  if (!device || atomic_fetch_sub(&device->refs, 1) != 1) return;
  if (tgi_enter_release()) {
    /* wgpu-native waits for the queue when it drops a device, and panics when that device is lost: a lost one is kept. The
     * lock is free, because nobody else has a reference. */
    if (!tgi_check_alive(device, NULL)) {
      if (device->probe) W(BindGroupLayoutRelease)(device->probe);
      W(QueueRelease)(device->queue);
      W(DeviceRelease)(device->wgpu);
    }
    tgi_leave_release();
  }
  tgi_mutex_destroy(&device->lock);
  tgi_mutex_destroy(&device->writing);
  free(device);
}

bool tgi_is_known_lost(const tg_device *device) { return atomic_load(&device->fate->lost); }

int tg_device_is_lost(tg_device *device) {
  if (!tgi_enter_release()) return tgi_is_known_lost(device);
  int lost = tgi_check_alive(device, NULL);
  tgi_leave_release();
  return lost;
}

void tg_device_mark_lost(tg_device *device) { atomic_store(&device->fate->lost, true); }

void tg_device_destroy(tg_device *device) {
  tgi_device_lock(device);
  W(DeviceDestroy)(device->wgpu);
  tgi_device_unlock(device);
}

/* ---- the lock, and objects that end under it -------------------------------------------------------------------------------- */

static _Thread_local int locks_held;  /* by this thread */

void tgi_check_lock(bool needed, const char *name) {
  if (!needed || locks_held > 0) return;
  fprintf(stderr, "tflgpu: wgpu%s was called without the device's lock\n", name);
  abort();
}

void tgi_device_lock(tg_device *device) {
  tgi_mutex_lock(&device->lock);
  locks_held++;
}

static void unlock(tg_device *device) {
  locks_held--;
  tgi_mutex_unlock(&device->lock);
}

/* Ends all released objects. One that is added after the last look at the list is ended by the thread that adds it, because that
 * thread finds the lock free. */
static void end_all(tg_device *device) {
  while (atomic_load(&device->endings) && tgi_mutex_try(&device->lock)) {
    locks_held++;
    tgi_ending *ending = atomic_exchange(&device->endings, NULL);
    for (tgi_ending *each = ending; each; each = each->next) each->end(each);
    unlock(device);
    for (tgi_ending *next; ending; ending = next) {
      next = ending->next;
      ending->release(ending);
    }
  }
}

void tgi_device_unlock(tg_device *device) {
  unlock(device);
  if (!atomic_load(&device->endings) || !tgi_enter_release()) return;
  end_all(device);
  tgi_leave_release();
}

void tgi_end(tg_device *device, tgi_ending *ending) {
  ending->next = atomic_load(&device->endings);
  while (!atomic_compare_exchange_weak(&device->endings, &ending->next, ending)) continue;
  end_all(device);
}

/* ---- error scopes --------------------------------------------------------------------------------------------------- */

typedef struct popped {
  WGPUErrorType type;
  char text[1024];
} popped;

static void on_popped(WGPUPopErrorScopeStatus status, WGPUErrorType type, WGPUStringView message, void *data, void *unused) {
  popped *found = data;
  if (status != WGPUPopErrorScopeStatus_Success || type == WGPUErrorType_NoError) return;
  found->type = type;
  tgi_readable(message, found->text, sizeof found->text);
}

unsigned tgi_scope_begin(tg_device *device) {
  W(DevicePushErrorScope)(device->wgpu, WGPUErrorFilter_Validation);
  W(DevicePushErrorScope)(device->wgpu, WGPUErrorFilter_OutOfMemory);
  return atomic_load(&device->fate->uncaptured);
}

static popped pop(tg_device *device) {
  popped found = {.type = WGPUErrorType_NoError};
  W(DevicePopErrorScope)
  (device->wgpu, (WGPUPopErrorScopeCallbackInfo){
                     .mode = WGPUCallbackMode_AllowSpontaneous, .callback = on_popped, .userdata1 = &found});
  return found;
}

/* Asks by the cheapest call that a lost device refuses. wgpu reports a destroyed device only when its queue is polled, but ends at
 * once a process that submits to it or reads its mapped memory. */
bool tgi_is_alive(tg_device *device) {
  if (!tgi_is_known_lost(device)) {
    W(DevicePushErrorScope)(device->wgpu, WGPUErrorFilter_Validation);
    WGPUBindGroupLayout layout = W(DeviceCreateBindGroupLayout)(device->wgpu, &(WGPUBindGroupLayoutDescriptor){0});
    if (layout) W(BindGroupLayoutRelease)(layout);
    if (pop(device).type == WGPUErrorType_NoError) return true;
    tg_device_mark_lost(device);
  }
  log_lost(device->fate, "");
  return false;
}

int tgi_scope_end(tg_device *device, unsigned mark, const char *what, tg_error *err) {
  popped memory = pop(device), validation = pop(device);
  bool said = memory.type != WGPUErrorType_NoError || validation.type != WGPUErrorType_NoError;
  if (said ? !tgi_is_alive(device) : tgi_is_known_lost(device))
    return tgi_fail(err, "%s failed: the GPU device was lost; make a new interpreter or session.", what);
  if (memory.type != WGPUErrorType_NoError) {
    tgi_fail(err, "%s failed: the GPU has not enough memory. %s", what, memory.text);
    if (err) err->no_memory = 1;
    return 1;
  }
  if (validation.type != WGPUErrorType_NoError) return tgi_fail(err, "%s failed: %s", what, validation.text);
  if (atomic_load(&device->fate->uncaptured) == mark) return 0;
  tgi_lock();
  int failed = tgi_fail(err, "%s failed: %s", what, device->fate->text);
  tgi_unlock();
  return failed;
}

int tgi_lost(tg_error *err) { return tgi_fail(err, "The GPU device was lost; make a new interpreter or session."); }

int tgi_check_alive(tg_device *device, tg_error *err) {
  tgi_device_lock(device);
  bool alive = tgi_is_alive(device);
  tgi_device_unlock(device);
  return alive ? 0 : tgi_lost(err);
}
