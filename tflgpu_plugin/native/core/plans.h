/* A partition as both frontends know it: its plans by the shapes of its inputs, and its counters. */
#ifndef TFLGPU_INTERNAL_PLANS_H
#define TFLGPU_INTERNAL_PLANS_H

#include "core/internal.h"

/* One plan. Immutable, so that it can be used after the partition has dropped it. */
typedef struct tgi_plan {
  atomic_size_t refs;
  int32_t *shapes, *output_shapes; /* for each tensor its rank, then its extents */
  size_t shape_count, output_shape_count;
  tg_replay *replay;               /* NULL: cannot be built */
  char *reason;
  tgi_memory memory;               /* of all these */
  uint64_t used;                   /* under tgi_lock */
} tgi_plan;

enum { TGI_MAX_PLANS = 8 };

/* The most recently used plans. Zeros are an empty list. */
typedef struct tgi_plans {
  tgi_plan *list[TGI_MAX_PLANS];             /* under tgi_lock, like the rest */
  size_t count;
  uint64_t clock;
} tgi_plans;

/* What a partition takes and gives. The shapes of all inputs, and the values of some, choose the plan; the first ports of
 * the inputs are its replay's. Behind its outputs a replay has counts, which no host sees. */
typedef struct tgi_arity {
  size_t inputs, ports, values, outputs, counts, states;
} tgi_arity;

/* What both frontends keep of a partition: the first member of their own structs. */
struct tg_partition {
  atomic_size_t refs;
  int64_t number;
  tgi_arity arity;
  tgi_plans plans;
  atomic_uint live, times_freed;
  atomic_ullong runs, host_runs, failures, uploaded, downloaded, last_nanoseconds, device_inputs;
};

/* The plan for these shapes, retained, or NULL. */
tgi_plan *tgi_plan_find(tg_partition *partition, const int32_t *shapes, size_t count);
void tgi_plan_release(tgi_plan *plan);
void tgi_plans_drop(tg_partition *partition);
/* The host has taken it out. Python may keep it, for its report or for what the host makes anew. */
void tgi_partition_freed(tg_partition *partition);
/* tg_replay_run, and its traffic counted. */
int tgi_partition_run(tg_partition *partition, const tgi_plan *plan, const tg_port *inputs, const tg_port *outputs,
                      const tg_port *states, tg_error *err);

#endif
