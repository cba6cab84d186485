/* One run of a replay: declarations for run.c, which encodes it, and run_ports.c, which moves its inputs and results. */
#ifndef TFLGPU_INTERNAL_RUN_H
#define TFLGPU_INTERNAL_RUN_H

#include "core/internal.h"

typedef struct tgi_traffic {
  uint64_t uploaded, downloaded, copied, nanoseconds;
  uint64_t start, submitted, finished;   /* see tg_recorded */
  bool untimed;                    /* the run succeeded, but its timestamps could not be taken or read */
} tgi_traffic;

int tgi_replay_run(tg_replay *replay, const tgi_setting *setting, const tgi_ports *ports, const tg_run_options *options,
                   tgi_traffic *traffic, tg_error *err);

typedef struct tgi_run {
  tg_replay *replay;
  const tgi_setting *setting;
  const tg_port *inputs, *outputs, *states;
  const bool *stay;
  struct tgi_readback *const *readbacks;
  bool keeps_states;
  uint64_t *timestamps;
  size_t steps;
  const struct tgi_bindings *bindings;   /* bind groups for tensors on the device, or NULL */
  bool staged;                     /* inputs that cannot be mapped were written to the staging buffer */
  tgi_timestamping timestamping;
  bool reads_back;                 /* results or the check come through the staging buffer */
  size_t mapping_count;
  tgi_traffic traffic;
} tgi_run;

/* ---- bindings.c: tensors on the device that kernels access where they are ------------------------------------------------ */

/* Finds or makes the bind groups of a run, with both locks held. */
int tgi_bindings_find(tgi_run *r, tg_error *err);
const WGPUBindGroup *tgi_bindings_groups(const tgi_run *r);    /* see tgi_encode_steps */
/* Returns whether kernels access the tensor at a port where it is. Outputs are counted after inputs. */
bool tgi_is_bound(const tgi_run *r, size_t port);

/* ---- run_ports.c: inputs and results of a run, with the run lock held ---------------------------------------------------- */

/* The results are the outputs, followed by the states. */
size_t tgi_result_count(const tgi_run *r);
const tg_port *tgi_result(const tgi_run *r, size_t i);
/* The host memory that gets a result after the run, or NULL. */
void *tgi_destination(const tgi_run *r, size_t i);

/* Called before the compute pass. */
int tgi_ports_check(const tgi_run *r, tg_error *err);
void tgi_ports_take_back(tg_replay *replay);
void tgi_ports_write_mapped(tgi_run *r);
void tgi_ports_write(tgi_run *r);                  /* with the device's lock held and a scope open */

/* Encode copies before and after the compute pass, in the same commands. `staged`: inputs that cannot be mapped come from the
 * staging buffer. */
void tgi_ports_encode_inputs(const tgi_run *r, bool staged, WGPUCommandEncoder encoder);
void tgi_ports_encode_outputs(const tgi_run *r, WGPUCommandEncoder encoder);

/* Called after the compute pass. */
void tgi_ports_start_readbacks(const tgi_run *r, WGPUSubmissionIndex index);   /* with the device's lock held */
void tgi_ports_list_mappings(tgi_run *r);
void tgi_ports_keep_inputs(const tgi_run *r);
int tgi_ports_take_outputs(tgi_run *r, tg_error *err);
int tgi_states_lost(tg_error *err);   /* writes that the states on the device are those of a run that failed; returns 1 */

/* ---- timestamps.c --------------------------------------------------------------------------------------------------- */

bool tgi_timestamps_are_possible(const tg_replay *replay);
/* tgi_timestamps_ready allocates memory for timestamps; tgi_timestamps_read fetches those of a run of the first `steps`
 * dispatches, in nanoseconds (with TGI_EACH, the values of steps that did not run repeat the last one). With the run lock held. */
int tgi_timestamps_ready(tg_replay *replay, tg_error *err);
int tgi_timestamps_read(const tg_replay *replay, size_t steps, tgi_timestamping timestamping, uint64_t *values,
                        tg_error *err);

#endif
