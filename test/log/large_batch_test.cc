// Batches that do not fit into staging or into the journal.
#include "engine_race/log/large_batches.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <vector>

#include "engine_race/base/checksum.h"
#include "engine_race/base/round_up.h"
#include "engine_race/copies/copies.h"
#include "test/log/large_batch_test_util.h"

namespace engine_race::test {
namespace {

INSTANTIATE_TEST_SUITE_P(Modes, LargeBatchTest,
                         ::testing::Values(SyncMode::kNone, SyncMode::kGroup));

TEST_P(LargeBatchTest, IsWrittenInOrder) {
  {
    const auto log = OpenLog(options_, dir_.path());
    ASSERT_TRUE(log->Write(BatchOverAll(3, 1)).ok());
    WriteBatch batch = BatchOverAll(kTooMany, 2);
    PutIn(&batch, 2, 7, 3);
    ASSERT_TRUE(batch.Delete(KeyOf(KeyIn(1, 5))).ok());
    ASSERT_TRUE(log->Write(batch).ok());
    ASSERT_TRUE(log->Append(KeyIn(0, 0), ValueOf(KeyIn(0, 0), 4).data()).ok());
    EXPECT_EQ(log->RecordCount(), 12 + batch.size() + 1);
  }
  Content wanted = ContentOver(kTooMany, 2);
  wanted[KeyIn(2, 7)] = 3;
  wanted[KeyIn(0, 0)] = 4;
  wanted.erase(KeyIn(1, 5));
  EXPECT_EQ(ContentIn(dir_.path(), options_), wanted);
}

// With one group of a bucket at a time: many more records than any number of places holds.
TEST_P(LargeBatchTest, MayHaveAnyNumberOfRecords) {
  options_.bucket_capacity_records = 1 << 15;
  const uint64_t count = BatchWriter::kMaxStagedRecords / 4 + 100;
  const auto log = OpenLog(options_, dir_.path());
  ASSERT_TRUE(log->Write(BatchOverAll(count, 1)).ok());
  EXPECT_EQ(ContentOf(log.get()), ContentOver(count, 1));
  if (GetParam() == SyncMode::kNone) return;
  for (uint32_t bucket = 0; bucket < 4; ++bucket) {
    EXPECT_EQ(log->SyncedWatermark(bucket), count) << bucket;
  }
}

// Staging has places for all of its records, and half of the smallest journal has not.
TEST_P(LargeBatchTest, MayBeLargerThanAHalfOfTheJournal) {
  options_.value_group_bytes = 64 * kValueBytes;
  const uint64_t count = 150;
  {
    const auto log = OpenLog(options_, dir_.path());
    ASSERT_TRUE(log->Write(BatchOverAll(count, 1)).ok());
    ASSERT_TRUE(log->Write(BatchOverAll(count, 2)).ok());
    EXPECT_EQ(ContentOf(log.get()), ContentOver(count, 2));
  }
  EXPECT_EQ(ContentIn(dir_.path(), options_), ContentOver(count, 2));
  if (GetParam() == SyncMode::kNone) return;
  EXPECT_EQ(std::filesystem::file_size(dir_.Join(format::kJournalName)), kMinJournalBytes);
}

TEST_P(LargeBatchTest, KilledAnywhereItIsThereAsAWholeOrNotAtAll) {
  KillImages images(dir_.path());
  size_t begun = 0;
  {
    const auto log = OpenLog(options_, dir_.path());
    ASSERT_TRUE(log->Write(BatchOverAll(3, 1)).ok());
    TellingListener listener;
    Attach(log.get(), &listener);
    listener.on_append = [&](uint32_t) {
      if (listener.appends.size() % 50 == 1) images.Take();
    };
    uint64_t call_count = 0;
    CallWatch watch([&](SystemCall* call) {
      if (call->kind == CallKind::kPwrite && PathOf(*call).ends_with(format::kLargeBatchName) &&
          (call_count++ % 60 == 0 || call->offset == 0)) {
        begun = images.paths().size() + 1;
        images.Take();
      }
      return call->Proceed();
    });
    const ScopedHook scope(&watch);
    ASSERT_TRUE(log->Write(BatchOverAll(kTooMany, 2)).ok());
    EXPECT_EQ(listener.begun, 1);
    EXPECT_EQ(listener.ended, 1);
    Detach(log.get());
  }
  EXPECT_GT(begun, 4u);
  EXPECT_GT(images.paths().size(), begun + 3);
  for (size_t i = 0; i < images.paths().size(); ++i) {
    const std::string& image = images.paths()[i];
    VerifyReport report;
    EXPECT_TRUE(VerifyStore(image, &report, {}).ok());
    EXPECT_EQ(report.record_count, i < begun ? 12 : 12 + 4 * kTooMany);
    const Content wanted = i < begun ? ContentOver(3, 1) : ContentOver(kTooMany, 2);
    if (i + 3 >= images.paths().size()) {
      const std::string copy = image + "_copy";
      ASSERT_TRUE(CopyStore(options_, image, copy, &report, {}).ok());
      EXPECT_EQ(ContentIn(copy, options_), wanted) << i;
    }
    EXPECT_EQ(ContentIn(image, options_), wanted) << i;
    EXPECT_TRUE(VerifyStore(image, &report, {}).ok());
    EXPECT_EQ(ContentIn(image, options_), wanted) << i;
  }
}

// A second copy of its records would not fit. Each opening goes on where the one before it ended.
TEST_P(LargeBatchTest, KilledAgainAndAgainItNeedsNoRoomTwice) {
  options_.bucket_capacity_records = 256;
  constexpr uint64_t kMost = 240;
  KillImages images(dir_.path());
  TellingListener listener;
  {
    const auto log = OpenLog(options_, dir_.path());
    ASSERT_TRUE(log->Write(BatchOverAll(3, 1)).ok());
    Attach(log.get(), &listener);
    listener.on_append = [&](uint32_t) {
      if (listener.appends.size() % 250 == 0) images.Take();
    };
    ASSERT_TRUE(log->Write(BatchOverAll(kMost, 2)).ok());
    Detach(log.get());
  }
  ASSERT_EQ(images.paths().size(), 3u);
  for (const std::string& image : images.paths()) {
    // The opening ends while it appends.
    FailingCalls broken(CallKind::kPwrite, "value_01", EIO);
    {
      const ScopedHook scope(&broken);
      std::unique_ptr<BucketLog> log;
      EXPECT_FALSE(BucketLog::Open(options_, image, &log).ok());
    }
    const auto log = OpenLog(options_, image);
    ASSERT_NE(log, nullptr);
    EXPECT_EQ(ContentOf(log.get()), ContentOver(kMost, 2));
    EXPECT_LE(log->RecordCount(), 4 * 256u);
  }
}

// Each bucket goes on behind the records that it has, in rows that need not lie behind each other.
TEST_P(LargeBatchTest, KilledInBucketsWithRowsItGoesOn) {
  options_.bucket_capacity_records = 8 * 256;
  KillImages images(dir_.path());
  TellingListener listener;
  const WriteBatch batch = BatchOverAll(300, 2);
  {
    const auto log = OpenLog(options_, dir_.path());
    ASSERT_TRUE(log->Write(BatchOverAll(3, 1)).ok());
    for (uint32_t bucket = 0; bucket < 4; ++bucket) {
      ASSERT_TRUE(log->mover().Claim(bucket));
      ASSERT_TRUE(log->mover().Begin(bucket).ok());
      log->mover().Unclaim(bucket);
    }
    Attach(log.get(), &listener);
    listener.on_append = [&](uint32_t) {
      if (listener.appends.size() % 290 == 0) images.Take();
    };
    ASSERT_TRUE(log->Write(batch).ok());
    Detach(log.get());
  }
  ASSERT_EQ(images.paths().size(), 4u);
  for (const std::string& image : images.paths()) {
    const auto log = OpenLog(options_, image);
    ASSERT_NE(log, nullptr);
    EXPECT_EQ(ContentOf(log.get()), ContentOver(300, 2));
    EXPECT_EQ(log->RecordCount(), 12 + batch.size());
  }
}

// A file whose checksums are right, with a key that is none of the store's.
TEST_P(LargeBatchTest, AKeyThatIsNotOfTheStoreIsRefused) {
  options_.key_range = KeyRange{0, KeyIn(3, 1000)};
  KillImages images(dir_.path());
  {
    const auto log = OpenLog(options_, dir_.path());
    TellingListener listener;
    Attach(log.get(), &listener);
    listener.on_append = [&](uint32_t) {
      if (listener.appends.size() == 1) images.Take();
    };
    ASSERT_TRUE(log->Write(BatchOverAll(kTooMany, 2)).ok());
    Detach(log.get());
  }
  ASSERT_EQ(images.paths().size(), 1u);
  const std::string& image = images.paths().front();
  const std::string path = image + "/" + format::kLargeBatchName;
  std::vector<char> bytes(std::filesystem::file_size(path));
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  auto* const header = reinterpret_cast<format::LargeBatchHeader*>(bytes.data());
  const uint64_t counts_bytes = header->bucket_count * sizeof(format::BatchIntentEntry);
  char* const entries = bytes.data() + RoundUp(sizeof(*header) + counts_bytes, kIoAlignment);
  reinterpret_cast<format::LargeBatchEntry*>(entries)->key = ~uint64_t{0};
  const uint64_t of_header =
      Hash64(header, offsetof(format::LargeBatchHeader, checksum), format::kLargeBatchMagic);
  header->checksum =
      Hash64(header + 1, counts_bytes,
             Hash64(entries, header->entry_count * sizeof(format::LargeBatchEntry), of_header));
  file.seekp(0);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  std::unique_ptr<BucketLog> log;
  EXPECT_EQ(BucketLog::Open(options_, image, &log).code(), Code::kCorruption);
  VerifyReport report;
  static_cast<void>(VerifyStore(image, &report, {}));
}

// A loss of power brings its file back, long after it was emptied.
TEST_P(LargeBatchTest, AnOldOneChangesNoNewerRecord) {
  const TempDir kept;
  const std::string path = dir_.Join(format::kLargeBatchName);
  Content wanted = ContentOver(kTooMany, 2);
  uint64_t record_count = 0;
  {
    const auto log = OpenLog(options_, dir_.path());
    ASSERT_TRUE(log->Write(BatchOverAll(3, 1)).ok());
    CallWatch watch([&](SystemCall* call) {
      if (call->kind == CallKind::kFtruncate && PathOf(*call) == path && call->length == 0 &&
          std::filesystem::file_size(path) > 0) {
        std::filesystem::copy_file(path, kept.Join("batch"));
      }
      return call->Proceed();
    });
    const ScopedHook scope(&watch);
    ASSERT_TRUE(log->Write(BatchOverAll(kTooMany, 2)).ok());
    // A bucket of the batch stays as it is.
    for (uint32_t bucket = 0; bucket < 3; ++bucket) {
      const uint64_t key = KeyIn(bucket, 5 + bucket);
      ASSERT_TRUE(log->Append(key, ValueOf(key, 3).data()).ok());
      wanted[key] = 3;
    }
    ASSERT_TRUE(log->Sync().ok());
    record_count = log->RecordCount();
  }
  std::filesystem::copy_file(kept.Join("batch"), path,
                             std::filesystem::copy_options::overwrite_existing);
  const auto log = OpenLog(options_, dir_.path());
  ASSERT_NE(log, nullptr);
  EXPECT_EQ(log->RecordCount(), record_count);
  EXPECT_EQ(ContentOf(log.get()), wanted);
}

// What the page cache says of an emptied file may not have reached the device.
TEST_P(LargeBatchTest, AnOpeningMakesDurableThatThereIsNone) {
  KillImages images(dir_.path());
  const auto flushes_file = [](const SystemCall& call) {
    return (call.kind == CallKind::kFsync || call.kind == CallKind::kFdatasync) &&
           PathOf(call).ends_with(format::kLargeBatchName);
  };
  {
    const auto log = OpenLog(options_, dir_.path());
    CallWatch watch([&](SystemCall* call) {
      if (flushes_file(*call) && std::filesystem::file_size(PathOf(*call)) == 0) images.Take();
      return call->Proceed();
    });
    const ScopedHook scope(&watch);
    ASSERT_TRUE(log->Write(BatchOverAll(kTooMany, 2)).ok());
  }
  ASSERT_EQ(images.paths().size(), 1u);
  const std::string& image = images.paths()[0];
  // The second opening has nothing to do.
  for (const int wanted_count : {1, 0}) {
    int flush_count = 0;
    CallWatch watch([&](SystemCall* call) {
      if (flushes_file(*call)) ++flush_count;
      return call->Proceed();
    });
    const ScopedHook scope(&watch);
    EXPECT_EQ(ContentIn(image, options_), ContentOver(kTooMany, 2));
    EXPECT_EQ(flush_count, wanted_count);
    EXPECT_FALSE(std::filesystem::exists(image + "/" + format::kLargeBatchName));
  }
}

// Records behind a batch that may come back would be lost with it.
TEST_P(LargeBatchTest, WhereThatFailsTheStoreIsOnlyRead) {
  { OpenLog(options_, dir_.path()); }
  std::ofstream(dir_.Join(format::kLargeBatchName)).put('x');
  FailingCalls broken(CallKind::kFtruncate, format::kLargeBatchName, EIO);
  const ScopedHook scope(&broken);
  const auto log = OpenLog(options_, dir_.path());
  ASSERT_NE(log, nullptr);
  EXPECT_EQ(log->Append(KeyIn(0, 0), ValueOf(KeyIn(0, 0), 3).data()).code(), Code::kIOError);
}

// The machine restarts before the batch is appended as a whole.
TEST_P(LargeBatchTest, CommittedItOutlivesALossOfPower) {
  KillImages images(dir_.path());
  uint64_t store_id = 0;
  {
    const auto log = OpenLog(options_, dir_.path());
    store_id = log->store_id();
    ASSERT_TRUE(log->Write(BatchOverAll(3, 1)).ok());
    ASSERT_TRUE(log->Sync().ok());
    TellingListener listener;
    Attach(log.get(), &listener);
    listener.on_append = [&](uint32_t) {
      if (listener.appends.size() == 100) images.Take();
    };
    ASSERT_TRUE(log->Write(BatchOverAll(kTooMany, 2)).ok());
    Detach(log.get());
  }
  ASSERT_EQ(images.paths().size(), 1u);
  LosePower(images.paths()[0], store_id);
  EXPECT_EQ(ContentIn(images.paths()[0], options_), ContentOver(kTooMany, 2));
}

// Once it is committed, a later record may not come before what is left of it.
TEST_P(LargeBatchTest, RefusedMemoryInItsMiddleEndsAllWrites) {
  {
    const auto log = OpenLog(options_, dir_.path());
    TellingListener listener;
    Attach(log.get(), &listener);
    int calls = 0;
    listener.on_prepare = [&](uint32_t) -> Status {
      if (++calls == 20) throw std::bad_alloc();
      return Status::Ok();
    };
    EXPECT_EQ(log->Write(BatchOverAll(kTooMany, 2)).code(), Code::kIOError);
    EXPECT_EQ(log->Append(KeyIn(0, 0), ValueOf(KeyIn(0, 0), 3).data()).code(), Code::kIOError);
    Detach(log.get());
  }
  EXPECT_EQ(ContentIn(dir_.path(), options_), ContentOver(kTooMany, 2));
}

}  // namespace
}  // namespace engine_race::test
