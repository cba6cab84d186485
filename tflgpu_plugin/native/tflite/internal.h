/* Declarations shared by the files of this folder, in the order of their dependencies. */
#ifndef TFLGPU_INTERNAL_TFLITE_H
#define TFLGPU_INTERNAL_TFLITE_H

#include "core/internal.h"
#include "core/plans.h"

#pragma GCC visibility push(default)
#include "tflite/abi.h"
#pragma GCC visibility pop

/* Memory of the program for an input or output of a run. */
typedef struct tgi_lent {
  void *address;
  uint64_t bytes;
  bool moves;                      /* a tensor that may be on the device: see core/tensors.h */
  bool half;                       /* the program wants the tensor's float32 values as float16 */
} tgi_lent;

/* How a host hands such memory over. `table` is the host's. */
typedef struct tgi_lender {
  /* Returns whether the host takes such memory for the tensor. */
  bool (*announce)(const void *table, tgl_context *context, const tgl_tensor *tensor);
  int (*find)(const void *table, tgl_context *context, const tgl_tensor *tensor, bool is_written, tgi_lent *lent, tg_error *err);
  /* Fails with a sentence unless the memory of an output is for this shape, which only the run has determined. */
  int (*takes)(const void *table, tgl_context *context, const tgl_tensor *tensor, int32_t rank, const int32_t *shape,
               tg_error *err);
} tgi_lender;

/* A delegate. The host has a reference (from create to destroy), and so has each kernel, because hosts may destroy the delegate
 * before they free kernels. */
typedef struct tgi_delegate {
  tgl_delegate host;               /* first, so that the host's pointer is a tgi_delegate's, too */
  tgi_client client;
  atomic_size_t refs;
  tg_tflite_callbacks functions;   /* callbacks of the package that made it, which may have been imported again since */
  const tgl_registration *registration;
  const tgi_lender *lender;        /* NULL: the host hands memory over in tensors only */
  const void *runtime;             /* the lender's table */
  struct tg_kernel *kernels;       /* its kernels that exist; under tgi_lock */
  bool destroyed;                  /* the host has destroyed it and makes no more kernels; under tgi_lock */
} tgi_delegate;

typedef struct tgi_host_node {
  tgl_node node;
  tgl_registration registration;
  int32_t id;
} tgi_host_node;

struct tg_kernel {
  tg_partition base;               /* shape-only inputs are not ports */
  tgi_delegate *delegate;
  tg_kernel *next;                 /* in the delegate's list; under tgi_lock */
  tgi_memory memory;               /* owns the copied lists */
  int32_t *nodes, *inputs, *outputs, *states;      /* nodes are sorted; shape-only inputs follow the inputs */
  int32_t *values;                 /* inputs whose numbers select a plan, too */
  char *names;                     /* the nodes' operators, one per line; NULL where they are not known */
  uint8_t *stays;
  uint8_t *lent_inputs, *lent_outputs;             /* of the ports and outputs, those that a lender may hand over */
  uint8_t *open;                   /* per output: its shape is not known before a run; see lent.c */
  size_t node_count;
  tg_replay *newest;               /* replay of the last run, with the outputs that stay on the device; under tgi_lock */
  tgi_host_node *host_nodes;       /* the host's nodes in execution order; NULL where they cannot be had */
  size_t host_node_count, caller_count;
  int32_t *callers;                /* nodes that run other graphs of the model */
  int32_t *handles;                /* one for each output, or TGL_NO_HANDLE */
  bool keeps_states;
  tg_replay *keeper;               /* the replay whose states are newer than the host's memory, or NULL; under tgi_lock */
  const void **kept_at;            /* the host's memory of each state after that run; under tgi_lock */
  tg_kernel *next_keeper;          /* in the list of kernels with a keeper; under tgi_lock */
};

/* ---- kernel_plans.c: the plans of a kernel ----------------------------------------------------------------------------------- */

/* Whether the values that select a plan are known before the model runs. */
bool tgi_values_are_known(const tg_kernel *kernel, const tgl_context *context);
/* The plan for the present shapes and values of the inputs, retained; NULL with a sentence. A missing plan is built if the kernel
 * is being prepared, or if values select plans; where that fails, there is a plan that has the reason. */
tgi_plan *tgi_present_plan(tg_kernel *kernel, tgl_context *context, bool prepares, tg_error *err);

/* ---- lifetime.c: delegates and kernels ------------------------------------------------------------------------------ */

void tgi_delegate_release(tgi_delegate *delegate);
/* Frees the memory on the device of those kernels that the host has freed, if it has destroyed the delegate, too. Until then it may
 * make them again, as it does where it undoes a delegation for a resize. */
void tgi_kernels_sweep(tgi_delegate *delegate);
void tgi_newest_drop(tg_kernel *kernel);  /* releases the outputs that the last run left on the device */
/* Writes the name of a node's operator, or "an operator of the host" where it is not known. */
void tgi_operator_name(const tg_kernel *kernel, int32_t node, char *text, size_t size);
int tgi_compare(const void *a, const void *b);  /* two int32_t, for qsort */
int tgi_report(tgl_context *context, const char *prefix, const char *text); /* reports an error to the host; returns TGL_ERROR */

/* ---- callbacks.c: Python ------------------------------------------------------------------------------------------- */

/* Returns the number of a new delegate, and the callbacks of the package that made it; 0 with a sentence. */
int64_t tgi_create(const char *const *keys, const char *const *values, size_t count, tg_tflite_callbacks *functions,
                   tg_error *err);
/* These also fail with a sentence if the callbacks have been cleared. */
int tgi_prepare(const tgi_delegate *delegate, tgl_context *context, tg_error *err);
/* shapes: for each input its rank and extents, then for each value its count and numbers. */
int tgi_build(tg_kernel *kernel, const int32_t *shapes, size_t count, tg_error *err);
/* Reports that a run was done on the host's own kernels for this reason. */
void tgi_fell_back(tg_kernel *kernel, const char *reason);

/* ---- shapes.c: shapes of the host's tensors ------------------------------------------------------------------------ */

tgl_ints *tgi_make_ints(int32_t size, const int32_t *data);  /* in memory that is the host's, too; NULL without memory */
int32_t tgi_resize(tgl_context *context, tgl_tensor *tensor, int32_t rank, const int32_t *shape);
bool tgi_has_shape(const tgl_tensor *tensor, int32_t rank, const int32_t *shape);
/* Gives a tensor whose shape only a run determines this shape. An empty one has no memory, because hosts refuse to read an empty
 * tensor that has some. Returns whether this succeeded. */
bool tgi_set_open_shape(tgl_context *context, tgl_tensor *tensor, int32_t rank, const int32_t *shape);
enum { TGI_SHAPE_TEXT = 128 };
void tgi_shape_text(int32_t rank, const int32_t *shape, char *text);  /* of TGI_SHAPE_TEXT bytes */

/* ---- fallback.c: the host's own kernels ---------------------------------------------------------------------------- */

size_t tgi_element_bytes(int32_t type);  /* bytes of an element of this type; 0 if its elements have no fixed size */
/* Gives outputs the shapes that the host's kernels compute; shapes that only a run determines stay open. This and the next
 * one need the kernel's host_nodes. */
int tgi_fallback_prepare(tg_kernel *kernel, tgl_context *context, tg_error *err);
/* Runs the host's kernels, which write outputs and variables. */
int tgi_fallback_invoke(tg_kernel *kernel, tgl_context *context, tg_error *err);

/* ---- claim.c ------------------------------------------------------------------------------------------------------- */

/* Returns the kernel with these nodes of the claim in progress on this context, retained and marked as taken. */
tg_kernel *tgi_take_claimed(const tgl_context *context, const tgl_partition *partition);

/* ---- handles.c: outputs that stay on the device ------------------------------------------------------------------------ */

/* Makes the tensor refer to this output of the kernel. */
void tgi_handle_publish(tg_kernel *kernel, size_t index, tgl_tensor *tensor);
/* Removes the kernel's handles, also from tensors that have them. */
void tgi_handles_withdraw(tg_kernel *kernel, tgl_context *context);
/* Returns the replay with the bytes behind a handle, retained as is the kernel, and its output index; or NULL. */
tg_replay *tgi_handle_find(const tgl_delegate *delegate, int32_t handle, size_t *index, tg_kernel **kernel);
/* Copies a tensor that is only on the device to the host. */
int tgi_fetch(tgl_context *context, tgl_tensor *tensor, tg_error *err);
int32_t tgi_copy_from_handle(tgl_context *context, tgl_delegate *delegate, int32_t handle, tgl_tensor *tensor);
void tgi_free_handle(tgl_context *context, tgl_delegate *delegate, int32_t *handle);

/* ---- lent.c: inputs and outputs in memory that a lender hands over ---------------------------------------------------- */

bool tgi_is_lent(const tg_kernel *kernel, const tgl_tensor *tensor);
/* Tells the lender how large the buffers of this kernel's inputs and outputs must be: when it is made, and for new shapes. */
void tgi_lent_announce(tg_kernel *kernel, tgl_context *context);
/* Sets the port of such a tensor to its memory, and describes that. */
int tgi_lent_find(const tg_kernel *kernel, tgl_context *context, const tgl_tensor *tensor, bool is_written, tg_port *port,
                  tgi_lent *lent, tg_error *err);
/* Converts what a run has written, where the program wants float16. */
void tgi_lent_halve(const tgi_lent *lent, uint64_t bytes);
/* Records that only runs determine the shape of output i, while the host prepares. Returns whether a lender keeps it. */
bool tgi_lent_leave_open(tg_kernel *kernel, size_t i, const tgl_tensor *tensor);
/* Gives such an output of a lender the shape that a run has determined; fails where its memory is for another. For the host's
 * kernels, tgi_lent_give gives it that memory, too. Others are left alone. */
int tgi_lent_shape(const tg_kernel *kernel, tgl_context *context, size_t i, int32_t rank, const int32_t *shape, tg_error *err);
int tgi_lent_give(tg_kernel *kernel, tgl_context *context, size_t i, int32_t rank, const int32_t *shape, tg_error *err);
/* Give such tensors memory for the host's kernels, and take it back. */
int tgi_lent_open(tg_kernel *kernel, tgl_context *context, tg_error *err);
void tgi_lent_close(tg_kernel *kernel, tgl_context *context, bool written);

/* ---- states.c: states that stay on the device ---------------------------------------------------------------------------- */

enum { TGI_LEAST_KEPT = 16 };      /* bytes */

/* Whether the host's memory of a state is older than the device's: neither a reset nor the program has written it since. */
bool tgi_state_is_kept(const tg_kernel *kernel, const tgl_tensor *tensor);
/* After a run that left the states in the device buffers of `replay`. */
void tgi_states_keep(tg_kernel *kernel, tgl_context *context, tg_replay *replay);
/* Copies kept states to the host's memory, which is the newest then. */
int tgi_states_fetch(tg_kernel *kernel, tgl_context *context, tg_error *err);
void tgi_states_forget(tg_kernel *kernel);

/* ---- kernel.c: the registration ---------------------------------------------------------------------------------------- */

extern const tgl_registration tgi_registration;

#endif
