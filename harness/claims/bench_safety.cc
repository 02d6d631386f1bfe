// The measured claims about safety: the costs of verification, checksums and durable writes.
//
// Each comparison is a pair of short runs that follow each other.
#include <algorithm>
#include <memory>

#include "engine_race/base/key.h"
#include "engine_race/store.h"
#include "harness/claims/bench.h"
#include "harness/claims/benches.h"
#include "harness/load/bare_loops.h"
#include "harness/load/store_runs.h"
#include "harness/measure/table.h"
#include "harness/measure/timed.h"

namespace engine_race::harness {

std::atomic<bool> leave_out_checksums{false};

namespace {

constexpr char kReadCost[] = "verify_read_cost";
constexpr char kRangeCost[] = "verify_range_cost";
constexpr char kWriteCost[] = "checksum_write_cost";
constexpr char kWritesPerFlush[] = "group_sync_writes_per_flush";
constexpr char kMutants[] = "mutants_caught";
// Figures behind the claims.
constexpr char kGroupCommit[] = "durable writes a second, group commit";
constexpr char kBestLoop[] = "durable writes a second, the better loop";

Options OptionsOf(bool verify) {
  Options options = QuietOptions();
  options.verify_checksums = verify;
  return options;
}

class SafetyBench final : public Bench {
 public:
  SafetyBench() : Bench("safety", "what verification, checksums and durable writes cost") {}

 private:
  // The rate of a run with what the claim is about, or without it.
  using Rate = std::function<double(bool with)>;

  std::vector<BenchPart> Parts() override {
    // Space for the store, its journal and the file of the bare loops.
    const uint64_t bytes = StoreBytes(record_count_) + (uint64_t{1} << 30);
    const auto on_store = [this](Status (SafetyBench::*compare)(StoreRuns * runs)) {
      return [this, compare] {
        StoreRuns runs({dir() + "/store", dir(), record_count_, seed_});
        return (this->*compare)(&runs);
      };
    };
    return {
        {"durable",
         {{kWritesPerFlush, ">= 8"}, {"group_sync_ratio", ">= 0.5", "", kGroupCommit, kBestLoop}},
         on_store(&SafetyBench::CompareDurableWrites),
         bytes},
        {"write", {{kWriteCost, "<= 0.03"}}, on_store(&SafetyBench::CompareWrites), bytes},
        {"read", {{kReadCost, "<= 0.03"}}, on_store(&SafetyBench::CompareReads), bytes},
        {"range", {{kRangeCost, "<= 0.05"}}, on_store(&SafetyBench::CompareRanges), bytes},
        {"mutants",
         {{kMutants, "= 1.0"}},
         By(&SafetyBench::TakeMutants),
         {0, false, mutants_path_().empty() ? "--mutants is missing" : ""}}};
  }

  Status CompareReads(StoreRuns* runs) {
    WriteAll(runs, false);
    return NoteCosts(kReadCost, runs, [&](bool verify) {
      return runs->Read(OptionsOf(verify), thread_count_, seconds_).RequestsPerSecond();
    });
  }

  Status CompareRanges(StoreRuns* runs) {
    WriteAll(runs, false);
    return NoteCosts(kRangeCost, runs, [&](bool verify) {
      return runs->Range(OptionsOf(verify), thread_count_).RequestsPerSecond();
    });
  }

  // Beside the checksums, what a close that syncs takes.
  Status CompareWrites(StoreRuns* runs) {
    ENGINE_RACE_RETURN_IF_ERROR(NoteCosts(kWriteCost, runs, [&](bool with) {
      leave_out_checksums = !with;
      const double rate = WriteAll(runs, false);
      leave_out_checksums = false;
      return rate;
    }));
    for (uint32_t round = 0; round < round_count_; round += 3) WriteAll(runs, true);
    return runs->status();
  }

  Status CompareDurableWrites(StoreRuns* runs) {
    const auto run_loops = [&] {
      runs->Remove({});
      DurableLoops loops(dir(), thread_count_);
      const double flush_each = loops.WithAFlushEach(seconds_);
      const double leader = loops.WithALeader(seconds_);
      rounds_.Note("durable writes a second, a flush each", flush_each);
      rounds_.Note("durable writes a second, with a leader", leader);
      rounds_.Note(kBestLoop, std::max(flush_each, leader));
      return flush_each > 0 && leader > 0 ? Status::Ok()
                                          : Status::IOError("the bare loops could not write");
    };
    return rounds_.Run({round_count_}, {[&] { return GroupSync(runs); }, run_loops});
  }

  // Takes over the result of the mutants from the file that scripts/mutants.py has written.
  Status TakeMutants() {
    const nlohmann::json mutants = LoadJson(mutants_path_);
    more_json_["mutants"] = mutants;
    const double count = mutants.is_object() ? mutants.value("mutant_count", 0.0) : 0.0;
    if (count <= 0) return Status::InvalidArgument("no mutants in '" + mutants_path_() + "'");
    rounds_.Note(kMutants, mutants.value("caught_count", 0.0) / count);
    return Status::Ok();
  }

  double WriteAll(StoreRuns* runs, bool sync_on_close) {
    Options options = OptionsOf(true);
    options.sync_on_close = sync_on_close;
    double close_seconds = 0;
    const double rate = runs->Write(options, thread_count_, &close_seconds).RequestsPerSecond();
    rounds_.Note(sync_on_close ? "close that syncs, ms" : "close that does not sync, ms",
                 close_seconds * 1e3);
    return rate;
  }

  Status GroupSync(StoreRuns* runs) {
    runs->Remove({});
    Options options = OptionsOf(true);
    options.sync_mode = SyncMode::kGroup;
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
            ENGINE_RACE_RETURN_IF_ERROR(store->Write(KeyBytes(runs->KeyAt(i)).view(), value));
            ++self->tally.request_count;
          }
          return Status::Ok();
        },
        &point));
    const StoreStats stats = store->Stats();
    if (stats.flush_count > 0) {
      rounds_.Note(kWritesPerFlush, static_cast<double>(stats.durable_write_count) /
                                        static_cast<double>(stats.flush_count));
    }
    rounds_.Note(kGroupCommit, point.RequestsPerSecond());
    return Status::Ok();
  }

  // Notes 1 - with / without as the claim's figure.
  Status NoteCosts(const std::string& claim, StoreRuns* runs, const Rate& rate) {
    const std::string figures[] = {claim + ": without, a second", claim + ": with, a second"};
    const auto side = [&](bool with) {
      rounds_.Note(figures[with], rate(with));
      return runs->status();
    };
    return rounds_.Run({round_count_}, {[&] { return side(true); }, [&] { return side(false); }},
                       {{claim, figures[true], figures[false], RatioForm::kLoss}});
  }

  Count32 thread_count_{this, "threads", 64, 4, "--threads"};
  Count record_count_{this, "records", 1000000, 2000, "--num", "records of a store"};
  Count32 round_count_{this, "rounds", 9, 1, "--rounds"};
  Real seconds_{this, "seconds", 2, 0.05, "--seconds", "of each timed run"};
  Count seed_{this, "", 1, kSame, "--seed", "", true};
  Path mutants_path_{this, "", "", kSame, "--mutants", "what scripts/mutants.py has found"};
};

}  // namespace

std::unique_ptr<Bench> MakeSafetyBench() { return std::make_unique<SafetyBench>(); }

}  // namespace engine_race::harness
