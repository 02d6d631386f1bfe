#include "engine_race/log/extents.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "engine_race/base/sys.h"
#include "test/loop_device.h"
#include "test/test_util.h"

namespace engine_race {
namespace {

constexpr uint64_t kExtentStoreId = 0x1234567890abcdef;
constexpr uint64_t kMiB = uint64_t{1} << 20;
using Place = std::pair<uint32_t, uint32_t>;

class ExtentTableTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(sys::OpenDirectory(dir_.path(), false, &dir_fd_).ok());
    identity_ = {kExtentStoreId, 1, 2, 300, kMiB};
    table_ = std::make_unique<ExtentTable>();
    ASSERT_TRUE(table_->Create(dir_fd_.get(), identity_, 0600).ok());
  }

  Status Reopen(bool read_only = false) {
    table_ = std::make_unique<ExtentTable>();
    ENGINE_RACE_RETURN_IF_ERROR(table_->Open(dir_fd_.get(), 1, kExtentStoreId, read_only));
    return table_->Load();
  }

  uint64_t Allocate(uint32_t bucket, uint32_t extent) {
    uint64_t offset = 0;
    const Status status = table_->FindOrAllocate(bucket, extent, &offset);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return offset;
  }

  // Changes the table's file below the table.
  void Overwrite(uint64_t offset, const std::string& bytes) {
    UniqueFd fd;
    ASSERT_TRUE(sys::OpenAt(dir_fd_.get(), ExtentTableName(1), O_RDWR, 0, &fd).ok());
    ASSERT_TRUE(sys::PwriteFull(fd.get(), bytes.data(), bytes.size(), offset).ok());
  }
  std::string EntryBytes(uint64_t number) {
    UniqueFd fd;
    std::string bytes(sizeof(format::ExtentEntry), '\0');
    EXPECT_TRUE(sys::OpenAt(dir_fd_.get(), ExtentTableName(1), O_RDONLY, 0, &fd).ok());
    EXPECT_TRUE(sys::PreadFull(fd.get(), bytes.data(), bytes.size(), EntryAt(number)).ok());
    return bytes;
  }
  static uint64_t EntryAt(uint64_t number) {
    return format::kExtentEntriesOffset + number * sizeof(format::ExtentEntry);
  }
  void EraseEntry(uint64_t number) {
    Overwrite(EntryAt(number), std::string(sizeof(format::ExtentEntry), '\0'));
  }

  test::TempDir dir_{test::FastParent()};
  UniqueFd dir_fd_;
  DeviceIdentity identity_;
  std::unique_ptr<ExtentTable> table_;
};

// It is refused before memory is taken for as many extents as it says.
TEST_F(ExtentTableTest, ATableShorterThanItsHeaderSaysIsNotLoaded) {
  io::File file;
  ASSERT_TRUE(io::File::Open(dir_fd_.get(), ExtentTableName(1), io::Access::kReadWrite,
                             io::Caching::kBuffered, &file)
                  .ok());
  identity_.extent_count = static_cast<uint32_t>(format::kMaxExtentCount);
  ASSERT_TRUE(WriteHeaderBlock(file, identity_).ok());
  table_ = std::make_unique<ExtentTable>();
  EXPECT_EQ(table_->Open(dir_fd_.get(), 1, kExtentStoreId, false).code(), Code::kCorruption);
  EXPECT_EQ(table_->memory_bytes(), 0u);
}

TEST_F(ExtentTableTest, GivesOutInOrderAndFindsAgain) {
  uint64_t offset = 0;
  EXPECT_FALSE(table_->Find(5, 0, &offset));
  EXPECT_EQ(Allocate(5, 0), identity_.OffsetOf(0));
  EXPECT_EQ(Allocate(5, 7), identity_.OffsetOf(1));
  EXPECT_EQ(Allocate(0, 0), identity_.OffsetOf(2));
  EXPECT_EQ(Allocate(5, 7), identity_.OffsetOf(1));
  EXPECT_EQ(table_->given_count(), 3u);
  ASSERT_TRUE(table_->Find(5, 7, &offset));
  EXPECT_EQ(offset, format::kDeviceDataOffset + kMiB);
  EXPECT_FALSE(table_->Find(7, 5, &offset));
}

TEST_F(ExtentTableTest, AgreesWithAMapAcrossReopenings) {
  std::mt19937_64 rng(7);
  std::map<Place, uint64_t> expected;
  while (expected.size() < identity_.extent_count) {
    const Place place(
        rng() % 3 == 0 ? kMaxBucketCount - 1 : rng() % 40,
        rng() % 5 == 0 ? (1u << format::kLogicalExtentBits) - 1 - rng() % 3 : rng() % 16);
    const uint64_t next = identity_.OffsetOf(expected.size());
    const auto at = expected.try_emplace(place, next).first;
    EXPECT_EQ(Allocate(place.first, place.second), at->second);
    if (rng() % 50 == 0) {
      ASSERT_TRUE(table_->Flush().ok());
    }
    if (rng() % 50 == 0) {
      ASSERT_TRUE(Reopen().ok());
    }
  }
  for (int reopened = 0; reopened < 2; ++reopened) {
    for (uint32_t bucket = 0; bucket < 40; ++bucket) {
      for (uint32_t extent = 0; extent < 16; ++extent) {
        uint64_t offset = 0;
        const auto at = expected.find({bucket, extent});
        ASSERT_EQ(table_->Find(bucket, extent, &offset), at != expected.end());
        if (at != expected.end()) {
          EXPECT_EQ(offset, at->second);
        }
      }
    }
    ASSERT_TRUE(Reopen(/*read_only=*/true).ok());
  }
}

TEST_F(ExtentTableTest, IsFullAtTheEndOfTheDevice) {
  for (uint32_t i = 0; i < identity_.extent_count; ++i) Allocate(i, 0);
  uint64_t offset = 0;
  EXPECT_EQ(table_->FindOrAllocate(0, 1, &offset).code(), Code::kFull);
  EXPECT_FALSE(table_->Find(0, 1, &offset));
  ASSERT_TRUE(Reopen().ok());
  EXPECT_EQ(table_->FindOrAllocate(0, 1, &offset).code(), Code::kFull);
  EXPECT_TRUE(table_->FindOrAllocate(299, 0, &offset).ok());
  EXPECT_EQ(offset, identity_.OffsetOf(299));
}

TEST_F(ExtentTableTest, ATornTailCountsAsNotGivenOut) {
  for (uint32_t i = 0; i < 4; ++i) Allocate(i, 0);
  ASSERT_TRUE(table_->Flush().ok());
  for (uint32_t i = 4; i < 8; ++i) Allocate(i, 0);
  // A power loss kept the last pages and lost others.
  EraseEntry(5);
  Overwrite(EntryAt(7), "rubbish");
  ASSERT_TRUE(Reopen().ok());
  uint64_t offset = 0;
  for (const uint32_t bucket : {0, 1, 2, 3, 4, 6}) EXPECT_TRUE(table_->Find(bucket, 0, &offset));
  EXPECT_FALSE(table_->Find(5, 0, &offset));
  EXPECT_FALSE(table_->Find(7, 0, &offset));
  // The holes are given out first, so that none stays behind what will be synced.
  EXPECT_EQ(Allocate(20, 0), identity_.OffsetOf(5));
  EXPECT_EQ(Allocate(21, 0), identity_.OffsetOf(7));
  EXPECT_EQ(Allocate(22, 0), identity_.OffsetOf(8));
  ASSERT_TRUE(table_->Flush().ok());
  ASSERT_TRUE(Reopen().ok());
  EXPECT_TRUE(table_->Find(20, 0, &offset));
  EXPECT_EQ(offset, identity_.OffsetOf(5));
}

TEST_F(ExtentTableTest, ASyncedEntryMayNotGoMissing) {
  for (uint32_t i = 0; i < 8; ++i) Allocate(i, 0);
  ASSERT_TRUE(table_->Flush().ok());
  const std::string entry = EntryBytes(3);
  EraseEntry(3);
  EXPECT_EQ(Reopen().code(), Code::kCorruption);
  Overwrite(EntryAt(3), entry);
  EXPECT_TRUE(Reopen().ok());
  // Entries that were good where they were.
  Overwrite(EntryAt(3), EntryBytes(4));
  Overwrite(EntryAt(4), entry);
  EXPECT_EQ(Reopen().code(), Code::kCorruption);
}

TEST_F(ExtentTableTest, EveryBitOfASyncedEntryCounts) {
  Allocate(9, 2);
  ASSERT_TRUE(table_->Flush().ok());
  const std::string entry = EntryBytes(0);
  for (size_t bit = 0; bit < entry.size() * 8; ++bit) {
    std::string damaged = entry;
    damaged[bit / 8] ^= static_cast<char>(1 << bit % 8);
    Overwrite(EntryAt(0), damaged);
    EXPECT_EQ(Reopen().code(), Code::kCorruption) << "bit " << bit;
  }
}

TEST_F(ExtentTableTest, TwoEntriesOfOneExtentAreDamage) {
  // Entry 1 from another history of the same table, where its turn came second.
  Allocate(1, 0);
  Allocate(2, 0);
  const std::string second = EntryBytes(1);
  table_ = std::make_unique<ExtentTable>();
  ASSERT_TRUE(table_->Create(dir_fd_.get(), identity_, 0600).ok());
  Allocate(2, 0);
  Overwrite(EntryAt(1), second);
  const Status status = Reopen();
  EXPECT_EQ(status.code(), Code::kCorruption);
  EXPECT_NE(status.message().find("of one extent"), std::string::npos) << status.ToString();
}

TEST_F(ExtentTableTest, ForeignMissingAndTruncatedTablesAreRefused) {
  table_ = std::make_unique<ExtentTable>();
  EXPECT_EQ(table_->Open(dir_fd_.get(), 1, kExtentStoreId + 1, false).code(), Code::kCorruption);
  EXPECT_EQ(table_->Open(dir_fd_.get(), 0, kExtentStoreId, false).code(), Code::kCorruption);
  Overwrite(format::kSyncedMarkOffset, "rubbish");
  EXPECT_EQ(Reopen().code(), Code::kCorruption);
  table_ = std::make_unique<ExtentTable>();
  ASSERT_TRUE(table_->Create(dir_fd_.get(), identity_, 0600).ok());
  Overwrite(10, "rubbish");
  EXPECT_EQ(Reopen().code(), Code::kCorruption);
  table_ = std::make_unique<ExtentTable>();
  ASSERT_TRUE(table_->Create(dir_fd_.get(), identity_, 0600).ok());
  ASSERT_EQ(::truncate(dir_.Join(ExtentTableName(1)).c_str(), EntryAt(200)), 0);
  EXPECT_EQ(Reopen().code(), Code::kCorruption);
}

TEST_F(ExtentTableTest, ManyThreadsAgree) {
  constexpr uint32_t kThreads = 4;
  constexpr uint32_t kBuckets = 30;
  constexpr uint32_t kExtents = 10;
  std::vector<std::vector<uint64_t>> seen(kThreads, std::vector<uint64_t>(kBuckets * kExtents));
  std::atomic<bool> torn = false;
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 rng(t);
      for (uint32_t i = 0; i < 20 * kBuckets * kExtents; ++i) {
        const auto number = static_cast<uint32_t>(rng() % (kBuckets * kExtents));
        uint64_t offset = 0;
        const bool known = table_->Find(number % kBuckets, number / kBuckets, &offset);
        const uint64_t found = offset;
        if (!table_->FindOrAllocate(number % kBuckets, number / kBuckets, &offset).ok() ||
            (known && offset != found)) {
          torn = true;
        }
        seen[t][number] = offset;
        if (i % 500 == 0 && !table_->Flush().ok()) torn = true;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(torn);
  ASSERT_TRUE(Reopen().ok());
  std::map<uint64_t, uint32_t> owners;
  for (uint32_t number = 0; number < kBuckets * kExtents; ++number) {
    for (uint32_t t = 0; t < kThreads; ++t) {
      uint64_t offset = 0;
      if (seen[t][number] == 0) continue;
      ASSERT_TRUE(table_->Find(number % kBuckets, number / kBuckets, &offset));
      EXPECT_EQ(offset, seen[t][number]);
      EXPECT_EQ(owners.try_emplace(offset, number).first->second, number);
    }
  }
}

// Of a device for a store with `bucket_count` buckets; 0 bytes when it does not fit.
DeviceIdentity Planned(uint64_t device_bytes, uint64_t stripe_unit_bytes, uint32_t bucket_count,
                       uint64_t bucket_capacity_records = kMaxBucketRecords) {
  Geometry geometry = GeometryFrom(Options());
  geometry.path_count = 1;
  geometry.stripe_unit_bytes = stripe_unit_bytes;
  geometry.bucket_count = bucket_count;
  geometry.bucket_capacity_records = bucket_capacity_records;
  DeviceIdentity identity;
  const Status status = PlanExtents(device_bytes, geometry, &identity);
  EXPECT_TRUE(status.ok() || status.code() == Code::kInvalidArgument) << status.ToString();
  EXPECT_LE(status.ok() ? identity.OffsetOf(identity.extent_count) : 0, device_bytes);
  return identity;
}

TEST(PlanExtentsTest, FourForEachBucketWhereItCan) {
  EXPECT_EQ(Planned(uint64_t{1} << 44, kMiB, 1024).extent_bytes, format::kMaxExtentBytes);
  EXPECT_EQ(Planned(uint64_t{32} << 30, kMiB, 1024).extent_bytes, 4 * kMiB)
      << "8 MiB would be 4095 of them";
  EXPECT_GE(Planned(uint64_t{32} << 30, kMiB, 1024).extent_count, 4096u);
  EXPECT_EQ(Planned(uint64_t{1} << 30, kMiB, 1024).extent_bytes, kMiB)
      << "never less than a stripe unit";
  EXPECT_EQ(Planned(uint64_t{1} << 30, kMiB, 1024).extent_count, 1023u);
  EXPECT_EQ(Planned(uint64_t{1} << 40, 256 * kMiB, 1).extent_bytes, 256 * kMiB);
}

TEST(PlanExtentsTest, NoLargerThanABucket) {
  EXPECT_EQ(Planned(uint64_t{1} << 40, kMiB, 8, 1024).extent_bytes, 4 * kMiB);
  EXPECT_EQ(Planned(uint64_t{1} << 40, kMiB, 8, 1).extent_bytes, kMinStripeUnitBytes);
}

TEST(PlanExtentsTest, ADeviceMayBeTooSmall) {
  EXPECT_EQ(Planned(2 * kMiB - 1, kMiB, 1).extent_bytes, 0u);
  EXPECT_EQ(Planned(0, kMiB, 1).extent_bytes, 0u);
  EXPECT_EQ(Planned(2 * kMiB, kMiB, 1).extent_count, 1u);
}

class DeviceHeaderTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!loop_.valid()) GTEST_SKIP() << "no loop devices here: " << loop_.why();
    ASSERT_TRUE(io::BlockDevice::Open(loop_.path(), /*read_only=*/false, &device_).ok());
    identity_ = {kExtentStoreId, 0, 2, 7, kMiB};
  }

  test::LoopDevice loop_{8 * kMiB};
  io::BlockDevice device_;
  DeviceIdentity identity_;
};

TEST_F(DeviceHeaderTest, OnlyAnEmptyDeviceIsFree) {
  bool foreign = true;
  EXPECT_TRUE(CheckFree(device_, /*overwrite=*/false, kExtentStoreId, &foreign).ok());
  ASSERT_TRUE(loop_.Write(8 * kMiB - 8192, "signature"));
  const Status status = CheckFree(device_, /*overwrite=*/false, kExtentStoreId, &foreign);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("not empty"), std::string::npos) << status.ToString();
  EXPECT_FALSE(foreign);
  EXPECT_TRUE(CheckFree(device_, /*overwrite=*/true, kExtentStoreId, &foreign).ok());
  std::string bytes;
  ASSERT_TRUE(loop_.Read(8 * kMiB - 8192, 9, &bytes));
  EXPECT_EQ(bytes, "signature") << "looking changes nothing";
  // Taken over, it no longer says what it was.
  ASSERT_TRUE(WriteDeviceHeader(device_, identity_).ok());
  ASSERT_TRUE(loop_.Read(8 * kMiB - 8192, 9, &bytes));
  EXPECT_EQ(bytes, std::string(9, '\0'));
}

TEST_F(DeviceHeaderTest, AnInterruptedCreationIsRecognised) {
  bool foreign = true;
  ASSERT_TRUE(WriteDeviceHeader(device_, identity_).ok());
  EXPECT_TRUE(CheckFree(device_, /*overwrite=*/false, kExtentStoreId, &foreign).ok());
  EXPECT_FALSE(foreign);
  EXPECT_EQ(CheckFree(device_, /*overwrite=*/false, 1, &foreign).code(), Code::kInvalidArgument);
  EXPECT_TRUE(foreign);
  EXPECT_TRUE(CheckFree(device_, /*overwrite=*/true, 1, &foreign).ok());
}

TEST_F(DeviceHeaderTest, SaysWhatADeviceIsInstead) {
  const auto check = [&](const DeviceIdentity& expected, Code code) {
    const Status status = CheckDeviceHeader(device_, expected, Code::kInvalidArgument);
    EXPECT_EQ(status.code(), code) << status.ToString();
    return status.message();
  };
  constexpr Code kWrong = Code::kInvalidArgument;
  EXPECT_NE(check(identity_, kWrong).find("holds no values"), std::string::npos);
  ASSERT_TRUE(WriteDeviceHeader(device_, identity_).ok());
  EXPECT_EQ(check(identity_, Code::kOk), "");
  DeviceIdentity other = identity_;
  other.store_id = 1;
  EXPECT_NE(check(other, kWrong).find("another store"), std::string::npos);
  other = identity_;
  other.path_index = 1;
  EXPECT_NE(check(other, kWrong).find("is path 0 of 2"), std::string::npos);
  other = identity_;
  other.extent_bytes = 2 * kMiB;
  EXPECT_NE(check(other, Code::kCorruption).find("differ"), std::string::npos);
  other = identity_;
  other.extent_count = 8;
  ASSERT_TRUE(WriteDeviceHeader(device_, other).ok());
  EXPECT_NE(check(other, Code::kCorruption).find("shrunk"), std::string::npos);
  ASSERT_TRUE(loop_.Write(30, "x"));
  EXPECT_NE(check(other, Code::kCorruption).find("checksum"), std::string::npos);
}

}  // namespace
}  // namespace engine_race
