/* The i915 driver (Intel up to Meteor Lake). SHIM_TOPOLOGY: a byte each for slices, subslices per slice and execution units per
 * subslice; SHIM_VRAM: the size of local memory, 0 for integrated GPUs. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

#include <drm/drm.h>
#include <drm/i915_drm.h>

#include "shim.h"

static int parameter(struct drm_i915_getparam *asked) {
  unsigned eus = (unsigned)setting("TOPOLOGY", 0x010610);
  int value = 1;
  switch (asked->param) {
    case I915_PARAM_CHIPSET_ID: value = (int)setting("PCI_DEVICE", 0); break;
    case I915_PARAM_REVISION: value = (int)setting("PCI_REVISION", 0); break;
    case I915_PARAM_NUM_FENCES_AVAIL: value = 32; break;
    case I915_PARAM_HAS_ALIASING_PPGTT: value = 2; break;
    case I915_PARAM_CMD_PARSER_VERSION: value = 10; break;
    case I915_PARAM_MMAP_VERSION: value = 1; break;
    case I915_PARAM_MMAP_GTT_VERSION: value = 4; break;
    case I915_PARAM_CS_TIMESTAMP_FREQUENCY: value = (int)setting("CLOCK", 19200000); break;
    case I915_PARAM_SLICE_MASK: value = (1 << (eus >> 16)) - 1; break;
    case I915_PARAM_SUBSLICE_MASK: value = (1 << (eus >> 8 & 255)) - 1; break;
    case I915_PARAM_SUBSLICE_TOTAL: value = (int)((eus >> 16) * (eus >> 8 & 255)); break;
    case I915_PARAM_EU_TOTAL: value = (int)((eus >> 16) * (eus >> 8 & 255) * (eus & 255)); break;
    case I915_PARAM_PXP_STATUS:
    case I915_PARAM_HAS_POOLED_EU: return -ENODEV;
    default: break;
  }
  *asked->value = value;
  return 0;
}

static size_t topology(char *room) {
  unsigned eus = (unsigned)setting("TOPOLOGY", 0x010610), slices = eus >> 16, parts = eus >> 8 & 255, units = eus & 255;
  unsigned part_bytes = (parts + 7) / 8, unit_bytes = (units + 7) / 8, first = (slices + 7) / 8;
  size_t size = sizeof(struct drm_i915_query_topology_info) + first + slices * part_bytes + slices * parts * unit_bytes;
  if (!room) return size;
  struct drm_i915_query_topology_info *found = (void *)room;
  memset(room, 0, size);
  found->max_slices = (uint16_t)slices, found->max_subslices = (uint16_t)parts, found->max_eus_per_subslice = (uint16_t)units;
  found->subslice_offset = (uint16_t)first, found->subslice_stride = (uint16_t)part_bytes;
  found->eu_offset = (uint16_t)(first + slices * part_bytes), found->eu_stride = (uint16_t)unit_bytes;
  for (unsigned s = 0; s < slices; s++) {
    found->data[s / 8] |= (uint8_t)(1 << s % 8);
    for (unsigned p = 0; p < parts; p++) {
      found->data[found->subslice_offset + s * part_bytes + p / 8] |= (uint8_t)(1 << p % 8);
      for (unsigned u = 0; u < units; u++)
        found->data[found->eu_offset + (s * parts + p) * unit_bytes + u / 8] |= (uint8_t)(1 << u % 8);
    }
  }
  return size;
}

static size_t engines(char *room) {
  static const struct i915_engine_class_instance some[] = {{I915_ENGINE_CLASS_RENDER, 0}, {I915_ENGINE_CLASS_COPY, 0}};
  size_t count = sizeof some / sizeof *some, size = sizeof(struct drm_i915_query_engine_info) + count * sizeof(struct drm_i915_engine_info);
  if (!room) return size;
  struct drm_i915_query_engine_info *found = (void *)room;
  memset(room, 0, size);
  found->num_engines = (uint32_t)count;
  for (size_t i = 0; i < count; i++) found->engines[i].engine = some[i];
  return size;
}

static size_t regions(char *room) {
  uint64_t own = setting("VRAM", 0);
  unsigned count = own ? 2 : 1;
  size_t size = sizeof(struct drm_i915_query_memory_regions) + count * sizeof(struct drm_i915_memory_region_info);
  if (!room) return size;
  struct drm_i915_query_memory_regions *found = (void *)room;
  memset(room, 0, size);
  found->num_regions = count;
  for (unsigned i = 0; i < count; i++) {
    found->regions[i].region.memory_class = i ? I915_MEMORY_CLASS_DEVICE : I915_MEMORY_CLASS_SYSTEM;
    found->regions[i].probed_size = found->regions[i].unallocated_size = i ? own : 16ull << 30;
    if (i) found->regions[i].probed_cpu_visible_size = found->regions[i].unallocated_cpu_visible_size = own;
  }
  return size;
}

static int query(struct drm_i915_query *asked) {
  struct drm_i915_query_item *items = (void *)(uintptr_t)asked->items_ptr;
  for (uint32_t i = 0; i < asked->num_items; i++) {
    size_t (*make)(char *) = NULL;
    switch (items[i].query_id) {
      case DRM_I915_QUERY_TOPOLOGY_INFO:
      case DRM_I915_QUERY_GEOMETRY_SUBSLICES: make = topology; break;
      case DRM_I915_QUERY_ENGINE_INFO: make = engines; break;
      case DRM_I915_QUERY_MEMORY_REGIONS: make = regions; break;
      default: log_line(1, "i915 query %llu UNKNOWN", (unsigned long long)items[i].query_id);
    }
    items[i].length = !make ? -EINVAL : (int)make(items[i].length ? (char *)(uintptr_t)items[i].data_ptr : NULL);
  }
  return 0;
}

static int context_parameter(struct drm_i915_gem_context_param *asked) {
  asked->size = 0;
  asked->value = asked->param == I915_CONTEXT_PARAM_GTT_SIZE ? 1ull << 48 : asked->param == I915_CONTEXT_PARAM_VM ? 1 : 0;
  return 0;
}

static int execute(struct drm_i915_gem_execbuffer2 *given) {
  if (given->flags & I915_EXEC_USE_EXTENSIONS) {
    for (struct i915_user_extension *each = (void *)(uintptr_t)given->cliprects_ptr; each; each = (void *)(uintptr_t)each->next_extension) {
      if (each->name != DRM_I915_GEM_EXECBUFFER_EXT_TIMELINE_FENCES) continue;
      struct drm_i915_gem_execbuffer_ext_timeline_fences *some = (void *)each;
      const struct drm_i915_gem_exec_fence *fences = (void *)(uintptr_t)some->handles_ptr;
      const uint64_t *values = (void *)(uintptr_t)some->values_ptr;
      for (uint64_t i = 0; i < some->fence_count; i++)
        if (fences[i].flags & I915_EXEC_FENCE_SIGNAL) signal_syncobj(fences[i].handle, values ? values[i] : 0);
    }
  }
  if (given->flags & I915_EXEC_FENCE_OUT) given->rsvd2 = (given->rsvd2 & 0xffffffff) | (uint64_t)eventfd(1, EFD_CLOEXEC) << 32;
  return 0;
}

int handle_i915(unsigned number, void *argument, size_t size) {
  static uint32_t last;
  (void)size;
  switch (number) {
    case DRM_I915_GETPARAM: return parameter(argument);
    case DRM_I915_QUERY: return query(argument);
    case DRM_I915_GEM_CONTEXT_GETPARAM: return context_parameter(argument);
    case DRM_I915_GEM_CONTEXT_SETPARAM:
    case DRM_I915_GEM_CONTEXT_DESTROY:
    case DRM_I915_GEM_VM_DESTROY:
    case DRM_I915_GEM_SET_DOMAIN:
    case DRM_I915_GEM_SET_CACHING:
    case DRM_I915_GEM_SET_TILING:
    case DRM_I915_GEM_WAIT:
    case DRM_I915_GEM_THROTTLE: return 0;
    case DRM_I915_GEM_CONTEXT_CREATE: return ((struct drm_i915_gem_context_create *)argument)->ctx_id = ++last, 0;
    case DRM_I915_GEM_VM_CREATE: return ((struct drm_i915_gem_vm_control *)argument)->vm_id = ++last, 0;
    case DRM_I915_GEM_CREATE: {
      struct drm_i915_gem_create *made = argument;
      return (made->handle = buffer_new(made->size)) ? 0 : -ENOMEM;
    }
    case DRM_I915_GEM_CREATE_EXT: {
      struct drm_i915_gem_create_ext *made = argument;
      return (made->handle = buffer_new(made->size)) ? 0 : -ENOMEM;
    }
    case DRM_I915_GEM_USERPTR: {
      struct drm_i915_gem_userptr *made = argument;
      return (made->handle = buffer_new(made->user_size)) ? 0 : -ENOMEM;
    }
    case DRM_I915_GEM_MMAP_GTT: { /* the same number as MMAP_OFFSET, whose struct begins alike */
      struct drm_i915_gem_mmap_offset *map = argument;
      Buffer *buffer = buffer_of(map->handle);
      return buffer ? (map->offset = buffer->offset, 0) : -ENOENT;
    }
    case DRM_I915_GEM_MMAP: {
      struct drm_i915_gem_mmap *map = argument;
      return (map->addr_ptr = (uintptr_t)buffer_map(map->handle)) ? 0 : -ENOENT;
    }
    case DRM_I915_GEM_MADVISE: return ((struct drm_i915_gem_madvise *)argument)->retained = 1, 0;
    case DRM_I915_GEM_BUSY: return ((struct drm_i915_gem_busy *)argument)->busy = 0, 0;
    case DRM_I915_GEM_GET_APERTURE: {
      struct drm_i915_gem_get_aperture *found = argument;
      found->aper_size = found->aper_available_size = 4ull << 30;
      return 0;
    }
    case DRM_I915_GEM_GET_TILING: {
      struct drm_i915_gem_get_tiling *found = argument;
      found->tiling_mode = found->swizzle_mode = found->phys_swizzle_mode = 0;
      return 0;
    }
    case DRM_I915_REG_READ: {
      struct timespec now;
      clock_gettime(CLOCK_MONOTONIC, &now);
      ((struct drm_i915_reg_read *)argument)->val = (uint64_t)now.tv_sec * 19200000 + (uint64_t)now.tv_nsec / 52;
      return 0;
    }
    case DRM_I915_GET_RESET_STATS: {
      struct drm_i915_reset_stats *found = argument;
      found->reset_count = found->batch_active = found->batch_pending = 0;
      return 0;
    }
    case DRM_I915_GEM_EXECBUFFER2: return execute(argument);
    default: return -ENOTTY;
  }
}
