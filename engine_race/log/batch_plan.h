// The records of a WriteBatch, bucket by bucket.
//
// A value type for one thread; Fill keeps the memory of the plan before.
#ifndef ENGINE_RACE_LOG_BATCH_PLAN_H_
#define ENGINE_RACE_LOG_BATCH_PLAN_H_

#include <cstdint>
#include <span>
#include <vector>

#include "engine_race/base/write_batch.h"
#include "engine_race/log/batch_format.h"
#include "engine_race/log/entry_codec.h"
#include "engine_race/log/geometry.h"

namespace engine_race {

class AppendListener;

// The records of one bucket: items [begin, end) of the plan, numbered from first_sequence on.
struct BatchPart {
  uint32_t bucket = 0;
  uint32_t begin = 0;
  uint32_t end = 0;
  // Set while the batch holds the bucket. The listener is the bucket's; null when it has none.
  bool held = false;
  AppendListener* listener = nullptr;
  uint64_t first_sequence = 0;
  // Set once the records have places, which the places words name. Not in a large batch.
  bool placed = false;
  uint32_t value_places = 0;
  uint32_t key_places = 0;
  // Whether a full group waits to be written to its log.
  bool has_full_group = false;

  uint32_t size() const { return end - begin; }
  uint64_t SequenceOf(uint32_t item) const { return first_sequence + (item - begin); }
  uint64_t end_sequence() const { return first_sequence + size(); }
};

class BatchPlan {
 public:
  // Items, and the end of a part, are numbered with 32 bits.
  static constexpr uint64_t kMaxRecords = UINT32_MAX;

  // An index puts each record into a sorted array. That is much faster in order of key, so more
  // records than this in one bucket are sorted.
  static constexpr uint32_t kMaxUnsortedRecords = 1024;

  // Sorts the records of the batch, which must live on, by bucket. Those of a bucket keep their
  // order. If there are more than kMaxUnsortedRecords they are sorted by key, and those of a key
  // keep theirs. May throw std::bad_alloc.
  void Fill(const Geometry& geometry, std::span<const WriteBatch::Record> records);

  size_t size() const { return order_.size(); }
  std::span<BatchPart> parts() { return parts_; }
  std::span<const BatchPart> parts() const { return parts_; }
  const WriteBatch::Record& record(uint32_t item) const {
    return records_[static_cast<uint32_t>(order_[item])];
  }
  // The item of a part as its bucket is to have it, without its slot.
  KeyRecord RecordOf(const BatchPart& part, uint32_t item) const;
  // The counts that the held buckets are to have, for an intent.
  void FillCounts(std::vector<format::BatchIntentEntry>* counts) const;

 private:
  void SortByKey(const BatchPart& part);

  std::span<const WriteBatch::Record> records_;
  std::vector<uint64_t> order_;  // bucket above, number of the record below
  std::vector<BatchPart> parts_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_BATCH_PLAN_H_
