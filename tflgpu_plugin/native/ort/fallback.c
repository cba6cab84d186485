/* The host's own kernels: a session of the partition's nodes, which is made when a run cannot be done on the GPU. */
#include "ort/internal.h"

struct tgi_fallback {
  const tgo_api *api;
  tgo_env *env;
  tgo_session *session;
  tgo_value **constants;           /* in Python's memory; the session refers to them */
  size_t constant_count;
};

void tgi_fallback_free(tgi_fallback *fallback) {
  if (!fallback) return;
  const tgo_api *api = fallback->api;
  if (fallback->session) api->release_session(fallback->session);
  for (size_t i = 0; fallback->constants && i < fallback->constant_count; i++)
    if (fallback->constants[i]) api->release_value(fallback->constants[i]);
  if (fallback->env) api->release_env(fallback->env);
  free(fallback->constants);
  free(fallback);
}

static int add_constants(tgi_fallback *fallback, tgo_session_options *options, const tg_ort_model *model, tg_error *err) {
  const tgo_api *api = fallback->api;
  tgo_memory *memory = NULL;
  if (!model->constant_count) return 0;
  fallback->constant_count = model->constant_count;
  fallback->constants = calloc(model->constant_count, sizeof *fallback->constants);
  if (!fallback->constants) return tgi_no_memory(err, "the constants of a partition");
  if (tgi_take_status(api, api->create_cpu_memory(0, 0, &memory), err)) return 1;
  int failed = 0;
  for (size_t i = 0; !failed && i < model->constant_count; i++) {
    const tg_ort_constant *one = &model->constants[i];
    failed = tgi_take_status(api, api->create_tensor(memory, (void *)one->data, one->bytes, one->dims, one->rank, one->kind,
                                                     &fallback->constants[i]), err);
  }
  api->release_memory(memory);
  return failed || tgi_take_status(api, api->add_external(options, model->constant_names,
                                                          (const tgo_value *const *)fallback->constants,
                                                          model->constant_count), err);
}

/* Sets the session's options. Spinning threads would slow down the GPU runs between two runs of this session. Errors are
 * reported by the session around it. */
static int set_options(tgi_fallback *fallback, tgo_session_options *options, const tg_ort_model *model, tg_error *err) {
  const tgo_api *api = fallback->api;
  return tgi_take_status(api, api->disable_arena(options), err) ||
         tgi_take_status(api, api->set_log_level(options, TGO_FATAL), err) ||
         tgi_take_status(api, api->set_config(options, "session.intra_op.allow_spinning", "0"), err) ||
         add_constants(fallback, options, model, err);
}

static int open_session(tgi_fallback *fallback, const tg_ort_model *model, tg_error *err) {
  const tgo_api *api = fallback->api;
  tgo_session_options *options = NULL;
  if (tgi_take_status(api, api->create_env(TGO_WARNING, "tflgpu", &fallback->env), err) ||
      tgi_take_status(api, api->create_session_options(&options), err))
    return 1;
  int failed = set_options(fallback, options, model, err) ||
               tgi_take_status(api, api->create_session_of_bytes(fallback->env, model->bytes, model->byte_count, options,
                                                                 &fallback->session), err);
  api->release_session_options(options);
  return failed;
}

int tg_ort_set_model(void *host, const tg_ort_model *model, tg_error *err) {
  tgi_compute *compute = host;
  tgi_fallback *made = calloc(1, sizeof *made), *none = NULL;
  if (!made) return tgi_no_memory(err, "a session");
  made->api = compute->api;
  if (open_session(made, model, err)) {
    tgi_fallback_free(made);
    return 1;
  }
  /* Another thread may have made one meanwhile. */
  if (!atomic_compare_exchange_strong(&compute->fallback, &none, made)) tgi_fallback_free(made);
  return 0;
}

/* Arguments and result of the call that asks Python for the model of a partition. */
typedef struct asking {
  tgi_compute *compute;
  const char *reason;
  int made;
  tg_error *err;
} asking;

static void ask_for_model(void *given) {
  asking *a = given;
  const tg_ort_partition *partition = a->compute->partition;
  const tgi_names *names = &a->compute->names;
  a->made = partition->functions.model(partition->base.number, a->compute, (const char *const *)names->inputs,
                                       names->input_count, (const char *const *)names->outputs, names->output_count, a->err);
}

static tgi_fallback *find_or_make(tgi_compute *compute, tg_error *err) {
  tgi_fallback *fallback = atomic_load(&compute->fallback);
  asking a = {.compute = compute, .err = err};
  if (fallback) return fallback;
  return tgi_ort_call(NULL, ask_for_model, &a, err) && a.made > 0 ? atomic_load(&compute->fallback) : NULL;
}

static int give(const tgi_compute *compute, tgo_context *context, size_t i, tgo_value *made, tg_error *err) {
  const tgo_api *api = compute->api;
  const int64_t *dims = NULL;
  size_t rank = 0, bytes = 0, room = 0;
  tgo_value *value = NULL;
  void *from = NULL, *to = NULL;
  int kind = 0;
  if (tgi_take_status(api, api->get_kind_and_dims(made, &kind, &dims, &rank), err) ||
      tgi_take_status(api, api->get_output(context, i, dims, rank, &value), err))
    return 1;
  if (!value) return 0;            /* the output is not requested */
  if (tgi_get_data(compute->factory, made, &bytes, &from, err) || tgi_get_data(compute->factory, value, &room, &to, err))
    return 1;
  if (bytes != room) return tgi_fail(err, "Output \"%s\" has another size on the host's own kernels.", compute->names.outputs[i]);
  return tgi_tensor_copy(to, from, bytes, err);
}

/* Where tensors without elements are, some of which have no address: kernels of the host, such as that of
 * InstanceNormalization, read the first element even so. */
static double nothing[2];

/* Returns a tensor on the CPU over the bytes of an input of the node. */
static tgo_value *on_cpu(const tgi_compute *compute, const tgo_memory *cpu, tgo_context *context, size_t i, tg_error *err) {
  const tgo_api *api = compute->api;
  const tgo_value *value = NULL;
  const int64_t *dims = NULL;
  size_t rank = 0, bytes = 0;
  tgo_value *made = NULL;
  void *data = NULL;
  int kind = 0;
  if (tgi_take_status(api, api->get_input(context, i, &value), err)) return NULL;
  if (!value) return tgi_none(err, "Input \"%s\" is absent.", compute->names.inputs[i]);
  if (tgi_take_status(api, api->get_kind_and_dims(value, &kind, &dims, &rank), err) ||
      tgi_get_data(compute->factory, value, &bytes, &data, err) || tgi_tensor_read(data, bytes, err) ||
      tgi_take_status(api, api->create_tensor(cpu, bytes ? data : nothing, bytes, dims, rank, kind, &made), err))
    return NULL;
  return made;
}

static void release_values(const tgo_api *api, tgo_value **values, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (values[i]) api->release_value(values[i]);
}

static int run(const tgi_compute *compute, tgi_fallback *fallback, tgo_context *context, tgo_value **values,
               tgo_status **status, tg_error *err) {
  const tgo_api *api = compute->api;
  size_t inputs = compute->names.input_count, outputs = compute->names.output_count;
  tgo_value **made = values + inputs;
  tgo_memory *cpu = NULL;
  int failed = tgi_take_status(api, api->create_cpu_memory(0, 0, &cpu), err);
  for (size_t i = 0; !failed && i < inputs; i++) failed = !(values[i] = on_cpu(compute, cpu, context, i, err));
  if (cpu) api->release_memory(cpu);
  if (failed) return 1;
  *status = api->run(fallback->session, NULL, (const char *const *)compute->names.inputs, (const tgo_value *const *)values,
                     inputs, (const char *const *)compute->names.outputs, outputs, made);
  for (size_t i = 0; i < outputs && !*status && !failed; i++)
    if (made[i]) failed = give(compute, context, i, made[i], err);
  return failed;
}

static void tell(void *given) {
  const asking *a = given;
  const tg_ort_partition *partition = a->compute->partition;
  partition->functions.fell_back(partition->base.number, a->reason, a->err);
}

int tgi_fallback_run(tgi_compute *compute, tgo_context *context, const char *reason, tgo_status **status, tg_error *err) {
  *status = NULL;
  if (!compute->names.output_count) return 0; /* nothing reads its results, and onnxruntime runs no session for none */
  if (tgi_enter(err)) return 1;
  tgi_fallback *fallback = find_or_make(compute, err);
  int failed = !fallback;
  if (fallback) {
    tgo_value **values = calloc(compute->names.input_count + compute->names.output_count + 1, sizeof *values);
    failed = values ? run(compute, fallback, context, values, status, err) : tgi_no_memory(err, "a run");
    if (values) release_values(compute->api, values, compute->names.input_count + compute->names.output_count);
    free(values);
  }
  if (!failed && !*status) {
    tg_error ignored = {0};
    asking a = {.compute = compute, .reason = reason, .err = &ignored};
    atomic_fetch_add(&compute->partition->base.host_runs, 1);
    tgi_ort_call(NULL, tell, &a, &ignored);
  }
  tgi_leave();
  return failed;
}
