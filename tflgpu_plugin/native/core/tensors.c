/* Tensors that a host keeps on the GPU: records where their bytes are, and copies them. */
#include "core/tensor_blocks.h"

/* ---- moving bytes ---------------------------------------------------------------------------------------------------- */

/* A tensor whose newest bytes are not in its own host memory. */
typedef struct stale {
  tg_buffer *buffer;               /* retained; or NULL */
  tgi_readback *readback;          /* the same bytes on their way to the host, retained; or NULL */
  const uint8_t *lender;           /* or NULL */
  tg_replay *replay;               /* the replay that owns the lender's memory, retained; or NULL */
  uint8_t *memory;                 /* NULL: there is none */
  uint64_t bytes;
} stale;

static int read_buffer(tg_buffer *buffer, void *to, tg_error *err) {
  WGPUBufferUsage usage = WGPUBufferUsage_MapRead | WGPUBufferUsage_CopyDst;
  tg_buffer *staging = NULL;
  if (tgi_enter(err)) return 1;
  int failed = tgi_check_alive(buffer->device, err) ||
               !(staging = tgi_staging_create(buffer->device, buffer->bytes, usage, err)) ||
               tgi_buffer_read(buffer, staging, to, buffer->bytes, err);
  tg_buffer_release(staging);
  tgi_leave();
  if (!failed) tgi_tensors_moved(0, buffer->bytes);
  return failed;
}

/* Returns the tensor if its bytes are still where they were found, else NULL; with tgi_lock held. */
static tgi_tensor *again(stale found) {
  tgi_tensor *one = tgi_tensor_find(tgi_range_of(found.memory, found.bytes), tgi_tensor_is_exact);
  bool same = one && !one->on_host && one->lender == found.lender && one->readback == found.readback;
  return same && (!found.buffer || (one->on_device && one->buffer == found.buffer)) ? one : NULL;
}

static bool is_still(stale found) {
  tgi_lock();
  bool still = again(found) != NULL;
  tgi_unlock();
  return still;
}

static void is_on_host(stale found, uint64_t waited) {
  tgi_lock();
  tgi_tensor *one = again(found);
  if (one) {
    one->on_host = true;
    one->lender = NULL;
    one->replay = NULL;
    if (one->readback) tgi_readback_release(one->readback);   /* not the last reference */
    one->readback = NULL;
    if (found.buffer) tgi_habit_downloaded(one->habit, found.bytes, waited);
  }
  tgi_unlock();
}

/* Copies bytes from borrowed memory to `to`. Takes the lock of the replay that owns the memory, which may be about to unmap it. */
static bool copy_lent(stale found, void *to) {
  if (found.replay) tgi_mutex_lock(&found.replay->lent_lock);
  bool still = is_still(found);
  if (still) memcpy(to, found.lender, found.bytes);
  if (still && to == found.memory) is_on_host(found, 0);
  if (found.replay) tgi_mutex_unlock(&found.replay->lent_lock);
  return still;
}

static void drop(stale found) {
  tg_buffer_release(found.buffer);
  tgi_readback_release(found.readback);
  tg_replay_release(found.replay);
}

static int fetch(stale found, uint64_t *waited, tg_error *err) {
  uint64_t start = tgi_now();
  int failed = found.readback ? tgi_readback_take(found.readback, found.memory, err)
                              : read_buffer(found.buffer, found.memory, err);
  tgi_count_time(*waited = tgi_now() - start);
  return failed;
}

/* Copies the whole tensor to its own host memory, and releases the references in `found`. */
static int bring(stale found, tg_error *err) {
  int failed = 0;
  uint64_t waited;
  if (!found.buffer) copy_lent(found, found.memory);
  else if (!(failed = fetch(found, &waited, err))) is_on_host(found, waited);
  drop(found);
  return failed;
}

static stale stale_of(const tgi_tensor *one, uint8_t *memory) {
  stale found = {.lender = one->lender, .replay = one->replay, .memory = memory + one->offset, .bytes = one->bytes};
  if (!one->lender) tgi_retain(found.buffer = one->buffer);
  if (!one->lender && one->readback) tgi_readback_retain(found.readback = one->readback);
  if (found.replay) tgi_retain(found.replay);
  return found;
}

static int present_reader(void) { return tgi_run_is_present() ? TGI_ON_HOST : TGI_LATER; }

/* Notes that the host reads what an output wrote. */
static void note_host(const tgi_tensor *one) { tgi_habit_note(one->habit, present_reader()); }

/* Returns one of the tensors in this range whose bytes are elsewhere. beyond: considers only tensors that extend beyond the
 * range. */
static stale find_stale(const void *address, uint64_t bytes, bool beyond) {
  stale found = {0};
  tgi_lock();
  tgi_range r = tgi_range_of(address, bytes);
  for (const tgi_tensor *one = r.block ? r.block->tensors : NULL; one && !found.memory; one = one->next) {
    bool within = r.offset <= one->offset && one->offset + one->bytes <= r.offset + r.bytes;
    if (!tgi_tensor_overlaps(one, r) || one->on_host || (beyond && within)) continue;
    note_host(one);
    found = stale_of(one, r.block->memory);
  }
  tgi_unlock();
  return found;
}

int tgi_tensor_settle(const void *address, uint64_t bytes, bool beyond, tg_error *err) {
  stale found;
  int failed = 0;
  while (!failed && (found = find_stale(address, bytes, beyond)).memory) failed = bring(found, err);
  return failed;
}

bool tgi_tensor_note(const void *address, uint64_t bytes, int reader) {
  bool elsewhere = false;
  tgi_lock();
  tgi_range r = tgi_range_of(address, bytes);
  for (const tgi_tensor *one = r.block ? r.block->tensors : NULL; one; one = one->next) {
    if (!tgi_tensor_overlaps(one, r)) continue;
    tgi_habit_note(one->habit, reader);
    elsewhere |= !one->on_host;
  }
  tgi_unlock();
  return elsewhere;
}

int tgi_tensor_read(const void *address, uint64_t bytes, tg_error *err) {
  return tgi_tensor_note(address, bytes, present_reader()) ? tgi_tensor_settle(address, bytes, false, err) : 0;
}

/* Sets the tensor's new buffer, or none for an output that stays in host memory; returns an old buffer to release, if any. */
static tg_buffer *replace_buffer(tgi_tensor *one, tg_buffer *buffer) {
  tg_buffer *old = one->buffer, *garbage = one->spare;
  if (buffer == old || (!buffer && !one->habit)) return NULL;
  if ((one->buffer = buffer)) tgi_retain(buffer);
  if (garbage && garbage == buffer) {
    atomic_fetch_sub(&buffer->refs, 1);
    garbage = one->spare = NULL;
  }
  if (!old || atomic_load(&old->refs) == 1) return old;
  one->spare = old;                /* in use: the run that wrote `buffer` reads the old one */
  return garbage;
}

/* Returns memory for a new tensor where none is exactly there, without tgi_lock on entry and with it on return. */
static tgi_tensor *make_room(const void *address, uint64_t bytes) {
  tgi_lock();
  tgi_range r = tgi_range_of(address, bytes);
  if (!r.block || tgi_tensor_find(r, tgi_tensor_is_exact)) return NULL;
  tgi_unlock();
  tgi_tensor *made = calloc(1, sizeof *made);
  tgi_lock();
  return made;
}

/* If only a part of a tensor is written, the caller has copied the rest to host memory before, see tgi_tensor_settle. */
void tgi_tensor_set(void *address, uint64_t bytes, tgi_written what) {
  tgi_tensor *made = make_room(address, bytes), *others = NULL;
  tg_buffer *garbage = NULL;
  tgi_readback *unread = NULL;
  tgi_range r = tgi_range_of(address, bytes);
  if (r.block) others = tgi_tensor_remove_others(r);
  tgi_tensor *one = tgi_tensor_find(r, tgi_tensor_is_exact);
  if (!one && r.block && (one = made)) {
    *made = (tgi_tensor){.next = r.block->tensors, .offset = r.offset, .bytes = bytes};
    r.block->tensors = made;
    made = NULL;
  }
  if (one) {
    tgi_habit_release(one->habit);
    tgi_habit_retain(one->habit = what.habit);
    garbage = replace_buffer(one, what.buffer);
    unread = one->readback;
    if ((one->readback = what.readback)) tgi_readback_retain(what.readback);
    one->on_device = what.buffer != NULL;
    one->on_host = what.on_host;
    one->lender = what.lender;
    one->replay = what.replay;
    one->run = what.run;
    one->used = false;
  }
  tgi_unlock();
  free(made);
  tgi_tensors_free(others);
  tgi_readback_release(unread);
  tg_buffer_release(garbage);
}

/* Copies a tensor on the device by reference: `to` refers to the same buffer. A run that writes to either makes a new buffer. */
static bool share(void *to, const void *from, uint64_t bytes) {
  tg_buffer *buffer = NULL;
  tgi_lock();
  tgi_tensor *one = tgi_tensor_find(tgi_range_of(from, bytes), tgi_tensor_is_exact);
  if (one && one->on_device && tgi_range_of(to, bytes).block) {
    tgi_habit_note(one->habit, TGI_ON_DEVICE);
    tgi_retain(buffer = one->buffer);
  }
  tgi_unlock();
  if (!buffer) return false;
  tgi_tensor_set(to, bytes, (tgi_written){.buffer = buffer});
  tg_buffer_release(buffer);
  return true;
}

/* Copies a tensor whose bytes are in borrowed memory; returns false if they are at its own address or on a device. */
static bool copy_from_lender(void *to, const void *from, uint64_t bytes) {
  stale found = {0};
  tgi_lock();
  tgi_range r = tgi_range_of(from, bytes);
  const tgi_tensor *one = tgi_tensor_find(r, tgi_tensor_is_exact);
  if (one && one->lender) {
    found = stale_of(one, r.block->memory);
    note_host(one);
  }
  tgi_unlock();
  bool copied = found.memory && copy_lent(found, to);
  drop(found);
  return copied;
}

int tgi_tensor_copy(void *to, const void *from, uint64_t bytes, tg_error *err) {
  if (!bytes || to == from) return 0;
  if (tgi_tensor_settle(to, bytes, true, err)) return 1;
  if (share(to, from, bytes)) return 0;
  if (!copy_from_lender(to, from, bytes)) {
    if (tgi_tensor_read(from, bytes, err)) return 1;
    memcpy(to, from, bytes);
  }
  tgi_tensor_set(to, bytes, (tgi_written){.on_host = true});
  return 0;
}

/* ---- inputs and outputs that need no copy ------------------------------------------------------------------------------- */

enum { DEEP = 4, MOST = 64, LEAST = 4096 };      /* nested runs; tensors per run; bytes below which a copy is cheaper */

/* Tensors of a run on this thread that refer to borrowed memory. */
typedef struct loans {
  uint64_t run;
  bool borrows;
  size_t count;
  struct {
    void *address;
    uint64_t bytes;
    tg_replay *replay;             /* retained; or NULL */
  } list[MOST];
} loans;

static _Thread_local loans stack[DEEP];
static _Thread_local size_t depth;

static loans *present(void) { return depth && depth <= DEEP ? &stack[depth - 1] : NULL; }

bool tgi_run_is_present(void) { return depth; }

void tgi_run_begin(bool borrows) {
  static atomic_ullong runs;
  depth++;
  loans *begins = present();
  if (!begins) return;
  begins->run = atomic_fetch_add(&runs, 1) + 1;
  begins->borrows = borrows;
  begins->count = 0;
}

/* Copies a tensor that outlives the run from borrowed memory to its own. */
static void repay(void *address, uint64_t bytes, uint64_t run) {
  tg_error ignored;
  stale found = {0};
  tgi_lock();
  tgi_range r = tgi_range_of(address, bytes);
  const tgi_tensor *one = tgi_tensor_find(r, tgi_tensor_is_exact);
  if (one && one->lender && one->run == run) found = stale_of(one, r.block->memory);
  tgi_unlock();
  if (found.memory) bring(found, &ignored);
}

void tgi_run_end(void) {
  loans *ends = present();
  while (ends && ends->count) {
    ends->count--;
    repay(ends->list[ends->count].address, ends->list[ends->count].bytes, ends->run);
    tg_replay_release(ends->list[ends->count].replay);
  }
  if (depth) depth--;
}

static void add_loan(loans *to, void *address, uint64_t bytes, tg_replay *replay) {
  to->list[to->count].address = address;
  to->list[to->count].bytes = bytes;
  to->list[to->count++].replay = replay;
}

bool tgi_tensor_borrow(void *to, const void *from, uint64_t bytes) {
  loans *now = present();
  tg_error ignored;
  if (!now || !now->borrows || now->count == MOST || bytes < LEAST) return false;
  if (tgi_tensor_is_known(from) || !tgi_tensor_is_known(to) || tgi_tensor_settle(to, bytes, true, &ignored)) return false;
  add_loan(now, to, bytes, NULL);
  tgi_tensor_set(to, bytes, (tgi_written){.lender = from, .run = now->run});
  return true;
}

bool tgi_tensor_may_stay(const tg_port *port) {
  return present() && port->host && !port->device && port->bytes >= LEAST && tgi_tensor_is_known(port->host);
}

void tgi_tensor_stay(void *address, const uint8_t *mapped, uint64_t bytes, tg_replay *replay) {
  loans *now = present();
  tgi_tensor_set(address, bytes, (tgi_written){.lender = mapped, .replay = replay, .run = now->run});
  if (now->count == MOST) {
    repay(address, bytes, now->run);
    return;
  }
  tgi_retain(replay);
  add_loan(now, address, bytes, replay);
}

void tgi_tensor_take_back(void *address, const uint8_t *mapped, uint64_t bytes) {
  stale found = {0};
  tgi_lock();
  tgi_range r = tgi_range_of(address, bytes);
  const tgi_tensor *one = tgi_tensor_find(r, tgi_tensor_is_exact);
  if (one && one->lender == mapped) found = stale_of(one, r.block->memory);
  tgi_unlock();
  if (found.memory) copy_lent(found, found.memory);
  drop(found);
}
