/* Memory for tensors that a host keeps on the GPU: blocks, and the tensors in them. */
#ifndef TFLGPU_INTERNAL_TENSOR_BLOCKS_H
#define TFLGPU_INTERNAL_TENSOR_BLOCKS_H

#include "core/tensors.h"

/* A tensor in a block: where its newest bytes are. Ranges without a tensor are in host memory. Under tgi_lock. */
typedef struct tgi_tensor {
  struct tgi_tensor *next;
  uint64_t offset, bytes;
  bool on_host, on_device;
  const uint8_t *lender;           /* other memory that has its newest bytes until `run` ends; or NULL */
  tg_replay *replay;               /* that memory is the mapped memory of an output of this; or NULL: it is the host's */
  uint64_t run;
  bool used;                       /* a run has read it from host memory */
  tg_buffer *buffer;               /* its bytes with on_device, else kept for the next ones; or NULL */
  tg_buffer *spare;                /* for a run that reads `buffer` and writes the same tensor; or NULL */
  tgi_habit *habit;                /* of the output that wrote it; or NULL */
} tgi_tensor;

/* An allocation. */
typedef struct tgi_block {
  struct tgi_block *next;          /* of those kept for reuse: the one freed before it */
  uint8_t *memory;
  size_t bytes;
  tgi_tensor *tensors;             /* they do not overlap */
} tgi_block;

/* A range of a block. */
typedef struct tgi_range {
  tgi_block *block;                /* NULL: other memory */
  uint64_t offset, bytes;
} tgi_range;

tgi_range tgi_range_of(const void *address, uint64_t bytes);   /* with tgi_lock held */
void tgi_tensors_free(tgi_tensor *list);         /* without it */

/* Comparisons of a tensor with a range of its block; and the first tensor that meets one, or NULL. With tgi_lock held. */
bool tgi_tensor_overlaps(const tgi_tensor *one, tgi_range r);
bool tgi_tensor_is_exact(const tgi_tensor *one, tgi_range r);
tgi_tensor *tgi_tensor_find(tgi_range r, bool (*suits)(const tgi_tensor *, tgi_range));
/* Moves the tensors that overlap the range, but are not exactly there, to a list of garbage. */
tgi_tensor *tgi_tensor_remove_others(tgi_range r);

/* ---- tensors.c --------------------------------------------------------------------------------------------------------- */

/* The state that a write leaves at an address; `buffer` is NULL where nothing is on the device. */
typedef struct tgi_written {
  bool on_host;
  tg_buffer *buffer;
  tgi_habit *habit;
  const void *lender;
  tg_replay *replay;
  uint64_t run;
} tgi_written;

/* Records where the tensor's newest bytes are. */
void tgi_tensor_set(void *address, uint64_t bytes, tgi_written what);
/* Brings the tensors in this range to host memory. beyond: only those that reach out of the range. */
int tgi_tensor_settle(const void *address, uint64_t bytes, bool beyond, tg_error *err);

#endif
