/* Loading wgpu's library and finding its functions. */
#include "core/internal.h"

tgi_wgpu_table tgi_wgpu;

static int resolve(void *library, const char *path, tgi_wgpu_table *table, tg_error *err) {
#define TGI_RESOLVE(name)                                               \
  if (!(*(void **)(void *)&table->name = tgi_symbol(library, "wgpu" #name))) \
    return tgi_fail(err, "%s has no function wgpu" #name "; install wgpu>=0.32,<0.33.", path);
  TGI_WGPU_FUNCTIONS(TGI_RESOLVE, TGI_RESOLVE)
#undef TGI_RESOLVE
  return 0;
}

int tg_bind_wgpu(const char *path, tg_error *err) {
  static tgi_mutex lock = TGI_MUTEX;
  static bool bound;
  int status = 0;
  tgi_mutex_lock(&lock);
  if (!bound) {
    tgi_wgpu_table table;
    char reason[512];
    void *library = tgi_load(path, reason, sizeof reason);
    if (!library) status = tgi_fail(err, "%s cannot be loaded: %s", path, reason);
    else status = resolve(library, path, &table, err);
    if (!status) {
      tgi_wgpu = table;
      W(SetLogCallback)(tgi_on_log, NULL);
      bound = true;
    }
  }
  tgi_mutex_unlock(&lock);
  return status;
}
