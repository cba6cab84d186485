/* The xe driver (Intel from Lunar Lake on). SHIM_TOPOLOGY and SHIM_VRAM as in i915.c; SHIM_IP: major, minor and revision of the
 * graphics IP, a byte each. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <time.h>

#include <drm/drm.h>
#include <drm/xe_drm.h>

#include "shim.h"

static size_t config(char *room) {
  size_t count = DRM_XE_QUERY_CONFIG_MAX_EXEC_QUEUE_PRIORITY + 1, size = sizeof(struct drm_xe_query_config) + count * sizeof(uint64_t);
  if (!room) return size;
  struct drm_xe_query_config *found = (void *)room;
  memset(room, 0, size);
  found->num_params = (uint32_t)count;
  found->info[DRM_XE_QUERY_CONFIG_REV_AND_DEVICE_ID] = setting("PCI_REVISION", 0) << 16 | setting("PCI_DEVICE", 0);
  found->info[DRM_XE_QUERY_CONFIG_FLAGS] = setting("VRAM", 0) ? DRM_XE_QUERY_CONFIG_FLAG_HAS_VRAM : 0;
  found->info[DRM_XE_QUERY_CONFIG_MIN_ALIGNMENT] = setting("VRAM", 0) ? 1 << 16 : 1 << 12;
  found->info[DRM_XE_QUERY_CONFIG_VA_BITS] = 48;
  found->info[DRM_XE_QUERY_CONFIG_MAX_EXEC_QUEUE_PRIORITY] = 1;
  return size;
}

static size_t regions(char *room) {
  uint64_t own = setting("VRAM", 0);
  unsigned count = own ? 2 : 1;
  size_t size = sizeof(struct drm_xe_query_mem_regions) + count * sizeof(struct drm_xe_mem_region);
  if (!room) return size;
  struct drm_xe_query_mem_regions *found = (void *)room;
  memset(room, 0, size);
  found->num_mem_regions = count;
  for (unsigned i = 0; i < count; i++) {
    found->mem_regions[i].mem_class = i ? DRM_XE_MEM_REGION_CLASS_VRAM : DRM_XE_MEM_REGION_CLASS_SYSMEM;
    found->mem_regions[i].instance = (uint16_t)i;
    found->mem_regions[i].min_page_size = i ? 1 << 16 : 1 << 12;
    found->mem_regions[i].total_size = i ? own : 16ull << 30;
    found->mem_regions[i].cpu_visible_size = i ? own : 0;
  }
  return size;
}

static size_t engines(char *room) {
  static const uint16_t classes[] = {DRM_XE_ENGINE_CLASS_RENDER, DRM_XE_ENGINE_CLASS_COPY, DRM_XE_ENGINE_CLASS_COMPUTE};
  size_t count = sizeof classes / sizeof *classes, size = sizeof(struct drm_xe_query_engines) + count * sizeof(struct drm_xe_engine);
  if (!room) return size;
  struct drm_xe_query_engines *found = (void *)room;
  memset(room, 0, size);
  found->num_engines = (uint32_t)count;
  for (size_t i = 0; i < count; i++) found->engines[i].instance.engine_class = classes[i];
  return size;
}

static size_t tiles(char *room) {
  size_t size = sizeof(struct drm_xe_query_gt_list) + sizeof(struct drm_xe_gt);
  if (!room) return size;
  struct drm_xe_query_gt_list *found = (void *)room;
  uint64_t version = setting("IP", 0x0c0000);
  memset(room, 0, size);
  found->num_gt = 1;
  found->gt_list[0].type = DRM_XE_QUERY_GT_TYPE_MAIN;
  found->gt_list[0].reference_clock = (uint32_t)setting("CLOCK", 19200000);
  found->gt_list[0].near_mem_regions = setting("VRAM", 0) ? 2 : 1;
  found->gt_list[0].far_mem_regions = setting("VRAM", 0) ? 1 : 0;
  found->gt_list[0].ip_ver_major = (uint16_t)(version >> 16);
  found->gt_list[0].ip_ver_minor = (uint16_t)(version >> 8 & 255);
  found->gt_list[0].ip_ver_rev = (uint16_t)(version & 255);
  return size;
}

static char *mask(char *room, uint16_t type, unsigned bits) {
  struct drm_xe_query_topology_mask *part = (void *)room;
  unsigned bytes = 8;
  if (room) {
    memset(room, 0, sizeof *part + bytes);
    part->type = type;
    part->num_bytes = bytes;
    for (unsigned i = 0; i < bits && i < 8 * bytes; i++) part->mask[i / 8] |= (uint8_t)(1 << i % 8);
  }
  return room + sizeof *part + bytes;
}

static size_t topology(char *room) {
  unsigned eus = (unsigned)setting("TOPOLOGY", 0x010610), parts = (eus >> 16) * (eus >> 8 & 255);
  size_t one = sizeof(struct drm_xe_query_topology_mask) + 8;
  if (!room) return 4 * one;
  char *next = mask(room, DRM_XE_TOPO_DSS_GEOMETRY, parts);
  next = mask(next, DRM_XE_TOPO_DSS_COMPUTE, parts);
  next = mask(next, DRM_XE_TOPO_L3_BANK, 8);
  next = mask(next, setting("IP", 0) >> 16 >= 20 ? DRM_XE_TOPO_SIMD16_EU_PER_DSS : DRM_XE_TOPO_EU_PER_DSS, eus & 255);
  return (size_t)(next - room);
}

static size_t cycles(char *room) {
  if (!room) return sizeof(struct drm_xe_query_engine_cycles);
  struct drm_xe_query_engine_cycles *found = (void *)room;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  found->width = 36;
  found->cpu_timestamp = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
  found->engine_cycles = found->cpu_timestamp / 52;
  found->cpu_delta = 100;
  return sizeof *found;
}

static size_t firmware(char *room) {
  if (!room) return sizeof(struct drm_xe_query_uc_fw_version);
  struct drm_xe_query_uc_fw_version *found = (void *)room;
  found->branch_ver = 0, found->major_ver = 1, found->minor_ver = 20, found->patch_ver = 0;
  return sizeof *found;
}

/* The firmware's table of hardware properties: key, number of values, values. */
static size_t hardware(char *room) {
  unsigned eus = (unsigned)setting("TOPOLOGY", 0x010610), parts = (eus >> 16) * (eus >> 8 & 255), threads = parts * (eus & 255) * 8;
  const uint32_t pairs[][2] = {{1, eus >> 16}, {2, parts}, {3, eus & 255}, {15, 8}, {16, threads}, {17, threads}, {18, threads}, {19, threads},
                               {21, threads}, {23, 1}, {24, 1}, {68, 512}};
  size_t count = sizeof pairs / sizeof *pairs;
  for (size_t i = 0; room && i < count; i++) memcpy(room + 12 * i, (uint32_t[]){pairs[i][0], 1, pairs[i][1]}, 12);
  return 12 * count;
}

static int query(struct drm_xe_device_query *asked) {
  size_t (*make)(char *) = NULL;
  switch (asked->query) {
    case DRM_XE_DEVICE_QUERY_ENGINES: make = engines; break;
    case DRM_XE_DEVICE_QUERY_MEM_REGIONS: make = regions; break;
    case DRM_XE_DEVICE_QUERY_CONFIG: make = config; break;
    case DRM_XE_DEVICE_QUERY_GT_LIST: make = tiles; break;
    case DRM_XE_DEVICE_QUERY_HWCONFIG: make = hardware; break;
    case DRM_XE_DEVICE_QUERY_GT_TOPOLOGY: make = topology; break;
    case DRM_XE_DEVICE_QUERY_ENGINE_CYCLES: make = cycles; break;
    case DRM_XE_DEVICE_QUERY_UC_FW_VERSION: make = firmware; break;
    default: log_line(1, "xe query %u UNKNOWN", asked->query); return -EINVAL;
  }
  if (!asked->size) asked->size = (uint32_t)make(NULL);
  else make((char *)(uintptr_t)asked->data);
  return 0;
}

static void done(uint64_t first, uint32_t count) {
  const struct drm_xe_sync *syncs = (void *)(uintptr_t)first;
  for (uint32_t i = 0; i < count; i++) {
    if (!(syncs[i].flags & DRM_XE_SYNC_FLAG_SIGNAL)) continue;
    if (syncs[i].type == DRM_XE_SYNC_TYPE_TIMELINE_SYNCOBJ) signal_syncobj(syncs[i].handle, syncs[i].timeline_value);
    if (syncs[i].type == DRM_XE_SYNC_TYPE_USER_FENCE) *(uint64_t *)(uintptr_t)syncs[i].addr = syncs[i].timeline_value;
  }
}

int handle_xe(unsigned number, void *argument, size_t size) {
  static uint32_t last;
  (void)size;
  switch (number) {
    case DRM_XE_DEVICE_QUERY: return query(argument);
    case DRM_XE_GEM_CREATE: {
      struct drm_xe_gem_create *made = argument;
      return (made->handle = buffer_new(made->size)) ? 0 : -ENOMEM;
    }
    case DRM_XE_GEM_MMAP_OFFSET: {
      struct drm_xe_gem_mmap_offset *map = argument;
      Buffer *buffer = buffer_of(map->handle);
      return buffer ? (map->offset = buffer->offset, 0) : -ENOENT;
    }
    case DRM_XE_VM_CREATE: return ((struct drm_xe_vm_create *)argument)->vm_id = ++last, 0;
    case DRM_XE_EXEC_QUEUE_CREATE: return ((struct drm_xe_exec_queue_create *)argument)->exec_queue_id = ++last, 0;
    case DRM_XE_EXEC_QUEUE_GET_PROPERTY: return ((struct drm_xe_exec_queue_get_property *)argument)->value = 0, 0;
    case DRM_XE_VM_DESTROY:
    case DRM_XE_EXEC_QUEUE_DESTROY:
    case DRM_XE_WAIT_USER_FENCE: return 0;
    case DRM_XE_VM_BIND: return done(((struct drm_xe_vm_bind *)argument)->syncs, ((struct drm_xe_vm_bind *)argument)->num_syncs), 0;
    case DRM_XE_EXEC: return done(((struct drm_xe_exec *)argument)->syncs, ((struct drm_xe_exec *)argument)->num_syncs), 0;
    default: return -ENOTTY;
  }
}
