#include "engine_race/index/giant_partitions.h"

#include <algorithm>

#include "engine_race/base/lower_bound.h"
#include "engine_race/index/newest.h"

namespace engine_race {

GiantPartitions::GiantPartitions(size_t max_partitions, uint32_t worker_count,
                                 const SlotTable* table)
    : max_partitions_(max_partitions),
      table_(*table),
      partitions_(std::make_unique<Partition[]>(max_partitions)),
      batches_(max_partitions * worker_count) {}

Status GiantPartitions::Allocate(size_t memory_bytes, const Placement& placement) {
  capacity_ = std::max(memory_bytes / max_partitions_ / sizeof(RoutedEntry), kMinCapacity);
  return Region::Allocate(capacity_ * max_partitions_ * sizeof(RoutedEntry), true, &memory_,
                          placement);
}

void GiantPartitions::Begin(std::span<const KeyRange> ranges) {
  count_ = ranges.size();
  low_key_ = ranges.front().first;
  high_key_ = ranges.back().last;
  first_keys_.clear();
  put_off_.clear();
  for (size_t i = 0; i < count_; ++i) {
    first_keys_.push_back(ranges[i].first);
    partitions_[i].range = ranges[i];
    partitions_[i].entries = reinterpret_cast<RoutedEntry*>(memory_.data()) + i * capacity_;
    partitions_[i].count = 0;
  }
}

void GiantPartitions::Add(uint32_t worker, const RoutedEntry& entry) {
  if (!InRound(entry.key)) return;
  // The last partition that begins at or before the key.
  size_t partition = LowerBound(first_keys_.data(), count_, entry.key);
  if (partition == count_ || first_keys_[partition] != entry.key) --partition;
  Batch& batch = batches_[worker * max_partitions_ + partition];
  // A key that is overwritten many times in a row takes one place of the batch.
  if (batch.count > 0 && batch.entries[batch.count - 1].key == entry.key) {
    RoutedEntry& last = batch.entries[batch.count - 1];
    const bool is_newer = entry.sequence != last.sequence
                              ? entry.sequence > last.sequence
                              : table_.IsLaterCopy(entry.ref.slot(), last.ref.slot());
    if (is_newer) last = entry;
    return;
  }
  batch.entries[batch.count++] = entry;
  if (batch.count == kBatch) FlushBatch(partition, &batch);
}

void GiantPartitions::Flush() {
  for (size_t i = 0; i < batches_.size(); ++i) FlushBatch(i % max_partitions_, &batches_[i]);
}

void GiantPartitions::FlushBatch(size_t index, Batch* batch) {
  if (batch->count == 0) return;
  Partition& partition = partitions_[index];
  const std::lock_guard lock(partition.mutex);
  if (partition.count + batch->count > capacity_) Squeeze(&partition);
  for (size_t i = 0; i < batch->count; ++i) {
    const RoutedEntry& entry = batch->entries[i];
    // There may be gaps between ranges, and Squeeze shrinks a range.
    if (entry.key >= partition.range.first && entry.key <= partition.range.last) {
      partition.entries[partition.count++] = entry;
    }
  }
  batch->count = 0;
}

void GiantPartitions::Sort(Partition* partition) const {
  const auto is_later_copy = [this](const RoutedEntry& a, const RoutedEntry& b) {
    return table_.IsLaterCopy(a.ref.slot(), b.ref.slot());
  };
  partition->count = KeepNewest(partition->entries, partition->count, is_later_copy);
}

void GiantPartitions::Squeeze(Partition* partition) {
  Sort(partition);
  if (partition->count <= capacity_ / 2) return;
  const size_t kept = partition->count / 2;
  const uint64_t first_put_off = partition->entries[kept].key;
  {
    const std::lock_guard lock(put_off_mutex_);
    put_off_.push_back({first_put_off, partition->range.last});
  }
  partition->range.last = first_put_off - 1;
  partition->count = kept;
}

std::span<RoutedEntry> GiantPartitions::Sorted(size_t index) {
  Partition& partition = partitions_[index];
  Sort(&partition);
  return {partition.entries, partition.count};
}

}  // namespace engine_race
