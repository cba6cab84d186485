/* Code that all our Vulkan layers need: their position in the chain of layers. One that includes this writes `of_instance` and
 * `of_device`, which give its functions and those of the next layer. */
#pragma once
#include <string.h>

#include <vulkan/vulkan.h>
#include <vulkan/vk_layer.h>

static PFN_vkGetInstanceProcAddr next_instance;
static PFN_vkGetDeviceProcAddr next_device;
static VkInstance instance;

static PFN_vkVoidFunction of_instance(VkInstance of, const char *name);
static PFN_vkVoidFunction of_device(VkDevice of, const char *name);

/* The link of the layer chain in what is created next, which the next layer finds moved on by one. */
static VkLayerInstanceCreateInfo *link_of(const void *chain, VkStructureType type) {
  for (VkLayerInstanceCreateInfo *info = (void *)chain; info; info = (void *)info->pNext)
    if (info->sType == type && info->function == VK_LAYER_LINK_INFO) return info;
  return NULL;
}

static VkResult create_instance(const VkInstanceCreateInfo *wanted, const VkAllocationCallbacks *memory, VkInstance *made) {
  VkLayerInstanceCreateInfo *link = link_of(wanted->pNext, VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO);
  if (!link) return VK_ERROR_INITIALIZATION_FAILED;
  next_instance = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;
  VkResult result = ((PFN_vkCreateInstance)next_instance(NULL, "vkCreateInstance"))(wanted, memory, made);
  if (!result) instance = *made;
  return result;
}

/* `given` is what the application wants; `wanted`, which has the same chain, what the next layer gets. */
static VkResult next_create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo *given, const VkDeviceCreateInfo *wanted,
                                   const VkAllocationCallbacks *memory, VkDevice *made) {
  VkLayerDeviceCreateInfo *link = (void *)link_of(given->pNext, VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO);
  if (!link) return VK_ERROR_INITIALIZATION_FAILED;
  next_device = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;
  return ((PFN_vkCreateDevice)next_instance(instance, "vkCreateDevice"))(physical, wanted, memory, made);
}

VK_LAYER_EXPORT VkResult vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *chain) {
  chain->loaderLayerInterfaceVersion = 2;
  chain->pfnGetInstanceProcAddr = of_instance;
  chain->pfnGetDeviceProcAddr = of_device;
  chain->pfnGetPhysicalDeviceProcAddr = NULL;
  return VK_SUCCESS;
}
