// When the place of an extent is used again: only once neither a part nor the root on disk, nor one
// that is being written, names the extent.
#include "engine_race/index/paging.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "engine_race/index/byte_count.h"
#include "engine_race/l1/extent_store.h"
#include "engine_race/l1/index_root.h"
#include "test/l1/extent_test_util.h"

namespace engine_race::test {
namespace {

class PagingTest : public ::testing::Test {
 protected:
  PagingTest() {
    std::unique_ptr<l1::ExtentStore> store;
    EXPECT_TRUE(
        l1::ExtentStore::Open(dir_.fd(), kExtentStoreId, 0600, /*writable=*/true, &store).ok());
    EXPECT_TRUE(store->Reserve({}).ok());
    paging_ = std::make_unique<Paging>(
        nullptr, std::move(store), [] { return uint64_t{0}; }, /*max_flat_bytes=*/0, part_bytes_);
  }

  // A new extent, as a part has it and as a root names it.
  struct Extent {
    PagedRunPtr run;
    format::IndexExtent named;
  };
  Extent Write() {
    l1::ExtentImage image;
    EXPECT_TRUE(l1::ExtentImage::Create(&image).ok());
    Lay(EvenKeys(1, 2, 300), &image);
    l1::ExtentId id;
    EXPECT_TRUE(paging_->store().Write(&image, &id).ok());
    Extent extent;
    extent.named = {1, 599, id.generation, id.place, 300, 0, 0};
    EXPECT_TRUE(paging_->AdoptNamed(extent.named, &extent.run).ok());
    return extent;
  }
  void Commit(const l1::IndexRoot* root) {
    paging_->BeginCommit();
    paging_->EndCommit(root);
  }
  uint64_t used_bytes() { return paging_->store().used_bytes(); }

  const OpenDir dir_;
  ByteCount part_bytes_;
  std::unique_ptr<Paging> paging_;
};

TEST_F(PagingTest, AnExtentThatNoRootNamesGoesWithItsPart) {
  Extent extent = Write();
  EXPECT_GT(used_bytes(), 0u);
  extent.run.reset();
  EXPECT_EQ(used_bytes(), 0u);
}

TEST_F(PagingTest, AnExtentThatTheRootNamesWaitsForTheNextRoot) {
  Extent extent = Write();
  l1::IndexRoot root;
  root.extents = {extent.named};
  Commit(&root);
  extent.run.reset();
  EXPECT_GT(used_bytes(), 0u);
  EXPECT_EQ(paging_->waiting_count(), 1u);
  // A root that was not stored changes nothing.
  Commit(nullptr);
  EXPECT_GT(used_bytes(), 0u);
  const l1::IndexRoot none;
  Commit(&none);
  EXPECT_EQ(used_bytes(), 0u);
  EXPECT_EQ(paging_->waiting_count(), 0u);
}

TEST_F(PagingTest, AnExtentThatTheComingRootNamesStays) {
  Extent extent = Write();
  l1::IndexRoot root;
  paging_->BeginCommit();
  root.extents = {extent.named};
  // Merged away after the root named it, and before the root is on disk.
  extent.run.reset();
  EXPECT_GT(used_bytes(), 0u);
  paging_->EndCommit(&root);
  EXPECT_GT(used_bytes(), 0u);
  const l1::IndexRoot none;
  Commit(&none);
  EXPECT_EQ(used_bytes(), 0u);
}

TEST_F(PagingTest, AnExtentThatTheComingRootDoesNotNameGoesWithTheCommit) {
  Extent extent = Write();
  paging_->BeginCommit();
  extent.run.reset();
  EXPECT_GT(used_bytes(), 0u);
  const l1::IndexRoot none;
  paging_->EndCommit(&none);
  EXPECT_EQ(used_bytes(), 0u);
}

}  // namespace
}  // namespace engine_race::test
