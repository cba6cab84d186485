/* What a null device of Mesa's RADV lacks: kinds of memory, semaphores, fences, command buffers, images. */
#pragma once
#include "layer.h"

#define NEXT(name) ((PFN_##name)next_device(device, #name))
#define LENGTH(array) (sizeof(array) / sizeof *(array))

static VkDevice device;

typedef struct Entry {
  const char *name;
  PFN_vkVoidFunction function;
} Entry;

#define ENTRY(name, function) {name, (PFN_vkVoidFunction)function}

/* The memories of a discrete GPU: its own, the host's, its own visible to the host, the host's cached. */
static void fill(VkPhysicalDeviceMemoryProperties *found) {
  static const VkMemoryType types[] = {{1, 0}, {6, 1}, {7, 0}, {14, 1}};
  static const VkMemoryHeap heaps[] = {{16ull << 30, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT}, {16ull << 30, 0}};
  found->memoryTypeCount = LENGTH(types);
  found->memoryHeapCount = LENGTH(heaps);
  memcpy(found->memoryTypes, types, sizeof types);
  memcpy(found->memoryHeaps, heaps, sizeof heaps);
}

static void memory_properties(VkPhysicalDevice physical, VkPhysicalDeviceMemoryProperties *found) {
  (void)physical;
  fill(found);
}

static void memory_properties_2(VkPhysicalDevice physical, VkPhysicalDeviceMemoryProperties2 *found) {
  (void)physical;
  fill(&found->memoryProperties);
  for (VkPhysicalDeviceMemoryBudgetPropertiesEXT *part = found->pNext; part; part = part->pNext)
    if (part->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT)
      part->heapBudget[0] = part->heapBudget[1] = 15ull << 30;
}

static void requirements(VkDevice of, VkBuffer buffer, VkMemoryRequirements *found) {
  NEXT(vkGetBufferMemoryRequirements)(of, buffer, found);
  found->memoryTypeBits = 15;
}

static void requirements_2(VkDevice of, const VkBufferMemoryRequirementsInfo2 *wanted, VkMemoryRequirements2 *found) {
  NEXT(vkGetBufferMemoryRequirements2)(of, wanted, found);
  found->memoryRequirements.memoryTypeBits = 15;
}

/* Images are numbers, too, and need no memory to speak of. */
static void image_requirements(VkDevice of, VkImage image, VkMemoryRequirements *found) {
  (void)of, (void)image;
  *found = (VkMemoryRequirements){.size = 1 << 16, .alignment = 1 << 8, .memoryTypeBits = 15};
}

static void image_requirements_2(VkDevice of, const VkImageMemoryRequirementsInfo2 *wanted, VkMemoryRequirements2 *found) {
  image_requirements(of, wanted->image, &found->memoryRequirements);
}

/* Semaphores and fences are numbers, signalled from the start. */
static VkResult create_object(VkDevice of, const void *wanted, const VkAllocationCallbacks *memory, uint64_t *made) {
  static uint64_t last = 1 << 20;
  (void)of, (void)wanted, (void)memory;
  *made = ++last;
  return VK_SUCCESS;
}

static VkResult semaphore_value(VkDevice of, VkSemaphore semaphore, uint64_t *value) {
  (void)of, (void)semaphore;
  *value = 1ull << 62;
  return VK_SUCCESS;
}

/* All other calls that use the queue or a command buffer. */
static VkResult nothing(void) { return VK_SUCCESS; }

/* Entry points that only a null device needs. */
static const Entry EMULATED[] = {
    ENTRY("vkGetPhysicalDeviceMemoryProperties", memory_properties),
    ENTRY("vkGetPhysicalDeviceMemoryProperties2", memory_properties_2),
    ENTRY("vkGetBufferMemoryRequirements", requirements),
    ENTRY("vkGetBufferMemoryRequirements2", requirements_2),
    ENTRY("vkCreateSemaphore", create_object),
    ENTRY("vkCreateFence", create_object),
    ENTRY("vkCreateImage", create_object),
    ENTRY("vkCreateImageView", create_object),
    ENTRY("vkGetImageMemoryRequirements", image_requirements),
    ENTRY("vkGetImageMemoryRequirements2", image_requirements_2),
    ENTRY("vkGetSemaphoreCounterValue", semaphore_value),
};

/* Beginnings of the names of functions that do nothing here. */
static const char *const IDLE[] = {
    "vkCmd", "vkBeginCommandBuffer", "vkEndCommandBuffer", "vkResetCommand", "vkFreeCommandBuffers", "vkDestroyCommandPool",
    "vkQueueSubmit", "vkQueueWaitIdle", "vkDeviceWaitIdle", "vkWaitSemaphores", "vkSignalSemaphore", "vkDestroySemaphore",
    "vkWaitForFences", "vkResetFences", "vkGetFenceStatus", "vkDestroyFence", "vkResetQueryPool",
    "vkBindImageMemory", "vkDestroyImage",
};

/* Whether these are names of one function, of which one may end in KHR. */
static int same(const char *name, const char *wanted) {
  size_t length = strlen(wanted);
  if (length > 3 && !strcmp(wanted + length - 3, "KHR")) length -= 3;
  return strlen(name) == length && !strncmp(name, wanted, length);
}

static PFN_vkVoidFunction found_in(const Entry *entries, size_t count, const char *name) {
  for (size_t i = 0; i < count; i++)
    if (same(entries[i].name, name)) return entries[i].function;
  return NULL;
}

static PFN_vkVoidFunction emulated(const char *name) {
  for (size_t i = 0; i < LENGTH(IDLE); i++)
    if (!strncmp(name, IDLE[i], strlen(IDLE[i]))) return (PFN_vkVoidFunction)nothing;
  return found_in(EMULATED, LENGTH(EMULATED), name);
}
