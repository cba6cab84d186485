/* Tensors that a host keeps on the GPU. The host gets addresses of host memory for them. A tensor's bytes are there, or in a
 * device buffer that belongs to the address, or in both; they move only when somebody reads them on the other side. So the host
 * may place several tensors in one allocation, and no device is chosen before a run writes or reads a tensor. */
#ifndef TFLGPU_INTERNAL_TENSORS_H
#define TFLGPU_INTERNAL_TENSORS_H

#include "core/internal.h"

/* ---- habits.c: who reads an output after a run ------------------------------------------------------------------------- */

/* Next time the output goes there at once. A guess that is wrong costs time only. */
typedef struct tgi_habit tgi_habit;
enum { TGI_ON_HOST = 1, TGI_ON_DEVICE = 2 };     /* readers, as bits */

tgi_habit *tgi_habit_create(void);               /* NULL without memory; assumes a reader on the device */
void tgi_habit_release(tgi_habit *habit);
void tgi_habit_retain(tgi_habit *habit);
void tgi_habit_note(tgi_habit *habit, int reader);
int tgi_habit_guess(tgi_habit *habit);           /* starts the next run, too */
/* Bytes of the output that came to the host after a run. */
void tgi_habit_downloaded(tgi_habit *habit, uint64_t bytes);
uint64_t tgi_habit_bytes(const tgi_habit *habit);

/* ---- tensor_blocks.c: their memory ------------------------------------------------------------------------------------------- */

/* Returns memory for tensors, NULL where there is not enough. Freed memory is kept for reuse, at most as much as has been in use
 * at once. */
void *tgi_tensor_alloc(size_t bytes);
void tgi_tensor_free(void *address);
void tgi_tensor_shrink(void);      /* frees the memory that is kept for reuse */
bool tgi_tensor_is_known(const void *address);   /* whether it lies in memory from tgi_tensor_alloc */
void tgi_tensors_moved(uint64_t up, uint64_t down);   /* counts bytes that moved outside of runs */

/* ---- tensors.c: their bytes -------------------------------------------------------------------------------------------- */

/* Brings these bytes to host memory, where they may then be read. Addresses of other memory are left alone. */
int tgi_tensor_read(const void *address, uint64_t bytes, tg_error *err);
/* Copies between tensors, or between a tensor and host memory. */
int tgi_tensor_copy(void *to, const void *from, uint64_t bytes, tg_error *err);

/* A run of a session begins and ends on this thread. borrows: what it copies from host memory to tensors are its inputs, which
 * stay valid until it ends. tgi_tensor_borrow then refers to them instead; it returns false where they must be copied. */
void tgi_run_begin(bool borrows);
void tgi_run_end(void);
bool tgi_run_is_present(void);
bool tgi_tensor_borrow(void *to, const void *from, uint64_t bytes);
/* Whether an output may stay in mapped memory of its replay until this thread's run ends; and leaving it there. */
bool tgi_tensor_may_stay(const tg_port *port);
void tgi_tensor_stay(void *address, const uint8_t *mapped, uint64_t bytes, tg_replay *replay);
/* Copies the output from mapped memory, which the caller is about to unmap, unless somebody has done so. */
void tgi_tensor_take_back(void *address, const uint8_t *mapped, uint64_t bytes);

/* ---- tensor_ports.c: inputs and outputs of runs ------------------------------------------------------------------------- */

/* Where a run finds an input and leaves an output; port->host is its address. A device buffer in the port is retained. */
int tgi_tensor_input(tg_device *device, tg_port *port, tg_error *err);
int tgi_tensor_output(tg_device *device, tgi_habit *habit, tg_port *port, tg_error *err);
/* The run has written the output at this address to where the port says. */
void tgi_tensor_wrote(void *address, const tg_port *port, tgi_habit *habit);
void tgi_tensor_stayed(void *address, uint64_t bytes, tgi_habit *habit);   /* the same for one that stayed */
void tgi_tensor_leave(tg_port *port);            /* gives back the port's device buffer, if any */

#endif
