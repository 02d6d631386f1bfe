// The calls of a random life.
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "engine_race/base/value_layout.h"
#include "test/power/power_run.h"
#include "test/test_util.h"

namespace engine_race::test {

uint64_t PowerRun::DrawKey(const PowerPhase& phase, uint32_t thread, uint32_t bucket,
                           Random* random) const {
  // A thread by itself may write to any lane.
  const uint32_t lane = phase.thread_count > 1
                            ? thread
                            : static_cast<uint32_t>(Below(random, LaneNames::kThreadCount));
  return names_.KeyOf(bucket, lane, Below(random, phase.key_count));
}

// 0: a deletion.
uint64_t PowerRun::DrawVersion(const PowerPhase& phase, Random* random) {
  if (Chance(random, phase.delete_chance)) return 0;
  const std::lock_guard<std::mutex> lock(mutex_);
  return next_version_++;
}

// Whether `count` records fit into the bucket besides those that other threads write at once.
bool PowerRun::Fits(const PowerPhase& phase, uint32_t bucket, uint64_t count) const {
  if (life_ == Life::kReuse) return true;
  const uint64_t others = (phase.thread_count - 1) * (phase.batch_chance > 0 ? kMaxBatchWrites : 1);
  return history_->RecordCount(bucket) + count + others <= geometry_.bucket_capacity_records;
}

bool PowerRun::WriteOne(const PowerPhase& phase, uint32_t thread, Random* random) {
  const auto bucket = static_cast<uint32_t>(Below(random, names_.bucket_count));
  if (!Fits(phase, bucket, 1)) return true;
  const uint64_t key = DrawKey(phase, thread, bucket, random);
  const uint64_t version = DrawVersion(phase, random);
  const size_t number = history_->Begin(key, version);
  const Status status =
      version == 0 ? store_->Delete(test::KeyOf(key))
                   : store_->Write(test::KeyOf(key), ValueOf(key, version, geometry_.value_bytes));
  if (!status.ok()) return ExpectedFailure(status) || Fail("write: " + status.ToString());
  const bool durable = sync_mode_ != SyncMode::kNone;
  history_->Acknowledge(key, number, durable);
  if (durable) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++tally_->durable_writes;
  }
  return true;
}

bool PowerRun::WriteMany(const PowerPhase& phase, uint32_t thread, Random* random) {
  const uint64_t count =
      Chance(random, 0.05) ? 2 + Below(random, kMaxBatchWrites - 1) : 2 + Below(random, 6);
  std::map<uint64_t, uint64_t> writes;
  std::vector<uint64_t> counts(names_.bucket_count);
  for (uint64_t i = 0; i < count; ++i) {
    const auto bucket = static_cast<uint32_t>(Below(random, names_.bucket_count));
    if (!Fits(phase, bucket, counts[bucket] + 1)) continue;
    const uint64_t key = DrawKey(phase, thread, bucket, random);
    if (writes.contains(key)) continue;
    writes[key] = DrawVersion(phase, random);
    ++counts[bucket];
  }
  const bool durable = sync_mode_ != SyncMode::kNone;
  uint64_t batch_number = 0;
  if (durable) {
    const std::lock_guard<std::mutex> lock(mutex_);
    batch_number = next_batch_++;
  }
  WriteBatch batch(geometry_.value_bytes);
  std::vector<std::pair<uint64_t, size_t>> numbers;
  for (const auto& [key, version] : writes) {
    const Status added =
        version == 0 ? batch.Delete(test::KeyOf(key))
                     : batch.Put(test::KeyOf(key), ValueOf(key, version, geometry_.value_bytes));
    if (!added.ok()) return Fail("batch: " + added.ToString());
    numbers.emplace_back(key, history_->Begin(key, version, batch_number));
  }
  const Status status = store_->Write(batch);
  if (!status.ok()) return ExpectedFailure(status) || Fail("batch: " + status.ToString());
  for (const auto& [key, number] : numbers) history_->Acknowledge(key, number, durable);
  const std::lock_guard<std::mutex> lock(mutex_);
  ++tally_->batches;
  if (durable) tally_->durable_writes += numbers.size();
  return true;
}

bool PowerRun::CompactOne() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++compacting_count_;
  }
  const Status status = store_->Compact();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    --compacting_count_;
  }
  return status.ok() || ExpectedFailure(status) || Fail("compact: " + status.ToString());
}

void PowerRun::TallyReclaim() {
  const StoreStats stats = store_->Stats();
  const uint32_t slot_bytes = ValueLayout(geometry_.value_bytes).slot_bytes();
  tally_->moved_records += stats.reclaim_moved_bytes / slot_bytes;
  tally_->freed_records += stats.reclaim_freed_bytes / slot_bytes;
}

bool PowerRun::SyncOne() {
  const std::vector<size_t> acknowledged = history_->Acknowledged();
  const Status status = store_->Sync();
  if (!status.ok()) return ExpectedFailure(status) || Fail("sync: " + status.ToString());
  history_->MarkDurable(acknowledged);
  return true;
}

bool PowerRun::ReadOne(const PowerPhase& phase, Random* random) {
  const uint64_t key = names_.KeyOf(static_cast<uint32_t>(Below(random, names_.bucket_count)),
                                    static_cast<uint32_t>(Below(random, LaneNames::kThreadCount)),
                                    Below(random, phase.key_count));
  std::string value;
  uint64_t version = 0;
  const Status status = store_->Read(test::KeyOf(key), &value);
  if (status.code() == Code::kNotFound) return true;
  if (!status.ok()) return Fail("read: " + status.ToString());
  return ParseValue(key, value, &version, geometry_.value_bytes) || Fail("read: a mixed value");
}

}  // namespace engine_race::test
