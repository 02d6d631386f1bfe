// Experiment 1: reads and mixes over a growing number of paths.
#include <algorithm>
#include <string>

#include "harness/experiments/io/lab.h"
#include "harness/system/child_process.h"

namespace harness {
namespace {

constexpr uint32_t kPathDepth = 128;
constexpr uint32_t kMixThreads = 32;
constexpr uint32_t kCallers = 2;
constexpr uint32_t kWritePercents[] = {0, 10, 25, 50};

// 1, 2, 4, ... and all of them.
std::vector<uint32_t> PathCounts(const IoLab& lab) {
  const auto all = static_cast<uint32_t>(lab.space().paths().size());
  std::vector<uint32_t> counts = lab.Powers(1, all);
  if (counts.back() != all) counts.push_back(all);
  return counts;
}

Experiment RawScaling(const IoLab& lab) {
  Experiment experiment =
      lab.Begin(1, "scaling over paths, bare reads", "Do more paths give more reads a second?",
                "a 4 KiB random read, round-robin over the paths");
  experiment.plot.x = "path_count";
  lab.NoteStandIns(&experiment);
  const std::span<const RawFile> files = lab.RawFiles(&experiment);
  if (files.empty()) return experiment;
  RawLoad load;
  load.backend = EngineRawBackend(files.front());
  load.seconds = lab.seconds();
  for (const uint32_t count : PathCounts(lab)) {
    load.files = files.first(count);
    load.depth = kPathDepth * count;
    lab.MeasureRaw(
        &experiment,
        {{"path_count", count}, {"backend", load.backend.name}, {"in_flight", load.depth}}, load);
  }
  return experiment;
}

Experiment RawMixes(const IoLab& lab) {
  Experiment experiment =
      lab.Begin(1, "scaling over paths, bare mixes", "What do writes do to the reads beside them?",
                "a pread or a pwrite over a random 4 KiB page");
  experiment.plot = {
      "line", "write_percent", {"path_count"}, {"requests_per_second", "p99_ns", "p999_ns"}};
  lab.NoteStandIns(&experiment);
  const std::span<const RawFile> files = lab.RawFiles(&experiment);
  if (files.empty()) return experiment;
  BlockingLoad load;
  load.thread_count = kMixThreads;
  load.seconds = lab.seconds();
  for (const uint32_t count : PathCounts(lab)) {
    load.files = files.first(count);
    for (const uint32_t percent : kWritePercents) {
      load.write_percent = percent;
      lab.Measure(&experiment,
                  {{"path_count", count}, {"write_percent", percent}, {"threads", kMixThreads}},
                  [&load](TimedPoint* point) { return RunBlocking(load, point); });
    }
  }
  return experiment;
}

void EngineScaling(const IoLab& lab, Experiment* reads, Experiment* mixes) {
  for (const uint32_t count : PathCounts(lab)) {
    if (Interrupted()) return;
    IoStore store(lab.space(), lab.config().record_count, count);
    const ResultRow row = {{"path_count", count}};
    TimedPoint filling;
    if (!lab.Check(store.Fill(&filling), row, reads)) continue;
    if (!lab.Check(store.Open(), row, reads)) continue;
    ResultRow read_row = row;
    read_row["backend"] = store.stats().io_backend;
    lab.Measure(reads, read_row, [&](TimedPoint* point) {
      return store.MultiReads(kCallers, lab.seconds(), point);
    });
    for (const uint32_t percent : kWritePercents) {
      ResultRow mix_row = row;
      mix_row["write_percent"] = percent;
      mix_row["threads"] = kMixThreads;
      lab.Measure(mixes, mix_row, [&](TimedPoint* point) {
        return store.Mix(kMixThreads, percent, lab.seconds(), point);
      });
    }
  }
}

}  // namespace

Experiments ScalingOverPaths(const IoLab& lab) {
  Experiments tables = {RawScaling(lab), RawMixes(lab)};
  Experiment reads =
      lab.Begin(1, "scaling over paths, MultiRead", "Does the engine use the paths that it has?",
                "a key, 1024 to a call, from 2 threads");
  reads.plot.x = "path_count";
  Experiment mixes =
      lab.Begin(1, "scaling over paths, engine mixes",
                "What does the log do to the reads beside it?", "a Read or a Write of one key");
  mixes.plot = tables[1].plot;
  lab.NoteStandIns(&reads);
  lab.NoteStandIns(&mixes);
  EngineScaling(lab, &reads, &mixes);
  tables.push_back(std::move(reads));
  tables.push_back(std::move(mixes));
  return tables;
}

}  // namespace harness
