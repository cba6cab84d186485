/* The provider's callbacks into Python. */
#include "ort/internal.h"

static tg_ort_callbacks table;
static tgi_python python = {&table, sizeof table, "", "call tflgpu_plugin.register()", false, 0};

bool tgi_ort_call(tg_ort_callbacks *newest, void (*work)(void *), void *call, tg_error *err) {
  return tgi_python_call(&python, newest, work, call, err);
}

void tg_ort_set_callbacks(const tg_ort_callbacks *callbacks) { tgi_python_set(&python, callbacks); }
