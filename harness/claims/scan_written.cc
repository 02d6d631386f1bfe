#include "harness/claims/scan_written.h"

#include <filesystem>
#include <system_error>

#include "engine_race/base/key.h"
#include "harness/load/store_runs.h"
#include "harness/measure/progress.h"
#include "harness/race/open_store.h"
#include "harness/race/range_run.h"
#include "harness/system/process_stats.h"

namespace harness {

using engine_race::Status;

namespace {

// One in this many records is overwritten; their order is not that of keys.
constexpr uint64_t kOverwriteStep = 10;

RaceConfig In(RaceConfig race, const char* name) {
  race.dir += name;
  return race;
}

}  // namespace

ScanWritten::ScanWritten(const RaceConfig& race)
    : keys_(race.keys, race.record_count(), race.seed),
      values_(race.seed),
      summary_(keys_.Summarize()) {
  untouched_.race = In(race, "/untouched");
  overwritten_.race = In(race, "/overwritten");
}

ScanWritten::~ScanWritten() {
  for (Part* part : {&untouched_, &overwritten_}) {
    part->store.reset();
    std::error_code ignored;
    std::filesystem::remove_all(part->race.dir, ignored);
  }
}

bool ScanWritten::Prepare() {
  if (!OpenWithIndex(&untouched_) || !OpenWithIndex(&overwritten_)) return false;
  OverwriteTenth(overwritten_.store.get());
  return !failures_.any();
}

bool ScanWritten::OpenWithIndex(Part* part) {
  const PhaseResult written = RunPhase(Phase::kWrite, part->race);
  if (!written.ok) {
    failures_.Note(written.error);
    return false;
  }
  part->store = OpenStore(part->race, &failures_);
  if (part->store == nullptr) return false;
  std::string value;
  const Status status = part->store->Read(KeyBytesOf(keys_.KeyAt(0)), &value);
  if (!status.ok()) failures_.Note("read: " + status.ToString());
  return status.ok();
}

// Overwrites with the old values, so that ranges over both stores find the same data.
void ScanWritten::OverwriteTenth(engine_race::Store* store) {
  const RaceConfig& race = overwritten_.race;
  const uint64_t stride = uint64_t{race.thread_count} * kOverwriteStep;
  RunWorkers(race.thread_count, &failures_, [&](uint32_t thread) {
    std::string value(kValueSize, '\0');
    for (uint64_t i = uint64_t{thread} * kOverwriteStep; i < race.record_count(); i += stride) {
      values_.Fill(keys_.KeyAt(i), i, value.data());
      const Status status = store->Write(KeyBytesOf(keys_.KeyAt(i)), value);
      if (!status.ok()) return failures_.Note("overwrite: " + status.ToString());
    }
  });
}

bool ScanWritten::Range(bool overwritten, RangeRate* rate) {
  const Part& part = overwritten ? overwritten_ : untouched_;
  const uint32_t thread_count = part.race.thread_count;
  Progress progress("ranges", summary_.distinct_count * thread_count * kRangePasses, kValueSize,
                    thread_count);
  RangeRun run(keys_, values_, summary_, part.store.get(), &failures_, &progress, thread_count,
               /*checks_values=*/true);
  const double began_cpu_s = CpuSeconds();
  double seconds = 0;
  run.Run(NowNs(), [&](uint32_t, double pass_seconds) { seconds += pass_seconds; });
  const double records = static_cast<double>(summary_.distinct_count) * kRangePasses;
  rate->records_per_second = records / seconds;
  rate->cpu_ns = (CpuSeconds() - began_cpu_s) * 1e9 / records / thread_count;
  return !failures_.any();
}

}  // namespace harness
