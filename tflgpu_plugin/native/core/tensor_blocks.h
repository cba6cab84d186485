/* Memory for tensors that a host keeps on the GPU: blocks, and the tensors in them. */
#ifndef TFLGPU_INTERNAL_TENSOR_BLOCKS_H
#define TFLGPU_INTERNAL_TENSOR_BLOCKS_H

#include "core/tensors.h"

/* A tensor in a block, and where its newest bytes are. Parts of a block without a tensor are in host memory. Under tgi_lock. */
typedef struct tgi_tensor {
  struct tgi_tensor *next;
  uint64_t offset, bytes;
  bool on_host, on_device;
  const uint8_t *lender;           /* other host memory that holds its newest bytes until `run` ends; or NULL */
  tg_replay *replay;               /* owner of `lender`, if that is the mapped memory of an output; or NULL: the host owns it */
  uint64_t run;
  bool used;                       /* a run has read it from host memory */
  tg_buffer *buffer;               /* holds its bytes if on_device is set, otherwise kept for later use; or NULL */
  tg_buffer *spare;                /* second buffer for runs that read `buffer` and write the same tensor; or NULL */
  tgi_readback *readback;          /* copies the bytes of `buffer` to the host; or NULL */
  tg_buffer *staging;              /* the buffer of the last readback, kept for the next one; or NULL */
  tgi_habit *habit;                /* habit of the output that wrote the tensor last; or NULL */
} tgi_tensor;

/* A host allocation. */
typedef struct tgi_block {
  struct tgi_block *next;          /* in the list of blocks kept for reuse: the one that was freed before this one */
  uint8_t *memory;
  size_t bytes;
  tgi_tensor *tensors;             /* they do not overlap */
} tgi_block;

/* A range of a block. */
typedef struct tgi_range {
  tgi_block *block;                /* NULL: the address is in no block */
  uint64_t offset, bytes;
} tgi_range;

tgi_range tgi_range_of(const void *address, uint64_t bytes);   /* with tgi_lock held */
void tgi_tensors_free(tgi_tensor *list);         /* without tgi_lock */

/* Compare a tensor with a range of its block; tgi_tensor_find returns the first tensor for which `suits` is true, or NULL. With
 * tgi_lock held. */
bool tgi_tensor_overlaps(const tgi_tensor *one, tgi_range r);
bool tgi_tensor_is_exact(const tgi_tensor *one, tgi_range r);
tgi_tensor *tgi_tensor_find(tgi_range r, bool (*suits)(const tgi_tensor *, tgi_range));
/* Removes the tensors that overlap the range, except one that is exactly there; returns them as a list to free. */
tgi_tensor *tgi_tensor_remove_others(tgi_range r);

/* ---- tensors.c --------------------------------------------------------------------------------------------------------- */

/* The state that a write leaves at an address; `buffer` is NULL where nothing is on the device. */
typedef struct tgi_written {
  bool on_host;
  tg_buffer *buffer;
  tgi_habit *habit;
  tgi_readback *readback;
  const void *lender;
  tg_replay *replay;
  uint64_t run;
} tgi_written;

/* Records the state of the tensor at this address after a write. */
void tgi_tensor_set(void *address, uint64_t bytes, tgi_written what);
/* Copies the tensors that overlap this range to host memory. beyond: only those that extend beyond the range. */
int tgi_tensor_settle(const void *address, uint64_t bytes, bool beyond, tg_error *err);

#endif
