// Experiments 2 and 3: the size of a page, and the number of requests in flight.
#include "harness/experiments/io/pages.h"

#include <algorithm>
#include <string>

#include "harness/experiments/io/lab.h"

namespace harness {
namespace {

constexpr uint32_t kMinPageBytes = 512;
constexpr uint32_t kMaxPageBytes = 64 * 1024;
constexpr uint32_t kValueUpdateBytes = 4096;
constexpr uint32_t kRowUpdateBytes = 100;
constexpr uint32_t kMaxInFlight = 4096;
constexpr uint32_t kMaxPageBatch = 16;
constexpr uint32_t kWriters = 32;

Experiment ReadsByPageSize(const IoLab& lab) {
  Experiment experiment =
      lab.Begin(2, "page size, reads", "Which page gives the most reads, and which the most bytes?",
                "a random read of one page");
  experiment.plot = {
      "line", "page_bytes", {"in_flight"}, {"requests_per_second", "mb_per_second", "p50_ns"}};
  const std::span<const RawFile> files = lab.RawFiles(&experiment);
  if (files.empty()) return experiment;
  RawLoad load;
  load.files = files;
  load.backend = EngineRawBackend(files.front());
  load.seconds = lab.seconds();
  experiment.notes.push_back("through " + load.backend.name);
  for (const uint32_t depth : {1u, 128u}) {
    load.depth = depth;
    for (const uint32_t page_bytes : lab.Powers(kMinPageBytes, kMaxPageBytes)) {
      load.page_bytes = page_bytes;
      lab.MeasureRaw(&experiment, {{"page_bytes", page_bytes}, {"in_flight", depth}}, load);
    }
  }
  return experiment;
}

Experiment UpdatesByPageSize(const IoLab& lab) {
  Experiment experiment =
      lab.Begin(2, "page size, updates", "How much is written for an update, and how fast is it?",
                "a 4 KiB update: a pwrite of every page that it touches");
  experiment.plot = {
      "line", "page_bytes", {}, {"requests_per_second", "amplification_4096", "amplification_100"}};
  const std::span<const RawFile> files = lab.RawFiles(&experiment);
  if (files.empty()) return experiment;
  BlockingLoad load;
  load.files = files;
  load.thread_count = kWriters;
  load.write_percent = 100;
  load.seconds = lab.seconds();
  for (const uint32_t page_bytes : lab.Powers(kMinPageBytes, kMaxPageBytes)) {
    load.page_bytes = page_bytes;
    load.pages_per_write = static_cast<uint32_t>(PagesTouched(kValueUpdateBytes, page_bytes));
    lab.Measure(&experiment,
                {{"page_bytes", page_bytes},
                 {"amplification_4096", WriteAmplification(kValueUpdateBytes, page_bytes)},
                 {"amplification_100", WriteAmplification(kRowUpdateBytes, page_bytes)},
                 {"threads", kWriters}},
                [&load](TimedPoint* point) { return RunBlocking(load, point); });
  }
  return experiment;
}

}  // namespace

Experiments PageSizes(const IoLab& lab) { return {ReadsByPageSize(lab), UpdatesByPageSize(lab)}; }

Experiments RequestsInFlight(const IoLab& lab) {
  Experiment experiment =
      lab.Begin(3, "requests in flight", "How many requests at once does the device want?",
                "a 4 KiB random read");
  experiment.plot = {
      "line", "in_flight", {"backend"}, {"requests_per_second", "mean_ns", "p999_ns"}};
  const std::span<const RawFile> files = lab.RawFiles(&experiment);
  if (files.empty()) return {experiment};
  RawLoad load;
  load.files = files;
  load.backend = EngineRawBackend(files.front());
  load.seconds = lab.seconds();
  for (const uint32_t depth : lab.Powers(1, kMaxInFlight)) {
    load.depth = depth;
    load.batch = std::clamp(depth / 4, 1u, kMaxPageBatch);
    lab.MeasureRaw(&experiment,
                   {{"in_flight", depth}, {"backend", load.backend.name}, {"batch", load.batch}},
                   load);
  }
  return {experiment};
}

}  // namespace harness
