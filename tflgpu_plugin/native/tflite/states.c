/* States that stay on the device between runs.
 *
 * Hosts do not say when a program writes a variable tensor (reset_all_variables, set_tensor), so the host's memory of a kept state
 * holds a mark, which any of these overwrites; then the next run takes the state from there. Reads are announced by Python's
 * wrappers of the host (providers/tflite/variables.py). */
#include "tflite/internal.h"

/* Bit patterns that are NaN in every float type, and nonzero in every type. */
static const uint32_t MARK[] = {0x7fc5fe91, 0xffd7fca3, 0x7fcafd1d, 0xffe3ff47, 0x7ff1fdb9, 0xffcdfe65, 0x7fdbfc8f, 0xffe9fdd3};

static tg_kernel *keepers;         /* under tgi_lock */

static size_t marked_bytes(size_t bytes) { return bytes < sizeof MARK ? bytes : sizeof MARK; }

static bool is_marked(const void *data, size_t bytes) { return data && bytes && !memcmp(data, MARK, marked_bytes(bytes)); }

bool tgi_state_is_kept(const tg_kernel *kernel, const tgl_tensor *tensor) {
  return kernel->keeper && is_marked(tensor->data, tensor->bytes);
}

/* Fills the whole tensor, so that whoever reads it without notice cannot take it for numbers. */
static void put_mark(const tgl_tensor *tensor) {
  for (size_t at = 0; at < tensor->bytes; at += sizeof MARK)
    memcpy((uint8_t *)tensor->data + at, MARK, marked_bytes(tensor->bytes - at));
}

static void set_keeper(tg_kernel *kernel, tg_replay *replay) {
  tgi_lock();
  tg_kernel **at = &keepers;
  tg_replay *before = kernel->keeper;
  while (*at && *at != kernel) at = &(*at)->next_keeper;
  if (*at && !replay) *at = kernel->next_keeper;
  if (!*at && replay) *at = kernel;
  if (!before && replay) kernel->next_keeper = NULL;
  kernel->keeper = replay;
  tgi_unlock();
  tg_replay_release(before);
}

void tgi_states_keep(tg_kernel *kernel, tgl_context *context, tg_replay *replay) {
  tgi_lock();
  for (size_t i = 0; i < kernel->base.arity.states; i++) kernel->kept_at[i] = context->tensors[kernel->states[i]].data;
  tgi_unlock();
  for (size_t i = 0; i < kernel->base.arity.states; i++) {
    const tgl_tensor *tensor = &context->tensors[kernel->states[i]];
    if (!is_marked(tensor->data, tensor->bytes)) put_mark(tensor);
  }
  if (kernel->keeper == replay) return;
  tgi_retain(replay);
  set_keeper(kernel, replay);
}

static int fetch(tg_kernel *kernel, size_t index, void *data, size_t bytes, tg_error *err) {
  if (tg_replay_read_output(kernel->keeper, kernel->keeper->output_count + index, data, bytes, err)) return 1;
  atomic_fetch_add(&kernel->base.downloaded, bytes);
  return 0;
}

void tgi_states_forget(tg_kernel *kernel) {
  if (kernel->keeper) set_keeper(kernel, NULL);
}

int tgi_states_fetch(tg_kernel *kernel, tgl_context *context, tg_error *err) {
  tg_error reason = {0};
  for (size_t i = 0; kernel->keeper && i < kernel->base.arity.states; i++) {
    const tgl_tensor *tensor = &context->tensors[kernel->states[i]];
    if (!tgi_state_is_kept(kernel, tensor)) continue;
    if (fetch(kernel, i, tensor->data, tensor->bytes, &reason))
      return tgi_fail(err, "The variable \"%s\" cannot be fetched from the GPU: %s Reset the variables to go on without it.",
                      tensor->name ? tensor->name : "", reason.text);
  }
  tgi_states_forget(kernel);
  return 0;
}

/* Finds the kernel with a kept state whose memory on the host is here, and retains it. */
static tg_kernel *find_keeper(const void *data, size_t *index) {
  tg_kernel *found = NULL;
  tgi_lock();
  for (tg_kernel *kernel = keepers; kernel && !found; kernel = kernel->next_keeper)
    for (*index = 0; !found && *index < kernel->base.arity.states; *index += !found)
      if (kernel->kept_at[*index] == data) found = kernel;
  if (found) tgi_retain(&found->base);
  tgi_unlock();
  return found;
}

int tg_tflite_show_state(void *data, uint64_t bytes, tg_error *err) {
  size_t index;
  if (bytes < TGI_LEAST_KEPT || !is_marked(data, bytes)) return 0;  /* any value may begin as the mark does */
  tg_kernel *kernel = find_keeper(data, &index);
  if (!kernel) return tgi_fail(err, "This variable is on the GPU; it cannot be read here.");
  int failed = fetch(kernel, index, data, bytes, err);
  tg_kernel_release(kernel);
  return failed;
}
