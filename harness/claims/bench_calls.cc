// The measured claims about single calls: batches beside single writes, and the C API beside C++.
//
// The gain of batches over single writes, with one thread: in memory, and durably on a disk.
// Each side fills a fresh store with the same records in the same order. A batch's rate includes
// putting the records into it.
#include <algorithm>
#include <filesystem>
#include <memory>

#include "engine_race/base/key.h"
#include "engine_race/store.h"
#include "harness/claims/bench.h"
#include "harness/claims/benches.h"
#include "harness/data/key_source.h"
#include "harness/data/mix.h"
#include "harness/load/bare_loops.h"
#include "harness/load/store_basics.h"
#include "harness/load/store_runs.h"
#include "harness/measure/median.h"
#include "harness/system/process_stats.h"
#include "include/engine_race_c.h"

namespace engine_race::harness {

namespace {

class BatchesBench final : public Bench {
 public:
  BatchesBench() : Bench("batches", "what batches gain over single writes") {}

 private:
  std::vector<BenchPart> Parts() override {
    return {
        {"memory",
         {{"batch_gain", ">= 1.05", "", "batch_gain: in batches, records a second",
           "batch_gain: single writes a second"}},
         [this] {
           return Compare("batch_gain", tmpfs_dir(), SyncMode::kNone, round_count_, memory_records_,
                          memory_records_);
         },
         kTmpfs},
        {"durable",
         {{"batch_durable_gain", ">= 10", "", "batch_durable_gain: in batches, records a second",
           "batch_durable_gain: single writes a second"}},
         [this] {
           return Compare("batch_durable_gain", dir(), SyncMode::kEveryWrite, durable_round_count_,
                          durable_writes_, durable_batch_records_);
         },
         StoreBytes(durable_batch_records_) + (uint64_t{1} << 30)}};
  }
  uint64_t TmpfsBytes() override { return StoreBytes(memory_records_); }

  Status Compare(const std::string& claim, const std::string& dir, SyncMode mode,
                 uint32_t round_count, uint64_t single_count, uint64_t batched_count) {
    const std::string single = claim + ": single writes a second";
    const std::string batched = claim + ": in batches, records a second";
    return rounds_.Run({round_count},
                       {[&] { return Fill(dir, mode, single_count, 0, single); },
                        [&] { return Fill(dir, mode, batched_count, batch_records_, batched); }});
  }

  // Notes the records a second of a fresh store; 0 records a batch: by single writes.
  Status Fill(const std::string& dir, SyncMode mode, uint64_t count, uint32_t batch_records,
              const std::string& figure) {
    const std::string store_dir = dir + "/store";
    std::filesystem::remove_all(store_dir);
    Options options = QuietOptions();
    options.sync_mode = mode;
    std::unique_ptr<Store> store;
    ENGINE_RACE_RETURN_IF_ERROR(Store::Open(options, store_dir, &store));
    std::string value(kValueBytes, 'v');
    const auto key_at = [&](uint64_t i) { return KeyBytes(StampRecord(seed_ + i, value.data())); };
    WriteBatch batch;
    const uint64_t begin_ns = NowNs();
    for (uint64_t i = 0; i < count;) {
      if (batch_records == 0) {
        ENGINE_RACE_RETURN_IF_ERROR(store->Write(key_at(i++).view(), value));
        continue;
      }
      batch.Clear();
      const uint64_t end = std::min(count, i + batch_records);
      for (; i < end; ++i) ENGINE_RACE_RETURN_IF_ERROR(batch.Put(key_at(i).view(), value));
      ENGINE_RACE_RETURN_IF_ERROR(store->Write(batch));
    }
    rounds_.Note(figure, static_cast<double>(count) / SecondsSince(begin_ns));
    return Status::Ok();
  }

  Count32 batch_records_{this, "batch_records", 128, kSame, "--batch", "records of a batch"};
  Count memory_records_{this, "memory_records", 128 * 1024, 2000, "--num", "records on tmpfs"};
  Count durable_writes_{this, "durable_writes", 2000, 50};
  Count durable_batch_records_{this, "durable_batch_records", 25600, 512};
  Count32 round_count_{this, "rounds", 15, 1, "--rounds"};
  Count32 durable_round_count_{this, "durable_rounds", 5, 1, "--durable-rounds"};
  Count seed_{this, "", 1, kSame, "--seed", "", true};
};

}  // namespace

std::unique_ptr<Bench> MakeBatchesBench() { return std::make_unique<BatchesBench>(); }

// The CPU time of a read through the C API beside one in C++. The reads are random, of a store in
// memory, so no device takes part.
//
// Each side opens the store anew in each round. One thread at a time.

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
