/* Memory for tensors that a host keeps on the GPU: allocates it, and keeps freed memory for reuse. */
#include "core/tensor_blocks.h"

enum { MOST_KEPT = 256 };          /* blocks */

/* All under tgi_lock. */
static struct {
  tgi_block **list;                /* blocks in use, sorted by address */
  size_t count, room;
  tgi_block *kept;
  tg_tensor_state state;
} all;

/* ---- tables, under tgi_lock ------------------------------------------------------------------------------------------ */

static size_t position(const uint8_t *address) {
  size_t low = 0, high = all.count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (all.list[middle]->memory <= address) low = middle + 1;
    else high = middle;
  }
  return low;
}

/* Returns the block in use that contains this address, or NULL. */
static tgi_block *block_of(const void *address) {
  size_t at = position(address);
  tgi_block *found = at ? all.list[at - 1] : NULL;
  return found && (size_t)((const uint8_t *)address - found->memory) < found->bytes ? found : NULL;
}

tgi_range tgi_range_of(const void *address, uint64_t bytes) {
  tgi_block *found = bytes ? block_of(address) : NULL;
  return (tgi_range){found, found ? (uint64_t)((const uint8_t *)address - found->memory) : 0, bytes};
}

bool tgi_tensor_is_known(const void *address) {
  tgi_lock();
  bool known = block_of(address) != NULL;
  tgi_unlock();
  return known;
}

void tgi_tensors_free(tgi_tensor *list) {
  for (tgi_tensor *next; list; list = next) {
    next = list->next;
    tg_buffer_release(list->buffer);
    tg_buffer_release(list->spare);
    tg_buffer_release(list->staging);
    tgi_readback_release(list->readback);
    tgi_habit_release(list->habit);
    free(list);
  }
}

static void free_blocks(tgi_block *list) {
  for (tgi_block *next; list; list = next) {
    next = list->next;
    tgi_tensors_free(list->tensors);
    free(list->memory);
    free(list);
  }
}

/* ---- the tensors of a block, under tgi_lock ----------------------------------------------------------------------------- */

bool tgi_tensor_overlaps(const tgi_tensor *one, tgi_range r) {
  return one->offset < r.offset + r.bytes && r.offset < one->offset + one->bytes;
}

bool tgi_tensor_is_exact(const tgi_tensor *one, tgi_range r) { return one->offset == r.offset && one->bytes == r.bytes; }

tgi_tensor *tgi_tensor_find(tgi_range r, bool (*suits)(const tgi_tensor *, tgi_range)) {
  tgi_tensor *one = r.block ? r.block->tensors : NULL;
  while (one && !suits(one, r)) one = one->next;
  return one;
}

tgi_tensor *tgi_tensor_remove_others(tgi_range r) {
  tgi_tensor *garbage = NULL;
  for (tgi_tensor **at = &r.block->tensors; *at;) {
    tgi_tensor *one = *at;
    if (!tgi_tensor_overlaps(one, r) || tgi_tensor_is_exact(one, r)) {
      at = &one->next;
      continue;
    }
    *at = one->next;
    one->next = garbage;
    garbage = one;
  }
  return garbage;
}

/* ---- memory ---------------------------------------------------------------------------------------------------------- */

/* Rounds a size up by at most an eighth, so that freed blocks also fit tensors that are a little larger or smaller. */
static size_t block_bytes(size_t bytes) {
  size_t step = 64;
  while (step < bytes / 16) step *= 2;
  return tgi_round_up(bytes, step);
}

static tgi_block *make_block(size_t bytes) {
  tgi_block *made = calloc(1, sizeof *made);
  if (made && (made->memory = malloc(bytes))) {
    made->bytes = bytes;
    return made;
  }
  free(made);
  return NULL;
}

static tgi_block *take_kept(size_t bytes) {
  tgi_block **at = &all.kept, *found;
  while (*at && (*at)->bytes != bytes) at = &(*at)->next;
  if (!(found = *at)) return NULL;
  *at = found->next;
  all.state.kept_bytes -= bytes;
  all.state.kept_blocks--;
  return found;
}

static bool enlist(tgi_block *made) {
  if (all.count == all.room) {
    size_t room = 2 * all.room + 64;
    tgi_block **larger = realloc(all.list, room * sizeof(tgi_block *));
    if (!larger) return false;
    all.list = larger;
    all.room = room;
  }
  size_t at = position(made->memory);
  memmove(all.list + at + 1, all.list + at, (all.count - at) * sizeof(tgi_block *));
  all.list[at] = made;
  all.count++;
  all.state.blocks++;
  all.state.bytes += made->bytes;
  if (all.state.bytes > all.state.most_bytes) all.state.most_bytes = all.state.bytes;
  return true;
}

void *tgi_tensor_alloc(size_t bytes) {
  if (bytes > SIZE_MAX / 2) return NULL;
  size_t rounded = block_bytes(bytes ? bytes : 1);
  tgi_lock();
  tgi_block *made = take_kept(rounded);
  tgi_unlock();
  if (!made && !(made = make_block(rounded))) return NULL;
  uint8_t *memory = made->memory;
  tgi_lock();
  bool listed = enlist(made);
  tgi_unlock();
  if (listed) return memory;
  free_blocks(made);
  return NULL;
}

/* Removes the oldest blocks kept for reuse until they are within the limits; returns them. Under the lock. */
static tgi_block *cut(size_t most_blocks, uint64_t most_bytes) {
  tgi_block **at = &all.kept;
  uint64_t bytes = 0;
  size_t blocks = 0;
  for (; *at && blocks < most_blocks && bytes + (*at)->bytes <= most_bytes; at = &(*at)->next) {
    bytes += (*at)->bytes;
    blocks++;
  }
  tgi_block *rest = *at;
  *at = NULL;
  all.state.kept_bytes = bytes;
  all.state.kept_blocks = blocks;
  return rest;
}

/* Marks the contents of a freed block as meaningless. Its device buffers are kept for the next tensors at the same place. */
static void forget(tgi_block *freed) {
  for (tgi_tensor *one = freed->tensors; one; one = one->next) {
    one->on_host = true;
    one->on_device = one->used = false;
    one->lender = NULL;
    one->replay = NULL;
    tgi_habit_release(one->habit);
    one->habit = NULL;
  }
}

void tgi_tensor_free(void *address) {
  tgi_block *rest = NULL;
  tgi_lock();
  size_t at = position(address);
  tgi_block *freed = at ? all.list[at - 1] : NULL;
  if (freed && freed->memory == address) {
    memmove(all.list + at - 1, all.list + at, (all.count - at) * sizeof(tgi_block *));
    all.count--;
    all.state.blocks--;
    all.state.bytes -= freed->bytes;
    forget(freed);
    freed->next = all.kept;
    all.kept = freed;
    rest = cut(MOST_KEPT, all.state.most_bytes);
  }
  tgi_unlock();
  free_blocks(rest);
}

void tgi_tensor_shrink(void) {
  tgi_lock();
  tgi_block *rest = cut(0, 0);
  all.state.most_bytes = all.state.bytes;
  tgi_unlock();
  free_blocks(rest);
}

void tgi_tensors_moved(uint64_t up, uint64_t down) {
  tgi_lock();
  all.state.uploaded_bytes += up;
  all.state.downloaded_bytes += down;
  tgi_unlock();
}

/* ---- figures ---------------------------------------------------------------------------------------------------------- */

static uint64_t device_bytes(const tgi_block *one) {
  uint64_t bytes = 0;
  for (const tgi_tensor *t = one->tensors; t; t = t->next)
    bytes += (t->buffer ? t->buffer->bytes : 0) + (t->spare ? t->spare->bytes : 0) + (t->staging ? t->staging->bytes : 0);
  return bytes;
}

void tg_tensor_get_state(tg_tensor_state *out) {
  tgi_lock();
  *out = all.state;
  for (size_t i = 0; i < all.count; i++) out->device_bytes += device_bytes(all.list[i]);
  for (const tgi_block *one = all.kept; one; one = one->next) out->device_bytes += device_bytes(one);
  tgi_unlock();
}
