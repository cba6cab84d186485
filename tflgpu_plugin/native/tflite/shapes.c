/* Shapes of the host's tensors. */
#include "tflite/internal.h"

/* Kernels free such lists, and make others that we free. */
tgl_ints *tgi_make_ints(int32_t size, const int32_t *data) {
  tgl_ints *list = tgi_shared_alloc(sizeof *list + ((size_t)size + 1) * sizeof *data);
  if (!list) return NULL;
  list->size = size;
  if (size) memcpy(list->data, data, (size_t)size * sizeof *data);
  return list;
}

int32_t tgi_resize(tgl_context *context, tgl_tensor *tensor, int32_t rank, const int32_t *shape) {
  if (context->resize_tensor_explicit) return context->resize_tensor_explicit(context, tensor, rank, shape);
  tgl_ints *dims = tgi_make_ints(rank, shape);
  return dims ? context->resize_tensor(context, tensor, dims) : TGL_ERROR;
}

bool tgi_has_shape(const tgl_tensor *tensor, int32_t rank, const int32_t *shape) {
  int32_t mine = tensor->dims ? tensor->dims->size : 0;
  return mine == rank && (!rank || !memcmp(tensor->dims->data, shape, (size_t)rank * sizeof *shape));
}

bool tgi_set_open_shape(tgl_context *context, tgl_tensor *tensor, int32_t rank, const int32_t *shape) {
  if (!(tgi_has_shape(tensor, rank, shape) && tensor->data) && tgi_resize(context, tensor, rank, shape) != TGL_OK) return false;
  if (tensor->bytes) return true;
  tgi_shared_free(tensor->data);
  tensor->data = NULL;
  return true;
}

void tgi_shape_text(int32_t rank, const int32_t *shape, char *text) {
  size_t used = (size_t)snprintf(text, TGI_SHAPE_TEXT, "[");
  for (int32_t i = 0; i < rank && used + 16 < TGI_SHAPE_TEXT; i++)
    used += (size_t)snprintf(text + used, TGI_SHAPE_TEXT - used, i ? ", %d" : "%d", shape[i]);
  snprintf(text + used, TGI_SHAPE_TEXT - used, "]");
}
