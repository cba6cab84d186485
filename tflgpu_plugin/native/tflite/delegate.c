/* The TFLite door: the plugin's two entry points, the delegate, Python's callbacks, preview and claim. */

#include "tflite/internal.h"
#include "core/dl.h"

#define EXPORT __attribute__((visibility("default")))
enum { TEXT_BYTES = 4096 };

/* ---- callbacks ---------------------------------------------------------------------------------------------------------- */

static tg_tflite_callbacks table;
static tgi_python python = {&table, sizeof table, "tflgpu: ", "import tflgpu_plugin before load_delegate(...)", false, 0};

void tg_tflite_set_callbacks(const tg_tflite_callbacks *callbacks) { tgi_python_set(&python, callbacks); }

int tgi_build(tg_kernel *kernel, tgl_context *context, char *err, size_t err_size) {
  tg_tflite_callbacks newest;
  const tg_tflite_callbacks *functions = &kernel->delegate->functions;
  if (!tgi_python_enter(&python, &newest, err, err_size)) return 1;
  int built = functions->build && functions->build(kernel->number, kernel, context, err, err_size);
  tgi_python_leave(&python);
  return !built;
}

/* ---- delegates ---------------------------------------------------------------------------------------------------------- */

static tgi_delegate *delegates;

void tgi_delegate_retain(tgi_delegate *delegate) { atomic_fetch_add(&delegate->refs, 1); }

void tgi_delegate_release(tgi_delegate *delegate) {
  if (atomic_fetch_sub(&delegate->refs, 1) != 1) return;
  tgi_lock();
  for (tgi_delegate **at = &delegates; *at; at = &(*at)->next)
    if (*at == delegate) {
      *at = delegate->next;
      break;
    }
  tgi_unlock();
  free(delegate);
}

static tgi_delegate *find_delegate(const void *pointer) {
  tgi_delegate *at = delegates;
  while (at && at != pointer) at = at->next;
  return at;
}

int64_t tg_tflite_delegate_number(void *delegate) {
  tgi_lock();
  tgi_delegate *found = find_delegate(delegate);
  int64_t number = found ? found->number : 0;
  tgi_unlock();
  return number;
}

int tg_tflite_delegate_is_live(int64_t number) {
  tgi_lock();
  const tgi_delegate *at = delegates;
  while (at && at->number != number) at = at->next;
  tgi_unlock();
  return at != NULL;
}

int tgi_report(tgl_context *context, const char *text) {
  if (context->report_error) context->report_error(context, "%s\n", text);
  return TGL_ERROR;
}

static int32_t delegate_prepare(tgl_context *context, tgl_delegate *host) {
  char err[TEXT_BYTES] = "";
  tg_tflite_callbacks newest;
  const tgi_delegate *delegate = (tgi_delegate *)host;
  if (tg_is_forked(err, sizeof err)) {
    tgi_report(context, err);
    return TGL_OK;                 /* nothing is claimed */
  }
  if (!tgi_python_enter(&python, &newest, err, sizeof err)) return tgi_report(context, err);
  int done = delegate->functions.prepare &&
             delegate->functions.prepare(delegate->number, host, context, err, sizeof err);
  tgi_python_leave(&python);
  return done ? TGL_OK : tgi_report(context, err[0] ? err : "tflgpu: preparing the graph failed.");
}

static tgi_delegate *make_delegate(int64_t number, const tg_tflite_callbacks *functions) {
  tgi_delegate *delegate = calloc(1, sizeof *delegate);
  if (!delegate) return NULL;
  delegate->host.data = delegate;
  delegate->host.prepare = delegate_prepare;
  delegate->host.copy_from_handle = tgi_copy_from_handle;
  delegate->host.free_handle = tgi_free_handle;
  /* Not TGL_WANTS_PROPAGATED_SHAPES: hosts would then prepare the nodes that we replaced, and their neighbours, once more in
   * the middle of a run where a shape changes, and take memory from them that they need. Kernels tell their shapes. */
  delegate->host.flags = TGL_ACCEPTS_DYNAMIC;
  delegate->number = number;
  delegate->functions = *functions;
  delegate->refs = 1;
  tgi_lock();
  delegate->next = delegates;
  delegates = delegate;
  tgi_unlock();
  return delegate;
}

/* ---- entry points ------------------------------------------------------------------------------------------------------- */

/* A .pth file may have loaded only this library. Nothing of Python is linked: its functions are looked up. */
static void import_package(void) {
  int (*initialized)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "Py_IsInitialized");
  int (*ensure)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "PyGILState_Ensure");
  void (*release)(int) = (void (*)(int))dlsym(RTLD_DEFAULT, "PyGILState_Release");
  int (*run)(const char *) = (int (*)(const char *))dlsym(RTLD_DEFAULT, "PyRun_SimpleString");
  if (!initialized || !ensure || !release || !run || !initialized()) return;
  int state = ensure();
  run("__import__('tflgpu_plugin')");
  release(state);
}

/* The number of a new delegate, and the functions that it belongs to: the first one's `create` has set the others. */
static int64_t create_number(const char *const *keys, const char *const *values, size_t count,
                             tg_tflite_callbacks *functions, char *err, size_t err_size) {
  if (!tgi_python_enter(&python, functions, err, err_size)) {
    import_package();
    if (!tgi_python_enter(&python, functions, err, err_size)) return 0;
    err[0] = 0;
  }
  int64_t number = functions->create(keys, values, count, err, err_size);
  tgi_lock();
  if (python.set) *functions = table;
  tgi_unlock();
  tgi_python_leave(&python);
  if (number <= 0 && !err[0]) tgi_fail(err, err_size, "tflgpu: the delegate could not be made.");
  return number;
}

EXPORT tgl_delegate *tflite_plugin_create_delegate(const char *const *keys, const char *const *values, size_t count,
                                                   void (*report_error)(const char *)) {
  char err[TEXT_BYTES] = "";
  /* Hosts declare the count as an int, so the upper half of the register is not defined. */
  tg_tflite_callbacks functions;
  int64_t number = create_number(keys, values, count & 0xffffffffu, &functions, err, sizeof err);
  tgi_delegate *delegate = number > 0 ? make_delegate(number, &functions) : NULL;
  if (delegate) return &delegate->host;
  if (report_error) report_error(err[0] ? err : "tflgpu: not enough memory for a delegate.");
  return NULL;
}

EXPORT void tflite_plugin_destroy_delegate(tgl_delegate *host) {
  if (host) tgi_delegate_release((tgi_delegate *)host);
}

/* ---- preview and claim -------------------------------------------------------------------------------------------------- */

/* A claim is open while the host calls init for its kernels; it lives on the stack of tg_tflite_claim. */
typedef struct claim {
  struct claim *next;
  const tgl_context *context;
  tg_kernel *const *kernels;
  bool *taken;
  size_t count;
} claim;

static claim *claims;              /* under tgi_lock */

static int compare(const void *a, const void *b) {
  int32_t left = *(const int32_t *)a, right = *(const int32_t *)b;
  return (left > right) - (left < right);
}

static tgl_ints *sorted(const int32_t *values, size_t count) {
  tgl_ints *list = malloc(sizeof *list + count * sizeof *values);
  if (!list) return NULL;
  list->size = (int32_t)count;
  memcpy(list->data, values, count * sizeof *values);
  qsort(list->data, count, sizeof *values, compare);
  return list;
}

static tg_kernel *take_from(const claim *open, const tgl_ints *nodes) {
  for (size_t i = 0; i < open->count; i++) {
    tg_kernel *kernel = open->kernels[i];
    if (open->taken[i] || kernel->node_count != (size_t)nodes->size) continue;
    if (memcmp(kernel->nodes, nodes->data, kernel->node_count * sizeof *nodes->data)) continue;
    open->taken[i] = true;
    tg_kernel_retain(kernel);
    return kernel;
  }
  return NULL;
}

tg_kernel *tgi_take_claimed(const tgl_context *context, const tgl_partition *partition) {
  tgl_ints *nodes = sorted(partition->nodes->data, (size_t)partition->nodes->size);
  if (!nodes) return NULL;
  tg_kernel *kernel = NULL;
  tgi_lock();
  for (claim *at = claims; at && !kernel; at = at->next)
    if (at->context == context) kernel = take_from(at, nodes);
  tgi_unlock();
  free(nodes);
  return kernel;
}

static void open_claim(claim *new) {
  tgi_lock();
  new->next = claims;
  claims = new;
  tgi_unlock();
}

static void close_claim(claim *old) {
  tgi_lock();
  claim **at = &claims;
  while (*at != old) at = &(*at)->next;
  *at = old->next;
  tgi_unlock();
}

static tgl_ints *all_nodes(tg_kernel *const *kernels, size_t kernel_count) {
  size_t count = 0, used = 0;
  for (size_t i = 0; i < kernel_count; i++) count += kernels[i]->node_count;
  int32_t *nodes = malloc((count + 1) * sizeof *nodes);
  if (!nodes) return NULL;
  for (size_t i = 0; i < kernel_count; used += kernels[i++]->node_count)
    memcpy(nodes + used, kernels[i]->nodes, kernels[i]->node_count * sizeof *nodes);
  tgl_ints *list = sorted(nodes, count);
  free(nodes);
  return list;
}

static int replace(tgl_context *context, tgl_delegate *delegate, const tgl_ints *nodes, claim *new, char *err,
                   size_t err_size) {
  open_claim(new);
  int32_t status = context->replace_nodes(context, (tgl_padded_registration){.known = tgi_registration}, nodes, delegate);
  close_claim(new);
  if (status != TGL_OK) return tgi_fail(err, err_size, "tflgpu: the host did not hand over its nodes (status %d).", status);
  for (size_t i = 0; i < new->count; i++)
    if (!new->taken[i])
      return tgi_fail(err, err_size, "tflgpu: the host grouped the nodes in another way than it had announced.");
  return 0;
}

int tg_tflite_claim(void *context, void *delegate, tg_kernel *const *kernels, size_t kernel_count, char *err,
                    size_t err_size) {
  if (!kernel_count) return 0;
  tgl_ints *nodes = all_nodes(kernels, kernel_count);
  bool *taken = calloc(kernel_count, sizeof *taken);
  claim new = {.context = context, .kernels = kernels, .taken = taken, .count = kernel_count};
  int failed = nodes && taken ? replace(context, delegate, nodes, &new, err, err_size)
                              : tgi_fail(err, err_size, "tflgpu: not enough memory to claim nodes.");
  free(taken);
  free(nodes);
  return failed;
}

static void write_group(const tgl_ints *members, const int32_t *nodes, size_t node_count, int32_t group, int32_t *groups) {
  for (int32_t k = 0; k < members->size; k++)
    for (size_t i = 0; i < node_count; i++)
      if (nodes[i] == members->data[k]) groups[i] = group;
}

int tg_tflite_preview(void *opaque, const int32_t *nodes, size_t node_count, int32_t *groups, char *err, size_t err_size) {
  tgl_context *context = opaque;
  tgl_partition *partitions = NULL;
  int32_t count = 0;
  tgl_ints *list = sorted(nodes, node_count);
  int32_t status = TGL_ERROR;
  if (list && context->preview_partitions) status = context->preview_partitions(context, list, &partitions, &count);
  free(list);
  if (status != TGL_OK) {
    tgi_fail(err, err_size, "tflgpu: the host does not tell how it would group the nodes (status %d).", status);
    return -1;
  }
  for (size_t i = 0; i < node_count; i++) groups[i] = -1;
  for (int32_t group = 0; group < count; group++) write_group(partitions[group].nodes, nodes, node_count, group, groups);
  return count;
}
