/* The symbols of a plan: derives everything that depends on the shapes of a run, without calling Python. */
#include "core/symbols.h"

/* ---- checks -------------------------------------------------------------------------------------------------------- */

/* Returns whether the entry at this position of a flat list of shapes is an extent or a value's number, rather than a rank. */
static bool is_extent(const int32_t *shapes, size_t count, size_t position) {
  size_t next = 0;                 /* rank */
  if (position >= count) return false;
  while (next < position) next += 1 + (size_t)shapes[next];
  return next > position;
}

static int check_register(const char *what, size_t index, uint32_t reg, size_t count, tg_error *err) {
  if (reg < count) return 0;
  return tgi_fail(err, "%s %zu of the plan's symbols has register %u, but only %zu come before it.", what, index, reg, count);
}

static int check_places(const tg_symbols *tables, const tg_plan_spec *spec, tg_error *err) {
  for (size_t i = 0; i < tables->place_count; i++) {
    if (!is_extent(spec->shapes, spec->shape_count, tables->places[i].position))
      return tgi_fail(err, "Place %zu of the plan's symbols is not an extent of its inputs.", i);
    if (check_register("Place", i, tables->places[i].reg, tables->symbol_count, err)) return 1;
  }
  for (size_t i = 0; i < tables->symbol_count; i++) {
    size_t k = 0;
    while (k < tables->place_count && tables->places[k].reg != i) k++;
    if (k == tables->place_count) return tgi_fail(err, "Symbol %zu of the plan has no place in its shapes.", i);
  }
  return 0;
}

static int check_formulas(const tg_symbols *tables, size_t registers, tg_error *err) {
  size_t first = registers - tables->formula_count;
  for (size_t i = 0; i < tables->formula_count; i++) {
    const tg_formula *formula = &tables->formulas[i];
    if (formula->operation > TG_SMALLER) return tgi_fail(err, "Formula %zu of the plan's symbols has no operation.", i);
    if (check_register("Formula", i, formula->a, first + i, err) || check_register("Formula", i, formula->b, first + i, err))
      return 1;
  }
  for (size_t i = 0; i < tables->guard_count; i++) {
    if (tables->guards[i].kind > TG_NOT_NEGATIVE) return tgi_fail(err, "Guard %zu of the plan's symbols has no condition.", i);
    if (check_register("Guard", i, tables->guards[i].reg, registers, err)) return 1;
  }
  return 0;
}

static int check_words(const tg_symbols *tables, size_t registers, const tg_replay *replay, tg_error *err) {
  const tg_buffer *uniforms = replay->buffers[replay->buffer_count - 1];
  if (tables->word_count && (!uniforms || uniforms->bytes != tables->uniform_bytes))
    return tgi_fail(err, "The uniforms of the plan's symbols have another size than those of its replay.");
  for (size_t i = 0; i < tables->word_count; i++) {
    const tg_word *word = &tables->words[i];
    if (word->offset % 4 || word->offset + 4ull > tables->uniform_bytes)
      return tgi_fail(err, "Word %zu of the plan's symbols is not a word of its uniforms.", i);
    if (word->kind > TG_F32) return tgi_fail(err, "Word %zu of the plan's symbols has no type.", i);
    if (check_register("Word", i, word->reg, registers, err)) return 1;
  }
  return 0;
}

static int check_groups(const tg_symbols *tables, size_t registers, const tg_replay *replay, tg_error *err) {
  for (size_t i = 0; i < tables->group_count; i++) {
    const tg_group *group = &tables->groups[i];
    if (group->dispatch >= replay->step_count || group->axis > 2 || !replay->steps[group->dispatch].group)
      return tgi_fail(err, "Group %zu of the plan's symbols is not an axis of a dispatch that has workgroups.", i);
    if (check_register("Group", i, group->reg, registers, err)) return 1;
  }
  return 0;
}

static size_t port_count(const tg_replay *replay) {
  return replay->input_count + replay->output_count + replay->state_count;
}

static int check_sizes(const tg_symbols *tables, size_t registers, const tg_plan_spec *spec, tg_error *err) {
  for (size_t i = 0; i < tables->size_count; i++) {
    if (tables->sizes[i].port >= port_count(spec->replay))
      return tgi_fail(err, "Size %zu of the plan's symbols is of a port that does not exist.", i);
    if (check_register("Size", i, tables->sizes[i].reg, registers, err)) return 1;
  }
  for (size_t i = 0; i < tables->extent_count; i++) {
    size_t position = tables->extents[i].position;
    if (!is_extent(spec->output_shapes, spec->output_shape_count, position) || spec->output_shapes[position] < 0)
      return tgi_fail(err, "Extent %zu of the plan's symbols is not a known extent of its outputs.", i);
    if (check_register("Extent", i, tables->extents[i].reg, registers, err)) return 1;
  }
  return 0;
}

static int check_tables(const tg_plan_spec *spec, size_t registers, tg_error *err) {
  const tg_symbols *tables = spec->symbols;
  return check_places(tables, spec, err) || check_formulas(tables, registers, err) ||
         check_words(tables, registers, spec->replay, err) || check_groups(tables, registers, spec->replay, err) ||
         check_sizes(tables, registers, spec, err);
}

/* ---- numbers ------------------------------------------------------------------------------------------------------- */

/* Divides and rounds down, so that the remainder has the sign of b. Returns false where the quotient does not exist. */
static bool divide(int64_t a, int64_t b, int64_t *quotient, int64_t *rest) {
  if (!b || (b == -1 && a == INT64_MIN)) return false;
  *quotient = a / b;
  *rest = a % b;
  if (*rest && (*rest ^ b) < 0) {
    *quotient -= 1;
    *rest += b;
  }
  return true;
}

static bool calculate(uint32_t operation, int64_t a, int64_t b, int64_t *to) {
  int64_t other;
  switch (operation) {
    case TG_PLUS: return !__builtin_add_overflow(a, b, to);
    case TG_TIMES: return !__builtin_mul_overflow(a, b, to);
    case TG_QUOTIENT: return divide(a, b, to, &other);
    case TG_REMAINDER: return divide(a, b, &other, to);
    case TG_ROUNDED_UP:
      if (!divide(a, b, to, &other)) return false;
      *to += other != 0;
      return true;
    default: *to = (a > b) == (operation == TG_LARGER) ? a : b; return true;
  }
}

static bool holds(uint32_t kind, int64_t number) {
  return kind == TG_ZERO ? number == 0 : kind == TG_NOT_ZERO ? number != 0 : number >= 0;
}

static bool is_in_range(uint32_t kind, int64_t number) {
  if (kind == TG_F32) return true;
  return kind == TG_U32 ? number >= 0 && number <= UINT32_MAX : number >= INT32_MIN && number <= INT32_MAX;
}

uint32_t tgi_word_bits(uint32_t kind, int64_t number) {
  float real = (float)number;
  uint32_t bits = (uint32_t)number;
  if (kind == TG_F32) memcpy(&bits, &real, sizeof bits);
  return bits;
}

/* Sets the symbols from these shapes. Returns whether all other numbers are those of the plan, and all places of a symbol have the
 * same number. */
static bool read_shapes(const tgi_symbols *symbols, const int32_t *shapes, size_t count, int64_t *registers) {
  const tg_symbols *tables = &symbols->tables;
  if (count != symbols->shape_count) return false;
  for (size_t i = 0; i < count; i++)
    if (!symbols->is_open[i] && shapes[i] != symbols->shapes[i]) return false;
  for (size_t i = 0; i < tables->place_count; i++) registers[tables->places[i].reg] = shapes[tables->places[i].position];
  for (size_t i = 0; i < tables->place_count; i++)
    if (registers[tables->places[i].reg] != shapes[tables->places[i].position]) return false;
  return true;
}

static bool calculate_all(const tg_symbols *tables, int64_t *registers) {
  int64_t *to = registers + tables->symbol_count;
  if (tables->constant_count) memcpy(to, tables->constants, tables->constant_count * sizeof *to);
  to += tables->constant_count;
  for (size_t i = 0; i < tables->formula_count; i++) {
    const tg_formula *formula = &tables->formulas[i];
    if (!calculate(formula->operation, registers[formula->a], registers[formula->b], to++)) return false;
  }
  for (size_t i = 0; i < tables->guard_count; i++)
    if (!holds(tables->guards[i].kind, registers[tables->guards[i].reg])) return false;
  return true;
}

bool tgi_symbols_apply(const tgi_symbols *symbols, const int32_t *shapes, size_t count, int64_t *registers, uint64_t *bytes,
                       int32_t *output_shapes) {
  const tg_symbols *tables = &symbols->tables;
  bool fits = read_shapes(symbols, shapes, count, registers) && calculate_all(tables, registers);
  for (size_t i = 0; fits && i < tables->word_count; i++)
    fits = is_in_range(tables->words[i].kind, registers[tables->words[i].reg]);
  for (size_t i = 0; fits && i < tables->group_count; i++) {
    int64_t groups = registers[tables->groups[i].reg];
    fits = groups >= tables->groups[i].least && groups <= symbols->max_groups;
  }
  for (size_t i = 0; fits && i < tables->size_count; i++) {
    const tg_size *size = &tables->sizes[i];
    fits = registers[size->reg] >= 0 && (uint64_t)registers[size->reg] <= symbols->rooms[size->port];
    bytes[size->port] = (uint64_t)registers[size->reg];
  }
  for (size_t i = 0; fits && i < tables->extent_count; i++) {
    int64_t extent = registers[tables->extents[i].reg];
    fits = extent >= 0 && extent <= INT32_MAX;
    output_shapes[tables->extents[i].position] = (int32_t)extent;
  }
  return fits;
}

/* ---- making -------------------------------------------------------------------------------------------------------- */

static int differs(const char *what, size_t index, tg_error *err) {
  return tgi_fail(err, "%s %zu of the plan's symbols is not what the plan was made with.", what, index);
}

int tgi_symbols_check(tgi_symbols *symbols, const tg_plan_spec *spec, const tgi_setting *setting, int32_t *output_shapes,
                      tg_error *err) {
  const tg_symbols *tables = &symbols->tables;
  const tg_replay *replay = spec->replay;
  const int64_t *made = setting->registers;
  if (!tgi_symbols_apply(symbols, spec->shapes, spec->shape_count, setting->registers, setting->bytes, output_shapes))
    return tgi_fail(err, "The plan's symbols refuse its own shapes.");
  for (size_t i = 0; i < tables->word_count; i++) {
    const tg_word *word = &tables->words[i];
    uint32_t bits = tgi_word_bits(word->kind, made[word->reg]);
    if (memcmp((const uint8_t *)tables->uniforms + word->offset, &bits, sizeof bits)) return differs("Word", i, err);
  }
  for (size_t i = 0; i < tables->group_count; i++) {
    const tg_group *group = &tables->groups[i];
    if (made[group->reg] != replay->steps[group->dispatch].made[group->axis]) return differs("Group", i, err);
  }
  for (size_t i = 0; i < tables->size_count; i++) {
    const tg_size *size = &tables->sizes[i];
    if ((uint64_t)made[size->reg] != replay->inputs[size->port].made) return differs("Size", i, err);
  }
  for (size_t i = 0; i < tables->extent_count; i++) {
    const tg_place *extent = &tables->extents[i];
    if (made[extent->reg] != spec->output_shapes[extent->position]) return differs("Extent", i, err);
  }
  memcpy(symbols->made, made, symbols->register_count * sizeof *made);
  return 0;
}

static void copy_tables(tgi_symbols *symbols, const tg_symbols *from) {
  tgi_memory *memory = &symbols->memory;
  tg_symbols *to = &symbols->tables;
  *to = *from;
  to->places = tgi_copy(memory, from->places, from->place_count, sizeof *from->places);
  to->constants = tgi_copy(memory, from->constants, from->constant_count, sizeof *from->constants);
  to->formulas = tgi_copy(memory, from->formulas, from->formula_count, sizeof *from->formulas);
  to->guards = tgi_copy(memory, from->guards, from->guard_count, sizeof *from->guards);
  to->words = tgi_copy(memory, from->words, from->word_count, sizeof *from->words);
  to->groups = tgi_copy(memory, from->groups, from->group_count, sizeof *from->groups);
  to->sizes = tgi_copy(memory, from->sizes, from->size_count, sizeof *from->sizes);
  to->extents = tgi_copy(memory, from->extents, from->extent_count, sizeof *from->extents);
  to->uniforms = tgi_copy(memory, from->uniforms, from->uniform_bytes, 1);
}

static bool fill(tgi_symbols *symbols, const tg_plan_spec *spec) {
  const tg_replay *replay = spec->replay;
  tgi_memory *memory = &symbols->memory;
  copy_tables(symbols, spec->symbols);
  symbols->shapes = tgi_copy(memory, spec->shapes, symbols->shape_count = spec->shape_count, sizeof *spec->shapes);
  symbols->is_open = tgi_zeros(memory, spec->shape_count, sizeof *symbols->is_open);
  symbols->made = tgi_zeros(memory, symbols->register_count, sizeof *symbols->made);
  symbols->rooms = tgi_zeros(memory, port_count(replay), sizeof *symbols->rooms);
  symbols->max_groups = replay->device->max_groups;
  if (memory->lacks) return false;
  for (size_t i = 0; i < port_count(replay); i++) symbols->rooms[i] = replay->inputs[i].buffer->bytes;
  for (size_t i = 0; i < spec->symbols->place_count; i++) symbols->is_open[spec->symbols->places[i].position] = true;
  return true;
}

tgi_symbols *tgi_symbols_create(const tg_plan_spec *spec, tg_error *err) {
  const tg_symbols *tables = spec->symbols;
  size_t registers = tables->symbol_count + tables->constant_count + tables->formula_count;
  if (!spec->replay) return tgi_none(err, "A plan with symbols needs a replay.");
  if (check_tables(spec, registers, err)) return NULL;
  tgi_symbols *symbols = calloc(1, sizeof *symbols);
  if (symbols) *symbols = (tgi_symbols){.refs = 1, .register_count = registers};
  if (symbols && fill(symbols, spec)) return symbols;
  tgi_symbols_release(symbols);
  tgi_no_memory(err, "a plan");
  return NULL;
}

void tgi_symbols_release(tgi_symbols *symbols) {
  if (!symbols || atomic_fetch_sub(&symbols->refs, 1) != 1) return;
  tgi_memory_free(&symbols->memory);
  free(symbols);
}
