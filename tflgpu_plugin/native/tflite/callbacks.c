/* Calls into Python: they make a delegate, prepare a graph, or compile a plan for other shapes. */
#include "tflite/internal.h"

static tg_tflite_callbacks table;
static tgi_python python = {&table, sizeof table, "tflgpu: ", "import tflgpu_plugin before load_delegate(...)", false, 0};

void tg_tflite_set_callbacks(const tg_tflite_callbacks *callbacks) { tgi_python_set(&python, callbacks); }

/* Arguments and result of a call. `functions` are those of the package that made the delegate, not the newest ones. */
typedef struct call {
  const tg_tflite_callbacks *functions;
  const tgi_delegate *delegate;
  tg_kernel *kernel;
  tgl_context *context;
  const int32_t *shapes;
  const char *const *keys, *const *values, *reason;
  size_t count;
  int64_t result;
  tg_error *err;
} call;

static void build(void *given) {
  call *c = given;
  c->result = c->functions->build && c->functions->build(c->kernel->base.number, c->kernel, c->shapes, c->count, c->err);
}

int tgi_build(tg_kernel *kernel, const int32_t *shapes, size_t count, tg_error *err) {
  call c = {.functions = &kernel->delegate->functions, .kernel = kernel, .shapes = shapes, .count = count, .err = err};
  return !tgi_python_call(&python, NULL, build, &c, err) || !c.result;
}

static void fell_back(void *given) {
  const call *c = given;
  if (c->functions->fell_back) c->functions->fell_back(c->kernel->base.number, c->reason, c->err);
}

void tgi_fell_back(tg_kernel *kernel, const char *reason) {
  tg_error ignored = {0};
  call c = {.functions = &kernel->delegate->functions, .kernel = kernel, .reason = reason, .err = &ignored};
  tgi_python_call(&python, NULL, fell_back, &c, &ignored);
}

static void prepare(void *given) {
  call *c = given;
  const tgi_delegate *delegate = c->delegate;
  c->result = c->functions->prepare &&
              c->functions->prepare(delegate->client.number, (void *)&delegate->host, c->context, c->err);
}

int tgi_prepare(const tgi_delegate *delegate, tgl_context *context, tg_error *err) {
  call c = {.functions = &delegate->functions, .delegate = delegate, .context = context, .err = err};
  if (tgi_python_call(&python, NULL, prepare, &c, err) && c.result) return 0;
  return err->text[0] ? 1 : tgi_fail(err, "tflgpu: preparing the graph failed.");
}

static void create(void *given) {
  call *c = given;
  c->result = c->functions->create(c->keys, c->values, c->count, c->err);
}

/* Python sets the other callbacks during its first `create`, so they are copied afterwards. */
int64_t tgi_create(const char *const *keys, const char *const *values, size_t count, tg_tflite_callbacks *functions,
                   tg_error *err) {
  call c = {.functions = functions, .keys = keys, .values = values, .count = count, .err = err};
  if (!tgi_python_call(&python, functions, create, &c, err)) {
    tgi_python_import();
    err->text[0] = 0;
    if (!tgi_python_call(&python, functions, create, &c, err)) return 0;
  }
  tgi_lock();
  if (python.set) *functions = table;
  tgi_unlock();
  if (c.result <= 0 && !err->text[0]) tgi_fail(err, "tflgpu: the delegate could not be made.");
  return c.result;
}
