/* The asahi driver (Apple). SHIM_GENERATION, SHIM_VARIANT (the code of a letter), SHIM_CHIP, SHIM_CLUSTERS (of eight cores). */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <time.h>

#include <drm/drm.h>
#include <drm/asahi_drm.h>

#include "shim.h"

static int parameters(struct drm_asahi_get_params *asked) {
  struct drm_asahi_params_global found = {
      .features = DRM_ASAHI_FEATURE_SOFT_FAULTS,
      .gpu_generation = (uint32_t)setting("GENERATION", 13),
      .gpu_variant = (uint32_t)setting("VARIANT", 'G'),
      .gpu_revision = 0x11,
      .chip_id = (uint32_t)setting("CHIP", 0x8103),
      .num_dies = 1,
      .num_clusters_total = (uint32_t)setting("CLUSTERS", 1),
      .num_cores_per_cluster = 8,
      .max_frequency_khz = 1278000,
      .vm_start = 1 << 14,
      .vm_end = 0x5000000000,
      .vm_kernel_min_size = 0x20000000,
      .max_commands_per_submission = 64,
      .max_attachments = 16,
      .command_timestamp_frequency_hz = 1000000000,
  };
  for (uint32_t i = 0; i < found.num_clusters_total; i++) found.core_masks[i] = 0xff;
  if (asked->param_group) return -EINVAL;
  size_t size = asked->size < sizeof found ? asked->size : sizeof found;
  memcpy((void *)(uintptr_t)asked->pointer, &found, size);
  return 0;
}

int handle_asahi(unsigned number, void *argument, size_t size) {
  static uint32_t last;
  (void)size;
  switch (number) {
    case DRM_ASAHI_GET_PARAMS: return parameters(argument);
    case DRM_ASAHI_GET_TIME: {
      struct timespec now;
      clock_gettime(CLOCK_MONOTONIC, &now);
      ((struct drm_asahi_get_time *)argument)->gpu_timestamp = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
      return 0;
    }
    case DRM_ASAHI_VM_CREATE: return ((struct drm_asahi_vm_create *)argument)->vm_id = ++last, 0;
    case DRM_ASAHI_QUEUE_CREATE: return ((struct drm_asahi_queue_create *)argument)->queue_id = ++last, 0;
    case DRM_ASAHI_GEM_BIND_OBJECT: return ((struct drm_asahi_gem_bind_object *)argument)->object_handle = ++last, 0;
    case DRM_ASAHI_GEM_CREATE: {
      struct drm_asahi_gem_create *made = argument;
      return (made->handle = buffer_new(made->size)) ? 0 : -ENOMEM;
    }
    case DRM_ASAHI_GEM_MMAP_OFFSET: {
      struct drm_asahi_gem_mmap_offset *map = argument;
      Buffer *buffer = buffer_of(map->handle);
      return buffer ? (map->offset = buffer->offset, 0) : -ENOENT;
    }
    case DRM_ASAHI_VM_BIND:
    case DRM_ASAHI_VM_DESTROY:
    case DRM_ASAHI_QUEUE_DESTROY: return 0;
    case DRM_ASAHI_SUBMIT: {
      struct drm_asahi_submit *given = argument;
      const struct drm_asahi_sync *syncs = (const struct drm_asahi_sync *)(uintptr_t)given->syncs + given->in_sync_count;
      for (uint32_t i = 0; i < given->out_sync_count; i++)
        if (syncs[i].sync_type == DRM_ASAHI_SYNC_TIMELINE_SYNCOBJ) signal_syncobj(syncs[i].handle, syncs[i].timeline_value);
      return 0;
    }
    default: return -ENOTTY;
  }
}
