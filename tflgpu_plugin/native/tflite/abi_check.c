/* Fails to compile when abi.h does not have the layout that hosts use. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tflite/abi.h"

#define SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type " has the wrong size")
#define AT(type, member, offset) _Static_assert(offsetof(type, member) == (offset), #type "." #member " is misplaced")

SIZE(tgl_tensor, 112);
AT(tgl_tensor, data, 8);
AT(tgl_tensor, dims, 16);
AT(tgl_tensor, legacy_scale, 24);
AT(tgl_tensor, allocation, 32);
AT(tgl_tensor, bytes, 40);
AT(tgl_tensor, owner, 48);
AT(tgl_tensor, name, 56);
AT(tgl_tensor, delegate, 64);
AT(tgl_tensor, handle, 72);
AT(tgl_tensor, is_stale, 76);
AT(tgl_tensor, is_variable, 77);
AT(tgl_tensor, quantization_type, 80);
AT(tgl_tensor, quantization_params, 88);
AT(tgl_tensor, sparsity, 96);
AT(tgl_tensor, dims_signature, 104);

SIZE(tgl_node, 80);
AT(tgl_node, user_data, 32);
AT(tgl_node, params, 40);
AT(tgl_node, custom_data_size, 56);
AT(tgl_node, delegate, 64);
AT(tgl_node, has_side_effect, 72);

SIZE(tgl_registration, 88);
AT(tgl_registration, invoke, 24);
AT(tgl_registration, builtin_code, 40);
AT(tgl_registration, custom_name, 48);
AT(tgl_registration, version, 56);
AT(tgl_registration, external, 64);
AT(tgl_registration, unused_in_place, 80);
SIZE(tgl_padded_registration, 152);

SIZE(tgl_delegate, 56);
AT(tgl_delegate, prepare, 8);
AT(tgl_delegate, free_handle, 32);
AT(tgl_delegate, flags, 40);
AT(tgl_delegate, unused_builder, 48);

SIZE(tgl_partition, 32);
SIZE(tgl_affine, 24);
SIZE(tgl_level, 24);
AT(tgl_level, size, 4);
AT(tgl_level, segments, 8);
AT(tgl_level, indices, 16);
SIZE(tgl_sparsity, 32);
AT(tgl_sparsity, order, 0);
AT(tgl_sparsity, blocked, 8);
AT(tgl_sparsity, levels, 16);
AT(tgl_sparsity, level_count, 24);

SIZE(tgl_context, 200);
AT(tgl_context, get_execution_plan, 8);
AT(tgl_context, tensors, 16);
AT(tgl_context, resize_tensor, 32);
AT(tgl_context, report_error, 40);
AT(tgl_context, get_node, 56);
AT(tgl_context, replace_nodes, 64);
AT(tgl_context, recommended_threads, 72);
AT(tgl_context, allow_fp16, 96);
AT(tgl_context, resize_tensor_explicit, 144);
AT(tgl_context, preview_partitions, 152);
AT(tgl_context, get_model_metadata, 176);
AT(tgl_context, acquire_subgraph, 184);
AT(tgl_context, release_subgraph, 192);

SIZE(tgl_add_params, 8);
SIZE(tgl_conv_params, 24);
SIZE(tgl_depthwise_params, 28);
SIZE(tgl_conv_3d_params, 32);
AT(tgl_conv_3d_params, stride_d, 12);
AT(tgl_conv_3d_params, dilation_d, 24);
AT(tgl_conv_3d_params, activation, 28);
SIZE(tgl_transpose_conv_params, 16);
SIZE(tgl_pool_params, 40);
SIZE(tgl_fully_connected_params, 12);
SIZE(tgl_reshape_params, 36);
SIZE(tgl_resize_params, 2);
SIZE(tgl_strided_slice_params, 24);
SIZE(tgl_lstm_params, 20);
SIZE(tgl_sequence_lstm_params, 16);
SIZE(tgl_batch_matmul_params, 3);
SIZE(tgl_gelu_params, 1);
