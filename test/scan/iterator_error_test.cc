// What iterators say about values that cannot be read or fail their check, about buckets that are
// damaged, and about memory that is refused.
#include <fcntl.h>
#include <gtest/gtest.h>

#include "engine_race/base/sys.h"
#include "test/index/refused_memory.h"
#include "test/scan/iterator_fixture.h"

namespace engine_race::test {
namespace {

class IteratorErrorTest : public IteratorTest {
 protected:
  // Over records whose values are right to one whose value may not be.
  Iterator WalkTo(uint64_t last_key, const std::vector<uint64_t>& keys, uint32_t prefetch) {
    IteratorOptions options;
    options.prefetch_records = prefetch;
    Iterator iterator = store_.New(options);
    iterator.Seek(KeyOf(keys[0]));
    for (const uint64_t key : keys) {
      ExpectAt(iterator, key);
      EXPECT_EQ(VersionAt(&iterator), 1u);
      iterator.Next();
    }
    ExpectAt(iterator, last_key);
    return iterator;
  }
};

TEST_F(IteratorErrorTest, ADamagedValueEndsTheWalkUntilTheNextSeek) {
  DamageValue(1, 99);  // KeyIn(1, 100)
  for (const uint32_t prefetch : {0u, 16u}) {
    Iterator iterator = WalkTo(KeyIn(1, 100), {KeyIn(1, 98), KeyIn(1, 99)}, prefetch);
    EXPECT_TRUE(iterator.value().empty());
    EXPECT_FALSE(iterator.Valid());
    EXPECT_EQ(iterator.status().code(), Code::kCorruption);
    EXPECT_NE(iterator.status().message().find("bucket 1, slot 99"), std::string::npos);
    iterator.Next();
    EXPECT_FALSE(iterator.Valid());
    EXPECT_EQ(iterator.status().code(), Code::kCorruption);
    iterator.Seek(KeyOf(KeyIn(1, 101)));
    EXPECT_EQ(VersionAt(&iterator), 1u);
    EXPECT_TRUE(iterator.status().ok());
    // Keys alone do not need the value.
    uint64_t count = 0;
    for (iterator.SeekToFirst(); iterator.Valid(); iterator.Next()) ++count;
    EXPECT_EQ(count, store_.model.size());
  }
  bool named = false;
  for (const std::string& message : store_.messages()) {
    named = named || message.find("bucket 1, slot 99") != std::string::npos;
  }
  EXPECT_TRUE(named);
}

TEST_F(IteratorErrorTest, WithoutVerificationADamagedValueIsGivenAsItIs) {
  store_.options.verify_checksums = false;
  store_.OpenPool();
  DamageValue(1, 99);
  Iterator iterator = store_.New();
  iterator.Seek(KeyOf(KeyIn(1, 100)));
  EXPECT_EQ(iterator.value().size(), kValueBytes);
  EXPECT_EQ(VersionAt(&iterator), 0u);
}

TEST_F(IteratorErrorTest, AValueThatCannotBeReadIsAnIoErrorUntilItCan) {
  const SlotLocation location = store_.log->slots().LocateValues(2, 200);
  const std::string path = store_.dir.Join(location.file->name());
  UniqueFd file;
  ASSERT_TRUE(sys::OpenAt(AT_FDCWD, path, O_RDWR, 0, &file).ok());
  // From slot 200 of bucket 2 up to the end of the file.
  const uint64_t logged = store_.log->LoggedValueWatermark(2);
  std::string bytes((logged - 200) * kValueBytes, '\0');
  ASSERT_TRUE(sys::PreadFull(file.get(), bytes.data(), bytes.size(), location.offset).ok());
  ASSERT_TRUE(sys::Truncate(file.get(), location.offset).ok());
  for (const uint32_t prefetch : {0u, 8u}) {
    Iterator iterator = WalkTo(
        KeyIn(2, 201), {KeyIn(2, 197), KeyIn(2, 198), KeyIn(2, 199), KeyIn(2, 200)}, prefetch);
    EXPECT_TRUE(iterator.value().empty());
    EXPECT_EQ(iterator.status().code(), Code::kIOError);
  }
  Iterator iterator = store_.New();
  ASSERT_TRUE(sys::PwriteFull(file.get(), bytes.data(), bytes.size(), location.offset).ok());
  ASSERT_TRUE(sys::Fsync(file.get()).ok());
  iterator.Seek(KeyOf(KeyIn(2, 201)));
  EXPECT_EQ(VersionAt(&iterator), 1u);
}

TEST_F(IteratorErrorTest, ADamagedBucketEndsTheWalkAfterEverythingBeforeIt) {
  store_.ClosePool();
  store_.index.reset();
  // A lost entry may have been anything's newest.
  Overwrite(*store_.log->slots().LocateKeys(2, 3).file, store_.log->slots().LocateKeys(2, 3).offset,
            std::string(16, '\x5a'));
  store_.OpenPool();
  const Walked all = Listed(store_.model);
  Iterator iterator = store_.New();
  Walked seen;
  for (iterator.SeekToFirst(); iterator.Valid(); iterator.Next()) {
    seen.emplace_back(KeyAt(iterator), VersionAt(&iterator));
  }
  EXPECT_EQ(iterator.status().code(), Code::kCorruption);
  EXPECT_TRUE(seen == Walked(all.begin(), all.begin() + 2 * kEach));
  seen.clear();
  for (iterator.SeekToLast(); iterator.Valid(); iterator.Prev()) {
    seen.emplace_back(KeyAt(iterator), VersionAt(&iterator));
  }
  EXPECT_EQ(iterator.status().code(), Code::kCorruption);
  EXPECT_TRUE(Walked(seen.rbegin(), seen.rend()) == Walked(all.begin() + 3 * kEach, all.end()));
  iterator.Seek(KeyOf(KeyIn(2, 5)));
  EXPECT_EQ(iterator.status().code(), Code::kCorruption);
  iterator.Seek(KeyOf(KeyIn(3, 5)));
  ExpectAt(iterator, KeyIn(3, 5));
}

TEST_F(IteratorErrorTest, RefusedMemoryIsToldAndTriedAgain) {
  store_.options.cache_iterators = false;
  store_.OpenPool();
  for (const uint32_t prefetch : {0u, 16u}) {
    IteratorOptions options;
    options.prefetch_records = prefetch;
    Iterator kept = store_.New();
    kept.SeekToFirst();
    bool refused = true;
    for (uint64_t passed = 0; refused; ++passed) {
      Code code = Code::kOk;
      {
        const RefuseMemory refuse(passed);
        Iterator iterator;
        code = store_.pool->New(options, &iterator).code();
        if (code == Code::kOk) {
          for (iterator.Seek(KeyOf(KeyIn(1, 1))); iterator.Valid(); iterator.Next()) {
            if (iterator.value().empty()) code = iterator.status().code();
          }
        } else {
          code = store_.pool->New(options, &kept).code() == Code::kOk ? code : Code::kIOError;
        }
        refused = refuse.refused();
      }
      ASSERT_TRUE(code == Code::kOk || (refused && code == Code::kOutOfMemory))
          << passed << ": " << CodeName(code);
    }
    EXPECT_TRUE(WalkForward(&kept) == Listed(store_.model));
  }
  EXPECT_EQ(store_.index->views().TakeCensus().count, 0u);
}

}  // namespace
}  // namespace engine_race::test
