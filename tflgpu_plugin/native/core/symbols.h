/* The symbols of a plan: derives everything that depends on the shapes of a run, without calling Python. */
#ifndef TFLGPU_INTERNAL_SYMBOLS_H
#define TFLGPU_INTERNAL_SYMBOLS_H

#include "core/internal.h"

/* The symbols of a plan; immutable once they are checked. */
typedef struct tgi_symbols {
  atomic_size_t refs;
  tgi_memory memory;               /* owns the lists */
  tg_symbols tables;
  int32_t *shapes;                 /* the shapes for which the plan was made */
  size_t shape_count, register_count;
  bool *is_open;                   /* for each number of the shapes, whether it is a symbol */
  uint64_t *rooms;                 /* size of each port's buffer in bytes */
  uint32_t max_groups;
  int64_t *made;                   /* the registers for `shapes` */
} tgi_symbols;

/* Checks and copies the tables of a plan. */
tgi_symbols *tgi_symbols_create(const tg_plan_spec *spec, tg_error *err);
/* Evaluates the tables for the plan's own shapes and compares the results with those with which its replay was created. Nothing
 * else would reveal a contradiction. */
int tgi_symbols_check(tgi_symbols *symbols, const tg_plan_spec *spec, const tgi_setting *setting, int32_t *output_shapes,
                      tg_error *err);
void tgi_symbols_release(tgi_symbols *symbols);
/* Returns whether the plan applies to these shapes, and evaluates the tables for them: writes all registers, and those entries of
 * the other lists that depend on symbols (the caller has filled these with the plan's own numbers). */
bool tgi_symbols_apply(const tgi_symbols *symbols, const int32_t *shapes, size_t count, int64_t *registers, uint64_t *bytes,
                       int32_t *output_shapes);
/* Returns the bits of a uniform of this type (TG_U32, ...) with this value. */
uint32_t tgi_word_bits(uint32_t kind, int64_t number);

#endif
