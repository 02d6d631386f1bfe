// When the place of an extent is used again: only once neither a part nor the root on disk, nor one
// that is being written, names the extent.
#include "engine_race/index/paging.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine_race/index/bucket_index.h"
#include "engine_race/index/bucket_shared.h"
#include "engine_race/index/byte_count.h"
#include "engine_race/index/sorted_run.h"
#include "engine_race/l1/extent_store.h"
#include "engine_race/l1/index_root.h"
#include "test/l1/extent_test_util.h"

namespace engine_race::test {
namespace {

using CommitEnd = Paging::CommitEnd;

class PagingTest : public ::testing::Test {
 protected:
  PagingTest() {
    std::unique_ptr<l1::ExtentStore> store;
    EXPECT_TRUE(
        l1::ExtentStore::Open(dir_.fd(), kExtentStoreId, 0600, /*writable=*/true, &store).ok());
    EXPECT_TRUE(store->Reserve({}).ok());
    paging_ = std::make_unique<Paging>(
        nullptr, std::move(store), [] { return uint64_t{0}; }, /*max_flat_bytes=*/0, part_bytes_,
        limbo_);
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
    extent.named = {1, 599, id.generation, id.place, 300, 0, 0, 0};
    EXPECT_TRUE(paging_->AdoptNamed(extent.named, /*held=*/nullptr, &extent.run).ok());
    return extent;
  }
  void Commit(const l1::IndexRoot& root, CommitEnd end = CommitEnd::kStored) {
    paging_->BeginCommit();
    paging_->EndCommit(end, root);
  }
  uint64_t used_bytes() { return paging_->store().used_bytes(); }

  const OpenDir dir_;
  ByteCount part_bytes_;
  l1::EpochManager epochs_;
  l1::Limbo limbo_{epochs_};
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
  Commit(root);
  extent.run.reset();
  EXPECT_GT(used_bytes(), 0u);
  EXPECT_EQ(paging_->waiting_count(), 1u);
  // A root that was not stored changes nothing.
  const l1::IndexRoot none;
  for (const CommitEnd end : {CommitEnd::kFailed, CommitEnd::kNotMade}) {
    Commit(none, end);
    EXPECT_GT(used_bytes(), 0u);
  }
  Commit(none);
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
  paging_->EndCommit(CommitEnd::kStored, root);
  EXPECT_GT(used_bytes(), 0u);
  const l1::IndexRoot none;
  Commit(none);
  EXPECT_EQ(used_bytes(), 0u);
}

TEST_F(PagingTest, AnExtentThatTheComingRootDoesNotNameGoesWithTheCommit) {
  Extent extent = Write();
  paging_->BeginCommit();
  extent.run.reset();
  EXPECT_GT(used_bytes(), 0u);
  const l1::IndexRoot none;
  paging_->EndCommit(CommitEnd::kStored, none);
  EXPECT_EQ(used_bytes(), 0u);
}

// Either of two roots may be on disk. Both of them keep their extents.
TEST_F(PagingTest, AfterACommitInDoubtNoPlaceIsUsedAgainUntilARootIsStored) {
  Extent extent = Write();
  l1::IndexRoot root;
  root.extents = {extent.named};
  Commit(root, CommitEnd::kInDoubt);
  EXPECT_TRUE(paging_->is_in_doubt());
  extent.run.reset();
  const l1::IndexRoot none;
  for (const CommitEnd end : {CommitEnd::kFailed, CommitEnd::kNotMade}) {
    Commit(none, end);
    EXPECT_GT(used_bytes(), 0u);
  }
  Commit(none);
  EXPECT_FALSE(paging_->is_in_doubt());
  EXPECT_EQ(used_bytes(), 0u);
}

TEST_F(PagingTest, ExtentsOfACommitThatFailedStillWantARoot) {
  const l1::IndexRoot none;
  for (const CommitEnd end : {CommitEnd::kFailed, CommitEnd::kInDoubt, CommitEnd::kStored}) {
    l1::ExtentImage image;
    ASSERT_TRUE(l1::ExtentImage::Create(&image).ok());
    SortedRun run;
    const CellMap map = CellMap::Over(1, 599, SortedRun::CellCountFor(300));
    ASSERT_TRUE(SortedRun::Create(300, map, nullptr, &run, Placement()).ok());
    for (uint64_t i = 0; i < 300; ++i) {
      run.mutable_keys()[i] = 1 + 2 * i;
      run.mutable_refs()[i].Store(ValueRef::FromWord(i));
    }
    PagedRunPtr written;
    ASSERT_TRUE(paging_->Write(run, FrameSlots(), /*births=*/0, &image, &written).ok());
    Commit(none, end);
    EXPECT_EQ(paging_->unnamed_count() > 0, end != CommitEnd::kStored);
  }
}

TEST_F(PagingTest, ARequestThatWaitsIsNotAddedAgain) {
  int wake_count = 0;
  paging_->set_wake([&] { ++wake_count; });
  BucketIndex buckets[2];
  for (int i = 0; i < 10; ++i) {
    paging_->Ask(&buckets[0], Paging::Work::kMerge);
    paging_->Ask(&buckets[0], Paging::Work::kFlatten);
    paging_->Ask(&buckets[1], Paging::Work::kMerge);
  }
  EXPECT_EQ(paging_->TakeRequests().size(), 3u);
  EXPECT_EQ(wake_count, 3);
  paging_->Ask(&buckets[0], Paging::Work::kMerge);
  EXPECT_EQ(paging_->TakeRequests().size(), 1u);
}

// Otherwise the keeper would write a part anew for each few records, without end.
TEST_F(PagingTest, WhatMergingDoesNotFreeIsNoReasonToMerge) {
  part_bytes_.Change(80 << 20, 0);
  EXPECT_TRUE(paging_->HasLargeDeltas());
  paging_->NoteMerged();
  EXPECT_FALSE(paging_->HasLargeDeltas());
  part_bytes_.Change(9 << 20, 0);
  EXPECT_FALSE(paging_->HasLargeDeltas());
  part_bytes_.Change(2 << 20, 0);
  EXPECT_TRUE(paging_->HasLargeDeltas());
}

// Rows that were born since the extent was written void the words that lead to them.
TEST_F(PagingTest, ARootNamesAnOldExtentWithItsOwnBirths) {
  const numa::StorePlacement placement;
  BucketShared shared(placement.memory());
  shared.set_paging(paging_.get());
  Extent extent = Write();
  BucketIndex index;
  index.set_shared(&shared);
  index.Expect();
  BucketIndex::Row parts;
  parts.push_back(std::make_unique<Part>());
  parts.back()->extent = std::move(extent.run);
  ASSERT_TRUE(index.Install(std::move(parts), /*damaged=*/false, {{}, {300, 9}, 9}).ok());
  std::vector<format::IndexExtent> extents;
  BucketMoment since;
  ASSERT_TRUE(index.Describe({300, 9}, &extents, &since));
  ASSERT_EQ(extents.size(), 1U);
  EXPECT_EQ(extents[0].births, extent.named.births);
  EXPECT_EQ(since.births, 9U);
}

}  // namespace
}  // namespace engine_race::test
