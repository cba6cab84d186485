/* Claiming nodes: the host replaces them by kernels. */
#include "tflite/internal.h"

/* A claim in progress, in which the host calls init for the kernels. It is on the stack of tg_tflite_claim. */
typedef struct claim {
  struct claim *next;
  const tgl_context *context;
  tg_kernel *const *kernels;
  bool *taken;
  size_t count;
  bool starved;                    /* there was not enough memory to take a kernel */
} claim;

static claim *claims;              /* under tgi_lock */

static void sort(int32_t *nodes, size_t count) { qsort(nodes, count, sizeof *nodes, tgi_compare); }

static tg_kernel *take_from(const claim *open, const int32_t *nodes, size_t count) {
  for (size_t i = 0; i < open->count; i++) {
    tg_kernel *kernel = open->kernels[i];
    if (open->taken[i] || kernel->node_count != count || memcmp(kernel->nodes, nodes, count * sizeof *nodes)) continue;
    open->taken[i] = true;
    tgi_retain(&kernel->base);
    return kernel;
  }
  return NULL;
}

tg_kernel *tgi_take_claimed(const tgl_context *context, const tgl_partition *partition) {
  size_t count = (size_t)partition->nodes->size;
  tgi_memory memory = {0};
  int32_t *nodes = tgi_copy(&memory, partition->nodes->data, count, sizeof *nodes);
  if (nodes) sort(nodes, count);
  tg_kernel *kernel = NULL;
  tgi_lock();
  for (claim *at = claims; at && !kernel; at = at->next) {
    if (at->context != context) continue;
    if (nodes) kernel = take_from(at, nodes, count);
    at->starved |= !nodes;
  }
  tgi_unlock();
  tgi_memory_free(&memory);
  return kernel;
}

static void open_claim(claim *new) {
  tgi_lock();
  new->next = claims;
  claims = new;
  tgi_unlock();
}

static void close_claim(claim *old) {
  tgi_lock();
  claim **at = &claims;
  while (*at != old) at = &(*at)->next;
  *at = old->next;
  tgi_unlock();
}

static tgl_ints *all_nodes(tg_kernel *const *kernels, size_t kernel_count) {
  size_t count = 0;
  for (size_t i = 0; i < kernel_count; i++) count += kernels[i]->node_count;
  tgl_ints *list = malloc(sizeof *list + count * sizeof *list->data);
  if (!list) return NULL;
  list->size = 0;
  for (size_t i = 0; i < kernel_count; list->size += (int32_t)kernels[i++]->node_count)
    memcpy(list->data + list->size, kernels[i]->nodes, kernels[i]->node_count * sizeof *list->data);
  sort(list->data, count);
  return list;
}

static int replace(tgl_context *context, tgl_delegate *delegate, const tgl_ints *nodes, claim *new, tg_error *err) {
  const tgl_registration *registration = ((tgi_delegate *)delegate)->registration;
  open_claim(new);
  int32_t status = context->replace_nodes(context, (tgl_padded_registration){.known = *registration}, nodes, delegate);
  close_claim(new);
  if (new->starved) return tgi_no_memory(err, "a kernel");
  if (status != TGL_OK) return tgi_fail(err, "tflgpu: the host did not replace its nodes (status %d).", status);
  for (size_t i = 0; i < new->count; i++)
    if (!new->taken[i]) return tgi_fail(err, "tflgpu: the host grouped the nodes differently than it had announced.");
  return 0;
}

int tg_tflite_claim(void *context, void *delegate, tg_kernel *const *kernels, size_t kernel_count, tg_error *err) {
  if (!kernel_count) return 0;
  tgl_ints *nodes = all_nodes(kernels, kernel_count);
  bool *taken = calloc(kernel_count, sizeof *taken);
  claim new = {.context = context, .kernels = kernels, .taken = taken, .count = kernel_count};
  int failed = nodes && taken ? replace(context, delegate, nodes, &new, err)
                              : tgi_no_memory(err, "claiming nodes");
  free(taken);
  free(nodes);
  return failed;
}
