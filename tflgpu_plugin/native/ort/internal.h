/* Declarations shared by the files of this folder, in the order of their dependencies. */
#ifndef TFLGPU_INTERNAL_ORT_H
#define TFLGPU_INTERNAL_ORT_H

#include "core/internal.h"
#include "core/plans.h"

#pragma GCC visibility push(default)
#include "ort/abi.h"
#pragma GCC visibility pop

#define TGI_EP_NAME "TflGpuExecutionProvider"

/* A registration of the library. It is never freed: a session may outlive it, and uses it when it ends. */
typedef struct tgi_factory {
  tgo_factory host;                /* first, so that the host's pointer is a tgi_factory's, too */
  const tgo_api *api;
  const tgo_ep_api *ep_api;
  tgo_memory *memory;              /* memory of tensors on the GPU; or NULL */
  tgo_kernel_registry *kernels;    /* kernels that copy between this memory and the CPU's; or NULL */
} tgi_factory;

/* A session, owned by the host. */
typedef struct tgi_ep {
  tgo_ep host;
  const tgi_factory *factory;
  const tgo_logger *logger;
  tgi_client client;
  tg_ort_callbacks functions;      /* callbacks of the package that made it, which may have been imported again since */
  tg_ort_partition **claimed;      /* partitions of the newest claim, with a reference to each */
  size_t claimed_count;
  bool gives_outputs;              /* partitions compute all outputs of the model */
  bool in_bodies;                  /* there are partitions in bodies of control flow */
} tgi_ep;

struct tg_ort_partition {
  tg_partition base;
  tg_ort_callbacks functions;      /* number of the session that claimed it */
  tgi_memory memory;               /* owns the following lists */
  uint64_t *nodes;                 /* sorted */
  size_t node_count;
  char **inputs, **outputs, **guards, **values;
  size_t value_count;
  uint8_t *clamps;                 /* for each of `values` */
  uint8_t *grows;                  /* for each count */
  _Atomic int32_t room;            /* of the counts that grow, 0 if there are none */
  _Atomic int32_t spare_runs;      /* the last runs in a row that have used little of the room */
  int32_t first_room;
  void **guard_data;               /* the bytes that the guarded inputs must have */
  uint64_t *guard_bytes;
  int64_t **guard_shapes;          /* the rank and the extents of each */
  size_t guard_count;
  void *context;                   /* data for a compiled model or, unless embedded, the name of its file */
  size_t context_bytes;
  bool embedded;
  char *refusal;
};

typedef struct tgi_fallback tgi_fallback;

/* Names of a fused node's inputs and outputs, in the host's order. */
typedef struct tgi_names {
  char **inputs, **outputs;
  size_t input_count, output_count;
} tgi_names;

/* A fused node: a partition in a session. */
typedef struct tgi_compute {
  tgo_compute host;
  const tgi_factory *factory;
  const tgo_api *api;
  tg_ort_partition *partition;
  tgi_memory memory;               /* owns names and positions */
  size_t *inputs, *outputs, *guards, *values;   /* positions of the partition's values among the fused node's */
  tgi_names names;
  _Atomic(tgi_fallback *) fallback;             /* NULL before the first run that needs it */
} tgi_compute;

/* ---- status.c ------------------------------------------------------------------------------------------------------ */

/* Makes a status of the host with this sentence, after "tflgpu: ". */
tgo_status *tgi_status(const tgo_api *api, const char *text);
tgo_status *tgi_coded_status(const tgo_api *api, int code, const char *text);
/* Turns a status of the host into a sentence and releases it. Returns 1 unless it is NULL. */
int tgi_take_status(const tgo_api *api, tgo_status *status, tg_error *err);

/* ---- callbacks.c --------------------------------------------------------------------------------------------------- */

/* tgi_python_call with onnxruntime's callbacks. */
bool tgi_ort_call(tg_ort_callbacks *newest, void (*work)(void *), void *call, tg_error *err);

/* ---- devices.c ------------------------------------------------------------------------------------------------------- */

bool tgi_adapters_are_known(void);    /* whether tg_ort_set_adapters was called, even with no adapter */
tgo_status *tgi_get_devices(tgo_factory *host, const tgo_hardware *const *hardware, size_t count, tgo_ep_device **devices,
                            size_t capacity, size_t *written);

/* ---- device_memory.c -------------------------------------------------------------------------------------------------- */

/* Creates what the factory announces to the host: memory and kernels. */
tgo_status *tgi_announce(tgi_factory *factory);
tgo_status *tgi_create_allocator(tgo_factory *host, const tgo_memory *memory, const tgo_pairs *options,
                                 tgo_allocator **allocator);
void tgi_release_allocator(tgo_factory *host, tgo_allocator *allocator);
tgo_status *tgi_create_transfer(tgo_factory *host, tgo_transfer **transfer);
/* Gets a value's bytes, which may be on the GPU; fails for memory that neither the CPU nor this provider has. */
int tgi_get_data(const tgi_factory *factory, const tgo_value *value, size_t *bytes, void **data, tg_error *err);

/* ---- compiled_model.c ------------------------------------------------------------------------------------------------------- */

typedef tgo_status *(*tgi_count_values)(const tgo_node *node, size_t *count);
typedef tgo_status *(*tgi_list_values)(const tgo_node *node, const tgo_value_info **values, size_t count);

/* Copies the names of a node's inputs or outputs, "" for an absent one. NULL on failure, with a sentence unless memory lacks. */
char **tgi_names_of(const tgo_api *api, const tgo_node *node, tgi_count_values count_of, tgi_list_values list_of,
                    tgi_memory *memory, size_t *count, tg_error *err);
/* Makes the node for a fused node in a compiled model, which owns it; NULL with a sentence. */
tgo_node *tgi_context_node(const tgo_api *api, const tgo_node *fused, const tg_ort_partition *partition, tg_error *err);

/* ---- run.c ----------------------------------------------------------------------------------------------------------- */

tgo_status *tgi_compute_run(tgo_compute *host, void *state, tgo_context *context);

/* ---- profiler.c ------------------------------------------------------------------------------------------------------ */

tgo_status *tgi_create_profiler(tgo_ep *host, tgo_profiler **profiler);

/* ---- fallback.c ------------------------------------------------------------------------------------------------------ */

/* Runs the host's own kernels, and tells the user the reason. Returns 0 with their status (NULL for success), or 1 with a sentence
 * where they cannot be used. */
int tgi_fallback_run(tgi_compute *compute, tgo_context *context, const char *reason, tgo_status **status, tg_error *err);
void tgi_fallback_free(tgi_fallback *fallback);

/* ---- ep.c ------------------------------------------------------------------------------------------------------------ */

/* Makes a session; NULL without memory. */
tgo_ep *tgi_ep_create(const tgi_factory *factory, const tgo_logger *logger, int64_t number,
                      const tg_ort_callbacks *functions);
void tgi_ep_release(tgo_factory *factory, tgo_ep *host);

#endif
