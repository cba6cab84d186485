/* Compute pipelines, their bind groups, and warming them up. */
#include "core/internal.h"

enum { MAX_BINDINGS = 32, UNIFORM_BYTES = 256, SCRATCH_BYTES = 4096 };

static WGPUStringView view(const char *text) { return (WGPUStringView){text, strlen(text)}; }

static WGPUShaderModule make_module(tg_device *device, const char *wgsl, tg_error *err) {
  WGPUShaderSourceWGSL source = {.chain = {.sType = WGPUSType_ShaderSourceWGSL}, .code = view(wgsl)};
  WGPUShaderModuleDescriptor descriptor = {.nextInChain = &source.chain};
  unsigned mark = tgi_scope_begin(device);
  WGPUShaderModule module = W(DeviceCreateShaderModule)(device->wgpu, &descriptor);
  if (!tgi_scope_end(device, mark, "Compiling a shader", err)) return module;
  if (module) W(ShaderModuleRelease)(module);
  return NULL;
}

static int make_layout(tg_pipeline *pipeline, tg_error *err) {
  tg_device *device = pipeline->device;
  WGPUBindGroupLayoutEntry entries[MAX_BINDINGS] = {0};
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
  if (strspn(kinds, "urw") != count || count > MAX_BINDINGS)
    return tgi_none(err, "\"%s\" is not a list of at most %d bindings of kind u, r or w.", kinds, MAX_BINDINGS);
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

WGPUBindGroup tgi_bind(const tg_pipeline *pipeline, tg_buffer *const *buffers, tg_buffer *uniforms,
                       uint32_t uniform_offset) {
  WGPUBindGroupEntry entries[MAX_BINDINGS] = {0};
  for (size_t i = 0; i < pipeline->binding_count; i++) {
    bool uniform = pipeline->kinds[i] == 'u';
    tg_buffer *buffer = buffers[i] ? buffers[i] : uniforms;
    entries[i].binding = (uint32_t)i;
    entries[i].buffer = buffer->wgpu;
    entries[i].offset = uniform ? uniform_offset : 0;
    entries[i].size = uniform ? UNIFORM_BYTES : tgi_round_up(buffer->bytes ? buffer->bytes : 4, 4);
  }
  WGPUBindGroupDescriptor descriptor = {
      .layout = pipeline->layout, .entryCount = pipeline->binding_count, .entries = entries};
  return W(DeviceCreateBindGroup)(pipeline->device->wgpu, &descriptor);
}

void tgi_encode_steps(WGPUCommandEncoder encoder, const tgi_step *steps, size_t count, tgi_timestamping timestamping,
                      WGPUQuerySet queries) {
  WGPUComputePassEncoder pass = W(CommandEncoderBeginComputePass)(encoder, NULL);
  const tg_pipeline *current = NULL;
  if (timestamping) W(ComputePassEncoderWriteTimestamp)(pass, queries, 0);
  for (size_t i = 0; i < count; i++) {
    const tgi_step *step = &steps[i];
    if (step->group) {
      if (step->pipeline != current) W(ComputePassEncoderSetPipeline)(pass, step->pipeline->wgpu);
      current = step->pipeline;
      W(ComputePassEncoderSetBindGroup)(pass, 0, step->group, 0, NULL);
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
  tgi_encode_steps(encoder, steps, count, TGI_NO_TIMESTAMPS, NULL);
  return tgi_submit(device, tgi_finish(device, encoder, mark, err), NULL, 0, ticket, err);
}

static int dispatch_once(tg_pipeline *pipeline, tg_buffer *const *buffers, tg_error *err) {
  tg_device *device = pipeline->device;
  tgi_ticket ticket;
  tgi_device_lock(device);
  unsigned mark = tgi_scope_begin(device);
  tgi_step step = {pipeline, tgi_bind(pipeline, buffers, NULL, 0), {1, 1, 1}, {0}};
  int failed = tgi_submit_steps(device, mark, &step, 1, &ticket, err);
  if (step.group) W(BindGroupRelease)(step.group);
  tgi_device_unlock(device);
  if (!failed) tgi_wait(device, ticket.index);
  return failed;
}

static int warm_up(tg_pipeline *pipeline, tg_error *err) {
  tg_buffer *buffers[MAX_BINDINGS] = {0};
  int failed = 0;
  for (size_t i = 0; i < pipeline->binding_count && !failed; i++) {
    bool uniform = pipeline->kinds[i] == 'u';
    buffers[i] = tgi_buffer_create(pipeline->device, uniform ? UNIFORM_BYTES : SCRATCH_BYTES,
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
