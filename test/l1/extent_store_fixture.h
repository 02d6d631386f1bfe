// A writable store of extents in a directory of its own, for the tests.
//
// One thread but for the store.
#ifndef TEST_L1_EXTENT_STORE_FIXTURE_H_
#define TEST_L1_EXTENT_STORE_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "engine_race/l1/extent_store.h"
#include "test/l1/extent_test_util.h"

namespace engine_race::test {

inline constexpr char kFirstFile[] = "key_index_00";

class ExtentStoreFixture : public testing::Test {
 protected:
  ExtentStoreFixture() {
    EXPECT_TRUE(l1::ExtentImage::Create(&image_).ok());
    Reopen({});
  }

  void Reopen(const std::vector<format::IndexExtent>& extents, bool writable = true) {
    Open(writable);
    const Status status = store_->Reserve(extents);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  void Open(bool writable = true) {
    ASSERT_TRUE(l1::ExtentStore::Open(dir_.fd(), kExtentStoreId, 0640, writable, &store_).ok());
  }
  // An extent of `count` keys, told by `first`.
  l1::ExtentId Put(uint64_t first, size_t count = 1000) {
    l1::ExtentId id;
    Lay(EvenKeys(first, 1, count), &image_);
    const Status status = store_->Write(&image_, &id);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return id;
  }
  Status TryPut(l1::ExtentId* id) {
    Lay(EvenKeys(1, 1, 1000), &image_);
    return store_->Write(&image_, id);
  }
  void ExpectHolds(const l1::ExtentId& id, uint64_t first, size_t count = 1000) {
    Lay(EvenKeys(first, 1, count), &image_);
    const uint32_t blocks = image_.block_count() + 1;
    const Status status = store_->ReadBlocks(id, 0, blocks, memory_.data());
    ASSERT_TRUE(status.ok()) << status.ToString();
    for (uint32_t i = 0; i < blocks; ++i) {
      constexpr size_t kSealBytes = sizeof(uint64_t);
      ASSERT_EQ(std::memcmp(memory_.At(i) + kSealBytes,
                            image_.data() + i * format::kIndexBlockBytes + kSealBytes,
                            format::kIndexBlockBytes - kSealBytes),
                0)
          << i;
    }
  }
  static format::IndexExtent Named(const l1::ExtentId& id, uint32_t record_count = 1000) {
    format::IndexExtent extent{};
    extent.generation = id.generation;
    extent.place = id.place;
    extent.record_count = record_count;
    return extent;
  }

  const OpenDir dir_;
  std::unique_ptr<l1::ExtentStore> store_;
  l1::ExtentImage image_;
  const BlockMemory memory_;
};

}  // namespace engine_race::test

#endif  // TEST_L1_EXTENT_STORE_FIXTURE_H_
