// A bucket with frames against maps, under random writes, swizzling, cooling, eviction, lookups and
// merges. Each frame is found for its own record and for no other. It is found until it is evicted
// or its record is superseded.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine_race/index/bucket_index.h"
#include "test/index/frames_test_util.h"
#include "test/test_util.h"

namespace engine_race {
namespace {

using test::KeyMap;
using test::TestFrames;
using test::Unswizzled;
using test::View;

class FramesPlay {
 public:
  FramesPlay(uint64_t seed, uint64_t key_space, uint32_t frame_count, size_t split_keys)
      : random_(seed),
        key_space_(key_space),
        buckets_(1, split_keys),
        frames_(frame_count, &buckets_.bucket()),
        marked_(frame_count) {
    std::vector<KeyRecord> installed;
    if (seed % 4 != 0) {
      for (uint64_t key = 0; key < key_space; key += 1 + random_() % 3) {
        installed.push_back(test::RecordInSlot(key, slot_));
        now_[key] = ValueRef(slot_, slot_ & 0xffff, false);
        ++slot_;
      }
    }
    buckets_.Install(installed);
  }

  void Step() {
    const uint64_t what = random_() % 20;
    if (what < 4) {
      WriteSome(1 + random_() % 30);
    } else if (what < 5) {
      WriteSome(100);
    } else if (what < 12) {
      SwizzleSome();
    } else if (what < 18) {
      ASSERT_NO_FATAL_FAILURE(TouchAFrame());
    } else {
      MoveViews();
    }
  }

  void Check() {
    for (uint32_t frame = 0; frame < frames_.count(); ++frame) {
      if (frames_[frame].used) CheckFrame(frame);
    }
    std::map<uint32_t, std::pair<uint64_t, uint32_t>> records;
    CheckWords(kLatestVersion, now_, &records);
    ASSERT_NO_FATAL_FAILURE(test::ExpectShows(index(), kLatestVersion, now_, key_space_));
    for (const Watched& each : views_) {
      CheckWords(each.view.version, each.shown, &records);
      ASSERT_NO_FATAL_FAILURE(
          test::ExpectShows(index(), each.view.version, each.shown, key_space_));
    }
  }

  void End() {
    for (uint32_t frame = 0; frame < frames_.count(); ++frame) frames_.Unswizzle(frame);
    for (uint64_t key = 0; key < key_space_; ++key) {
      ValueRef ref;
      const bool found = index().FindHot(key, &ref) == Code::kOk;
      ASSERT_FALSE(found && ref.hot()) << key;
    }
    for (Watched& each : views_) ViewRegistry::Release(&each.view);
  }

 private:
  struct Watched {
    View view;
    KeyMap shown;
  };

  BucketIndex& index() { return buckets_.bucket(); }

  bool IsNewest(uint32_t frame) {
    const auto found = now_.find(frames_[frame].key);
    return found != now_.end() && found->second.slot() == frames_[frame].slot;
  }

  void WriteSome(uint64_t count) {
    const uint64_t base = random_() % key_space_;
    const bool appends = random_() % 3 == 0;
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t key = (appends ? base + i : random_()) % key_space_;
      const bool tombstone = random_() % 5 == 0;
      buckets_.Write(key, slot_, tombstone);
      if (tombstone) {
        now_.erase(key);
      } else {
        now_[key] = ValueRef(slot_, slot_ & 0xffff, false);
      }
      ++slot_;
    }
  }

  // Also with references that are out of date, as after a slow read from the log.
  void SwizzleSome() {
    for (uint32_t frame = 0; frame < frames_.count(); ++frame) {
      if (frames_[frame].used || random_() % 4 == 0) continue;
      const uint64_t key = random_() % key_space_;
      ValueRef ref;
      if (index().Find(key, &ref) != Code::kOk) continue;
      const bool already = test::Hot(index(), key).find("frame") != std::string::npos;
      const bool late = random_() % 8 == 0;
      if (late) {
        buckets_.Write(key, slot_);
        now_[key] = ValueRef(slot_, slot_ & 0xffff, false);
        ++slot_;
      }
      ASSERT_EQ(frames_.Swizzle(key, ref, frame), !late && !already) << key;
      marked_[frame] = false;
    }
  }

  void TouchAFrame() {
    const auto frame = static_cast<uint32_t>(random_() % frames_.count());
    if (!frames_[frame].used) return;
    const bool newest = IsNewest(frame);
    const uint64_t what = random_() % 4;
    if (what < 2) {
      ASSERT_EQ(what == 0 ? frames_.Cool(frame) : frames_.Heat(frame), newest);
      if (newest) marked_[frame] = what == 0;
      return;
    }
    const bool only_cooling = what == 2;
    const Unswizzled wanted = !newest                           ? Unswizzled::kOrphaned
                              : only_cooling && !marked_[frame] ? Unswizzled::kHeated
                                                                : Unswizzled::kDone;
    ASSERT_EQ(frames_.Unswizzle(frame, only_cooling), wanted);
  }

  void MoveViews() {
    if (views_.size() < 4) {
      views_.push_back({buckets_.Take(), now_});
      return;
    }
    std::swap(views_[random_() % views_.size()], views_.back());
    ViewRegistry::Release(&views_.back().view);
    views_.pop_back();
  }

  // The frame of a newest record is found, with its cooling bit.
  void CheckFrame(uint32_t frame) {
    if (!IsNewest(frame)) return;
    ValueRef ref;
    ASSERT_EQ(index().FindHot(frames_[frame].key, &ref), Code::kOk);
    ASSERT_TRUE(ref.hot()) << frames_[frame].key;
    ASSERT_EQ(ref.frame(), frame);
    ASSERT_EQ(ref.cooling(), marked_[frame]);
  }

  // A frame that is found at `version` belongs to the record that a view shows, and is in use for
  // it.
  void CheckWords(uint64_t version, const KeyMap& shown,
                  std::map<uint32_t, std::pair<uint64_t, uint32_t>>* records) {
    for (const auto& [key, wanted] : shown) {
      ValueRef ref;
      ASSERT_EQ(index().FindHot(key, &ref, nullptr, {}, version), Code::kOk);
      ASSERT_EQ(ref.value_checksum(), wanted.value_checksum());
      if (!ref.hot()) continue;
      ASSERT_TRUE(frames_[ref.frame()].used) << key;
      ASSERT_EQ(frames_[ref.frame()].key, key);
      ASSERT_EQ(frames_[ref.frame()].slot, wanted.slot()) << key;
      const std::pair<uint64_t, uint32_t> record = {key, wanted.slot()};
      ASSERT_EQ(records->emplace(ref.frame(), record).first->second, record);
    }
  }

  std::mt19937_64 random_;
  const uint64_t key_space_;
  test::WatchedBuckets buckets_;
  TestFrames frames_;
  std::vector<bool> marked_;
  uint32_t slot_ = 0;
  KeyMap now_;
  std::vector<Watched> views_;
};

TEST(BucketFramesModelTest, EachFrameIsFoundForItsOwnRecord) {
  for (uint64_t seed = 1; seed <= test::Sized(40, 6); ++seed) {
    SCOPED_TRACE(seed);
    FramesPlay play(seed, seed % 3 == 0 ? 40 : 500, seed % 5 == 0 ? 1 : 64,
                    seed % 2 == 0 ? 100 : 1000);
    for (int i = 0; i < 300; ++i) {
      SCOPED_TRACE(i);
      ASSERT_NO_FATAL_FAILURE(play.Step());
      ASSERT_NO_FATAL_FAILURE(play.Check());
    }
    play.End();
  }
}

}  // namespace
}  // namespace engine_race
