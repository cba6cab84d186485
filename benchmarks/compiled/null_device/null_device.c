/* A Vulkan layer that lets wgpu open a null device of Mesa's RADV (RADV_FORCE_FAMILY), where AMD's compiler makes pipelines
 * and nothing runs. It stands in for what such a device lacks (kinds of memory, semaphores, fences, command buffers, images; with
 * NULL_DEVICE_SHIM for nothing: the folder shim emulates those devices; with NULL_DEVICE_TRUST it disables bounds checks), and
 * writes what the compiler says of each compute pipeline to the file that NULL_DEVICE_OUT names: a line for each number, an empty
 * line, the assembly. One pipeline at a time: the file holds the last.
 * Of other engines, for which NULL_DEVICE_TRACE names a folder: a file pipeline-N for each, with the number of its module
 * (module-N, SPIR-V) and its constants, and a line in "dispatches" for each that is recorded: the pipeline, the groups, the push
 * constants, and what uniform buffers hold then (SET.BINDING=, their beginning; one that is
 * bound whole is left out). Command buffers are recorded one after the other, by one thread. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulated.h"

enum { MOST_EXTENSIONS = 256, MOST_NUMBERS = 64, MOST_TEXTS = 8, MOST_OBJECTS = 1 << 14, MOST_PUSHED = 256, MOST_SETS = 4, MOST_PATH = 4096 };

/* Modules and pipelines by number; handles come again when one was destroyed, so the last is meant. */
typedef struct Objects {
  uint64_t handles[MOST_OBJECTS];
  uint32_t count;
} Objects;

static Objects modules, pipelines;

static uint32_t remember(Objects *of, uint64_t handle) {
  if (of->count == MOST_OBJECTS) return MOST_OBJECTS;
  of->handles[of->count] = handle;
  return of->count++;
}

static uint32_t number_of(const Objects *of, uint64_t handle) {
  for (uint32_t i = of->count; i > 0; i--)
    if (of->handles[i - 1] == handle) return i - 1;
  return MOST_OBJECTS;
}

/* A file in the folder of the trace; NULL where there is none. */
static FILE *traced(const char *kind, uint32_t number, const char *mode) {
  const char *folder = getenv("NULL_DEVICE_TRACE");
  char path[MOST_PATH];
  if (!folder || snprintf(path, sizeof path, "%s/%s-%u", folder, kind, number) >= (int)sizeof path) return NULL;
  return fopen(path, mode);
}

/* Disables bounds checks, which drivers of some makers do in instructions where the makers' own do them in hardware. */
static void trust(VkBaseOutStructure *part) {
  for (; part; part = part->pNext) {
    if (part->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2)
      ((VkPhysicalDeviceFeatures2 *)part)->features.robustBufferAccess = VK_FALSE;
    if (part->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ROBUSTNESS_2_FEATURES_EXT)
      ((VkPhysicalDeviceRobustness2FeaturesEXT *)part)->robustBufferAccess2 = VK_FALSE;
  }
}

static VkResult create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo *wanted, const VkAllocationCallbacks *memory,
                              VkDevice *made) {
  if (wanted->enabledExtensionCount >= MOST_EXTENSIONS) return VK_ERROR_INITIALIZATION_FAILED;
  const char *names[MOST_EXTENSIONS];
  memcpy(names, wanted->ppEnabledExtensionNames, wanted->enabledExtensionCount * sizeof *names);
  names[wanted->enabledExtensionCount] = VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME;
  VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR told = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR,
      .pNext = (void *)wanted->pNext,
      .pipelineExecutableInfo = VK_TRUE,
  };
  VkDeviceCreateInfo with = *wanted;
  VkPhysicalDeviceFeatures features = wanted->pEnabledFeatures ? *wanted->pEnabledFeatures : (VkPhysicalDeviceFeatures){0};
  with.pNext = &told;
  if (getenv("NULL_DEVICE_TRUST")) {
    trust((void *)wanted->pNext);
    features.robustBufferAccess = VK_FALSE;
    if (wanted->pEnabledFeatures) with.pEnabledFeatures = &features;
  }
  with.ppEnabledExtensionNames = names;
  with.enabledExtensionCount++;
  VkResult result = next_create_device(physical, wanted, &with, memory, made);
  if (!result) device = *made;
  return result;
}

static void write_numbers(FILE *file, const VkPipelineExecutableInfoKHR *executable) {
  VkPipelineExecutableStatisticKHR found[MOST_NUMBERS];
  uint32_t count = MOST_NUMBERS;
  for (uint32_t i = 0; i < count; i++)
    found[i] = (VkPipelineExecutableStatisticKHR){.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR};
  NEXT(vkGetPipelineExecutableStatisticsKHR)(device, executable, &count, found);
  for (uint32_t i = 0; i < count; i++) {
    int real = found[i].format == VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_FLOAT64_KHR;
    uint64_t value = found[i].format == VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR ? found[i].value.b32 : found[i].value.u64;
    fprintf(file, "%s=%llu\n", found[i].name, (unsigned long long)(real ? (uint64_t)found[i].value.f64 : value));
  }
}

static void write_assembly(FILE *file, const VkPipelineExecutableInfoKHR *executable) {
  VkPipelineExecutableInternalRepresentationKHR found[MOST_TEXTS];
  uint32_t count = MOST_TEXTS;
  for (uint32_t i = 0; i < count; i++)
    found[i] = (VkPipelineExecutableInternalRepresentationKHR){
        .sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INTERNAL_REPRESENTATION_KHR};
  PFN_vkGetPipelineExecutableInternalRepresentationsKHR get = NEXT(vkGetPipelineExecutableInternalRepresentationsKHR);
  get(device, executable, &count, found);
  for (uint32_t i = 0; i < count; i++) found[i].pData = malloc(found[i].dataSize);
  get(device, executable, &count, found);
  for (uint32_t i = 0; i < count; i++) {
    if (found[i].pData && (strstr(found[i].name, "ssembly") || getenv("NULL_DEVICE_ALL"))) fprintf(file, "\n%s", (const char *)found[i].pData);
    free(found[i].pData);
  }
}

static void write_constants(FILE *file, const VkSpecializationInfo *given) {
  for (uint32_t i = 0; given && i < given->mapEntryCount; i++) {
    const VkSpecializationMapEntry *entry = &given->pMapEntries[i];
    uint32_t value = 0;
    memcpy(&value, (const char *)given->pData + entry->offset, entry->size < sizeof value ? entry->size : sizeof value);
    fprintf(file, "constant %u=%u\n", entry->constantID, value);
  }
}

static void describe(VkPipeline pipeline, const VkPipelineShaderStageCreateInfo *stage) {
  const char *path = getenv("NULL_DEVICE_OUT");
  FILE *file = path ? fopen(path, "w") : traced("pipeline", remember(&pipelines, (uint64_t)pipeline), "w");
  if (!file) return;
  VkPipelineInfoKHR whole = {.sType = VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR, .pipeline = pipeline};
  VkPipelineExecutableInfoKHR executable = {.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR, .pipeline = pipeline};
  VkPipelineExecutablePropertiesKHR found = {.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_PROPERTIES_KHR};
  uint32_t one = 1;
  NEXT(vkGetPipelineExecutablePropertiesKHR)(device, &whole, &one, &found);
  if (!path) fprintf(file, "module=%u\n", number_of(&modules, (uint64_t)stage->module));
  if (!path) write_constants(file, stage->pSpecializationInfo);
  fprintf(file, "Lanes=%u\n", found.subgroupSize);
  write_numbers(file, &executable);
  write_assembly(file, &executable);
  fclose(file);
}

static VkResult create_module(VkDevice of, const VkShaderModuleCreateInfo *wanted, const VkAllocationCallbacks *memory,
                              VkShaderModule *made) {
  VkResult result = NEXT(vkCreateShaderModule)(of, wanted, memory, made);
  FILE *file = result ? NULL : traced("module", remember(&modules, (uint64_t)*made), "wb");
  if (!file) return result;
  fwrite(wanted->pCode, 1, wanted->codeSize, file);
  fclose(file);
  return result;
}

static VkResult create_pipelines(VkDevice of, VkPipelineCache cache, uint32_t count, const VkComputePipelineCreateInfo *wanted,
                                 const VkAllocationCallbacks *memory, VkPipeline *made) {
  (void)cache; /* what lies there has no assembly */
  VkResult worst = VK_SUCCESS;
  for (uint32_t i = 0; i < count; i++) {
    VkComputePipelineCreateInfo each = wanted[i];
    each.flags |= VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR | VK_PIPELINE_CREATE_CAPTURE_INTERNAL_REPRESENTATIONS_BIT_KHR;
    VkResult result = NEXT(vkCreateComputePipelines)(of, VK_NULL_HANDLE, 1, &each, memory, &made[i]);
    if (result) worst = result;
    else describe(made[i], &each.stage);
  }
  return worst;
}

/* Where buffers lie, and what descriptors of uniforms name; what is on the null device is the host's memory. */
typedef struct Place {
  uint64_t buffer, memory, offset;
} Place;

typedef struct Uniform {
  uint64_t set, buffer, offset, size;
  uint32_t binding;
} Uniform;

static Place places[MOST_OBJECTS];
static Uniform uniforms[MOST_OBJECTS];
static uint32_t place_count, uniform_count;

static void place(VkBuffer buffer, VkDeviceMemory memory, VkDeviceSize offset) {
  uint32_t i = 0;
  while (i < place_count && places[i].buffer != (uint64_t)buffer) i++;
  if (i == MOST_OBJECTS) return;
  places[i] = (Place){(uint64_t)buffer, (uint64_t)memory, offset};
  if (i == place_count) place_count++;
}

static VkResult bind_memory(VkDevice of, VkBuffer buffer, VkDeviceMemory memory, VkDeviceSize offset) {
  place(buffer, memory, offset);
  return NEXT(vkBindBufferMemory)(of, buffer, memory, offset);
}

static VkResult bind_memory_2(VkDevice of, uint32_t count, const VkBindBufferMemoryInfo *bound_to) {
  for (uint32_t i = 0; i < count; i++) place(bound_to[i].buffer, bound_to[i].memory, bound_to[i].memoryOffset);
  return NEXT(vkBindBufferMemory2)(of, count, bound_to);
}

static char *content_of(uint64_t buffer, VkDeviceSize offset) {
  void *start = NULL;
  for (uint32_t i = 0; i < place_count && !getenv("NULL_DEVICE_SHIM"); i++)
    if (places[i].buffer == buffer && !NEXT(vkMapMemory)(device, (VkDeviceMemory)places[i].memory, 0, VK_WHOLE_SIZE, 0, &start) && start)
      return (char *)start + places[i].offset + offset;
  return NULL;
}

/* Copies are made when they are recorded, as what runs after them is recorded after them. */
static void copy(VkCommandBuffer to, VkBuffer from, VkBuffer into, uint32_t count, const VkBufferCopy *parts) {
  (void)to;
  for (uint32_t i = 0; i < count && getenv("NULL_DEVICE_TRACE"); i++) {
    char *source = content_of((uint64_t)from, parts[i].srcOffset), *target = content_of((uint64_t)into, parts[i].dstOffset);
    if (source && target) memmove(target, source, parts[i].size);
  }
}

static void forget(uint64_t set, uint32_t binding, int all) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < uniform_count; i++)
    if (uniforms[i].set != set || (uniforms[i].binding != binding && !all)) uniforms[kept++] = uniforms[i];
  uniform_count = kept;
}

static VkResult allocate_sets(VkDevice of, const VkDescriptorSetAllocateInfo *wanted, VkDescriptorSet *made) {
  VkResult result = NEXT(vkAllocateDescriptorSets)(of, wanted, made);
  for (uint32_t i = 0; !result && i < wanted->descriptorSetCount; i++) forget((uint64_t)made[i], 0, 1);
  return result;
}

static void update_sets(VkDevice of, uint32_t count, const VkWriteDescriptorSet *given, uint32_t copies,
                        const VkCopyDescriptorSet *copied) {
  for (uint32_t i = 0; i < count; i++) {
    forget((uint64_t)given[i].dstSet, given[i].dstBinding, 0);
    if (given[i].descriptorType != VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER || uniform_count == MOST_OBJECTS) continue;
    const VkDescriptorBufferInfo *info = given[i].pBufferInfo;
    uniforms[uniform_count++] =
        (Uniform){(uint64_t)given[i].dstSet, (uint64_t)info->buffer, info->offset, info->range, given[i].dstBinding};
  }
  NEXT(vkUpdateDescriptorSets)(of, count, given, copies, copied);
}

static uint32_t bound;
static uint64_t bound_sets[MOST_SETS];
static unsigned char pushed[MOST_PUSHED];

static void bind_sets(VkCommandBuffer to, VkPipelineBindPoint point, VkPipelineLayout layout, uint32_t first, uint32_t count,
                      const VkDescriptorSet *sets, uint32_t moves, const uint32_t *moved) {
  (void)to, (void)point, (void)layout, (void)moves, (void)moved;
  for (uint32_t i = 0; i < count && first + i < MOST_SETS; i++) bound_sets[first + i] = (uint64_t)sets[i];
}

static void bind_pipeline(VkCommandBuffer to, VkPipelineBindPoint point, VkPipeline pipeline) {
  (void)to, (void)point;
  bound = number_of(&pipelines, (uint64_t)pipeline);
}

static void push(VkCommandBuffer to, VkPipelineLayout layout, VkShaderStageFlags stages, uint32_t offset, uint32_t size,
                 const void *values) {
  (void)to, (void)layout, (void)stages;
  if (offset + size <= MOST_PUSHED) memcpy(pushed + offset, values, size);
}

static void write_bytes(FILE *file, const unsigned char *content, uint64_t size) {
  for (uint64_t i = 0; i < size; i++) fprintf(file, "%02x", content[i]);
}

static void dispatch(VkCommandBuffer to, uint32_t x, uint32_t y, uint32_t z) {
  (void)to;
  FILE *file = traced("dispatches", 0, "a");
  if (!file) return;
  fprintf(file, "%u %u %u %u ", bound, x, y, z);
  write_bytes(file, pushed, MOST_PUSHED);
  for (uint32_t set = 0; set < MOST_SETS; set++)
    for (uint32_t i = 0; i < uniform_count; i++) {
      if (!bound_sets[set] || uniforms[i].set != bound_sets[set]) continue;
      const char *content = uniforms[i].size == VK_WHOLE_SIZE ? NULL : content_of(uniforms[i].buffer, uniforms[i].offset);
      fprintf(file, " %u.%u=", set, uniforms[i].binding);
      uint64_t size = uniforms[i].size < MOST_PUSHED ? uniforms[i].size : MOST_PUSHED;
      if (content) write_bytes(file, (const unsigned char *)content, size);
    }
  fprintf(file, "\n");
  fclose(file);
}

static PFN_vkVoidFunction of_device(VkDevice of, const char *name);
static PFN_vkVoidFunction of_instance(VkInstance of, const char *name);

static const Entry ENTRIES[] = {
    ENTRY("vkGetInstanceProcAddr", of_instance),
    ENTRY("vkGetDeviceProcAddr", of_device),
    ENTRY("vkCreateInstance", create_instance),
    ENTRY("vkCreateDevice", create_device),
    ENTRY("vkCreateShaderModule", create_module),
    ENTRY("vkCreateComputePipelines", create_pipelines),
    ENTRY("vkCmdBindPipeline", bind_pipeline),
    ENTRY("vkCmdPushConstants", push),
    ENTRY("vkBindBufferMemory", bind_memory),
    ENTRY("vkBindBufferMemory2", bind_memory_2),
    ENTRY("vkAllocateDescriptorSets", allocate_sets),
    ENTRY("vkUpdateDescriptorSets", update_sets),
    ENTRY("vkCmdBindDescriptorSets", bind_sets),
    ENTRY("vkCmdCopyBuffer", copy),
    ENTRY("vkCmdDispatch", dispatch),
};

static PFN_vkVoidFunction ours(const char *name) {
  PFN_vkVoidFunction own = found_in(ENTRIES, LENGTH(ENTRIES), name);
  return own || getenv("NULL_DEVICE_SHIM") ? own : emulated(name);
}

static PFN_vkVoidFunction of_device(VkDevice of, const char *name) {
  PFN_vkVoidFunction next = next_device(of, name), own = ours(name);
  return next && own ? own : next;
}

static PFN_vkVoidFunction of_instance(VkInstance of, const char *name) {
  PFN_vkVoidFunction own = ours(name);
  return own ? own : next_instance ? next_instance(of, name) : NULL;
}
