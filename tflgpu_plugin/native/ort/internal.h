/* What the files of this folder share, in the order in which they build on each other. */
#ifndef TFLGPU_INTERNAL_ORT_H
#define TFLGPU_INTERNAL_ORT_H

#include "core/internal.h"
#include "core/plans.h"

#pragma GCC visibility push(default)
#include "ort/abi.h"
#pragma GCC visibility pop

#define TGI_EP_NAME "TflGpuExecutionProvider"

/* One registration of the library. Never freed: a session may outlive it, and calls through it when it ends. */
typedef struct tgi_factory {
  tgo_factory host;                /* first, so that the host's pointer is ours */
  const tgo_api *api;
  const tgo_ep_api *ep_api;
} tgi_factory;

/* One session. The host owns it. */
typedef struct tgi_ep {
  tgo_ep host;
  const tgi_factory *factory;
  const tgo_logger *logger;
  tgi_client client;
  tg_ort_callbacks functions;      /* of the package that made it: it may have been imported again since */
  tg_ort_partition **claimed;      /* one reference each: what the newest claim has asked for */
  size_t claimed_count;
} tgi_ep;

struct tg_ort_partition {
  tg_partition base;
  tg_ort_callbacks functions;      /* of the session that has claimed it */
  tgi_memory memory;               /* of all that follows */
  uint64_t *nodes;                 /* sorted */
  size_t node_count;
  char **inputs, **outputs, **guards, **values;
  void **guard_data;               /* what the guards must hold */
  uint64_t *guard_bytes;
  size_t guard_count;
  void *context;                   /* for a compiled model, and whether it holds the bytes or the name of their file */
  size_t context_bytes;
  bool embedded;
  char *refusal;
};

typedef struct tgi_fallback tgi_fallback;

/* What a fused node reads and writes, in the host's order. */
typedef struct tgi_names {
  char **inputs, **outputs;
  size_t input_count, output_count;
} tgi_names;

/* One fused node: a partition inside a session. */
typedef struct tgi_compute {
  tgo_compute host;
  const tgo_api *api;
  tg_ort_partition *partition;
  tgi_memory memory;               /* of its names and positions */
  size_t *inputs, *outputs, *guards, *values;   /* the fused node's positions of the partition's values */
  tgi_names names;
  _Atomic(tgi_fallback *) fallback;             /* NULL until a run needs it */
} tgi_compute;

/* ---- status.c ------------------------------------------------------------------------------------------------------ */

/* A status of the host with this sentence, after "tflgpu: ". */
tgo_status *tgi_status(const tgo_api *api, const char *text);
tgo_status *tgi_coded_status(const tgo_api *api, int code, const char *text);
/* A status of the host as a sentence; releases it. Returns 1 when there was one. */
int tgi_take_status(const tgo_api *api, tgo_status *status, tg_error *err);

/* ---- callbacks.c --------------------------------------------------------------------------------------------------- */

/* tgi_python_call with this host's callbacks. */
bool tgi_ort_call(tg_ort_callbacks *newest, void (*work)(void *), void *call, tg_error *err);

/* ---- devices.c ------------------------------------------------------------------------------------------------------- */

bool tgi_adapters_are_known(void);    /* tg_ort_set_adapters was called in this process, with none perhaps */
tgo_status *tgi_get_devices(tgo_factory *host, const tgo_hardware *const *hardware, size_t count, tgo_ep_device **devices,
                            size_t capacity, size_t *written);

/* ---- compiled_model.c ------------------------------------------------------------------------------------------------------- */

typedef tgo_status *(*tgi_count_values)(const tgo_node *node, size_t *count);
typedef tgo_status *(*tgi_list_values)(const tgo_node *node, const tgo_value_info **values, size_t count);

/* Copies of the names of a node's inputs or outputs, "" for one that is absent; NULL, with a sentence unless memory lacks. */
char **tgi_names_of(const tgo_api *api, const tgo_node *node, tgi_count_values count_of, tgi_list_values list_of,
                    tgi_memory *memory, size_t *count, tg_error *err);
/* The node that stands for a fused node in a compiled model, which owns it; NULL with a sentence. */
tgo_node *tgi_context_node(const tgo_api *api, const tgo_node *fused, const tg_ort_partition *partition, tg_error *err);

/* ---- run.c ----------------------------------------------------------------------------------------------------------- */

tgo_status *tgi_compute_run(tgo_compute *host, void *state, tgo_context *context);

/* ---- fallback.c ------------------------------------------------------------------------------------------------------ */

/* One run on the host's own kernels, which is told to the user with the reason. 0: status is theirs, NULL for success. 1 with
 * a sentence: they cannot be used. */
int tgi_fallback_run(tgi_compute *compute, tgo_context *context, const char *reason, tgo_status **status, tg_error *err);
void tgi_fallback_free(tgi_fallback *fallback);

/* ---- ep.c ------------------------------------------------------------------------------------------------------------ */

/* A session, among those that live; NULL without memory. */
tgo_ep *tgi_ep_create(const tgi_factory *factory, const tgo_logger *logger, int64_t number,
                      const tg_ort_callbacks *functions);
void tgi_ep_release(tgo_factory *factory, tgo_ep *host);
void tgi_partition_retain(tg_ort_partition *partition);

#endif
