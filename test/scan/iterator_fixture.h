// A store with as many evenly spread keys in each of its buckets, for tests of iterators.
#ifndef TEST_SCAN_ITERATOR_FIXTURE_H_
#define TEST_SCAN_ITERATOR_FIXTURE_H_

#include <fcntl.h>
#include <gtest/gtest.h>

#include <string>

#include "engine_race/base/sys.h"
#include "test/scan/iterator_test_util.h"

namespace engine_race::test {

// Keys 10, 20, ... in the first bucket and as many in each of the others.
class IteratorTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kBuckets = 4;
  static constexpr uint64_t kEach = 500;

  IteratorTest() : store_(kBuckets) {
    for (uint32_t b = 0; b < kBuckets; ++b) {
      for (uint64_t i = 1; i <= kEach; ++i) store_.Put(KeyIn(b, i));
    }
    store_.OpenPool();
  }

  static uint64_t KeyIn(uint64_t bucket, uint64_t i) { return (bucket << 62) + i * 10; }

  void ExpectAt(const Iterator& iterator, uint64_t key) {
    ASSERT_TRUE(iterator.Valid()) << iterator.status().ToString();
    EXPECT_EQ(KeyAt(iterator), key);
  }

  // Writes over a file of the store.
  void Overwrite(const io::File& file, uint64_t offset, const std::string& bytes) {
    UniqueFd fd;
    ASSERT_TRUE(sys::OpenAt(AT_FDCWD, store_.dir.Join(file.name()), O_WRONLY, 0, &fd).ok());
    ASSERT_TRUE(sys::PwriteFull(fd.get(), bytes.data(), bytes.size(), offset).ok());
    ASSERT_TRUE(sys::Fsync(fd.get()).ok());
  }
  void DamageValue(uint32_t bucket, uint64_t slot) {
    ASSERT_LT(slot, store_.log->LoggedValueWatermark(bucket));
    const SlotLocation location = store_.log->slots().LocateValues(bucket, slot);
    Overwrite(*location.file, location.offset + 100, "damage");
  }

  IteratorStore store_;
};

}  // namespace engine_race::test

#endif  // TEST_SCAN_ITERATOR_FIXTURE_H_
