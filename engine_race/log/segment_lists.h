// Where the rows of all buckets lie, for readers without a lock: see SegmentTable.
//
// Thread safety: Find and end by any thread at any time, lock-free; the other calls by one at a
// time. Owner of the lists.
#ifndef ENGINE_RACE_LOG_SEGMENT_LISTS_H_
#define ENGINE_RACE_LOG_SEGMENT_LISTS_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace engine_race {

// A place in a key file.
struct SegmentPlace {
  uint32_t file = 0;
  uint32_t place = 0;
};

class SegmentLists {
 public:
  explicit SegmentLists(uint32_t bucket_count) : lists_(bucket_count), ends_(bucket_count) {}

  // False: the segment has no place.
  bool Find(uint32_t bucket, uint64_t index, SegmentPlace* place) const {
    // Acquire, of the release in Lengthen: a reader that finds a list sees its length and words.
    const std::atomic<uint64_t>* const list = lists_[bucket].load(std::memory_order_acquire);
    if (list == nullptr || index >= list[0].load(std::memory_order_relaxed)) return false;
    // Acquire, of the release in Store: the entry of a place that is found was written.
    const uint64_t word = list[1 + index].load(std::memory_order_acquire);
    if (word == 0) return false;
    *place = {static_cast<uint32_t>(word >> 32) - 1, static_cast<uint32_t>(word)};
    return true;
  }
  // No segment of the bucket from this one on has a place.
  uint64_t end(uint32_t bucket) const {
    // Acquire, of the release in Store.
    return ends_[bucket].load(std::memory_order_acquire);
  }

  // Makes room for so many segments. May throw std::bad_alloc; the other calls throw nothing.
  void Lengthen(uint32_t bucket, uint64_t wanted_length);
  void Set(uint32_t bucket, uint64_t index, const SegmentPlace& place) noexcept {
    Store(bucket, index, uint64_t{place.file + 1} << 32 | place.place);
  }
  void Clear(uint32_t bucket, uint64_t index) noexcept { Store(bucket, index, 0); }
  // The sum of all ends if the bucket had that segment.
  uint64_t LengthWith(uint32_t bucket, uint64_t index) const {
    return length_ - end(bucket) + std::max(end(bucket), index + 1);
  }

 private:
  void Store(uint32_t bucket, uint64_t index, uint64_t word) noexcept;

  // Of each bucket: its count of words, and then a word for each segment. It has the place's file
  // plus one and the place, from the top bit down. A list that is too short is replaced by a longer
  // one, and kept for its readers.
  std::vector<std::atomic<std::atomic<uint64_t>*>> lists_;
  std::vector<std::atomic<uint64_t>> ends_;
  std::vector<std::unique_ptr<std::atomic<uint64_t>[]>> owned_lists_;
  uint64_t length_ = 0;  // the sum of ends_
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_SEGMENT_LISTS_H_
