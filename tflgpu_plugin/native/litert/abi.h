/* The binary interface between LiteRT's runtime (CompiledModel) and an accelerator, in our own words, with layouts as observed in
 * ai-edge-litert 2.3 on LP64 and LLP64. C includes this file and cffi reads it unchanged, so it has no preprocessor lines.
 * declare.py checks the sizes and offsets in comments. Members whose names start with unused are never read or called. */

/* Objects of the runtime. */
typedef struct tgr_environment tgr_environment;
typedef struct tgr_environment_options tgr_environment_options;
typedef struct tgr_accelerator tgr_accelerator;
typedef struct tgr_options tgr_options;                   /* of the compilation of one model */
typedef struct tgr_opaque_options tgr_opaque_options;     /* a list of texts by identifier, in them */
typedef struct tgr_wrapper tgr_wrapper;                   /* owns a delegate */
typedef struct tgr_delegate tgr_delegate;                 /* what the runtime takes as a TFLite delegate */
typedef struct tgr_tensor tgr_tensor;                     /* what TFLite has as a tensor */
typedef struct tgr_buffers tgr_buffers;                   /* the buffers and requirements of a model's tensors */
typedef struct tgr_buffer tgr_buffer;                     /* a tensor buffer of the program */
typedef struct tgr_requirements tgr_requirements;

/* ---- numbers ------------------------------------------------------------------------------------------------------- */

enum { TGR_OK = 0, TGR_INVALID_ARGUMENT = 1, TGR_FAILURE = 3, TGR_UNSUPPORTED = 5, TGR_WRONG_VERSION = 8 };  /* status */
enum { TGR_ON_CPU = 1, TGR_ON_GPU = 2, TGR_ON_NPU = 4 };  /* hardware, as bits */
enum { TGR_LIBRARY_FOLDER = 22 };                         /* tags of an environment's options */
enum { TGR_TEXT = 8, TGR_POINTER = 9 };                   /* kinds of tgr_any */
enum { TGR_HOST_MEMORY = 1, TGR_OURS = 142 };             /* kinds of buffers; those from 100 to 199 are for accelerators */
enum { TGR_READ = 0, TGR_WRITE = 1, TGR_READ_WRITE = 2 }; /* modes of a lock */
enum { TGR_FLOAT32 = 1, TGR_FLOAT16 = 10 };               /* elements of tensors and buffers; some of them */
enum { TGR_RANK = 127, TGR_MOST_RANK = 8 };               /* bits of the rank in tgr_type.layout */
enum { TGR_MAJOR = 1 };                                   /* of all tables here */

/* ---- data ------------------------------------------------------------------------------------------------------------ */

/* Each table begins with it. Minor versions append members; `bytes` says where a table ends. */
typedef struct tgr_header {
  uint16_t bytes, major, minor, unused_reserved;
} tgr_header; /* 8 bytes */

typedef struct tgr_any {
  int32_t kind;
  const char *text;                /* at 8; where the kind is TGR_TEXT */
} tgr_any; /* 16 bytes */

typedef struct tgr_version {
  int32_t major, minor, patch;
} tgr_version; /* 12 bytes */

/* The type of a tensor or buffer. */
typedef struct tgr_type {
  int32_t element;
  uint32_t layout;                 /* at 4; the rank in its lowest bits */
  int32_t extents[8];              /* at 8 */
  uint32_t unused_strides[8];
} tgr_type; /* 72 bytes */

/* ---- the runtime's table ----------------------------------------------------------------------------------------------- */

typedef struct tgr_runtime {
  tgr_header header;
  int32_t (*create_requirements)(int32_t kind_count, const int32_t *kinds, size_t bytes, int32_t stride_count,
                                 const uint32_t *strides, tgr_requirements **made); /* at 8 */
  int32_t (*find_buffer)(tgr_buffers *all, const tgr_tensor *tensor, tgr_buffer **retained); /* at 16 */
  void *unused_registration[3];
  int32_t (*take_requirements)(tgr_buffers *all, const tgr_tensor *tensor, tgr_requirements *owned); /* at 48 */
  void *unused_get_environment;
  int32_t (*is_asynchronous)(tgr_buffers *all, bool *asynchronous); /* at 64; of the present run */
  void *unused_destroy_buffers;
  int32_t (*get_opaque_options)(tgr_options *options, tgr_opaque_options **list); /* at 80 */
  int32_t (*find_opaque_data)(tgr_opaque_options *list, const char *identifier, void **data); /* at 88 */
  void *unused_destroy_options;
  int32_t (*get_environment_options)(tgr_environment *environment, tgr_environment_options **options); /* at 104 */
  int32_t (*get_environment_value)(tgr_environment_options *options, int32_t tag, tgr_any *value); /* at 112 */
  void *unused_gpu_environment[3];
  int32_t (*wrap_delegate)(tgr_delegate *delegate, void (*destroy)(tgr_delegate *delegate), tgr_wrapper **wrapper); /* at 144 */
  void *unused_creation[3];
  void (*release_buffer)(tgr_buffer *buffer); /* at 176 */
  int32_t (*get_kind)(tgr_buffer *buffer, int32_t *kind); /* at 184 */
  int32_t (*get_type)(tgr_buffer *buffer, tgr_type *type); /* at 192 */
  int32_t (*get_bytes)(tgr_buffer *buffer, size_t *bytes); /* at 200 */
  void *unused_locking[4];
  int32_t (*get_host_memory)(tgr_buffer *buffer, void **address); /* at 240 */
  void *unused_other_memory[2];
  int32_t (*get_handle)(tgr_buffer *buffer, void **handle); /* at 264; of a kind of ours: tgr_memory.handle */
} tgr_runtime; /* 272 bytes */

/* ---- what an accelerator is ------------------------------------------------------------------------------------------- */

/* The memory of a buffer of the accelerator's own; the accelerator may append members. */
typedef struct tgr_memory {
  void *handle;
  void *unused_raw;
} tgr_memory; /* 16 bytes */

/* Handlers for buffers of the accelerator's own. `bytes` are those of the requirements, `packed_bytes` those of the type. */
typedef struct tgr_handlers {
  tgr_header header;
  int32_t (*create)(void *device, void *queue, const void *tensor_type, int32_t kind, size_t bytes, size_t packed_bytes,
                    tgr_memory **made); /* at 8 */
  int32_t (*destroy)(tgr_memory *memory); /* at 16 */
  int32_t (*lock)(tgr_memory *memory, int32_t mode, void **address); /* at 24 */
  int32_t (*unlock)(tgr_memory *memory); /* at 32 */
  int32_t (*clear)(tgr_memory *memory); /* at 40 */
  void *unused_import;             /* may be NULL; the runtime never imports kinds from 100 to 199 */
  int32_t unused_tags[2];          /* at 56; options of an environment that have its device and queue */
  size_t kind_count;               /* at 64; at most 15 */
  int32_t kinds[16];               /* at 72 */
} tgr_handlers; /* 136 bytes */

typedef struct tgr_definition {
  tgr_header header;
  int32_t (*get_name)(const tgr_accelerator *accelerator, const char **name); /* at 8 */
  int32_t (*get_version)(const tgr_accelerator *accelerator, tgr_version *version); /* at 16 */
  int32_t (*get_hardware)(const tgr_accelerator *accelerator, int32_t *bits); /* at 24 */
  int32_t (*get_compiles)(const tgr_accelerator *accelerator, bool *compiles); /* at 32; its delegate compiles models */
  int32_t (*create_delegate)(const tgr_runtime *runtime, tgr_environment *environment, const tgr_accelerator *accelerator,
                             tgr_options *options, tgr_wrapper **wrapper); /* at 40 */
  void *unused_metrics[2];         /* start and stop; may be NULL */
  tgr_handlers handlers;           /* at 64 */
} tgr_definition; /* 200 bytes */

/* ---- the symbol that the runtime looks up -------------------------------------------------------------------------------- */

extern const tgr_definition LiteRtAcceleratorImpl;
