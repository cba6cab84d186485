/* The common part of partitions of both hosts: the plans by input shapes, and counters. */
#ifndef TFLGPU_INTERNAL_PLANS_H
#define TFLGPU_INTERNAL_PLANS_H

#include "core/run.h"
#include "core/tensors.h"

/* A plan for one set of input shapes. It stays usable after the partition has dropped it. Only members under tgi_lock change. */
typedef struct tgi_plan {
  atomic_size_t refs;
  int32_t *shapes, *output_shapes; /* for each tensor its rank, then its extents */
  size_t shape_count, output_shape_count;
  tg_replay *replay;               /* NULL: there is no plan, because of `reason` */
  char *reason;
  tgi_setting setting;             /* of the replay */
  const uint64_t *inputs, *outputs, *states;       /* bytes of each port, in `setting` */
  tgi_memory memory;               /* owns the lists and the text */
  uint64_t used;                   /* the list's clock at the last use; under tgi_lock */
  struct tgi_plan *last;           /* the plan that was derived last from the symbols of this one, for other shapes; or NULL; under
                                    * tgi_lock */
} tgi_plan;

enum { TGI_MAX_PLANS = 8 };

/* The most recently used plans; under tgi_lock. All zeros: an empty list. */
typedef struct tgi_plans {
  tgi_plan *list[TGI_MAX_PLANS];
  size_t count;
  uint64_t clock;
} tgi_plans;

/* Numbers of tensors. The shapes of all inputs and the contents of some of them (`values`) select the plan; the first `ports`
 * inputs are inputs of its replay. After the outputs, a replay has `counts`, which the host does not get. */
typedef struct tgi_arity {
  size_t inputs, ports, values, outputs, counts, states;
} tgi_arity;

/* The first member of a tg_kernel and a tg_ort_partition. */
struct tg_partition {
  atomic_size_t refs;
  int64_t number;
  int64_t session;                 /* number of the onnxruntime session that has it, else 0 */
  tgi_arity arity;
  tgi_plans plans;
  tgi_habit **habits;              /* one per output if the host keeps tensors on the GPU, else NULL */
  atomic_uint live, times_freed;
  char failure[sizeof ((tg_partition_state *)NULL)->failure];   /* why the last of the failures was one; under tgi_lock */
  atomic_ullong runs, host_runs, failures, uploaded, downloaded, last_nanoseconds, device_inputs;
};

/* Gets number k of a value that selects plans, from elements of 1, 4 or 8 bytes: an integer, or the bits of a float. Returns false
 * for an integer beyond int32, unless the value `clamps` (see tg_ort_partition_spec). */
bool tgi_plan_number(const void *data, size_t element_bytes, size_t k, bool clamps, int32_t *to);
/* Returns the plan for these shapes, derived from the symbols of another if needed; retained. NULL: there is none. */
tgi_plan *tgi_plan_find(tg_partition *partition, const int32_t *shapes, size_t count);
void tgi_plan_release(tgi_plan *plan);
void tgi_plans_drop(tg_partition *partition);
/* Records that the host has freed the partition. Python may still refer to it, for a report or for the host's next partition. */
void tgi_partition_freed(tg_partition *partition);
/* Counts a run without a result. */
void tgi_partition_failed(tg_partition *partition, const char *reason);
/* Returns the port of the input whose buffer is that of an output; NULL where there is none. */
const tg_port *tgi_plan_past(const tgi_plan *plan, const tg_port *inputs, size_t output);
/* Calls tg_replay_run and counts the bytes. */
int tgi_partition_run(tg_partition *partition, const tgi_plan *plan, const tgi_ports *ports, tg_error *err);

/* ---- recorder.c ---------------------------------------------------------------------------------------------------------- */

/* Returns whether a recorder wants this partition's runs. If so, allocates room for timestamps, which the caller frees; none
 * where they cannot be taken. */
bool tgi_is_recorded(const tg_partition *partition, const tg_replay *replay, tg_run_options *options);
/* Records a run that was made with these options. */
void tgi_record(const tg_partition *partition, const tg_replay *replay, const tg_run_options *options,
                const tgi_traffic *traffic);

#endif
