/* What Python may call in the shared library. C includes this file and cffi reads it as it is, so there are no
 * preprocessor lines. Every object is reference-counted; the creator owns one reference and gives it back with
 * tg_*_release, which takes no lock, calls no Python and accepts NULL. A function that can fail returns NULL or a
 * non-zero status and writes a sentence to err. */

typedef struct tg_error {
  char text[4096]; /* terminated; what is longer is cut */
  uint32_t no_memory; /* set where the host or the GPU has not enough memory */
} tg_error;

typedef struct tg_device tg_device;
typedef struct tg_pipeline tg_pipeline;
typedef struct tg_buffer tg_buffer;
typedef struct tg_replay tg_replay;
typedef struct tg_partition tg_partition; /* what a tg_kernel and a tg_ort_partition begin with */
typedef struct tg_kernel tg_kernel;
typedef struct tg_ort_partition tg_ort_partition;

/* ---- library ------------------------------------------------------------------------------------------------ */

uint32_t tg_abi_version(void);                       /* of this header: 5 */

/* 1, 2, ...: delegates and sessions have numbers that no other copy of the package in this process has given. */
int64_t tg_next_number(void);
int tg_is_live(int64_t number);    /* the host still has the delegate or the session */

/* 1 with a sentence in a child of a fork that must not use the GPU: it was open, or some thread was busy (a count) with
 * what it is opened by, and may have held locks that nobody in the child gives back. */
int tg_is_forked(tg_error *err);
void tg_busy(int change);

/* Callbacks run on threads of their own. The thread whose call into the host has led to the present one, or the present
 * thread itself: as Python's threading.get_ident() has it, and as a number that no other thread is ever given. */
uint64_t tg_caller_thread(void);
int64_t tg_caller_number(void);

/* Load the libwgpu_native of the wgpu package (path of its file), resolve its functions, and have it log to us
 * (tg_take_log). Idempotent. */
int tg_bind_wgpu(const char *path, tg_error *err);

/* 1 when a loaded library offers LLVM to libraries that are loaded later; 0 where they cannot get into each other's way
 * like this (without glibc). */
int tg_llvm_is_exported(void);
/* Open a Vulkan driver for good, with all it calls bound now, before another library can offer functions of these names;
 * alone: what it brings comes before what the process has. What cannot be opened is left to the Vulkan loader. */
void tg_open_driver(const char *path, int alone);

/* Messages for `logging`, from wgpu and about devices. has: whether there are any; never in a child of a fork that must not
 * use the GPU. take: move them into `text`, which has TG_LOG_BYTES; returns how many bytes are used. Each is a digit (3
 * warning, 4 error), a text and a zero byte. The callback is called at the end of a host's call that leaves some; it takes
 * them. NULL clears it and waits for calls in flight. */
enum { TG_LOG_BYTES = 16384 };
int tg_has_log(void);
size_t tg_take_log(char *text);
void tg_set_log_callback(void (*take)(void));

/* The process is exiting (Python's atexit calls this): waits for what runs on the GPU, 10 seconds at most. Afterwards
 * only the calling thread may use the GPU; other threads that come back from a run or start one stay inside for good,
 * because returning to a host that is being taken down aborts the process. */
void tg_close(void);

/* ---- adapters.c --------------------------------------------------------------------------------------------- */

/* Numbers are WebGPU's (backend: WGPUBackendType, kind: WGPUAdapterType, limits in its units); features holds those of
 * tg_feature that the adapter has, as numbers. The handle lives as long as the process. */
typedef struct tg_adapter {
  void *handle;
  char name[256], driver[256];
  uint32_t backend, kind, vendor_id, device_id;
  uint32_t features[16], feature_count;
  uint64_t max_storage_buffers, max_binding_bytes, max_buffer_bytes, max_groups, max_invocations, max_workgroup_bytes;
} tg_adapter;

/* The adapters of Vulkan, Metal and D3D12, OpenGL never being looked for; at most capacity, count is written. They are
 * looked up anew each time, and what is returned is kept for good, so ask once. */
int tg_adapters_list(tg_adapter *adapters, size_t capacity, size_t *count, tg_error *err);
/* The name and number of a feature that devices may ask for, by position; NULL past the last. */
const char *tg_feature(size_t position, uint32_t *number);

/* ---- device.c ----------------------------------------------------------------------------------------------- */

/* adapter: a WGPUAdapter owned by the caller. features: WGPUFeatureName values to require (the adapter has them).
 * Limits requested are the adapter's. */
tg_device *tg_device_create(void *adapter, const uint32_t *features, size_t feature_count, tg_error *err);
void tg_device_release(tg_device *device);
int tg_device_is_lost(tg_device *device);            /* asks the device; only a process that exits, or a forked child, does not */
void tg_device_mark_lost(tg_device *device);         /* for tests: as if the driver had reported it */
void tg_device_destroy(tg_device *device);           /* for tests: it is gone, and nobody has been told */

/* Usage bits of tg_buffer_create. HOST_READ and HOST_WRITE: the host reads or writes it every run; on a device that was
 * opened with mappable primary buffers it is mapped for that, elsewhere the bytes go through a staging buffer. FILL_FIRST: it is
 * written before its first use, and then tg_buffer_filled is called; where buffers can be mapped, what is written goes
 * straight into its memory. */
enum {
  TG_BUFFER_STORAGE = 1,
  TG_BUFFER_UNIFORM = 2,
  TG_BUFFER_COPY_SRC = 4,
  TG_BUFFER_COPY_DST = 8,
  TG_BUFFER_HOST_READ = 16,
  TG_BUFFER_HOST_WRITE = 32,
  TG_BUFFER_FILL_FIRST = 64
};

tg_buffer *tg_buffer_create(tg_device *device, uint64_t bytes, uint32_t usage, tg_error *err);
void tg_buffer_release(tg_buffer *buffer);
/* offset and bytes are multiples of 4. Large writes are flushed in slices so that staging memory stays small. */
int tg_buffer_write(tg_buffer *buffer, uint64_t offset, const void *data, uint64_t bytes, tg_error *err);
int tg_buffer_filled(tg_buffer *buffer, tg_error *err);
/* Fill with one 32-bit word (the test mode that fills pools with NaN). */
int tg_buffer_fill(tg_buffer *buffer, uint32_t word, tg_error *err);

/* kinds: one letter per binding of group 0 in order: 'u' uniform (256 bytes), 'r' read-only storage, 'w' read-write
 * storage. Entry point is "main". */
tg_pipeline *tg_pipeline_create(tg_device *device, const char *wgsl, const char *kinds, tg_error *err);
void tg_pipeline_release(tg_pipeline *pipeline);
/* Make the driver generate code now: one 1x1x1 dispatch over small scratch buffers, waited for. The uniform block it
 * reads is zero, so that every loop ends at once. */
int tg_pipeline_warm_up(tg_pipeline *pipeline, tg_error *err);

/* ---- replay.c ----------------------------------------------------------------------------------------------- */

typedef struct tg_dispatch_spec {
  tg_pipeline *pipeline;
  uint32_t first_binding;          /* into tg_replay_spec.bindings; the pipeline knows how many */
  uint32_t uniform_offset;         /* bytes into the uniform buffer, a multiple of 256; binding 'u' uses it */
  uint32_t x, y, z;                /* workgroups */
} tg_dispatch_spec;

typedef struct tg_port_spec {
  tg_buffer *buffer;               /* raw host layout (row-major), padded to a multiple of 4 bytes */
  uint64_t bytes;                  /* of the host tensor */
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
  tg_buffer *check;                /* or NULL: its first word is cleared before a run, which fails when it is set after */
} tg_replay_spec;

/* Copies the spec, makes the bind groups, and takes its own references on all it names. */
tg_replay *tg_replay_create(tg_device *device, const tg_replay_spec *spec, tg_error *err);
void tg_replay_release(tg_replay *replay);

/* Where the bytes of a port are: in host memory, or in a device buffer at an offset. Neither (both NULL) on an output
 * means: leave it on the device; tg_replay_read_output fetches it later. */
typedef struct tg_port {
  void *host;
  tg_buffer *device;
  uint64_t offset;
  uint64_t bytes;                  /* of the host's tensor: a run whose plan has other sizes fails before it touches them */
} tg_port;

typedef struct tg_run_options {
  uint32_t stop_after;             /* dispatches to run; 0 means all */
  uint64_t *timestamps;            /* NULL, or dispatch_count + 1 nanosecond values, written */
  uint32_t ends_only;              /* timestamps holds three values: before the first dispatch, after the last, and once
                                    * more, which tells what a timestamp takes */
} tg_run_options;

typedef struct tg_counters {
  uint64_t runs, failures, uploaded_bytes, downloaded_bytes;
  uint64_t last_nanoseconds;       /* wall time of the last run, without reading timestamps */
} tg_counters;

/* One inference: write inputs, one compute pass, one submit, one wait, read outputs. states[i].host is host memory that
 * is uploaded when its bytes differ from what the last run left there, and written after the run. Takes the run lock of
 * the replay and, from the first queue write to the submit, the device's lock. options may be NULL. */
int tg_replay_run(tg_replay *replay, const tg_port *inputs, const tg_port *outputs, const tg_port *states,
                  const tg_run_options *options, tg_error *err);
int tg_replay_read_output(tg_replay *replay, size_t index, void *host, uint64_t bytes, tg_error *err);   /* for tests */
void tg_replay_counters(tg_replay *replay, tg_counters *out);

/* ---- plans.c ------------------------------------------------------------------------------------------------ */

/* A replay for these shapes. shapes: for each tensor whose shape matters its rank, then its extents, as many as the partition
 * has inputs. output_shapes: likewise, told to the host; -1 - k for an extent that the k-th count of a run tells. Newest
 * wins; at most 8 are kept, the least recently used goes. replay NULL: these shapes cannot be built, reason says why, and runs
 * fail with it. The partition takes its own reference. */
typedef struct tg_plan_spec {
  const int32_t *shapes; size_t shape_count;
  const int32_t *output_shapes; size_t output_shape_count;
  tg_replay *replay;
  const char *reason;
} tg_plan_spec;
int tg_partition_add(tg_partition *partition, const tg_plan_spec *spec, tg_error *err);
/* Keep the plans of another partition, too, which has the same inputs, outputs and states: its host has made it anew. */
void tg_partition_adopt(tg_partition *partition, tg_partition *from);

typedef struct tg_partition_state {
  uint32_t live;                   /* the host has made something of it and not freed it */
  uint32_t times_freed;            /* how often the host took it out again */
  uint64_t runs, failures;         /* on the GPU; neither there nor on the host's kernels */
  uint64_t host_runs;              /* on the host's own kernels, where the GPU could not */
  uint64_t uploaded_bytes, downloaded_bytes;
  uint64_t last_nanoseconds;
  uint64_t device_inputs;          /* inputs that were taken from another partition on the device, all runs */
} tg_partition_state;
void tg_partition_get_state(tg_partition *partition, tg_partition_state *out);

/* ---- tflite/ ------------------------------------------------------------------------------------------------ */

/* Python's side of the TFLite delegate. The library calls these with or without the GIL held; cffi takes it. Each returns 0
 * and writes a sentence to err on failure, else 1 (create: the delegate's number, above 0). */
typedef struct tg_tflite_callbacks {
  int64_t (*create)(const char *const *keys, const char *const *values, size_t count, tg_error *err);
  int (*prepare)(int64_t delegate_number, void *delegate, void *context, tg_error *err);
  /* The kernel has no plan for its inputs' present shapes: compile one and hand it over with tg_partition_add. */
  int (*build)(int64_t kernel_number, tg_kernel *kernel, void *context, tg_error *err);
  /* A run was done on the host's own kernels, because of this. */
  int (*fell_back)(int64_t kernel_number, const char *reason, tg_error *err);
} tg_tflite_callbacks;

/* NULL clears them: waits for callbacks in flight, afterwards create fails with a sentence and builds are refused. */
void tg_tflite_set_callbacks(const tg_tflite_callbacks *callbacks);

/* The names of all tensors of a host's context, each in `size` bytes (2 to 4096) and cut to that; empty where there is none
 * or its pointer leads nowhere. */
void tg_tflite_names(void *context, char *names, size_t size);
/* Copy size bytes (4096 at most) that may not be there; returns how many were. */
size_t tg_tflite_bytes(const void *from, char *to, size_t size);
/* The path (UTF-8) of the library that a host's context is of, in `size` bytes; "" where the system does not tell. */
void tg_tflite_library(void *context, char *path, size_t size);

/* From inside the prepare callback: one kernel per partition of the host's partition. Tensor indices are the host's.
 * inputs: the partition's non-constant inputs in port order (states are not among them). stays[i]: output i is read by
 * another partition of ours, so it is left on the device and fetched when somebody else reads it. states: variable tensors.
 * shape-only inputs: tensors of which only the shape is read. callers: nodes among these that run other graphs of the model.
 * names: the operators of the nodes, in the order of their numbers, a line each; NULL where they are not known. */
typedef struct tg_kernel_spec {
  int64_t number;
  const int32_t *node_list; size_t node_count;
  const char *names;
  const int32_t *input_list; size_t input_count;
  const int32_t *output_list; const uint8_t *stays; size_t output_count;
  const int32_t *state_list; size_t state_count;
  const int32_t *shape_only_list; size_t shape_only_count;
  const int32_t *caller_list; size_t caller_count;
} tg_kernel_spec;

tg_kernel *tg_kernel_create(void *delegate, const tg_kernel_spec *spec, tg_error *err);
void tg_kernel_release(tg_kernel *kernel);

/* Hand the nodes of all these kernels to the host (ReplaceNodeSubsetsWithDelegateKernels). Only inside prepare. */
int tg_tflite_claim(void *context, void *delegate, tg_kernel *const *kernels, size_t kernel_count, tg_error *err);

/* A host delegate's number (what create returned), 0 when the pointer is not one of ours. Never dereferences blindly. */
int64_t tg_tflite_delegate_number(void *delegate);

/* ---- ort_*.c: the onnxruntime provider --------------------------------------------------------------------------------- */

/* What the factory tells onnxruntime about adapters: a copy that is read without Python. Best adapter first. Texts: name,
 * vendor, driver, backend, and type (discrete, integrated, software, other). offered 0: not shown to automatic policies
 * as far as the host lets us. */
typedef struct tg_ort_adapter {
  const char *name, *vendor, *driver, *backend, *type;
  uint32_t vendor_id, device_id;
  uint32_t software, offered;
} tg_ort_adapter;

int tg_ort_set_adapters(const tg_ort_adapter *adapters, size_t count, tg_error *err);

/* Python's side of the frontend. The library calls these with or without the GIL held; cffi takes it. Each returns 0 and
 * writes a sentence to err on failure, else 1 (create: the session's number, above 0). */
typedef struct tg_ort_callbacks {
  /* keys: our options by their names, and the session's own settings that begin with "ep.context_".
   * adapters: the numbers of those the user or a policy chose, in the order of tg_ort_set_adapters. */
  int64_t (*create)(const char *const *keys, const char *const *values, size_t count, const uint32_t *adapters,
                    size_t adapter_count, tg_error *err);
  /* One level of the model is to be claimed: see tg_ort_claim. api, graph and support are onnxruntime's (ort/abi.h). */
  int (*plan)(int64_t session_number, void *ep, const void *api, const void *graph, void *support, tg_error *err);
  /* The partition has no plan for these input shapes (and then values: a count and numbers each): compile one and hand it
   * over with tg_partition_add. Returns -1 (and writes a sentence) where the model cannot be run with them, whatever it
   * runs on. */
  int (*build)(int64_t partition_number, tg_ort_partition *partition, const int32_t *shapes, size_t shape_count,
               tg_error *err);
  /* A run of the partition needs the host's own kernels: hand over its nodes with tg_ort_set_model, as a model of exactly
   * these inputs and outputs. */
  int (*model)(int64_t partition_number, void *compute, const char *const *inputs, size_t input_count,
               const char *const *outputs, size_t output_count, tg_error *err);
  /* A run was done on the host's own kernels, because of this. */
  int (*fell_back)(int64_t partition_number, const char *reason, tg_error *err);
} tg_ort_callbacks;

/* NULL clears them: waits for callbacks in flight; afterwards sessions are refused with a sentence. */
void tg_ort_set_callbacks(const tg_ort_callbacks *callbacks);

enum { TG_MAX_NUMBERS = 64 };

/* nodes: onnxruntime's ids. inputs: names of all values whose shape matters; the first port_count are the replay's
 * inputs in order. outputs: names in the replay's order; behind them it has count_count int32 numbers that are told to
 * nobody, of elements that other outputs have. */
typedef struct tg_ort_partition_spec {
  int64_t number;
  const uint64_t *nodes; size_t node_count;
  const char *const *inputs; size_t input_count, port_count;
  const char *const *values; size_t value_count;   /* inputs whose values a plan is made for: up to TG_MAX_NUMBERS each */
  const char *const *outputs; size_t output_count, count_count;
  /* Inputs that have a default which was planned as a constant, and its bytes (copied): a run with others fails. */
  const char *const *guards; const void *const *guard_data; const uint64_t *guard_bytes; size_t guard_count;
  /* What a compiled model carries in place of these nodes (copied; NULL: none is asked for): the bytes themselves, or
   * with embedded 0 the name of a file that has them. */
  const void *context; size_t context_bytes; uint32_t embedded;
  const char *refusal;             /* NULL, or why the model cannot be compiled: its session fails with this sentence */
} tg_ort_partition_spec;

tg_ort_partition *tg_ort_partition_create(const tg_ort_partition_spec *spec, tg_error *err);
void tg_ort_partition_release(tg_ort_partition *partition);
/* Claim these partitions; ep, graph and support as the plan callback got them, and only inside it. */
int tg_ort_claim(void *ep, const void *graph, void *support, tg_ort_partition *const *partitions, size_t count,
                 tg_error *err);

/* A constant that a model names as external; data and dims must stay there as long as the partition is in use. kind is
 * ONNX's number of the type. */
typedef struct tg_ort_constant {
  const void *data;
  uint64_t bytes;
  const int64_t *dims; size_t rank;
  int32_t kind;
} tg_ort_constant;

/* A model as a file of ONNX. */
typedef struct tg_ort_model {
  const void *bytes; size_t byte_count;
  const char *const *constant_names; const tg_ort_constant *constants; size_t constant_count;
} tg_ort_model;

/* Open a session on the host's own kernels; compute as the model callback got it, and only inside it. */
int tg_ort_set_model(void *compute, const tg_ort_model *model, tg_error *err);
/* A line for the log of the session; level 0 is verbose, 1 information, 2 a warning. Only inside the plan callback. */
void tg_ort_log(void *ep, int level, const char *text);

/* The session whose dynamic option "tflgpu.identify" this thread has set last, 0 for none; forgets it. */
int64_t tg_ort_identified(void);
