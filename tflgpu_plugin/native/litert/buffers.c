/* Buffers that programs hand to runs of a CompiledModel. Those of our kind hold a tensor that is on the host, on the GPU, or on
 * both (core/tensors.h), so that the output of a model is the input of the next one where it is. */
#include "litert/internal.h"

#include "core/tensor_blocks.h"

enum { ALIGNMENT = 64 };           /* of memory for TFLite's CPU kernels */

typedef struct memory {
  tgr_memory host;                 /* first, since the runtime gets a pointer to it */
  uint8_t *block, *address;
  size_t bytes;
  uint32_t locks;                  /* that are held; under tgi_lock */
  bool written;                    /* by the holder of one of them; under tgi_lock */
  atomic_bool asynchronous;        /* the last run that wrote it was */
} memory;

/* ---- handlers ---------------------------------------------------------------------------------------------------------- */

/* The bytes of the requirements may be those of an earlier shape. */
int32_t tgi_memory_create(void *device, void *queue, const void *tensor_type, int32_t kind, size_t bytes, size_t packed_bytes,
                          tgr_memory **made) {
  if (!made) return TGR_INVALID_ARGUMENT;
  memory *one = calloc(1, sizeof *one);
  *made = NULL;
  if (!one) return TGR_FAILURE;
  one->bytes = bytes > packed_bytes ? bytes : packed_bytes;
  if (one->bytes < SIZE_MAX - ALIGNMENT) one->block = tgi_tensor_alloc(one->bytes + ALIGNMENT);
  if (!one->block) {
    free(one);
    return TGR_FAILURE;
  }
  one->address = (uint8_t *)(((uintptr_t)one->block + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
  one->host.handle = one;
  *made = &one->host;
  return TGR_OK;
}

int32_t tgi_memory_destroy(tgr_memory *host) {
  memory *one = (memory *)host;
  if (!one) return TGR_INVALID_ARGUMENT;
  tgi_tensor_free(one->block);
  free(one);
  return TGR_OK;
}

typedef struct reading {
  const memory *one;
  tg_error err;
  int failed;
} reading;

static void read_all(void *given) {
  reading *r = given;
  r->failed = tgi_tensor_read(r->one->address, r->one->bytes, &r->err);
}

/* Readers are noted as those of a run are: the next one brings its result, and waits for it. After an asynchronous run, whoever
 * reads waits. */
static int bring(const memory *one) {
  bool waits = !atomic_load(&one->asynchronous);
  if (!tgi_tensor_note(one->address, one->bytes, waits ? TGI_ON_HOST : TGI_LATER)) return 0;
  reading r;
  r.one = one;
  if (waits) tgi_run_begin(false);
  tgi_without_python(read_all, &r);
  if (waits) tgi_run_end();
  if (r.failed) tgi_log(TGI_ERROR, "tflgpu: %s", r.err.text);
  tgi_log_deliver();
  return r.failed;
}

/* Whoever writes may write a part, so the bytes are brought for all modes. */
int32_t tgi_memory_lock(tgr_memory *host, int32_t mode, void **address) {
  memory *one = (memory *)host;
  if (!one || !address) return TGR_INVALID_ARGUMENT;
  if (bring(one)) return TGR_FAILURE;
  tgi_lock();
  one->locks++;
  one->written |= mode != TGR_READ;
  tgi_unlock();
  *address = one->address;
  return TGR_OK;
}

static void is_written(const memory *one) { tgi_tensor_set(one->address, one->bytes, (tgi_written){.on_host = true}); }

/* Ends a lock where no holder has written; returns whether one has. */
static bool end_reading(memory *one) {
  tgi_lock();
  bool written = one->written;
  if (!written && one->locks) one->locks--;
  tgi_unlock();
  return written;
}

/* The runtime does not say which lock ends, so where several are held, each one's end counts as that of a writer. */
int32_t tgi_memory_unlock(tgr_memory *host) {
  memory *one = (memory *)host;
  if (!one) return TGR_INVALID_ARGUMENT;
  if (!end_reading(one)) return TGR_OK;
  is_written(one);
  tgi_lock();
  if (one->locks) one->locks--;
  one->written &= one->locks > 0;
  tgi_unlock();
  return TGR_OK;
}

int32_t tgi_memory_clear(tgr_memory *host) {
  const memory *one = (const memory *)host;
  if (!one) return TGR_INVALID_ARGUMENT;
  if (one->bytes) memset(one->address, 0, one->bytes);
  is_written(one);
  return TGR_OK;
}

/* ---- the tensors of a model -------------------------------------------------------------------------------------------- */

static tgr_buffers *buffers_of(tgl_context *context) {
  return context->get_external ? (tgr_buffers *)context->get_external(context, TGL_LITERT_BUFFERS) : NULL;
}

static const char *name_of(const tgl_tensor *tensor) { return tensor->name ? tensor->name : ""; }

static bool announce(const void *table, tgl_context *context, const tgl_tensor *tensor) {
  static const int32_t KINDS[] = {TGR_OURS, TGR_HOST_MEMORY};
  const tgr_runtime *runtime = table;
  tgr_requirements *made = NULL;
  tgr_buffers *all = buffers_of(context);
  if (!all) return false;
  int32_t status = runtime->create_requirements(2, KINDS, tensor->bytes, 0, NULL, &made);
  if (!status) status = made ? runtime->take_requirements(all, (const tgr_tensor *)tensor, made) : TGR_FAILURE;
  if (status)
    tgi_log(TGI_WARNING, "WARNING: tflgpu: LiteRT takes no buffers of the plugin for tensor \"%s\" (status %d), so it goes through "
                         "the CPU.", name_of(tensor), status);
  return !status;
}

static int32_t look(const tgr_runtime *runtime, tgr_buffer *buffer, tgi_lent *lent, memory **ours) {
  int32_t kind = 0;
  size_t bytes = 0;
  void *handle = NULL;
  if (runtime->get_kind(buffer, &kind)) return TGR_FAILURE;
  if (kind == TGR_OURS && !runtime->get_handle(buffer, &handle) && handle) {
    *ours = handle;
    *lent = (tgi_lent){.address = (*ours)->address, .bytes = (*ours)->bytes, .moves = true};
    return TGR_OK;
  }
  if (kind != TGR_HOST_MEMORY || runtime->get_bytes(buffer, &bytes)) return TGR_FAILURE;
  *lent = (tgi_lent){.bytes = bytes};
  return runtime->get_host_memory(buffer, &lent->address);
}

/* LiteRT-LM makes such buffers for what models write, unless its activations are float32, because other accelerators compute in
 * float16 then. */
static bool is_half(const tgr_runtime *runtime, tgr_buffer *buffer, const tgl_tensor *tensor) {
  tgr_type type = {0};
  return tensor->type == TGR_FLOAT32 && !runtime->get_type(buffer, &type) && type.element == TGR_FLOAT16;
}

static int find(const void *table, tgl_context *context, const tgl_tensor *tensor, bool is_written, tgi_lent *lent,
                tg_error *err) {
  const tgr_runtime *runtime = table;
  tgr_buffers *all = buffers_of(context);
  tgr_buffer *buffer = NULL;
  memory *ours = NULL;
  bool asynchronous = false;
  int32_t status = all ? runtime->find_buffer(all, (const tgr_tensor *)tensor, &buffer) : TGR_FAILURE;
  if (!status) status = look(runtime, buffer, lent, &ours);
  if (!status && is_half(runtime, buffer, tensor)) {
    lent->half = true;
    lent->moves = false;
  }
  if (!status && ours && is_written && !runtime->is_asynchronous(all, &asynchronous))
    atomic_store(&ours->asynchronous, asynchronous);
  if (buffer) runtime->release_buffer(buffer);
  if (status) return tgi_fail(err, "LiteRT has no buffer for tensor \"%s\" (status %d).", name_of(tensor), status);
  if (!lent->half || is_written) return 0;
  return tgi_fail(err, "Input tensor \"%s\" is float32, and its buffer is of float16. Make it for float32.", name_of(tensor));
}

/* LiteRT's Python describes memory of programs as vectors, so these are for any shape with as many elements. */
static bool is_for(int32_t found, const int32_t *extents, int32_t rank, const int32_t *shape) {
  int64_t count = 1;
  for (int32_t i = 0; i < rank; i++) count *= shape[i];
  if (found == 1 && extents[0] == count) return true;
  return found == rank && !memcmp(extents, shape, (size_t)rank * sizeof *shape);
}

/* Without a buffer, the runtime has given the tensor memory that TFLite takes away where a run determines the shape. */
static int takes(const void *table, tgl_context *context, const tgl_tensor *tensor, int32_t rank, const int32_t *shape,
                 tg_error *err) {
  static const char *WHY = "LiteRT's CompiledModel returns no outputs whose shape only a run determines: tensor";
  const tgr_runtime *runtime = table;
  tgr_buffers *all = buffers_of(context);
  tgr_buffer *buffer = NULL;
  tgr_type type = {0};
  char here[TGI_SHAPE_TEXT], there[TGI_SHAPE_TEXT];
  int32_t status = all ? runtime->find_buffer(all, (const tgr_tensor *)tensor, &buffer) : TGR_FAILURE;
  if (!status) status = runtime->get_type(buffer, &type);
  if (buffer) runtime->release_buffer(buffer);
  int32_t found = (int32_t)(type.layout & TGR_RANK);
  if (found > TGR_MOST_RANK) found = 0;
  if (!status && is_for(found, type.extents, rank, shape)) return 0;
  tgi_shape_text(rank, shape, here);
  tgi_shape_text(found, type.extents, there);
  return status ? tgi_fail(err, "%s \"%s\" has the shape %s in this run.", WHY, name_of(tensor), here)
                : tgi_fail(err, "%s \"%s\" has the shape %s in this run, and its buffer %s.", WHY, name_of(tensor), here, there);
}

const tgi_lender tgi_lender_of_litert = {announce, find, takes};
