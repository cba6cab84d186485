/* What the files of this folder share, in the order in which they build on each other. */
#ifndef TFLGPU_INTERNAL_TFLITE_H
#define TFLGPU_INTERNAL_TFLITE_H

#include "core/internal.h"
#include "core/plans.h"

#pragma GCC visibility push(default)
#include "tflite/abi.h"
#pragma GCC visibility pop

/* References: the host's (create to destroy), and one per kernel. Hosts may destroy the delegate before they free
 * kernels; handles go with their kernel. */
typedef struct tgi_delegate {
  tgl_delegate host;               /* first, so that the host's pointer is ours */
  tgi_client client;
  atomic_size_t refs;
  tg_tflite_callbacks functions;   /* of the package that made it: it may have been imported again since */
  const tgl_registration *registration;
} tgi_delegate;

typedef struct tgi_host_node tgi_host_node;

struct tg_kernel {
  tg_partition base;               /* shape-only inputs are no ports */
  tgi_delegate *delegate;
  tgi_memory memory;               /* of what is copied for it */
  int32_t *nodes, *inputs, *outputs, *states;      /* nodes are sorted; shape-only inputs follow the inputs */
  char *names;                     /* of the nodes' operators, a line each; NULL where they are not known */
  uint8_t *stays;
  size_t node_count;
  tg_replay *newest;               /* of the last run: its buffers hold the outputs that stay; under tgi_lock */
  tgi_host_node *host_nodes;       /* in the order in which they run */
  size_t host_node_count, caller_count;
  int32_t *callers;                /* nodes that run other graphs of the model */
  int32_t *handles;                /* of each output, or TGL_NO_HANDLE */
};

/* ---- kernel_plans.c: the plans of a kernel ------------------------------------------------------------------------------------ */

/* The plan for the present shapes of the inputs, retained; NULL with a sentence. */
tgi_plan *tgi_present_plan(tg_kernel *kernel, const tgl_context *context, tg_error *err);
/* Keep the reason why these shapes have no plan. */
void tgi_plan_refuse(tg_kernel *kernel, const tgl_context *context, const char *reason);

/* ---- lifetime.c: delegates and kernels ------------------------------------------------------------------------------ */

void tgi_kernel_retain(tg_kernel *kernel);
void tgi_delegate_retain(tgi_delegate *delegate);
void tgi_delegate_release(tgi_delegate *delegate);
void tgi_newest_drop(tg_kernel *kernel);  /* what its last run left on the device goes */
/* The operator of a node of the kernel, in so many bytes; words for one that is not known. */
void tgi_operator_name(const tg_kernel *kernel, int32_t node, char *text, size_t size);
int tgi_compare(const void *a, const void *b);  /* two int32_t, for qsort */
int tgi_report(tgl_context *context, const char *prefix, const char *text); /* to the host; returns TGL_ERROR */

/* ---- callbacks.c: Python ------------------------------------------------------------------------------------------- */

/* The number of a new delegate, and the functions that it belongs to; 0 with a sentence. */
int64_t tgi_create(const char *const *keys, const char *const *values, size_t count, tg_tflite_callbacks *functions,
                   tg_error *err);
/* Each fails with a sentence also when the callbacks are gone. */
int tgi_prepare(const tgi_delegate *delegate, tgl_context *context, tg_error *err);
int tgi_build(tg_kernel *kernel, tgl_context *context, tg_error *err);
/* A run was done on the host's own kernels, because of this. */
void tgi_fell_back(tg_kernel *kernel, const char *reason);

/* ---- fallback.c: the host's own kernels ---------------------------------------------------------------------------- */

int32_t tgi_resize(tgl_context *context, tgl_tensor *tensor, int32_t rank, const int32_t *shape);
/* Inside the delegate's prepare: keep these nodes, which the kernel replaces. Without them the others must not be called. */
int tgi_host_nodes_read(tg_kernel *kernel, tgl_context *context, const tgl_ints *nodes, tg_error *err);
/* Give outputs the shapes that the nodes' own kernels give them; those that only a run tells are left open. */
int tgi_fallback_prepare(tg_kernel *kernel, tgl_context *context, tg_error *err);
/* One run on them, with what it leaves in outputs and variables. */
int tgi_fallback_invoke(tg_kernel *kernel, tgl_context *context, tg_error *err);

/* ---- claim.c ------------------------------------------------------------------------------------------------------- */

/* A kernel of the claim under way on this context whose nodes are these; retained and marked as taken. */
tg_kernel *tgi_take_claimed(const tgl_context *context, const tgl_partition *partition);

/* ---- handles.c: outputs that stay on the device ------------------------------------------------------------------------ */

/* Make the tensor carry output index of the kernel. */
void tgi_handle_publish(tg_kernel *kernel, size_t index, tgl_tensor *tensor);
/* The kernel leaves the graph: its handles go, and tensors that carry them are the host's again. */
void tgi_handles_withdraw(tg_kernel *kernel, tgl_context *context);
/* Where the bytes behind a handle are: a retained replay and its output index, or NULL. */
tg_replay *tgi_handle_find(const tgl_delegate *delegate, int32_t handle, size_t *index, tg_kernel **kernel);
int32_t tgi_copy_from_handle(tgl_context *context, tgl_delegate *delegate, int32_t handle, tgl_tensor *tensor);
void tgi_free_handle(tgl_context *context, tgl_delegate *delegate, int32_t *handle);

/* ---- kernel.c: the registration ---------------------------------------------------------------------------------------- */

extern const tgl_registration tgi_registration;

#endif
