/* Compiled models: the node that onnxruntime writes to one for a partition. */
#include "ort/internal.h"

enum { ATTRIBUTES = 6 };

char **tgi_names_of(const tgo_api *api, const tgo_node *node, tgi_count_values count_of, tgi_list_values list_of,
                    tgi_memory *memory, size_t *count, tg_error *err) {
  if (tgi_take_status(api, count_of(node, count), err)) return NULL;
  const tgo_value_info **values = tgi_zeros(memory, *count, sizeof *values);
  const char **names = tgi_zeros(memory, *count, sizeof *names);
  bool good = values && names && !tgi_take_status(api, list_of(node, values, *count), err);
  for (size_t i = 0; good && i < *count; i++) {
    names[i] = "";
    if (values[i]) good = !tgi_take_status(api, api->get_name(values[i], &names[i]), err);
  }
  return good ? tgi_copy_texts(memory, names, *count) : NULL;
}

typedef struct attribute_spec {
  const char *name;
  int kind;
  const void *data;
  size_t length;
} attribute_spec;

static bool add_attributes(const tgo_api *api, const tg_ort_partition *partition, const char *name,
                           tgo_attribute **attributes, tg_error *err) {
  const int64_t main_context = 1, embedded = partition->embedded;
  const attribute_spec list[ATTRIBUTES] = {
      {"main_context", TGO_INT, &main_context, 1},
      {"embed_mode", TGO_INT, &embedded, 1},
      {"ep_cache_context", TGO_TEXT, partition->context, partition->context_bytes},
      {"source", TGO_TEXT, TGI_EP_NAME, sizeof TGI_EP_NAME - 1},
      {"partition_name", TGO_TEXT, name, strlen(name)},
      {"ep_sdk_version", TGO_TEXT, TFLGPU_VERSION, sizeof TFLGPU_VERSION - 1},
  };
  for (size_t k = 0; k < ATTRIBUTES; k++) {
    const attribute_spec *one = &list[k];
    if (one->length > INT32_MAX) return !tgi_fail(err, "A node of a model cannot have an attribute of %zu bytes.", one->length);
    if (tgi_take_status(api, api->create_attribute(one->name, one->data, (int)one->length, one->kind, &attributes[k]), err))
      return false;
  }
  return true;
}

tgo_node *tgi_context_node(const tgo_api *api, const tgo_node *fused, const tg_ort_partition *partition, tg_error *err) {
  tgo_attribute *attributes[ATTRIBUTES] = {0};
  size_t input_count = 0, output_count = 0;
  const char *name = "";
  char **inputs, **outputs;
  tgi_memory memory = {0};
  tgo_node *node = NULL;
  const tgo_editor *editor = api->get_editor();
  if (!editor) tgi_fail(err, "This onnxruntime cannot write compiled models.");
  else if (!tgi_take_status(api, api->get_node_name(fused, &name), err) &&
           (inputs = tgi_names_of(api, fused, api->get_node_input_count, api->get_node_inputs, &memory, &input_count, err)) &&
           (outputs = tgi_names_of(api, fused, api->get_node_output_count, api->get_node_outputs, &memory, &output_count, err)) &&
           add_attributes(api, partition, name, attributes, err))
    tgi_take_status(api,
                    editor->create_node("EPContext", "com.microsoft", name, (const char *const *)inputs, input_count,
                                        (const char *const *)outputs, output_count, attributes, ATTRIBUTES, &node),
                    err);
  for (size_t i = 0; i < ATTRIBUTES; i++)
    if (attributes[i]) api->release_attribute(attributes[i]);
  tgi_memory_free(&memory);
  return node;
}
