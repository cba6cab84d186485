/* Memory that is freed with its owner, and copies of data from callers. */
#include "core/internal.h"

struct tgi_piece {
  tgi_piece *next;
  max_align_t data[];
};

void *tgi_zeros(tgi_memory *memory, size_t count, size_t bytes) {
  bool fits = !bytes || count <= (SIZE_MAX - sizeof(tgi_piece)) / bytes;
  tgi_piece *piece = fits ? calloc(1, sizeof *piece + count * bytes) : NULL;
  if (!piece) {
    memory->lacks = true;
    return NULL;
  }
  piece->next = memory->pieces;
  memory->pieces = piece;
  return piece->data;
}

void *tgi_copy(tgi_memory *memory, const void *data, size_t count, size_t bytes) {
  void *copy = tgi_zeros(memory, count, bytes);
  if (copy && data && count) memcpy(copy, data, count * bytes);
  return copy;
}

char *tgi_copy_text(tgi_memory *memory, const char *text) {
  return text ? tgi_copy(memory, text, strlen(text) + 1, 1) : NULL;
}

char **tgi_copy_texts(tgi_memory *memory, const char *const *texts, size_t count) {
  char **list = tgi_zeros(memory, count, sizeof *list);
  for (size_t i = 0; list && i < count; i++) list[i] = tgi_copy_text(memory, texts[i]);
  return memory->lacks ? NULL : list;
}

void tgi_memory_free(tgi_memory *memory) {
  for (tgi_piece *piece = memory->pieces, *next; piece; piece = next) {
    next = piece->next;
    free(piece);
  }
}
