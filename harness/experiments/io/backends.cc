// Experiment 4: the back ends by rate and CPU time, from one worker and two, in batches of 1 to
// 128.
#include <string>
#include <vector>

#include "harness/experiments/io/lab.h"

namespace harness {
namespace {

constexpr uint32_t kBackEndDepth = 128;
constexpr uint32_t kBackEndBatch = 16;

// Adds the row that says why a back end is missing.
bool Works(const IoLab& lab, const RawBackend& backend, const RawFile& file,
           Experiment* experiment) {
  return lab.Check(ProbeRawBackend(backend, file), {{"backend", backend.name}}, experiment);
}

Experiment ByWorkers(const IoLab& lab) {
  Experiment experiment = lab.Begin(4, "back ends", "Which way into the kernel is the cheapest?",
                                    "a 4 KiB random read");
  experiment.plot = {"bar", "backend", {"workers"}, {"requests_per_second", "cpu_ns_per_request"}};
  const std::span<const RawFile> files = lab.RawFiles(&experiment);
  if (files.empty()) return experiment;
  RawLoad load;
  load.files = files;
  load.depth = kBackEndDepth;
  load.batch = kBackEndBatch;
  load.seconds = lab.seconds();
  for (const RawBackend& backend : RawBackends()) {
    if (!Works(lab, backend, files.front(), &experiment)) continue;
    load.backend = backend;
    for (const uint32_t worker_count : {1u, 2u}) {
      load.worker_count = worker_count;
      lab.MeasureRaw(&experiment,
                     {{"backend", backend.name},
                      {"workers", worker_count},
                      {"in_flight", kBackEndDepth},
                      {"batch", kBackEndBatch}},
                     load);
    }
  }
  return experiment;
}

Experiment ByBatch(const IoLab& lab) {
  Experiment experiment = lab.Begin(4, "batches", "What do many requests to a system call save?",
                                    "a 4 KiB random read, 128 in flight, one worker");
  experiment.plot = {"line", "batch", {"backend"}, {"requests_per_second", "cpu_ns_per_request"}};
  const std::span<const RawFile> files = lab.RawFiles(&experiment);
  if (files.empty()) return experiment;
  RawLoad load;
  load.files = files;
  load.depth = kBackEndDepth;
  load.seconds = lab.seconds();
  for (const RawBackend& backend : RawBackends()) {
    if (!IsPlain(backend) || !Works(lab, backend, files.front(), &experiment)) continue;
    load.backend = backend;
    for (const uint32_t batch : lab.Powers(1, kBackEndDepth)) {
      load.batch = batch;
      lab.MeasureRaw(&experiment, {{"backend", backend.name}, {"batch", batch}}, load);
    }
  }
  return experiment;
}

}  // namespace

Experiments BackEnds(const IoLab& lab) {
  Experiments tables = {ByWorkers(lab), ByBatch(lab)};
  if (!lab.config().device.empty()) tables.push_back(RawDevice(lab));
  return tables;
}

}  // namespace harness
