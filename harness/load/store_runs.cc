#include "harness/load/store_runs.h"

#include <filesystem>

#include "harness/system/page_cache.h"
#include "harness/system/process_stats.h"

namespace engine_race::harness {

namespace {

// The time of a warm-up over the measured time.
constexpr double kWarmUpShare = 0.5;

// Wall and CPU time since its construction.
class Watch {
 public:
  double seconds() const { return SecondsSince(began_ns_); }
  double cpu_seconds() const { return CpuSeconds() - began_cpu_s_; }

 private:
  const uint64_t began_ns_ = NowNs();
  const double began_cpu_s_ = CpuSeconds();
};

}  // namespace

void StoreRuns::Remove(const Options& options) {
  std::filesystem::remove_all(shape_.dir);
  for (const std::string& path : options.paths) std::filesystem::remove_all(path);
}

TimedPoint StoreRuns::Ended(const char* what, const Status& status, const TimedPoint& run) {
  if (status.ok()) return run;
  if (failure_.empty()) failure_ = what + status.ToString();
  return {};
}

TimedPoint StoreRuns::Write(const Options& options, uint32_t thread_count, double* close_seconds) {
  Remove(options);
  if (!shape_.cache_dir.empty()) DropPageCache(shape_.cache_dir);
  const Watch watch;
  std::unique_ptr<Store> store;
  Status status = Store::Open(options, shape_.dir, &store);
  TimedPoint run;
  if (status.ok()) {
    status = WriteRecords(PutInto(store.get()), keys_, values_, thread_count, &run);
  }
  const Watch closing;
  store.reset();
  if (close_seconds != nullptr) *close_seconds = closing.seconds();
  run.seconds = watch.seconds();
  run.cpu_seconds = watch.cpu_seconds();
  return Ended("write: ", status, run);
}

Status StoreRuns::OpenToRead(const Options& options, std::unique_ptr<DrawnReads>* reads) const {
  if (!shape_.cache_dir.empty()) DropPageCache(shape_.cache_dir);
  return DrawnReads::Open(shape_, options, reads);
}

// The warm-up touches the memory of buffers, sketch and frames, as fio does before its clock
// starts. Each run draws other keys.
TimedPoint StoreRuns::WarmReads(const Options& options, ReadShape shape, FrameCounts* frames) {
  std::unique_ptr<DrawnReads> reads;
  Status status = OpenToRead(options, &reads);
  const RecordDraw draw(DrawShape::kUniform, shape_.record_count);
  const double seconds = shape.seconds;
  uint64_t stream = shape_.seed;
  TimedPoint run;
  for (const double share : {kWarmUpShare, 1.0}) {
    shape.seconds = seconds * share;
    if (status.ok()) status = reads->Run(draw, shape, stream++, &run, frames);
  }
  return Ended("read: ", status, run);
}

std::vector<TimedPoint> StoreRuns::Ranges(const Options& options, uint32_t thread_count,
                                          uint32_t pass_count) {
  std::vector<TimedPoint> passes(pass_count);
  std::unique_ptr<DrawnReads> reads;
  Status status = OpenToRead(options, &reads);
  for (TimedPoint& pass : passes) {
    if (status.ok()) status = reads->RangeOnce(thread_count, &pass);
    pass = Ended("range: ", status, pass);
  }
  return passes;
}

}  // namespace engine_race::harness
