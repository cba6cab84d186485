/* Interface between the parts of the shim: libc calls (calls.c), DRM core (core.c), and one file per kernel driver. */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* A GEM object: a range of the memory file, so that mmap of the node's descriptor needs no translation. */
typedef struct Buffer {
  uint64_t offset, size;
} Buffer;

uint32_t buffer_new(uint64_t size); /* returns a handle, 0 if memory is exhausted */
Buffer *buffer_of(uint32_t handle);
void buffer_free(uint32_t handle);
void *buffer_map(uint32_t handle);

/* Sets a sync object to a timeline point. Binary ones (point 0) are always signalled. */
void signal_syncobj(uint32_t handle, uint64_t point);

/* Returns the environment variable SHIM_<name> as a number. */
uint64_t setting(const char *name, uint64_t otherwise);

/* Handles a driver's own ioctl. Returns 0 or -errno, -ENOTTY for an unknown one. */
typedef int Handler(unsigned number, void *argument, size_t size);
Handler handle_i915, handle_xe, handle_nouveau, handle_msm, handle_asahi;

/* Handles any ioctl of the node as the C library's function does: result or -1 with errno. */
int handle_ioctl(unsigned long request, void *argument);
int memory_file(void);
uint64_t memory_size(void);

/* Writes a line to stderr if SHIM_LOG is at least `level`. */
void log_line(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));
