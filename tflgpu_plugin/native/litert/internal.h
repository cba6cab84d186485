/* Declarations shared by the files of this folder. */
#ifndef TFLGPU_INTERNAL_LITERT_H
#define TFLGPU_INTERNAL_LITERT_H

#include "tflite/internal.h"

#pragma GCC visibility push(default)
#include "litert/abi.h"
#pragma GCC visibility pop

/* ---- buffers.c: buffers of programs, and those of the plugin's own kind ---------------------------------------------- */

extern const tgi_lender tgi_lender_of_litert;

/* Handlers of tgr_handlers. */
int32_t tgi_memory_create(void *device, void *queue, const void *tensor_type, int32_t kind, size_t bytes, size_t packed_bytes,
                          tgr_memory **made);
int32_t tgi_memory_destroy(tgr_memory *memory);
int32_t tgi_memory_lock(tgr_memory *memory, int32_t mode, void **address);
int32_t tgi_memory_unlock(tgr_memory *memory);
int32_t tgi_memory_clear(tgr_memory *memory);

#endif
