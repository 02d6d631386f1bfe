// Random walks of many iterators at once, at states that writes have moved away from, every answer
// compared with a map of that state.
//
// MODEL_SEED makes one run anew, the number that a failure prints.
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <random>

#include "test/scan/iterator_test_util.h"

namespace engine_race::test {
namespace {

using Rng = std::mt19937_64;

// An iterator beside the state that it should show and the key that it should stand at.
struct Walker {
  Iterator iterator;
  State state;
  std::optional<uint64_t> at;
  uint64_t first = 0;
  uint64_t last = ~uint64_t{0};  // first > last: no keys
  uint64_t refresh_every_steps = 0;
  uint64_t steps = 0;

  void StandAtOrAfter(uint64_t key) {
    const auto found = state.lower_bound(std::max(key, first));
    at = found != state.end() && found->first <= last ? std::optional(found->first) : std::nullopt;
  }
  void StandAtOrBefore(uint64_t key) {
    auto after = state.upper_bound(std::min(key, last));
    at = after != state.begin() && (--after)->first >= first ? std::optional(after->first)
                                                             : std::nullopt;
  }
};

class WalkModel {
 public:
  explicit WalkModel(uint64_t seed) : rng_(seed), store_(1u << rng_() % 4) {
    const uint64_t spread = rng_() % 3;
    for (uint64_t i = 0; i < 1 + rng_() % 600; ++i) {
      keys_.push_back(spread == 0 ? SpreadKey(i) : spread == 1 ? i * 3 : i << 53);
    }
    keys_.push_back(~uint64_t{0});
    for (uint64_t i = 0; i < rng_() % 1000; ++i) Write();
    store_.OpenPool();
    walkers_.resize(1 + rng_() % 6);
    for (Walker& walker : walkers_) Make(&walker);
  }

  void Run(uint64_t step_count) {
    for (uint64_t i = 0; i < step_count && !::testing::Test::HasFailure(); ++i) Step();
    for (Walker& walker : walkers_) {
      if (walker.refresh_every_steps != 0) continue;
      ExpectShows(&walker.iterator,
                  State(walker.state.lower_bound(walker.first),
                        walker.first > walker.last ? walker.state.lower_bound(walker.first)
                                                   : walker.state.upper_bound(walker.last)));
    }
  }

 private:
  uint64_t PickKey() {
    return rng_() % 8 == 0 ? rng_() : keys_[rng_() % keys_.size()] + rng_() % 3 - 1;
  }

  void Write() {
    const uint64_t key = keys_[rng_() % keys_.size()];
    if (rng_() % 4 == 0) {
      store_.Delete(key);
    } else {
      store_.Put(key, ++version_);
    }
  }

  void Make(Walker* walker) {
    IteratorOptions options;
    options.prefetch_records = rng_() % 2 == 0 ? 0 : rng_() % 70;
    options.refresh_every_steps = rng_() % 4 == 0 ? 1 + rng_() % 40 : 0;
    walker->refresh_every_steps = options.refresh_every_steps;
    walker->steps = 0;
    walker->at.reset();
    const std::string lower = rng_() % 3 == 0 ? KeyOf(PickKey()) : "";
    const std::string upper = rng_() % 3 == 0 ? KeyOf(PickKey()) : "";
    options.lower_bound = lower;
    options.upper_bound = upper;
    walker->first = lower.empty() ? 0 : DecodeKey(lower.data());
    walker->last = ~uint64_t{0};
    if (!upper.empty()) {
      const uint64_t end = DecodeKey(upper.data());
      walker->last = end - 1;
      if (end <= walker->first) walker->first = 1, walker->last = 0;
    }
    if (!snapshots_.empty() && rng_() % 2 == 0) {
      const auto& [snapshot, state] = snapshots_[rng_() % snapshots_.size()];
      options.snapshot = &snapshot;
      walker->state = state;
      walker->iterator = store_.New(options);
    } else {
      walker->state = store_.model;
      walker->iterator = store_.New(options);
    }
  }

  void Step() {
    const uint64_t draw = rng_() % 1000;
    Walker& walker = walkers_[rng_() % walkers_.size()];
    if (draw < 250) return Write();
    if (draw < 260) return TakeOrRelease();
    if (draw < 265) return Make(&walker);
    if (draw < 285) return Refresh(&walker);
    if (draw < 400) {
      Seek(&walker);
    } else {
      Move(&walker, draw < 700);
    }
    Check(&walker);
  }

  void TakeOrRelease() {
    if (snapshots_.size() < 5 && rng_() % 2 == 0) {
      snapshots_.emplace_back(store_.TakeSnapshot(), store_.model);
    } else if (!snapshots_.empty()) {
      std::swap(snapshots_[rng_() % snapshots_.size()], snapshots_.back());
      snapshots_.pop_back();
    }
  }

  void Refresh(Walker* walker) {
    const bool keep = rng_() % 2 == 0;
    Status status;
    if (!snapshots_.empty() && rng_() % 2 == 0) {
      const auto& [snapshot, state] = snapshots_[rng_() % snapshots_.size()];
      status = keep ? walker->iterator.RefreshKeepPosition(snapshot)
                    : walker->iterator.Refresh(snapshot);
      walker->state = state;
    } else {
      status = keep ? walker->iterator.RefreshKeepPosition() : walker->iterator.Refresh();
      walker->state = store_.model;
    }
    EXPECT_TRUE(status.ok()) << status.ToString();
    if (!keep) walker->at.reset();
    if (walker->at.has_value()) walker->StandAtOrAfter(*walker->at);
    Check(walker);
  }

  void Seek(Walker* walker) {
    const uint64_t key = PickKey();
    switch (rng_() % 6) {
      case 0:
        walker->iterator.SeekToFirst();
        return walker->StandAtOrAfter(0);
      case 1:
        walker->iterator.SeekToLast();
        return walker->StandAtOrBefore(~uint64_t{0});
      case 2:
      case 3:
        walker->iterator.SeekForPrev(KeyOf(key));
        return walker->StandAtOrBefore(key);
      default:
        walker->iterator.Seek(KeyOf(key));
        return walker->StandAtOrAfter(key);
    }
  }

  void Move(Walker* walker, bool forward) {
    for (uint64_t i = rng_() % 30; i > 0; --i) {
      if (!walker->at.has_value()) return;
      if (walker->refresh_every_steps != 0 && ++walker->steps == walker->refresh_every_steps) {
        walker->steps = 0;
        walker->state = store_.model;
      }
      const uint64_t key = *walker->at;
      walker->at.reset();
      if (forward) {
        walker->iterator.Next();
        if (key < walker->last) walker->StandAtOrAfter(key + 1);
      } else {
        walker->iterator.Prev();
        if (key > walker->first) walker->StandAtOrBefore(key - 1);
      }
    }
  }

  void Check(Walker* walker) {
    ASSERT_TRUE(walker->iterator.status().ok()) << walker->iterator.status().ToString();
    ASSERT_EQ(walker->iterator.Valid(), walker->at.has_value());
    if (!walker->at.has_value()) return;
    ASSERT_EQ(KeyAt(walker->iterator), *walker->at);
    if (rng_() % 3 == 0) return;
    ASSERT_EQ(VersionAt(&walker->iterator), walker->state.at(*walker->at));
  }

  Rng rng_;
  IteratorStore store_;
  std::vector<uint64_t> keys_;
  uint64_t version_ = 0;
  std::vector<std::pair<Snapshot, State>> snapshots_;
  std::vector<Walker> walkers_;
};

TEST(IteratorModelTest, RandomWalksAtManyStates) {
  if (std::getenv("MODEL_SEED") != nullptr) {
    WalkModel(FromEnvironment("MODEL_SEED", 0)).Run(4000);
    return;
  }
  const uint64_t seed = std::random_device()();
  for (uint64_t i = 0; i < Sized(60, 10) && !HasFailure(); ++i) {
    SCOPED_TRACE("MODEL_SEED=" + std::to_string(seed + i));
    WalkModel(seed + i).Run(4000);
  }
}

}  // namespace
}  // namespace engine_race::test
