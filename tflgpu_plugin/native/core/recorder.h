/* Times of runs, as Python calls them; like tflgpu.h without preprocessor lines, and included after it. */

/* The wall time of all runs of partitions in this process and of fetching their results, a sum over threads that run at once. */
uint64_t tg_run_nanoseconds(void);

/* A run of a partition on the GPU. Times are nanoseconds of tg_now: before the inputs were written, after the commands were
 * submitted, after the device had finished, and after the results were read. timestamps: the device's clock in nanoseconds
 * before the first dispatch and after each (with ends_only, after the last); none where the adapter has no timestamps. */
typedef struct tg_recorded {
  int64_t partition;               /* its number */
  uint64_t start, submitted, finished, end;
  const uint64_t *timestamps; size_t timestamp_count;
  const char *labels;              /* see tg_replay_spec */
  struct tg_recorded *next;
} tg_recorded;

/* Records runs from its creation until it is stopped. Taking timestamps makes runs slower. */
typedef struct tg_recorder tg_recorder;
/* session: the number that create gave an onnxruntime session; 0 for all runs of the process. */
tg_recorder *tg_recorder_create(int64_t session, uint32_t ends_only, tg_error *err);
const tg_recorded *tg_recorder_stop(tg_recorder *recorder);       /* returns the runs in order; they live as long as it */
void tg_recorder_release(tg_recorder *recorder);
uint64_t tg_now(void);
