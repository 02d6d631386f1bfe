#include "harness/experiments/l1/engine.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "engine_race/base/key.h"
#include "engine_race/base/memory.h"
#include "harness/data/mix.h"
#include "harness/load/store_basics.h"
#include "harness/system/process_stats.h"

namespace engine_race::harness {

namespace {

constexpr char kWithDir[] = "/with-frames";
constexpr char kWithoutDir[] = "/without-frames";
// Figures of sides.
constexpr char kUniformWith[] = "uniform Read, CPU with frames, ns";
constexpr char kUniformWithout[] = "uniform Read, CPU without, ns";
constexpr char kHotNs[] = "hot Read, ns";
constexpr char kCopyNs[] = "memcpy of 4 KiB, ns";
constexpr char kFirstEpoch[] = "first epoch, rows a second";
constexpr char kNextEpoch[] = "second epoch, rows a second";
constexpr uint32_t kWriters = 16;
// Values of the uniform part for each frame.
constexpr uint64_t kValuesPerFrame = 64;
// Warming ends when a step raises the hit rate by less than this.
constexpr double kWarmEnough = 0.002;
constexpr uint32_t kLeastWarmingSteps = 4;
// The most passes over the hot values, until all of them have frames.
constexpr uint32_t kMaxHotPasses = 100;
// Probes between two scans, in which the hit rate recovers.
constexpr uint64_t kProbesBetweenScans = 4;

// Few buckets, so that few values are staged: staged values are in memory with or without frames.
Options FewStagedOptions(uint64_t hot_value_bytes) {
  Options options = QuietOptions();
  options.file_count = 4;
  options.bucket_count = 16;
  options.value_group_bytes = kMinGroupBytes;
  options.hot_value_bytes = hot_value_bytes;
  return options;
}

uint64_t UniformFrameBytes(const L1EngineShape& shape) {
  return shape.uniform_record_count * kValueBytes / kValuesPerFrame;
}

// Includes the memory that describes the frames.
uint64_t HotFrameBytes(const L1EngineShape& shape) {
  return shape.hot_record_count * kValueBytes * 5 / 4 + (uint64_t{16} << 20);
}

std::vector<uint32_t> RandomOrder(uint64_t count, uint64_t seed) {
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  for (uint64_t i = count; i > 1; --i) {
    std::swap(order[i - 1], order[AsBelow(MixAt(seed, i), i)]);
  }
  return order;
}

// Whether at least 99 of 100 reads found their values in frames.
bool IsHot(const FrameCounts& frames, uint64_t read_count) {
  return frames.miss_count * 100 <= read_count && frames.hit_count * 100 >= read_count * 99;
}

double NsEach(uint64_t start_ns, size_t count) {
  return SecondsSince(start_ns) * 1e9 / static_cast<double>(count);
}

}  // namespace

uint64_t L1EngineDiskBytes(const L1EngineShape& shape) {
  return std::max(2 * StoreBytes(shape.record_count), StoreBytes(shape.epoch_record_count));
}

uint64_t L1EngineTmpfsBytes(const L1EngineShape& shape) {
  return 2 * StoreBytes(std::max(shape.uniform_record_count, shape.hot_record_count));
}

uint64_t L1EngineMemoryBytes(const L1EngineShape& shape) {
  return 2 * shape.memory_budget_bytes + L1EngineTmpfsBytes(shape);
}

Options L1Engine::DiskOptions(bool has_frames) const {
  Options options = QuietOptions();
  options.memory_budget_bytes = shape_.memory_budget_bytes;
  options.bucket_count = shape_.bucket_count;
  options.file_count = std::min(options.file_count, options.bucket_count);
  options.hot_value_bytes = has_frames ? kAutoBytes : 0;
  return options;
}

Status L1Engine::Make(const StoreShape& shape, const Options& options, Side* side) {
  side->reads = std::make_unique<StoreRuns>(shape);
  ENGINE_RACE_RETURN_IF_ERROR(side->reads->Fill(options, kWriters));
  return side->reads->Open(options);
}

Status L1Engine::Run(const RecordDraw& draw, const ReadShape& shape, Side* side, TimedPoint* point,
                     FrameCounts* frames) {
  return side->reads->ReadDrawn(draw, shape, shape_.seed + ++side->run_count, point, frames);
}

// Warms by MultiRead, which is the fastest way.
Status L1Engine::Warm(const RecordDraw& draw) {
  const ReadShape shape{shape_.batch_thread_count, shape_.keys_per_call, 0,
                        shape_.warming_read_count};
  double last_rate = 0;
  nlohmann::json rates;
  for (uint32_t step = 0; step < shape_.warming_step_count; ++step) {
    TimedPoint run;
    FrameCounts frames;
    ENGINE_RACE_RETURN_IF_ERROR(Run(draw, shape, &with_, &run, &frames));
    rates.push_back(frames.hit_rate());
    const bool is_warm = frames.hit_rate() - last_rate < kWarmEnough;
    last_rate = frames.hit_rate();
    if (is_warm && step + 1 >= kLeastWarmingSteps) break;
  }
  const StoreStats stats = with_.reads->store()->Stats();
  about_["zipf"] = {{"hit_rates_while_warming", rates},
                    {"frame_memory_bytes", stats.frame_memory_bytes},
                    {"frame_limit_bytes", stats.frame_limit_bytes},
                    {"index_memory_bytes", stats.index_memory_bytes},
                    {"log_memory_bytes", stats.log_memory_bytes},
                    {"task_memory_bytes", stats.task_memory_bytes}};
  return Status::Ok();
}

Turn L1Engine::ZipfTurn(const RecordDraw& draw, const ReadShape& shape, const std::string& name,
                        Side* side) {
  return [=, this, &draw] {
    TimedPoint run;
    FrameCounts frames;
    ENGINE_RACE_RETURN_IF_ERROR(Run(draw, shape, side, &run, &frames));
    rounds_.Note(name + ", " + side->what + ", reads a second", run.RequestsPerSecond());
    if (side == &with_) rounds_.Note(name + ", hit rate", frames.hit_rate());
    return Status::Ok();
  };
}

Status L1Engine::CompareZipf() {
  const StoreShape with{shape_.dir + kWithDir, "", shape_.record_count, shape_.seed};
  const StoreShape without{shape_.dir + kWithoutDir, "", shape_.record_count, shape_.seed};
  ENGINE_RACE_RETURN_IF_ERROR(Make(with, DiskOptions(true), &with_));
  ENGINE_RACE_RETURN_IF_ERROR(Make(without, DiskOptions(false), &without_));
  const RecordDraw draw(DrawShape::kZipfian, shape_.record_count);
  ENGINE_RACE_RETURN_IF_ERROR(Warm(draw));
  // The two sides of each way to read follow each other.
  std::vector<Turn> turns;
  std::vector<RoundRatio> ratios;
  const auto compare = [&](const char* call, const ReadShape& shape, const std::string& claim) {
    const std::string name = std::string("zipfian ") + call;
    for (Side* side : {&with_, &without_}) turns.push_back(ZipfTurn(draw, shape, name, side));
    ratios.push_back(
        {claim, name + ", with frames, reads a second", name + ", without, reads a second"});
  };
  compare("Read", {shape_.thread_count, 0, shape_.seconds, 0}, kZipfGain);
  compare("MultiRead", {shape_.batch_thread_count, shape_.keys_per_call, shape_.seconds, 0},
          std::string(kZipfGain) + ", MultiRead");
  const Status status = rounds_.Run({shape_.round_count}, turns, ratios);
  without_.reads.reset();
  return status;
}

Status L1Engine::Probe(const RecordDraw& draw, double* hit_rate) {
  const ReadShape shape{shape_.batch_thread_count, shape_.keys_per_call, 0,
                        shape_.probe_read_count};
  TimedPoint run;
  FrameCounts frames;
  ENGINE_RACE_RETURN_IF_ERROR(Run(draw, shape, &with_, &run, &frames));
  *hit_rate = frames.hit_rate();
  return Status::Ok();
}

Status L1Engine::ScanTurn(const RecordDraw& draw, bool by_range) {
  double before = 0;
  double after = 0;
  TimedPoint ranged;
  for (uint64_t i = 0; i < kProbesBetweenScans; ++i) {
    ENGINE_RACE_RETURN_IF_ERROR(Probe(draw, &before));
  }
  ENGINE_RACE_RETURN_IF_ERROR(
      by_range ? with_.reads->RangeOnce(1, &ranged)
               : with_.reads->ReadEachOnce(shape_.batch_thread_count, shape_.keys_per_call));
  ENGINE_RACE_RETURN_IF_ERROR(Probe(draw, &after));
  rounds_.Note("hit rate before a scan", before);
  rounds_.Note(by_range ? "hit rate after a Range" : "hit rate after a MultiRead of all", after);
  // Without hits before the scan the share is 0.
  rounds_.Note(by_range ? kHitRate : std::string(kHitRate) + ", MultiRead of all",
               before > 0 ? after / before : 0);
  return Status::Ok();
}

Status L1Engine::ScanOnce() {
  if (with_.reads == nullptr) return Status::InvalidArgument("the store is not warm");
  const RecordDraw draw(DrawShape::kZipfian, shape_.record_count);
  return rounds_.Run({shape_.round_count}, {[&] { return ScanTurn(draw, /*by_range=*/true); },
                                            [&] { return ScanTurn(draw, /*by_range=*/false); }});
}

Status L1Engine::UniformTurn(const RecordDraw& draw, Side* side) {
  TimedPoint run;
  FrameCounts frames;
  ENGINE_RACE_RETURN_IF_ERROR(
      Run(draw, {shape_.uniform_thread_count, 0, shape_.seconds, 0}, side, &run, &frames));
  rounds_.Note(side == &with_ ? kUniformWith : kUniformWithout, run.CpuNsPerRequest());
  if (side == &without_) return Status::Ok();
  rounds_.Note("uniform Read, hit rate", frames.hit_rate());
  rounds_.Note("uniform Read, admissions for each miss",
               frames.miss_count > 0 ? static_cast<double>(frames.admission_count) /
                                           static_cast<double>(frames.miss_count)
                                     : 0);
  return Status::Ok();
}

Status L1Engine::CompareUniform() {
  const uint64_t frame_bytes = UniformFrameBytes(shape_);
  const StoreShape with{shape_.tmpfs_dir + kWithDir, "", shape_.uniform_record_count, shape_.seed};
  const StoreShape without{shape_.tmpfs_dir + kWithoutDir, "", shape_.uniform_record_count,
                           shape_.seed};
  ENGINE_RACE_RETURN_IF_ERROR(Make(with, FewStagedOptions(frame_bytes), &with_));
  ENGINE_RACE_RETURN_IF_ERROR(Make(without, FewStagedOptions(0), &without_));
  const RecordDraw draw(DrawShape::kUniform, shape_.uniform_record_count);
  // The first two rounds fill the frames and the processor's caches.
  ENGINE_RACE_RETURN_IF_ERROR(
      Run(draw, {shape_.uniform_thread_count, 0, shape_.seconds, 0}, &with_, nullptr, nullptr));
  ENGINE_RACE_RETURN_IF_ERROR(rounds_.Run(
      {.count = shape_.round_count, .warms_up = true},
      {[&] { return UniformTurn(draw, &with_); }, [&] { return UniformTurn(draw, &without_); }},
      {{kUniformCost, kUniformWith, kUniformWithout, RatioForm::kGrowth}}));
  const StoreStats stats = with_.reads->store()->Stats();
  about_["uniform"] = {{"hot_value_bytes", frame_bytes},
                       {"frame_memory_bytes", stats.frame_memory_bytes},
                       {"frame_limit_bytes", stats.frame_limit_bytes}};
  with_.reads.reset();
  without_.reads.reset();
  return Status::Ok();
}

// Reads until a pass over all values admits none. The last values of each bucket are still staged
// then: they are in memory without a frame, and count as missed.
Status L1Engine::WarmHot(StoreRuns* reads, uint64_t* pass_count) {
  for (*pass_count = 1; *pass_count <= kMaxHotPasses; ++*pass_count) {
    const StoreStats before = reads->store()->Stats();
    ENGINE_RACE_RETURN_IF_ERROR(reads->ReadEachOnce(1, shape_.keys_per_call));
    const FrameCounts frames = FramesBetween(before, reads->store()->Stats());
    if (frames.admission_count == 0 && IsHot(frames, shape_.hot_record_count)) return Status::Ok();
  }
  return Status::IOError("not everything that is read again and again comes into memory");
}

Status L1Engine::CompareHot() {
  const uint64_t count = shape_.hot_record_count;
  const StoreShape hot{shape_.tmpfs_dir + kWithDir, "", count, shape_.seed};
  ENGINE_RACE_RETURN_IF_ERROR(Make(hot, FewStagedOptions(HotFrameBytes(shape_)), &with_));
  uint64_t pass_count = 0;
  ENGINE_RACE_RETURN_IF_ERROR(WarmHot(with_.reads.get(), &pass_count));
  about_["hot"] = {{"values", count}, {"warming_passes", pass_count}};

  Region bare;
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(count * kValueBytes, /*huge_pages=*/true, &bare));
  std::memset(bare.data(), 1, bare.size());
  const std::vector<uint32_t> order = RandomOrder(count, shape_.seed);
  std::vector<char> keys(count * kKeyBytes);
  for (uint64_t i = 0; i < count; ++i) {
    EncodeKey(with_.reads->KeyAt(order[i]), keys.data() + i * kKeyBytes);
  }
  std::string value(kValueBytes, '\0');
  std::vector<char> buffer(kValueBytes);
  const auto read_all = [&] {
    const uint64_t start_ns = NowNs();
    for (uint64_t i = 0; i < count; ++i) {
      ENGINE_RACE_RETURN_IF_ERROR(
          with_.reads->store()->Read({keys.data() + i * kKeyBytes, kKeyBytes}, &value));
    }
    rounds_.Note(kHotNs, NsEach(start_ns, count));
    return Status::Ok();
  };
  const auto copy_all = [&] {
    const uint64_t start_ns = NowNs();
    for (const uint32_t at : order) {
      std::memcpy(buffer.data(), bare.data() + uint64_t{at} * kValueBytes, kValueBytes);
      asm volatile("" : : "r"(buffer.data()) : "memory");
    }
    rounds_.Note(kCopyNs, NsEach(start_ns, count));
    return Status::Ok();
  };
  const StoreStats before = with_.reads->store()->Stats();
  ENGINE_RACE_RETURN_IF_ERROR(
      rounds_.Run({shape_.round_count}, {copy_all, read_all}, {{kHotRead, kHotNs, kCopyNs}}));
  const FrameCounts frames = FramesBetween(before, with_.reads->store()->Stats());
  if (!IsHot(frames, count * shape_.round_count)) {
    return Status::IOError("what was hot did not stay in memory");
  }
  with_.reads.reset();
  return Status::Ok();
}

Status L1Engine::EpochsTurn(const StoreShape& shape, const Options& options) {
  ENGINE_RACE_RETURN_IF_ERROR(with_.reads->Open(options));
  const StoreStats before = with_.reads->store()->Stats();
  for (const char* figure : {kFirstEpoch, kNextEpoch}) {
    const uint64_t start_ns = NowNs();
    ENGINE_RACE_RETURN_IF_ERROR(with_.reads->ReadEachOnce(1, shape_.keys_per_call));
    rounds_.Note(figure, static_cast<double>(shape.record_count) / SecondsSince(start_ns));
  }
  const FrameCounts frames = FramesBetween(before, with_.reads->store()->Stats());
  rounds_.Note("epochs, hits for each record",
               static_cast<double>(frames.hit_count) / static_cast<double>(shape.record_count));
  return Status::Ok();
}

Status L1Engine::CompareEpochs() {
  const StoreShape shape{shape_.dir + kWithDir, "", shape_.epoch_record_count, shape_.seed};
  const Options options = FewStagedOptions(kAutoBytes);
  ENGINE_RACE_RETURN_IF_ERROR(Make(shape, options, &with_));
  const Status status =
      rounds_.Run({shape_.round_count}, {[&] { return EpochsTurn(shape, options); }},
                  {{kSecondEpoch, kNextEpoch, kFirstEpoch}});
  with_.reads.reset();
  return status;
}

}  // namespace engine_race::harness
