#include "engine_race/log/staging.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <string>
#include <vector>

#include "engine_race/base/memory_limit.h"
#include "test/log/log_parts_test_util.h"

namespace engine_race::test {
namespace {

// Mapped and written staging leave the same bytes in the files.
class StagingTest : public ::testing::TestWithParam<StagingMode> {
 protected:
  StagingTest() : files_(OpenedFiles(TinyLogOptions(), dir_.path())), staging_(files_) {
    staging_.Start(GetParam(), kNoMemoryLimit, LogFn(), Placement());
    buffer_.resize(4 * kValueBytes);
  }

  BucketState Counts(uint32_t bucket) const {
    std::vector<BucketState> states;
    EXPECT_TRUE(staging_.ReadCounts(&states).ok());
    return states.at(bucket);
  }
  void Publish(uint32_t bucket, format::WordKind kind, uint64_t payload) {
    ASSERT_TRUE(staging_.PublishWord(bucket, kind, payload).ok());
  }

  const TempDir dir_{FastParent()};
  StoreFiles files_;
  Staging staging_;
  std::string buffer_;
};

INSTANTIATE_TEST_SUITE_P(Modes, StagingTest,
                         ::testing::Values(StagingMode::kAuto, StagingMode::kWritten),
                         [](const auto& mode) {
                           return mode.param == StagingMode::kAuto ? "Mapped" : "Written";
                         });

TEST_P(StagingTest, ValuesAndEntriesReadBackFromTheirPlaces) {
  ASSERT_EQ(staging_.mapped(), GetParam() == StagingMode::kAuto);
  ASSERT_TRUE(staging_.ReserveCounts().ok());
  ASSERT_TRUE(staging_.ReservePlace(LaneKind::kValues, 2, 6).ok());
  for (const uint32_t place : {1U, 6U}) {
    for (uint64_t i = 0; i < 4; ++i) {
      ASSERT_TRUE(staging_.StageValue(2, place, i, ValueOf(i, place).data()).ok());
    }
  }
  ASSERT_TRUE(staging_.StageKey(2, 1, 0, {11, 12, 13, 14}).ok());
  ASSERT_TRUE(staging_.StageKey(2, 1, 1, {21, 22, 23, 24}).ok());

  for (const uint32_t place : {1U, 6U}) {
    ASSERT_TRUE(staging_.Read(LaneKind::kValues, 2, place, 2, 2, buffer_.data()).ok());
    EXPECT_EQ(buffer_.substr(0, kValueBytes), ValueOf(2, place));
    EXPECT_EQ(buffer_.substr(kValueBytes, kValueBytes), ValueOf(3, place));
    RegionPool::Lease lease;
    const char* group = nullptr;
    ASSERT_TRUE(
        staging_.ReadFull(2, {LaneKind::kValues, 0, place}, /*by_pread=*/false, &lease, &group)
            .ok());
    EXPECT_EQ(std::string(group, kValueBytes), ValueOf(0, place));
    EXPECT_EQ(lease.data() == nullptr, staging_.mapped()) << "a mapped group is not copied";
  }
  format::KeyEntry entries[2];
  ASSERT_TRUE(staging_.Read(LaneKind::kKeys, 2, 1, 0, 2, entries).ok());
  EXPECT_EQ(entries[0].key, 11u);
  EXPECT_EQ(entries[1].check, 24u);
  EXPECT_EQ(staging_.memory_bytes() > 0, staging_.mapped());
}

TEST_P(StagingTest, AMissingValueIsZeros) {
  ASSERT_TRUE(staging_.ReserveCounts().ok());
  ASSERT_TRUE(staging_.StageValue(0, 0, 0, ValueOf(1, 1).data()).ok());
  ASSERT_TRUE(staging_.StageValue(0, 0, 0, nullptr).ok());
  ASSERT_TRUE(staging_.Read(LaneKind::kValues, 0, 0, 0, 1, buffer_.data()).ok());
  EXPECT_EQ(buffer_.substr(0, kValueBytes), std::string(kValueBytes, '\0'));
}

TEST_P(StagingTest, EachPublishedWordChangesNoOther) {
  ASSERT_TRUE(staging_.ReserveCounts().ok());
  const BucketState before = Counts(1);
  ASSERT_FALSE(before.damaged);
  EXPECT_EQ(before.record_count, 0u);
  Publish(1, format::WordKind::kRecords, 300);
  Publish(1, format::WordKind::kLoggedValues, 296);
  Publish(1, format::WordKind::kLoggedKeys, 256);
  Publish(1, format::WordKind::kValuePlaces, 0x76543210);
  Publish(1, format::WordKind::kKeyPlaces, 0x10101010);
  Publish(1, format::WordKind::kSynced, 299);
  const BucketState state = Counts(1);
  EXPECT_FALSE(state.damaged);
  EXPECT_EQ(state.record_count, 300u);
  EXPECT_EQ(state.logged_value_watermark, 296u);
  EXPECT_EQ(state.logged_key_watermark, 256u);
  EXPECT_EQ(state.value_places, 0x76543210u);
  EXPECT_EQ(state.key_places, 0x10101010u);
  EXPECT_EQ(state.synced_watermark, 299u);
  EXPECT_EQ(state.page_cache_id, before.page_cache_id);
  EXPECT_EQ(Counts(0).record_count, 0u) << "of the neighbour";
}

TEST_P(StagingTest, CountsThatContradictOneAnotherAreDamaged) {
  ASSERT_TRUE(staging_.ReserveCounts().ok());
  Publish(0, format::WordKind::kRecords, 8);
  EXPECT_FALSE(Counts(0).damaged);
  // Half a group; more than there are; synced beyond the end; more than a bucket takes.
  Publish(0, format::WordKind::kLoggedValues, 6);
  EXPECT_TRUE(Counts(0).damaged);
  Publish(0, format::WordKind::kLoggedValues, 12);
  EXPECT_TRUE(Counts(0).damaged);
  Publish(0, format::WordKind::kLoggedValues, 8);
  EXPECT_FALSE(Counts(0).damaged);
  Publish(0, format::WordKind::kSynced, 9);
  EXPECT_TRUE(Counts(0).damaged);
  Publish(0, format::WordKind::kSynced, 8);
  Publish(0, format::WordKind::kRecords, files_.identity.geometry.bucket_capacity_records + 1);
  EXPECT_TRUE(Counts(0).damaged);
}

TEST_P(StagingTest, AnyFlippedBitOfAWordDamagesItsBucketAlone) {
  ASSERT_TRUE(staging_.ReserveCounts().ok());
  Publish(3, format::WordKind::kRecords, 5);
  const format::BucketCounts line = EncodeCounts(files_.identity.store_id, 3, Counts(3));
  for (uint32_t bit = 0; bit < 64; ++bit) {
    const uint64_t damaged = line.records ^ (uint64_t{1} << bit);
    Overwrite(dir_.Join(format::kStagingCountsName), &damaged, sizeof(damaged), 3 * sizeof(line));
    EXPECT_TRUE(Counts(3).damaged) << "bit " << bit;
    EXPECT_FALSE(Counts(2).damaged);
  }
}

TEST_P(StagingTest, AWrittenLineIsTheWholeState) {
  ASSERT_TRUE(staging_.ReserveCounts().ok());
  BucketState state;
  state.record_count = 9;
  state.logged_value_watermark = 8;
  state.synced_watermark = 9;
  state.page_cache_id = 4711;
  ASSERT_TRUE(staging_.WriteLine(1, state).ok());
  const BucketState found = Counts(1);
  EXPECT_FALSE(found.damaged);
  EXPECT_EQ(found.record_count, 9u);
  EXPECT_EQ(found.logged_value_watermark, 8u);
  EXPECT_EQ(found.synced_watermark, 9u);
  EXPECT_EQ(found.page_cache_id, 4711u);
}

TEST_P(StagingTest, PlacesThatWereGivenBackTakeNoSpaceAndAreStagedAgain) {
  ASSERT_TRUE(staging_.ReserveCounts().ok());
  const auto stage = [&](uint32_t bucket, uint64_t version) {
    for (const uint32_t place : {0U, 7U}) {
      for (uint64_t i = 0; i < 4; ++i) {
        ASSERT_TRUE(staging_.StageValue(bucket, place, i, ValueOf(i, version).data()).ok());
      }
    }
    ASSERT_TRUE(staging_.StageKey(bucket, 0, 0, {11, 12, 13, version}).ok());
  };
  for (const uint32_t bucket : {1U, 2U}) ASSERT_NO_FATAL_FAILURE(stage(bucket, 1));
  const auto space = [&] {
    uint64_t bytes = 0;
    for (const auto* const name : {format::kStagingValuesName, format::kStagingKeysName}) {
      struct stat info {};
      EXPECT_EQ(::stat(dir_.Join(name).c_str(), &info), 0);
      bytes += static_cast<uint64_t>(info.st_blocks) * 512;
    }
    return bytes;
  };
  const uint64_t full_space = space();
  const uint64_t full_memory = staging_.memory_bytes();
  staging_.GiveBack(1);
  EXPECT_EQ(space(), full_space / 2);
  EXPECT_EQ(staging_.memory_bytes(), full_memory / 2);
  // The other bucket keeps what it has.
  for (const uint32_t place : {0U, 7U}) {
    ASSERT_TRUE(staging_.Read(LaneKind::kValues, 2, place, 3, 1, buffer_.data()).ok());
    EXPECT_EQ(buffer_.substr(0, kValueBytes), ValueOf(3, 1));
  }
  ASSERT_NO_FATAL_FAILURE(stage(1, 2));
  EXPECT_EQ(space(), full_space);
  EXPECT_EQ(staging_.memory_bytes(), full_memory);
  for (const uint32_t place : {0U, 7U}) {
    ASSERT_TRUE(staging_.Read(LaneKind::kValues, 1, place, 3, 1, buffer_.data()).ok());
    EXPECT_EQ(buffer_.substr(0, kValueBytes), ValueOf(3, 2));
  }
  format::KeyEntry entry;
  ASSERT_TRUE(staging_.Read(LaneKind::kKeys, 1, 0, 0, 1, &entry).ok());
  EXPECT_EQ(entry.check, 2u);
}

// Only what is needed for the rest of a group, so that little suffices on a full disk.
TEST_P(StagingTest, AGroupThatGoesOnAfterThatTakesSpaceFromItsNextRecordOn) {
  ASSERT_TRUE(staging_.ReserveCounts().ok());
  const auto stage = [&](uint64_t index, uint64_t version) {
    ASSERT_TRUE(staging_.StageValue(1, 0, index, ValueOf(index, version).data()).ok());
  };
  for (const uint64_t i : {0, 1}) ASSERT_NO_FATAL_FAILURE(stage(i, 1));
  staging_.GiveBack(1);
  const auto value_space = [&] {
    struct stat info {};
    EXPECT_EQ(::stat(dir_.Join(format::kStagingValuesName).c_str(), &info), 0);
    return static_cast<uint64_t>(info.st_blocks) * 512;
  };
  EXPECT_EQ(value_space(), 0u);
  for (const uint64_t i : {2, 3}) ASSERT_NO_FATAL_FAILURE(stage(i, 2));
  EXPECT_EQ(value_space(), 2 * kValueBytes);
  // The next group in the place has all of it.
  ASSERT_TRUE(staging_.ReservePlace(LaneKind::kValues, 1, 0).ok());
  for (const uint64_t i : {0, 1, 2, 3}) ASSERT_NO_FATAL_FAILURE(stage(i, 3));
  EXPECT_EQ(value_space(), 4 * kValueBytes);
  for (const uint64_t i : {0, 1, 2, 3}) {
    ASSERT_TRUE(staging_.Read(LaneKind::kValues, 1, 0, i, 1, buffer_.data()).ok());
    EXPECT_EQ(buffer_.substr(0, kValueBytes), ValueOf(i, 3));
  }
}

// Half of it is left for everything else.
TEST(StagingMemoryTest, AMappingThatTheMemoryDoesNotHoldIsLeftOut) {
  const TempDir dir(FastParent());
  const StoreFiles files = OpenedFiles(TinyLogOptions(), dir.path());
  const uint64_t usual_bytes = files.identity.geometry.usual_staging_bytes();
  EXPECT_EQ(usual_bytes, 4 * (2 * uint64_t{4} * kValueBytes + 2 * 256 * kKeyEntryBytes));
  for (const bool is_enough : {true, false}) {
    std::vector<std::string> lines;
    const LogFn log = [&lines](LogLevel level, std::string_view line) {
      EXPECT_EQ(level, LogLevel::kInfo);
      lines.emplace_back(line);
    };
    const uint64_t limit_bytes = 2 * usual_bytes - (is_enough ? 0 : 1);
    Staging staging(files);
    staging.Start(StagingMode::kAuto, limit_bytes, log, Placement());
    EXPECT_EQ(staging.mapped(), is_enough);
    ASSERT_EQ(lines.size(), is_enough ? 0u : 1u);
    if (is_enough) continue;
    for (const uint64_t named : {usual_bytes, limit_bytes}) {
      EXPECT_NE(lines[0].find(std::to_string(named)), std::string::npos) << lines[0];
    }
  }
}

}  // namespace
}  // namespace engine_race::test
