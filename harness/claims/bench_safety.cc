#include "harness/claims/bench_safety.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <utility>

#include "harness/load/durable_loops.h"
#include "harness/measure/alternating_rounds.h"
#include "harness/measure/timed.h"
#include "harness/system/machine.h"

namespace harness {

std::atomic<bool> leave_out_checksums{false};

namespace {

using engine_race::Status;
using engine_race::Store;

constexpr char kReadCost[] = "verify_read_cost";
constexpr char kRangeCost[] = "verify_range_cost";
constexpr char kWriteCost[] = "checksum_write_cost";
constexpr char kWritesPerFlush[] = "group_sync_writes_per_flush";
constexpr char kGroupRatio[] = "group_sync_ratio";
constexpr char kMutants[] = "mutants_caught";

constexpr ClaimTarget kTargets[] = {{kReadCost, "<= 0.03"},  {kRangeCost, "<= 0.05"},
                                    {kWriteCost, "<= 0.03"}, {kWritesPerFlush, ">= 8"},
                                    {kGroupRatio, ">= 0.5"}, {kMutants, "= 1.0"}};

}  // namespace

BenchSafety::BenchSafety(const SafetyConfig& config)
    : config_(config),
      runs_({store_dir(), config.dir, config.record_count, config.seed}),
      rounds_(kTargets) {}

engine_race::Options BenchSafety::OptionsOf(bool verify) const {
  engine_race::Options options = QuietOptions();
  options.verify_checksums = verify;
  return options;
}

void BenchSafety::RemoveStore() { runs_.Remove({}); }

void BenchSafety::Fail(const std::string& what) { errors_.push_back(what); }

double BenchSafety::RateOf(const TimedRun& run) {
  if (!run.ok()) Fail(runs_.failure());
  return run.rate();
}

double BenchSafety::WriteAll(bool sync_on_close) {
  engine_race::Options options = OptionsOf(true);
  options.sync_on_close = sync_on_close;
  double close_seconds = 0;
  const double rate = RateOf(runs_.Write(options, config_.thread_count, &close_seconds));
  rounds_.Note(sync_on_close ? "close that syncs, ms" : "close that does not sync, ms",
               close_seconds * 1e3);
  return rate;
}

double BenchSafety::ReadFor(bool verify) {
  return RateOf(runs_.Read(OptionsOf(verify), config_.thread_count, config_.seconds));
}

double BenchSafety::RangeOnce(bool verify) {
  return RateOf(runs_.Range(OptionsOf(verify), config_.thread_count));
}

double BenchSafety::GroupSync() {
  RemoveStore();
  engine_race::Options options = OptionsOf(true);
  options.sync_mode = engine_race::SyncMode::kGroup;
  std::unique_ptr<Store> store;
  const Status opened = Store::Open(options, store_dir(), &store);
  if (!opened.ok()) {
    Fail("open: " + opened.ToString());
    return 0;
  }
  TimedPoint point;
  const Status written = RunTimed(
      config_.thread_count, config_.seconds,
      [&](uint32_t thread, TimedThread* self) {
        std::string value(kValueSize, '\0');
        self->Start();
        for (uint64_t i = thread; self->Running(); i += config_.thread_count) {
          runs_.values().Fill(runs_.KeyAt(i), 1, value.data());
          ENGINE_RACE_RETURN_IF_ERROR(store->Write(KeyBytesOf(runs_.KeyAt(i)), value));
          ++self->tally.request_count;
        }
        return Status::Ok();
      },
      &point);
  const engine_race::StoreStats stats = store->Stats();
  if (!written.ok()) Fail("durable write: " + written.ToString());
  if (stats.flush_count > 0) {
    rounds_.Note(kWritesPerFlush, static_cast<double>(stats.durable_write_count) /
                                      static_cast<double>(stats.flush_count));
  }
  return written.ok() ? point.RequestsPerSecond() : 0;
}

void BenchSafety::NoteCost(const char* claim, uint32_t round, const Rate& with,
                           const Rate& without) {
  double rate_with = 0;
  double rate_without = 0;
  const auto noted = [](double* rate, const Rate& run) {
    *rate = run();
    return *rate > 0;
  };
  const bool whole = AlternatingRound(round, {[&] { return noted(&rate_with, with); },
                                              [&] { return noted(&rate_without, without); }});
  if (!whole) return;
  rounds_.Note(claim, 1 - rate_with / rate_without);
  rounds_.Note(std::string(claim) + ": with, a second", rate_with);
  rounds_.Note(std::string(claim) + ": without, a second", rate_without);
  std::fprintf(stderr, "round %u, %s: %.0f with, %.0f without\n", round + 1, claim, rate_with,
               rate_without);
}

void BenchSafety::CompareReads() {
  for (uint32_t round = 0; round < config_.round_count && errors_.empty(); ++round) {
    NoteCost(
        kReadCost, round, [this] { return ReadFor(true); }, [this] { return ReadFor(false); });
  }
}

void BenchSafety::CompareRanges() {
  for (uint32_t round = 0; round < config_.round_count && errors_.empty(); ++round) {
    NoteCost(
        kRangeCost, round, [this] { return RangeOnce(true); }, [this] { return RangeOnce(false); });
  }
}

void BenchSafety::CompareWrites() {
  const auto without = [this] {
    leave_out_checksums = true;
    const double rate = WriteAll();
    leave_out_checksums = false;
    return rate;
  };
  for (uint32_t round = 0; round < config_.round_count && errors_.empty(); ++round) {
    NoteCost(
        kWriteCost, round, [this] { return WriteAll(); }, without);
  }
}

void BenchSafety::CompareClosing() {
  for (uint32_t round = 0; round < config_.round_count && errors_.empty(); round += 3) {
    WriteAll(/*sync_on_close=*/true);
  }
}

void BenchSafety::CompareDurableWrites() {
  for (uint32_t round = 0; round < config_.round_count && errors_.empty(); ++round) {
    double engine = 0;
    double with_a_flush_each = 0;
    double with_a_leader = 0;
    const auto run_engine = [&] {
      engine = GroupSync();
      return engine > 0;
    };
    const auto run_loops = [&] {
      RemoveStore();
      DurableLoops loops(config_.dir, config_.thread_count);
      with_a_flush_each = loops.WithAFlushEach(config_.seconds);
      with_a_leader = loops.WithALeader(config_.seconds);
      if (with_a_flush_each > 0 && with_a_leader > 0) return true;
      Fail("the bare loops could not write");
      return false;
    };
    if (!AlternatingRound(round, {run_engine, run_loops})) return;
    const double best = std::max(with_a_flush_each, with_a_leader);
    rounds_.Note(kGroupRatio, engine / best);
    rounds_.Note("durable writes a second, group commit", engine);
    rounds_.Note("durable writes a second, a flush each", with_a_flush_each);
    rounds_.Note("durable writes a second, with a leader", with_a_leader);
    std::fprintf(
        stderr, "round %u, durable writes: %.0f, bare %.0f with a flush each, %.0f with a leader\n",
        round + 1, engine, with_a_flush_each, with_a_leader);
  }
}

bool BenchSafety::Run() {
  if (Wants("durable")) CompareDurableWrites();
  if (Wants("write")) CompareWrites();
  if (Wants("close")) CompareClosing();
  if (errors_.empty() && (Wants("read") || Wants("range")) && WriteAll() > 0) {
    if (Wants("read")) CompareReads();
    if (Wants("range")) CompareRanges();
  }
  RemoveStore();
  return errors_.empty();
}

void BenchSafety::AddMutants(const std::string& path) {
  std::ifstream file(path);
  mutants_ = nlohmann::json::parse(file, nullptr, false);
  const double count = mutants_.is_object() ? mutants_.value("mutant_count", 0.0) : 0.0;
  if (count <= 0) return Fail("no mutants in " + path);
  rounds_.Note(kMutants, mutants_.value("caught_count", 0.0) / count);
}

nlohmann::json BenchSafety::ToJson() const {
  nlohmann::json json = rounds_.ToJson();
  json["mutants"] = mutants_;
  json["config"] = {{"threads", config_.thread_count},
                    {"records", config_.record_count},
                    {"rounds", config_.round_count},
                    {"seconds", config_.seconds}};
  json["machine"] = DescribeMachine(config_.dir);
  json["errors"] = errors_;
  return json;
}

}  // namespace harness
