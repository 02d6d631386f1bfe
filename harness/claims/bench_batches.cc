// The gain of batches over single writes, with one thread: in memory, and durably on a disk.
//
// Each side fills a fresh store with the same records in the same order. A batch's rate includes
// putting the records into it.
#include <algorithm>
#include <filesystem>
#include <memory>

#include "engine_race/base/key.h"
#include "engine_race/store.h"
#include "harness/claims/bench.h"
#include "harness/claims/benches.h"
#include "harness/load/file_reads.h"
#include "harness/load/store_basics.h"
#include "harness/system/process_stats.h"

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

}  // namespace engine_race::harness
