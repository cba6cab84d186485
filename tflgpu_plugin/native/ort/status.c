/* Statuses of onnxruntime: making one, and turning one into a sentence. */
#include "ort/internal.h"

/* For TGO_EP_FAIL the host's Python makes the session anew. In a forked child that would wait forever for the threads that the
 * session had in the parent. */
tgo_status *tgi_coded_status(const tgo_api *api, int code, const char *text) {
  if (code == TGO_EP_FAIL && tgi_is_forked()) code = TGO_FAIL;
  char line[sizeof(tg_error) + 8];
  snprintf(line, sizeof line, "tflgpu: %s", text);
  tgi_trim(line);
  return api->create_status(code, line);
}

tgo_status *tgi_status(const tgo_api *api, const char *text) { return tgi_coded_status(api, TGO_EP_FAIL, text); }

int tgi_take_status(const tgo_api *api, tgo_status *status, tg_error *err) {
  if (!status) return 0;
  tgi_fail(err, "onnxruntime said: %s", api->get_error_message(status));
  api->release_status(status);
  return 1;
}
