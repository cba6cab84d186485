/* The plans of a kernel by input shapes: the 8 most recently used. */
#include "internal_tflite.h"

/* ---- shapes ------------------------------------------------------------------------------------------------------------- */

static size_t rank_of(const tgl_tensor *tensor) { return tensor->dims ? (size_t)tensor->dims->size : 0; }

int32_t *tgi_shapes_of(const tgl_context *context, const int32_t *tensors, size_t tensor_count, size_t *count) {
  size_t used = 0, total = 0;
  for (size_t i = 0; i < tensor_count; i++) total += 1 + rank_of(&context->tensors[tensors[i]]);
  int32_t *shapes = malloc((total + 1) * sizeof *shapes);
  for (size_t i = 0; shapes && i < tensor_count; i++) {
    const tgl_tensor *tensor = &context->tensors[tensors[i]];
    size_t rank = rank_of(tensor);
    shapes[used++] = (int32_t)rank;
    if (rank) memcpy(shapes + used, tensor->dims->data, rank * sizeof *shapes);
    used += rank;
  }
  *count = total;
  return shapes;
}

void tgi_shape_text(const int32_t *shape, char *text, size_t size) {
  size_t used = (size_t)snprintf(text, size, "[");
  for (int32_t i = 0; i < shape[0] && used + 16 < size; i++)
    used += (size_t)snprintf(text + used, size - used, i ? ", %d" : "%d", shape[i + 1]);
  snprintf(text + used, size - used, "]");
}

/* The flat list must describe as many tensors as the kernel has. */
static bool well_formed(const int32_t *shapes, size_t count, size_t tensor_count) {
  size_t at = 0;
  for (size_t i = 0; i < tensor_count; i++) {
    if (at >= count || shapes[at] < 0) return false;
    at += 1 + (size_t)shapes[at];
  }
  return at == count;
}

/* ---- one entry ---------------------------------------------------------------------------------------------------------- */

void tgi_entry_release(tgi_entry *entry) {
  if (!entry || atomic_fetch_sub(&entry->refs, 1) != 1) return;
  tg_replay_release(entry->replay);
  free(entry->shapes);
  free(entry->output_shapes);
  free(entry->reason);
  free(entry);
}

static int32_t *copy(const int32_t *values, size_t count) {
  int32_t *list = malloc((count + 1) * sizeof *list);
  if (list && count) memcpy(list, values, count * sizeof *list);
  return list;
}

static tgi_entry *make_entry(const int32_t *shapes, size_t shape_count, const int32_t *output_shapes,
                             size_t output_shape_count, tg_replay *replay, const char *reason) {
  tgi_entry *entry = calloc(1, sizeof *entry);
  if (!entry) return NULL;
  entry->refs = 1;
  entry->shapes = copy(shapes, shape_count);
  entry->shape_count = shape_count;
  entry->output_shapes = copy(output_shapes, output_shape_count);
  entry->output_shape_count = output_shape_count;
  entry->reason = strdup(reason ? reason : "no reason was given");
  if ((entry->replay = replay)) tg_replay_retain(replay);
  if (entry->shapes && entry->output_shapes && entry->reason) return entry;
  tgi_entry_release(entry);
  return NULL;
}

/* ---- the list ----------------------------------------------------------------------------------------------------------- */

static size_t index_of(const tg_kernel *kernel, const int32_t *shapes, size_t count) {
  size_t i = 0;
  for (; i < kernel->entry_count; i++) {
    const tgi_entry *entry = kernel->entries[i];
    if (entry->shape_count == count && !memcmp(entry->shapes, shapes, count * sizeof *shapes)) break;
  }
  return i;
}

tgi_entry *tgi_entry_find(tg_kernel *kernel, const tgl_context *context) {
  size_t count;
  int32_t *shapes = tgi_shapes_of(context, kernel->inputs, kernel->input_count, &count);
  if (!shapes) return NULL;
  tgi_entry *entry = NULL;
  tgi_lock();
  size_t i = index_of(kernel, shapes, count);
  if (i < kernel->entry_count) {
    entry = kernel->entries[i];
    entry->used = ++kernel->clock;
    atomic_fetch_add(&entry->refs, 1);
  }
  tgi_unlock();
  free(shapes);
  return entry;
}

static size_t oldest(const tg_kernel *kernel) {
  size_t found = 0;
  for (size_t i = 1; i < kernel->entry_count; i++)
    if (kernel->entries[i]->used < kernel->entries[found]->used) found = i;
  return found;
}

/* Takes over the caller's reference. */
static void insert(tg_kernel *kernel, tgi_entry *entry) {
  tgi_entry *dropped = NULL;
  tgi_lock();
  size_t i = index_of(kernel, entry->shapes, entry->shape_count);
  if (i == kernel->entry_count && i == TGI_MAX_ENTRIES) i = oldest(kernel);
  if (i == kernel->entry_count) kernel->entry_count++;
  else dropped = kernel->entries[i];
  kernel->entries[i] = entry;
  entry->used = ++kernel->clock;
  tgi_unlock();
  tgi_entry_release(dropped);
}

void tgi_entries_drop(tg_kernel *kernel) {
  tgi_entry *dropped[TGI_MAX_ENTRIES];
  tgi_lock();
  size_t count = kernel->entry_count;
  memcpy(dropped, kernel->entries, count * sizeof *dropped);
  kernel->entry_count = 0;
  tg_replay *newest = kernel->newest;
  kernel->newest = NULL;
  tgi_unlock();
  for (size_t i = 0; i < count; i++) tgi_entry_release(dropped[i]);
  tg_replay_release(newest);
}

void tgi_entry_refuse(tg_kernel *kernel, const tgl_context *context, const char *reason) {
  size_t count;
  int32_t *shapes = tgi_shapes_of(context, kernel->inputs, kernel->input_count, &count);
  tgi_entry *entry = shapes ? make_entry(shapes, count, NULL, 0, NULL, reason) : NULL;
  if (entry) insert(kernel, entry);
  free(shapes);
}

static int check_replay(const tg_kernel *kernel, const tg_replay *replay, char *err, size_t err_size) {
  if (replay->input_count == kernel->input_count && replay->output_count == kernel->output_count &&
      replay->state_count == kernel->state_count)
    return 0;
  return tgi_fail(err, err_size,
                  "The plan has %zu inputs, %zu outputs and %zu states, but its island has %zu, %zu and %zu.",
                  replay->input_count, replay->output_count, replay->state_count, kernel->input_count,
                  kernel->output_count, kernel->state_count);
}

int tg_kernel_add(tg_kernel *kernel, const int32_t *shapes, size_t shape_count, const int32_t *output_shapes,
                  size_t output_shape_count, tg_replay *replay, const char *reason, char *err, size_t err_size) {
  if (!well_formed(shapes, shape_count, kernel->input_count))
    return tgi_fail(err, err_size, "The list of input shapes does not describe %zu tensors.", kernel->input_count);
  if (replay && !well_formed(output_shapes, output_shape_count, kernel->output_count))
    return tgi_fail(err, err_size, "The list of output shapes does not describe %zu tensors.", kernel->output_count);
  if (replay && check_replay(kernel, replay, err, err_size)) return 1;
  tgi_entry *entry = make_entry(shapes, shape_count, output_shapes, replay ? output_shape_count : 0, replay, reason);
  if (!entry) return tgi_fail(err, err_size, "Not enough memory to keep a plan.");
  insert(kernel, entry);
  return 0;
}
