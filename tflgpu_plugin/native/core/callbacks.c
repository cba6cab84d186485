/* The way from a host's thread into Python: open while the interpreter lives; and what hosts have made of ours. */
#include "core/internal.h"

static atomic_bool interrupted;

void tg_interrupted(void) { atomic_store(&interrupted, true); }

/* Nothing of Python is linked. This function sets a flag: the main thread raises KeyboardInterrupt when it is back in Python. */
static void interrupt_again(void) {
  void (*interrupt)(void) = (void (*)(void))tgi_process_symbol("PyErr_SetInterrupt");
  if (interrupt) interrupt();
}

bool tgi_python_enter(tgi_python *python, void *functions, tg_error *err) {
  if (tg_is_forked(err)) return false;
  tg_busy(1);
  tgi_lock();
  bool set = python->set;
  if (set) {
    memcpy(functions, python->functions, python->size);
    python->in_flight++;
  }
  tgi_unlock();
  if (!set) {
    tg_busy(-1);
    tgi_fail(err, "%sits Python side is not there (%s; or the process is exiting).", python->prefix, python->remedy);
  }
  return set;
}

void tgi_python_leave(tgi_python *python) {
  tgi_lock();
  python->in_flight--;
  tgi_unlock();
  tg_busy(-1);
  if (atomic_exchange(&interrupted, false)) interrupt_again();
}

static bool is_busy(const tgi_python *python) {
  tgi_lock();
  bool busy = python->in_flight > 0;
  tgi_unlock();
  return busy;
}

void tgi_python_set(tgi_python *python, const void *functions) {
  tgi_lock();
  python->set = functions != NULL;
  if (functions) memcpy(python->functions, functions, python->size);
  tgi_unlock();
  /* Once the gate is closed, or in a forked child, those in flight may never come back. */
  while (!functions && is_busy(python) && tgi_is_open()) tgi_sleep(1000);
}

/* ---- delegates and sessions ------------------------------------------------------------------------------------------- */

static tgi_client *clients;        /* that live; under tgi_lock */

void tgi_client_enlist(tgi_client *client) {
  tgi_lock();
  client->next = clients;
  clients = client;
  tgi_unlock();
}

void tgi_client_remove(tgi_client *client) {
  tgi_lock();
  tgi_client **at = &clients;
  while (*at && *at != client) at = &(*at)->next;
  if (*at) *at = client->next;
  tgi_unlock();
}

int64_t tgi_client_number(const tgi_client *client) {
  tgi_lock();
  const tgi_client *at = clients;
  while (at && at != client) at = at->next;
  int64_t number = at ? at->number : 0;
  tgi_unlock();
  return number;
}

int tg_is_live(int64_t number) {
  tgi_lock();
  const tgi_client *at = clients;
  while (at && at->number != number) at = at->next;
  tgi_unlock();
  return at != NULL;
}
