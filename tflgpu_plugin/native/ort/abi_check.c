/* Fails to compile when abi.h does not have the slots that onnxruntime uses. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ort/abi.h"

#define SLOT(type, member, slot) _Static_assert(offsetof(type, member) == (slot) * 8, #type "." #member " is misplaced")

SLOT(tgo_factory, get_name, 1);
SLOT(tgo_factory, get_devices, 3);
SLOT(tgo_factory, create_ep, 4);
SLOT(tgo_factory, get_vendor_id, 6);
SLOT(tgo_factory, get_version, 7);
SLOT(tgo_factory, create_transfer, 11);
SLOT(tgo_factory, is_stream_aware, 12);
SLOT(tgo_ep, get_name, 1);
SLOT(tgo_ep, get_capability, 2);
SLOT(tgo_ep, release_computes, 4);
SLOT(tgo_ep, set_dynamic_options, 7);
SLOT(tgo_compute, create_state, 1);
SLOT(tgo_compute, release_state, 3);
_Static_assert(offsetof(tgo_fusion, drop_constants) == 4, "tgo_fusion.drop_constants is misplaced");

SLOT(tgo_api, create_status, 0);
SLOT(tgo_api, get_error_message, 2);
SLOT(tgo_api, get_tensor_data, 51);
SLOT(tgo_api, cast_to_tensor_info, 55);
SLOT(tgo_api, get_type_kind, 56);
SLOT(tgo_api, get_element_kind, 60);
SLOT(tgo_api, get_rank, 61);
SLOT(tgo_api, get_dims, 62);
SLOT(tgo_api, get_symbols, 63);
SLOT(tgo_api, get_value_info, 65);
SLOT(tgo_api, get_input_count, 88);
SLOT(tgo_api, get_output_count, 89);
SLOT(tgo_api, get_input, 90);
SLOT(tgo_api, get_output, 91);
SLOT(tgo_api, release_status, 93);
SLOT(tgo_api, release_value, 96);
SLOT(tgo_api, release_tensor_info, 99);
SLOT(tgo_api, create_attribute, 211);
SLOT(tgo_api, release_attribute, 212);
SLOT(tgo_api, log, 247);
SLOT(tgo_api, get_log_level, 248);
SLOT(tgo_api, get_build_info, 254);
SLOT(tgo_api, read_attribute, 272);
SLOT(tgo_api, get_name, 289);
SLOT(tgo_api, get_type, 290);
SLOT(tgo_api, get_editor, 291);
SLOT(tgo_editor, create_node, 6);
SLOT(tgo_api, create_pairs, 295);
SLOT(tgo_api, add_pair, 296);
SLOT(tgo_api, get_pair, 297);
SLOT(tgo_api, get_pairs, 298);
SLOT(tgo_api, release_pairs, 300);
SLOT(tgo_api, get_device_kind, 307);
SLOT(tgo_api, get_device_vendor_id, 308);
SLOT(tgo_api, get_device_id, 310);
SLOT(tgo_api, get_ep_api, 317);
SLOT(tgo_api, get_byte_count, 318);
SLOT(tgo_api, get_initializer, 326);
SLOT(tgo_api, get_external, 327);
SLOT(tgo_api, is_optional_input, 329);
SLOT(tgo_api, is_constant, 331);
SLOT(tgo_api, get_model_path, 334);
SLOT(tgo_api, get_graph_input_count, 338);
SLOT(tgo_api, get_graph_inputs, 339);
SLOT(tgo_api, get_graph_output_count, 340);
SLOT(tgo_api, get_graph_outputs, 341);
SLOT(tgo_api, get_node_count, 344);
SLOT(tgo_api, get_nodes, 345);
SLOT(tgo_api, get_parent_node, 346);
SLOT(tgo_api, get_node_id, 348);
SLOT(tgo_api, get_node_name, 349);
SLOT(tgo_api, get_op_type, 350);
SLOT(tgo_api, get_domain, 351);
SLOT(tgo_api, get_since_version, 352);
SLOT(tgo_api, get_node_input_count, 353);
SLOT(tgo_api, get_node_inputs, 354);
SLOT(tgo_api, get_node_output_count, 355);
SLOT(tgo_api, get_node_outputs, 356);
SLOT(tgo_api, get_implicit_input_count, 357);
SLOT(tgo_api, get_implicit_inputs, 358);
SLOT(tgo_api, get_attribute_count, 359);
SLOT(tgo_api, get_attributes, 360);
SLOT(tgo_api, get_attribute_tensor, 362);
SLOT(tgo_api, get_attribute_kind, 363);
SLOT(tgo_api, get_attribute_name, 364);
SLOT(tgo_api, release_external, 369);
SLOT(tgo_api, get_external_file, 370);
SLOT(tgo_api, get_external_offset, 371);
SLOT(tgo_api, get_external_bytes, 372);
SLOT(tgo_api, get_config, 379);
SLOT(tgo_api, has_shape, 390);
SLOT(tgo_api, get_kind_and_dims, 414);
SLOT(tgo_ep_api, create_ep_device, 0);
SLOT(tgo_ep_api, release_ep_device, 1);
SLOT(tgo_ep_api, add_nodes_to_fuse, 2);
SLOT(tgo_ep_api, create_hardware, 16);
SLOT(tgo_ep_api, release_hardware, 17);