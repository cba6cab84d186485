/* A Vulkan layer that makes any driver as inexact as WGSL and Vulkan permit: it rewrites each shader module. WORST_DRIVER says
 * how, by words with commas between them: up, down or seed=NUMBER; split or fused; flush; finite; regroup; smaller; unordered; signs. */
#include "layer.h"

#include <stdlib.h>

#include "rewrite.h"

static worst how_of(const char *words) {
  worst how = {0};
  for (const char *word = words; word; word = strchr(word, ',') ? strchr(word, ',') + 1 : NULL) {
    if (!strncmp(word, "up", 2)) how.off = UP;
    if (!strncmp(word, "down", 4)) how.off = DOWN;
    if (!strncmp(word, "seed=", 5)) how.off = SEEDED, how.seed = (uint32_t)strtoul(word + 5, NULL, 10);
    if (!strncmp(word, "split", 5)) how.products = SPLIT;
    if (!strncmp(word, "fused", 5)) how.products = FUSED;
    if (!strncmp(word, "flush", 5)) how.flush = 1;
    if (!strncmp(word, "finite", 6)) how.finite = 1;
    if (!strncmp(word, "regroup", 7)) how.regroup = 1;
    if (!strncmp(word, "smaller", 7)) how.smaller = 1;
    if (!strncmp(word, "unordered", 9)) how.unordered = 1;
    if (!strncmp(word, "signs", 5)) how.signs = 1;
  }
  return how;
}

static VkResult create_module(VkDevice device, const VkShaderModuleCreateInfo *wanted, const VkAllocationCallbacks *memory,
                              VkShaderModule *made) {
  size_t words = 0;
  uint32_t *code = rewritten(how_of(getenv("WORST_DRIVER")), wanted->pCode, wanted->codeSize / sizeof *code, &words);
  if (!code) return VK_ERROR_INITIALIZATION_FAILED;
  VkShaderModuleCreateInfo own = *wanted;
  own.pCode = code;
  own.codeSize = words * sizeof *code;
  VkResult result = ((PFN_vkCreateShaderModule)next_device(device, "vkCreateShaderModule"))(device, &own, memory, made);
  free(code);
  return result;
}

static VkResult create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo *wanted, const VkAllocationCallbacks *memory,
                              VkDevice *made) {
  return next_create_device(physical, wanted, wanted, memory, made);
}

static PFN_vkVoidFunction of_device(VkDevice of, const char *name) {
  if (!strcmp(name, "vkGetDeviceProcAddr")) return (PFN_vkVoidFunction)of_device;
  if (!strcmp(name, "vkCreateShaderModule")) return (PFN_vkVoidFunction)create_module;
  return next_device(of, name);
}

static PFN_vkVoidFunction of_instance(VkInstance of, const char *name) {
  if (!strcmp(name, "vkGetInstanceProcAddr")) return (PFN_vkVoidFunction)of_instance;
  if (!strcmp(name, "vkGetDeviceProcAddr")) return (PFN_vkVoidFunction)of_device;
  if (!strcmp(name, "vkCreateInstance")) return (PFN_vkVoidFunction)create_instance;
  if (!strcmp(name, "vkCreateDevice")) return (PFN_vkVoidFunction)create_device;
  return next_instance ? next_instance(of, name) : NULL;
}
