// The parts of the log, and the whole of it, with values of any size.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine_race/log/journal.h"
#include "engine_race/log/journal_replay.h"
#include "test/log/log_parts_test_util.h"
#include "test/log/page_cache_test_util.h"

namespace engine_race::test {
namespace {

class SizedLogTest : public testing::TestWithParam<uint32_t> {
 protected:
  bool IsLarge() const { return GetParam() > 20000; }
  // Of a segment.
  static uint64_t SlotsOfOne() { return GeometryFrom(SizedLogOptions(GetParam())).row_records(); }
  std::string Value(uint64_t key, uint64_t version = 1) const {
    return ValueOf(key, version, GetParam());
  }

  // Values are too long to be printed.
  static bool IsAt(const char* at, const std::string& value) {
    return std::string_view(at, value.size()) == value;
  }

  const TempDir dir_{FastParent()};
};

INSTANTIATE_TEST_SUITE_P(Sizes, SizedLogTest, testing::ValuesIn(kValueSizes),
                         testing::PrintToStringParamName());

// Each write leaves the neighbours of its slots as they were, also those in its blocks.
TEST_P(SizedLogTest, SlotsAreWrittenAndReadBesideTheirNeighbours) {
  StoreFiles files = OpenedFiles(SizedLogOptions(GetParam()), dir_.path());
  const ValueLayout layout = files.identity.geometry.layout;
  // Segments of two buckets take turns, so that a read is of several pieces.
  for (uint64_t slot = 0; slot < 3 * SlotsOfOne(); slot += SlotsOfOne()) {
    for (const uint32_t bucket : {0, 1}) ASSERT_TRUE(files.slots.Give(bucket, slot, 1).ok());
  }
  // Some devices take direct I/O at other addresses, too.
  CallWatch watch([&](SystemCall* call) {
    const bool is_read = call->kind == CallKind::kPread;
    if (is_read || call->kind == CallKind::kPwrite) {
      const void* const memory = is_read ? call->buffer : call->data;
      EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 4096, 0u) << PathOf(*call);
      EXPECT_EQ(call->size % 4096, 0u);
      EXPECT_EQ(call->offset % 4096, 0);
    }
    return call->Proceed();
  });
  const ScopedHook hook(&watch);
  const uint64_t most = IsLarge() ? 4 : 300;
  std::mt19937_64 random(GetParam());
  std::map<std::pair<uint32_t, uint64_t>, uint64_t> versions;
  Region buffer;
  ASSERT_TRUE(Region::Allocate(layout.BlockBytesFor(most), /*huge_pages=*/false, &buffer).ok());
  for (uint64_t round = 1; round <= (IsLarge() ? 20 : 150); ++round) {
    const auto bucket = static_cast<uint32_t>(random() % 2);
    // Around the ends of segments.
    const uint64_t count = 1 + random() % (round % 4 == 0 ? most : std::min<uint64_t>(most, 20));
    const uint64_t end =
        std::min((1 + random() % 3) * SlotsOfOne() + random() % 12, 3 * SlotsOfOne());
    const uint64_t first = end - std::min(count, end);
    for (uint64_t i = 0; i < count; ++i) {
      FillValue(first + i, round, buffer.data() + i * layout.slot_bytes(), GetParam());
      versions[{bucket, first + i}] = round;
    }
    ASSERT_TRUE(files.slots.WriteValues(bucket, first, count, buffer.data()).ok());
    const uint64_t from = first - std::min<uint64_t>(first, random() % 5);
    const uint64_t read_count = std::min(most, 3 * SlotsOfOne() - from);
    std::fill_n(buffer.data(), read_count * layout.slot_bytes(), '\xee');
    const Status read = files.slots.ReadValues(bucket, from, read_count, buffer.data());
    ASSERT_TRUE(read.ok()) << read.ToString();
    for (uint64_t i = 0; i < read_count; ++i) {
      const auto found = versions.find({bucket, from + i});
      const std::string expected =
          found == versions.end() ? std::string(GetParam(), '\0') : Value(from + i, found->second);
      ASSERT_TRUE(IsAt(buffer.data() + i * layout.slot_bytes(), expected))
          << "slot " << from + i << " in round " << round;
    }
  }
}

TEST_P(SizedLogTest, SlotsFollowOneAnotherFromTheStartOfABlock) {
  StoreFiles files = OpenedFiles(SizedLogOptions(GetParam()), dir_.path());
  const Geometry& geometry = files.identity.geometry;
  ASSERT_TRUE(files.slots.Give(1, 0, 2 * SlotsOfOne()).ok());
  for (const uint64_t segment : {0, 1}) {
    const SlotLocation first = files.slots.LocateValues(1, segment * SlotsOfOne(), SlotsOfOne());
    EXPECT_EQ(first.offset % geometry.segment_value_bytes(), 0u);
    EXPECT_EQ(first.slot_count, SlotsOfOne());
    const SlotLocation last = files.slots.LocateValues(1, (segment + 1) * SlotsOfOne() - 1);
    EXPECT_EQ(last.offset, first.offset + (SlotsOfOne() - 1) * geometry.slot_bytes());
  }
  EXPECT_EQ(geometry.segment_value_bytes() % 4096, 0u);
  EXPECT_GE(geometry.segment_value_bytes(), SlotsOfOne() * GetParam());
  EXPECT_LT(geometry.segment_value_bytes(), SlotsOfOne() * (GetParam() + GetParam() / 64) + 4096);
}

TEST_P(SizedLogTest, PunchedValuesTakeNoneOfTheirNeighboursAway) {
  StoreFiles files = OpenedFiles(SizedLogOptions(GetParam()), dir_.path());
  const uint32_t slot_bytes = files.identity.geometry.slot_bytes();
  const uint64_t count = IsLarge() ? 6 : SlotsOfOne();
  Region buffer;
  ASSERT_TRUE(Region::Allocate(files.identity.geometry.layout.BlockBytesFor(count),
                               /*huge_pages=*/false, &buffer)
                  .ok());
  const uint64_t first = SlotsOfOne() - count;
  for (uint64_t i = 0; i < count; ++i) {
    FillValue(i, 1, buffer.data() + i * slot_bytes, GetParam());
  }
  ASSERT_TRUE(files.slots.WriteValues(0, first, count, buffer.data()).ok());
  bool supported = false;
  ASSERT_TRUE(files.slots.PunchValues(0, first + 1, count - 3, &supported).ok());
  ASSERT_TRUE(files.slots.ReadValues(0, first, count, buffer.data()).ok());
  for (const uint64_t i : {uint64_t{0}, count - 2, count - 1}) {
    EXPECT_TRUE(IsAt(buffer.data() + i * slot_bytes, Value(i))) << i;
  }
}

TEST_P(SizedLogTest, StagedValuesReadBackFromTheirPlaces) {
  for (const StagingMode mode : {StagingMode::kAuto, StagingMode::kWritten}) {
    const TempDir dir(FastParent());
    StoreFiles files = OpenedFiles(SizedLogOptions(GetParam()), dir.path());
    const Geometry& geometry = files.identity.geometry;
    Staging staging(files);
    staging.Start(mode, kNoMemoryLimit, LogFn(), Placement());
    ASSERT_TRUE(staging.ReserveCounts().ok());
    const uint64_t count = geometry.values_per_group();
    std::string buffer(count * geometry.slot_bytes(), '\xee');
    for (const uint32_t place : {1U, 6U}) {
      for (uint64_t i = 0; i < count; ++i) {
        ASSERT_TRUE(staging.StageValue(2, place, i, Value(i, place).data()).ok());
      }
      // The last one again, as zeros.
      ASSERT_TRUE(staging.StageValue(2, place, count - 1, nullptr).ok());
    }
    for (const uint32_t place : {1U, 6U}) {
      RegionPool::Lease lease;
      const char* group = nullptr;
      ASSERT_TRUE(
          staging.ReadFull(2, {LaneKind::kValues, 0, place}, /*by_pread=*/false, &lease, &group)
              .ok());
      ASSERT_TRUE(staging.Read(LaneKind::kValues, 2, place, 0, count, buffer.data()).ok());
      for (uint64_t i = 0; i < count; ++i) {
        const std::string expected =
            i == count - 1 ? std::string(GetParam(), '\0') : Value(i, place);
        const uint64_t at = i * geometry.slot_bytes();
        ASSERT_TRUE(IsAt(buffer.data() + at, expected)) << i;
        ASSERT_TRUE(IsAt(group + at, expected)) << i;
      }
    }
  }
}

TEST_P(SizedLogTest, SingleRecordsAndChainsOfAJournalReadBack) {
  constexpr uint64_t kId = 77;
  UniqueFd directory;
  ASSERT_TRUE(sys::OpenDirectory(dir_.path(), /*create=*/false, &directory).ok());
  std::unique_ptr<Journal> journal;
  Journal::Callbacks callbacks;
  callbacks.checkpoint = [] { return Status::Ok(); };
  callbacks.on_failure = [](const Status&) {};
  ASSERT_TRUE(Journal::Open(directory.get(), OwnIds(kId), GetParam(), 16 << 20, 0600,
                            format::kJournalBatchRecords, Placement(), std::move(callbacks),
                            &journal)
                  .ok());
  const uint32_t count = IsLarge() ? 5 : 150;
  std::vector<std::string> values;
  std::vector<JournalRecord> records;
  for (uint32_t slot = 0; slot < count; ++slot) {
    KeyRecord record;
    record.key = record.sequence = record.slot = slot;
    record.tombstone = slot % 5 == 4;
    const std::string& value = values.emplace_back(Value(slot));
    record.value_hash = record.tombstone ? 0 : HashValue(value.data(), value.size());
    records.push_back({{EntryCodec(kId, 1).Encode(record, slot), /*bucket=*/1, 0}, nullptr});
  }
  for (uint32_t slot = 0; slot < count; ++slot) {
    if (slot % 5 != 4) records[slot].value = values[slot].data();
  }
  const uint32_t half_count = count / 2;
  for (uint32_t slot = 0; slot < half_count; ++slot) {
    JournalRequest request;
    request.descriptor = records[slot].descriptor;
    request.value = records[slot].value;
    journal->Enqueue(&request);
    ASSERT_TRUE(journal->Await(&request).ok());
  }
  uint32_t half = 0;
  const std::span<const JournalRecord> chain = std::span(records).subspan(half_count);
  ASSERT_TRUE(journal->WriteChain(chain, &half).ok());
  journal->SettleChain(half);
  JournalReplay replay;
  ASSERT_TRUE(replay.Read(directory.get(), OwnIds(kId), GetParam()).ok());
  ASSERT_EQ(replay.RecordsOf(1).size(), count);
  Region buffer;
  ASSERT_TRUE(
      Region::Allocate(ValueLayout(GetParam()).read_bytes(), /*huge_pages=*/false, &buffer).ok());
  for (uint32_t slot = 0; slot < count; ++slot) {
    if (slot % 5 == 4) continue;
    ASSERT_TRUE(replay.ReadValue(*replay.Find(1, slot), buffer.data()).ok());
    ASSERT_TRUE(IsAt(buffer.data(), values[slot])) << slot;
  }
}

// Stores of one bucket's records, in order of slot, whose process has ended.
class SizedRecoveryTest : public SizedLogTest {
 protected:
  Options OptionsFor(SyncMode mode) const {
    Options options = SizedLogOptions(GetParam());
    options.sync_mode = mode;
    return options;
  }
  uint64_t Count() const { return IsLarge() ? 7 : 600; }
  void Append(BucketLog* log, uint64_t begin, uint64_t end) const {
    for (uint64_t key = begin; key < end; ++key) {
      const Status appended = log->Append(key, key % 9 == 4 ? nullptr : Value(key).data());
      ASSERT_TRUE(appended.ok()) << appended.ToString();
    }
  }
  void ExpectHolds(BucketLog* log, uint64_t count) const {
    ASSERT_NE(log, nullptr);
    const std::vector<KeyRecord> records = RecordsOf(log, 0);
    ASSERT_EQ(records.size(), count);
    for (uint64_t slot = 0; slot < count; ++slot) {
      EXPECT_EQ(records[slot].key, slot);
      ASSERT_EQ(records[slot].tombstone, slot % 9 == 4) << slot;
      if (slot % 9 == 4) continue;
      ASSERT_TRUE(ReadSlot(*log, 0, slot) == Value(slot)) << slot;
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Sizes, SizedRecoveryTest, testing::ValuesIn(kValueSizes),
                         testing::PrintToStringParamName());

TEST_P(SizedRecoveryTest, GroupsThatWereNotInTheLogAreWrittenAgain) {
  const Options options = OptionsFor(SyncMode::kNone);
  uint64_t store_id = 0;
  uint64_t offset = 0;
  const uint64_t group = GeometryFrom(options).values_per_group();
  const uint64_t count = Count() / group * group;
  {
    const auto log = OpenLog(options, dir_.path());
    ASSERT_NO_FATAL_FAILURE(Append(log.get(), 0, count));
    store_id = log->store_id();
    ASSERT_EQ(log->LoggedValueWatermark(0), count);
    offset = log->slots().LocateValues(0, count - group).offset;
  }
  SetWord(dir_.path(), store_id, 0, format::WordKind::kLoggedValues, count - group);
  const std::string zeros(group * ValueLayout(GetParam()).slot_bytes(), '\0');
  Overwrite(dir_.Join("value_00"), zeros.data(), zeros.size(), offset);
  for (int round = 0; round < 2; ++round) {
    const auto log = OpenLog(options, dir_.path());
    EXPECT_EQ(log->LoggedValueWatermark(0), count);
    ASSERT_NO_FATAL_FAILURE(ExpectHolds(log.get(), count));
  }
}

// A sync writes a part of a group, and the next one goes on in its last block.
TEST_P(SizedRecoveryTest, PartsOfGroupsThatWereSyncedOutliveThePower) {
  const Options options = OptionsFor(SyncMode::kNone);
  uint64_t store_id = 0;
  uint64_t count = 0;
  {
    const auto log = OpenLog(options, dir_.path());
    store_id = log->store_id();
    for (const uint64_t step : {1, 2, 1, 3}) {
      ASSERT_NO_FATAL_FAILURE(Append(log.get(), count, count + step));
      count += step;
      ASSERT_TRUE(log->Sync().ok());
    }
    ASSERT_NO_FATAL_FAILURE(Append(log.get(), count, count + 1));
  }
  LosePower(dir_.path(), store_id);
  const auto log = OpenLog(options, dir_.path());
  // One record more where its group was full.
  ASSERT_GE(log->RecordCount(0), count);
  ASSERT_NO_FATAL_FAILURE(ExpectHolds(log.get(), log->RecordCount(0)));
  ASSERT_NO_FATAL_FAILURE(Append(log.get(), log->RecordCount(0), Count() + 2));
  ASSERT_NO_FATAL_FAILURE(ExpectHolds(log.get(), Count() + 2));
}

TEST_P(SizedRecoveryTest, AJournalBringsBackWhatStagingHasLost) {
  Options options = OptionsFor(SyncMode::kGroup);
  options.journal_bytes = 16 << 20;
  uint64_t store_id = 0;
  const uint64_t count = std::min<uint64_t>(Count(), 30);
  {
    const auto log = OpenLog(options, dir_.path());
    store_id = log->store_id();
    ASSERT_NO_FATAL_FAILURE(Append(log.get(), 0, count));
  }
  LosePower(dir_.path(), store_id);
  const auto log = OpenLog(options, dir_.path());
  ASSERT_NO_FATAL_FAILURE(ExpectHolds(log.get(), count));
}

// Larger than staging takes, so it goes straight to the log, beside records that are there.
TEST_P(SizedRecoveryTest, ALargeBatchGoesOnBehindOtherRecords) {
  const Options options = OptionsFor(SyncMode::kNone);
  const uint64_t group = GeometryFrom(options).values_per_group();
  const uint64_t count = group * (format::kValuePlaces + 1) + 3;
  {
    const auto log = OpenLog(options, dir_.path());
    ASSERT_NO_FATAL_FAILURE(Append(log.get(), 0, 3));
    WriteBatch batch(GetParam());
    for (uint64_t key = 3; key < count; ++key) {
      if (key % 9 == 4) {
        ASSERT_TRUE(batch.Delete(KeyOf(key)).ok());
      } else {
        ASSERT_TRUE(batch.Put(KeyOf(key), Value(key)).ok());
      }
    }
    ASSERT_TRUE(log->Write(batch).ok());
    ASSERT_NO_FATAL_FAILURE(Append(log.get(), count, count + 2));
    ASSERT_NO_FATAL_FAILURE(ExpectHolds(log.get(), count + 2));
  }
  ASSERT_NO_FATAL_FAILURE(ExpectHolds(OpenLog(options, dir_.path()).get(), count + 2));
}

}  // namespace
}  // namespace engine_race::test
