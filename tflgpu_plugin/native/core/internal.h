/* Declarations shared by the C files and hidden in the library. Public functions are in tflgpu.h. */
#ifndef TFLGPU_INTERNAL_H
#define TFLGPU_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "webgpu.h"
#include "wgpu.h"

#include "platform/platform.h"

#pragma GCC visibility push(default)
#include "core/tflgpu.h"
#include "core/recorder.h"
#pragma GCC visibility pop

_Static_assert(sizeof(void *) == 8 && sizeof(size_t) == 8 && sizeof(bool) == 1, "hosts' layouts are those of 64-bit systems");

/* ---- wgpu.c: wgpu's functions ------------------------------------------------------------------------------------ */

/* Every wgpu function that is called. Those that panic in this wgpu-native (SetLabel, WaitAny, GetMapState, ...) must not
 * be listed. F: may be called at any time. L: only with the device's lock held (tg_device.lock). */
#define TGI_WGPU_FUNCTIONS(F, L)                                                                                       \
  F(AdapterGetInfo) F(AdapterGetLimits) F(AdapterHasFeature) F(AdapterInfoFreeMembers) F(AdapterRelease)               \
  F(AdapterRequestDevice) F(BindGroupLayoutRelease) F(BindGroupRelease) F(BufferRelease) F(CommandBufferRelease)       \
  F(CommandEncoderRelease) F(ComputePassEncoderRelease) F(ComputePipelineRelease) F(CreateInstance) F(DeviceGetQueue)  \
  F(DevicePoll) F(DeviceRelease) F(InstanceEnumerateAdapters) F(PipelineLayoutRelease) F(QuerySetRelease)              \
  F(QueueRelease) F(SetLogCallback) F(ShaderModuleRelease)                                                             \
  L(BufferGetConstMappedRange) L(BufferGetMappedRange) L(BufferMapAsync) L(BufferUnmap)                                \
  L(CommandEncoderBeginComputePass) L(CommandEncoderClearBuffer) L(CommandEncoderCopyBufferToBuffer)                   \
  L(CommandEncoderFinish) L(CommandEncoderResolveQuerySet) L(ComputePassEncoderDispatchWorkgroups)                     \
  L(ComputePassEncoderEnd) L(ComputePassEncoderSetBindGroup) L(ComputePassEncoderSetPipeline)                          \
  L(ComputePassEncoderWriteTimestamp) L(DeviceCreateBindGroup) L(DeviceCreateBindGroupLayout) L(DeviceCreateBuffer)    \
  L(DeviceCreateCommandEncoder) L(DeviceCreateComputePipeline) L(DeviceCreatePipelineLayout) L(DeviceCreateQuerySet)   \
  L(DeviceCreateShaderModuleTrusted) L(DeviceDestroy) L(DevicePopErrorScope) L(DevicePushErrorScope)                          \
  L(QueueGetTimestampPeriod) L(QueueOnSubmittedWorkDone) L(QueueSubmitForIndex) L(QueueWriteBuffer)

typedef struct tgi_wgpu_table {
#define TGI_MEMBER(name) __typeof__(wgpu##name) *name;
  TGI_WGPU_FUNCTIONS(TGI_MEMBER, TGI_MEMBER)
#undef TGI_MEMBER
} tgi_wgpu_table;

extern tgi_wgpu_table tgi_wgpu;
#ifdef TGI_CHECK_LOCKS               /* in builds for tests the process aborts where a lock is missing */
#define TGI_FREE(name) TGI_NEEDS_LOCK_##name = false,
#define TGI_LOCKED(name) TGI_NEEDS_LOCK_##name = true,
enum { TGI_WGPU_FUNCTIONS(TGI_FREE, TGI_LOCKED) };
#define W(name) (tgi_check_lock(TGI_NEEDS_LOCK_##name, #name), tgi_wgpu.name)
#else
#define W(name) tgi_wgpu.name
#endif
void tgi_check_lock(bool needed, const char *name);

/* ---- gate.c, errors.c -------------------------------------------------------------------------------------------- */

/* One lock for all small shared tables (log, live delegates, handles, a kernel's replays). It is held for a few instructions
 * and never during a call out of this library, so a thread may wait for it even with the GIL. It is the innermost lock. */
void tgi_lock(void);
void tgi_unlock(void);

/* Everything that uses the GPU happens between enter and leave, so that process exit can wait for it and a forked child is
 * refused. Enter fails with a sentence; after a failure, leave must not be called. */
int tgi_enter(tg_error *err);
void tgi_leave(void);
/* The same for releases. Returns false where wgpu must not be called any more (in a forked child, or while the process exits). */
bool tgi_enter_release(void);
void tgi_leave_release(void);
bool tgi_is_forked(void);          /* whether this is a child of a fork that happened after the GPU was opened */
bool tgi_is_open(void);            /* whether the process is neither exiting nor a forked child */
/* The GPU is open from now on: refuse forked children, and let process exit wait for calls in flight. Called again whenever
 * the driver may have registered exit handlers of its own, because the newest handler runs first. */
void tgi_register_exit(void);

void tgi_trim(char *text);         /* removes a character at the end of a text (UTF-8) that was cut inside of it */
/* Writes a sentence to err; returns 1, the status of failure. */
int tgi_fail(tg_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define tgi_none(...) (tgi_fail(__VA_ARGS__), NULL)
int tgi_no_memory(tg_error *err, const char *what);   /* "Not enough memory for <what>."; returns 1 */
/* Writes wgpu's message on one line, without its scaffolding ("Validation Error", "Caused by:"). */
void tgi_readable(WGPUStringView message, char *text, size_t size);

/* ---- memory.c: memory that is freed with its owner --------------------------------------------------------------------------- */

typedef struct tgi_piece tgi_piece;

/* Pieces of memory that are freed together. All zeros: an empty list. */
typedef struct tgi_memory {
  tgi_piece *pieces;
  bool lacks;                      /* an allocation failed: the owner must not be used */
} tgi_memory;

void *tgi_zeros(tgi_memory *memory, size_t count, size_t bytes);
void *tgi_copy(tgi_memory *memory, const void *data, size_t count, size_t bytes);
char *tgi_copy_text(tgi_memory *memory, const char *text);   /* NULL for NULL */
char **tgi_copy_texts(tgi_memory *memory, const char *const *texts, size_t count);
void tgi_memory_free(tgi_memory *memory);

/* ---- helper_thread.c: work on a thread of its own --------------------------------------------------------------------------- */

/* Runs `work(call)` on a new thread while this one waits without Python's lock (the GIL). So a signal handler cannot raise in
 * the middle of our work, but only after the host has returned, and no other greenlet runs on this thread during a host's
 * call. Nested work, and work for which no thread can be made, runs on the present thread. If Python ends the new thread before
 * its work is done, the process is exiting, and this function does not return. */
void tgi_run_on_helper(void (*work)(void *), void *call);
/* Runs `work(call)` on this thread, without the GIL if it has that: for waits in calls from Python that run none of our Python. */
void tgi_without_python(void (*work)(void *), void *call);

/* ---- python.c: calls from a host's thread into Python ------------------------------------------------------------------ */

/* A table of callbacks that Python has set. Members that change are under tgi_lock. */
typedef struct tgi_python {
  void *functions;                 /* `size` bytes */
  const size_t size;
  const char *const prefix, *const remedy;         /* parts of the sentence for a table that is not set */
  bool set;
  atomic_int in_flight;            /* calls */
} tgi_python;

/* Copies the table to `functions`, unless that is NULL, and runs `work`, which calls one of them, on a helper thread. Returns
 * false with a sentence where the table is not set. */
bool tgi_python_call(tgi_python *python, void *functions, void (*work)(void *), void *call, tg_error *err);
void tgi_python_import(void);      /* imports the package, on a helper thread, too */
/* Sets the table. NULL clears it and waits for callbacks in flight, so that the interpreter may be finalized. */
void tgi_python_set(tgi_python *python, const void *functions);

/* A delegate or session that a host has made, in the list of those that exist. */
typedef struct tgi_client {
  int64_t number;
  struct tgi_client *next;         /* under tgi_lock */
} tgi_client;

void tgi_client_enlist(tgi_client *client);
void tgi_client_remove(tgi_client *client);
/* Returns the number of a client in the list, else 0. The pointer may be invalid. */
int64_t tgi_client_number(const tgi_client *client);

/* ---- log.c: messages for Python's `logging` -------------------------------------------------------------------------- */

typedef enum tgi_level { TGI_WARNING = 3, TGI_ERROR = 4 } tgi_level;

void tgi_log(tgi_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* For wgpu's SetLogCallback: set anew for each device, because a wgpu-py that is imported later has wgpu call Python. */
void tgi_on_log(WGPULogLevel level, WGPUStringView message, void *unused);
/* Makes Python take the messages, if there are any. Called at the end of a host's call, with no lock held. */
void tgi_log_deliver(void);

/* ---- device.c, submission.c -------------------------------------------------------------------------------------------- */

/* Data that wgpu's callbacks write. It is never freed: the device-lost callback may come after the last release. */
typedef struct tgi_fate {
  atomic_bool lost;
  atomic_bool logged;              /* the loss is in the log */
  atomic_uint uncaptured;          /* number of errors that no error scope caught */
  atomic_ullong done;              /* index of the newest submission that is known to be done */
  char text[512];                  /* text of the newest of these errors; under tgi_lock */
} tgi_fate;

/* A released object that may still have to unmap buffers or submit commands. That needs the device's lock, for which a thread
 * that may have the GIL must not wait: whichever thread holds the lock, or can take it at once, does this. */
typedef struct tgi_ending {
  struct tgi_ending *next;
  void (*end)(struct tgi_ending *ending);          /* called first, with the device's lock held */
  void (*release)(struct tgi_ending *ending);      /* called then, without the lock, to free the object */
} tgi_ending;

struct tg_device {
  atomic_size_t refs;
  WGPUDevice wgpu;
  WGPUQueue queue;
  tgi_fate *fate;
  uint32_t max_groups;             /* limit of workgroups in each dimension */
  bool timestamps;                 /* timestamps can be taken inside a pass */
  bool mappable;                   /* storage buffers can be mapped */
  /* Held around every call that may report an error of the device (the L functions above), in a run from the unmapping of
   * its inputs to its submit. Error scopes belong to the device, not to the thread, so no other thread may use the device
   * in between. Polling, releasing and copying to or from mapped memory need no lock. */
  tgi_mutex lock;
  tgi_mutex writing;               /* held while bytes are written and flushed, which bounds wgpu's copies; before `lock` */
  _Atomic(tgi_ending *) endings;
  tg_buffer *keyed;                /* the buffers that have a key; under tgi_lock */
  uint64_t unflushed;              /* bytes written since the last submit; under lock */
  uintptr_t submitter;             /* the thread that submitted last; under lock */
  atomic_uint in_a_row;            /* submissions of that thread since the last one of another thread */
  WGPUBindGroupLayout probe;       /* empty; makes wgpu answer requests for an equal layout without calling the driver */
};

struct tg_buffer {
  atomic_size_t refs;
  tg_device *device;
  WGPUBuffer wgpu;
  WGPUBufferUsage usage;
  uint32_t kind;                   /* TG_WEIGHTS ... */
  uint64_t bytes;                  /* as requested; the allocation is padded to whole vectors */
  uint64_t number;                 /* unique, from 1 */
  /* True from the request to map until unmapping. wgpu-native aborts the process when the buffer is used meanwhile. Set with
   * the device's lock held. */
  atomic_bool mapped;
  uint8_t *memory;                 /* mapped memory for the first contents (TG_BUFFER_FILL_FIRST), until tg_buffer_filled */
  bool has_key;
  uint8_t key[TG_KEY_BYTES];
  tg_buffer *next_keyed;           /* under tgi_lock */
  uint64_t counted;                /* number of the last memory count that included it; under tgi_lock */
};

struct tg_pipeline {
  atomic_size_t refs;
  tg_device *device;
  WGPUComputePipeline wgpu;
  WGPUBindGroupLayout layout;
  size_t binding_count;
  char kinds[];
};

/* One more reference to an object; its release function takes one away. */
#define tgi_retain(object) atomic_fetch_add(&(object)->refs, 1)

void tgi_device_lock(tg_device *device);
/* The caller must have its own reference. Also ends objects that were released meanwhile. */
void tgi_device_unlock(tg_device *device);
/* Ends an object now or, where another thread has the lock, when that thread unlocks. Never waits. */
void tgi_end(tg_device *device, tgi_ending *ending);

/* Begin and end an error scope; with the device's lock held. End returns 1 with a sentence when there was an error. */
unsigned tgi_scope_begin(tg_device *device);
int tgi_scope_end(tg_device *device, unsigned mark, const char *what, tg_error *err);

/* Submits commands or, with NULL, pending writes; with the lock held. It asks first whether the device still takes work,
 * because wgpu-native aborts the process that submits to a lost device. No other function submits. */
int tgi_queue(tg_device *device, const WGPUCommandBuffer *commands, WGPUSubmissionIndex *index, tg_error *err);
bool tgi_is_known_lost(const tg_device *device);
bool tgi_is_alive(tg_device *device);   /* asks whether the device still takes work; with the lock held */
int tgi_lost(tg_error *err);       /* writes that the device is lost; returns 1 */
/* Asks whether the device still takes work: returns 0, or 1 with a sentence. Takes the lock. */
int tgi_check_alive(tg_device *device, tg_error *err);
/* Writes why mapped memory cannot be read; returns 1. */
int tgi_unreadable(tg_device *device, tg_error *err);

/* A buffer to map when a submission is done; bytes are rounded up to a multiple of 4. */
typedef struct tgi_mapping {
  tg_buffer *buffer;
  uint64_t bytes;
  WGPUMapMode mode;
} tgi_mapping;

/* A submission in flight, and the buffers that are mapped after it. */
typedef struct tgi_ticket {
  WGPUSubmissionIndex index;
  struct tgi_mapped *mapped;       /* NULL: nothing */
} tgi_ticket;

/* Makes a ticket for a submission that is to come, starts its mappings then (with the lock held), and forgets it. The caller owns
 * the list. */
int tgi_ticket_make(tgi_ticket *ticket, const tgi_mapping *mappings, size_t count, tg_error *err);
void tgi_ticket_start(tgi_ticket *ticket, WGPUSubmissionIndex index);
void tgi_ticket_drop(tgi_ticket *ticket);
/* Finishes an encoder, which it consumes, and closes the error scope; with the lock held. Returns NULL with a sentence when
 * there was an error: wgpu-native aborts the process that submits invalid commands. */
WGPUCommandBuffer tgi_finish(tg_device *device, WGPUCommandEncoder encoder, unsigned mark, tg_error *err);
/* Submits commands, which it consumes, and starts mapping; with the lock held. */
int tgi_submit(tg_device *device, WGPUCommandBuffer commands, const tgi_mapping *mappings, size_t count, tgi_ticket *ticket,
               tg_error *err);
/* Waits for the submission and until all its buffers are mapped; without the lock. After a failure none is. */
int tgi_collect(tg_device *device, tgi_ticket *ticket, tg_error *err);
/* Returns the memory of a mapped buffer, NULL on a lost device. */
void *tgi_mapped_range(tg_buffer *buffer, WGPUMapMode mode, uint64_t bytes);
/* Copies from a mapped buffer and unmaps it. */
int tgi_take(tg_buffer *buffer, void *host, uint64_t bytes, tg_error *err);
void tgi_unmap(tg_buffer *buffer);                 /* with the lock held */
void tgi_give_back(tg_buffer *buffer);             /* takes the lock and unmaps */
void tgi_wait(tg_device *device, WGPUSubmissionIndex index);

tg_buffer *tgi_staging_create(tg_device *device, uint64_t bytes, WGPUBufferUsage usage, tg_error *err);
/* Adds a buffer to the count of this number, unless that has it already. NULL is allowed. With tgi_lock held. */
void tgi_buffer_count(tg_buffer *buffer, uint64_t number, tg_memory *out);
/* Reads a buffer and waits for it; `staging` is a buffer that can be mapped, perhaps the same. */
int tgi_buffer_read(tg_buffer *buffer, tg_buffer *staging, void *data, uint64_t bytes, tg_error *err);
/* Writes any number of bytes, padded with zeros to a multiple of 16; with the lock held and a scope open. */
void tgi_write_padded(tg_buffer *buffer, const void *data, uint64_t bytes);
/* The part of a buffer that a kernel reads or writes at a binding. */
typedef struct tgi_view {
  tg_buffer *buffer;
  uint64_t offset, bytes;
} tgi_view;

enum { TGI_MAX_BINDINGS = 32, TGI_UNIFORM_BYTES = 256, TGI_VECTOR_BYTES = 16 };

tgi_view tgi_whole_view(tg_buffer *buffer);
/* Makes a bind group from one view per binding; with the lock held and a scope open. */
WGPUBindGroup tgi_bind(const tg_pipeline *pipeline, const tgi_view *views);

static inline uint64_t tgi_round_up(uint64_t value, uint64_t step) { return (value + step - 1) / step * step; }

typedef struct tgi_step {
  tg_pipeline *pipeline;
  WGPUBindGroup group;             /* NULL: there are no workgroups, and the step is skipped */
  uint32_t groups[3];              /* workgroups along x, y, z; under the replay's run lock */
  uint32_t made[3];                /* the workgroups with which the replay was created */
  bool is_idle;                    /* it has no workgroups in runs of the present shapes */
  size_t first_binding;            /* in the replay's list */
  uint32_t uniform_offset;
} tgi_step;
void tgi_note_idle(tgi_step *step);   /* after `groups` has changed */

/* Timestamps of a run: none, before the first dispatch and after each, or before the first and twice after the last. */
typedef enum tgi_timestamping { TGI_NO_TIMESTAMPS, TGI_EACH, TGI_ENDS } tgi_timestamping;

/* Encodes steps as one compute pass. `groups` has a bind group for each step that does not use its own; it may be NULL. */
void tgi_encode_steps(WGPUCommandEncoder encoder, const tgi_step *steps, const WGPUBindGroup *groups, size_t count,
                      tgi_timestamping timestamping, WGPUQuerySet queries);
/* Encodes and submits steps, and closes the scope; with the lock held. */
int tgi_submit_steps(tg_device *device, unsigned mark, const tgi_step *steps, size_t count, tgi_ticket *ticket, tg_error *err);

/* ---- bindings.c, replay.c, reshape.c, run.c, slots.c, timestamps.c ----------------------------------------------------------- */

typedef struct tgi_slot {
  tg_buffer *buffer;               /* large enough for every shape that the plan accepts */
  uint64_t bytes;                  /* of the tensor in the present shape; under run_lock */
  uint64_t made;                   /* the bytes with which the replay was created */
  uint64_t place;                  /* offset in the staging buffer, for a buffer that cannot be mapped itself */
  uint8_t *mapped;                 /* of inputs: the mapped buffer, ready for the next run's bytes; of outputs: mapped memory that
                                    * still holds the bytes of the tensor at `lent_to`; under run_lock */
  void *lent_to;
  bool written;                    /* this run has written to `mapped` */
  size_t partner;                  /* the port, counted like `ports`, with the same buffer, or TGI_NO_PORT */
} tgi_slot;
enum { CHECK_BYTES = 16, TGI_NO_PORT = UINT32_MAX };

struct tg_replay {
  tgi_ending ending;               /* first, so that its address is the replay's */
  atomic_size_t refs;
  tg_device *device;
  tgi_memory memory;               /* owns the lists */
  tgi_step *steps;                 /* each has a reference to its pipeline */
  size_t step_count;
  tg_buffer **buffers;             /* one reference per binding, then one to the uniforms */
  size_t buffer_count;
  uint32_t *ports;                 /* per binding: the input or output that has this buffer, or TGI_NO_PORT */
  struct tgi_bindings *bindings;   /* see bindings.c; NULL before the first run with tensors on the device */
  uint64_t bound_runs;             /* runs that looked up `bindings`; both under run_lock */
  tgi_slot *inputs, *outputs, *states;             /* one array, because outputs and states are read back in the same way */
  size_t input_count, output_count, state_count;
  tg_buffer *check;                /* or NULL */
  tg_buffer *upload, *readback;    /* staging for buffers that cannot be mapped; NULL where all can */
  tgi_mapping *mappings;           /* the mappings of the present run; under run_lock */
  tgi_mutex run_lock;              /* taken before the device's lock */
  tgi_mutex lent_lock;             /* held while `mapped` of an output is read; taken after run_lock */
  WGPUCommandBuffer prepared;      /* commands for the next plain run, encoded during the last one; under run_lock */
  tgi_timestamping prepared_timestamping;
  uint64_t prepared_shape;         /* `shape` when `prepared` was encoded */
  bool prepared_keeps_states;
  bool states_are_ahead;           /* a run has changed the states on the device, and then failed; under run_lock */
  uint64_t shape;                  /* number of the present setting, 0 for that of the creation; under run_lock */
  struct tgi_symbols *symbols;     /* symbols of the present setting, or NULL */
  uint32_t repeats;                /* successful runs with the present setting */
  uint8_t *uniform_image;          /* the uniforms for the present setting; NULL until one with symbols is used */
  bool has_new_words;              /* the image has changed since it was written to the device */
  WGPUSubmissionIndex in_flight[2];   /* the newest submissions that nobody has waited for, or 0; under run_lock */
  WGPUQuerySet queries;            /* made by the first run that takes timestamps; under run_lock */
  tg_buffer *resolved;
  char *labels;                    /* or NULL */
  atomic_ullong runs, failures, uploaded, downloaded, copied, last_nanoseconds;
};

/* Everything that depends on the shapes of a run, for one replay: the values that `symbols` yields for them. */
typedef struct tgi_setting {
  uint64_t number;                 /* unique; 0 for the setting with which the replay was created */
  struct tgi_symbols *symbols;     /* NULL: the shapes are those of the creation */
  int64_t *registers;
  uint64_t *bytes;                 /* bytes of each input, output and state */
} tgi_setting;

/* All ports of a run. */
typedef struct tgi_ports {
  const tg_port *inputs, *outputs, *states;
  const bool *stay;                /* for each output, whether its bytes may stay in mapped memory after the run; NULL: none may */
  struct tgi_readback *const *readbacks;           /* for each output, the copy that the host reads later, or NULL; NULL: none */
  bool keeps_states;               /* states stay on the device after the run; those with host memory are uploaded before it */
} tgi_ports;

/* Writes one view for each binding of a step. */
void tgi_step_views(const tg_replay *replay, const tgi_step *step, tgi_view *views);
void tgi_bindings_release(tg_replay *replay);
bool tgi_is_mappable(const tgi_slot *slot, WGPUMapMode mode);   /* whether the buffer itself can be mapped: it needs no staging */
bool tgi_can_map(const tgi_slot *slot, WGPUMapMode mode);       /* whether it can be mapped now: it is mappable and has bytes */
/* Unmaps the buffers that the last run left mapped, because wgpu refuses mapped buffers in a submission; with both locks held. */
void tgi_unmap_ports(tg_replay *replay);
void tgi_count_time(uint64_t passed);                           /* adds to tg_run_nanoseconds */
/* Changes a replay to the shapes of a setting; with the run lock held. */
int tgi_reshape(tg_replay *replay, const tgi_setting *setting, tg_error *err);
/* Writes the uniforms to the device if they have changed; with both locks held and a scope open. */
void tgi_write_uniforms(const tg_replay *replay);

#endif
