// The experiments with bare reads and writes: 1 (paths), 2 (pages), 3 (requests in flight), 4 (back
// ends) and 9 (ablation). Engine reads stand beside them in engine.cc.
#include <fcntl.h>

#include <algorithm>
#include <string>
#include <utility>

#include "engine_race/io/block_device.h"
#include "harness/experiments/io/lab.h"
#include "harness/lab/passthrough.h"

namespace engine_race::harness {
namespace {

using Files = std::span<const RawFile>;

constexpr uint32_t kReadBytes = 4096;
constexpr uint32_t kLargePageBytes = 16 * 1024;
constexpr uint32_t kMinPageBytes = 512;
constexpr uint32_t kMaxPageBytes = 64 * 1024;
constexpr uint32_t kValueUpdateBytes = 4096;
constexpr uint32_t kRowUpdateBytes = 100;
constexpr uint32_t kDepth = 128;
constexpr uint32_t kBatch = 16;
constexpr uint32_t kMaxInFlight = 4096;
constexpr uint32_t kBlockingThreads = 64;
constexpr char kPassthrough[] = "nvme passthrough";

// Reads as the engine would make them.
RawLoad EngineLoad(const IoLab& lab, Files files) {
  RawLoad load;
  load.files = files;
  load.backend = EngineRawBackend(files.front());
  load.depth = kDepth;
  load.batch = kBatch;
  load.page_bytes = kReadBytes;
  load.seconds = lab.seconds();
  return load;
}

BlockingLoad ThreadLoad(const IoLab& lab, Files files, uint32_t thread_count) {
  BlockingLoad load;
  load.files = files;
  load.thread_count = thread_count;
  load.seconds = lab.seconds();
  return load;
}

Status OpenRaw(const std::string& path, RawFile* file) {
  io::BlockDevice device;
  ENGINE_RACE_RETURN_IF_ERROR(io::BlockDevice::Open(path, /*read_only=*/true, &device));
  file->name = path;
  file->size_bytes = device.size_bytes;
  file->direct = true;
  return sys::OpenAt(AT_FDCWD, path, O_RDONLY | O_DIRECT, 0, &file->fd);
}

}  // namespace

Experiments BareScaling(const IoLab& lab) {
  Experiment reads = lab.Begin(
      1, "scaling over paths, bare reads", "Do more paths give more reads a second?",
      "a 4 KiB random read, round-robin over the paths", {.x = "path_count", .series = {}});
  Experiment mixes =
      lab.Begin(1, "scaling over paths, bare mixes", "What do writes do to the reads beside them?",
                "a pread or a pwrite over a random 4 KiB page", kMixPlot);
  lab.NoteStandIns(&reads);
  lab.NoteStandIns(&mixes);
  const auto measure_reads = [&](Files files, Experiment* experiment) {
    RawLoad load = EngineLoad(lab, files);
    for (const uint32_t count : lab.PathCounts()) {
      load.files = files.first(count);
      load.depth = kDepth * count;
      lab.MeasureRaw(
          experiment,
          {{"path_count", count}, {"backend", load.backend.name}, {"in_flight", load.depth}}, load);
    }
  };
  const auto measure_mixes = [&](Files files, Experiment* experiment) {
    for (const uint32_t count : lab.PathCounts()) {
      BlockingLoad load = ThreadLoad(lab, files.first(count), kMixThreads);
      for (const uint32_t percent : kWritePercents) {
        load.write_percent = percent;
        lab.MeasureBlocking(
            experiment,
            {{"path_count", count}, {"write_percent", percent}, {"threads", kMixThreads}}, load);
      }
    }
  };
  return {lab.OverFiles(std::move(reads), measure_reads),
          lab.OverFiles(std::move(mixes), measure_mixes)};
}

Experiments PageSizes(const IoLab& lab) {
  const auto measure_reads = [&](Files files, Experiment* experiment) {
    RawLoad load = EngineLoad(lab, files);
    experiment->notes.push_back("through " + load.backend.name);
    for (const uint32_t depth : {1u, kDepth}) {
      load.depth = depth;
      for (const uint32_t page_bytes : lab.Powers(kMinPageBytes, kMaxPageBytes)) {
        load.page_bytes = page_bytes;
        lab.MeasureRaw(experiment, {{"page_bytes", page_bytes}, {"in_flight", depth}}, load);
      }
    }
  };
  const auto measure_updates = [&](Files files, Experiment* experiment) {
    BlockingLoad load = ThreadLoad(lab, files, kMixThreads);
    load.write_percent = 100;
    for (const uint32_t page_bytes : lab.Powers(kMinPageBytes, kMaxPageBytes)) {
      load.page_bytes = page_bytes;
      load.pages_per_write = static_cast<uint32_t>(PagesTouched(kValueUpdateBytes, page_bytes));
      lab.MeasureBlocking(
          experiment,
          {{"page_bytes", page_bytes},
           {"amplification_4096", WriteAmplification(kValueUpdateBytes, page_bytes)},
           {"amplification_100", WriteAmplification(kRowUpdateBytes, page_bytes)},
           {"threads", kMixThreads}},
          load);
    }
  };
  return {
      lab.OverFiles(lab.Begin(2, "page size, reads",
                              "Which page gives the most reads, and which the most bytes?",
                              "a random read of one page",
                              {"line",
                               "page_bytes",
                               {"in_flight"},
                               {"requests_per_second", "mb_per_second", "p50_ns"}}),
                    measure_reads),
      lab.OverFiles(lab.Begin(2, "page size, updates",
                              "How much is written for an update, and how fast is it?",
                              "a 4 KiB update: a pwrite of every page that it touches",
                              {"line",
                               "page_bytes",
                               {},
                               {"requests_per_second", "amplification_4096", "amplification_100"}}),
                    measure_updates)};
}

Experiments RequestsInFlight(const IoLab& lab) {
  const auto measure = [&](Files files, Experiment* experiment) {
    RawLoad load = EngineLoad(lab, files);
    for (const uint32_t depth : lab.Powers(1, kMaxInFlight)) {
      load.depth = depth;
      load.batch = std::clamp(depth / 4, 1u, kBatch);
      lab.MeasureRaw(experiment,
                     {{"in_flight", depth}, {"backend", load.backend.name}, {"batch", load.batch}},
                     load);
    }
  };
  return {lab.OverFiles(
      lab.Begin(3, "requests in flight", "How many requests at once does the device want?",
                "a 4 KiB random read",
                {"line", "in_flight", {"backend"}, {"requests_per_second", "mean_ns", "p999_ns"}}),
      measure)};
}

Experiments BackEnds(const IoLab& lab) {
  // Measures each back end that works, from one worker and two or in batches of each size.
  const auto by = [&lab](bool workers) {
    return [&lab, workers](Files files, Experiment* experiment) {
      RawLoad load = EngineLoad(lab, files);
      for (const RawBackend& backend : RawBackends()) {
        if (!workers && !IsPlain(backend)) continue;
        const ResultRow name = {{"backend", backend.name}};
        if (!lab.Check(ProbeRawBackend(backend, files.front()), name, experiment)) continue;
        load.backend = backend;
        for (const uint32_t many : workers ? lab.Powers(1, 2) : lab.Powers(1, kDepth)) {
          ResultRow row = {{"backend", backend.name}, {workers ? "workers" : "batch", many}};
          (workers ? load.worker_count : load.batch) = many;
          if (workers) {
            row["in_flight"] = kDepth;
            row["batch"] = kBatch;
          }
          lab.MeasureRaw(experiment, std::move(row), load);
        }
      }
    };
  };
  Experiments tables = {
      lab.OverFiles(
          lab.Begin(4, "back ends", "Which way into the kernel is the cheapest?",
                    "a 4 KiB random read", {.kind = "bar", .x = "backend", .series = {"workers"}}),
          by(/*workers=*/true)),
      lab.OverFiles(lab.Begin(4, "batches", "What do many requests to a system call save?",
                              "a 4 KiB random read, 128 in flight, one worker",
                              {.x = "batch", .series = {"backend"}}),
                    by(/*workers=*/false))};
  if (!lab.config().device.empty()) tables.push_back(RawDevice(lab));
  return tables;
}

Experiment RawDevice(const IoLab& lab) {
  const std::string& path = lab.config().device;
  Experiment experiment =
      lab.Begin(4, "raw device", "What do file system and block layer cost?", "a 4 KiB random read",
                {.kind = "bar", .x = "backend", .series = {}});
  experiment.medium = path;
  experiment.notes.push_back("where nothing was ever written, some devices have nothing to read");
  RawFile file;
  if (!lab.Check(OpenRaw(path, &file), {}, &experiment)) return experiment;
  RawLoad load;
  load.files = {&file, 1};
  load.seconds = lab.seconds();
  for (const RawBackend& backend : RawBackends()) {
    const ResultRow row = {{"backend", backend.name}};
    if (!lab.Check(ProbeRawBackend(backend, file), row, &experiment)) continue;
    load.backend = backend;
    lab.MeasureRaw(&experiment, row, load);
  }
  const ResultRow row = {{"backend", kPassthrough}};
  lab::PassthroughDevice device;
  if (lab.Check(lab::OpenPassthrough(path, &device), row, &experiment)) {
    load.passthrough = &device;
    lab.MeasureRaw(&experiment, row, load);
  }
  return experiment;
}

// Each step keeps the improvements of the steps before it.
Experiments Ablation(const IoLab& lab) {
  const auto measure = [&](Files files, Experiment* experiment) {
    BlockingLoad threads = ThreadLoad(lab, files, kBlockingThreads);
    threads.page_bytes = kLargePageBytes;
    lab.MeasureBlocking(experiment, {{"step", "64 blocking threads, 16 KiB pages"}}, threads);
    threads.page_bytes = kReadBytes;
    lab.MeasureBlocking(experiment, {{"step", "+ 4 KiB pages"}}, threads);
    RawLoad load = EngineLoad(lab, files);
    load.batch = 1;
    lab.MeasureRaw(experiment, {{"step", "+ one worker, 128 in flight, " + load.backend.name}},
                   load);
    load.batch = kBatch;
    lab.MeasureRaw(experiment, {{"step", "+ batches of 16"}}, load);
    const ResultRow row = {{"step", "+ registered buffers and files"}};
    if (load.backend.backend == IoBackend::kIoUring) {
      load.backend.registered = true;
      if (lab.Check(ProbeRawBackend(load.backend, files.front()), row, experiment)) {
        lab.MeasureRaw(experiment, row, load);
      }
    } else {
      lab.Check(Status::NotSupported(load.backend.name + " has none"), row, experiment);
    }
    AblateEngine(lab, experiment);
  };
  return {lab.OverFiles(lab.Begin(9, "ablation", "What does each step bring?",
                                  "a random read of one page, of 4 KiB from the second step",
                                  {.kind = "bar", .x = "step", .series = {}}),
                        measure)};
}

}  // namespace engine_race::harness
