"""Which tests see the defects of which file: by the names of files, after those of their families.

`selection` reads these tables.
"""

from __future__ import annotations

from collections.abc import Sequence

DENSE = ("conv", "transpose_conv", "fully_connected", "conv_3d")
MOVED = ("transpose", "pad", "strided_slice", "rearrange", "reshape")
# Of files by name (without its end) whose families have other names.
FAMILIES: dict[str, Sequence[str]] = {
    "conv": ("conv", "transpose_conv", "conv_3d"),
    "window": ("depthwise", "pool", "conv_3d"),
    "blocks": DENSE,
    "tiles": DENSE,
    "stem": ("conv",),
    "convolution": ("conv", "conv_3d"),
    "product": DENSE,
    "forms": ("conv", "reduce"),
    "winograd": ("conv",),
    "winograd_row": ("conv",),
    "interpolation": ("resize",),
    "resample": ("resize",),
    "movement": (*MOVED, "binary"),
    "views": (*MOVED, "split"),
    "elementwise": ("unary", "binary", "quantized"),
    "decompose": ("normalization", "rearrange", "split", "top_k", "lstm"),
    "conv_weights": DENSE,
    "conv_channels": DENSE,
    "conv_point": ("conv", "fully_connected"),
    "conv_rows": ("conv",),
    "conv_taps": ("conv", "transpose_conv", "conv_3d"),
    "conv_taps_window": ("conv",),
    "conv_taps_volume": ("conv_3d",),
    "conv_taps_transposed": ("transpose_conv",),
    "winograd_input": ("conv",),
    "winograd_output": ("conv",),
    "winograd_before": ("conv",),
    "winograd_after": ("conv",),
    "gather": MOVED,
    "coordinates": ("binary", "concat", "transpose"),
    "each_vector": ("binary", "pool"),
    "math": ("unary", "binary"),
    "numbers": ("binary", "quantized", "concat"),
    "common": ("softmax", "fully_connected", "conv"),
    "pool_argmax": ("unpool",),
    "roi_max_pool": ("roi_align",),
    "lowering": ("binary", "fully_connected", "softmax"),
    "graph": ("transpose", "binary"),
    "support": ("binary", "pool"),
    "ops/__init__": ("conv", "fully_connected"),
    "kernels/__init__": ("binary", "conv", "softmax", "quantized"),
    "pack": ("binary", "concat", "pool", "quantized"),
    "unpack": ("binary", "concat", "pool", "quantized"),
    "compiler": ("conv", "lstm"),
    "memory": ("lstm",),
    "plan": ("reduce",),
    "io_layout": ("reshape", "concat"),
    "copies": ("concat", "split"),
    "canonical": ("quantization",),
    "requantize": ("quantized",),
    "qdq_fusion": ("quantized",),
    "fake_quantization": ("quantized",),
    "quantization": ("quantized",),
    "dequantize": ("quantized",),
}

_GRAPHS = ("test_graph_cases", "test_onnx_graph_cases")
_PASSES = ("test_passes", "test_pass_bounds", "test_random_partitions", *_GRAPHS)
_TFLITE = (
    "test_reader",
    "test_pooling_indices",
    "test_shapes",
    "test_refusals",
    "test_constants",
    "test_delegate",
    "test_variables",
    "test_tflite_blocks",
    "test_versions",
    "test_constant_chains",
    "test_graph_cases",
    "test_hybrid",
)
_ONNX = (
    "test_ort_bounds",
    "test_ort_defaults",
    "test_ort_forms",
    "test_ort_reader",
    "test_ort_rounded_extents",
    "test_onnx_forms",
    "test_ort_integers",
    "test_ort_folding",
    "test_ort_arithmetic",
    "test_ort_extents",
    "test_ort_gemm",
    "test_ort_node_tests",
    "test_ort_reductions",
    "test_random_operators",
    "test_ort_models",
    "test_ort_saved",
    "test_onnxruntime",
    "test_onnx_graph_cases",
    "test_onnx_twins",
    "test_constant_chains",
    "test_random_onnx",
)
# Of all ops: what rows refuse, launch, and say of 8 bits.
ROWS = (
    "test_op_refusals",
    "test_layer_refusals",
    "test_movement_refusals",
    "test_region_refusals",
    "test_decompositions",
    "test_launches",
    "test_quantized_rules",
    "test_rounds",
    "test_traits",
)
# Of what both providers use: enough of each room for a minute of a processor.
READ = (
    *("test_ort_bounds", "test_ort_defaults", "test_ort_reader", "test_reader", "test_shapes"),
    *("test_refusals", "test_onnx_forms", "test_constants", "test_ort_folding", "test_ort_extents"),
    *("test_constant_chains", "test_graph_cases", "test_ort_node_tests"),
)
OPS = ("test_op_names", "test_passes", "test_functions", "test_merge", "test_compiler")
_NATIVE = (
    "test_native",
    "test_refused_calls",
    "test_plans",
    "test_runs",
    "test_exit",
    "test_upload",
    "test_threads",
    "test_log",
    "test_onnxruntime",
    "test_variables",
    "test_out_of_memory",
    "test_sanitized",
)
_NATIVE_TFLITE = (
    "test_native",
    "test_fake_host",
    "test_exit",
    "test_variables",
    "test_delegate",
    "test_line",
    "test_out_of_memory",
    "test_sanitized",
    "test_lifetimes",
)
_NATIVE_ORT = (
    "test_onnxruntime",
    "test_compiled_models",
    "test_ort_models",
    "test_ort_lifetimes",
    "test_out_of_memory",
    "test_sanitized",
)
_CACHE = (
    "test_stored",
    "test_folders",
    "test_planted",
    "test_cache",
    "test_compiled_models",
)
# Names of tests, of files by name, after their families; else those of their room.
TESTS: dict[str, Sequence[str]] = {
    "math": (
        "test_function_accuracy",
        "test_large_arguments",
        "test_nan",
    ),
    "numbers": (
        "test_nan",
        "test_half",
        "test_fixed_point",
        "test_stored_steps",
        "test_ort_integers",
    ),
    "pack": (
        "test_io_layout",
        "test_ort_integers",
        "test_half",
        "test_quantization",
    ),
    "unpack": (
        "test_io_layout",
        "test_ort_integers",
        "test_half",
        "test_quantization",
    ),
    "kernels/__init__": (
        "test_compiler",
        "test_half",
        "test_quantization",
    ),
    "memory": ("test_memory", "test_compiler"),
    "io_layout": ("test_io_layout", "test_half", "test_transposes"),
    "compiler": ("test_compiler", "test_half", "test_partition"),
    "partition": ("test_partition", "test_delegate"),
    "support": ("test_capability", "test_refusals"),
    "precision": ("test_half", "test_error_sensitivity"),
    "error_sensitivity": ("test_error_sensitivity", "test_half"),
    "copies": ("test_copies", "test_join_convolutions", "test_compiler", "test_passes"),
    "graph": ("test_verifier", "test_graph"),
    "requantize": (
        "test_fixed_point",
        "test_quantization",
        "test_ort_quantized",
        "test_onnx_quantized",
    ),
    "qdq_fusion": ("test_quantization", "test_ort_quantized", "test_onnx_quantized"),
    "fake_quantization": ("test_quantization", "test_ort_quantized", "test_onnx_quantized"),
    "integer_weights": ("test_quantization", *_PASSES),
    "cleanup": ("test_transposes", *_PASSES),
    "rewriter": ("test_transposes", *_PASSES),
    "quantization": ("test_quantization", "test_ort_quantized"),
    "dequantize": ("test_quantization", *_PASSES),
    "functions": ("test_functions", "test_rules", *_PASSES),
    "def_use": ("test_functions", "test_attention", *_PASSES),
    "attention": ("test_attention", *_PASSES),
    "head_layout": ("test_attention", *_PASSES),
    "group_normalization": ("test_group_normalization", *_PASSES),
    "common_subexpressions": ("test_common_subexpressions", *_PASSES),
    "pattern": ("test_rules", "test_functions", "test_normalization", *_PASSES),
    "rotary": ("test_rotary", "test_rules", *_PASSES),
    "join_convolutions": ("test_join_convolutions", "test_random_onnx", *_PASSES),
    "join_rotary": ("test_join_rotary", *_PASSES),
    "dense_rows": ("test_dense_rows", *_PASSES),
    "join_dense": ("test_join_dense", *_PASSES),
    "normalization": ("test_normalization", "test_rules", *_PASSES),
    "attention_masks": ("test_attention", *_PASSES),
    "transposes": ("test_transposes", *_PASSES),
    "compose_views": ("test_views", "test_transposes", *_PASSES),
    "views": ("test_views",),
    "movement": ("test_views",),
    "propagate": ("test_transposes", *_PASSES),
    "blocks": ("test_split_weights",),
    "conv_weights": ("test_split_weights",),
    "fully_connected": ("test_split_weights", "test_nan"),
    "concat": ("test_pad_lanes",),
    "pick": ("test_split_weights",),
    "gather_blocks": ("test_split_weights", "test_ort_blocks"),
    "recurrent": ("test_ort_recurrent",),
    "narrow": ("test_ort_narrow",),
    "einsum": ("test_ort_einsum",),
    "spectral": ("test_ort_spectral",),
    "unary": ("test_cut_limits",),
    "binary": ("test_ort_integers",),
    "reduce": ("test_ort_integers",),
    "scan": ("test_ort_integers",),
    **dict.fromkeys(("builder", "node_reader", "importer", "plain", "state"), READ),
    "imported": ("test_whole_numbers", *READ),
    "partition_rules": ("test_subgraph", "test_spectrum"),
    "row_conditions": READ,
    "placeholders": ("test_open_shapes", "test_placeholders"),
    "folding": ("test_constant_operators", *READ),
    "subgraph": ("test_subgraph", *_TFLITE),
    "loop_body": ("test_loop_layer", "test_recurrent_loops"),
    "loop_layer": ("test_recurrent_loops",),
    "symbols": ("test_misfits", "test_ort_extents", *_ONNX),
    "likely": ("test_ort_run_values", *_ONNX),
    "stored_numbers": ("test_stored_steps", "test_fixed_point"),  # of ops
    "host_op": ("test_page_of_operators", *READ),
    "quantized": ("test_ort_quantized", "test_onnx_quantized"),
    "device": (*_NATIVE, "test_survival"),
    "run": ("test_tflite_integers", *_NATIVE),
    "replay": ("test_tflite_integers", *_NATIVE),
}
_STORED = (
    "test_ort_forms",
    "test_ort_values",
    "test_ort_quantized",
    "test_ort_integers",
    "test_onnx_quantized",
)
# Of providers' files, before those of their room.
PROVIDERS: dict[str, Sequence[str]] = {
    "ops": ("test_docs",),
    "conditions": ("test_ort_conditions", "test_page_of_operators"),
    "elementwise": ("test_ort_integers", "test_ort_reductions"),
    "recurrent": ("test_ort_recurrent",),
    "loops": ("test_recurrent_loops",),
    "records": ("test_recurrent_loops",),
    "narrow": ("test_ort_narrow",),
    "einsum": ("test_ort_einsum",),
    "spectral": ("test_ort_spectral",),
    "counting": ("test_ort_counting",),
    "diffusion": ("test_ort_diffusion",),
    "packed": ("test_ort_packed",),
    "patches": ("test_ort_patches",),
    "windows": ("test_ort_patches",),
    "attention": ("test_ort_saved", "test_ort_scores"),
    "matrices": ("test_ort_gemm", "test_ort_patches"),
    "indexing": ("test_ort_indexing", "test_ort_patches"),
    "resizing": ("test_ort_patches",),
    "ep": ("test_onnxruntime", "test_ort_run_shapes", "test_ort_models", "test_ort_versions"),
}
# Where their room would take too long with these.
ALONE: dict[str, Sequence[str]] = {
    "quantize": ("test_ort_defaults", "test_ort_bounds", *_STORED),
    "quantized": ("test_ort_defaults", "test_ort_bounds", *_STORED),
    "blocks": ("test_ort_blocks", *_STORED),
    "context": ("test_onnxruntime", "test_compiled_models", "test_ort_run_values"),
}
ROOMS = {
    "passes": _PASSES,
    "tflite": _TFLITE,
    "onnxruntime": _ONNX,
    "native": _NATIVE,
    "native/tflite": _NATIVE_TFLITE,
    "native/ort": _NATIVE_ORT,
    "cache": _CACHE,
    "rules": (
        "test_subgraph",
        "test_quantization",
        "test_ort_quantized",
        "test_onnx_quantized",
        "test_pooling_indices",
        "test_judge",
        *READ,
    ),
}


# Tests that take long; those that a file needs are named above.
SLOW = {
    f"test_{name}"
    for name in (
        "attributes",
        "cache",
        "cli",
        "compiled_models",
        "demo",
        "docs",
        "large_models",
        "lifetimes",
        "measure",
        "one_process",
        "ort_attributes",
        "planted",
        "wheel",
        "totality",
        "shader_lint",
        "table",
        "advertised",
    )
}

# What a mutant that nothing of its own saw has to pass as well: tests of these rooms, the nearest
# first, and these of the conformance suite.
LAST = (
    *("ops", "passes", "compile", "frontend", "importer", "providers", "cache", "native"),
    *("lifetimes", "docs"),
)
LAST_CONFORMANCE = (
    *("test_graph_cases", "test_onnx_graph_cases", "test_quantized", "test_onnx_quantized"),
    *("test_quantized_means", "test_onnx_twins", "test_onnx_forms", "test_hybrid"),
    *("test_random_integers", "test_random_tflite", "test_random_onnx", "test_onnx_node_tests"),
)
