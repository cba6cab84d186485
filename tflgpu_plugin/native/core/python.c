/* Calls from a host's thread into Python, which are possible as long as the interpreter; and the list of clients. */
#include "core/internal.h"

static bool enter(tgi_python *python, void *functions, tg_error *err) {
  if (tg_is_forked(err)) return false;
  tg_busy(1);
  tgi_lock();
  bool set = python->set;
  if (set && functions) memcpy(functions, python->functions, python->size);
  if (set) atomic_fetch_add(&python->in_flight, 1);
  tgi_unlock();
  if (set) return true;
  tg_busy(-1);
  return !tgi_fail(err, "%sits Python side is not loaded (%s; or the process is exiting).", python->prefix, python->remedy);
}

bool tgi_python_call(tgi_python *python, void *functions, void (*work)(void *), void *call, tg_error *err) {
  if (!enter(python, functions, err)) return false;
  tgi_run_on_helper(work, call);
  atomic_fetch_sub(&python->in_flight, 1);
  tg_busy(-1);
  return true;
}

/* A .pth file may have loaded this library without the package. */
static void import_package(void *unused) {
  int (*initialized)(void) = (int (*)(void))tgi_process_symbol("Py_IsInitialized");
  int (*ensure)(void) = (int (*)(void))tgi_process_symbol("PyGILState_Ensure");
  void (*release)(int) = (void (*)(int))tgi_process_symbol("PyGILState_Release");
  int (*run)(const char *) = (int (*)(const char *))tgi_process_symbol("PyRun_SimpleString");
  if (!initialized || !ensure || !release || !run || !initialized()) return;
  int state = ensure();
  run("__import__('tflgpu_plugin')");
  release(state);
}

void tgi_python_import(void) { tgi_run_on_helper(import_package, NULL); }

void tgi_python_set(tgi_python *python, const void *functions) {
  tgi_lock();
  python->set = functions != NULL;
  if (functions) memcpy(python->functions, functions, python->size);
  tgi_unlock();
  /* Once the gate is closed, or in a forked child, callbacks in flight may never return. */
  while (!functions && atomic_load(&python->in_flight) && tgi_is_open()) tgi_sleep(1000);
}

static tgi_client *clients;        /* the clients that exist; under tgi_lock */

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

/* Returns the client with this address, or with this number. */
static const tgi_client *find(const tgi_client *client, int64_t number) {
  const tgi_client *at = clients;
  while (at && at != client && at->number != number) at = at->next;
  return at;
}

int64_t tgi_client_number(const tgi_client *client) {
  tgi_lock();
  const tgi_client *found = find(client, 0);
  int64_t number = found ? found->number : 0;
  tgi_unlock();
  return number;
}

int tg_is_live(int64_t number) {
  tgi_lock();
  const tgi_client *found = find(NULL, number);
  tgi_unlock();
  return found != NULL;
}
