/* Python's callbacks. */
#include "ort/internal.h"

static tg_ort_callbacks table;
static tgi_python python = {&table, sizeof table, "", "call tflgpu_plugin.register()", false, 0};

bool tgi_ort_enter(tg_ort_callbacks *functions, tg_error *err) { return tgi_python_enter(&python, functions, err); }

void tgi_ort_leave(void) { tgi_python_leave(&python); }

void tg_ort_set_callbacks(const tg_ort_callbacks *callbacks) { tgi_python_set(&python, callbacks); }
