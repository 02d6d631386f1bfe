// VerifyStore: silent about a sound store, exact about a damaged one, and it changes nothing.
#include "engine_race/copies/verify.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "engine_race/base/checksum.h"
#include "engine_race/copies/copies.h"
#include "test/log/entry_test_util.h"
#include "test/log/log_test_util.h"

namespace engine_race::test {
namespace {

constexpr uint64_t kVerifiedRecords = 300;

// Hashes and times of every file: of the part that has been written to.
std::map<std::string, std::pair<uint64_t, int64_t>> Snapshot(const std::string& dir) {
  std::map<std::string, std::pair<uint64_t, int64_t>> files;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)), {});
    files[entry.path().filename()] = {Hash64(bytes.data(), bytes.size(), 0),
                                      entry.last_write_time().time_since_epoch().count()};
  }
  return files;
}

// Whatever the byte is, it is another one then.
void FlipByte(const std::string& path, uint64_t offset) {
  UniqueFd fd;
  char byte = 0;
  ASSERT_TRUE(sys::OpenAt(AT_FDCWD, path, O_RDONLY, 0, &fd).ok());
  ASSERT_TRUE(sys::PreadFull(fd.get(), &byte, 1, offset).ok());
  byte = static_cast<char>(~byte);
  Overwrite(path, &byte, 1, offset);
}

class VerifyTest : public testing::Test {
 protected:
  VerifyTest() {
    Options options = TinyLogOptions();
    options.bucket_capacity_records = 1024;
    const auto log = OpenLog(options, dir_.path());
    store_id_ = log->store_id();
    for (uint64_t key = 0; key < kVerifiedRecords; ++key) {
      const std::string value = ValueOf(key, 1);
      EXPECT_TRUE(log->Append(key, key % 10 == 7 ? nullptr : value.data()).ok());
    }
    value_offset_ = log->slots().LocateValues(0, 12).offset;
    key_offset_ = log->slots().LocateKeys(0, 13).offset;
    staged_value_place_ = log->geometry().ValuePlaceOffset(0, 0);
  }

  Status Run() {
    bad_.clear();
    return VerifyStore(dir_.path(), &report_,
                       [this](const BadRecord& bad) { bad_.push_back(bad); });
  }

  TempDir dir_;
  uint64_t store_id_ = 0;
  uint64_t value_offset_ = 0;
  uint64_t key_offset_ = 0;
  uint64_t staged_value_place_ = 0;
  VerifyReport report_;
  std::vector<BadRecord> bad_;
};

TEST_F(VerifyTest, ASoundStoreIsReadToItsEndAndLeftAsItIs) {
  const auto before = Snapshot(dir_.path());
  const Status status = Run();
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(report_.record_count, kVerifiedRecords);
  EXPECT_EQ(report_.bad_count, 0u);
  EXPECT_EQ(report_.lost_tail_count, 0u);
  EXPECT_TRUE(Snapshot(dir_.path()) == before);
}

// Calls of VerifyFiles: what was told, and how it ended.
struct Told {
  std::vector<uint64_t> done_counts;
  uint64_t record_count = 0;
  Status status;
};

Told TellProgress(const std::string& dir) {
  Told told;
  StoreFiles files;
  VerifyReport report;
  EXPECT_TRUE(OpenStoreFilesToRead(dir, &files).ok());
  told.status =
      VerifyFiles(files, &report, {}, {}, [&](uint64_t done_count, uint64_t record_count) {
        told.done_counts.push_back(done_count);
        told.record_count = record_count;
        return true;
      });
  return told;
}

TEST_F(VerifyTest, TellsHowFarItIs) {
  const Told told = TellProgress(dir_.path());
  EXPECT_TRUE(told.status.ok()) << told.status.ToString();
  EXPECT_EQ(told.record_count, kVerifiedRecords);
  // Other threads may do all pieces before the caller's thread tells of the first one.
  ASSERT_GE(told.done_counts.size(), 2u);
  EXPECT_EQ(told.done_counts.front(), 0u);
  EXPECT_TRUE(std::is_sorted(told.done_counts.begin(), told.done_counts.end()));
  EXPECT_EQ(told.done_counts.back(), kVerifiedRecords);
}

TEST_F(VerifyTest, TellsThatItHasReadAllWhateverItFinds) {
  FlipByte(dir_.Join("value_00"), value_offset_ + 1000);
  EXPECT_EQ(TellProgress(dir_.path()).done_counts.back(), kVerifiedRecords);
  // Only the synced records are trusted, and the rest lies in the tails.
  SetWord(dir_.path(), store_id_, 0, format::WordKind::kPageCache, 12345);
  EXPECT_EQ(TellProgress(dir_.path()).done_counts.back(), kVerifiedRecords);
  // A bucket without believable counts has no records to read.
  const uint64_t word = 12345;
  Overwrite(dir_.Join(format::kStagingCountsName), &word, sizeof(word), 0);
  const Told told = TellProgress(dir_.path());
  EXPECT_EQ(told.done_counts.back(), told.record_count);
  EXPECT_LT(told.record_count, kVerifiedRecords);
}

// Entries have the whole hashes of their values.
TEST_F(VerifyTest, AnotherValueOfTheSameIndexBitsIsBad) {
  const CollidingValues values;
  uint64_t offset = 0;
  {
    const auto log = OpenLog(TinyLogOptions(), dir_.path());
    for (uint64_t i = 0; i < 4; ++i) {
      ASSERT_TRUE(log->Append(kVerifiedRecords + i, values.first.data()).ok());
    }
    ASSERT_EQ(log->LoggedValueWatermark(0), kVerifiedRecords + 4);
    offset = log->slots().LocateValues(0, kVerifiedRecords + 1).offset;
  }
  ASSERT_TRUE(Run().ok());
  Overwrite(dir_.Join("value_00"), values.second.data(), values.second.size(), offset);
  EXPECT_EQ(Run().code(), Code::kCorruption);
  ASSERT_EQ(bad_.size(), 1u);
  EXPECT_EQ(bad_[0].file, "value_00");
  EXPECT_EQ(bad_[0].slot, kVerifiedRecords + 1);
}

TEST_F(VerifyTest, NamesFileBucketAndSlotOfEachBadRecord) {
  FlipByte(dir_.Join("value_00"), value_offset_ + 1000);
  FlipByte(dir_.Join("key_00"), key_offset_ + 15);
  EXPECT_EQ(Run().code(), Code::kCorruption);
  ASSERT_EQ(bad_.size(), 2u);
  EXPECT_EQ(report_.bad_count, 2u);
  EXPECT_EQ(bad_[0].file, "value_00");
  EXPECT_EQ(bad_[0].bucket, 0u);
  EXPECT_EQ(bad_[0].slot, 12u);
  EXPECT_EQ(bad_[1].file, "key_00");
  EXPECT_EQ(bad_[1].slot, 13u);
}

TEST_F(VerifyTest, StagedRecordsAreLookedAtToo) {
  // Groups of four values: 296 to 299 were the last, and lie in a log since. Write two more.
  {
    const auto log = OpenLog(TinyLogOptions(), dir_.path());
    for (uint64_t key = 300; key < 302; ++key) {
      ASSERT_TRUE(log->Append(key, ValueOf(key, 1).data()).ok());
    }
  }
  const std::string junk(kValueBytes, 'x');
  for (uint32_t place = 0; place < format::kBasePlaces; ++place) {
    Overwrite(dir_.Join(format::kStagingValuesName), junk.data(), junk.size(),
              staged_value_place_ + place * 4 * kValueBytes);
  }
  EXPECT_EQ(Run().code(), Code::kCorruption);
  ASSERT_EQ(bad_.size(), 1u);
  EXPECT_EQ(bad_[0].file, format::kStagingValuesName);
  EXPECT_EQ(bad_[0].slot, 300u);
}

TEST_F(VerifyTest, DamagedCountsAreOneFindingForTheWholeBucket) {
  const uint64_t word = 12345;
  Overwrite(dir_.Join(format::kStagingCountsName), &word, sizeof(word), 0);
  EXPECT_EQ(Run().code(), Code::kCorruption);
  ASSERT_EQ(bad_.size(), 1u);
  EXPECT_EQ(bad_[0].slot, BadRecord::kWholeBucket);
  EXPECT_EQ(bad_[0].file, format::kStagingCountsName);
}

TEST_F(VerifyTest, WhatPowerLossTookIsCountedAndNotBad) {
  const std::string zeros(kValueBytes, '\0');
  Overwrite(dir_.Join("value_00"), zeros.data(), zeros.size(), value_offset_);
  SetWord(dir_.path(), store_id_, 0, format::WordKind::kPageCache, 12345);
  const Status status = Run();
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(report_.record_count, 12u);
  EXPECT_EQ(report_.lost_tail_count, kVerifiedRecords - 12);
}

TEST_F(VerifyTest, CountsInDoubtNeedNotFitTogether) {
  // More groups are staged than there are places: one word reached the device later than another.
  SetWord(dir_.path(), store_id_, 0, format::WordKind::kLoggedValues, 0);
  EXPECT_EQ(Run().code(), Code::kCorruption);
  SetWord(dir_.path(), store_id_, 0, format::WordKind::kPageCache, 12345);
  const Status status = Run();
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(report_.record_count, kVerifiedRecords);
  EXPECT_EQ(report_.lost_tail_count, 0u);
}

TEST_F(VerifyTest, MissingAndOpenStoresAreSaidToBe) {
  VerifyReport report;
  EXPECT_EQ(VerifyStore(dir_.Join("nothing"), &report, {}).code(), Code::kNotFound);
  const auto log = OpenLog(TinyLogOptions(), dir_.path());
  EXPECT_EQ(VerifyStore(dir_.path(), &report, {}).code(), Code::kIOError);
}

}  // namespace
}  // namespace engine_race::test
