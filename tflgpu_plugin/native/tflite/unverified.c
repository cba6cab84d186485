/* What is read of a model file that its host need not have verified, so that a pointer may lead anywhere: names of tensors
 * (no CPU kernel reads one) and parameters of custom operators. The operating system is asked to copy them into a pipe:
 * where there is no memory it says so, and nobody crashes. */
#include <unistd.h>

#include "tflite/internal.h"

/* Copy what lies at `from` up to the end of its page, `most` bytes at most; returns how many there were. */
static size_t copy_some(const int ends[2], const char *from, char *to, size_t most, size_t page) {
  size_t here = page - (uintptr_t)from % page;
  ssize_t sent = write(ends[1], from, here < most ? here : most);
  ssize_t got = sent > 0 ? read(ends[0], to, (size_t)sent) : 0;
  return got > 0 ? (size_t)got : 0;
}

static void copy_name(const int ends[2], const char *from, char *to, size_t size, size_t page) {
  size_t used = 0, got = 1;
  to[0] = 0;
  while (from && got && used + 1 < size) {
    got = copy_some(ends, from + used, to + used, size - 1 - used, page);
    if (memchr(to + used, 0, got)) return;
    used += got;
    to[used] = 0;
  }
}

void tg_tflite_names(void *opaque, char *names, size_t size) {
  const tgl_context *context = opaque;
  int ends[2];
  memset(names, 0, context->tensor_count * size);
  if (pipe(ends)) return;
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  for (size_t k = 0; k < context->tensor_count; k++)
    copy_name(ends, context->tensors[k].name, names + k * size, size, page);
  close(ends[0]);
  close(ends[1]);
}

size_t tg_tflite_bytes(const void *from, char *to, size_t size) {
  int ends[2];
  if (pipe(ends)) return 0;
  size_t page = (size_t)sysconf(_SC_PAGESIZE), used = 0, got = 1;
  for (; got && used < size; used += got) got = copy_some(ends, (const char *)from + used, to + used, size - used, page);
  close(ends[0]);
  close(ends[1]);
  return used;
}
