/* Adds the runs of a session's partitions, and their dispatches, to onnxruntime's profile (1.25 or newer). */
#include "ort/internal.h"

enum { LANE = -1, MAX_LABEL = 512 };   /* process and thread of events, as other providers for GPUs have it */

/* Belongs to the host, and may outlive the session's execution provider. */
typedef struct profiler {
  tgo_profiler host;
  const tgi_factory *factory;
  int64_t session;
  tg_recorder *recorder;           /* NULL unless the host profiles */
  int64_t zero;                    /* tg_now at the start of the host's profile */
} profiler;

static int add(const profiler *p, tgo_events *events, int category, const char *name, uint64_t begin, uint64_t end,
               tg_error *err) {
  const tgo_ep_api *api = p->factory->ep_api;
  static const char *const keys[] = {"provider"}, *const values[] = {TGI_EP_NAME};
  int64_t start = (int64_t)begin - p->zero, taken = end > begin ? (int64_t)(end - begin) : 0;
  tgo_event *event = NULL;
  if (tgi_take_status(p->factory->api,
                      api->create_event(category, LANE, LANE, name, start / 1000, taken / 1000, keys, values, 1, &event), err))
    return 1;
  const tgo_event *list[] = {event};
  int failed = tgi_take_status(p->factory->api, api->add_events(events, list, 1), err);
  api->release_event(event);
  return failed;
}

/* The device has a clock of its own: its last timestamp is taken as the time when the run was seen to have finished. */
static int add_run(const profiler *p, tgo_events *events, const tg_recorded *run, tg_error *err) {
  const char *label = run->labels;
  if (add(p, events, TGO_API_EVENT, "tflgpu upload", run->start, run->submitted, err)) return 1;
  for (size_t i = 0; i + 1 < run->timestamp_count; i++) {
    const uint64_t *at = run->timestamps + i;
    uint64_t behind = run->timestamps[run->timestamp_count - 1];
    size_t length = strcspn(label, "\n");
    char name[MAX_LABEL];
    snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1), label);
    tgi_trim(name);
    if (add(p, events, TGO_KERNEL_EVENT, name, run->finished - (behind - at[0]), run->finished - (behind - at[1]), err)) return 1;
    label += length + (label[length] == '\n');
  }
  return add(p, events, TGO_API_EVENT, "tflgpu download", run->finished, run->end, err);
}

static void drop(profiler *p) {
  tg_recorder_release(p->recorder);
  p->recorder = NULL;
}

static tgo_status *start(tgo_profiler *host, int64_t offset) {
  profiler *p = (profiler *)host;
  tg_error err = {0};
  drop(p);
  p->zero = (int64_t)tg_now() - offset;
  p->recorder = tg_recorder_create(p->session, 0, &err);
  return p->recorder ? NULL : tgi_status(p->factory->api, err.text);
}

static tgo_status *end(tgo_profiler *host, tgo_events *events) {
  profiler *p = (profiler *)host;
  tg_error err = {0};
  int failed = 0;
  const tg_recorded *run = p->recorder ? tg_recorder_stop(p->recorder) : NULL;
  for (; run && !failed; run = run->next) failed = add_run(p, events, run, &err);
  drop(p);
  return failed ? tgi_status(p->factory->api, err.text) : NULL;
}

static void release(tgo_profiler *host) {
  drop((profiler *)host);
  free(host);
}

tgo_status *tgi_create_profiler(tgo_ep *host, tgo_profiler **made) {
  const tgi_ep *ep = (const tgi_ep *)host;
  profiler *p = calloc(1, sizeof *p);
  if (!p) return tgi_status(ep->factory->api, "not enough memory for a profile.");
  p->host = (tgo_profiler){.version = host->version, .release = release, .start = start, .end = end};
  p->factory = ep->factory;
  p->session = ep->client.number;
  *made = &p->host;
  return NULL;
}
