/* The nouveau driver (NVIDIA). SHIM_CHIPSET, SHIM_VRAM; SHIM_UNITS: TPCs, of which most have two SMs; SHIM_CLASSES: 16 bits each for
 * the 3D, compute and copy class, from bit 0. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

#include <drm/drm.h>
#include <drm/nouveau_drm.h>

#include "shim.h"

/* NVIF messages, which are not in the kernel's public headers: a common head and a body by type. */
typedef struct Head {
  uint8_t version, type, unused[4], owner, route;
  uint64_t token, object;
  uint8_t rest[];
} Head;

enum { LIST_CLASSES = 1, CALL = 4, DEVICE_INFO = 0, DEVICE_TIME = 1, GETPARAM_PUSH_MAX = 17 };

typedef struct Classes {
  uint8_t version, count, unused[6];
  struct {
    int32_t number;
    int16_t least, most;
  } some[];
} Classes;

typedef struct Info {
  uint8_t version, platform;
  uint16_t chipset;
  uint8_t revision, family, unused[2];
  uint64_t memory, free_memory;
  char chip[16], name[64];
} Info;

static uint64_t nanoseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int object_call(Head *head) {
  if (head->type == LIST_CLASSES) {
    Classes *list = (void *)head->rest;
    uint64_t own = setting("CLASSES", 0xc5b5c5c0c597);
    int32_t some[] = {own & 0xffff, own >> 16 & 0xffff, own >> 32 & 0xffff, 0x902d, 0xa140};
    uint8_t room = list->count, count = sizeof some / sizeof *some;
    list->count = count;
    for (uint8_t i = 0; i < room; i++) {
      list->some[i].number = i < count ? some[i] : 0;
      list->some[i].least = list->some[i].most = -1;
    }
  }
  if (head->type == CALL && head->rest[1] == DEVICE_INFO) { /* the body starts after version and method */
    Info *info = (void *)(head->rest + 8);
    info->platform = 3; /* PCI express */
    info->chipset = (uint16_t)setting("CHIPSET", 0x162);
    info->revision = 0xa1;
    info->memory = info->free_memory = setting("VRAM", 8ull << 30);
    strcpy(info->chip, "none");
    strcpy(info->name, "no device");
  }
  if (head->type == CALL && head->rest[1] == DEVICE_TIME) *(uint64_t *)(head->rest + 16) = nanoseconds();
  return 0;
}

static int parameter(struct drm_nouveau_getparam *asked) {
  switch (asked->param) {
    case NOUVEAU_GETPARAM_PCI_VENDOR: asked->value = 0x10de; return 0;
    case NOUVEAU_GETPARAM_PCI_DEVICE: asked->value = setting("PCI_DEVICE", 0); return 0;
    case NOUVEAU_GETPARAM_BUS_TYPE: asked->value = 2; return 0;
    case NOUVEAU_GETPARAM_CHIPSET_ID: asked->value = setting("CHIPSET", 0x162); return 0;
    case NOUVEAU_GETPARAM_FB_SIZE:
    case NOUVEAU_GETPARAM_VRAM_BAR_SIZE: asked->value = setting("VRAM", 8ull << 30); return 0;
    case NOUVEAU_GETPARAM_AGP_SIZE: asked->value = 1ull << 36; return 0;
    case NOUVEAU_GETPARAM_GRAPH_UNITS: asked->value = 6 | setting("UNITS", 36) << 8; return 0;
    case NOUVEAU_GETPARAM_PTIMER_TIME: asked->value = nanoseconds(); return 0;
    case NOUVEAU_GETPARAM_EXEC_PUSH_MAX: asked->value = 512; return 0;
    case NOUVEAU_GETPARAM_VRAM_USED: asked->value = 1 << 24; return 0;
    case NOUVEAU_GETPARAM_HAS_BO_USAGE:
    case NOUVEAU_GETPARAM_HAS_PAGEFLIP:
    case NOUVEAU_GETPARAM_HAS_VMA_TILEMODE: asked->value = 1; return 0;
    default: return -EINVAL;
  }
}

static void done(uint64_t first, uint32_t count) {
  const struct drm_nouveau_sync *syncs = (void *)(uintptr_t)first;
  for (uint32_t i = 0; i < count; i++)
    if ((syncs[i].flags & DRM_NOUVEAU_SYNC_TYPE_MASK) == DRM_NOUVEAU_SYNC_TIMELINE_SYNCOBJ)
      signal_syncobj(syncs[i].handle, syncs[i].timeline_value);
}

static int describe(struct drm_nouveau_gem_info *info) {
  Buffer *buffer = buffer_of(info->handle);
  if (!buffer) return -ENOENT;
  info->size = buffer->size;
  info->map_handle = info->offset = buffer->offset;
  if (!info->domain) info->domain = NOUVEAU_GEM_DOMAIN_GART;
  return 0;
}

int handle_nouveau(unsigned number, void *argument, size_t size) {
  static int32_t last;
  (void)size;
  switch (number) {
    case DRM_NOUVEAU_GETPARAM: return parameter(argument);
    case DRM_NOUVEAU_NVIF: return object_call(argument);
    case DRM_NOUVEAU_CHANNEL_ALLOC: {
      struct drm_nouveau_channel_alloc *made = argument;
      made->channel = ++last;
      made->pushbuf_domains = NOUVEAU_GEM_DOMAIN_VRAM | NOUVEAU_GEM_DOMAIN_GART;
      made->notifier_handle = buffer_new(4096);
      return 0;
    }
    case DRM_NOUVEAU_GEM_NEW: {
      struct drm_nouveau_gem_new *made = argument;
      made->info.handle = buffer_new(made->info.size);
      return made->info.handle ? describe(&made->info) : -ENOMEM;
    }
    case DRM_NOUVEAU_GEM_INFO: return describe(argument);
    case DRM_NOUVEAU_CHANNEL_FREE:
    case DRM_NOUVEAU_VM_INIT:
    case DRM_NOUVEAU_GEM_PUSHBUF:
    case DRM_NOUVEAU_GEM_CPU_PREP:
    case DRM_NOUVEAU_GEM_CPU_FINI: return 0;
    case DRM_NOUVEAU_VM_BIND: return done(((struct drm_nouveau_vm_bind *)argument)->sig_ptr, ((struct drm_nouveau_vm_bind *)argument)->sig_count), 0;
    case DRM_NOUVEAU_EXEC: return done(((struct drm_nouveau_exec *)argument)->sig_ptr, ((struct drm_nouveau_exec *)argument)->sig_count), 0;
    default: return -ENOTTY;
  }
}
