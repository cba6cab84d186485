/* Inputs and outputs in memory that a lender hands over for a run: LiteRT's runtime has buffers of the program for them, and the
 * tensors themselves have no memory. */
#include "tflite/internal.h"

#include "core/tensor_blocks.h"

bool tgi_is_lent(const tg_kernel *kernel, const tgl_tensor *tensor) {
  return kernel->delegate->lender && tensor->allocation == TGL_IN_NON_CPU;
}

/* The lender keeps a tensor in its own memory from the first run on if it has heard nothing before, so what is not told then is not
 * told later. That is the case for outputs whose size only a run determines. */
static void announce(const tg_kernel *kernel, tgl_context *context, const int32_t *list, uint8_t *lent, size_t count) {
  for (size_t i = 0; lent && i < count; i++) {
    const tgl_tensor *tensor = &context->tensors[list[i]];
    lent[i] &= tensor->bytes && tensor->allocation != TGL_IN_DYNAMIC;
    lent[i] = lent[i] && kernel->delegate->lender->announce(kernel->delegate->runtime, context, tensor);
  }
}

void tgi_lent_announce(tg_kernel *kernel, tgl_context *context) {
  if (!kernel->delegate->lender) return;
  announce(kernel, context, kernel->inputs, kernel->lent_inputs, kernel->base.arity.ports);
  announce(kernel, context, kernel->outputs, kernel->lent_outputs, kernel->base.arity.outputs);
}

static int find(const tg_kernel *kernel, tgl_context *context, const tgl_tensor *tensor, bool is_written, tgi_lent *lent,
                tg_error *err) {
  if (kernel->delegate->lender->find(kernel->delegate->runtime, context, tensor, is_written, lent, err)) return 1;
  if (lent->bytes >= tensor->bytes) return 0;
  return tgi_fail(err, "The buffer of tensor \"%s\" has %llu bytes, but this run needs %zu. Make the buffers again: after a "
                  "resize, or since this size is that of a run.",
                  tensor->name ? tensor->name : "", (unsigned long long)lent->bytes, tensor->bytes);
}

int tgi_lent_find(const tg_kernel *kernel, tgl_context *context, const tgl_tensor *tensor, bool is_written, tg_port *port,
                  tgi_lent *lent, tg_error *err) {
  tgi_lent found;
  if (find(kernel, context, tensor, is_written, &found, err)) return 1;
  *port = (tg_port){.host = found.address, .bytes = tensor->bytes};
  found.moves &= tensor->bytes != 0;
  *lent = found;
  return 0;
}

/* ---- float16 in place of float32 --------------------------------------------------------------------------------------- */

/* Returns the nearest float16, as bits; finite values stay finite. */
static uint16_t half_of(uint32_t bits) {
  uint32_t sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff, exponent = size >> 23;
  if (size > 0x7f800000) return (uint16_t)(sign | 0x7e00);
  if (size == 0x7f800000) return (uint16_t)(sign | 0x7c00);
  if (size >= 0x477ff000) return (uint16_t)(sign | 0x7bff);
  if (size >= 0x38800000) return (uint16_t)(sign | (size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13);
  if (size <= 0x33000000) return (uint16_t)sign;
  uint32_t shift = 126 - exponent, digits = (size & 0x7fffff) | 0x800000;   /* subnormal */
  return (uint16_t)(sign | (digits + (1u << (shift - 1)) - 1 + (digits >> shift & 1)) >> shift);
}

void tgi_lent_halve(const tgi_lent *lent, uint64_t bytes) {
  uint8_t *memory = lent->address;
  for (uint64_t i = 0; lent->half && i < bytes / 4; i++) {
    uint32_t single;
    memcpy(&single, memory + 4 * i, sizeof single);
    uint16_t half = half_of(single);
    memcpy(memory + 2 * i, &half, sizeof half);
  }
  if (lent->half && tgi_tensor_is_known(memory)) tgi_tensor_set(memory, bytes, (tgi_written){.on_host = true});
}

/* ---- outputs whose shape only a run determines ------------------------------------------------------------------------- */

enum { OPEN = 1, LOST = 2 };       /* LOST: with the program's memory for it, which tensors of unknown size cannot have */

/* The lender's memory stays that of the tensor, and a run has to determine its shape. */
bool tgi_lent_leave_open(tg_kernel *kernel, size_t i, const tgl_tensor *tensor) {
  bool lost = kernel->delegate->lender && tensor->allocation == TGL_IN_CUSTOM;
  kernel->open[i] = lost ? LOST : OPEN;
  return tgi_is_lent(kernel, tensor);
}

int tgi_lent_shape(const tg_kernel *kernel, tgl_context *context, size_t i, int32_t rank, const int32_t *shape, tg_error *err) {
  tgl_tensor *tensor = &context->tensors[kernel->outputs[i]];
  bool lent = tgi_is_lent(kernel, tensor);
  if (kernel->open[i] != LOST && !(kernel->open[i] && lent)) return 0;
  if (kernel->delegate->lender->takes(kernel->delegate->runtime, context, tensor, rank, shape, err)) return 1;
  if (tgi_has_shape(tensor, rank, shape) || tgi_resize(context, tensor, rank, shape) == TGL_OK) return 0;
  return tgi_fail(err, "The host could not resize an output.");
}

/* ---- runs on the host's kernels ---------------------------------------------------------------------------------------- */

static int open_one(tg_kernel *kernel, tgl_context *context, int32_t index, bool is_read, tg_error *err) {
  tgl_tensor *tensor = &context->tensors[index];
  tgi_lent lent;
  if (!tgi_is_lent(kernel, tensor) || tensor->data) return 0;
  if (find(kernel, context, tensor, !is_read, &lent, err)) return 1;
  if (is_read && lent.moves && tgi_tensor_read(lent.address, tensor->bytes, err)) return 1;
  tensor->data = lent.address;
  return 0;
}

int tgi_lent_open(tg_kernel *kernel, tgl_context *context, tg_error *err) {
  for (size_t i = 0; i < kernel->base.arity.inputs; i++)
    if (open_one(kernel, context, kernel->inputs[i], true, err)) return 1;
  for (size_t i = 0; i < kernel->base.arity.outputs; i++)
    if (!kernel->open[i] && open_one(kernel, context, kernel->outputs[i], false, err)) return 1;
  return 0;
}

int tgi_lent_give(tg_kernel *kernel, tgl_context *context, size_t i, int32_t rank, const int32_t *shape, tg_error *err) {
  return tgi_lent_shape(kernel, context, i, rank, shape, err) || open_one(kernel, context, kernel->outputs[i], false, err);
}

static void close_one(tg_kernel *kernel, tgl_context *context, int32_t index, bool written) {
  tgl_tensor *tensor = &context->tensors[index];
  if (!tgi_is_lent(kernel, tensor) || !tensor->data) return;
  tgi_lent lent;
  tg_error ignored;
  if (written && tgi_tensor_is_known(tensor->data))
    tgi_tensor_set(tensor->data, tensor->bytes, (tgi_written){.on_host = true});
  if (written && !find(kernel, context, tensor, true, &lent, &ignored)) tgi_lent_halve(&lent, tensor->bytes);
  tensor->data = NULL;
}

void tgi_lent_close(tg_kernel *kernel, tgl_context *context, bool written) {
  for (size_t i = 0; i < kernel->base.arity.inputs; i++) close_one(kernel, context, kernel->inputs[i], false);
  for (size_t i = 0; i < kernel->base.arity.outputs; i++) close_one(kernel, context, kernel->outputs[i], written);
}
