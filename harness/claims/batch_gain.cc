#include "harness/claims/batch_gain.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>

#include "engine_race/base/clock.h"
#include "engine_race/base/guarded.h"
#include "engine_race/store.h"
#include "harness/data/mix.h"
#include "harness/load/store_basics.h"
#include "harness/measure/alternating_rounds.h"

namespace harness {
namespace {

using engine_race::Status;
using engine_race::Store;
using engine_race::WriteBatch;

class BatchGainRun {
 public:
  BatchGainRun(const BatchGainConfig& config, std::string dir, engine_race::SyncMode mode)
      : config_(config), dir_(std::move(dir) + "/store") {
    options_ = QuietOptions();
    options_.sync_mode = mode;
    for (size_t i = 0; i < value_.size(); ++i) value_[i] = static_cast<char>(Mix64(i));
  }

  // Records a second; 0 after a failure.
  double Single(uint64_t count) {
    return Timed(count, [&](Store* store) {
      for (uint64_t i = 0; i < count; ++i) {
        ENGINE_RACE_RETURN_IF_ERROR(store->Write(Key(i), Value(i)));
      }
      return Status::Ok();
    });
  }
  double Batched(uint64_t count) {
    return Timed(count, [&](Store* store) {
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
  const std::string& failure() const { return failure_; }

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
  double Timed(uint64_t count, const WriteFn& write) {
    std::filesystem::remove_all(dir_);
    std::unique_ptr<Store> store;
    double seconds = 0;
    Status status = Store::Open(options_, dir_, &store);
    if (status.ok()) {
      const uint64_t begin_ns = engine_race::MonotonicNs();
      status = write(store.get());
      seconds = static_cast<double>(engine_race::MonotonicNs() - begin_ns) * 1e-9;
    }
    store.reset();
    std::filesystem::remove_all(dir_);
    if (status.ok()) return static_cast<double>(count) / seconds;
    failure_ = status.ToString();
    return 0;
  }

  const BatchGainConfig& config_;
  const std::string dir_;
  engine_race::Options options_;
  char key_[8] = {};
  std::string value_ = std::string(engine_race::kValueBytes, '\0');
  std::string failure_;
};

std::string MeasureOne(const char* claim, uint32_t round_count, uint64_t single_count,
                       uint64_t batched_count, BatchGainRun* run, ClaimRounds* rounds) {
  double single = 0;
  double batched = 0;
  AlternatingRounds(round_count,
                    {[&] { return (single = run->Single(single_count)) > 0; },
                     [&] { return (batched = run->Batched(batched_count)) > 0; }},
                    [&](uint32_t) {
                      rounds->NoteRatio(claim, batched, single);
                      rounds->Note(std::string(claim) + ": in batches, records a second", batched);
                      rounds->Note(std::string(claim) + ": single writes a second", single);
                    });
  return run->failure();
}

}  // namespace

std::string MeasureBatchGain(const BatchGainConfig& config, ClaimRounds* rounds) {
  std::string failure;
  if (!config.memory_dir.empty()) {
    BatchGainRun run(config, config.memory_dir, engine_race::SyncMode::kNone);
    failure = MeasureOne(kBatchGain, config.round_count, config.memory_records,
                         config.memory_records, &run, rounds);
  }
  if (failure.empty() && !config.disk_dir.empty()) {
    BatchGainRun run(config, config.disk_dir, engine_race::SyncMode::kEveryWrite);
    failure = MeasureOne(kBatchDurableGain, config.durable_round_count, config.durable_writes,
                         config.durable_batch_records, &run, rounds);
  }
  return failure;
}

}  // namespace harness
