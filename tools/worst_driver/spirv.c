/* Writing SPIR-V: a type or a constant is declared when it is first used. */
#include "spirv.h"

#include <stdlib.h>
#include <string.h>

void put(text *t, const uint32_t *words, size_t count) {
  if (t->count + count > t->room) {
    t->room = 2 * t->room + count + 1024;
    t->words = realloc(t->words, t->room * sizeof *t->words);
    if (!t->words) abort();
  }
  memcpy(t->words + t->count, words, count * sizeof *words);
  t->count += count;
}

void instruction(text *t, uint32_t op, const uint32_t *operands, size_t count) {
  put(t, COUNTED((uint32_t)(count + 1) << 16 | op));
  put(t, operands, count);
}

uint32_t type_of(module *m, kind of, int width) {
  uint32_t *found = &m->types[of][width];
  if (*found) return *found;
  uint32_t element = width > 1 ? type_of(m, of, 1) : 0, id = *found = m->bound++;
  if (width > 1) instruction(&m->made, TYPE_VECTOR, COUNTED(id, element, (uint32_t)width));
  else if (of == TRUTH) instruction(&m->made, TYPE_BOOL, COUNTED(id));
  else if (of == WHOLE) instruction(&m->made, TYPE_INTEGER, COUNTED(id, 32, 0));
  else instruction(&m->made, TYPE_FLOAT, COUNTED(id, of == DOUBLES ? 64 : 32));
  return id;
}

uint32_t constant_of(module *m, kind of, int width, uint32_t bits) {
  for (int k = 0; k < m->constant_count; k++) {
    constant *c = &m->constants[k];
    if (c->of == of && c->width == width && c->bits == bits) return c->id;
  }
  uint32_t element = width > 1 ? constant_of(m, of, 1, bits) : bits, type = type_of(m, of, width), id = m->bound++;
  uint32_t operands[WIDEST + 2] = {type, id, element, element, element, element};
  instruction(&m->made, width > 1 ? COMPOSITE_CONSTANT : CONSTANT, operands, width + 2);
  if (m->constant_count < MOST_CONSTANTS) m->constants[m->constant_count++] = (constant){of, width, bits, id};
  return id;
}

int width_of(const module *m, kind of, uint32_t type) {
  for (int width = 1; width <= WIDEST; width++)
    if (type && m->types[of][width] == type) return width;
  return 0;
}

uint32_t make(module *m, uint32_t op, uint32_t type, const uint32_t *operands, size_t count) {
  put(&m->body, COUNTED((uint32_t)(count + 3) << 16 | op, type, m->bound));
  put(&m->body, operands, count);
  return m->bound++;
}
