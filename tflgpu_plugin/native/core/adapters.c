/* Lists the adapters of this machine without wgpu's Python package, whose import would make a start 1.5 times as long. */
#include "core/internal.h"

static const struct {
  const char *name;
  uint32_t number;
} features[] = {
    {"subgroup", WGPUNativeFeature_Subgroup},
    {"subgroup-barrier", WGPUNativeFeature_SubgroupBarrier},
    {"timestamp-query", WGPUFeatureName_TimestampQuery},
    {"timestamp-query-inside-encoders", WGPUNativeFeature_TimestampQueryInsideEncoders},
    {"timestamp-query-inside-passes", WGPUNativeFeature_TimestampQueryInsidePasses},
    {"shader-f16", WGPUFeatureName_ShaderF16},
    {"shader-int64", WGPUNativeFeature_ShaderInt64},
    {"mappable-primary-buffers", WGPUNativeFeature_MappablePrimaryBuffers},
};
enum { FEATURES = sizeof features / sizeof *features };
_Static_assert(FEATURES <= sizeof((tg_adapter *)0)->features / sizeof(uint32_t), "tg_adapter.features is too short");

const char *tg_feature(size_t position, uint32_t *number) {
  if (position >= FEATURES) return NULL;
  *number = features[position].number;
  return features[position].name;
}

static WGPUInstance make_instance(uint32_t backends, const char *dxc) {
  static const WGPUInstanceBackend names[TG_BACKENDS] = {WGPUInstanceBackend_Vulkan | WGPUInstanceBackend_Metal,
                                                         WGPUInstanceBackend_DX12, WGPUInstanceBackend_DX12};
  WGPUInstanceExtras extras = {
      .chain = {.sType = (WGPUSType)WGPUSType_InstanceExtras},
      .backends = names[backends],
      .flags = WGPUInstanceFlag_Default,
      .dx12ShaderCompiler = dxc ? WGPUDx12Compiler_Dxc : WGPUDx12Compiler_Fxc,
      .dxcPath = {.data = dxc, .length = dxc ? strlen(dxc) : 0},
      .dxcMaxShaderModel = WGPUDxcMaxShaderModel_V6_7,
  };
  return W(CreateInstance)(&(WGPUInstanceDescriptor){.nextInChain = &extras.chain});
}

static void copy_text(WGPUStringView text, char *to, size_t size) {
  size_t length = !text.data ? 0 : text.length == WGPU_STRLEN ? strlen(text.data) : text.length;
  if (length >= size) length = size - 1;
  if (length) memcpy(to, text.data, length);
  to[length] = 0;
}

static bool describe(WGPUAdapter handle, tg_adapter *adapter) {
  WGPUNativeLimits native = {.chain = {.sType = (WGPUSType)WGPUSType_NativeLimits}};
  WGPULimits limits = {.nextInChain = &native.chain};
  WGPUAdapterInfo info = {0};
  if (W(AdapterGetInfo)(handle, &info) != WGPUStatus_Success) return false;
  *adapter = (tg_adapter){.handle = handle,
                          .backend = info.backendType,
                          .kind = info.adapterType,
                          .vendor_id = info.vendorID,
                          .device_id = info.deviceID};
  copy_text(info.device, adapter->name, sizeof adapter->name);
  copy_text(info.description, adapter->driver, sizeof adapter->driver);
  W(AdapterInfoFreeMembers)(info);
  if (W(AdapterGetLimits)(handle, &limits) != WGPUStatus_Success) return false;
  adapter->max_storage_buffers = limits.maxStorageBuffersPerShaderStage;
  adapter->max_binding_bytes = limits.maxStorageBufferBindingSize;
  adapter->max_buffer_bytes = limits.maxBufferSize;
  adapter->max_groups = limits.maxComputeWorkgroupsPerDimension;
  adapter->max_invocations = limits.maxComputeInvocationsPerWorkgroup;
  adapter->max_workgroup_bytes = limits.maxComputeWorkgroupStorageSize;
  for (size_t i = 0; i < FEATURES; i++)
    if (W(AdapterHasFeature)(handle, (WGPUFeatureName)features[i].number))
      adapter->features[adapter->feature_count++] = features[i].number;
  return true;
}

static int list(uint32_t backends, const char *dxc, tg_adapter *adapters, size_t capacity, size_t *count,
                tg_error *err) {
  static WGPUInstance instances[TG_BACKENDS];    /* never freed */
  WGPUInstance instance = instances[backends];
  if (!instance) instance = instances[backends] = make_instance(backends, dxc);
  if (!instance) return tgi_fail(err, "wgpu could not make an instance.");
  size_t found = W(InstanceEnumerateAdapters)(instance, NULL, NULL);
  WGPUAdapter *handles = calloc(found + 1, sizeof *handles);
  if (!handles) return tgi_no_memory(err, "a list of adapters");
  if (found) W(InstanceEnumerateAdapters)(instance, NULL, handles);
  *count = 0;
  for (size_t i = 0; i < found; i++) {
    if (*count < capacity && describe(handles[i], &adapters[*count])) ++*count;
    else W(AdapterRelease)(handles[i]);
  }
  free(handles);
  return 0;
}

int tg_adapters_list(uint32_t backends, const char *dxc, tg_adapter *adapters, size_t capacity, size_t *count,
                     tg_error *err) {
  static tgi_mutex lock = TGI_MUTEX;
  if (!W(CreateInstance)) return tgi_fail(err, "tg_bind_wgpu was not called.");
  if (backends >= TG_BACKENDS || !dxc != (backends != TG_D3D12_BY_DXC))
    return tgi_fail(err, "tg_adapters_list: the backends %u do not fit the compiler.", (unsigned)backends);
  if (tgi_enter(err)) return 1;
  tgi_mutex_lock(&lock);
  int status = list(backends, dxc, adapters, capacity, count, err);
  tgi_mutex_unlock(&lock);
  tgi_leave();
  return status;
}
