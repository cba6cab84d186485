/* Compute pipelines, their bind groups, and warming them up. */
#include "core/internal.h"

enum { SCRATCH_BYTES = 4096 };

static WGPUStringView view(const char *text) { return (WGPUStringView){text, strlen(text)}; }

/* The loops of our kernels end. Counters of their iterations, which wgpu would add, take registers and time. */
static WGPUShaderModule make_module(tg_device *device, const char *wgsl, tg_error *err) {
  WGPUShaderSourceWGSL source = {.chain = {.sType = WGPUSType_ShaderSourceWGSL}, .code = view(wgsl)};
  WGPUShaderModuleDescriptor descriptor = {.nextInChain = &source.chain};
  unsigned mark = tgi_scope_begin(device);
  WGPUShaderModule module =
      W(DeviceCreateShaderModuleTrusted)(device->wgpu, &descriptor, WGPUShaderRuntimeChecks_BoundsChecks);
  if (!tgi_scope_end(device, mark, "Compiling a shader", err)) return module;
  if (module) W(ShaderModuleRelease)(module);
  return NULL;
}

static int make_layout(tg_pipeline *pipeline, tg_error *err) {
  tg_device *device = pipeline->device;
  WGPUBindGroupLayoutEntry entries[TGI_MAX_BINDINGS] = {0};
  for (size_t i = 0; i < pipeline->binding_count; i++) {
    char kind = pipeline->kinds[i];
    entries[i].binding = (uint32_t)i;
    entries[i].visibility = WGPUShaderStage_Compute;
    entries[i].buffer.type = kind == 'u'   ? WGPUBufferBindingType_Uniform
                             : kind == 'r' ? WGPUBufferBindingType_ReadOnlyStorage
                                           : WGPUBufferBindingType_Storage;
  }
  unsigned mark = tgi_scope_begin(device);
  pipeline->layout = W(DeviceCreateBindGroupLayout)(
      device->wgpu, &(WGPUBindGroupLayoutDescriptor){.entryCount = pipeline->binding_count, .entries = entries});
  return tgi_scope_end(device, mark, "Making a bind group layout", err);
}

static int make_pipeline(tg_pipeline *pipeline, WGPUShaderModule module, tg_error *err) {
  tg_device *device = pipeline->device;
  unsigned mark = tgi_scope_begin(device);
  WGPUPipelineLayout outer = W(DeviceCreatePipelineLayout)(
      device->wgpu, &(WGPUPipelineLayoutDescriptor){.bindGroupLayoutCount = 1, .bindGroupLayouts = &pipeline->layout});
  WGPUComputePipelineDescriptor descriptor = {.layout = outer, .compute = {.module = module, .entryPoint = view("main")}};
  pipeline->wgpu = W(DeviceCreateComputePipeline)(device->wgpu, &descriptor);
  int failed = tgi_scope_end(device, mark, "Making a compute pipeline", err);
  if (outer) W(PipelineLayoutRelease)(outer);
  return failed;
}

/* With the device's lock held. */
static int fill_pipeline(tg_pipeline *pipeline, const char *wgsl, tg_error *err) {
  WGPUShaderModule module = make_module(pipeline->device, wgsl, err);
  if (!module) return 1;
  int failed = make_layout(pipeline, err) || make_pipeline(pipeline, module, err);
  W(ShaderModuleRelease)(module);
  return failed;
}

tg_pipeline *tg_pipeline_create(tg_device *device, const char *wgsl, const char *kinds, tg_error *err) {
  size_t count = strlen(kinds);
  if (strspn(kinds, "urw") != count || count > TGI_MAX_BINDINGS)
    return tgi_none(err, "\"%s\" is not a list of at most %d bindings of kind u, r or w.", kinds, TGI_MAX_BINDINGS);
  tg_pipeline *pipeline = calloc(1, sizeof *pipeline + count + 1);
  if (!pipeline) return (tgi_no_memory(err, "a pipeline"), NULL);
  pipeline->refs = 1;
  pipeline->device = device;
  pipeline->binding_count = count;
  memcpy(pipeline->kinds, kinds, pipeline->binding_count);
  tgi_retain(device);
  int failed = tgi_enter(err);
  if (!failed) {
    tgi_device_lock(device);
    failed = fill_pipeline(pipeline, wgsl, err);
    tgi_device_unlock(device);
    tgi_leave();
  }
  if (!failed) return pipeline;
  tg_pipeline_release(pipeline);
  return NULL;
}

void tg_pipeline_release(tg_pipeline *pipeline) {
  if (!pipeline || atomic_fetch_sub(&pipeline->refs, 1) != 1) return;
  if (tgi_enter_release()) {
    if (pipeline->wgpu) W(ComputePipelineRelease)(pipeline->wgpu);
    if (pipeline->layout) W(BindGroupLayoutRelease)(pipeline->layout);
    tgi_leave_release();
  }
  tg_device_release(pipeline->device);
  free(pipeline);
}

tgi_view tgi_whole_view(tg_buffer *buffer) {
  return (tgi_view){buffer, 0, tgi_round_up(buffer->bytes ? buffer->bytes : 4, 4)};
}

WGPUBindGroup tgi_bind(const tg_pipeline *pipeline, const tgi_view *views) {
  WGPUBindGroupEntry entries[TGI_MAX_BINDINGS] = {0};
  for (size_t i = 0; i < pipeline->binding_count; i++) {
    entries[i].binding = (uint32_t)i;
    entries[i].buffer = views[i].buffer->wgpu;
    entries[i].offset = views[i].offset;
    entries[i].size = views[i].bytes;
  }
  WGPUBindGroupDescriptor descriptor = {
      .layout = pipeline->layout, .entryCount = pipeline->binding_count, .entries = entries};
  return W(DeviceCreateBindGroup)(pipeline->device->wgpu, &descriptor);
}

void tgi_note_idle(tgi_step *step) { step->is_idle = !(step->groups[0] && step->groups[1] && step->groups[2]); }

void tgi_encode_steps(WGPUCommandEncoder encoder, const tgi_step *steps, const WGPUBindGroup *groups, size_t count,
                      tgi_timestamping timestamping, WGPUQuerySet queries) {
  WGPUComputePassEncoder pass = W(CommandEncoderBeginComputePass)(encoder, NULL);
  const tg_pipeline *current = NULL;
  if (timestamping) W(ComputePassEncoderWriteTimestamp)(pass, queries, 0);
  for (size_t i = 0; i < count; i++) {
    const tgi_step *step = &steps[i];
    if (step->group && !step->is_idle) {
      if (step->pipeline != current) W(ComputePassEncoderSetPipeline)(pass, step->pipeline->wgpu);
      current = step->pipeline;
      W(ComputePassEncoderSetBindGroup)(pass, 0, groups && groups[i] ? groups[i] : step->group, 0, NULL);
      W(ComputePassEncoderDispatchWorkgroups)(pass, step->groups[0], step->groups[1], step->groups[2]);
    }
    if (timestamping == TGI_EACH) W(ComputePassEncoderWriteTimestamp)(pass, queries, (uint32_t)i + 1);
  }
  for (uint32_t i = 1; timestamping == TGI_ENDS && i < 3; i++) W(ComputePassEncoderWriteTimestamp)(pass, queries, i);
  W(ComputePassEncoderEnd)(pass);
  W(ComputePassEncoderRelease)(pass);
}

int tgi_submit_steps(tg_device *device, unsigned mark, const tgi_step *steps, size_t count, tgi_ticket *ticket,
                     tg_error *err) {
  WGPUCommandEncoder encoder = W(DeviceCreateCommandEncoder)(device->wgpu, NULL);
  tgi_encode_steps(encoder, steps, NULL, count, TGI_NO_TIMESTAMPS, NULL);
  return tgi_submit(device, tgi_finish(device, encoder, mark, err), NULL, 0, ticket, err);
}

static int dispatch_once(tg_pipeline *pipeline, tg_buffer *const *buffers, tg_error *err) {
  tg_device *device = pipeline->device;
  tgi_ticket ticket;
  tgi_view views[TGI_MAX_BINDINGS];
  for (size_t i = 0; i < pipeline->binding_count; i++) views[i] = tgi_whole_view(buffers[i]);
  tgi_device_lock(device);
  unsigned mark = tgi_scope_begin(device);
  tgi_step step = {.pipeline = pipeline, .group = tgi_bind(pipeline, views), .groups = {1, 1, 1}};
  int failed = tgi_submit_steps(device, mark, &step, 1, &ticket, err);
  if (step.group) W(BindGroupRelease)(step.group);
  tgi_device_unlock(device);
  if (!failed) tgi_wait(device, ticket.index);
  return failed;
}

static int warm_up(tg_pipeline *pipeline, tg_error *err) {
  tg_buffer *buffers[TGI_MAX_BINDINGS] = {0};
  int failed = 0;
  for (size_t i = 0; i < pipeline->binding_count && !failed; i++) {
    bool uniform = pipeline->kinds[i] == 'u';
    buffers[i] = tgi_staging_create(pipeline->device, uniform ? TGI_UNIFORM_BYTES : SCRATCH_BYTES,
                                   uniform ? WGPUBufferUsage_Uniform : WGPUBufferUsage_Storage, err);
    failed = !buffers[i];
  }
  if (!failed) failed = dispatch_once(pipeline, buffers, err);
  for (size_t i = 0; i < pipeline->binding_count; i++) tg_buffer_release(buffers[i]);
  return failed;
}

int tg_pipeline_warm_up(tg_pipeline *pipeline, tg_error *err) {
  static atomic_flag first = ATOMIC_FLAG_INIT;
  if (tgi_enter(err)) return 1;
  int failed = warm_up(pipeline, err);
  if (!atomic_flag_test_and_set(&first)) tgi_register_exit();
  tgi_leave();
  return failed;
}
