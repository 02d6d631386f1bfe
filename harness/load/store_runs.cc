#include "harness/load/store_runs.h"

#include <filesystem>
#include <string_view>

#include "engine_race/base/key.h"
#include "harness/data/mix.h"
#include "harness/system/disk.h"
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

FrameCounts FramesBetween(const StoreStats& before, const StoreStats& after) {
  return {after.frame_hit_count - before.frame_hit_count,
          after.frame_miss_count - before.frame_miss_count,
          after.frame_admission_count - before.frame_admission_count};
}

void StoreRuns::Remove(const Options& options) {
  Close();
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

Status StoreRuns::OpenCold(const Options& options) {
  if (!shape_.cache_dir.empty()) DropPageCache(shape_.cache_dir);
  return Open(options);
}

// The warm-up touches the memory of buffers, sketch and frames, as fio does before its clock
// starts. Each run draws other keys.
TimedPoint StoreRuns::WarmReads(const Options& options, ReadShape shape, FrameCounts* frames) {
  Status status = OpenCold(options);
  const RecordDraw draw(DrawShape::kUniform, shape_.record_count);
  const double seconds = shape.seconds;
  uint64_t stream = shape_.seed;
  TimedPoint run;
  for (const double share : {kWarmUpShare, 1.0}) {
    shape.seconds = seconds * share;
    if (status.ok()) status = ReadDrawn(draw, shape, stream++, &run, frames);
  }
  Close();
  return Ended("read: ", status, run);
}

std::vector<TimedPoint> StoreRuns::Ranges(const Options& options, uint32_t thread_count,
                                          uint32_t pass_count) {
  std::vector<TimedPoint> passes(pass_count);
  Status status = OpenCold(options);
  for (TimedPoint& pass : passes) {
    if (status.ok()) status = RangeOnce(thread_count, &pass);
    pass = Ended("range: ", status, pass);
  }
  Close();
  return passes;
}

Status StoreRuns::Open(const Options& options) {
  Close();
  return OpenWithIndex(options, shape_.dir, &store_);
}

Status StoreRuns::ReadDrawn(const RecordDraw& draw, const ReadShape& shape, uint64_t seed,
                            TimedPoint* point, FrameCounts* frames) {
  const StoreStats before = store_->Stats();
  const double seconds = shape.read_count > 0 ? kNoLimitSeconds : shape.seconds;
  const auto get = [this](uint64_t key, std::string* value) {
    return store_->Read(KeyBytes(key).view(), value);
  };
  const Status status = RunTimed(
      shape.thread_count, seconds,
      [&](uint32_t thread, TimedThread* self) {
        const uint64_t stream = MixAt(seed, thread);
        const auto key_at = [&](uint64_t i) { return KeyAt(draw.IndexFrom(MixAt(stream, i))); };
        const uint64_t share = (shape.read_count + thread) / shape.thread_count;
        const auto more = [&](uint64_t i) {
          if (shape.read_count > 0 && i >= share) return false;
          return i % kReadsPerClockLook != 0 || self->Running();
        };
        self->Start();
        uint64_t* const count = &self->tally.request_count;
        return shape.keys_per_call == 0
                   ? ReadOneByOne(get, values_, key_at, more, count)
                   : ReadMany(store_.get(), values_, shape.keys_per_call, key_at, more, count);
      },
      point);
  if (point != nullptr) point->byte_count = point->request_count * values_.value_bytes();
  if (frames != nullptr) *frames = FramesBetween(before, store_->Stats());
  return status;
}

Status StoreRuns::ReadEachOnce(uint32_t thread_count, uint32_t keys_per_call) {
  return RunTimed(thread_count, kNoLimitSeconds, [&](uint32_t thread, TimedThread* self) {
    const uint64_t begin = keys_.record_count() * thread / thread_count;
    const uint64_t count = keys_.record_count() * (thread + 1) / thread_count - begin;
    self->Start();
    return ReadMany(
        store_.get(), values_, keys_per_call, [&](uint64_t i) { return KeyAt(begin + i); },
        [&](uint64_t i) { return i < count && self->Running(); }, &self->tally.request_count);
  });
}

Status StoreRuns::RangeOnce(uint32_t thread_count, TimedPoint* point) {
  const Status status = RunTimed(
      thread_count, kNoLimitSeconds,
      [&](uint32_t, TimedThread* self) {
        uint64_t count = 0;
        self->Start();
        ENGINE_RACE_RETURN_IF_ERROR(
            store_->Range("", "", [&count](std::string_view, std::string_view) { ++count; }));
        return count == keys_.record_count()
                   ? Status::Ok()
                   : Status::Corruption("a range saw " + std::to_string(count) + " records");
      },
      point);
  point->request_count = keys_.record_count();
  point->byte_count = point->request_count * values_.value_bytes();
  return status;
}

}  // namespace engine_race::harness
