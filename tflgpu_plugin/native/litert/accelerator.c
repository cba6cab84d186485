/* The accelerator of LiteRT's CompiledModel: its delegate is that of the TFLite interpreters. */
#include "litert/internal.h"

_Static_assert(sizeof(tgr_definition) == 200 && offsetof(tgr_definition, handlers) == 64, "LiteRT reads this layout");
_Static_assert(offsetof(tgr_runtime, wrap_delegate) == 144, "LiteRT writes this layout");
_Static_assert(offsetof(tgr_runtime, get_handle) == 264, "LiteRT writes this layout");
_Static_assert(sizeof(tgr_any) == 16, "LiteRT writes this layout");

static int32_t get_name(const tgr_accelerator *accelerator, const char **name) {
  if (!name) return TGR_INVALID_ARGUMENT;
  *name = "tflgpu";
  return TGR_OK;
}

static int32_t get_version(const tgr_accelerator *accelerator, tgr_version *version) {
  if (!version) return TGR_INVALID_ARGUMENT;
  *version = (tgr_version){0};
  sscanf(TFLGPU_VERSION, "%d.%d.%d", &version->major, &version->minor, &version->patch);
  return TGR_OK;
}

static int32_t get_hardware(const tgr_accelerator *accelerator, int32_t *bits) {
  if (!bits) return TGR_INVALID_ARGUMENT;
  *bits = TGR_ON_GPU;
  return TGR_OK;
}

static int32_t get_compiles(const tgr_accelerator *accelerator, bool *compiles) {
  if (!compiles) return TGR_INVALID_ARGUMENT;
  *compiles = true;
  return TGR_OK;
}

/* Returns the folder in which the environment looks for accelerators, "" where it does not say. */
static const char *folder_of(const tgr_runtime *runtime, tgr_environment *environment) {
  tgr_environment_options *options = NULL;
  tgr_any found = {0};
  if (!environment || runtime->get_environment_options(environment, &options) || !options) return "";
  if (runtime->get_environment_value(options, TGR_LIBRARY_FOLDER, &found) || found.kind != TGR_TEXT) return "";
  return found.text ? found.text : "";
}

/* Returns the options for GPUs that the program has given for this model, as TOML; "" for none. */
static const char *gpu_options_of(const tgr_runtime *runtime, tgr_options *options) {
  tgr_opaque_options *list = NULL;
  void *found = NULL;
  if (!options || runtime->get_opaque_options(options, &list) || !list) return "";
  return !runtime->find_opaque_data(list, "gpu_options", &found) && found ? found : "";
}

static void say(const char *sentence) {
  tgi_log(TGI_ERROR, "%s", sentence);
  tgi_log_deliver();
}

static void destroy(tgr_delegate *delegate) { tflite_plugin_destroy_delegate((tgl_delegate *)delegate); }

/* Python knows the options of an environment by its folder (providers/tflite/litert.py). */
static int32_t create_delegate(const tgr_runtime *runtime, tgr_environment *environment, const tgr_accelerator *accelerator,
                               tgr_options *options, tgr_wrapper **wrapper) {
  if (!runtime || !wrapper) return TGR_INVALID_ARGUMENT;
  if (runtime->header.major != TGR_MAJOR || runtime->header.bytes < sizeof *runtime) {
    say("tflgpu: this version of LiteRT's runtime is not known; update tflgpu-plugin, or use the Interpreter with load_delegate.");
    return TGR_WRONG_VERSION;
  }
  const char *keys[] = {"litert_folder", "litert_gpu_options"};
  const char *values[] = {folder_of(runtime, environment), gpu_options_of(runtime, options)};
  tgr_delegate *made = (tgr_delegate *)tflite_plugin_create_delegate(keys, values, 2, say);
  if (!made) return TGR_FAILURE;
  ((tgi_delegate *)made)->lender = &tgi_lender_of_litert;
  ((tgi_delegate *)made)->runtime = runtime;
  int32_t status = runtime->wrap_delegate(made, destroy, wrapper);
  if (status) destroy(made);
  return status;
}

const tgr_definition LiteRtAcceleratorImpl = {
    .header = {sizeof(tgr_definition), TGR_MAJOR, 0, 0},
    .get_name = get_name,
    .get_version = get_version,
    .get_hardware = get_hardware,
    .get_compiles = get_compiles,
    .create_delegate = create_delegate,
    .handlers = {.header = {sizeof(tgr_handlers), TGR_MAJOR, 0, 0},
                 .create = tgi_memory_create,
                 .destroy = tgi_memory_destroy,
                 .lock = tgi_memory_lock,
                 .unlock = tgi_memory_unlock,
                 .clear = tgi_memory_clear,
                 .kind_count = 1,
                 .kinds = {TGR_OURS}},
};
