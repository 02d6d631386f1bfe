#include "engine_race/l1/extent_store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <thread>

#include "test/l1/extent_store_fixture.h"

namespace engine_race::test {
namespace {

using format::IndexExtent;
using format::kIndexBlockBytes;
using format::kIndexExtentBytes;
using l1::ExtentId;
using l1::ExtentImage;
using l1::ExtentStore;

using ExtentStoreTest = ExtentStoreFixture;

TEST_F(ExtentStoreTest, HasNoFilesBeforeTheFirstExtent) {
  EXPECT_TRUE(store_->Sync().ok());
  EXPECT_FALSE(dir_.Has(kFirstFile));
  Put(1);
  EXPECT_TRUE(dir_.Has(kFirstFile));
  EXPECT_FALSE(dir_.Has("key_index_01"));
}

TEST_F(ExtentStoreTest, GivesBackWhatWasWrittenAlsoAfterReopening) {
  constexpr size_t kCounts[] = {1, 255, 256, 20000, format::kIndexExtentRecords, 5};
  std::vector<IndexExtent> named;
  std::vector<ExtentId> ids;
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < 6; ++i) {
    ids.push_back(Put(i << 20, kCounts[i]));
    EXPECT_EQ(ids[i].place, i);
    named.push_back(Named(ids[i], kCounts[i]));
    bytes += image_.size_bytes();
  }
  EXPECT_EQ(store_->used_bytes(), bytes);
  EXPECT_EQ(store_->written_bytes(), bytes);
  ASSERT_TRUE(store_->Sync().ok());
  for (const bool writable : {true, false}) {
    Reopen(named, writable);
    EXPECT_EQ(store_->used_bytes(), bytes);
    EXPECT_EQ(store_->written_bytes(), 0u);
    for (uint32_t i = 0; i < 6; ++i) ExpectHolds(ids[i], i << 20, kCounts[i]);
  }
}

TEST_F(ExtentStoreTest, ReadsOneBlockWhereLocateSaysItLies) {
  for (uint32_t i = 0; i < 5; ++i) {
    const ExtentId id = Put(i * 10000);
    for (uint32_t block = 0; block <= 4; ++block) {
      const ExtentStore::Location location = store_->Locate(id, block);
      ASSERT_TRUE(location.file->Read(memory_.data(), kIndexBlockBytes, location.offset).ok());
      EXPECT_TRUE(store_->IsWhole(id, block, memory_.data())) << block;
      ASSERT_TRUE(store_->ReadBlocks(id, block, 1, memory_.At(1)).ok());
      EXPECT_EQ(std::memcmp(memory_.data(), memory_.At(1), kIndexBlockBytes), 0);
    }
  }
}

TEST_F(ExtentStoreTest, ABlockOfAnotherExtentPlaceNumberOrStoreIsNotWhole) {
  const ExtentId id = Put(1);
  ASSERT_TRUE(store_->ReadBlocks(id, 0, 5, memory_.data()).ok());
  EXPECT_TRUE(store_->IsWhole(id, 2, memory_.At(2)));
  EXPECT_FALSE(store_->IsWhole(id, 2, memory_.At(1)));
  EXPECT_FALSE(store_->IsWhole(id, 0, memory_.At(1)));
  EXPECT_FALSE(store_->IsWhole({id.generation + 1, id.place}, 2, memory_.At(2)));
  EXPECT_FALSE(store_->IsWhole({id.generation, id.place + 1}, 2, memory_.At(2)));
  std::unique_ptr<ExtentStore> other;
  ASSERT_TRUE(ExtentStore::Open(dir_.fd(), kExtentStoreId + 1, 0600, false, &other).ok());
  EXPECT_FALSE(other->IsWhole(id, 2, memory_.At(2)));
  // Each block by its own checksum, though it names the number that is asked for.
  auto* const header = reinterpret_cast<format::IndexBlockHeader*>(memory_.At(2));
  header->block_number = 1;
  EXPECT_FALSE(store_->IsWhole(id, 1, memory_.At(2)));
}

TEST_F(ExtentStoreTest, EveryByteOfABlockCounts) {
  const ExtentId id = Put(1, 300);
  ASSERT_TRUE(store_->ReadBlocks(id, 0, 3, memory_.data()).ok());
  for (uint32_t block = 0; block < 3; ++block) {
    for (uint32_t i = 0; i < kIndexBlockBytes; ++i) {
      memory_.At(block)[i] ^= 1 << i % 8;
      ASSERT_FALSE(store_->IsWhole(id, block, memory_.At(block))) << block << " " << i;
      memory_.At(block)[i] ^= 1 << i % 8;
    }
    EXPECT_TRUE(store_->IsWhole(id, block, memory_.At(block)));
  }
}

// The checksums are right: they were made for these headers.
TEST_F(ExtentStoreTest, ABlockWithAnImpossibleCountOrAnotherNumberIsNotWhole) {
  for (const uint32_t number : {0u, 1u}) {
    const uint32_t most = number == 0 ? format::kIndexFences : format::kIndexBlockRecords;
    for (const uint32_t count : {0u, 1u, most, most + 1, ~0u}) {
      Lay(EvenKeys(1, 1, 1000), &image_);
      char* const block = image_.data() + size_t{number} * kIndexBlockBytes;
      reinterpret_cast<format::IndexBlockHeader*>(block)->record_count = count;
      ExtentId id;
      ASSERT_TRUE(store_->Write(&image_, &id).ok());
      EXPECT_EQ(store_->IsWhole(id, number, block), count > 0 && count <= most) << count;
    }
    Lay(EvenKeys(1, 1, 1000), &image_);
    char* const block = image_.data() + size_t{number} * kIndexBlockBytes;
    reinterpret_cast<format::IndexBlockHeader*>(block)->block_number = number + 1;
    ExtentId id;
    ASSERT_TRUE(store_->Write(&image_, &id).ok());
    EXPECT_FALSE(store_->IsWhole(id, number, block));
  }
}

TEST_F(ExtentStoreTest, DamageIsCorruptionThatNamesTheBlock) {
  const ExtentId first = Put(1);
  const ExtentId second = Put(20000);
  Put(30000), Put(40000);
  const ExtentId fifth = Put(50000);
  ASSERT_EQ(fifth.place, 4u);
  ASSERT_TRUE(store_->Sync().ok());
  const uint64_t damaged = store_->Locate(fifth, 3).offset + 100;
  ASSERT_EQ(damaged, kIndexExtentBytes + 3 * 4096 + 100u);
  std::fstream file(dir_.Join(kFirstFile), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(damaged));
  file.put('x');
  file.close();
  const Status status = store_->ReadBlocks(fifth, 0, 5, memory_.data());
  EXPECT_EQ(status.code(), Code::kCorruption);
  EXPECT_EQ(status.message(),
            "key_index_00: block 3 of the extent at place 4 is damaged, or of another extent");
  EXPECT_TRUE(store_->ReadBlocks(fifth, 0, 3, memory_.data()).ok());
  EXPECT_TRUE(store_->ReadBlocks(fifth, 4, 1, memory_.data()).ok());
  ExpectHolds(first, 1);
  ExpectHolds(second, 20000);
  std::filesystem::resize_file(dir_.Join(kFirstFile), kIndexExtentBytes + 4096);
  EXPECT_EQ(store_->ReadBlocks(fifth, 0, 5, memory_.data()).code(), Code::kIOError);
}

TEST_F(ExtentStoreTest, UsesTheLowestFreePlaceAgainUnderANewGeneration) {
  std::vector<ExtentId> ids;
  std::set<uint64_t> generations;
  for (uint64_t i = 0; i < 6; ++i) ids.push_back(Put(i * 10000));
  store_->Free(ids[4]);
  store_->Free(ids[1]);
  const ExtentId first = Put(1);
  const ExtentId second = Put(2);
  const ExtentId third = Put(3);
  EXPECT_EQ(first.place, 1u);
  EXPECT_EQ(second.place, 4u);
  EXPECT_EQ(third.place, 6u);
  for (const ExtentId& id : ids) generations.insert(id.generation);
  for (const ExtentId& id : {first, second, third}) generations.insert(id.generation);
  EXPECT_EQ(generations.size(), 9u);
  EXPECT_FALSE(generations.contains(0));
  // Who still has the former extent's id learns that it is gone.
  EXPECT_EQ(store_->ReadBlocks(ids[1], 0, 1, memory_.data()).code(), Code::kCorruption);
  ExpectHolds(first, 1);
}

TEST_F(ExtentStoreTest, GenerationsBeginElsewhereAtEachOpening) {
  const uint64_t before = Put(1).generation;
  Reopen({});
  EXPECT_GT(Put(1).generation - before, 1000u);
}

TEST_F(ExtentStoreTest, FreedExtentsGiveTheirSpaceBack) {
  std::vector<ExtentId> ids;
  for (int i = 0; i < 8; ++i) ids.push_back(Put(1, format::kIndexExtentRecords));
  ASSERT_TRUE(store_->Sync().ok());
  const uint64_t full = dir_.AllocatedBytes(kFirstFile);
  ASSERT_GE(full, 2u * 511 * 4096);
  store_->Free(ids[0]);
  EXPECT_LE(dir_.AllocatedBytes(kFirstFile), full - 511 * 4096);
  EXPECT_EQ(store_->used_bytes(), 7u * 511 * 4096);
  ExpectHolds(ids[4], 1, format::kIndexExtentRecords);
  store_->Free(ids[4]);
  EXPECT_LE(dir_.AllocatedBytes(kFirstFile), 64u << 10);
}

TEST_F(ExtentStoreTest, ReservedPlacesAreKeptAndTheSpaceOfAllOthersGivenBack) {
  constexpr uint32_t kRecords = format::kIndexExtentRecords;
  std::vector<ExtentId> ids;
  for (int i = 0; i < 16; ++i) ids.push_back(Put(i << 20, kRecords));
  ASSERT_TRUE(store_->Sync().ok());
  const uint64_t extent_bytes = dir_.AllocatedBytes(kFirstFile) / 4;
  // In the first file 8 alone, in the second none, in the third the last, in the fourth all.
  Reopen({Named(ids[14], kRecords), Named(ids[8], kRecords), Named(ids[3], kRecords),
          Named(ids[7], kRecords), Named(ids[11], kRecords), Named(ids[15], kRecords)});
  store_->DropUnnamed();
  EXPECT_LE(dir_.AllocatedBytes(kFirstFile), extent_bytes + (64 << 10));
  EXPECT_EQ(std::filesystem::file_size(dir_.Join("key_index_01")), 0u);
  EXPECT_LE(dir_.AllocatedBytes("key_index_02"), extent_bytes + (64 << 10));
  EXPECT_GE(dir_.AllocatedBytes("key_index_03"), 4 * extent_bytes - (64 << 10));
  for (const int i : {14, 8, 3, 7, 11, 15}) ExpectHolds(ids[i], i << 20, kRecords);
  std::set<uint32_t> places;
  for (int i = 0; i < 11; ++i) places.insert(Put(1, 300).place);
  EXPECT_EQ(places, (std::set<uint32_t>{0, 1, 2, 4, 5, 6, 9, 10, 12, 13, 16}));
  for (const int i : {14, 8, 3, 7, 11, 15}) ExpectHolds(ids[i], i << 20, kRecords);
}

// An opening reserves, and its first read does not wait for space to be given back.
TEST_F(ExtentStoreTest, ReservingGivesNoSpaceBackAndNewExtentsOutliveThat) {
  constexpr uint32_t kRecords = format::kIndexExtentRecords;
  std::vector<ExtentId> ids;
  for (int i = 0; i < 12; ++i) ids.push_back(Put(i << 20, kRecords));
  ASSERT_TRUE(store_->Sync().ok());
  const uint64_t bytes = dir_.AllocatedBytes(kFirstFile);
  Reopen({Named(ids[4], kRecords)});
  EXPECT_EQ(dir_.AllocatedBytes(kFirstFile), bytes);
  const ExtentId added = Put(1, kRecords);
  EXPECT_EQ(added.place, 0u);
  store_->DropUnnamed();
  EXPECT_LE(dir_.AllocatedBytes(kFirstFile), bytes / 3 * 2 + (64 << 10));
  EXPECT_EQ(std::filesystem::file_size(dir_.Join("key_index_01")), 0u);
  ExpectHolds(ids[4], 4 << 20, kRecords);
  ExpectHolds(added, 1, kRecords);
}

// The tail of a full extent that lay in the place before belongs to nobody, too.
TEST_F(ExtentStoreTest, ASmallExtentKeepsNoSpaceOfAFullOneInItsPlace) {
  constexpr size_t kRecords = 300;
  for (int i = 0; i < 8; ++i) Put(i << 20, format::kIndexExtentRecords);
  ASSERT_TRUE(store_->Sync().ok());
  Reopen({});
  // In the first file both places get one, in the others the first of two.
  std::vector<ExtentId> ids;
  for (uint32_t i = 0; i < 5; ++i) {
    ids.push_back(Put(i << 20 | 1, kRecords));
    ASSERT_EQ(ids[i].place, i);
  }
  const uint64_t small_bytes = image_.size_bytes();
  ASSERT_LE(small_bytes, 16u << 10);
  ASSERT_TRUE(store_->Sync().ok());
  ASSERT_GE(dir_.AllocatedBytes(kFirstFile), 2u * 511 * 4096);
  store_->DropUnnamed();
  for (const char* const file : {kFirstFile, "key_index_01", "key_index_02", "key_index_03"}) {
    EXPECT_LE(dir_.AllocatedBytes(file), 64u << 10) << file;
  }
  EXPECT_EQ(std::filesystem::file_size(dir_.Join(kFirstFile)), kIndexExtentBytes + small_bytes);
  EXPECT_EQ(std::filesystem::file_size(dir_.Join("key_index_01")), small_bytes);
  for (uint32_t i = 0; i < 5; ++i) ExpectHolds(ids[i], i << 20 | 1, kRecords);
  std::vector<IndexExtent> named;
  for (const ExtentId& id : ids) named.push_back(Named(id, kRecords));
  Reopen(named);
  for (uint32_t i = 0; i < 5; ++i) ExpectHolds(ids[i], i << 20 | 1, kRecords);
}

TEST_F(ExtentStoreTest, AReaderChangesNothing) {
  const ExtentId named = Put(1, format::kIndexExtentRecords);
  for (int i = 0; i < 5; ++i) Put(1, format::kIndexExtentRecords);
  ASSERT_TRUE(store_->Sync().ok());
  const uint64_t bytes = dir_.AllocatedBytes(kFirstFile);
  Reopen({Named(named, format::kIndexExtentRecords)}, /*writable=*/false);
  store_->DropUnnamed();
  EXPECT_EQ(dir_.AllocatedBytes(kFirstFile), bytes);
  EXPECT_FALSE(dir_.Has("key_index_05"));
}

TEST_F(ExtentStoreTest, ARootThatNamesWhatTheFilesDoNotHaveIsCorruption) {
  const ExtentId id = Put(1);
  const ExtentId last = Put(1);
  const auto expect_refused = [&](std::vector<IndexExtent> extents, const std::string& why) {
    Open();
    const Status status = store_->Reserve(extents);
    EXPECT_EQ(status.code(), Code::kCorruption) << status.ToString();
    EXPECT_NE(status.message().find(why), std::string::npos) << status.ToString();
    EXPECT_EQ(store_->used_bytes(), 0u);
    ASSERT_TRUE(store_->Locate(id, 0).file->valid());
  };
  expect_refused({Named(id), Named(last), Named({7, 4})}, "behind its end");
  expect_refused({Named(id, 1021)}, "behind its end");
  expect_refused({Named(id), Named({7, 2})}, "key_index_02 is missing");
}

TEST_F(ExtentStoreTest, NewFilesHaveTheirMode) {
  Put(1);
  struct stat status;
  ASSERT_EQ(::stat(dir_.Join(kFirstFile).c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640u);
}

TEST_F(ExtentStoreTest, ThreadsWriteAndFreeAtOnce) {
  constexpr int kThreads = 4;
  const int rounds = static_cast<int>(Sized(40, 12));
  std::mutex mutex;
  std::set<uint32_t> held;
  std::set<uint64_t> generations;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      ExtentImage image;
      const BlockMemory memory;
      ASSERT_TRUE(ExtentImage::Create(&image).ok());
      for (int i = 0; i < rounds; ++i) {
        const uint64_t first = uint64_t(t) << 40 | uint64_t(i) << 20;
        Lay(EvenKeys(first, 1, 600), &image);
        ExtentId id;
        ASSERT_TRUE(store_->Write(&image, &id).ok());
        {
          const std::lock_guard<std::mutex> lock(mutex);
          ASSERT_TRUE(held.insert(id.place).second) << "two extents in one place";
          ASSERT_TRUE(generations.insert(id.generation).second);
        }
        if (i % 8 == 0) {
          ASSERT_TRUE(store_->Sync().ok());
        }
        ASSERT_TRUE(store_->ReadBlocks(id, 0, 4, memory.data()).ok());
        const auto* fences = reinterpret_cast<const format::IndexFenceBlock*>(memory.data());
        ASSERT_EQ(fences->first_keys[0], first);
        if (i % 4 == 0) continue;
        {
          const std::lock_guard<std::mutex> lock(mutex);
          held.erase(id.place);
        }
        store_->Free(id);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(store_->used_bytes(), held.size() * 4 * 4096u);
  EXPECT_LE(*held.rbegin(), held.size() + kThreads);
}

}  // namespace
}  // namespace engine_race::test
