/* The delegate: the plugin's two entry points for TFLite, and the functions that the host calls on it. */
#include "tflite/internal.h"

static int32_t delegate_prepare(tgl_context *context, tgl_delegate *host) {
  tg_error err = {0};
  return tgi_prepare((tgi_delegate *)host, context, &err) ? tgi_report(context, "", err.text) : TGL_OK;
}

static tgi_delegate *make_delegate(int64_t number, const tg_tflite_callbacks *functions) {
  tgi_delegate *delegate = calloc(1, sizeof *delegate);
  if (!delegate) return NULL;
  delegate->host.data = delegate;
  delegate->host.prepare = delegate_prepare;
  delegate->host.copy_from_handle = tgi_copy_from_handle;
  delegate->host.free_handle = tgi_free_handle;
  /* Without TGL_WANTS_PROPAGATED_SHAPES, with which hosts prepare the replaced nodes and their neighbours again in the middle of
   * a run when a shape changes, and take memory from them that they need. Kernels set their output shapes themselves. */
  delegate->host.flags = TGL_ACCEPTS_DYNAMIC;
  delegate->client.number = number;
  delegate->functions = *functions;
  delegate->registration = &tgi_registration;
  delegate->refs = 1;
  tgi_client_enlist(&delegate->client);
  return delegate;
}

tgl_delegate *tflite_plugin_create_delegate(const char *const *keys, const char *const *values, size_t count,
                                                   void (*report_error)(const char *)) {
  tg_error err = {0};
  /* Hosts declare the count as an int, so the upper half of the register is undefined. */
  tg_tflite_callbacks functions;
  int64_t number = tgi_create(keys, values, count & 0xffffffffu, &functions, &err);
  tgi_delegate *delegate = number > 0 ? make_delegate(number, &functions) : NULL;
  if (delegate) return &delegate->host;
  if (report_error) report_error(err.text[0] ? err.text : "tflgpu: not enough memory for a delegate.");
  return NULL;
}

void tflite_plugin_destroy_delegate(tgl_delegate *host) {
  tgi_delegate *delegate = (tgi_delegate *)host;
  if (!delegate) return;
  tgi_lock();
  delegate->destroyed = true;
  tgi_unlock();
  tgi_kernels_sweep(delegate);
  tgi_delegate_release(delegate);
}
