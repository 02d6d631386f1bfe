// The measured claims about safety: the costs of verification, checksums and durable writes.
//
// Each comparison is a pair of short runs that follow each other.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>

#include "engine_race/store.h"
#include "harness/claims/bench.h"
#include "harness/claims/benches.h"
#include "harness/load/durable_loops.h"
#include "harness/load/store_runs.h"
#include "harness/measure/alternating_rounds.h"
#include "harness/measure/timed.h"

namespace harness {

std::atomic<bool> leave_out_checksums{false};

namespace {

using engine_race::Options;
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

Options OptionsOf(bool verify) {
  Options options = QuietOptions();
  options.verify_checksums = verify;
  return options;
}

class SafetyBench final : public Bench {
 public:
  SafetyBench()
      : Bench("safety", "what verification, checksums and durable writes cost", kTargets) {}

  std::vector<Setting> Settings() override {
    return {{"threads", &thread_count_, 4, "--threads"},
            {"records", &record_count_, 2000, "--num", "records of a store"},
            {"rounds", &round_count_, 1, "--rounds"},
            {"seconds", &seconds_, 0.05, "--seconds", "of each timed run"},
            {"", &seed_, kSame, "--seed", "", true},
            {"", &mutants_path_, kSame, "--mutants", "what scripts/mutants.py has found"}};
  }

 private:
  using Rate = std::function<Status(double* rate)>;

  std::vector<BenchPart> Parts() override {
    // Space for the store, its journal and the file of the bare loops.
    const uint64_t bytes = StoreBytes(record_count_) + (uint64_t{1} << 30);
    return {{"durable",
             {kWritesPerFlush, kGroupRatio},
             [this] { return OnStore(&SafetyBench::CompareDurableWrites); },
             bytes},
            {"write", {kWriteCost}, [this] { return OnStore(&SafetyBench::CompareWrites); }, bytes},
            {"read", {kReadCost}, [this] { return OnStore(&SafetyBench::CompareReads); }, bytes},
            {"range", {kRangeCost}, [this] { return OnStore(&SafetyBench::CompareRanges); }, bytes},
            {"mutants",
             {kMutants},
             [this] { return TakeMutants(); },
             0,
             false,
             mutants_path_.empty() ? "--mutants is missing" : ""}};
  }
  void AddTo(nlohmann::json* json) override { (*json)["mutants"] = mutants_; }

  Status OnStore(Status (SafetyBench::*compare)(StoreRuns* runs));
  Status CompareReads(StoreRuns* runs);
  Status CompareRanges(StoreRuns* runs);
  // Beside the checksums, what a close that syncs takes.
  Status CompareWrites(StoreRuns* runs);
  Status CompareDurableWrites(StoreRuns* runs);
  // Takes over the result of the mutants from the file that scripts/mutants.py has written.
  Status TakeMutants();

  Status WriteAll(StoreRuns* runs, bool sync_on_close, double* rate);
  Status GroupSync(StoreRuns* runs, double* rate);
  // Notes 1 - with / without as the claim's figure.
  Status NoteCosts(const std::string& claim, const Rate& with, const Rate& without);

  uint32_t thread_count_ = 64;
  uint64_t record_count_ = 1000000;
  uint32_t round_count_ = 9;
  double seconds_ = 2;  // of each timed run that has no end of its own
  uint64_t seed_ = 1;
  std::string mutants_path_;
  nlohmann::json mutants_;
};

Status SafetyBench::OnStore(Status (SafetyBench::*compare)(StoreRuns* runs)) {
  StoreRuns runs({dir() + "/store", dir(), record_count_, seed_});
  const Status status = (this->*compare)(&runs);
  runs.Remove({});
  return status;
}

Status SafetyBench::WriteAll(StoreRuns* runs, bool sync_on_close, double* rate) {
  Options options = OptionsOf(true);
  options.sync_on_close = sync_on_close;
  double close_seconds = 0;
  *rate = runs->Write(options, thread_count_, &close_seconds).rate();
  rounds_.Note(sync_on_close ? "close that syncs, ms" : "close that does not sync, ms",
               close_seconds * 1e3);
  return runs->status();
}

Status SafetyBench::GroupSync(StoreRuns* runs, double* rate) {
  runs->Remove({});
  Options options = OptionsOf(true);
  options.sync_mode = engine_race::SyncMode::kGroup;
  std::unique_ptr<Store> store;
  ENGINE_RACE_RETURN_IF_ERROR(Store::Open(options, dir() + "/store", &store));
  TimedPoint point;
  ENGINE_RACE_RETURN_IF_ERROR(RunTimed(
      thread_count_, seconds_,
      [&](uint32_t thread, TimedThread* self) {
        std::string value(kValueSize, '\0');
        self->Start();
        for (uint64_t i = thread; self->Running(); i += thread_count_) {
          runs->values().Fill(runs->KeyAt(i), 1, value.data());
          ENGINE_RACE_RETURN_IF_ERROR(store->Write(KeyBytesOf(runs->KeyAt(i)), value));
          ++self->tally.request_count;
        }
        return Status::Ok();
      },
      &point));
  const engine_race::StoreStats stats = store->Stats();
  if (stats.flush_count > 0) {
    rounds_.Note(kWritesPerFlush, static_cast<double>(stats.durable_write_count) /
                                      static_cast<double>(stats.flush_count));
  }
  *rate = point.RequestsPerSecond();
  return Status::Ok();
}

Status SafetyBench::NoteCosts(const std::string& claim, const Rate& with, const Rate& without) {
  double rate_with = 0;
  double rate_without = 0;
  return AlternatingRounds(
      round_count_, {[&] { return with(&rate_with); }, [&] { return without(&rate_without); }},
      [&](uint32_t round) {
        rounds_.Note(claim, 1 - rate_with / rate_without);
        rounds_.Note(claim + ": with, a second", rate_with);
        rounds_.Note(claim + ": without, a second", rate_without);
        std::fprintf(stderr, "round %u, %s: %.0f with, %.0f without\n", round + 1, claim.c_str(),
                     rate_with, rate_without);
      });
}

Status SafetyBench::CompareReads(StoreRuns* runs) {
  double unused = 0;
  ENGINE_RACE_RETURN_IF_ERROR(WriteAll(runs, false, &unused));
  const auto read = [&](bool verify, double* rate) {
    *rate = runs->Read(OptionsOf(verify), thread_count_, seconds_).rate();
    return runs->status();
  };
  return NoteCosts(
      kReadCost, [&](double* rate) { return read(true, rate); },
      [&](double* rate) { return read(false, rate); });
}

Status SafetyBench::CompareRanges(StoreRuns* runs) {
  double unused = 0;
  ENGINE_RACE_RETURN_IF_ERROR(WriteAll(runs, false, &unused));
  const auto range = [&](bool verify, double* rate) {
    *rate = runs->Range(OptionsOf(verify), thread_count_).rate();
    return runs->status();
  };
  return NoteCosts(
      kRangeCost, [&](double* rate) { return range(true, rate); },
      [&](double* rate) { return range(false, rate); });
}

Status SafetyBench::CompareWrites(StoreRuns* runs) {
  ENGINE_RACE_RETURN_IF_ERROR(NoteCosts(
      kWriteCost, [&](double* rate) { return WriteAll(runs, false, rate); },
      [&](double* rate) {
        leave_out_checksums = true;
        const Status status = WriteAll(runs, false, rate);
        leave_out_checksums = false;
        return status;
      }));
  for (uint32_t round = 0; round < round_count_; round += 3) {
    double unused = 0;
    ENGINE_RACE_RETURN_IF_ERROR(WriteAll(runs, /*sync_on_close=*/true, &unused));
  }
  return Status::Ok();
}

Status SafetyBench::CompareDurableWrites(StoreRuns* runs) {
  double engine = 0;
  double with_a_flush_each = 0;
  double with_a_leader = 0;
  const auto run_loops = [&] {
    runs->Remove({});
    DurableLoops loops(dir(), thread_count_);
    with_a_flush_each = loops.WithAFlushEach(seconds_);
    with_a_leader = loops.WithALeader(seconds_);
    return with_a_flush_each > 0 && with_a_leader > 0
               ? Status::Ok()
               : Status::IOError("the bare loops could not write");
  };
  return AlternatingRounds(
      round_count_, {[&] { return GroupSync(runs, &engine); }, run_loops}, [&](uint32_t round) {
        rounds_.Note(kGroupRatio, engine / std::max(with_a_flush_each, with_a_leader));
        rounds_.Note("durable writes a second, group commit", engine);
        rounds_.Note("durable writes a second, a flush each", with_a_flush_each);
        rounds_.Note("durable writes a second, with a leader", with_a_leader);
        std::fprintf(
            stderr,
            "round %u, durable writes: %.0f, bare %.0f with a flush each, %.0f with a leader\n",
            round + 1, engine, with_a_flush_each, with_a_leader);
      });
}

Status SafetyBench::TakeMutants() {
  std::ifstream file(mutants_path_);
  mutants_ = nlohmann::json::parse(file, nullptr, false);
  const double count = mutants_.is_object() ? mutants_.value("mutant_count", 0.0) : 0.0;
  if (mutants_.is_discarded()) mutants_ = nullptr;
  if (count <= 0) return Status::InvalidArgument("no mutants in '" + mutants_path_ + "'");
  rounds_.Note(kMutants, mutants_.value("caught_count", 0.0) / count);
  return Status::Ok();
}

}  // namespace

std::unique_ptr<Bench> MakeSafetyBench() { return std::make_unique<SafetyBench>(); }

}  // namespace harness
