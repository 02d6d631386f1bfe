// The gain of batches over single writes, with one thread: in memory, and durably on a disk.
//
// Each side fills a fresh store with the same records in the same order; sides alternate. A batch's
// rate includes putting the records into it.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>

#include "engine_race/base/clock.h"
#include "engine_race/base/guarded.h"
#include "engine_race/store.h"
#include "harness/claims/bench.h"
#include "harness/claims/benches.h"
#include "harness/data/mix.h"
#include "harness/load/store_basics.h"
#include "harness/measure/alternating_rounds.h"

namespace harness {
namespace {

using engine_race::Status;
using engine_race::Store;
using engine_race::SyncMode;
using engine_race::WriteBatch;

constexpr char kBatchGain[] = "batch_gain";
constexpr char kBatchDurableGain[] = "batch_durable_gain";
constexpr ClaimTarget kTargets[] = {{kBatchGain, ">= 1.05"}, {kBatchDurableGain, ">= 10"}};

struct BatchConfig {
  uint32_t batch_records = 128;
  uint64_t memory_records = 128 * 1024;
  uint64_t durable_writes = 2000;          // single ones
  uint64_t durable_batch_records = 25600;  // in batches
  uint32_t round_count = 15;
  uint32_t durable_round_count = 5;
  uint64_t seed = 1;
};

class BatchGainRun {
 public:
  BatchGainRun(const BatchConfig& config, const std::string& dir, SyncMode mode)
      : config_(config), dir_(dir + "/store") {
    options_ = QuietOptions();
    options_.sync_mode = mode;
    for (size_t i = 0; i < value_.size(); ++i) value_[i] = static_cast<char>(Mix64(i));
  }

  // *rate: records a second.
  Status Single(uint64_t count, double* rate) {
    return Timed(count, rate, [&](Store* store) {
      for (uint64_t i = 0; i < count; ++i) {
        ENGINE_RACE_RETURN_IF_ERROR(store->Write(Key(i), Value(i)));
      }
      return Status::Ok();
    });
  }
  Status Batched(uint64_t count, double* rate) {
    return Timed(count, rate, [&](Store* store) {
      WriteBatch batch;
      for (uint64_t i = 0; i < count;) {
        batch.Clear();
        const uint64_t end = std::min(count, i + config_.batch_records);
        for (; i < end; ++i) ENGINE_RACE_RETURN_IF_ERROR(batch.Put(Key(i), Value(i)));
        ENGINE_RACE_RETURN_IF_ERROR(store->Write(batch));
      }
      return Status::Ok();
    });
  }

 private:
  std::string_view Key(uint64_t i) {
    const uint64_t key = Mix64(config_.seed + i);
    std::memcpy(key_, &key, sizeof(key));
    return {key_, sizeof(key_)};
  }
  std::string_view Value(uint64_t i) {
    std::memcpy(value_.data(), &i, sizeof(i));
    return value_;
  }

  template <typename WriteFn>
  Status Timed(uint64_t count, double* rate, const WriteFn& write) {
    std::unique_ptr<Store> store;
    Status status = Store::Open(options_, dir_, &store);
    if (status.ok()) {
      const uint64_t begin_ns = engine_race::MonotonicNs();
      status = write(store.get());
      const double seconds = static_cast<double>(engine_race::MonotonicNs() - begin_ns) * 1e-9;
      *rate = static_cast<double>(count) / seconds;
    }
    store.reset();
    std::filesystem::remove_all(dir_);
    return status;
  }

  const BatchConfig& config_;
  const std::string dir_;
  engine_race::Options options_;
  char key_[8] = {};
  std::string value_ = std::string(engine_race::kValueBytes, '\0');
};

class BatchesBench final : public Bench {
 public:
  BatchesBench() : Bench("batches", "what batches gain over single writes", kTargets) {}

  std::vector<Setting> Settings() override {
    BatchConfig& c = config_;
    return {{"batch_records", &c.batch_records, kSame, "--batch", "records of a batch"},
            {"memory_records", &c.memory_records, 2000, "--num", "records on tmpfs"},
            {"durable_writes", &c.durable_writes, 50},
            {"durable_batch_records", &c.durable_batch_records, 512},
            {"rounds", &c.round_count, 1, "--rounds"},
            {"durable_rounds", &c.durable_round_count, 1, "--durable-rounds"},
            {"", &c.seed, kSame, "--seed", "", true}};
  }

 private:
  std::vector<BenchPart> Parts() override {
    return {{"memory",
             {kBatchGain},
             [this] {
               return Compare(kBatchGain, tmpfs_dir(), SyncMode::kNone, config_.round_count,
                              config_.memory_records, config_.memory_records);
             },
             0,
             true},
            {"durable",
             {kBatchDurableGain},
             [this] {
               return Compare(kBatchDurableGain, dir(), SyncMode::kEveryWrite,
                              config_.durable_round_count, config_.durable_writes,
                              config_.durable_batch_records);
             },
             StoreBytes(config_.durable_batch_records) + (uint64_t{1} << 30)}};
  }
  uint64_t TmpfsBytes() override { return StoreBytes(config_.memory_records); }

  Status Compare(const std::string& claim, const std::string& dir, SyncMode mode,
                 uint32_t round_count, uint64_t single_count, uint64_t batched_count) {
    BatchGainRun run(config_, dir, mode);
    double single = 0;
    double batched = 0;
    return AlternatingRounds(round_count,
                             {[&] { return run.Single(single_count, &single); },
                              [&] { return run.Batched(batched_count, &batched); }},
                             [&](uint32_t) {
                               rounds_.NoteRatio(claim, batched, single);
                               rounds_.Note(claim + ": in batches, records a second", batched);
                               rounds_.Note(claim + ": single writes a second", single);
                             });
  }

  BatchConfig config_;
};

}  // namespace

std::unique_ptr<Bench> MakeBatchesBench() { return std::make_unique<BatchesBench>(); }

}  // namespace harness
