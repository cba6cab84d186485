/* The binary interface between a TFLite host and a delegate, in our own words, with layouts as observed on LP64 hosts
 * (tflite-runtime 2.14, LiteRT 2.3). C includes this file and cffi reads it unchanged, so it has no preprocessor lines.
 * declare.py checks the sizes and offsets in comments. Members whose names start with unused are never read or set. */

typedef struct tgl_context tgl_context;
typedef struct tgl_delegate tgl_delegate;
typedef struct tgl_tensor tgl_tensor;
typedef struct tgl_node tgl_node;
typedef struct tgl_registration tgl_registration;

/* ---- numbers ---------------------------------------------------------------------------------------------------- */

/* Tensor types, paddings, activations and modes are in the tables that read them: providers/tflite. */

enum { TGL_OK = 0, TGL_ERROR = 1, TGL_SHAPE_NOT_KNOWN = 9 };   /* the last is returned by kernels since LiteRT 2 */

/* Where a tensor's bytes are. Constants are in the model file, or persistent and read-only. */
enum {
  TGL_IN_NOTHING = 0, TGL_IN_MODEL = 1, TGL_IN_ARENA = 2, TGL_IN_PERSISTENT_ARENA = 3, TGL_IN_DYNAMIC = 4,
  TGL_IN_PERSISTENT_CONSTANT = 5, TGL_IN_CUSTOM = 6, TGL_IN_VARIANT = 7, TGL_IN_NON_CPU = 8
};

enum { TGL_NOT_QUANTIZED = 0, TGL_AFFINE = 1 };
enum { TGL_DENSE = 0, TGL_CSR = 1 };    /* storage formats for a level of a sparse constant */
enum { TGL_ACCEPTS_DYNAMIC = 1, TGL_WANTS_PROPAGATED_SHAPES = 2 };
enum { TGL_NO_HANDLE = -1, TGL_NO_TENSOR = -1 };
enum { TGL_LITERT_BUFFERS = 4 };   /* kinds of external contexts */

/* ---- data ------------------------------------------------------------------------------------------------------- */

typedef struct tgl_ints {
  int32_t size;
  int32_t data[];
} tgl_ints;

typedef struct tgl_floats {
  int32_t size;
  float data[];
} tgl_floats;

typedef struct tgl_affine {        /* quantization_params points to it when quantization_type is TGL_AFFINE */
  tgl_floats *scale;
  tgl_ints *zero_point;            /* may have one value for all channels */
  int32_t dimension;
} tgl_affine; /* 24 bytes */

typedef struct tgl_level {         /* a dimension of a sparse constant or of its blocks */
  int32_t format;
  int32_t size;                    /* at 4; of a TGL_DENSE level */
  tgl_ints *segments;              /* at 8; of a TGL_CSR level: where the indices of each position begin */
  tgl_ints *indices;               /* at 16 */
} tgl_level; /* 24 bytes */

typedef struct tgl_sparsity {
  tgl_ints *order;                 /* at 0; order of the levels: dimensions, then blocks, whose numbers follow */
  tgl_ints *blocked;               /* at 8; the dimension that each block divides; may be NULL */
  tgl_level *levels;               /* at 16 */
  int32_t level_count;             /* at 24 */
} tgl_sparsity; /* 32 bytes */

struct tgl_tensor {
  int32_t type;
  void *data;                      /* at 8; changes between calls: read it in every invoke */
  tgl_ints *dims;                  /* at 16 */
  float legacy_scale;              /* at 24 */
  int32_t legacy_zero_point;
  int32_t allocation;              /* at 32 */
  size_t bytes;                    /* at 40 */
  const void *owner;               /* at 48 */
  const char *name;                /* at 56 */
  tgl_delegate *delegate;          /* at 64 */
  int32_t handle;                  /* at 72 */
  bool is_stale;                   /* at 76; the host's copy is older than the one behind the handle */
  bool is_variable;                /* at 77 */
  int32_t quantization_type;       /* at 80 */
  void *quantization_params;       /* at 88 */
  tgl_sparsity *sparsity;          /* at 96 */
  const tgl_ints *dims_signature;  /* at 104 */
}; /* 112 bytes */

struct tgl_node {
  tgl_ints *inputs;
  tgl_ints *outputs;
  tgl_ints *intermediates;
  tgl_ints *temporaries;
  void *user_data;                 /* at 32; what init returned */
  void *params;                    /* at 40; one of the structs at the end of this file */
  const void *custom_data;
  int32_t custom_data_size;        /* at 56 */
  tgl_delegate *delegate;          /* at 64 */
  bool has_side_effect;            /* at 72 */
}; /* 80 bytes */

struct tgl_registration {
  void *(*init)(tgl_context *context, const char *buffer, size_t length);
  void (*free)(tgl_context *context, void *user_data);
  int32_t (*prepare)(tgl_context *context, tgl_node *node);
  int32_t (*invoke)(tgl_context *context, tgl_node *node); /* at 24 */
  const char *(*unused_profiling_string)(const tgl_context *context, const tgl_node *node);
  int32_t builtin_code;            /* at 40 */
  const char *custom_name;         /* at 48 */
  int32_t version;                 /* at 56 */
  void *external;                  /* at 64; NULL for ours; for others a kernel with another interface */
  void *unused_async;              /* must be NULL */
  uint64_t unused_in_place;        /* at 80 */
}; /* 88 bytes */

/* A registration is passed by value; zeros stand for members that later hosts may append. */
typedef struct tgl_padded_registration {
  tgl_registration known;
  uint8_t zeros[64];
} tgl_padded_registration; /* 152 bytes */

struct tgl_delegate {
  void *data;
  int32_t (*prepare)(tgl_context *context, tgl_delegate *delegate); /* at 8 */
  int32_t (*copy_from_handle)(tgl_context *context, tgl_delegate *delegate, int32_t handle, tgl_tensor *tensor);
  int32_t (*copy_to_handle)(tgl_context *context, tgl_delegate *delegate, int32_t handle, tgl_tensor *tensor);
  void (*free_handle)(tgl_context *context, tgl_delegate *delegate, int32_t *handle); /* at 32 */
  int64_t flags;                   /* at 40 */
  void *unused_builder;            /* at 48; must be NULL */
}; /* 56 bytes */

/* init gets one as its buffer, and preview_partitions returns a list. */
typedef struct tgl_partition {
  tgl_delegate *delegate;
  tgl_ints *nodes;
  tgl_ints *inputs;
  tgl_ints *outputs;
} tgl_partition; /* 32 bytes */

/* Members marked (p) work only inside the delegate's prepare. */
struct tgl_context {
  size_t tensor_count;
  int32_t (*get_execution_plan)(tgl_context *context, tgl_ints **plan); /* at 8; (p) */
  tgl_tensor *tensors;             /* at 16; moves when tensors are added */
  void *unused_impl;
  int32_t (*resize_tensor)(tgl_context *context, tgl_tensor *tensor, tgl_ints *owned_dims); /* at 32 */
  void (*report_error)(tgl_context *context, const char *format, ...); /* at 40 */
  int32_t (*add_tensors)(tgl_context *context, int32_t count, int32_t *first);
  int32_t (*get_node)(tgl_context *context, int32_t index, tgl_node **node, tgl_registration **registration); /* at 56; (p) */
  int32_t (*replace_nodes)(tgl_context *context, tgl_padded_registration registration, const tgl_ints *nodes,
                           tgl_delegate *delegate); /* at 64; (p) */
  int32_t recommended_threads;     /* at 72 */
  void *(*get_external)(tgl_context *context, int32_t kind); /* at 80 */
  void *unused_set_external;
  bool allow_fp16;                 /* at 96 */
  void *profiler;
  void *unused_micro[4];           /* set in the microcontroller runtime only */
  int32_t (*resize_tensor_explicit)(tgl_context *context, tgl_tensor *tensor, int32_t rank, const int32_t *shape); /* at 144 */
  int32_t (*preview_partitions)(tgl_context *context, const tgl_ints *nodes, tgl_partition **partitions,
                                int32_t *count); /* at 152; (p) */
  void *unused_get_tensor;
  void *unused_get_eval_tensor;
  int32_t (*get_model_metadata)(const tgl_context *context, const char *name, const char **bytes, size_t *size); /* at 176 */
  int32_t (*acquire_subgraph)(tgl_context *context, int32_t index, tgl_context **subgraph); /* at 184; (p) */
  int32_t (*release_subgraph)(tgl_context *context, int32_t index); /* at 192; (p) */
}; /* 200 bytes */

/* ---- parameters of built-in ops, where they have any. An absent options table arrives as zeros. -------------------- */

typedef struct tgl_add_params { int32_t activation; bool pot_scale_int16; } tgl_add_params; /* 8 bytes; ADD, SUB */
typedef struct tgl_mul_params { int32_t activation; } tgl_mul_params;                                    /* MUL, DIV */
typedef struct tgl_conv_params {
  int32_t padding, stride_w, stride_h, activation, dilation_w, dilation_h;                   /* later hosts append */
} tgl_conv_params; /* 24 bytes */
typedef struct tgl_depthwise_params {
  int32_t padding, stride_w, stride_h, depth_multiplier, activation, dilation_w, dilation_h;
} tgl_depthwise_params; /* 28 bytes */
typedef struct tgl_conv_3d_params {
  int32_t padding, stride_w, stride_h, stride_d; /* at 12 */
  int32_t dilation_w, dilation_h, dilation_d; /* at 24 */
  int32_t activation;              /* at 28 */
} tgl_conv_3d_params; /* 32 bytes */
typedef struct tgl_transpose_conv_params {
  int32_t padding, stride_w, stride_h, activation;                                           /* later hosts append */
} tgl_transpose_conv_params; /* 16 bytes */
typedef struct tgl_pool_params {
  int32_t padding, stride_w, stride_h, filter_w, filter_h, activation, unused_computed[4];
} tgl_pool_params; /* 40 bytes */
typedef struct tgl_fully_connected_params {
  int32_t activation, weights_format;                                                        /* later hosts append */
  bool keep_num_dims, asymmetric_quantize_inputs;
} tgl_fully_connected_params; /* 12 bytes */
typedef struct tgl_concatenation_params { int32_t axis, activation; } tgl_concatenation_params;
typedef struct tgl_softmax_params { float beta; } tgl_softmax_params;
typedef struct tgl_reshape_params { int32_t shape[8], count; } tgl_reshape_params; /* 36 bytes; an input 1 overrides it */
typedef struct tgl_squeeze_params { int32_t dims[8], count; } tgl_squeeze_params;
typedef struct tgl_resize_params { bool align_corners, half_pixel_centers; } tgl_resize_params; /* 2 bytes */
typedef struct tgl_strided_slice_params {
  int32_t begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask;
  bool offset;
} tgl_strided_slice_params; /* 24 bytes */
typedef struct tgl_split_params { int32_t count; } tgl_split_params;
typedef struct tgl_lstm_params {
  int32_t activation;
  float cell_clip, proj_clip;
  int32_t kernel;
  bool asymmetric_quantize_inputs;
} tgl_lstm_params; /* 20 bytes */
typedef struct tgl_sequence_lstm_params {
  int32_t activation;
  float cell_clip, proj_clip;
  bool time_major, asymmetric_quantize_inputs, diagonal_recurrent;
} tgl_sequence_lstm_params; /* 16 bytes */
typedef struct tgl_reduce_params { bool keep_dims; } tgl_reduce_params;                      /* MEAN, SUM, REDUCE_* */
typedef struct tgl_leaky_relu_params { float alpha; } tgl_leaky_relu_params;
typedef struct tgl_mirror_pad_params { int32_t mode; } tgl_mirror_pad_params;                /* 1 reflect, 2 symmetric */
typedef struct tgl_block_params { int32_t size; } tgl_block_params;                 /* SPACE_TO_DEPTH, DEPTH_TO_SPACE */
typedef struct tgl_batch_matmul_params { bool adj_x, adj_y, asymmetric_quantize_inputs; } tgl_batch_matmul_params; /* 3 bytes */
typedef struct tgl_gather_params { int32_t axis, batch_dims; } tgl_gather_params;
typedef struct tgl_pack_params { int32_t count, axis; } tgl_pack_params;                     /* PACK, UNPACK */
typedef struct tgl_gelu_params { bool approximate; } tgl_gelu_params; /* 1 byte */
typedef struct tgl_arg_params { int32_t output_type; } tgl_arg_params;                       /* ARG_MAX, ARG_MIN */

/* ---- symbols that hosts look up ----------------------------------------------------------------------------------------- */

tgl_delegate *tflite_plugin_create_delegate(const char *const *keys, const char *const *values, size_t count,
                                            void (*report_error)(const char *));
void tflite_plugin_destroy_delegate(tgl_delegate *delegate);
