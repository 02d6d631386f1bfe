// An index on disk that agrees with all its own checks: only the key logs can tell whether it is
// right.
#include "engine_race/copies/copies.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine_race/l1/extent_image.h"
#include "engine_race/l1/extent_store.h"
#include "engine_race/l1/index_root.h"
#include "engine_race/l1/key_block.h"
#include "engine_race/reclaim/bucket_cleaner.h"
#include "test/index/paged_index_fixture.h"
#include "test/l1/extent_test_util.h"

namespace engine_race::test {
namespace {

using Entries = std::vector<std::pair<uint64_t, ValueRef>>;

// One bucket with records that were overwritten and deleted, all in one extent.
class VerifyIndexTest : public PagedIndexFixture {
 protected:
  static constexpr uint64_t kRecords = 1200;

  VerifyIndexTest() : PagedIndexFixture(/*frame_count=*/8) {
    options_.bucket_count = 1;
    options_.file_count = 1;
  }

  void SetUp() override {
    Open();
    for (uint64_t i = 0; i < kRecords; ++i) ASSERT_NO_FATAL_FAILURE(Write(10 * i));
    for (uint64_t i = 0; i < kRecords; i += 7) ASSERT_NO_FATAL_FAILURE(Write(10 * i));
    for (uint64_t i = 0; i < kRecords; i += 10) ASSERT_NO_FATAL_FAILURE(Write(10 * i, true));
    Reopen();
    ASSERT_TRUE(index_->Save(~uint64_t{0}).ok());
    store_id_ = log_->store_id();
    Close();
  }

  // Writes the extent again as `change` leaves it, under a root that names it.
  void Forge(const std::function<void(Entries*)>& change) {
    IndexFiles files(dir_.path(), store_id_);
    ASSERT_EQ(files.root.extents.size(), 1u);
    format::IndexExtent& extent = files.root.extents.front();
    const uint32_t block_count = format::IndexBlocksOf(extent.record_count);
    const BlockMemory memory;
    ASSERT_TRUE(
        files.extents
            ->ReadBlocks({extent.generation, extent.place}, 0, block_count + 1, memory.data())
            .ok());
    Entries entries;
    for (uint32_t i = 1; i <= block_count; ++i) {
      const l1::RecordBlock block(memory.At(i));
      for (uint32_t j = 0; j < block.count(); ++j) {
        entries.emplace_back(block.keys()[j], ValueRef::FromWord(block.words()[j]));
      }
    }
    ASSERT_EQ(entries.size(), newest_.size());
    change(&entries);
    l1::ExtentImage image;
    ASSERT_TRUE(l1::ExtentImage::Create(&image).ok());
    image.Begin();
    for (const auto& [key, ref] : entries) {
      const uint64_t word = ref.word();
      image.Append(&key, &word, 1);
    }
    image.Finish();
    l1::ExtentId id;
    ASSERT_TRUE(files.extents->Write(&image, &id).ok());
    ASSERT_TRUE(files.extents->Sync().ok());
    extent.generation = id.generation;
    extent.place = id.place;
    extent.first_key = entries.front().first;
    extent.last_key = image.last_key();
    extent.record_count = image.record_count();
    // The checks of the coverages hold for this root alone.
    bool is_replaced = false;
    ASSERT_TRUE(l1::StoreIndexRoot(files.fd.get(), OwnIds(store_id_), options_.file_mode,
                                   files.root, &is_replaced)
                    .ok());
  }

  void ForgeSlot() {
    messages_.Clear();
    Forge([](Entries* entries) {
      ValueRef& ref = entries->at(400).second;
      ref = ValueRef(1 << 20, ref.value_checksum(), /*tombstone=*/false);
    });
  }

  Status Verify(VerifyReport* report) {
    bad_.clear();
    const BadRecordFn on_bad = [this](const BadRecord& bad) { bad_.push_back(bad.what); };
    return VerifyStore(dir_.path(), report, on_bad);
  }
  void ExpectBad(const std::vector<std::string>& wanted) {
    VerifyReport report;
    EXPECT_EQ(Verify(&report).code(), Code::kCorruption);
    EXPECT_EQ(report.bad_count, wanted.size());
    EXPECT_EQ(report.index_unusable_bucket_count, 0u);
    EXPECT_EQ(bad_, wanted);
  }

  struct IndexFiles {
    IndexFiles(const std::string& path, uint64_t store_id) {
      EXPECT_TRUE(sys::OpenDirectory(path, false, &fd).ok());
      EXPECT_TRUE(l1::LoadIndexRoot(fd.get(), OwnIds(store_id), /*bucket_count=*/1, &root).ok());
      EXPECT_TRUE(
          l1::ExtentStore::Open(fd.get(), store_id, 0600, /*writable=*/true, &extents).ok());
      EXPECT_TRUE(extents->Reserve(root.extents).ok());
    }
    UniqueFd fd;
    l1::IndexRoot root;
    std::unique_ptr<l1::ExtentStore> extents;
  };

  const std::string another_record_ = "the index has another record of the key";
  const std::string unknown_key_ = "the index has a key that the key log does not have";
  uint64_t store_id_ = 0;
  std::vector<std::string> bad_;
};

TEST_F(VerifyIndexTest, WhatTheEngineWroteIsRight) {
  VerifyReport report;
  const Status verified = Verify(&report);
  EXPECT_TRUE(verified.ok()) << verified.ToString();
  EXPECT_EQ(report.index_record_count, newest_.size());
  EXPECT_EQ(report.index_unusable_bucket_count, 0u);
}

TEST_F(VerifyIndexTest, AForgedExtentThatSaysTheSameIsRight) {
  Forge([](Entries*) {});
  VerifyReport report;
  EXPECT_TRUE(Verify(&report).ok());
  EXPECT_EQ(report.index_record_count, newest_.size());
}

// The newer records of all keys are moved to the row of the old ones, in the order of their keys.
class MovedRecordsTest : public PagedIndexFixture {
 protected:
  static constexpr uint64_t kRecords = 256;  // a row

  MovedRecordsTest() : PagedIndexFixture(/*frame_count=*/8) {
    options_.bucket_count = 1;
    options_.file_count = 1;
  }
};

TEST_F(MovedRecordsTest, ARecordMayLieWhereAnOlderOneOfItsKeyWas) {
  constexpr uint64_t kOtherKey = 100000;
  Open();
  for (uint64_t key = 0; key < kRecords; ++key) ASSERT_NO_FATAL_FAILURE(Write(key));
  Reopen();
  ASSERT_TRUE(index_->Save(~uint64_t{0}).ok());
  for (uint64_t key = 0; key < kRecords; ++key) {
    ASSERT_NO_FATAL_FAILURE(Write(key));
    ASSERT_NO_FATAL_FAILURE(Write(kOtherKey));
  }
  ASSERT_TRUE(log_->Sync().ok());
  BucketCleaner cleaner(log_.get());
  for (const bool moves : {false, true}) {
    ASSERT_TRUE(log_->mover().Claim(0));
    BucketUse use;
    EXPECT_TRUE(
        (moves ? cleaner.Clean(0, /*dead_percent=*/0, &use) : cleaner.MakeSpace(0, &use)).ok());
    log_->mover().Unclaim(0);
    ASSERT_TRUE(log_->mover().Settle().ok());
    log_->mover().Release();
  }
  Close();
  VerifyReport report;
  const Status verified = VerifyStore(dir_.path(), &report, [](const BadRecord& bad) {
    ADD_FAILURE() << bad.what << ", slot " << bad.slot;
  });
  EXPECT_TRUE(verified.ok()) << verified.ToString();
  EXPECT_EQ(report.index_unusable_bucket_count, 0u);
  EXPECT_GT(report.index_record_count, kRecords / 4) << "words that name a slot of their key";
  // The word of the older record has another checksum.
  Open();
  Region value;
  ASSERT_TRUE(Region::Allocate(kValueBytes, /*huge_pages=*/false, &value).ok());
  for (uint64_t key = 0; key < kRecords; ++key) {
    ValueRef ref;
    ASSERT_TRUE(index_->Find(key, &ref).ok()) << key;
    ASSERT_TRUE(log_->reader().ReadValue(0, ref.slot(), value.data()).ok());
    EXPECT_TRUE(log_->reader().VerifyValue(0, ref.slot(), ref.value_checksum(), value.data()).ok())
        << key;
  }
}

TEST_F(VerifyIndexTest, ADamagedRootMakesAllBucketsUnusable) {
  {
    UniqueFd fd;
    ASSERT_TRUE(sys::OpenDirectory(dir_.path(), /*create=*/false, &fd).ok());
    io::File root;
    ASSERT_TRUE(io::File::Open(fd.get(), format::kIndexRootName, io::Access::kReadWrite,
                               io::Caching::kBuffered, &root)
                    .ok());
    const uint64_t offset = sizeof(format::IndexRootHeader) + sizeof(format::IndexCoverage);
    const uint64_t wrong_key = 1;
    ASSERT_TRUE(root.Write(&wrong_key, sizeof(wrong_key), offset).ok());
  }
  VerifyReport report;
  EXPECT_TRUE(Verify(&report).ok());
  EXPECT_EQ(report.index_unusable_bucket_count, 1u);
  EXPECT_EQ(report.index_record_count, 0u);
}

TEST_F(VerifyIndexTest, AnExtentWithARecordThatTheBucketHasNotIsUnusable) {
  ASSERT_NO_FATAL_FAILURE(ForgeSlot());
  VerifyReport report;
  EXPECT_TRUE(Verify(&report).ok());
  EXPECT_EQ(report.index_unusable_bucket_count, 1u);
}

TEST_F(VerifyIndexTest, ALookupTakesNoRecordThatTheBucketHasNot) {
  ASSERT_NO_FATAL_FAILURE(ForgeSlot());
  Open();
  ExpectFinds();
  EXPECT_TRUE(messages_.Said("built again")) << messages_.text();
}

TEST_F(VerifyIndexTest, AWalkTakesNoRecordThatTheBucketHasNot) {
  ASSERT_NO_FATAL_FAILURE(ForgeSlot());
  Open();
  ExpectWalks();
  EXPECT_TRUE(messages_.Said("built again")) << messages_.text();
}

TEST_F(VerifyIndexTest, RecordsOfOtherKeysAreBad) {
  Forge([](Entries* entries) { std::swap((*entries)[300].second, (*entries)[301].second); });
  ExpectBad({another_record_, another_record_});
}

TEST_F(VerifyIndexTest, AnOverwrittenRecordIsBad) {
  Forge([](Entries* entries) {
    // Slot 49 has the first record of this key, and a later one the second.
    for (auto& [key, ref] : *entries) {
      if (key == 70 * 7) ref = ref.InSlot(49);
    }
  });
  ExpectBad({another_record_});
}

TEST_F(VerifyIndexTest, AMissingKeyIsBad) {
  Forge([](Entries* entries) { entries->erase(entries->begin() + 500); });
  ExpectBad({another_record_});
}

TEST_F(VerifyIndexTest, ADeletedKeyIsBad) {
  Forge([](Entries* entries) {
    entries->insert(entries->begin(), {0, entries->front().second.InSlot(0)});
  });
  ExpectBad({another_record_});
}

TEST_F(VerifyIndexTest, KeysThatTheLogHasNotAreBad) {
  Forge([](Entries* entries) {
    entries->insert(entries->begin() + 1, {entries->front().first + 1, entries->front().second});
    entries->push_back({entries->back().first + 1, entries->back().second});
  });
  ExpectBad({unknown_key_, unknown_key_});
}

}  // namespace
}  // namespace engine_race::test
