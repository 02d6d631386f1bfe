// The CPU time of a read through the C API beside one in C++. The reads are random, of a store in
// memory, so no device takes part.
//
// Each side opens the store anew in each round. One thread at a time.
#include "include/engine_race_c.h"

#include <memory>

#include "engine_race/store.h"
#include "harness/claims/bench.h"
#include "harness/claims/benches.h"
#include "harness/data/key_source.h"
#include "harness/data/mix.h"
#include "harness/load/store_runs.h"
#include "harness/measure/median.h"
#include "harness/system/process_stats.h"

namespace engine_race::harness {
namespace {

constexpr char kOfC[] = "engine_race_read, CPU ns";
constexpr char kOfCpp[] = "Store::ReadInto, CPU ns";

Status FromC(int code) {
  if (code == ENGINE_RACE_OK) return Status::Ok();
  return {static_cast<Code>(code), engine_race_error_message()};
}

class CApiBench final : public Bench {
 public:
  CApiBench() : Bench("c-api", "what a read through the C API costs over one in C++") {}

 private:
  std::vector<BenchPart> Parts() override {
    return {{"reads",
             {{"c_api_cost", "<= 0.02", "", kOfC, kOfCpp, RatioForm::kGrowth}},
             By(&CApiBench::CompareReads),
             kTmpfs}};
  }
  uint64_t TmpfsBytes() override { return StoreBytes(record_count_); }

  std::string StoreDir() const { return tmpfs_dir() + "/store"; }
  static Options StoreOptions() {
    Options options = QuietOptions();
    // Every read is to go through the file system in memory.
    options.hot_value_bytes = 0;
    return options;
  }

  Status CompareReads() {
    more_json_["machine"] = DescribeMachine(tmpfs_dir());
    StoreRuns runs({StoreDir(), "", record_count_, seed_});
    ENGINE_RACE_RETURN_IF_ERROR(runs.Fill(StoreOptions(), 1));
    // Both sides fill memory of the caller.
    return rounds_.Run({round_count_},
                       {[&] { return TimeCpp(runs); }, [&] { return TimeC(runs); }});
  }

  Status TimeCpp(const StoreRuns& runs) {
    std::unique_ptr<Store> store;
    ENGINE_RACE_RETURN_IF_ERROR(Store::Open(StoreOptions(), StoreDir(), &store));
    return TimeReads(runs, kOfCpp,
                     [&](uint64_t key, char* value) { return store->ReadInto(key, value); });
  }

  Status TimeC(const StoreRuns& runs) {
    const std::unique_ptr<engine_race_options, decltype(&engine_race_options_destroy)> options(
        engine_race_options_create(), engine_race_options_destroy);
    ENGINE_RACE_RETURN_IF_ERROR(
        FromC(engine_race_options_set(options.get(), "hot_value_bytes", "0")));
    engine_race_store* opened = nullptr;
    ENGINE_RACE_RETURN_IF_ERROR(
        FromC(engine_race_open(StoreDir().c_str(), options.get(), &opened)));
    const std::unique_ptr<engine_race_store, decltype(&engine_race_close)> store(opened,
                                                                                 engine_race_close);
    return TimeReads(runs, kOfC, [&](uint64_t key, char* value) {
      return FromC(engine_race_read(opened, key, value));
    });
  }

  // Times reads, first some to warm up.
  template <typename Read>
  Status TimeReads(const StoreRuns& runs, const char* figure, const Read& read) {
    const PinnedToOneCpu pinned;
    alignas(64) char value[kValueSize];
    const uint64_t warm_up_count = read_count_ / 10;
    uint64_t begin_ns = 0;
    for (uint64_t i = 0; i < warm_up_count + read_count_; ++i) {
      if (i == warm_up_count) begin_ns = CpuNs();
      const uint64_t key = runs.KeyAt(AsBelow(MixAt(seed_ ^ kReadStream, i), record_count_));
      ENGINE_RACE_RETURN_IF_ERROR(read(key, value));
      uint64_t version = 0;
      if (!runs.values().CheckEnds(key, value, &version)) {
        return Status::Corruption(KeyFailure(key, "wrong bytes"));
      }
    }
    const uint64_t cpu_ns = CpuNs() - begin_ns;
    rounds_.Note(figure, static_cast<double>(cpu_ns) / static_cast<double>(read_count_()));
    return Status::Ok();
  }

  Count record_count_{this, "records", 50000, 500, "--num", "records"};
  Count read_count_{this, "reads", 100000, 1000, "--reads", "of each side in each round"};
  Count32 round_count_{this, "rounds", 41, 1, "--rounds"};
  Count seed_{this, "", 1, kSame, "--seed", "", true};
};

}  // namespace

std::unique_ptr<Bench> MakeCApiBench() { return std::make_unique<CApiBench>(); }

}  // namespace engine_race::harness
