/* Tensors that a host keeps on the GPU. The addresses that the host gets are addresses of host memory. The bytes of a tensor are
 * at its address, or in a device buffer that belongs to the address, or both; they are copied only when they are read on the
 * other side. So the host may place several tensors in one allocation, and no device is chosen until a run writes or reads a
 * tensor. */
#ifndef TFLGPU_INTERNAL_TENSORS_H
#define TFLGPU_INTERNAL_TENSORS_H

#include "core/internal.h"

/* ---- habits.c: predicts where an output is read after a run ------------------------------------------------------------ */

/* Who has read an output after earlier runs: the next run puts it there at once. A wrong prediction only costs time. */
typedef struct tgi_habit tgi_habit;
enum { TGI_ON_HOST = 1, TGI_ON_DEVICE = 2, TGI_LATER = 4 };   /* readers, as bits; later: on the host, after the host's run */

tgi_habit *tgi_habit_create(void);               /* NULL without memory; assumes a reader on the device */
void tgi_habit_release(tgi_habit *habit);
void tgi_habit_retain(tgi_habit *habit);
void tgi_habit_note(tgi_habit *habit, int reader);
int tgi_habit_guess(tgi_habit *habit);           /* predicts the readers; call once per run */
/* Counts bytes of the output that were copied to the host after a run, and the time that the reader waited for the run and them. */
void tgi_habit_downloaded(tgi_habit *habit, uint64_t bytes, uint64_t nanoseconds);
uint64_t tgi_habit_bytes(const tgi_habit *habit);
uint64_t tgi_habit_nanoseconds(const tgi_habit *habit);   /* since the last run */

/* ---- readback.c --------------------------------------------------------------------------------------------------------- */

/* The bytes of an output on their way to the host. The run that writes them does not wait for them: whoever reads them does. */
typedef struct tgi_readback tgi_readback;

/* Creates a readback with a buffer that can be mapped and is not used otherwise; NULL without memory. */
tgi_readback *tgi_readback_create(tg_buffer *buffer, uint64_t bytes);
void tgi_readback_retain(tgi_readback *readback);
void tgi_readback_release(tgi_readback *readback);
tg_buffer *tgi_readback_buffer(const tgi_readback *readback);
/* The submission with this index copies the output to the buffer; with the device's lock held. */
void tgi_readback_start(tgi_readback *readback, WGPUSubmissionIndex index);
/* Waits for the bytes and copies them to `to`. Only the first call copies: all readers pass the same memory. */
int tgi_readback_take(tgi_readback *readback, void *to, tg_error *err);

/* ---- tensor_blocks.c: their memory ------------------------------------------------------------------------------------------- */

/* Returns memory for tensors, or NULL if there is not enough. Freed memory is kept for reuse, up to the largest amount that was
 * ever in use at the same time. */
void *tgi_tensor_alloc(size_t bytes);
void tgi_tensor_free(void *address);
void tgi_tensor_shrink(void);      /* frees the memory that is kept for reuse */
bool tgi_tensor_is_known(const void *address);   /* whether it lies in memory from tgi_tensor_alloc */
void tgi_tensors_moved(uint64_t up, uint64_t down);   /* counts bytes that moved outside of runs */

/* ---- tensors.c: their bytes -------------------------------------------------------------------------------------------- */

/* Notes a reader of what outputs wrote to these bytes; returns whether any of them are not in host memory. */
bool tgi_tensor_note(const void *address, uint64_t bytes, int reader);
/* Copies these bytes to host memory if they are elsewhere, so that the caller may read them. Ignores addresses in no block. */
int tgi_tensor_read(const void *address, uint64_t bytes, tg_error *err);
/* Copies between tensors, or between a tensor and host memory. */
int tgi_tensor_copy(void *to, const void *from, uint64_t bytes, tg_error *err);

/* Mark the begin and the end of a session's run on this thread. borrows: all copies from host memory to tensors during the run
 * are of its inputs, which stay valid until it ends. Then tgi_tensor_borrow refers to that memory instead of copying it; it
 * returns false if the bytes must be copied. */
void tgi_run_begin(bool borrows);
void tgi_run_end(void);
bool tgi_run_is_present(void);
bool tgi_tensor_borrow(void *to, const void *from, uint64_t bytes);
/* Whether an output may stay in the mapped memory of its replay until this thread's run ends; tgi_tensor_stay records that it
 * does. */
bool tgi_tensor_may_stay(const tg_port *port);
void tgi_tensor_stay(void *address, const uint8_t *mapped, uint64_t bytes, tg_replay *replay);
/* Copies the output from mapped memory to its address, unless that has been done already: the caller is about to unmap it. */
void tgi_tensor_take_back(void *address, const uint8_t *mapped, uint64_t bytes);

/* ---- tensor_ports.c: inputs and outputs of runs ------------------------------------------------------------------------- */

/* Set the port of an input or output of a run: to a device buffer, which is retained, or to host memory. On entry, port->host is
 * the tensor's address. `past`: the input, if any, of which the output replaces a part; it has its port already. */
int tgi_tensor_input(tg_device *device, tg_port *port, tg_error *err);
int tgi_tensor_output(tg_device *device, const tg_port *past, tgi_habit *habit, tg_port *port, tgi_readback **readback,
                      tg_error *err);
/* Records that a run has written the output at this address to the place that the port gives. */
void tgi_tensor_wrote(void *address, const tg_port *port, tgi_habit *habit, tgi_readback *readback);
void tgi_tensor_stayed(void *address, uint64_t bytes, tgi_habit *habit);   /* the same for an output that stayed mapped */
void tgi_tensor_leave(tg_port *port);            /* releases the port's device buffer, if any */

#endif
