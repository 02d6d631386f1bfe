// Experiment 9: from blocking threads and large pages to the engine's reads, one step at a time.
#include <string>

#include "harness/experiments/io/lab.h"

namespace harness {
namespace {

constexpr uint32_t kThreads = 64;
constexpr uint32_t kAblationDepth = 128;
constexpr uint32_t kAblationBatch = 16;
constexpr uint32_t kLargePageBytes = 16 * 1024;
constexpr uint32_t kPageBytes = 4096;

// Each step keeps the improvements of the steps before it.
void BlockingSteps(const IoLab& lab, std::span<const RawFile> files, Experiment* experiment) {
  BlockingLoad load;
  load.files = files;
  load.thread_count = kThreads;
  load.seconds = lab.seconds();
  const auto take = [&load](TimedPoint* point) { return RunBlocking(load, point); };
  load.page_bytes = kLargePageBytes;
  lab.Measure(experiment, {{"step", "64 blocking threads, 16 KiB pages"}}, take);
  load.page_bytes = kPageBytes;
  lab.Measure(experiment, {{"step", "+ 4 KiB pages"}}, take);
}

void QueueSteps(const IoLab& lab, std::span<const RawFile> files, Experiment* experiment) {
  RawLoad load;
  load.files = files;
  load.backend = EngineRawBackend(files.front());
  load.depth = kAblationDepth;
  load.page_bytes = kPageBytes;
  load.seconds = lab.seconds();
  load.batch = 1;
  lab.MeasureRaw(experiment, {{"step", "+ one worker, 128 in flight, " + load.backend.name}}, load);
  load.batch = kAblationBatch;
  lab.MeasureRaw(experiment, {{"step", "+ batches of 16"}}, load);
  RawBackend registered = load.backend;
  registered.registered = true;
  const ResultRow row = {{"step", "+ registered buffers and files"}};
  if (registered.backend != engine_race::IoBackend::kIoUring) {
    lab.Check(engine_race::Status::NotSupported(registered.name + " has none"), row, experiment);
    return;
  }
  if (!lab.Check(ProbeRawBackend(registered, files.front()), row, experiment)) return;
  load.backend = registered;
  lab.MeasureRaw(experiment, row, load);
}

// Measures the same device through the index, with every value verified.
void EngineSteps(const IoLab& lab, Experiment* experiment) {
  IoStore store(lab.space(), lab.config().record_count, 0);
  const ResultRow row = {{"step", "the engine"}};
  TimedPoint filling;
  if (!lab.Check(store.Fill(&filling), row, experiment)) return;
  if (!lab.Check(store.Open(), row, experiment)) return;
  lab.Measure(experiment, {{"step", "the engine: Read, 64 threads"}},
              [&](TimedPoint* point) { return store.Mix(kThreads, 0, lab.seconds(), point); });
  lab.Measure(experiment,
              {{"step", "the engine: MultiRead, 1 thread, " + store.stats().io_backend}},
              [&](TimedPoint* point) { return store.MultiReads(1, lab.seconds(), point); });
}

}  // namespace

Experiments Ablation(const IoLab& lab) {
  Experiment experiment = lab.Begin(9, "ablation", "What does each step bring?",
                                    "a random read of one page, of 4 KiB from the second step");
  experiment.plot = {"bar", "step", {}, {"requests_per_second", "cpu_ns_per_request"}};
  const std::span<const RawFile> files = lab.RawFiles(&experiment);
  if (files.empty()) return {experiment};
  BlockingSteps(lab, files, &experiment);
  QueueSteps(lab, files, &experiment);
  EngineSteps(lab, &experiment);
  return {experiment};
}

}  // namespace harness
