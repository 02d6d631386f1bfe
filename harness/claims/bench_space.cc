// The measured claims about space: what a store that is overwritten takes and writes, how fast it
// is then, and what reclaim costs. docs/space.md explains them.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>

#include "engine_race/store.h"
#include "harness/claims/bench.h"
#include "harness/claims/benches.h"
#include "harness/claims/space_loads.h"
#include "harness/claims/space_promises.h"
#include "harness/data/mix.h"
#include "harness/kv/kv_store.h"
#include "harness/load/store_runs.h"
#include "harness/opponents/peers.h"
#include "harness/system/disk.h"

namespace engine_race::harness {
namespace {

constexpr char kFillRate[] = "overwrite turns, fill of a new store, MB/s";
// The most that each side of the comparison with RocksDB may take over its live bytes.
constexpr double kSpaceBound = 1.5;
// The longest time in which a store comes to its steady state before its turns.
constexpr double kPreconditionSeconds = 600;
constexpr uint64_t kTurnStream = 0x7475726e;
constexpr uint64_t kReadsStream = 0x7061636564;
constexpr uint64_t kPreconditionStream = 0x70726563;

// A store of a comparison.
struct Side {
  std::string name;  // begins its figures
  KvStoreKind kind;
  KvOptions options;
  uint64_t turn_count = 0;  // selects the records that are drawn
};

// This program is linked with no other peer, if with that.
std::vector<KvStoreKind> RocksKind() { return Peers(); }

// Runs `work` between opening and closing. A failure of `work` counts more than one of closing.
template <typename Work>
Status WithStore(const Side& side, const Work& work) {
  std::unique_ptr<KvStore> store;
  ENGINE_RACE_RETURN_IF_ERROR(side.kind.open(side.options, &store));
  const Status worked = work(store.get());
  const Status closed = store->Close();
  return worked.ok() ? closed : worked;
}

class SpaceBench final : public SpacePromises {
  std::vector<BenchPart> Parts() override {
    // By how much a store without reclaim grows in the turns of reads.
    const double grown_records = write_rate_ * (seconds_ + ramp_seconds_) * round_count_;
    const uint64_t grown_bytes =
        static_cast<uint64_t>(grown_records) * (kValueSize + kKeyEntryBytes);
    std::vector<BenchPart> parts = {
        {"overwrite",
         {{"overwrite_space_amplification", "<= 1.25"},
          {"overwrite_write_amplification", "<= 2.5"},
          {"overwrite_vs_fresh", ">= 0.33", "", "overwrite turns, overwriting, MB/s", kFillRate}},
         By(&SpaceBench::MeasureOverwrites),
         // In the turns a second store, which is only filled, lies beside the first one.
         most_store_bytes() + data_bytes_},
        {"zipf",
         {{"zipf_space_amplification", "<= 1.25"}, {"zipf_write_amplification", "<= 1.6"}},
         By(&SpaceBench::MeasureZipf),
         most_store_bytes()},
        {"shapes",
         {{"deleted_space_idle", "<= 1.5"},
          {"deleted_space_compacted", "<= 1.1"},
          {"small_bucket_space", "<= 1.5"},
          {"one_bucket_space", "<= 1.5"},
          {"fifo_space", "<= 1.5"},
          {"apparent_over_used", "<= 1.1"}},
         By(&SpaceBench::MeasureShapes),
         most_store_bytes()},
        {"read",
         {{"read_p99_under_reclaim", "<= 1.4", "", "with reclaim, read p99, us",
           "without reclaim, read p99, us"}},
         By(&SpaceBench::MeasureReads),
         most_store_bytes() + data_bytes_ + grown_bytes},
        {"cost",
         {{"no_overwrite_cost", "<= 0.02", "", "fill with reclaim, CPU ns a write",
           "fill without reclaim, CPU ns a write", RatioForm::kGrowth}},
         By(&SpaceBench::MeasureCost),
         kTmpfs},
        {"rocksdb",
         {{"vs_rocksdb_overwrite", ">= 3", "", "engine, overwriting, MB/s",
           "RocksDB, overwriting, MB/s"}},
         By(&SpaceBench::MeasureRocks),
         {2 * most_store_bytes(), false, RocksKind().empty() ? kNoRocks : ""}}};
    std::ranges::move(PromiseParts(), std::back_inserter(parts));
    return parts;
  }

  uint64_t TmpfsBytes() override { return StoreBytes(cost_bytes_ / kValueSize); }

  // A store that is overwritten: its disk space, the bytes that it writes, and its rate.
  Status MeasureOverwrites() {
    Side overwritten = EngineSide("overwrite turns", Reclaim::kBackground);
    const Side fresh = EngineSide("fresh", Reclaim::kBackground);
    ENGINE_RACE_RETURN_IF_ERROR(
        FillAndOverwrite("overwrite", DrawShape::kUniform, overwritten.options.dir));
    const auto fill = [&] {
      const Status filled = FillNew(fresh, kFillRate);
      std::filesystem::remove_all(fresh.options.dir);
      // The next turn does not pay for it.
      SyncFileSystem(dir());
      return filled;
    };
    return rounds_.Run({round_count_}, {[&] { return OverwriteTurn(&overwritten); }, fill});
  }

  Status MeasureZipf() { return FillAndOverwrite("zipf", DrawShape::kZipfian, dir() + "/zipf"); }

  Status MeasureShapes() {
    return MeasureSpaceShapes({dir() + "/shape", OptionsOf(Reclaim::kBackground), record_count(),
                               thread_count_, pass_count_, idle_seconds_, seed_},
                              &rounds_);
  }

  // The latencies of reads beside writers, with and without reclaim.
  Status MeasureReads() {
    Side with = EngineSide("with reclaim", Reclaim::kBackground);
    Side without = EngineSide("without reclaim", Reclaim::kOff);
    for (const Side* side : {&with, &without}) {
      ENGINE_RACE_RETURN_IF_ERROR(FillNew(*side, side->name + ", fill before, MB/s"));
    }
    // Reclaim then has as much to do as in the long run.
    ENGINE_RACE_RETURN_IF_ERROR(Precondition(with));
    return rounds_.Run({round_count_}, {[&] { return ReadTurn(&with, Reclaim::kBackground); },
                                        [&] { return ReadTurn(&without, Reclaim::kOff); }});
  }

  // Reclaim for a store that is never overwritten.
  Status MeasureCost() {
    const std::string with = "fill with reclaim, CPU ns a write";
    const std::string without = "fill without reclaim, CPU ns a write";
    StoreRuns runs({tmpfs_dir() + "/cost", "", cost_bytes_ / kValueSize, seed_});
    const auto fill = [&](Reclaim reclaim, const std::string& figure) {
      rounds_.Note(figure, runs.Write(OptionsOf(reclaim), cost_thread_count_).CpuNsPerRequest());
      return runs.status();
    };
    return rounds_.Run({cost_round_count_}, {[&] { return fill(Reclaim::kBackground, with); },
                                             [&] { return fill(Reclaim::kOff, without); }});
  }

  // Both in their steady states.
  Status MeasureRocks() {
    const KvOptions options = {.dir = {},
                               .memory_budget_bytes = memory_budget_bytes_,
                               .thread_count = thread_count_,
                               .record_count = record_count(),
                               .gives_back_space = true};
    Side sides[] = {{"engine", EngineStoreKind(OptionsOf(Reclaim::kBackground)), options},
                    {"RocksDB", RocksKind().front(), options}};
    std::vector<Turn> turns;
    for (Side& side : sides) {
      side.options.dir = dir() + "/" + side.name;
      ENGINE_RACE_RETURN_IF_ERROR(FillNew(side, side.name + ", fill, MB/s"));
      ENGINE_RACE_RETURN_IF_ERROR(Precondition(side));
      turns.emplace_back([&] { return OverwriteTurn(&side); });
    }
    ENGINE_RACE_RETURN_IF_ERROR(rounds_.Run({round_count_}, turns));
    // By the medians of the ends of their turns.
    nlohmann::json& about = notes_["vs_rocksdb_overwrite"];
    about["space_bound"] = kSpaceBound;
    for (const Side& side : sides) {
      const double taken = rounds_.Median(side.name + ", space amplification");
      about[side.name] = {{"space_amplification", taken}, {"within_bound", taken <= kSpaceBound}};
      if (taken <= kSpaceBound) continue;
      std::fprintf(stderr, "%s does not hold the space bound: %.2f\n", side.name.c_str(), taken);
    }
    return WithStore(sides[1], [&](KvStore* store) {
      about["RocksDB"]["settings"] = store->Describe();
      return Status::Ok();
    });
  }

  SpaceRecords Records() const { return {record_count(), seed_}; }
  uint64_t record_count() const { return data_bytes_ / kValueSize; }
  uint64_t most_store_bytes() const { return MostStoreBytes(data_bytes_); }

  Side EngineSide(const std::string& name, Reclaim reclaim) const {
    return {name, EngineStoreKind(OptionsOf(reclaim)), {.dir = dir() + "/" + name}};
  }

  WatchShape ShapeOf(double seconds, const std::string& label = "") const {
    return {seconds, ~uint64_t{0}, sample_seconds_, most_store_bytes(), record_count(), label};
  }

  // Fills a store and overwrites it in one go, with background reclaim. Notes what that took and
  // wrote; the figures' names begin with `name`.
  Status FillAndOverwrite(const std::string& name, DrawShape draw, const std::string& dir) {
    const SpaceRecords records = Records();
    std::unique_ptr<Store> store;
    ENGINE_RACE_RETURN_IF_ERROR(Store::Open(OptionsOf(Reclaim::kBackground), dir, &store));
    TimedPoint filled;
    ENGINE_RACE_RETURN_IF_ERROR(WriteRecords(PutInto(store.get()), records.keys(), records.values(),
                                             thread_count_, &filled));
    rounds_.Note(name + ", fill before, MB/s", Megabytes(filled.RequestsPerSecond()));
    WatchShape shape = ShapeOf(kNoLimitSeconds, name);
    shape.write_count = records.count() * pass_count_;
    SpaceSamples samples;
    const Status overwritten = OverwriteAndWatch(
        {PutInto(store.get()), dir, store.get()}, records,
        {.thread_count = thread_count_, .draw = draw, .seed = seed_}, {shape}, &samples);
    notes_[name]["samples"] = samples;
    ENGINE_RACE_RETURN_IF_ERROR(overwritten);
    NoteRun(name, samples);
    return Status::Ok();
  }

  void NoteRun(const std::string& name, const SpaceSamples& samples) {
    const SpaceSample& first = samples.front();
    const SpaceSample& half = samples[SecondHalf(samples)];
    const SpaceSample& last = samples.back();
    const auto written = [&](const SpaceSample& begin, uint64_t SpaceSample::*bytes) {
      return Amplification(last.*bytes - begin.*bytes, last.write_count - begin.write_count);
    };
    const auto note = [&](const char* what, double value) { rounds_.Note(name + what, value); };
    note("_space_amplification", Amplification(PeakDiskBytes(samples), record_count()));
    note("_write_amplification", written(first, &SpaceSample::log_bytes));
    note(", write amplification of the second half", written(half, &SpaceSample::log_bytes));
    note(", moved by reclaim over written", written(first, &SpaceSample::moved_bytes));
    note(", written to the index over written", written(first, &SpaceSample::index_bytes));
    if (last.device_bytes > 0) {
      note(", write amplification by the device's count",
           written(first, &SpaceSample::device_bytes));
    }
    note(", MB/s", Megabytes(WriteRate(first, last)));
    note(", MB/s of the second half", Megabytes(WriteRate(half, last)));
  }

  // Opens a new store, fills it and closes it. Notes the rate without opening and closing.
  Status FillNew(const Side& side, const std::string& figure) {
    const SpaceRecords records = Records();
    TimedPoint filled;
    ENGINE_RACE_RETURN_IF_ERROR(WithStore(side, [&](KvStore* store) {
      return WriteRecords(PutInto(store), records.keys(), records.values(), thread_count_, &filled);
    }));
    rounds_.Note(figure, Megabytes(filled.RequestsPerSecond()));
    return Status::Ok();
  }

  // Opens a store, watches writers, and closes it. They stop before the store is closed.
  Status Overwrite(const Side& side, uint64_t seed, const std::vector<WatchShape>& shapes,
                   SpaceSamples* samples) {
    return WithStore(side, [&](KvStore* store) {
      return OverwriteAndWatch({PutInto(store), side.options.dir}, Records(),
                               {.thread_count = thread_count_, .seed = seed}, shapes, samples);
    });
  }

  // Brings a store to its steady state.
  Status Precondition(const Side& side) {
    WatchShape shape = ShapeOf(kPreconditionSeconds, side.name + ", before the turns");
    shape.write_count = record_count() * precondition_passes_;
    SpaceSamples unused;
    return Overwrite(side, seed_ ^ kPreconditionStream, {shape}, &unused);
  }

  // Lets the writers run up, and notes what their turn took and wrote.
  Status OverwriteTurn(Side* side) {
    SpaceSamples samples;
    ENGINE_RACE_RETURN_IF_ERROR(Overwrite(*side, MixAt(seed_ ^ kTurnStream, side->turn_count++),
                                          {ShapeOf(ramp_seconds_), ShapeOf(seconds_)}, &samples));
    const SpaceSample& first = samples.front();
    const SpaceSample& last = samples.back();
    const auto note = [&](const char* what, double value) {
      rounds_.Note(side->name + what, value);
    };
    note(", overwriting, MB/s", Megabytes(WriteRate(first, last)));
    note(", space amplification", Amplification(last.disk_bytes, record_count()));
    note(", most space amplification", Amplification(PeakDiskBytes(samples), record_count()));
    if (last.device_bytes > first.device_bytes) {
      note(", write amplification by the device's count",
           Amplification(last.device_bytes - first.device_bytes,
                         last.write_count - first.write_count));
    }
    return Status::Ok();
  }

  // Reads at the fixed rate beside writers at theirs. The reads run up too.
  Status ReadTurn(Side* side, Reclaim reclaim) {
    const SpaceRecords records = Records();
    const std::string& dir = side->options.dir;
    std::unique_ptr<Store> store;
    ENGINE_RACE_RETURN_IF_ERROR(Store::Open(OptionsOf(reclaim), dir, &store));
    const GetFn get = [&](uint64_t key, char* value) { return store->ReadInto(key, value); };
    const uint64_t seed = MixAt(seed_ ^ kReadsStream, side->turn_count++);
    Overwriters writers(records, {.thread_count = thread_count_, .rate = write_rate_, .seed = seed},
                        PutInto(store.get()));
    const SpaceProbe probe(dir, store.get(), writers);
    LatencyHistogram latency;
    ENGINE_RACE_RETURN_IF_ERROR(RunPacedReads(records,
                                              {read_rate_, ramp_seconds_, read_thread_count_, seed},
                                              get, SteadyClock(), &latency));
    const SpaceSample first = probe.Take();
    latency = {};
    ENGINE_RACE_RETURN_IF_ERROR(RunPacedReads(records,
                                              {read_rate_, seconds_, read_thread_count_, seed + 1},
                                              get, SteadyClock(), &latency));
    const SpaceSample last = probe.Take();
    const auto note = [&](const char* what, double value) {
      rounds_.Note(side->name + what, value);
    };
    const auto note_us = [&](const char* what, double fraction) {
      note(what, static_cast<double>(latency.PercentileNs(fraction)) * 1e-3);
    };
    note_us(", read p50, us", 0.5);
    note_us(", read p99, us", 0.99);
    note_us(", read p99.9, us", 0.999);
    // Below 1 the writers could not keep their rate, and the sides are not alike.
    note(", writes over their rate", WriteRate(first, last) / write_rate_);
    note(", moved by reclaim, MB/s", static_cast<double>(last.moved_bytes - first.moved_bytes) *
                                         1e-6 / (last.seconds - first.seconds));
    note(", space amplification", Amplification(last.disk_bytes, record_count()));
    return writers.Stop();
  }
};

}  // namespace

std::unique_ptr<Bench> MakeSpaceBench() { return std::make_unique<SpaceBench>(); }

}  // namespace engine_race::harness
