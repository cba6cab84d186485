"""A native library whose calls of wgpu fail where a test wants it: a device is lost before a call,
or wgpu reports an error. TFLGPU_TEST_LIMITS ("maxBufferSize=268435456,...") lowers limits.
"""

from __future__ import annotations

from pathlib import Path

from tests.mutation import sandbox

SOURCE = """
#include "core/internal.h"
#define PUBLIC __attribute__((visibility("default")))

enum { NOTHING, LOSS, BUFFER, SHADER, PIPELINE, INTERNAL, MAPPING, QUERIES, KINDS };
static tgi_wgpu_table real;
static atomic_int left = -1, kind, last_checks = -1;
static _Atomic(tg_device *) victim;
static const char *_Atomic hit = "", *_Atomic only = "";
static _Thread_local int popping;
static WGPUUncapturedErrorCallbackInfo uncaptured;

static bool fails(int what, const char *name) {
  if (atomic_load(&kind) != what || atomic_load(&left) < 0) return false;
  if (atomic_fetch_sub(&left, 1) != 0) return false;
  atomic_store(&hit, name);
  return true;
}

static WGPUStringView view(const char *text) { return (WGPUStringView){text, strlen(text)}; }

/* wgpu reports errors of a call through the scopes around it, or as uncaptured. */
static WGPUBuffer create_buffer(WGPUDevice device, WGPUBufferDescriptor const *descriptor) {
  if (!fails(BUFFER, "DeviceCreateBuffer")) return real.DeviceCreateBuffer(device, descriptor);
  WGPUBufferDescriptor wrong = *descriptor;
  wrong.usage = 0;
  popping = 2;
  return real.DeviceCreateBuffer(device, &wrong);
}

static void ignore(WGPUPopErrorScopeStatus status, WGPUErrorType type, WGPUStringView text,
                   void *a, void *b) {}

static WGPUFuture pop(WGPUDevice device, WGPUPopErrorScopeCallbackInfo info) {
  WGPUPopErrorScopeCallbackInfo mine = {.mode = info.mode, .callback = ignore};
  if (!popping) return real.DevicePopErrorScope(device, info);
  WGPUFuture done = real.DevicePopErrorScope(device, mine);
  WGPUErrorType type = popping == 2 ? WGPUErrorType_OutOfMemory : WGPUErrorType_NoError;
  popping--;
  info.callback(WGPUPopErrorScopeStatus_Success, type, view("There is none left."),
                info.userdata1, info.userdata2);
  return done;
}

static WGPUShaderModule create_module(WGPUDevice device,
                                      WGPUShaderModuleDescriptor const *descriptor,
                                      WGPUShaderRuntimeChecks checks) {
  WGPUShaderSourceWGSL source = {.chain.sType = WGPUSType_ShaderSourceWGSL, .code = view("fn (")};
  WGPUShaderModuleDescriptor wrong = {.nextInChain = &source.chain};
  bool failing = fails(SHADER, "DeviceCreateShaderModuleTrusted");
  atomic_store(&last_checks, (int)checks);
  return real.DeviceCreateShaderModuleTrusted(device, failing ? &wrong : descriptor, checks);
}

static WGPUComputePipeline create_pipeline(WGPUDevice device,
                                           WGPUComputePipelineDescriptor const *descriptor) {
  WGPUComputePipelineDescriptor wrong = *descriptor;
  wrong.compute.entryPoint = view("absent");
  bool failing = fails(PIPELINE, "DeviceCreateComputePipeline");
  if (fails(INTERNAL, "DeviceCreateComputePipeline"))
    uncaptured.callback(&device, WGPUErrorType_Internal, view("The driver has failed."),
                        uncaptured.userdata1, uncaptured.userdata2);
  return real.DeviceCreateComputePipeline(device, failing ? &wrong : descriptor);
}

static WGPUFuture map(WGPUBuffer buffer, WGPUMapMode mode, size_t offset, size_t size,
                      WGPUBufferMapCallbackInfo info) {
  if (!fails(MAPPING, "BufferMapAsync"))
    return real.BufferMapAsync(buffer, mode, offset, size, info);
  info.callback(WGPUMapAsyncStatus_Error, view("It cannot be mapped."),
                info.userdata1, info.userdata2);
  return (WGPUFuture){0};
}

static WGPUQuerySet create_queries(WGPUDevice device, WGPUQuerySetDescriptor const *descriptor) {
  WGPUQuerySetDescriptor wrong = *descriptor;
  wrong.count = 1 << 20;
  bool failing = fails(QUERIES, "DeviceCreateQuerySet");
  return real.DeviceCreateQuerySet(device, failing ? &wrong : descriptor);
}

static WGPUFuture request(WGPUAdapter adapter, WGPUDeviceDescriptor const *descriptor,
                          WGPURequestDeviceCallbackInfo info) {
  uncaptured = descriptor->uncapturedErrorCallbackInfo;
  return real.AdapterRequestDevice(adapter, descriptor, info);
}

#define LIMITS(X) \\
  X(maxStorageBuffersPerShaderStage) X(maxStorageBufferBindingSize) X(maxBufferSize) \\
  X(maxComputeWorkgroupsPerDimension) X(maxComputeInvocationsPerWorkgroup) \\
  X(maxComputeWorkgroupStorageSize) X(maxComputeWorkgroupSizeX) X(maxComputeWorkgroupSizeY) \\
  X(maxComputeWorkgroupSizeZ) X(maxBindGroups) X(maxUniformBuffersPerShaderStage) \\
  X(maxUniformBufferBindingSize) X(maxBindingsPerBindGroup) \\
  X(minStorageBufferOffsetAlignment) X(minUniformBufferOffsetAlignment)

static WGPUStatus get_limits(WGPUAdapter adapter, WGPULimits *limits) {
  const char *text = getenv("TFLGPU_TEST_LIMITS"), *at;
  WGPUStatus status = real.AdapterGetLimits(adapter, limits);
#define LOWER(name) \\
  if (text && (at = strstr(text, #name "="))) \\
    limits->name = (__typeof__(limits->name))strtoull(at + sizeof #name, NULL, 10);
  LIMITS(LOWER)
  return status;
}

static void install(void) {
  real = tgi_wgpu;
  tgi_wgpu.DeviceCreateBuffer = create_buffer;
  tgi_wgpu.DevicePopErrorScope = pop;
  tgi_wgpu.DeviceCreateShaderModuleTrusted = create_module;
  tgi_wgpu.DeviceCreateComputePipeline = create_pipeline;
  tgi_wgpu.BufferMapAsync = map;
  tgi_wgpu.DeviceCreateQuerySet = create_queries;
  tgi_wgpu.AdapterRequestDevice = request;
  tgi_wgpu.AdapterGetLimits = get_limits;
}

/* In builds for tests, every call of wgpu is preceded by this function; those of device.c call the
 * original. */
void __real_tgi_check_lock(bool needed, const char *name);
void __wrap_tgi_check_lock(bool needed, const char *name) {
  __real_tgi_check_lock(needed, name);
  if (!real.DevicePoll && tgi_wgpu.DevicePoll) install();
  tg_device *device = atomic_load(&victim);
  const char *chosen = atomic_load(&only);
  /* wgpu ends the process where a lost device is submitted to. */
  bool suits = *chosen ? !strcmp(chosen, name) : strcmp(name, "QueueSubmitForIndex") != 0;
  if (device && suits && fails(LOSS, name)) real.DeviceDestroy(device->wgpu);
}

/* The call of this number (from 0) of the kind fails; -1: none. `calls`: those before which the
 * device may be lost; "": all but submissions. */
PUBLIC void tg_test_fail_at(int what, int number, tg_device *device, const char *calls) {
  static char name[64];
  atomic_store(&left, -1);
  snprintf(name, sizeof name, "%s", calls);
  atomic_store(&only, name);
  atomic_store(&victim, device);
  atomic_store(&kind, what);
  atomic_store(&hit, "");
  atomic_store(&left, number);
}
PUBLIC int tg_test_left(void) { return atomic_load(&left); }
PUBLIC int tg_test_checks(void) { return atomic_load(&last_checks); }
PUBLIC const char *tg_test_hit(void) { return atomic_load(&hit); }
"""
# The limits that WebGPU guarantees.
LEAST = (
    "maxStorageBuffersPerShaderStage=8", "maxStorageBufferBindingSize=134217728",
    "maxBufferSize=268435456", "maxComputeWorkgroupsPerDimension=65535",
    "maxComputeInvocationsPerWorkgroup=256", "maxComputeWorkgroupStorageSize=16384",
    "maxComputeWorkgroupSizeX=256", "maxComputeWorkgroupSizeY=256", "maxComputeWorkgroupSizeZ=64",
    "maxBindGroups=4", "maxUniformBuffersPerShaderStage=12", "maxUniformBufferBindingSize=65536",
    "maxBindingsPerBindGroup=1000", "minStorageBufferOffsetAlignment=256",
    "minUniformBufferOffsetAlignment=256",
)  # fmt: skip
KINDS = ("nothing", "loss", "buffer", "shader", "pipeline", "internal", "mapping", "queries")


def build(folder: Path) -> Path:
    """Returns a tree from which programs import the package with this library."""
    return sandbox.rebuild(folder, linked=("-Wl,--wrap=tgi_check_lock",), added=SOURCE)
