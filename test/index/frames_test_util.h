// A stand-in for the frames of values: each frame knows the key of its record.
#ifndef TEST_INDEX_FRAMES_TEST_UTIL_H_
#define TEST_INDEX_FRAMES_TEST_UTIL_H_

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "engine_race/index/bucket_index.h"
#include "test/index/index_test_util.h"
#include "test/index/views_test_util.h"

namespace engine_race::test {

using Unswizzled = Index::Unswizzled;

// The frames of one bucket. They note their slots in the bucket. One thread.
class TestFrames {
 public:
  struct Frame {
    bool used = false;
    uint64_t key = 0;
    uint32_t slot = 0;
  };

  TestFrames(uint32_t count, BucketIndex* index) : index_(*index), slots_(count), frames_(count) {
    index->set_frame_slots(slots_.data());
  }

  // Makes the record `ref` of `key` lead to a frame that no word leads to.
  bool Swizzle(uint64_t key, ValueRef ref, uint32_t frame) {
    // Release: as SetFrameSlots demands.
    slots_[frame].store(ref.slot(), std::memory_order_release);
    frames_[frame] = {index_.Swizzle(key, ref, frame), key, ref.slot()};
    return frames_[frame].used;
  }
  // Makes the newest record of `key` lead to a frame.
  bool Swizzle(uint64_t key, uint32_t frame) {
    ValueRef ref;
    return index_.Find(key, &ref) == Code::kOk && Swizzle(key, ref, frame);
  }
  // Evicts a frame and then notes another slot for it, as if it were used for another record.
  Unswizzled Unswizzle(uint32_t frame, bool only_cooling = false) {
    const Unswizzled result = index_.Unswizzle(frames_[frame].key, frame, only_cooling);
    if (result != Unswizzled::kHeated) {
      frames_[frame].used = false;
      slots_[frame].store(kOthersSlot, std::memory_order_release);
    }
    return result;
  }
  bool Cool(uint32_t frame) { return index_.Cool(frames_[frame].key, frame); }
  bool Heat(uint32_t frame) { return index_.Heat(frames_[frame].key, frame); }

  const Frame& operator[](uint32_t frame) const { return frames_[frame]; }
  uint32_t count() const { return static_cast<uint32_t>(frames_.size()); }

 private:
  static constexpr uint32_t kOthersSlot = 0x3ffffff;

  BucketIndex& index_;
  std::vector<std::atomic<uint32_t>> slots_;
  std::vector<Frame> frames_;
};

// Describes a result of a lookup: "slot 5", "frame 3", "cooling frame 3", "nothing".
inline std::string Found(Code code, ValueRef ref) {
  if (code == Code::kNotFound) return "nothing";
  if (code != Code::kOk) return "corruption";
  if (!ref.hot()) return "slot " + std::to_string(ref.slot());
  return (ref.cooling() ? "cooling frame " : "frame ") + std::to_string(ref.frame());
}
inline std::string Hot(const BucketIndex& index, uint64_t key) {
  ValueRef ref;
  const Code code = index.FindHot(key, &ref);
  return Found(code, ref);
}
inline std::string HotAt(const BucketIndex& index, uint64_t key, const View& view) {
  ValueRef ref;
  const Code code = index.FindHot(key, &ref, nullptr, {}, view.version);
  return Found(code, ref);
}
// The result of a lookup that gives slots, for readers outside the epoch.
inline std::string Cold(const BucketIndex& index, uint64_t key) {
  ValueRef ref;
  const Code code = index.Find(key, &ref);
  return Found(code, ref);
}
inline std::string ColdAt(const BucketIndex& index, uint64_t key, const View& view) {
  ValueRef ref;
  const Code code = index.Find(key, &ref, nullptr, view.version);
  return Found(code, ref);
}

// Records of the keys first, first + step ... with slots from 0 on.
inline std::vector<KeyRecord> SpacedRecords(uint32_t count, uint64_t step, uint64_t first = 0) {
  std::vector<KeyRecord> records;
  for (uint32_t i = 0; i < count; ++i) {
    records.push_back(RecordInSlot(first + i * step, i));
  }
  return records;
}

}  // namespace engine_race::test

#endif  // TEST_INDEX_FRAMES_TEST_UTIL_H_
