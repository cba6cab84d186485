/* A Vulkan layer that counts how often each function of a device is called. Whoever loads the library, too, reads the
 * counts. Each function is entered by a stub of its own, which counts and goes on: arguments stay where they are. */
#define _POSIX_C_SOURCE 200809L
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "layer.h"

enum { MOST = 1024 };

__attribute__((visibility("hidden"))) uint64_t call_counts[MOST];
__attribute__((visibility("hidden"))) PFN_vkVoidFunction call_targets[MOST];
extern const char call_stubs[] __attribute__((visibility("hidden")));
static const char *names[MOST];
static int known;

#if defined __x86_64__
enum { STUB_BYTES = 16 };
__asm__(".text\n.balign 16\n.hidden call_stubs\ncall_stubs:\n.set each, 0\n.rept 1024\n.balign 16\n"
        "lock incq call_counts + each * 8(%rip)\njmp *call_targets + each * 8(%rip)\n.set each, each + 1\n.endr");
#else
#error "The stubs are written for x86-64 only."
#endif

/* How many functions wgpu has asked for; the name of one, and how often it was called. */
VK_LAYER_EXPORT int count_known(void) { return known; }
VK_LAYER_EXPORT const char *count_name(int which) { return names[which]; }
VK_LAYER_EXPORT uint64_t count_of(int which) { return __atomic_load_n(&call_counts[which], __ATOMIC_RELAXED); }

static PFN_vkVoidFunction counted(const char *name, PFN_vkVoidFunction target) {
  int which = 0;
  while (which < known && strcmp(names[which], name)) which++;
  if (which == MOST) return target;
  if (which == known) names[known++] = strdup(name);
  call_targets[which] = target;
  return (PFN_vkVoidFunction)(uintptr_t)(call_stubs + which * STUB_BYTES);
}

static VkResult create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo *wanted, const VkAllocationCallbacks *memory,
                              VkDevice *made) {
  return next_create_device(physical, wanted, wanted, memory, made);
}

static PFN_vkVoidFunction of_device(VkDevice of, const char *name) {
  if (!strcmp(name, "vkGetDeviceProcAddr")) return (PFN_vkVoidFunction)of_device;
  PFN_vkVoidFunction next = next_device(of, name);
  return next ? counted(name, next) : NULL;
}

static PFN_vkVoidFunction of_instance(VkInstance of, const char *name) {
  if (!strcmp(name, "vkGetInstanceProcAddr")) return (PFN_vkVoidFunction)of_instance;
  if (!strcmp(name, "vkGetDeviceProcAddr")) return (PFN_vkVoidFunction)of_device;
  if (!strcmp(name, "vkCreateInstance")) return (PFN_vkVoidFunction)create_instance;
  if (!strcmp(name, "vkCreateDevice")) return (PFN_vkVoidFunction)create_device;
  return next_instance ? next_instance(of, name) : NULL;
}
