/* What a call comes to: a status for the host, its status as a sentence. */
#include "ort/internal.h"

enum { TEXT_BYTES = 4096 };

tgo_status *tgi_coded_status(const tgo_api *api, int code, const char *text) {
  char line[TEXT_BYTES];
  snprintf(line, sizeof line, "tflgpu: %s", text);
  return api->create_status(code, line);
}

tgo_status *tgi_status(const tgo_api *api, const char *text) { return tgi_coded_status(api, TGO_EP_FAIL, text); }

int tgi_take_status(const tgo_api *api, tgo_status *status, char *err, size_t err_size) {
  if (!status) return 0;
  tgi_fail(err, err_size, "onnxruntime said: %s", api->get_error_message(status));
  api->release_status(status);
  return 1;
}
