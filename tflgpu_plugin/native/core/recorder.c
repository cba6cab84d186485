/* Times of runs: their sum, and recorders of each run for profiles. */
#include "core/plans.h"

enum { MAX_RECORDED = 1000000 };   /* dispatches; later runs are not recorded, so that memory stays bounded */

struct tg_recorder {
  int64_t session;
  uint32_t ends_only;
  size_t recorded;                 /* dispatches so far */
  tg_recorded *first, *last;
  tg_recorder *next;               /* in `recorders` */
};

static tg_recorder *recorders;     /* recorders that are not stopped; the list and all their members are under tgi_lock */
static atomic_uint recorder_count;
static atomic_ullong nanoseconds;  /* see tg_run_nanoseconds */

uint64_t tg_now(void) { return tgi_now(); }

void tgi_count_time(uint64_t passed) { atomic_fetch_add(&nanoseconds, passed); }

uint64_t tg_run_nanoseconds(void) { return atomic_load(&nanoseconds); }

tg_recorder *tg_recorder_create(int64_t session, uint32_t ends_only, tg_error *err) {
  tg_recorder *recorder = calloc(1, sizeof *recorder);
  if (!recorder) return (tgi_no_memory(err, "a profile"), NULL);
  recorder->session = session;
  recorder->ends_only = ends_only;
  tgi_lock();
  recorder->next = recorders;
  recorders = recorder;
  tgi_unlock();
  atomic_fetch_add(&recorder_count, 1);
  return recorder;
}

const tg_recorded *tg_recorder_stop(tg_recorder *recorder) {
  tgi_lock();
  tg_recorder **at = &recorders;
  while (*at && *at != recorder) at = &(*at)->next;
  if (*at) {
    *at = recorder->next;
    atomic_fetch_sub(&recorder_count, 1);
  }
  tgi_unlock();
  return recorder->first;
}

void tg_recorder_release(tg_recorder *recorder) {
  if (!recorder) return;
  tg_recorded *run = (tg_recorded *)tg_recorder_stop(recorder), *next;
  for (; run; run = next) {
    next = run->next;
    free(run);
  }
  free(recorder);
}

static bool wants(const tg_recorder *recorder, const tg_partition *partition) {
  return recorder->recorded < MAX_RECORDED && (!recorder->session || recorder->session == partition->session);
}

bool tgi_is_recorded(const tg_partition *partition, const tg_replay *replay, tg_run_options *options) {
  bool recorded = false, each = false;
  if (!atomic_load(&recorder_count)) return false;
  tgi_lock();
  for (const tg_recorder *recorder = recorders; recorder; recorder = recorder->next) {
    recorded |= wants(recorder, partition);
    each |= wants(recorder, partition) && !recorder->ends_only;
  }
  tgi_unlock();
  options->ends_only = !each;
  if (recorded && tgi_timestamps_are_possible(replay)) options->timestamps = calloc(replay->step_count + 3, sizeof(uint64_t));
  return recorded;
}

/* Returns a copy of a run in one allocation, which the recorder frees; NULL without memory. */
static tg_recorded *copy_run(const tg_partition *partition, const tg_replay *replay, const uint64_t *timestamps, size_t count,
                             const tgi_traffic *traffic) {
  const char *labels = replay->labels ? replay->labels : "";
  size_t bytes = count * sizeof *timestamps, text = strlen(labels) + 1;
  tg_recorded *run = malloc(sizeof *run + bytes + text);
  if (!run) return NULL;
  uint64_t *values = (uint64_t *)(run + 1);
  if (count) memcpy(values, timestamps, bytes);
  *run = (tg_recorded){.partition = partition->number,
                       .start = traffic->start,
                       .submitted = traffic->submitted,
                       .finished = traffic->finished,
                       .end = traffic->start + traffic->nanoseconds,
                       .timestamps = values,
                       .timestamp_count = count,
                       .labels = memcpy((char *)(values + count), labels, text)};
  return run;
}

void tgi_record(const tg_partition *partition, const tg_replay *replay, const tg_run_options *options,
                const tgi_traffic *traffic) {
  size_t count = !options->timestamps || traffic->untimed ? 0 : options->ends_only ? 2 : replay->step_count + 1;
  tgi_lock();
  for (tg_recorder *recorder = recorders; recorder; recorder = recorder->next) {
    if (!wants(recorder, partition)) continue;
    tg_recorded *run = copy_run(partition, replay, options->timestamps, count, traffic);
    if (!run) continue;
    if (recorder->last) recorder->last->next = run;
    else recorder->first = run;
    recorder->last = run;
    recorder->recorded += replay->step_count;
  }
  tgi_unlock();
}
