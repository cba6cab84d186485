/* Timestamps of a run. They are taken inside its pass and fetched afterwards, so that fetching does not count as part of it. */
#include "core/run.h"

enum {
  MAX_TIMESTAMPS = 4096,           /* in a query set */
  ENDS = 3                         /* number of timestamps with TGI_ENDS */
};

static size_t query_count(const tg_replay *replay) {
  return replay->step_count + 1 > ENDS ? replay->step_count + 1 : ENDS;
}

bool tgi_timestamps_are_possible(const tg_replay *replay) {
  return replay->device->timestamps && query_count(replay) <= MAX_TIMESTAMPS;
}

int tgi_timestamps_ready(tg_replay *replay, tg_error *err) {
  tg_device *device = replay->device;
  size_t count = query_count(replay);
  if (!device->timestamps) return tgi_fail(err, "This adapter cannot take timestamps inside a pass.");
  if (count > MAX_TIMESTAMPS) return tgi_fail(err, "Too many dispatches for timestamps (%zu).", count - 1);
  if (replay->queries) return 0;
  WGPUBufferUsage usage = WGPUBufferUsage_QueryResolve | WGPUBufferUsage_CopySrc;
  if (!replay->resolved && !(replay->resolved = tgi_staging_create(device, count * 8, usage, err))) return 1;
  tgi_device_lock(device);
  unsigned mark = tgi_scope_begin(device);
  replay->queries = W(DeviceCreateQuerySet)(
      device->wgpu, &(WGPUQuerySetDescriptor){.type = WGPUQueryType_Timestamp, .count = (uint32_t)count});
  int failed = tgi_scope_end(device, mark, "Making a query set", err);
  tgi_device_unlock(device);
  if (failed && replay->queries) W(QuerySetRelease)(replay->queries);
  if (failed) replay->queries = NULL;
  return failed;
}

static int resolve(const tg_replay *replay, size_t count, double *period, tg_error *err) {
  tg_device *device = replay->device;
  tgi_ticket ticket;
  tgi_device_lock(device);
  unsigned mark = tgi_scope_begin(device);
  WGPUCommandEncoder encoder = W(DeviceCreateCommandEncoder)(device->wgpu, NULL);
  W(CommandEncoderResolveQuerySet)(encoder, replay->queries, 0, (uint32_t)count, replay->resolved->wgpu, 0);
  WGPUCommandBuffer commands = tgi_finish(device, encoder, mark, err);
  int failed = tgi_submit(device, commands, NULL, 0, &ticket, err);
  *period = W(QueueGetTimestampPeriod)(device->queue);
  tgi_device_unlock(device);
  return failed;
}

int tgi_timestamps_read(const tg_replay *replay, size_t steps, tgi_timestamping timestamping, uint64_t *values,
                        tg_error *err) {
  size_t count = timestamping == TGI_EACH ? steps + 1 : ENDS, all = timestamping == TGI_EACH ? replay->step_count + 1 : ENDS;
  tg_buffer *staging = tgi_staging_create(replay->device, count * 8, WGPUBufferUsage_MapRead | WGPUBufferUsage_CopyDst, err);
  double period;
  int failed = !staging || resolve(replay, count, &period, err) ||
               tgi_buffer_read(replay->resolved, staging, values, count * 8, err);
  tg_buffer_release(staging);
  if (failed) return 1;
  for (size_t i = 0; i < count; i++) values[i] = (uint64_t)((double)values[i] * period);
  for (size_t i = count; i < all; i++) values[i] = values[count - 1];
  return 0;
}
