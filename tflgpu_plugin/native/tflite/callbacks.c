/* What is asked of Python: to make a delegate, to prepare a graph, to build for other shapes. */
#include "tflite/internal.h"

static tg_tflite_callbacks table;
static tgi_python python = {&table, sizeof table, "tflgpu: ", "import tflgpu_plugin before load_delegate(...)", false, 0};

void tg_tflite_set_callbacks(const tg_tflite_callbacks *callbacks) { tgi_python_set(&python, callbacks); }

int tgi_build(tg_kernel *kernel, tgl_context *context, tg_error *err) {
  tg_tflite_callbacks newest;
  const tg_tflite_callbacks *functions = &kernel->delegate->functions;
  if (!tgi_python_enter(&python, &newest, err)) return 1;
  int built = functions->build && functions->build(kernel->base.number, kernel, context, err);
  tgi_python_leave(&python);
  return !built;
}

int tgi_prepare(const tgi_delegate *delegate, tgl_context *context, tg_error *err) {
  tg_tflite_callbacks newest;
  const tg_tflite_callbacks *functions = &delegate->functions;
  if (!tgi_python_enter(&python, &newest, err)) return 1;
  int done = functions->prepare && functions->prepare(delegate->client.number, (void *)&delegate->host, context, err);
  tgi_python_leave(&python);
  if (!done && !err->text[0]) tgi_fail(err, "tflgpu: preparing the graph failed.");
  return !done;
}

/* A .pth file may have loaded only this library. Nothing of Python is linked: its functions are looked up. */
static void import_package(void) {
  int (*initialized)(void) = (int (*)(void))tgi_process_symbol("Py_IsInitialized");
  int (*ensure)(void) = (int (*)(void))tgi_process_symbol("PyGILState_Ensure");
  void (*release)(int) = (void (*)(int))tgi_process_symbol("PyGILState_Release");
  int (*run)(const char *) = (int (*)(const char *))tgi_process_symbol("PyRun_SimpleString");
  if (!initialized || !ensure || !release || !run || !initialized()) return;
  int state = ensure();
  run("__import__('tflgpu_plugin')");
  release(state);
}

/* The first one's `create` has set the others. */
int64_t tgi_create(const char *const *keys, const char *const *values, size_t count, tg_tflite_callbacks *functions,
                   tg_error *err) {
  if (!tgi_python_enter(&python, functions, err)) {
    import_package();
    if (!tgi_python_enter(&python, functions, err)) return 0;
    err->text[0] = 0;
  }
  int64_t number = functions->create(keys, values, count, err);
  tgi_lock();
  if (python.set) *functions = table;
  tgi_unlock();
  tgi_python_leave(&python);
  if (number <= 0 && !err->text[0]) tgi_fail(err, "tflgpu: the delegate could not be made.");
  return number;
}
