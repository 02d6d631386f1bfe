// Makes the iterators of a store and keeps the memory of released ones for the next; reads ranges
// of what a snapshot shows.
//
// Released iterators wait in shards, of which each thread uses one. Taking one or giving it back is
// one atomic exchange of a word that other threads leave alone. A shard that is full frees what it
// is given.
//
// Thread-safe. Outlived by its iterators, which then delete themselves.
#ifndef ENGINE_RACE_SCAN_ITERATOR_POOL_H_
#define ENGINE_RACE_SCAN_ITERATOR_POOL_H_

#include <array>
#include <atomic>
#include <cstdint>

#include "engine_race/base/key_range.h"
#include "engine_race/base/status.h"
#include "engine_race/scan/bounds.h"
#include "engine_race/scan/iterator.h"
#include "engine_race/scan/range_reader.h"
#include "engine_race/scan/scan_context.h"
#include "engine_race/scan/window_pool.h"
#include "engine_race/task/point_reader.h"

namespace engine_race {

class IteratorPool {
 public:
  // Borrows the context and the windows of `ranges`, which outlives it.
  explicit IteratorPool(RangeReader* ranges);
  ~IteratorPool();

  // kInvalidArgument for bounds of another size and a snapshot of another store; kOutOfMemory.
  // *iterator is then left as it was.
  Status New(const IteratorOptions& options, Iterator* iterator);

  // kInvalidArgument for a snapshot that is not taken, or of another store.
  Status CheckSnapshot(const Snapshot& snapshot) const;

  // As RangeReader::Scan, of what a snapshot shows; it may be released meanwhile.
  Status Scan(const Snapshot& snapshot, const KeyRange& range, const RecordFn& visit);

  // Of the iterators that wait to be used again.
  uint64_t memory_bytes() const;

 private:
  friend class Iterator;

  // The bytes stand beside the pointer, so that a thread that counts does not hold up one that
  // takes.
  struct Slot {
    std::atomic<Iterator::Impl*> impl{nullptr};
    std::atomic<uint64_t> memory_bytes{0};
  };
  static constexpr size_t kShardSlots = 4;
  static constexpr size_t kShardCount = 64;
  struct alignas(64) Shard {
    std::array<Slot, kShardSlots> slots;
  };

  Shard& OwnShard();
  // A released iterator's, or null.
  Iterator::Impl* Take();
  // Keeps an iterator that ended, or deletes it.
  void Give(Iterator::Impl* impl) noexcept;

  ScanContext& context_;
  WindowPool& window_pool_;
  const PointReader points_;
  std::array<Shard, kShardCount> shards_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_SCAN_ITERATOR_POOL_H_
