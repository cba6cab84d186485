/* Compiled models: the node that onnxruntime writes into one in place of a partition. */
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

static bool add_text(const tgo_api *api, tgo_attribute **attributes, size_t *count, const char *name, const void *data,
                     size_t bytes, tg_error *err) {
  if (bytes > INT32_MAX) return !tgi_fail(err, "%zu bytes are too many for one node of a model.", bytes);
  return !tgi_take_status(api, api->create_attribute(name, data, (int)bytes, TGO_TEXT, &attributes[(*count)++]), err);
}

static bool add_int(const tgo_api *api, tgo_attribute **attributes, size_t *count, const char *name, int64_t value,
                    tg_error *err) {
  return !tgi_take_status(api, api->create_attribute(name, &value, 1, TGO_INT, &attributes[(*count)++]), err);
}

static bool add_attributes(const tgo_api *api, const tg_ort_partition *partition, const char *name,
                           tgo_attribute **attributes, size_t *count, tg_error *err) {
  return add_int(api, attributes, count, "main_context", 1, err) &&
         add_int(api, attributes, count, "embed_mode", partition->embedded, err) &&
         add_text(api, attributes, count, "ep_cache_context", partition->context, partition->context_bytes, err) &&
         add_text(api, attributes, count, "source", TGI_EP_NAME, sizeof TGI_EP_NAME - 1, err) &&
         add_text(api, attributes, count, "partition_name", name, strlen(name), err) &&
         add_text(api, attributes, count, "ep_sdk_version", TFLGPU_VERSION, sizeof TFLGPU_VERSION - 1, err);
}

tgo_node *tgi_context_node(const tgo_api *api, const tgo_node *fused, const tg_ort_partition *partition, tg_error *err) {
  tgo_attribute *attributes[ATTRIBUTES] = {0};
  size_t attribute_count = 0, input_count = 0, output_count = 0;
  const char *name = "";
  char **inputs, **outputs;
  tgi_memory memory = {0};
  tgo_node *node = NULL;
  const tgo_editor *editor = api->get_editor();
  if (!editor) tgi_fail(err, "This onnxruntime cannot write compiled models.");
  else if (!tgi_take_status(api, api->get_node_name(fused, &name), err) &&
           (inputs = tgi_names_of(api, fused, api->get_node_input_count, api->get_node_inputs, &memory, &input_count, err)) &&
           (outputs = tgi_names_of(api, fused, api->get_node_output_count, api->get_node_outputs, &memory, &output_count, err)) &&
           add_attributes(api, partition, name, attributes, &attribute_count, err))
    tgi_take_status(api,
                    editor->create_node("EPContext", "com.microsoft", name, (const char *const *)inputs, input_count,
                                        (const char *const *)outputs, output_count, attributes, attribute_count, &node),
                    err);
  for (size_t i = 0; i < ATTRIBUTES; i++)
    if (attributes[i]) api->release_attribute(attributes[i]);
  tgi_memory_free(&memory);
  return node;
}
