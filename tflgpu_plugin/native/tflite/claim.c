/* Which nodes a delegate takes. */
#include "tflite/internal.h"

/* A claim is open while the host calls init for its kernels; it lives on the stack of tg_tflite_claim. */
typedef struct claim {
  struct claim *next;
  const tgl_context *context;
  tg_kernel *const *kernels;
  bool *taken;
  size_t count;
} claim;

static claim *claims;              /* under tgi_lock */

static tgl_ints *sorted(const int32_t *values, size_t count) {
  tgl_ints *list = malloc(sizeof *list + count * sizeof *values);
  if (!list) return NULL;
  list->size = (int32_t)count;
  memcpy(list->data, values, count * sizeof *values);
  qsort(list->data, count, sizeof *values, tgi_compare);
  return list;
}

static tg_kernel *take_from(const claim *open, const tgl_ints *nodes) {
  for (size_t i = 0; i < open->count; i++) {
    tg_kernel *kernel = open->kernels[i];
    if (open->taken[i] || kernel->node_count != (size_t)nodes->size) continue;
    if (memcmp(kernel->nodes, nodes->data, kernel->node_count * sizeof *nodes->data)) continue;
    open->taken[i] = true;
    tg_kernel_retain(kernel);
    return kernel;
  }
  return NULL;
}

tg_kernel *tgi_take_claimed(const tgl_context *context, const tgl_partition *partition) {
  tgl_ints *nodes = sorted(partition->nodes->data, (size_t)partition->nodes->size);
  if (!nodes) return NULL;
  tg_kernel *kernel = NULL;
  tgi_lock();
  for (claim *at = claims; at && !kernel; at = at->next)
    if (at->context == context) kernel = take_from(at, nodes);
  tgi_unlock();
  free(nodes);
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
  size_t count = 0, used = 0;
  for (size_t i = 0; i < kernel_count; i++) count += kernels[i]->node_count;
  int32_t *nodes = malloc((count + 1) * sizeof *nodes);
  if (!nodes) return NULL;
  for (size_t i = 0; i < kernel_count; used += kernels[i++]->node_count)
    memcpy(nodes + used, kernels[i]->nodes, kernels[i]->node_count * sizeof *nodes);
  tgl_ints *list = sorted(nodes, count);
  free(nodes);
  return list;
}

static int replace(tgl_context *context, tgl_delegate *delegate, const tgl_ints *nodes, claim *new, tg_error *err) {
  const tgl_registration *registration = ((tgi_delegate *)delegate)->registration;
  open_claim(new);
  int32_t status = context->replace_nodes(context, (tgl_padded_registration){.known = *registration}, nodes, delegate);
  close_claim(new);
  if (status != TGL_OK) return tgi_fail(err, "tflgpu: the host did not hand over its nodes (status %d).", status);
  for (size_t i = 0; i < new->count; i++)
    if (!new->taken[i]) return tgi_fail(err, "tflgpu: the host grouped the nodes in another way than it had announced.");
  return 0;
}

int tg_tflite_claim(void *context, void *delegate, tg_kernel *const *kernels, size_t kernel_count, tg_error *err) {
  if (!kernel_count) return 0;
  tgl_ints *nodes = all_nodes(kernels, kernel_count);
  bool *taken = calloc(kernel_count, sizeof *taken);
  claim new = {.context = context, .kernels = kernels, .taken = taken, .count = kernel_count};
  int failed = nodes && taken ? replace(context, delegate, nodes, &new, err)
                              : tgi_fail(err, "tflgpu: not enough memory to claim nodes.");
  free(taken);
  free(nodes);
  return failed;
}
