/* The host's own kernels: they prepare and invoke the nodes of a partition, in a context of ours that lasts for one call. Its
 * tensors are copies of the host's with the same numbers; inputs, constants and variables share the host's memory, and the
 * others have their own. */
#include "tflite/internal.h"

enum { SPARE = 4096, ALIGNMENT = 64, MOST_TYPES = 20 };   /* SPARE: number of tensors that nodes may add */

/* Zeros stand for members that hosts newer than abi.h append to nodes. */
typedef struct padded_node {
  tgl_node known;
  uint8_t zeros[64];
} padded_node;

typedef struct fallback {
  tgl_context context;             /* first, since kernels get a pointer to it */
  void *zeros[64];                 /* for functions that newer hosts append */
  tgl_context *host;
  const tg_kernel *kernel;
  tgi_memory lists;
  tgl_tensor *tensors;
  void **memory;                   /* per tensor: the block to free for it, or NULL (e.g. if it uses the host's memory) */
  bool *owned;                     /* per tensor: whether dims and data belong to this context, not to the host */
  size_t capacity;
  bool starved;                    /* an allocation failed */
} fallback;

/* ---- memory ------------------------------------------------------------------------------------------------------------------ */

/* Size of an element by the number of its type; 0 for types without a size. */
static const uint8_t ELEMENT_BYTES[MOST_TYPES] = {0, 4, 4, 1, 8, 0, 1, 2, 8, 1, 2, 8, 16, 8, 0, 0, 4, 2, 1, 2};
enum { TYPE_INT4 = 18 };
#define MOST_ELEMENTS (PTRDIFF_MAX / 32)   /* elements of a tensor, of at most 16 bytes each */

size_t tgi_element_bytes(int32_t type) { return type < 0 || type >= MOST_TYPES ? 0 : ELEMENT_BYTES[type]; }

/* Returns SIZE_MAX for invalid shapes: kernels compute negative extents for inputs that are too small. */
static size_t bytes_of(int32_t type, const tgl_ints *dims) {
  size_t count = 1;
  bool empty = false, fits = true;
  for (int32_t k = 0; k < dims->size; k++) {
    if (dims->data[k] < 0) return SIZE_MAX;
    empty |= dims->data[k] == 0;
    fits &= dims->data[k] == 0 || count <= (size_t)MOST_ELEMENTS / (size_t)dims->data[k];
    if (fits && dims->data[k]) count *= (size_t)dims->data[k];
  }
  size_t each = tgi_element_bytes(type);
  if (!each || empty) return 0;
  if (!fits) return SIZE_MAX;
  return type == TYPE_INT4 ? (count + 1) / 2 : count * each;
}

static void drop_memory(fallback *f, size_t index) {
  tgi_shared_free(f->memory[index]);
  f->memory[index] = NULL;
  if (f->owned[index]) f->tensors[index].data = NULL;
}

static int32_t take_memory(fallback *f, size_t index, size_t bytes) {
  tgl_tensor *tensor = &f->tensors[index];
  drop_memory(f, index);
  if (bytes <= PTRDIFF_MAX) f->memory[index] = tgi_shared_alloc(bytes + 2 * ALIGNMENT);
  f->starved |= !f->memory[index] && bytes <= PTRDIFF_MAX;
  if (!f->memory[index]) return TGL_ERROR;
  tensor->data = (void *)(((uintptr_t)f->memory[index] + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
  tensor->bytes = bytes;
  return TGL_OK;
}

static bool same_ints(const tgl_ints *a, const tgl_ints *b) {
  return a && b && a->size == b->size && !memcmp(a->data, b->data, (size_t)a->size * sizeof *a->data);
}

/* ---- functions for kernels --------------------------------------------------------------------------------------------------- */

static int32_t on_resize(tgl_context *context, tgl_tensor *tensor, tgl_ints *dims) {
  fallback *f = (fallback *)context;
  size_t index = (size_t)(tensor - f->tensors);
  if (tensor < f->tensors || index >= f->context.tensor_count || !f->owned[index]) {
    bool same = same_ints(tensor->dims, dims);
    tgi_shared_free(dims);
    return same ? TGL_OK : TGL_ERROR;
  }
  bool kept = tensor->data && same_ints(tensor->dims, dims);
  if (tensor->dims != dims) tgi_shared_free(tensor->dims);
  tensor->dims = dims;
  return kept ? TGL_OK : take_memory(f, index, bytes_of(tensor->type, dims));
}

static int32_t on_resize_explicit(tgl_context *context, tgl_tensor *tensor, int32_t rank, const int32_t *shape) {
  tgl_ints *dims = tgi_make_ints(rank, shape);
  ((fallback *)context)->starved |= !dims;
  return dims ? on_resize(context, tensor, dims) : TGL_ERROR;
}

static int32_t on_add(tgl_context *context, int32_t count, int32_t *first) {
  fallback *f = (fallback *)context;
  size_t at = f->context.tensor_count;
  if (count < 0 || at + (size_t)count > f->capacity) return TGL_ERROR;
  if (first) *first = (int32_t)at;
  for (size_t i = at; i < at + (size_t)count; i++) {
    f->tensors[i] = (tgl_tensor){.handle = TGL_NO_HANDLE, .dims = tgi_make_ints(0, NULL)};
    f->owned[i] = true;
  }
  f->context.tensor_count = at + (size_t)count;
  return TGL_OK;
}

/* ---- the tensors ------------------------------------------------------------------------------------------------------------- */

static bool own(fallback *f, size_t index) {
  tgl_tensor *tensor = &f->tensors[index];
  bool constant = tensor->allocation == TGL_IN_MODEL;
  if (f->owned[index] || constant || tensor->is_variable) return true;
  tgl_ints *dims = tensor->dims ? tgi_make_ints(tensor->dims->size, tensor->dims->data) : tgi_make_ints(0, NULL);
  if (!dims) return false;
  tensor->dims = dims;
  tensor->data = NULL;
  tensor->allocation = TGL_IN_ARENA;
  tensor->handle = TGL_NO_HANDLE;
  tensor->is_stale = false;
  tensor->delegate = NULL;
  f->owned[index] = true;
  return true;
}

static bool own_results(fallback *f) {
  const tg_kernel *kernel = f->kernel;
  for (size_t i = 0; i < kernel->host_node_count; i++) {
    const tgl_ints *made = kernel->host_nodes[i].node.outputs;
    for (int32_t k = 0; k < made->size; k++)
      if (made->data[k] >= 0 && !own(f, (size_t)made->data[k])) return false;
  }
  return true;
}

static void close_fallback(fallback *f) {
  for (size_t i = 0; f->owned && i < f->context.tensor_count; i++) {
    if (!f->owned[i]) continue;
    drop_memory(f, i);
    tgi_shared_free(f->tensors[i].dims);
  }
  tgi_memory_free(&f->lists);
}

static int open_fallback(fallback *f, const tg_kernel *kernel, tgl_context *host, tg_error *err) {
  size_t count = host->tensor_count;
  *f = (fallback){.context = *host, .host = host, .kernel = kernel, .capacity = count + SPARE};
  f->tensors = tgi_zeros(&f->lists, f->capacity, sizeof *f->tensors);
  f->memory = tgi_zeros(&f->lists, f->capacity, sizeof *f->memory);
  f->owned = tgi_zeros(&f->lists, f->capacity, sizeof *f->owned);
  f->context.tensors = f->tensors;
  f->context.resize_tensor = on_resize;
  if (host->resize_tensor_explicit) f->context.resize_tensor_explicit = on_resize_explicit;
  f->context.add_tensors = on_add;
  f->context.profiler = NULL;
  if (f->tensors) memcpy(f->tensors, host->tensors, count * sizeof *f->tensors);
  if (!f->lists.lacks && own_results(f)) return 0;
  close_fallback(f);
  return tgi_no_memory(err, "a run");
}

/* ---- nodes that run other graphs of the model ------------------------------------------------------------------------------ */

/* Exchanges tensors of the host's graph for ours during a call, because some nodes look their tensors up in that graph. */
static void exchange(fallback *f, const tgl_ints *list) {
  for (int32_t k = 0; k < list->size; k++) {
    if (list->data[k] < 0) continue;
    tgl_tensor *ours = &f->tensors[list->data[k]], *theirs = &f->host->tensors[list->data[k]], held = *ours;
    *ours = *theirs;
    *theirs = held;
  }
}

typedef struct trial {
  int32_t (*function)(tgl_context *, tgl_node *);
  tgl_context *context;
  tgl_node *node;
  int32_t status;
} trial;

static void try_it(void *given) {
  trial *t = given;
  t->status = t->function(t->context, t->node);
}

/* Calls a kernel. Kernels throw where there is no memory, and not every host catches that while it runs a delegate. */
static int32_t attempt(fallback *f, int32_t (*function)(tgl_context *, tgl_node *), tgl_context *context, tgl_node *node) {
  trial t = {function, context, node, TGL_ERROR};
  if (tgi_attempt(try_it, &t)) return t.status;
  f->starved = true;
  return TGL_ERROR;
}

static int32_t call_in_host(fallback *f, int32_t (*function)(tgl_context *, tgl_node *), tgl_node *node) {
  exchange(f, node->inputs);
  exchange(f, node->outputs);
  int32_t status = attempt(f, function, f->host, node);
  exchange(f, node->outputs);
  exchange(f, node->inputs);
  return status;
}

static bool runs_graphs(const tg_kernel *kernel, const tgi_host_node *one) {
  for (size_t i = 0; i < kernel->caller_count; i++)
    if (kernel->callers[i] == one->id) return true;
  return false;
}

/* Allocates results: kernels need not resize those that have their shape already, and the host has allocated those that a
 * kernel has resized while it ran. */
static int32_t give_memory(fallback *f, const tgl_ints *list, bool in_host) {
  for (int32_t k = 0; list && k < list->size; k++) {
    int32_t index = list->data[k];
    if (index < 0 || (size_t)index >= f->context.tensor_count || !f->owned[index]) continue;
    tgl_tensor *tensor = &f->tensors[index];
    bool dynamic = tensor->allocation == TGL_IN_DYNAMIC;
    if (dynamic && in_host) f->memory[index] = tensor->data;
    size_t bytes = bytes_of(tensor->type, tensor->dims);
    if (!dynamic && (!tensor->data || tensor->bytes != bytes) && take_memory(f, (size_t)index, bytes)) return TGL_ERROR;
  }
  return TGL_OK;
}

/* ---- running nodes ----------------------------------------------------------------------------------------------------------- */

typedef struct running {
  fallback *f;
  const tgi_host_node *one;
  padded_node node;
  bool in_host;
} running;

static int32_t call(running *r, int32_t (*function)(tgl_context *, tgl_node *)) {
  if (!function) return TGL_OK;
  tgl_node *node = &r->node.known;
  int32_t status = r->in_host ? call_in_host(r->f, function, node) : attempt(r->f, function, &r->f->context, node);
  if (status == TGL_OK) status = give_memory(r->f, node->outputs, r->in_host);
  return status == TGL_OK && !r->in_host ? give_memory(r->f, node->temporaries, false) : status;
}

static void begin(running *r, fallback *f, const tgi_host_node *one) {
  *r = (running){.f = f, .one = one, .node = {.known = one->node}, .in_host = runs_graphs(f->kernel, one)};
  tgl_node *node = &r->node.known;
  tgl_context *context = r->in_host ? f->host : &f->context;
  node->temporaries = tgi_make_ints(0, NULL);
  node->delegate = NULL;
  node->user_data = NULL;
  if (!one->registration.init) return;
  bool custom = node->custom_data != NULL;
  node->user_data = one->registration.init(context, custom ? node->custom_data : node->params,
                                           custom ? (size_t)node->custom_data_size : 0);
}

/* After a failure, a kernel's list of temporaries may be uninitialized, because it is allocated before it is filled. */
static void end(running *r, bool failed) {
  fallback *f = r->f;
  const tgl_ints *scratch = failed || r->in_host ? NULL : r->node.known.temporaries;
  for (int32_t k = 0; scratch && k < scratch->size; k++)
    if (scratch->data[k] >= 0 && f->owned[scratch->data[k]]) drop_memory(f, (size_t)scratch->data[k]);
  if (r->one->registration.free) r->one->registration.free(r->in_host ? f->host : &f->context, r->node.known.user_data);
  tgi_shared_free(r->node.known.temporaries);
}

static bool reads_unknown(const fallback *f, const tgl_node *node) {
  for (int32_t k = 0; k < node->inputs->size; k++) {
    int32_t index = node->inputs->data[k];
    if (index >= 0 && f->owned[index] && f->tensors[index].allocation == TGL_IN_DYNAMIC) return true;
  }
  return false;
}

static int refused(const running *r, const char *what, tg_error *err) {
  char name[80];
  tgi_operator_name(r->f->kernel, r->one->id, name, sizeof name);
  return tgi_fail(err, "Node number %d (%s) failed to %s%s.", r->one->id, name, what,
                  r->f->starved ? ": there is not enough memory for it" : "");
}

/* Marks results whose shapes only a run determines. */
static void mark_unknown(fallback *f, const tgl_ints *made) {
  for (int32_t k = 0; k < made->size; k++)
    if (made->data[k] >= 0) f->tensors[made->data[k]].allocation = TGL_IN_DYNAMIC;
}

static int prepare_node(running *r, tg_error *err) {
  int32_t status = call(r, r->one->registration.prepare);
  if (status == TGL_SHAPE_NOT_KNOWN) mark_unknown(r->f, r->node.known.outputs);
  return status == TGL_OK || status == TGL_SHAPE_NOT_KNOWN ? 0 : refused(r, "prepare", err);
}

/* Returns 0, or 1 with a sentence. Unless nodes are invoked, results whose shapes are not known yet are marked. */
static int run_nodes(fallback *f, bool invoke, tg_error *err) {
  const tg_kernel *kernel = f->kernel;
  int failed = 0;
  for (size_t i = 0; !failed && i < kernel->host_node_count; i++) {
    running r;
    const tgi_host_node *one = &kernel->host_nodes[i];
    if (!invoke && reads_unknown(f, &one->node)) {
      mark_unknown(f, one->node.outputs);
      continue;
    }
    if (one->registration.external) return tgi_fail(err, "The host gives no access to the kernel of node %d.", one->id);
    begin(&r, f, one);
    failed = prepare_node(&r, err);
    if (!failed && invoke && call(&r, one->registration.invoke) != TGL_OK) failed = refused(&r, "invoke", err);
    end(&r, failed != 0);
  }
  return failed;
}

/* ---- results for the host ---------------------------------------------------------------------------------------------------- */

static int give_output(const fallback *f, tg_kernel *kernel, size_t i, tg_error *err) {
  tgl_tensor *to = &f->host->tensors[kernel->outputs[i]];
  const tgl_tensor *from = &f->tensors[kernel->outputs[i]];
  if (tgi_lent_give(kernel, f->host, i, from->dims->size, from->dims->data, err)) return 1;
  if (to->allocation == TGL_IN_DYNAMIC) tgi_set_open_shape(f->host, to, from->dims->size, from->dims->data);
  if (to->bytes != from->bytes || !same_ints(to->dims, from->dims) || (from->bytes && !to->data))
    return tgi_fail(err, "Output tensor \"%s\" has another shape on the host's kernels.", to->name ? to->name : "");
  if (from->bytes) memcpy(to->data, from->data, from->bytes);
  to->is_stale = false;
  return 0;
}

static int fetch_inputs(const tg_kernel *kernel, tgl_context *context, tg_error *err) {
  int failed = 0;
  for (size_t i = 0; !failed && i < kernel->base.arity.inputs; i++)
    failed = tgi_fetch(context, &context->tensors[kernel->inputs[i]], err);
  return failed;
}

int tgi_fallback_invoke(tg_kernel *kernel, tgl_context *context, tg_error *err) {
  fallback f;
  if (fetch_inputs(kernel, context, err) || tgi_states_fetch(kernel, context, err) ||
      open_fallback(&f, kernel, context, err)) return 1;
  int failed = run_nodes(&f, true, err);
  for (size_t i = 0; !failed && i < kernel->base.arity.outputs; i++) failed = give_output(&f, kernel, i, err);
  close_fallback(&f);
  if (failed) return 1;
  tgi_handles_withdraw(kernel, context);   /* outputs that an earlier run left on the device are outdated now */
  tgi_newest_drop(kernel);
  return 0;
}

/* Marks an output whose size is only known after a run. */
static void leave_open(tg_kernel *kernel, size_t i, tgl_tensor *tensor) {
  if (tgi_lent_leave_open(kernel, i, tensor) || tensor->allocation == TGL_IN_DYNAMIC) return;
  tensor->allocation = TGL_IN_DYNAMIC;
  tensor->data = NULL;
}

int tgi_fallback_prepare(tg_kernel *kernel, tgl_context *context, tg_error *err) {
  fallback f;
  if (open_fallback(&f, kernel, context, err)) return 1;
  int failed = run_nodes(&f, false, err);
  for (size_t i = 0; !failed && i < kernel->base.arity.outputs; i++) {
    int32_t index = kernel->outputs[i];
    tgl_tensor *to = &context->tensors[index];
    const tgl_tensor *from = &f.tensors[index];
    if (from->allocation == TGL_IN_DYNAMIC) leave_open(kernel, i, to);
    else if (!same_ints(to->dims, from->dims) && tgi_resize(context, to, from->dims->size, from->dims->data) != TGL_OK)
      failed = tgi_fail(err, "The host could not resize an output.");
  }
  close_fallback(&f);
  return failed;
}
