/* The binary interface between onnxruntime and a plugin execution provider, in our own words, with slot numbers as observed
 * on 1.24 to 1.32, LP64. The host's tables only grow, so a slot has the same meaning in every version; slots newer than the
 * minimum (1.24) have their version in a comment. C includes this file and cffi reads it unchanged, so it has no preprocessor
 * lines. declare.py checks every slot. Members whose names start with unused are never read or called.
 *
 * Text is UTF-8; a path (void) is a wide string on Windows. A status is NULL for success; others are freed by release_status. */

typedef struct tgo_api tgo_api;
typedef struct tgo_ep_api tgo_ep_api;
typedef struct tgo_editor tgo_editor;

/* Objects of the host. */
typedef struct tgo_attribute tgo_attribute;
typedef struct tgo_context tgo_context;                   /* of one Compute */
typedef struct tgo_ep_device tgo_ep_device;
typedef struct tgo_env tgo_env;                           /* one per process, counted */
typedef struct tgo_external tgo_external;                 /* location of a constant in a separate file */
typedef struct tgo_graph tgo_graph;
typedef struct tgo_hardware tgo_hardware;
typedef struct tgo_kernel_def tgo_kernel_def;             /* what a kernel computes, and where it wants its tensors */
typedef struct tgo_kernel_def_builder tgo_kernel_def_builder;
typedef struct tgo_kernel_info tgo_kernel_info;
typedef struct tgo_kernel_registry tgo_kernel_registry;
typedef struct tgo_logger tgo_logger;
typedef struct tgo_memory tgo_memory;                     /* kind of memory of a tensor */
typedef struct tgo_memory_device tgo_memory_device;       /* the device that has a kind of memory */
typedef struct tgo_node tgo_node;
typedef struct tgo_event tgo_event;                       /* of a profile */
typedef struct tgo_events tgo_events;                     /* collects the events of a provider */
typedef struct tgo_pairs tgo_pairs;                       /* keys and values */
typedef struct tgo_run_options tgo_run_options;
typedef struct tgo_session tgo_session;
typedef struct tgo_session_options tgo_session_options;
typedef struct tgo_status tgo_status;
typedef struct tgo_support tgo_support;                   /* collects what GetCapability claims */
typedef struct tgo_stream tgo_stream;
typedef struct tgo_tensor_info tgo_tensor_info;           /* element kind and shape */
typedef struct tgo_type tgo_type;
typedef struct tgo_value tgo_value;                       /* a tensor with its data */
typedef struct tgo_value_info tgo_value_info;             /* an edge of a graph */

/* ---- numbers ---------------------------------------------------------------------------------------------------- */

enum { TGO_OLDEST = 24, TGO_NEWEST = 29 };                /* minor versions: needed, and known */
enum { TGO_FAIL = 1, TGO_INVALID_ARGUMENT = 2, TGO_EP_FAIL = 11 };  /* codes of create_status */
enum { TGO_VERBOSE = 0, TGO_INFO = 1, TGO_WARNING = 2, TGO_FATAL = 4 };  /* log levels */
enum { TGO_CPU = 0, TGO_GPU = 1, TGO_NPU = 2 };           /* kinds of hardware, and of devices that have memory */
enum { TGO_CPU_INPUT = -2, TGO_CPU_OUTPUT = -1 };         /* memory of a kernel's tensors */
enum { TGO_KERNEL_EVENT = 2, TGO_API_EVENT = 3 };          /* categories of events in a profile */
enum { TGO_TENSOR = 1 };                                  /* the kind of type that tensors have */
enum { TGO_F32 = 1, TGO_I32 = 6, TGO_I64 = 7, TGO_BOOL = 9 };  /* element types */

/* Kinds of attributes. Numbers are read as int64 and float, lengths count bytes. */
enum { TGO_INT = 1, TGO_INTS = 2, TGO_FLOAT = 3, TGO_FLOATS = 4, TGO_TEXT = 5, TGO_TEXTS = 6, TGO_GRAPH = 7, TGO_DATA = 8 };

/* ---- tables of ours ------------------------------------------------------------------------------------------------- */

/* Each struct starts with the version that it is made for; the host reads no members that are newer than its own version.
 * Zeros after the last member stand for members that newer hosts append. */

typedef struct tgo_factory tgo_factory;
typedef struct tgo_ep tgo_ep;
typedef struct tgo_compute tgo_compute;

typedef struct tgo_allocator tgo_allocator;
typedef struct tgo_transfer tgo_transfer;
typedef struct tgo_kernel tgo_kernel;
typedef struct tgo_profiler tgo_profiler;

typedef struct tgo_fusion {
  uint32_t version;
  _Bool drop_constants;            /* at 4; constants are not inputs of the fused node, and the host may free them */
} tgo_fusion;

struct tgo_factory {
  uint32_t version;
  const char *(*get_name)(const tgo_factory *factory); /* 1 */
  const char *(*get_vendor)(const tgo_factory *factory);
  tgo_status *(*get_devices)(tgo_factory *factory, const tgo_hardware *const *hardware, size_t count,
                             tgo_ep_device **devices, size_t capacity, size_t *written); /* 3 */
  tgo_status *(*create_ep)(tgo_factory *factory, const tgo_hardware *const *hardware, const tgo_pairs *const *metadata,
                           size_t count, const tgo_session_options *options, const tgo_logger *logger, tgo_ep **ep); /* 4 */
  void (*release_ep)(tgo_factory *factory, tgo_ep *ep);
  uint32_t (*get_vendor_id)(const tgo_factory *factory); /* 6 */
  const char *(*get_version)(const tgo_factory *factory); /* 7; a semantic version, three numbers */
  void *unused_validate_compiled;
  tgo_status *(*create_allocator)(tgo_factory *factory, const tgo_memory *memory, const tgo_pairs *options,
                                  tgo_allocator **allocator); /* 9 */
  void (*release_allocator)(tgo_factory *factory, tgo_allocator *allocator);
  tgo_status *(*create_transfer)(tgo_factory *factory, tgo_transfer **transfer); /* 11; called unasked; may give NULL */
  _Bool (*is_stream_aware)(const tgo_factory *factory); /* 12 */
  void *unused_after[48];
};

struct tgo_ep {
  uint32_t version;
  const char *(*get_name)(const tgo_ep *ep); /* 1 */
  tgo_status *(*get_capability)(tgo_ep *ep, const tgo_graph *graph, tgo_support *support); /* 2 */
  tgo_status *(*compile)(tgo_ep *ep, const tgo_graph **graphs, const tgo_node **fused, size_t count,
                         tgo_compute **computes, tgo_node **context_nodes);
  void (*release_computes)(tgo_ep *ep, tgo_compute **computes, size_t count); /* 4 */
  void *unused_layout[2];
  tgo_status *(*set_dynamic_options)(tgo_ep *ep, const char *const *keys, const char *const *values, size_t count); /* 7 */
  tgo_status *(*on_run_start)(tgo_ep *ep, const tgo_run_options *options); /* 8 */
  tgo_status *(*on_run_end)(tgo_ep *ep, const tgo_run_options *options, _Bool synchronize);
  void *unused_create[3];
  tgo_status *(*get_kernel_registry)(tgo_ep *ep, const tgo_kernel_registry **registry); /* 13, 1.24 */
  void *unused_concurrent[2];
  tgo_status *(*create_profiler)(tgo_ep *ep, tgo_profiler **profiler); /* 16, 1.25 */
  void *unused_after[51];
};

struct tgo_compute {
  uint32_t version;
  tgo_status *(*create_state)(tgo_compute *compute, void *context, void **state); /* 1 */
  tgo_status *(*compute)(tgo_compute *compute, void *state, tgo_context *context);
  void (*release_state)(tgo_compute *compute, void *state); /* 3 */
};

struct tgo_allocator {
  uint32_t version;
  void *(*alloc)(tgo_allocator *allocator, size_t bytes); /* 1 */
  void (*free)(tgo_allocator *allocator, void *memory);
  const tgo_memory *(*info)(const tgo_allocator *allocator);
  void *(*reserve)(tgo_allocator *allocator, size_t bytes); /* 4; for memory that a session keeps until its end */
  tgo_status *(*get_stats)(const tgo_allocator *allocator, tgo_pairs **stats);
  void *unused_alloc_on_stream;
  tgo_status *(*shrink)(tgo_allocator *allocator); /* 7, 1.25 */
};

struct tgo_transfer {
  uint32_t version;
  void (*release)(tgo_transfer *transfer); /* 1 */
  _Bool (*can_copy)(const tgo_transfer *transfer, const tgo_memory_device *from, const tgo_memory_device *to);
  tgo_status *(*copy)(tgo_transfer *transfer, const tgo_value **from, tgo_value **to, tgo_stream **streams,
                      size_t count); /* 3; streams may be NULL */
};

struct tgo_kernel {
  uint32_t version, flags;
  tgo_status *(*compute)(tgo_kernel *kernel, tgo_context *context); /* 1 */
  void (*release)(tgo_kernel *kernel);
  void *unused_weights[2]; /* 3 */
};

struct tgo_profiler {
  uint32_t version;                /* at least 25 */
  void (*release)(tgo_profiler *profiler); /* 1 */
  tgo_status *(*start)(tgo_profiler *profiler, int64_t offset); /* 2; nanoseconds since the start of the host's profile */
  void *unused_events[2];          /* around each event of the host; may be NULL */
  tgo_status *(*end)(tgo_profiler *profiler, tgo_events *events); /* 5 */
};

/* ---- tables of the host --------------------------------------------------------------------------------------------- */

/* The argument of CreateEpFactories. */
typedef struct tgo_base {
  const tgo_api *(*get_api)(uint32_t version);
  const char *(*get_version)(void);                       /* "1.31.1" */
} tgo_base;

struct tgo_api {
  tgo_status *(*create_status)(int code, const char *message); /* 0 */
  void *unused_1[1];
  const char *(*get_error_message)(const tgo_status *status); /* 2 */
  tgo_status *(*create_env)(int log_level, const char *name, tgo_env **env); /* 3; that of the process, if there is one */
  void *unused_4[4];
  tgo_status *(*create_session_of_bytes)(const tgo_env *env, const void *model, size_t bytes,
                                         const tgo_session_options *options, tgo_session **session); /* 8 */
  tgo_status *(*run)(tgo_session *session, const tgo_run_options *options, const char *const *input_names,
                     const tgo_value *const *inputs, size_t input_count, const char *const *output_names,
                     size_t output_count, tgo_value **outputs); /* 9; makes outputs that are NULL */
  tgo_status *(*create_session_options)(tgo_session_options **options); /* 10 */
  void *unused_11[8];
  tgo_status *(*disable_arena)(tgo_session_options *options); /* 19 */
  void *unused_20[2];
  tgo_status *(*set_log_level)(tgo_session_options *options, int level); /* 22 */
  void *unused_23[26];
  tgo_status *(*create_tensor)(const tgo_memory *memory, void *data, size_t bytes, const int64_t *dims, size_t rank,
                               int kind, tgo_value **value); /* 49; over data of the caller */
  void *unused_50[1];
  tgo_status *(*get_tensor_data)(tgo_value *value, void **data); /* 51 */
  void *unused_52[3];
  tgo_status *(*cast_to_tensor_info)(const tgo_type *type, const tgo_tensor_info **info); /* 55 */
  tgo_status *(*get_type_kind)(const tgo_type *type, int *kind); /* 56 */
  void *unused_57[3];
  tgo_status *(*get_element_kind)(const tgo_tensor_info *info, int *kind); /* 60 */
  tgo_status *(*get_rank)(const tgo_tensor_info *info, size_t *rank); /* 61 */
  tgo_status *(*get_dims)(const tgo_tensor_info *info, int64_t *dims, size_t rank); /* 62 */
  tgo_status *(*get_symbols)(const tgo_tensor_info *info, const char **symbols, size_t rank); /* 63 */
  void *unused_64[1];
  tgo_status *(*get_value_info)(const tgo_value *value, tgo_tensor_info **info); /* 65 */
  void *unused_66[3];
  tgo_status *(*create_cpu_memory)(int allocator, int kind, tgo_memory **memory); /* 69 */
  void *unused_70[20];
  tgo_status *(*get_input)(const tgo_context *context, size_t index, const tgo_value **value); /* 90 */
  tgo_status *(*get_output)(tgo_context *context, size_t index, const int64_t *dims, size_t rank,
                            tgo_value **value); /* 91 */
  void (*release_env)(tgo_env *env); /* 92 */
  void (*release_status)(tgo_status *status); /* 93 */
  void (*release_memory)(tgo_memory *memory); /* 94 */
  void (*release_session)(tgo_session *session); /* 95 */
  void (*release_value)(tgo_value *value); /* 96 */
  void *unused_97[2];
  void (*release_tensor_info)(tgo_tensor_info *info); /* 99 */
  void (*release_session_options)(tgo_session_options *options); /* 100 */
  void *unused_101[24];
  tgo_status *(*get_providers)(char ***names, int *count); /* 125; the providers that are built in */
  tgo_status *(*release_providers)(char **names, int count); /* 126 */
  void *unused_127[3];
  tgo_status *(*set_config)(tgo_session_options *options, const char *key, const char *value); /* 130 */
  void *unused_131[79];
  tgo_status *(*add_external)(tgo_session_options *options, const char *const *names, const tgo_value *const *values,
                              size_t count); /* 210; constants whose data a model does not hold */
  tgo_status *(*create_attribute)(const char *name, const void *data, int length, int kind,
                                  tgo_attribute **attribute); /* 211; length counts items */
  void (*release_attribute)(tgo_attribute *attribute); /* 212 */
  void *unused_213[34];
  tgo_status *(*log)(const tgo_logger *logger, int level, const char *message, const void *file, int line,
                     const char *function); /* 247 */
  void *unused_248[6];
  const char *(*get_build_info)(void); /* 254 */
  void *unused_255[17];
  tgo_status *(*read_attribute)(const tgo_attribute *attribute, int kind, void *data, size_t bytes,
                                size_t *needed); /* 272 */
  void *unused_273[16];
  tgo_status *(*get_name)(const tgo_value_info *value, const char **name); /* 289 */
  tgo_status *(*get_type)(const tgo_value_info *value, const tgo_type **type); /* 290 */
  const tgo_editor *(*get_editor)(void); /* 291 */
  void *unused_292[3];
  void (*create_pairs)(tgo_pairs **pairs); /* 295 */
  void (*add_pair)(tgo_pairs *pairs, const char *key, const char *value); /* 296 */
  const char *(*get_pair)(const tgo_pairs *pairs, const char *key); /* 297 */
  void (*get_pairs)(const tgo_pairs *pairs, const char *const **keys, const char *const **values,
                    size_t *count); /* 298 */
  void *unused_299[1];
  void (*release_pairs)(tgo_pairs *pairs); /* 300 */
  void *unused_301[6];
  int (*get_device_kind)(const tgo_hardware *hardware); /* 307 */
  uint32_t (*get_device_vendor_id)(const tgo_hardware *hardware); /* 308 */
  void *unused_309[1];
  uint32_t (*get_device_id)(const tgo_hardware *hardware); /* 310 */
  void *unused_311[6];
  const tgo_ep_api *(*get_ep_api)(void); /* 317 */
  tgo_status *(*get_byte_count)(const tgo_value *value, size_t *bytes); /* 318 */
  void *unused_319[1];
  tgo_status *(*create_memory)(const char *name, int device_kind, uint32_t vendor_id, int32_t device_id, int kind,
                               size_t alignment, int allocator, tgo_memory **memory); /* 320 */
  void *unused_321[5];
  tgo_status *(*get_initializer)(const tgo_value_info *value, const tgo_value **data); /* 326 */
  tgo_status *(*get_external)(const tgo_value_info *value, tgo_external **info); /* 327; NULL for data in the model */
  void *unused_328[1];
  tgo_status *(*is_optional_input)(const tgo_value_info *value, _Bool *is); /* 329 */
  void *unused_330[1];
  tgo_status *(*is_constant)(const tgo_value_info *value, _Bool *is); /* 331 */
  void *unused_332[2];
  tgo_status *(*get_model_path)(const tgo_graph *graph, const void **path); /* 334 */
  void *unused_335[1];
  tgo_status *(*get_opset_count)(const tgo_graph *graph, size_t *count); /* 336 */
  tgo_status *(*get_opsets)(const tgo_graph *graph, const char **domains, int64_t *versions, size_t count); /* 337 */
  tgo_status *(*get_graph_input_count)(const tgo_graph *graph, size_t *count); /* 338 */
  tgo_status *(*get_graph_inputs)(const tgo_graph *graph, const tgo_value_info **values, size_t count); /* 339 */
  tgo_status *(*get_graph_output_count)(const tgo_graph *graph, size_t *count); /* 340 */
  tgo_status *(*get_graph_outputs)(const tgo_graph *graph, const tgo_value_info **values, size_t count); /* 341 */
  void *unused_342[2];
  tgo_status *(*get_node_count)(const tgo_graph *graph, size_t *count); /* 344 */
  tgo_status *(*get_nodes)(const tgo_graph *graph, const tgo_node **nodes, size_t count); /* 345 */
  tgo_status *(*get_parent_node)(const tgo_graph *graph, const tgo_node **node); /* 346; NULL for the model itself */
  void *unused_347[1];
  tgo_status *(*get_node_id)(const tgo_node *node, size_t *id); /* 348 */
  tgo_status *(*get_node_name)(const tgo_node *node, const char **name); /* 349 */
  tgo_status *(*get_op_type)(const tgo_node *node, const char **type); /* 350 */
  tgo_status *(*get_domain)(const tgo_node *node, const char **domain); /* 351 */
  tgo_status *(*get_since_version)(const tgo_node *node, int *version); /* 352 */
  tgo_status *(*get_node_input_count)(const tgo_node *node, size_t *count); /* 353 */
  tgo_status *(*get_node_inputs)(const tgo_node *node, const tgo_value_info **values, size_t count); /* 354 */
  tgo_status *(*get_node_output_count)(const tgo_node *node, size_t *count); /* 355 */
  tgo_status *(*get_node_outputs)(const tgo_node *node, const tgo_value_info **values, size_t count); /* 356 */
  tgo_status *(*get_implicit_input_count)(const tgo_node *node, size_t *count); /* 357 */
  tgo_status *(*get_implicit_inputs)(const tgo_node *node, const tgo_value_info **values, size_t count); /* 358 */
  tgo_status *(*get_attribute_count)(const tgo_node *node, size_t *count); /* 359 */
  tgo_status *(*get_attributes)(const tgo_node *node, const tgo_attribute **attributes, size_t count); /* 360 */
  void *unused_361[1];
  tgo_status *(*get_attribute_tensor)(const tgo_attribute *attribute, tgo_value **value); /* 362 */
  tgo_status *(*get_attribute_kind)(const tgo_attribute *attribute, int *kind); /* 363 */
  tgo_status *(*get_attribute_name)(const tgo_attribute *attribute, const char **name); /* 364 */
  tgo_status *(*get_body_count)(const tgo_node *node, size_t *count); /* 365 */
  tgo_status *(*get_bodies)(const tgo_node *node, const tgo_graph **graphs, size_t count,
                            const char **attributes); /* 366 */
  tgo_status *(*get_node_graph)(const tgo_node *node, const tgo_graph **graph); /* 367: NULL for a parent node */
  tgo_status *(*get_node_provider)(const tgo_node *node, const char **name); /* 368: NULL or "" while no provider has claimed it */
  void (*release_external)(tgo_external *info); /* 369 */
  const void *(*get_external_file)(const tgo_external *info); /* 370 */
  int64_t (*get_external_offset)(const tgo_external *info); /* 371 */
  size_t (*get_external_bytes)(const tgo_external *info); /* 372 */
  void *unused_373[6];
  tgo_status *(*get_config)(const tgo_session_options *options, tgo_pairs **pairs); /* 379 */
  void *unused_380[10];
  _Bool (*has_shape)(const tgo_tensor_info *info); /* 390, 1.24 */
  void *unused_391[23];
  tgo_status *(*get_kind_and_dims)(const tgo_value *value, int *kind, const int64_t **dims, size_t *rank); /* 414, 1.24 */
};

struct tgo_editor {
  void *unused_0[6];
  tgo_status *(*create_node)(const char *op, const char *domain, const char *name, const char *const *inputs,
                             size_t input_count, const char *const *outputs, size_t output_count,
                             tgo_attribute **attributes, size_t attribute_count, tgo_node **node); /* 6 */
};

struct tgo_ep_api {
  tgo_status *(*create_ep_device)(tgo_factory *factory, const tgo_hardware *hardware,
                                  const tgo_pairs *metadata, const tgo_pairs *defaults, tgo_ep_device **device); /* 0 */
  void *unused_1[1];
  tgo_status *(*add_nodes_to_fuse)(tgo_support *support, const tgo_node *const *nodes, size_t count,
                                   const tgo_fusion *fusion); /* 2 */
  void *unused_3[2];
  tgo_status *(*add_memory)(tgo_ep_device *device, const tgo_memory *memory); /* 5; keeps the pointer */
  const tgo_memory_device *(*get_memory_device)(const tgo_memory *memory); /* 6 */
  const tgo_memory_device *(*get_value_device)(const tgo_value *value); /* 7 */
  _Bool (*are_equal)(const tgo_memory_device *a, const tgo_memory_device *b); /* 8 */
  int (*get_memory_device_kind)(const tgo_memory_device *device); /* 9 */
  void *unused_10[6];
  tgo_status *(*create_hardware)(int kind, uint32_t vendor_id, uint32_t device_id, const char *vendor,
                                 const tgo_pairs *metadata, tgo_hardware **hardware); /* 16, 1.24 */
  void *unused_17[1];
  tgo_status *(*create_kernel_registry)(tgo_kernel_registry **registry); /* 18, 1.24 */
  void *unused_19[1];
  tgo_status *(*add_kernel)(tgo_kernel_registry *registry, const tgo_kernel_def *def,
                            tgo_status *(*create)(void *given, const tgo_kernel_info *info, tgo_kernel **kernel),
                            void *given); /* 20, 1.24 */
  tgo_status *(*create_kernel_def_builder)(tgo_kernel_def_builder **builder); /* 21, 1.24 */
  void (*release_kernel_def_builder)(tgo_kernel_def_builder *builder); /* 22, 1.24 */
  tgo_status *(*set_op_type)(tgo_kernel_def_builder *builder, const char *type); /* 23, 1.24 */
  tgo_status *(*set_domain)(tgo_kernel_def_builder *builder, const char *domain); /* 24, 1.24 */
  tgo_status *(*set_versions)(tgo_kernel_def_builder *builder, int first, int last); /* 25, 1.24 */
  tgo_status *(*set_provider)(tgo_kernel_def_builder *builder, const char *name); /* 26, 1.24 */
  tgo_status *(*set_input_memory)(tgo_kernel_def_builder *builder, size_t index, int kind); /* 27, 1.24 */
  tgo_status *(*set_output_memory)(tgo_kernel_def_builder *builder, size_t index, int kind); /* 28, 1.24 */
  void *unused_29[3];
  tgo_status *(*build_kernel_def)(tgo_kernel_def_builder *builder, tgo_kernel_def **def); /* 32, 1.24 */
  void (*release_kernel_def)(tgo_kernel_def *def); /* 33, 1.24 */
  void *unused_34[31];
  tgo_status *(*create_event)(int category, int32_t process, int32_t thread, const char *name, int64_t microseconds,
                              int64_t duration, const char *const *keys, const char *const *values, size_t count,
                              tgo_event **event); /* 65, 1.25; since the start of the host's profile */
  void (*release_event)(tgo_event *event); /* 66, 1.25 */
  void *unused_67[5];
  tgo_status *(*add_events)(tgo_events *events, const tgo_event *const *list, size_t count); /* 72, 1.25; copies them */
};

/* ---- symbols that hosts look up ----------------------------------------------------------------------------------------- */

tgo_status *CreateEpFactories(const char *name, const tgo_base *base, const tgo_logger *logger, tgo_factory **factories,
                              size_t capacity, size_t *written);
tgo_status *ReleaseEpFactory(tgo_factory *factory);
