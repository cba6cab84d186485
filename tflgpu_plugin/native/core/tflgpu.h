/* The functions of the shared library that Python calls. C includes this file and cffi reads it unchanged, so it has no
 * preprocessor lines. Every object is reference-counted; its creator owns one reference and gives it back with
 * tg_*_release, which waits for no lock, calls no Python and accepts NULL. A function that can fail returns NULL or a
 * non-zero status and writes a sentence to err. */

typedef struct tg_error {
  char text[4096]; /* ends in a zero byte; longer text is cut */
  uint32_t no_memory; /* set where the host or the GPU has not enough memory */
} tg_error;

typedef struct tg_device tg_device;
typedef struct tg_pipeline tg_pipeline;
typedef struct tg_buffer tg_buffer;
typedef struct tg_replay tg_replay;
typedef struct tg_partition tg_partition; /* the first member of a tg_kernel and a tg_ort_partition */
typedef struct tg_kernel tg_kernel;
typedef struct tg_ort_partition tg_ort_partition;

/* ---- library ------------------------------------------------------------------------------------------------ */

uint32_t tg_abi_version(void);                       /* the version of this header: 7 */
/* Returns 1, 2, ...: numbers of delegates and sessions, unique in the process even with several copies of the package. */
int64_t tg_next_number(void);
int tg_is_live(int64_t number);    /* whether the host still has the delegate or session */

/* Returns 1 with a sentence in a child of a fork that must not use the GPU: it was open, or a thread of the parent was busy
 * in our Python code and may have held locks, which nobody in the child releases. tg_busy counts such threads. */
int tg_is_forked(tg_error *err);
void tg_busy(int change);

/* Callbacks run on helper threads. These return the thread whose call into the host has led to the present call, or else the
 * present thread: as in Python's threading.get_ident(), and as a number that no other thread ever gets. */
uint64_t tg_caller_thread(void);
int64_t tg_caller_number(void);

/* Loads the libwgpu_native of the wgpu package (path of its file), resolves its functions and takes over its log
 * (tg_take_log). Idempotent. */
int tg_bind_wgpu(const char *path, tg_error *err);

/* Returns 1 when a loaded library exports LLVM to libraries loaded later; 0 without glibc, where these do not conflict. */
int tg_llvm_is_exported(void);
/* Opens a Vulkan driver for good and binds all its calls now, before another library can export functions of these names.
 * alone: the driver's own libraries come before those of the process. Errors are left to the Vulkan loader. */
void tg_open_driver(const char *path, int alone);

/* Messages for Python's `logging`, from wgpu and about devices. tg_has_log returns whether there are any; never in a child of
 * a fork that must not use the GPU. tg_take_log moves them to `text`, which has TG_LOG_BYTES, and returns the number of bytes:
 * for each message a digit (3 warning, 4 error), its text and a zero byte. The callback must take them; it is called at the
 * end of a host's call that leaves some. NULL clears it and waits for calls in flight. */
enum { TG_LOG_BYTES = 16384 };
int tg_has_log(void);
size_t tg_take_log(char *text);
void tg_set_log_callback(void (*take)(void));

/* Python's atexit calls this when the process exits. It waits for runs on the GPU, for at most 10 seconds. Afterwards only the
 * calling thread may use the GPU. Other threads that end or start a run stay in it for good, because returning to a host that
 * is being destroyed would abort the process. */
void tg_close(void);

/* ---- adapters.c --------------------------------------------------------------------------------------------- */

/* An adapter, in WebGPU's numbers (backend: WGPUBackendType, kind: WGPUAdapterType). features: the numbers of those features of
 * tg_feature that it has. The handle is valid as long as the process. */
typedef struct tg_adapter {
  void *handle;
  char name[256], driver[256];
  uint32_t backend, kind, vendor_id, device_id;
  uint32_t features[16], feature_count;
  uint64_t max_storage_buffers, max_binding_bytes, max_buffer_bytes, max_groups, max_invocations, max_workgroup_bytes;
} tg_adapter;

/* Backends whose adapters are listed together. wgpu makes a device of each adapter of D3D12 that it lists. */
enum { TG_VULKAN_AND_METAL, TG_D3D12_BY_FXC, TG_D3D12_BY_DXC, TG_BACKENDS };

/* Lists the adapters of these backends: at most capacity of them, and count is written. dxc is the path of dxcompiler.dll with
 * TG_D3D12_BY_DXC, else NULL. Each call looks them up anew and keeps them for good, so call it once for each. */
int tg_adapters_list(uint32_t backends, const char *dxc, tg_adapter *adapters, size_t capacity, size_t *count, tg_error *err);
/* Returns the name and number of a feature that devices may require, by position; NULL after the last. */
const char *tg_feature(size_t position, uint32_t *number);

/* ---- device.c ----------------------------------------------------------------------------------------------- */

/* Opens a device with the adapter's limits. adapter: a WGPUAdapter owned by the caller. features: WGPUFeatureName values that
 * the adapter has. */
tg_device *tg_device_create(void *adapter, const uint32_t *features, size_t feature_count, tg_error *err);
void tg_device_release(tg_device *device);
int tg_device_is_lost(tg_device *device);            /* asks the device, except while the process exits and in a forked child */
void tg_device_mark_lost(tg_device *device);         /* for tests: as if the driver had reported the loss */
void tg_device_destroy(tg_device *device);           /* for tests: the device is lost, but not reported as lost */

/* Usage bits of tg_buffer_create. HOST_READ and HOST_WRITE: the host reads or writes the buffer in every run. On a device with
 * mappable primary buffers it is mapped for that, on others the bytes go through a staging buffer. FILL_FIRST: it is written
 * before its first use, then tg_buffer_filled is called; where buffers can be mapped, writes go directly to its memory. */
enum {
  TG_BUFFER_STORAGE = 1,
  TG_BUFFER_UNIFORM = 2,
  TG_BUFFER_COPY_SRC = 4,
  TG_BUFFER_COPY_DST = 8,
  TG_BUFFER_HOST_READ = 16,
  TG_BUFFER_HOST_WRITE = 32,
  TG_BUFFER_FILL_FIRST = 64
};
enum { TG_KEY_BYTES = 32 };
/* Purposes of buffers, by which their bytes are counted. TG_TENSOR: tensors that a host keeps on the GPU. */
enum { TG_WEIGHTS, TG_POOL, TG_PORT, TG_UNIFORMS, TG_STAGING, TG_TENSOR, TG_KINDS };
typedef struct tg_memory { uint64_t bytes[6]; } tg_memory;   /* by kind */
tg_buffer *tg_buffer_create(tg_device *device, uint64_t bytes, uint32_t usage, uint32_t kind, tg_error *err);
void tg_buffer_release(tg_buffer *buffer);
/* Writes to a buffer; offset and bytes are multiples of 4. Large writes are submitted in slices to keep staging memory small. */
int tg_buffer_write(tg_buffer *buffer, uint64_t offset, const void *data, uint64_t bytes, tg_error *err);
/* Ends filling. With a key (TG_KEY_BYTES; else NULL), tg_buffer_find returns the buffer as long as somebody has a reference. */
int tg_buffer_filled(tg_buffer *buffer, const uint8_t *key, tg_error *err);
/* Returns a buffer of this device by its key, with a reference for the caller, or NULL. Equal keys must mean equal bytes. */
tg_buffer *tg_buffer_find(tg_device *device, const uint8_t *key);
void tg_memory_get(tg_memory *out);                  /* sums over all buffers of the process */
/* Fills a buffer with one 32-bit word (for the test mode that fills pools with NaN). */
int tg_buffer_fill(tg_buffer *buffer, uint32_t word, tg_error *err);

/* Makes a compute pipeline with the entry point "main". kinds: one letter per binding of group 0 in order: 'u' uniform (256
 * bytes), 'r' read-only storage, 'w' read-write storage. */
tg_pipeline *tg_pipeline_create(tg_device *device, const char *wgsl, const char *kinds, tg_error *err);
void tg_pipeline_release(tg_pipeline *pipeline);
/* Makes the driver generate code now: runs one 1x1x1 dispatch on small scratch buffers and waits for it. Its uniform block is
 * zero, so that every loop ends at once. */
int tg_pipeline_warm_up(tg_pipeline *pipeline, tg_error *err);

/* ---- replay.c ----------------------------------------------------------------------------------------------- */

typedef struct tg_dispatch_spec {
  tg_pipeline *pipeline;
  uint32_t first_binding;          /* index into tg_replay_spec.bindings; the pipeline has the number of bindings */
  uint32_t uniform_offset;         /* offset in the uniform buffer for binding 'u', a multiple of 256 */
  uint32_t x, y, z, optional;      /* workgroups; whether other shapes may need another number where there are none */
} tg_dispatch_spec;

typedef struct tg_port_spec {
  tg_buffer *buffer;               /* in the host's layout (row-major), padded to a multiple of 4 bytes */
  uint64_t bytes;                  /* size of the host's tensor */
} tg_port_spec;

typedef struct tg_replay_spec {
  uint32_t version;                /* tg_abi_version() */
  tg_buffer *uniforms;
  const tg_dispatch_spec *dispatches;
  size_t dispatch_count;
  tg_buffer *const *bindings;      /* storage and uniform buffers of all dispatches, in binding order */
  size_t binding_count;
  const tg_port_spec *inputs;
  size_t input_count;
  const tg_port_spec *outputs;
  size_t output_count;
  const tg_port_spec *states;      /* read by the first dispatches, written by the last ones */
  size_t state_count;
  const char *labels;              /* names of the dispatches for profiles, one per line; or NULL */
  tg_buffer *check;                /* or NULL: its first word is cleared before a run, and the run fails when a kernel has set it */
} tg_replay_spec;

/* Copies the spec, makes the bind groups, and takes its own references to all objects in the spec. */
tg_replay *tg_replay_create(tg_device *device, const tg_replay_spec *spec, tg_error *err);
void tg_replay_release(tg_replay *replay);

/* Where the bytes of a port are: in host memory, or in a device buffer at an offset. An output with neither (both NULL) stays
 * on the device, and tg_replay_read_output fetches it later. */
typedef struct tg_port {
  void *host;
  tg_buffer *device;
  uint64_t offset;
  uint64_t bytes;                  /* size of the host's tensor: a run whose plan has another one fails before it reads or writes */
} tg_port;

typedef struct tg_run_options {
  uint32_t stop_after;             /* dispatches to run; 0 means all */
  uint64_t *timestamps;            /* NULL, or room for dispatch_count + 1 values in nanoseconds */
  uint32_t ends_only;              /* timestamps has three values: before the first dispatch, after the last, and once more,
                                    * which shows how long taking a timestamp takes */
} tg_run_options;

typedef struct tg_counters {
  uint64_t runs, failures, uploaded_bytes, downloaded_bytes;
  uint64_t last_nanoseconds;       /* wall time of the last run, without fetching timestamps */
  uint64_t copied_bytes;           /* between tensors on the device and the buffers of the replay */
} tg_counters;

/* One inference: writes inputs, submits one compute pass, waits once, reads outputs. states[i].host is host memory that is
 * uploaded before the run, and written after it. Takes the run lock of
 * the replay and, from the first queue write to the submit, the device's lock. options may be NULL. */
int tg_replay_run(tg_replay *replay, const tg_port *inputs, const tg_port *outputs, const tg_port *states,
                  const tg_run_options *options, tg_error *err);
/* States are counted after the outputs. */
int tg_replay_read_output(tg_replay *replay, size_t index, void *host, uint64_t bytes, tg_error *err);   /* for tests */
void tg_replay_counters(tg_replay *replay, tg_counters *out);

/* ---- plans.c ------------------------------------------------------------------------------------------------ */

/* How a plan depends on the shapes of a run. Registers are int64: first the symbols, then the constants, then one per formula.
 * A plan does not apply to shapes with which a guard fails, a formula overflows or divides by zero, a word does not fit its type,
 * an extent or a port's bytes are negative or larger than int32 or the port's buffer, or a number of workgroups is too small or
 * over the adapter's limit. A quotient is rounded down; the sign of a remainder is that of its divisor. */
enum { TG_PLUS, TG_TIMES, TG_QUOTIENT, TG_REMAINDER, TG_ROUNDED_UP, TG_LARGER, TG_SMALLER };
enum { TG_ZERO, TG_NOT_ZERO, TG_NOT_NEGATIVE };
enum { TG_U32, TG_I32, TG_F32 };
typedef struct tg_place { uint32_t position, reg; } tg_place;      /* position of an extent in a flat list of shapes */
typedef struct tg_formula { uint32_t operation, a, b; } tg_formula;   /* operands: earlier registers */
typedef struct tg_guard { uint32_t kind, reg; } tg_guard;
typedef struct tg_word { uint32_t offset, reg, kind; } tg_word;    /* offset in the uniforms, a multiple of 4 */
typedef struct tg_group { uint32_t dispatch, axis, reg, least; } tg_group;   /* workgroups: at least this number, 0 or 1 */
typedef struct tg_size { uint32_t port, reg; } tg_size;            /* bytes of a port: inputs, then outputs, then states */

typedef struct tg_symbols {
  const tg_place *places; size_t place_count;      /* in `shapes`; a symbol's places must be equal, all other entries the plan's */
  size_t symbol_count;                             /* each symbol has a place */
  const int64_t *constants; size_t constant_count;
  const tg_formula *formulas; size_t formula_count;
  const tg_guard *guards; size_t guard_count;
  const tg_word *words; size_t word_count;
  const tg_group *groups; size_t group_count;
  const tg_size *sizes; size_t size_count;
  const tg_place *extents; size_t extent_count;    /* in `output_shapes`, except those that a run counts */
  const void *uniforms; size_t uniform_bytes;      /* all uniforms of the plan, for its own shapes */
} tg_symbols;

/* A plan of a partition. shapes: for each input of the partition its rank, then its extents, and for each of its values a count,
 * then numbers. output_shapes: likewise, for the host; -1 - k for an extent that is the k-th count of a run. replay: NULL where
 * there is no plan for these shapes; runs fail with the reason then. symbols: NULL, or how the plan follows from other shapes;
 * with the plan's own shapes they must give the numbers with which its replay was made. Buffers are as large as its guards
 * permit. A partition keeps 8 plans, the newest for each list of shapes, and drops the least recently used one. A run takes the
 * plan of its shapes, else one whose symbols accept them. All is copied, and the partition takes its own reference. */
typedef struct tg_plan_spec {
  const int32_t *shapes; size_t shape_count;
  const int32_t *output_shapes; size_t output_shape_count;
  tg_replay *replay; const char *reason; const tg_symbols *symbols;
} tg_plan_spec;
int tg_partition_add(tg_partition *partition, const tg_plan_spec *spec, tg_error *err);
/* plans: returns whether runs with these shapes have a plan. drop: drops the plan made for these shapes, unless it has states. */
int tg_partition_plans(tg_partition *partition, const int32_t *shapes, size_t count);
void tg_partition_drop(tg_partition *partition, const int32_t *shapes, size_t count);
/* Takes over the plans of another partition with the same inputs, outputs and states, which the host has replaced by this one. */
void tg_partition_adopt(tg_partition *partition, tg_partition *from);

typedef struct tg_partition_state {
  uint32_t live;                   /* whether the host has its kernel or fused node */
  uint32_t times_freed;            /* how often the host has freed that */
  uint64_t runs, failures;         /* runs on the GPU; runs that failed there and on the host's kernels */
  uint64_t host_runs;              /* runs on the host's own kernels instead of the GPU */
  uint64_t uploaded_bytes, downloaded_bytes, last_nanoseconds;
  uint64_t device_inputs;          /* inputs of all runs that came from another partition, on the device */
  char failure[1024];              /* why the last of the failures was one; "" without any */
} tg_partition_state;
void tg_partition_get_state(tg_partition *partition, tg_partition_state *out);
/* The buffers of all plans of these partitions, each counted once. */
void tg_partitions_get_memory(tg_partition *const *partitions, size_t count, tg_memory *out);

/* ---- tensors.c ---------------------------------------------------------------------------------------------- */

/* Tensors that hosts keep on the GPU, of all sessions of the process. Bytes of runs are not in these counts. */
typedef struct tg_tensor_state {
  uint64_t blocks, bytes;          /* allocations in use */
  uint64_t most_bytes;             /* in use at once, so far */
  uint64_t kept_blocks, kept_bytes;                /* freed, and kept for reuse */
  uint64_t device_bytes;           /* of all their device buffers */
  uint64_t uploaded_bytes, downloaded_bytes;       /* moved between the host and the GPU outside of runs */
} tg_tensor_state;
void tg_tensor_get_state(tg_tensor_state *out);
/* ---- tflite/ ------------------------------------------------------------------------------------------------ */

/* Python's side of the TFLite delegate. The library may call these with or without the GIL; cffi takes it. On failure each
 * returns 0 and writes a sentence to err, else 1 (create: the delegate's number, above 0). */
typedef struct tg_tflite_callbacks {
  int64_t (*create)(const char *const *keys, const char *const *values, size_t count, tg_error *err);
  int (*prepare)(int64_t delegate_number, void *delegate, void *context, tg_error *err);
  /* Compile a plan for these shapes and values, and hand it over with tg_partition_add. */
  int (*build)(int64_t kernel_number, tg_kernel *kernel, const int32_t *shapes, size_t count, tg_error *err);
  /* A run was done on the host's own kernels for this reason. */
  int (*fell_back)(int64_t kernel_number, const char *reason, tg_error *err);
} tg_tflite_callbacks;

/* NULL clears them and waits for callbacks in flight; afterwards create and build fail with a sentence. */
void tg_tflite_set_callbacks(const tg_tflite_callbacks *callbacks);
/* Copies the names of all tensors of a host's context, each to `size` bytes (2 to 4096) and cut to that; "" for a missing name
 * or an invalid pointer. */
void tg_tflite_names(void *context, char *names, size_t size);
/* Copies size bytes (at most 4096) from an address that may be invalid; returns how many could be read. */
size_t tg_tflite_bytes(const void *from, char *to, size_t size);
/* Writes the path (UTF-8) of the library that a host's context belongs to, in `size` bytes; "" where it is not known. */
void tg_tflite_library(void *context, char *path, size_t size);

/* A kernel, which is made inside the prepare callback: one for each partition. Tensor and node indices are the host's.
 * inputs: non-constant inputs in port order, without states. stays[i]: output i is read by another partition of ours, so it stays
 * on the device and is fetched when another node reads it. lent: the program may keep them on the device between runs, see lent.c.
 * states: variable tensors. keeps_states: they stay on the device between runs; programs call tg_tflite_show_state before they look
 * at one. shape-only inputs: tensors whose shape alone is read. values: those of them whose numbers select the plan, too, up to
 * TG_MAX_NUMBERS each. callers: the nodes that run other graphs of the model. names: the operators of the nodes in the order of
 * their numbers, one per line; NULL where they are not known. */
typedef struct tg_kernel_spec {
  int64_t number;
  const int32_t *node_list; size_t node_count;
  const char *names;
  const int32_t *input_list; const uint8_t *lent_inputs; size_t input_count;
  const int32_t *output_list; const uint8_t *stays, *lent_outputs; size_t output_count;
  const int32_t *state_list; size_t state_count; uint32_t keeps_states;
  const int32_t *shape_only_list; size_t shape_only_count;
  const int32_t *value_list; size_t value_count;
  const int32_t *caller_list; size_t caller_count;
} tg_kernel_spec;

tg_kernel *tg_kernel_create(void *delegate, const tg_kernel_spec *spec, tg_error *err);
void tg_kernel_release(tg_kernel *kernel);

/* Has the host replace the nodes of all these kernels (ReplaceNodeSubsetsWithDelegateKernels). Only inside prepare. */
int tg_tflite_claim(void *context, void *delegate, tg_kernel *const *kernels, size_t kernel_count, tg_error *err);

/* Copies a state that is kept on the device to the host's memory at `data`, where it belongs; does nothing for any other memory. */
int tg_tflite_show_state(void *data, uint64_t bytes, tg_error *err);
/* Returns the number that create gave a delegate, 0 for a pointer that is not one of our delegates, which may be invalid. */
int64_t tg_tflite_delegate_number(void *delegate);

/* ---- ort/: the onnxruntime provider --------------------------------------------------------------------------------- */

/* An adapter as the factory offers it to onnxruntime, without calling Python; the best one first. type: discrete, integrated,
 * software or other. offered 0: hidden from automatic policies as far as the host permits. */
typedef struct tg_ort_adapter {
  const char *name, *vendor, *driver, *backend, *type;
  uint32_t vendor_id, device_id;
  uint32_t software, offered;
} tg_ort_adapter;

int tg_ort_set_adapters(const tg_ort_adapter *adapters, size_t count, tg_error *err);
/* Another provider has memory of a GPU without a vendor: later registrations announce none. */
void tg_ort_avoid_memory(void);

/* Python's side of the provider. The library may call these with or without the GIL; cffi takes it. On failure each returns 0
 * and writes a sentence to err, else 1 (create: the session's number, above 0). */
typedef struct tg_ort_callbacks {
  /* keys: names of our options, and of the session's settings that begin with "ep.context_".
   * adapters: indices (in tg_ort_set_adapters) of those that the user or a policy chose. */
  int64_t (*create)(const char *const *keys, const char *const *values, size_t count, const uint32_t *adapters,
                    size_t adapter_count, tg_error *err);
  /* Claim nodes of one graph of the model with tg_ort_claim. api, graph and support are onnxruntime's (ort/abi.h). */
  int (*plan)(int64_t session_number, void *ep, const void *api, const void *graph, void *support, tg_error *err);
  /* Compile a plan for these input shapes (and then values: a count and numbers each), and hand it over with
   * tg_partition_add. Returns -1 with a sentence where the model cannot be run with them on any device. */
  int (*build)(int64_t partition_number, tg_ort_partition *partition, const int32_t *shapes, size_t shape_count, tg_error *err);
  /* Hand over the partition's nodes with tg_ort_set_model, as a model with exactly these inputs and outputs, for a run on the
   * host's own kernels. */
  int (*model)(int64_t partition_number, void *compute, const char *const *inputs, size_t input_count,
               const char *const *outputs, size_t output_count, tg_error *err);
  /* A run was done on the host's own kernels for this reason. */
  int (*fell_back)(int64_t partition_number, const char *reason, tg_error *err);
} tg_ort_callbacks;

/* NULL clears them and waits for callbacks in flight; afterwards sessions are refused with a sentence. */
void tg_ort_set_callbacks(const tg_ort_callbacks *callbacks);

enum { TG_MAX_NUMBERS = 64, TG_MOST_ROOM = 65536 };

/* A partition. nodes: onnxruntime's ids. inputs: names of all values whose shape selects the plan; the first port_count are the
 * replay's inputs in order. outputs: names in the replay's order; then the replay has count_count int32 numbers, which say how many
 * elements other outputs have. For those with grows 1 a plan has room up to the last number that selects it, `room` at first. */
typedef struct tg_ort_partition_spec {
  int64_t number;
  const uint64_t *nodes; size_t node_count;
  const char *const *inputs; size_t input_count, port_count;
  /* Inputs whose numbers select the plan, too: up to TG_MAX_NUMBERS each. With clamps 1, integers beyond int32 mean the same as the
   * nearest ones in it; with 0, a run with such integers fails. */
  const char *const *values; const uint8_t *clamps; size_t value_count;
  const char *const *outputs; size_t output_count, count_count; const uint8_t *grows; int32_t room;
  /* Inputs whose default was planned as a constant, its bytes, rank and extents (copied): a run with others fails. */
  const char *const *guards; const void *const *guard_data; const uint64_t *guard_bytes;
  const int64_t *const *guard_shapes; size_t guard_count;
  /* The data of a compiled model for these nodes (copied; NULL: no model is compiled) or, with embedded 0, its file's name. */
  const void *context; size_t context_bytes; uint32_t embedded;
  const char *refusal;             /* NULL, or the sentence why the model cannot be compiled, with which its session fails */
} tg_ort_partition_spec;

tg_ort_partition *tg_ort_partition_create(const tg_ort_partition_spec *spec, tg_error *err);
void tg_ort_partition_release(tg_ort_partition *partition);
/* Claims these partitions, with the plan callback's ep, graph and support, and only inside it. */
int tg_ort_claim(void *ep, const void *graph, void *support, tg_ort_partition *const *partitions, size_t count,
                 tg_error *err);

/* A constant outside of a model's file; data and dims must stay valid as long as the partition is in use. kind: ONNX's number of
 * the type. */
typedef struct tg_ort_constant {
  const void *data; uint64_t bytes;
  const int64_t *dims; size_t rank; int32_t kind;
} tg_ort_constant;

/* A model as an ONNX file. */
typedef struct tg_ort_model {
  const void *bytes; size_t byte_count;
  const char *const *constant_names; const tg_ort_constant *constants; size_t constant_count;
} tg_ort_model;

/* Opens a session on the host's own kernels, with the model callback's compute, and only inside it. */
int tg_ort_set_model(void *compute, const tg_ort_model *model, tg_error *err);
/* Writes a line to the session's log (level 0 verbose, 1 information, 2 warning). Only inside the plan callback. */
void tg_ort_log(void *ep, int level, const char *text);

/* Returns the session whose dynamic option "tflgpu.identify" this thread has set last, or 0, and forgets it. */
int64_t tg_ort_identified(void);
