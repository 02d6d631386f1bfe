// The partitions of one round of a giant build: entries routed by key into buffers of fixed size.
// giant_build.h says why a buffer never grows.
//
// Thread safety: Add from many threads, each with its own worker number. The other calls from one
// thread, or from one thread for each partition.
#ifndef ENGINE_RACE_INDEX_GIANT_PARTITIONS_H_
#define ENGINE_RACE_INDEX_GIANT_PARTITIONS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "engine_race/base/key_range.h"
#include "engine_race/base/memory.h"
#include "engine_race/base/placement.h"
#include "engine_race/base/status.h"
#include "engine_race/index/value_ref.h"
#include "engine_race/log/slot_table.h"

namespace engine_race {

struct RoutedEntry {
  uint64_t key;
  uint64_t sequence;
  ValueRef ref;
};
static_assert(sizeof(RoutedEntry) == 24);

class GiantPartitions {
 public:
  // The entries that a worker collects for one partition before it locks the partition.
  static constexpr size_t kBatch = 64;
  static constexpr size_t kMinCapacity = 4 * kBatch;

  // For at most `max_partitions` partitions at a time. `table` says which of two copies of a record
  // is the later one. May throw std::bad_alloc.
  GiantPartitions(size_t max_partitions, uint32_t worker_count, const SlotTable* table);
  Status Allocate(size_t memory_bytes, const Placement& placement);

  // Begins a round with these ranges, ascending and disjoint.
  void Begin(std::span<const KeyRange> ranges);
  // Routes one entry. Entries of other ranges are ignored.
  void Add(uint32_t worker, const RoutedEntry& entry);
  // Routes the entries that workers still hold in batches.
  void Flush();

  bool InRound(uint64_t key) const { return key >= low_key_ && key <= high_key_; }
  size_t count() const { return count_; }
  // Sorts a partition and keeps the newest record of each key.
  std::span<RoutedEntry> Sorted(size_t partition);
  // The range that the partition ended up with.
  KeyRange range(size_t partition) const { return partitions_[partition].range; }
  // The ranges that were put off to a later round, in no order.
  const std::vector<KeyRange>& put_off() const { return put_off_; }

 private:
  struct Partition {
    std::mutex mutex;
    KeyRange range{};
    RoutedEntry* entries = nullptr;
    size_t count = 0;
  };
  struct Batch {
    size_t count = 0;
    RoutedEntry entries[kBatch];
  };

  void FlushBatch(size_t partition, Batch* batch);
  // Makes room in a full partition. To be called under its mutex.
  void Squeeze(Partition* partition);
  // Leaves the newest record of each key, by key.
  void Sort(Partition* partition) const;

  const size_t max_partitions_;
  const SlotTable& table_;
  Region memory_;
  size_t capacity_ = 0;
  size_t count_ = 0;
  uint64_t low_key_ = 0;
  uint64_t high_key_ = 0;
  std::unique_ptr<Partition[]> partitions_;
  std::vector<uint64_t> first_keys_;
  // Indexed by worker * max_partitions_ + partition.
  std::vector<Batch> batches_;
  std::mutex put_off_mutex_;
  std::vector<KeyRange> put_off_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_GIANT_PARTITIONS_H_
