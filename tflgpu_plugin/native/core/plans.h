/* The plans of one partition by the shapes of its inputs: shared by the frontends. */
#ifndef TFLGPU_INTERNAL_PLANS_H
#define TFLGPU_INTERNAL_PLANS_H

#include "core/internal.h"

/* One plan. Immutable, so that it can be used after the partition has dropped it. */
typedef struct tgi_entry {
  atomic_size_t refs;
  int32_t *shapes, *output_shapes; /* for each tensor its rank, then its extents */
  size_t shape_count, output_shape_count;
  tg_replay *replay;               /* NULL: cannot be built */
  char *reason;
  uint64_t used;                   /* under tgi_lock */
} tgi_entry;

enum { TGI_MAX_ENTRIES = 8 };

/* The most recently used plans. Zeros are an empty list. */
typedef struct tgi_plans {
  tgi_entry *entries[TGI_MAX_ENTRIES];             /* under tgi_lock, like the rest */
  size_t count;
  uint64_t clock;
} tgi_plans;

/* What a partition takes and gives. The shapes of all inputs choose the plan; the first ports of them are its replay's. */
typedef struct tgi_arity {
  size_t inputs, ports, outputs, states;
} tgi_arity;

void tgi_entry_release(tgi_entry *entry);
/* The entry for these shapes, retained, or NULL. */
tgi_entry *tgi_plans_find(tgi_plans *plans, const int32_t *shapes, size_t count);
/* Keep a replay for these shapes, or (replay NULL) the reason why there is none. The newest wins, the least recently used
 * goes. */
int tgi_plans_add(tgi_plans *plans, tgi_arity arity, const int32_t *shapes, size_t shape_count, const int32_t *output_shapes,
                  size_t output_shape_count, tg_replay *replay, const char *reason, tg_error *err);
void tgi_plans_drop(tgi_plans *plans);
void tgi_shape_text(const int32_t *shape, char *text, size_t size);

#endif
