/* The msm driver (Qualcomm). SHIM_CHIP: the chip id; SHIM_GMEM: bytes of tile memory. */
#define _GNU_SOURCE
#include <errno.h>
#include <time.h>

#include <drm/drm.h>
#include <drm/msm_drm.h>

#include "shim.h"

static int parameter(struct drm_msm_param *asked) {
  uint64_t chip = setting("CHIP", 0x06030001);
  struct timespec now;
  switch (asked->param) {
    case MSM_PARAM_GPU_ID: asked->value = chip >> 24 < 0x10 ? (chip >> 24) * 100 + (chip >> 16 & 255) * 10 + (chip >> 8 & 255) : 0; return 0;
    case MSM_PARAM_CHIP_ID: asked->value = chip; return 0;
    case MSM_PARAM_GMEM_SIZE: asked->value = setting("GMEM", 1 << 20); return 0;
    case MSM_PARAM_GMEM_BASE: asked->value = 0x100000; return 0;
    case MSM_PARAM_MAX_FREQ: asked->value = 700000000; return 0;
    case MSM_PARAM_TIMESTAMP:
      clock_gettime(CLOCK_MONOTONIC, &now);
      asked->value = (uint64_t)now.tv_sec * 19200000 + (uint64_t)now.tv_nsec / 52;
      return 0;
    case MSM_PARAM_PRIORITIES: asked->value = 3; return 0;
    case MSM_PARAM_VA_START: asked->value = 1ull << 32; return 0;
    case MSM_PARAM_VA_SIZE: asked->value = 1ull << 38; return 0;
    case MSM_PARAM_HIGHEST_BANK_BIT: asked->value = 15; return 0;
    case MSM_PARAM_UBWC_SWIZZLE: asked->value = 6; return 0;
    case MSM_PARAM_UCHE_TRAP_BASE: asked->value = 0x1fffffffff000; return 0;
    case MSM_PARAM_FAULTS:
    case MSM_PARAM_SUSPENDS:
    case MSM_PARAM_RAYTRACING:
    case MSM_PARAM_MACROTILE_MODE:
    case MSM_PARAM_HAS_PRR: asked->value = 0; return 0;
    default: return -EINVAL;
  }
}

int handle_msm(unsigned number, void *argument, size_t size) {
  static uint32_t last, fence;
  (void)size;
  switch (number) {
    case DRM_MSM_GET_PARAM: return parameter(argument);
    case DRM_MSM_SET_PARAM: return ((struct drm_msm_param *)argument)->param == MSM_PARAM_EN_VM_BIND ? -EINVAL : 0;
    case DRM_MSM_GEM_NEW: {
      struct drm_msm_gem_new *made = argument;
      return (made->handle = buffer_new(made->size)) ? 0 : -ENOMEM;
    }
    case DRM_MSM_GEM_INFO: {
      struct drm_msm_gem_info *info = argument;
      Buffer *buffer = buffer_of(info->handle);
      if (!buffer) return -ENOENT;
      if (info->info == MSM_INFO_GET_OFFSET || info->info == MSM_INFO_GET_IOVA) info->value = buffer->offset + (info->info == MSM_INFO_GET_IOVA ? 1ull << 32 : 0);
      if (info->info == MSM_INFO_GET_FLAGS) info->value = MSM_BO_WC;
      return info->info == MSM_INFO_GET_METADATA ? -EINVAL : 0;
    }
    case DRM_MSM_GEM_CPU_PREP:
    case DRM_MSM_GEM_CPU_FINI:
    case DRM_MSM_WAIT_FENCE:
    case DRM_MSM_SUBMITQUEUE_CLOSE: return 0;
    case DRM_MSM_GEM_MADVISE: return ((struct drm_msm_gem_madvise *)argument)->retained = 1, 0;
    case DRM_MSM_SUBMITQUEUE_NEW: return ((struct drm_msm_submitqueue *)argument)->id = ++last, 0;
    case DRM_MSM_SUBMITQUEUE_QUERY: return 0;
    case DRM_MSM_GEM_SUBMIT: {
      struct drm_msm_gem_submit *given = argument;
      const char *syncs = (const char *)(uintptr_t)given->out_syncobjs;
      for (uint32_t i = 0; i < given->nr_out_syncobjs; i++) {
        const struct drm_msm_syncobj *each = (const void *)(syncs + (uint64_t)i * given->syncobj_stride);
        signal_syncobj(each->handle, each->point);
      }
      given->fence = ++fence;
      return 0;
    }
    default: return -ENOTTY;
  }
}
