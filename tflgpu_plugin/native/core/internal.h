/* What the C files share. Public functions are in tflgpu.h; everything here stays hidden in the library. */
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
#pragma GCC visibility pop

_Static_assert(sizeof(void *) == 8 && sizeof(size_t) == 8 && sizeof(bool) == 1, "hosts' layouts are those of 64 bits");

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
  L(DeviceCreateShaderModule) L(DeviceDestroy) L(DevicePopErrorScope) L(DevicePushErrorScope)                          \
  L(QueueGetTimestampPeriod) L(QueueSubmitForIndex) L(QueueWriteBuffer)

typedef struct tgi_wgpu_table {
#define TGI_MEMBER(name) __typeof__(wgpu##name) *name;
  TGI_WGPU_FUNCTIONS(TGI_MEMBER, TGI_MEMBER)
#undef TGI_MEMBER
} tgi_wgpu_table;

extern tgi_wgpu_table tgi_wgpu;
#ifdef TGI_CHECK_LOCKS               /* a build for tests: the process aborts where a lock is missing */
enum {
#define TGI_FREE(name) tgi_locked_##name = false,
#define TGI_LOCKED(name) tgi_locked_##name = true,
  TGI_WGPU_FUNCTIONS(TGI_FREE, TGI_LOCKED)
#undef TGI_FREE
#undef TGI_LOCKED
};
#define W(name) (tgi_check_lock(tgi_locked_##name, #name), tgi_wgpu.name)
void tgi_check_lock(bool needed, const char *name);
#else
#define W(name) tgi_wgpu.name
#endif

/* ---- gate.c, errors.c -------------------------------------------------------------------------------------------- */

/* One lock for all small shared tables (log, live delegates, handles, a kernel's replays): held for a few instructions
 * and never across a call-out, so waiting for it is harmless even with the GIL held. It is the innermost lock. */
void tgi_lock(void);
void tgi_unlock(void);

/* Everything that touches the GPU happens between enter and leave, so that process exit can wait for it and a forked
 * child is refused. Enter fails with a sentence; after a failure there is no leave. */
int tgi_enter(tg_error *err);
void tgi_leave(void);
/* For releases: false means that wgpu must not be called any more (forked child, process gone). */
bool tgi_enter_release(void);
void tgi_leave_release(void);
bool tgi_is_forked(void);          /* after the GPU was opened */
bool tgi_is_open(void);            /* neither closing nor a forked child */
/* The GPU is open: refuse forked children, and wait at exit for what is in flight. Called again after the driver has had
 * reason to register exit handlers of its own, since the newest handler runs first. */
void tgi_register_exit(void);

/* Write a sentence; returns 1, the status of failure. */
int tgi_fail(tg_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define tgi_none(...) (tgi_fail(__VA_ARGS__), NULL)
int tgi_no_memory(tg_error *err, const char *what);   /* "Not enough memory for <what>."; returns 1 */
/* wgpu's message without its scaffolding ("Validation Error", "Caused by:"), on one line. */
void tgi_readable(WGPUStringView message, char *text, size_t size);

/* ---- memory.c: what goes with its owner ---------------------------------------------------------------------------- */

typedef struct tgi_piece tgi_piece;

/* Pieces that are freed together; zeros are none. */
typedef struct tgi_memory {
  tgi_piece *pieces;
  bool lacks;                      /* one of them was not to be had: its owner is not used */
} tgi_memory;

void *tgi_zeros(tgi_memory *memory, size_t count, size_t bytes);
void *tgi_copy(tgi_memory *memory, const void *data, size_t count, size_t bytes);
char *tgi_copy_text(tgi_memory *memory, const char *text);   /* NULL of NULL */
char **tgi_copy_texts(tgi_memory *memory, const char *const *texts, size_t count);
void tgi_memory_free(tgi_memory *memory);

/* ---- helper_thread.c: work on a thread of its own --------------------------------------------------------------------------- */

/* Run `work(call)` on a thread of its own, while this one waits without Python's lock (the GIL). So a handler of a signal
 * cannot raise in the middle of our work, but does so when the host has returned; and no greenlet takes this thread over
 * inside a host's call. Within such work, and where no thread can be made, it runs on this thread. A thread that Python has
 * ended before its work was done means that the process exits: then this does not return. */
void tgi_run_on_helper(void (*work)(void *), void *call);

/* ---- python.c: from a host's thread into Python ------------------------------------------------------------------ */

/* What Python has given a frontend: one of its tables of callbacks. Under tgi_lock, but for what never changes. */
typedef struct tgi_python {
  void *functions;                 /* `size` bytes */
  const size_t size;
  const char *const prefix, *const remedy;         /* of the sentence when nobody is there */
  bool set;
  int in_flight;
} tgi_python;

/* Copy the table to `functions`, unless that is NULL, and tgi_run_on_helper `work`, which calls one of them; false with a sentence
 * when the table is not there. */
bool tgi_python_call(tgi_python *python, void *functions, void (*work)(void *), void *call, tg_error *err);
void tgi_python_import(void);      /* the package, in the same way */
/* NULL clears the table: waits for callbacks in flight, so that the interpreter may go. */
void tgi_python_set(tgi_python *python, const void *functions);

/* What a host has made of ours, a delegate or a session, among all that live. */
typedef struct tgi_client {
  int64_t number;
  struct tgi_client *next;         /* under tgi_lock */
} tgi_client;

void tgi_client_enlist(tgi_client *client);
void tgi_client_remove(tgi_client *client);
/* The number of one that lives, else 0: the pointer may lead anywhere. */
int64_t tgi_client_number(const tgi_client *client);

/* ---- log.c: messages for Python's `logging` -------------------------------------------------------------------------- */

typedef enum tgi_level { TGI_WARNING = 3, TGI_ERROR = 4 } tgi_level;

void tgi_log(tgi_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* For wgpu's SetLogCallback: set anew for each device, because a wgpu-py that is imported later has wgpu call Python. */
void tgi_on_log(WGPULogLevel level, WGPUStringView message, void *unused);
/* Have Python take the messages, if there are any. With no lock held, at the end of a host's call. */
void tgi_log_deliver(void);

/* ---- device.c ---------------------------------------------------------------------------------------------------- */

/* What wgpu's callbacks write. It is never freed: a lost-callback may come after the last release. */
typedef struct tgi_fate {
  atomic_bool lost;
  atomic_bool logged;              /* that it is lost */
  atomic_uint uncaptured;          /* errors that no scope caught */
  char text[512];                  /* of the newest uncaptured error; under tgi_lock */
} tgi_fate;

/* What somebody has released that may still have to be unmapped and submitted: that needs the device's lock, which a
 * thread that may have the GIL does not wait for. Whoever has the lock, or can take it, ends it. */
typedef struct tgi_ending {
  struct tgi_ending *next;
  void (*end)(struct tgi_ending *ending);          /* with the device's lock held */
  void (*bury)(struct tgi_ending *ending);         /* then, without it: frees it */
} tgi_ending;

struct tg_device {
  atomic_size_t refs;
  WGPUDevice wgpu;
  WGPUQueue queue;
  tgi_fate *fate;
  uint32_t max_groups;             /* workgroups in each direction */
  bool timestamps;                 /* both timestamp features were required */
  bool mappable;                   /* buffers that kernels use may be mapped */
  /* Held around every call that may report an error of the device (the L functions above), in a run from the unmapping of
   * its inputs to its submit. Error scopes belong to the device, not to the thread, so no other thread may use the device
   * in between. Polling, releasing and copying to or from mapped memory need no lock. */
  tgi_mutex lock;
  _Atomic(tgi_ending *) endings;
  uint64_t unflushed;              /* bytes written since the last submit; under lock */
  WGPUBindGroupLayout probe;       /* an empty one: wgpu gives it again, without the driver, to whoever asks for its like */
};

struct tg_buffer {
  atomic_size_t refs;
  tg_device *device;
  WGPUBuffer wgpu;
  WGPUBufferUsage usage;
  uint64_t bytes;                  /* as asked for; the allocation is padded to 4 */
  /* From the request to map it until it is unmapped: wgpu-native aborts the process when it is used meanwhile. Set with
   * the device's lock held. */
  atomic_bool mapped;
  uint8_t *memory;                 /* of one that is filled first, until it is: where it is written to */
};

struct tg_pipeline {
  atomic_size_t refs;
  tg_device *device;
  WGPUComputePipeline wgpu;
  WGPUBindGroupLayout layout;
  size_t binding_count;
  char kinds[];
};

void tgi_device_retain(tg_device *device);
void tgi_buffer_retain(tg_buffer *buffer);
void tgi_pipeline_retain(tg_pipeline *pipeline);
void tgi_replay_retain(tg_replay *replay);

void tgi_device_lock(tg_device *device);
/* The caller has a reference of its own. What was released meanwhile is ended. */
void tgi_device_unlock(tg_device *device);
/* End this now or, while another thread has the lock, when that one gives it back. Waits for nothing. */
void tgi_end(tg_device *device, tgi_ending *ending);

/* With the device's lock held: catch errors between begin and end. */
unsigned tgi_scope_begin(tg_device *device);
int tgi_scope_end(tg_device *device, unsigned mark, const char *what, tg_error *err);

/* With the lock held: whether the device still takes work. It is asked, and told as lost from then on when it does not. */
bool tgi_is_alive(tg_device *device);
/* With the lock held: the only way to the queue, for commands or (NULL) for what was written. The device is asked before,
 * because wgpu-native aborts the process that submits to one that is gone. */
int tgi_queue(tg_device *device, const WGPUCommandBuffer *commands, WGPUSubmissionIndex *index, tg_error *err);
/* The same without the lock; 0, or 1 with the sentence of `tgi_lost`. */
int tgi_check_alive(tg_device *device, tg_error *err);
int tgi_lost(tg_error *err);
/* Why there is no mapped memory to read; returns 1. */
int tgi_unreadable(tg_device *device, tg_error *err);

/* A buffer to map when a submission is done; bytes are rounded up to whole words. */
typedef struct tgi_mapping {
  tg_buffer *buffer;
  uint64_t bytes;
  WGPUMapMode mode;
} tgi_mapping;

/* A submission under way, and what is mapped after it. */
typedef struct tgi_ticket {
  WGPUSubmissionIndex index;
  struct tgi_mapped *mapped;       /* NULL: nothing */
} tgi_ticket;

/* With the lock held and a scope open: finish, close the scope. Consumes the encoder. NULL with a sentence when there was
 * an error, because wgpu-native aborts the process that submits such commands. */
WGPUCommandBuffer tgi_finish(tg_device *device, WGPUCommandEncoder encoder, unsigned mark, tg_error *err);
/* With the lock held: submit, start mapping. Consumes the commands. */
int tgi_submit(tg_device *device, WGPUCommandBuffer commands, const tgi_mapping *mappings, size_t count, tgi_ticket *ticket,
               tg_error *err);
/* Without the lock: wait for the submission and until all is mapped. After a failure nothing is. */
int tgi_collect(tg_device *device, tgi_ticket *ticket, tg_error *err);
/* The memory of a buffer that is mapped; NULL when it is not there any more. */
void *tgi_mapped_range(tg_buffer *buffer, WGPUMapMode mode, uint64_t bytes);
/* Copy from a mapped buffer and unmap it. */
int tgi_take(tg_buffer *buffer, void *host, uint64_t bytes, tg_error *err);
void tgi_unmap(tg_buffer *buffer);                 /* with the lock held */
void tgi_give_back(tg_buffer *buffer);             /* the same without it */
void tgi_wait(tg_device *device, WGPUSubmissionIndex index);

tg_buffer *tgi_buffer_create(tg_device *device, uint64_t bytes, WGPUBufferUsage usage, tg_error *err);
/* Blocking: the buffer's bytes by way of another one that can be mapped, or of itself where it can. */
int tgi_buffer_read(tg_buffer *buffer, tg_buffer *staging, void *data, uint64_t bytes, tg_error *err);
/* With the lock held and a scope open: any number of bytes, the tail is padded with zeros. */
void tgi_write_padded(tg_buffer *buffer, const void *data, uint64_t bytes);
/* With the lock held and a scope open. A NULL buffer of a 'u' binding means uniforms. */
WGPUBindGroup tgi_bind(const tg_pipeline *pipeline, tg_buffer *const *buffers, tg_buffer *uniforms, uint32_t uniform_offset);

static inline uint64_t tgi_round_up(uint64_t value, uint64_t step) { return (value + step - 1) / step * step; }

typedef struct tgi_step {
  tg_pipeline *pipeline;
  WGPUBindGroup group;             /* NULL: zero workgroups, skipped */
  uint32_t x, y, z;
} tgi_step;

/* What timestamps a run takes: before the first dispatch and after each, or before the first and twice after the last. */
typedef enum tgi_timestamping { TGI_NO_TIMESTAMPS, TGI_EACH, TGI_ENDS } tgi_timestamping;

/* Encode steps as one pass. */
void tgi_encode_steps(WGPUCommandEncoder encoder, const tgi_step *steps, size_t count, tgi_timestamping timestamping,
                      WGPUQuerySet queries);
/* With the lock held and a scope open: encode and submit steps, close the scope. */
int tgi_submit_steps(tg_device *device, unsigned mark, const tgi_step *steps, size_t count, tgi_ticket *ticket, tg_error *err);

/* ---- replay.c, run.c, timestamps.c ----------------------------------------------------------------------------------- */

typedef struct tgi_slot {
  tg_buffer *buffer;
  uint64_t bytes;
  uint64_t place;                  /* in the replay's staging buffer, of one that cannot be mapped itself */
  uint8_t *shadow;                 /* states: what the last run left in host memory */
  bool shadow_valid;
  uint8_t *mapped;                 /* inputs: where the next run writes; under run_lock */
  bool written;                    /* this run has done so */
} tgi_slot;

enum { CHECK_BYTES = 16 };

struct tg_replay {
  tgi_ending ending;               /* first, so that its address is the replay's */
  atomic_size_t refs;
  tg_device *device;
  tgi_memory memory;               /* of its lists */
  tgi_step *steps;                 /* with a reference to its pipeline each */
  size_t step_count;
  tg_buffer **buffers;             /* one reference per binding, and the uniforms last */
  size_t buffer_count;
  tgi_slot *inputs, *outputs, *states;             /* one array: outputs and states are read back alike */
  size_t input_count, output_count, state_count;
  tg_buffer *check;                /* or NULL */
  tg_buffer *upload, *readback;    /* staging of what cannot be mapped itself; NULL when all can */
  tgi_mapping *mappings;           /* of the present run, room for all; under run_lock */
  tgi_mutex run_lock;        /* before the device's lock in order */
  WGPUCommandBuffer prepared;      /* of a plain run, encoded while the one before it ran; under run_lock */
  tgi_timestamping prepared_timestamping; /* that it takes */
  WGPUSubmissionIndex last_index;  /* under run_lock */
  bool has_last_index;
  WGPUQuerySet queries;            /* made on the first run that asks for timestamps; under run_lock */
  tg_buffer *resolved;
  atomic_ullong runs, failures, uploaded, downloaded, last_nanoseconds;
};

typedef struct tgi_traffic {
  uint64_t uploaded, downloaded, nanoseconds;
} tgi_traffic;

/* With the run lock and the device's held: wgpu takes no buffer that is mapped, so neither those that the last run left
 * mapped. */
void tgi_unmap_inputs(tg_replay *replay);
int tgi_replay_run(tg_replay *replay, const tg_port *inputs, const tg_port *outputs, const tg_port *states,
                   const tg_run_options *options, tgi_traffic *traffic, tg_error *err);
/* With the run lock held. Make room for timestamps; fetch those of a run of the first `steps` dispatches, in nanoseconds
 * (with TGI_EACH, those of steps that did not run repeat the last one). */
int tgi_timestamps_ready(tg_replay *replay, tg_error *err);
int tgi_timestamps_read(const tg_replay *replay, size_t steps, tgi_timestamping timestamping, uint64_t *values,
                        tg_error *err);

#endif
