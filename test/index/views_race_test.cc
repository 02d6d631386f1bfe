// Views of all buckets, taken while a writer writes to each in turn.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

#include "engine_race/index/bucket_index.h"
#include "test/index/views_test_util.h"
#include "test/test_util.h"

namespace engine_race {
namespace {

using test::View;
using test::WatchedBuckets;

constexpr uint64_t kLast = ~uint64_t{0};

// A writer writes rounds of all buckets, one bucket after another. A view may show a round and the
// one before it, always the same, and never an older state than an earlier view.
TEST(ViewsRaceTest, ViewsCutAllBucketsAtOnce) {
  constexpr size_t kBuckets = 8;
  constexpr uint64_t kKeys = 40;
  const uint32_t rounds = static_cast<uint32_t>(test::Sized(400, 60));
  WatchedBuckets buckets(kBuckets, 50);
  for (size_t b = 0; b < kBuckets; ++b) {
    std::vector<KeyRecord> installed;
    for (uint32_t key = 0; key < kKeys; ++key) installed.push_back(test::RecordInSlot(key, key));
    buckets.Install(installed, b);
  }
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> wrong{0};
  std::vector<std::thread> readers;
  for (uint64_t reader = 0; reader < 3; ++reader) {
    readers.emplace_back([&, reader] {
      std::mt19937_64 random(reader);
      View held = buckets.Take();
      while (!stop) {
        View view = buckets.Take();
        if (random() % 4 == 0) ViewRegistry::RenewAt(view.version, &held);
        const View& used = random() % 2 == 0 ? view : held;
        for (int pass = 0; pass < 2; ++pass) {
          uint32_t least = ~uint32_t{0};
          uint32_t last = ~uint32_t{0};
          std::vector<uint32_t> seen;
          for (size_t b = 0; b < kBuckets; ++b) {
            std::vector<IndexEntry> entries;
            bool complete = false;
            if (buckets.bucket(b).Collect(0, kLast, ~size_t{0}, &entries, &complete,
                                          used.version) != Code::kOk ||
                entries.size() != kKeys) {
              ++wrong;
              continue;
            }
            for (const IndexEntry& entry : entries) {
              const uint32_t round = entry.ref.slot() / kKeys;
              // The order of writing: a later bucket shows the same round or the one before.
              if (round > last) ++wrong;
              last = round;
              least = std::min(least, round);
              ValueRef ref;
              if (buckets.bucket(b).Find(entry.key, &ref, nullptr, used.version) != Code::kOk ||
                  !test::SameRef(ref, entry.ref)) {
                ++wrong;
              }
            }
            if (entries[0].ref.slot() / kKeys > least + 1) ++wrong;
          }
        }
        ViewRegistry::Release(&view);
      }
      ViewRegistry::Release(&held);
    });
  }
  std::thread sweeper([&] {
    while (!stop) buckets.shared().Sweep(test::kNever);
  });
  for (uint32_t round = 1; round <= rounds; ++round) {
    for (size_t b = 0; b < kBuckets; ++b) {
      for (uint32_t key = 0; key < kKeys; ++key) {
        buckets.Write(key, round * static_cast<uint32_t>(kKeys) + key, false, b);
      }
    }
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  sweeper.join();
  EXPECT_EQ(wrong, 0U);
  test::ExpectNothingPinned(&buckets.shared());
}

}  // namespace
}  // namespace engine_race
