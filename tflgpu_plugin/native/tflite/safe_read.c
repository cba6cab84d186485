/* Reads through pointers that may be invalid, because the host need not have verified its model file: names of tensors, which no
 * CPU kernel reads, and parameters of custom operators. */
#include "tflite/internal.h"

/* Copies up to `size` bytes, of a text only up to its end; returns how many could be read. */
static size_t copy(const tgi_probe *probe, const char *from, char *to, size_t size, bool text) {
  size_t used = 0, got = 1;
  for (; got && used < size && !(text && memchr(to, 0, used)); used += got)
    got = tgi_probe_copy(probe, from + used, to + used, size - used);
  return used;
}

void tg_tflite_names(void *opaque, char *names, size_t size) {
  const tgl_context *context = opaque;
  tgi_probe probe;
  memset(names, 0, context->tensor_count * size);
  if (!tgi_probe_open(&probe)) return;
  for (size_t k = 0; k < context->tensor_count; k++)
    if (context->tensors[k].name) copy(&probe, context->tensors[k].name, names + k * size, size - 1, true);
  tgi_probe_close(&probe);
}

void tg_tflite_library(void *opaque, char *path, size_t size) {
  const tgl_context *context = opaque;
  tgi_library_of((const void *)(uintptr_t)context->get_node, path, size);
}

size_t tg_tflite_bytes(const void *from, char *to, size_t size) {
  tgi_probe probe;
  if (!tgi_probe_open(&probe)) return 0;
  size_t used = copy(&probe, from, to, size, false);
  tgi_probe_close(&probe);
  return used;
}
