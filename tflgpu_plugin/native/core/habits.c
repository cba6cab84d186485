/* Predicts who reads an output after a run, the host or the device. */
#include "core/tensors.h"

enum { FORGOTTEN = 4 };            /* runs without a reader, after which earlier readers are not expected again */

struct tgi_habit {
  atomic_size_t refs;
  atomic_int readers;              /* since the last run */
  atomic_int guess;
  atomic_int unread;               /* runs since somebody has read the output */
  atomic_ullong downloaded;
  atomic_ullong waited;            /* nanoseconds that reading the output took on the host since the last run */
};

tgi_habit *tgi_habit_create(void) {
  tgi_habit *habit = calloc(1, sizeof *habit);
  if (!habit) return NULL;
  habit->refs = 1;
  habit->guess = TGI_ON_DEVICE;
  return habit;
}

void tgi_habit_release(tgi_habit *habit) {
  if (habit && atomic_fetch_sub(&habit->refs, 1) == 1) free(habit);
}

void tgi_habit_retain(tgi_habit *habit) {
  if (habit) tgi_retain(habit);
}

void tgi_habit_note(tgi_habit *habit, int reader) {
  if (habit) atomic_fetch_or(&habit->readers, reader);
}

int tgi_habit_guess(tgi_habit *habit) {
  int readers = atomic_exchange(&habit->readers, 0);
  atomic_store(&habit->waited, 0);
  if (readers) atomic_store(&habit->unread, 0);
  else if (atomic_fetch_add(&habit->unread, 1) == FORGOTTEN) readers = TGI_ON_DEVICE;
  if (readers) atomic_store(&habit->guess, readers);
  return atomic_load(&habit->guess);
}

void tgi_habit_downloaded(tgi_habit *habit, uint64_t bytes, uint64_t nanoseconds) {
  if (!habit) return;
  atomic_fetch_add(&habit->downloaded, bytes);
  atomic_fetch_add(&habit->waited, nanoseconds);
}

uint64_t tgi_habit_bytes(const tgi_habit *habit) { return atomic_load(&habit->downloaded); }

uint64_t tgi_habit_nanoseconds(const tgi_habit *habit) { return atomic_load(&habit->waited); }
