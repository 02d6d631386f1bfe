#include "engine_race/log/row_keeper.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "engine_race/base/guarded.h"
#include "engine_race/log/row_file.h"
#include "test/index/refused_memory.h"
#include "test/log/log_parts_test_util.h"

namespace engine_race::test {
namespace {

using format::RowKind;

// Regions of four rows.
Options FourRows() {
  Options options = TinyLogOptions();
  options.bucket_capacity_records = 4 * 256;
  return options;
}

class RowKeeperTest : public ::testing::Test {
 protected:
  RowKeeperTest() : parts_(FourRows(), dir_.path()), keeper_(&parts_.context, &parts_.writer) {}

  Bucket& bucket() { return parts_.context.buckets[0]; }
  const SlotTable& table() { return bucket().table; }
  Status BeginRows() {
    ENGINE_RACE_RETURN_IF_ERROR(keeper_.EnsureFile());
    const std::lock_guard<std::mutex> lock(bucket().mutex);
    return keeper_.BeginRows(0);
  }
  // As a mover frees a row and all that may look at it has ended.
  void Free(uint32_t row) {
    const std::lock_guard<std::mutex> lock(bucket().mutex);
    ASSERT_TRUE(keeper_.Write(0, row, Row()).ok());
    std::set<uint32_t> rows = {row};
    keeper_.Release(0, &rows);
  }
  bool ManifestNamesTheFile() const {
    StoreIdentity identity;
    EXPECT_TRUE(ReadManifest(parts_.context.files.directory.get(), &identity).ok());
    return identity.has_rows;
  }
  void ExpectFileHasTheTable() {
    BucketRows found{.table = {}, .damaged = true};
    ASSERT_TRUE(ReadRows(parts_.context.files, 0, {&found, 1}).ok());
    EXPECT_FALSE(found.damaged);
    EXPECT_EQ(found.table.has_rows(), table().has_rows());
    EXPECT_EQ(found.table.rows(), table().rows());
  }

  const TempDir dir_;
  LogParts parts_;
  RowKeeper keeper_;
};

TEST_F(RowKeeperTest, TheFileComesOnceAndDurably) {
  EXPECT_FALSE(ManifestNamesTheFile());
  EXPECT_FALSE(std::filesystem::exists(dir_.Join(format::kRowsName)));
  std::vector<std::string> calls;
  CallWatch watch([&calls](SystemCall* call) {
    const std::string path = PathOf(*call);
    if (call->kind == CallKind::kFsync || call->kind == CallKind::kFdatasync) {
      calls.push_back("sync " + path.substr(path.rfind('/') + 1));
    } else if (call->kind == CallKind::kRenameAt) {
      calls.emplace_back("rename");
    }
    return call->Proceed();
  });
  {
    const ScopedHook hook(&watch);
    ASSERT_TRUE(keeper_.EnsureFile().ok());
    const size_t call_count = calls.size();
    ASSERT_TRUE(keeper_.EnsureFile().ok());
    EXPECT_EQ(calls.size(), call_count) << "the file is there";
  }
  EXPECT_TRUE(ManifestNamesTheFile());
  EXPECT_EQ(std::filesystem::file_size(dir_.Join(format::kRowsName)),
            parts_.context.geometry().RowsOffset(0));
  // The file, its name, and only then the manifest that needs it.
  ASSERT_GE(calls.size(), 4u);
  EXPECT_EQ(calls[0], std::string("sync ") + format::kRowsName);
  EXPECT_EQ(calls[1].substr(0, 4), "sync");
  EXPECT_EQ(calls[calls.size() - 2], "rename");
  EXPECT_EQ(calls.back().substr(0, 4), "sync");
}

// The manifest may name the file by the time that a flush of the directory fails.
TEST_F(RowKeeperTest, AFileThatTheManifestMayNameIsNotMadeAnew) {
  bool renamed = false;
  CallWatch watch([&](SystemCall* call) {
    renamed = renamed || call->kind == CallKind::kRenameAt;
    const bool creates = call->kind == CallKind::kOpenAt && (call->flags & O_CREAT) != 0;
    if (renamed && (call->kind == CallKind::kFsync || creates)) {
      errno = ENOSPC;
      return -1L;
    }
    return call->Proceed();
  });
  {
    const ScopedHook hook(&watch);
    EXPECT_FALSE(keeper_.EnsureFile().ok());
    ASSERT_TRUE(renamed);
    EXPECT_FALSE(keeper_.EnsureFile().ok());
  }
  EXPECT_TRUE(std::filesystem::exists(dir_.Join(format::kRowsName)));
  EXPECT_TRUE(keeper_.EnsureFile().ok());
}

TEST_F(RowKeeperTest, BeginRowsMovesNoRecord) {
  parts_.AppendKeys(0, 300);
  ASSERT_TRUE(BeginRows().ok());
  EXPECT_TRUE(bucket().HasRows());
  EXPECT_EQ(table().rows().size(), 2u);
  EXPECT_EQ(bucket().SlotEnd(), 512u);
  ExpectFileHasTheTable();
  for (uint64_t slot = 0; slot < 300; ++slot)
    ASSERT_EQ(parts_.Read(slot), ValueOf(slot, 1)) << slot;
  parts_.AppendKeys(300, 520);
  EXPECT_EQ(table().rows().size(), 3u) << "the tail took a row";
  EXPECT_EQ(table().SlotOf(519), 519u);
  ExpectFileHasTheTable();
  for (uint64_t slot = 0; slot < 520; ++slot)
    ASSERT_EQ(parts_.Read(slot), ValueOf(slot, 1)) << slot;
}

// Rows are durable before the head reaches them. Some are written ahead, so that few need a flush.
TEST_F(RowKeeperTest, TheHeadReachesDurableRows) {
  parts_.AppendKeys(0, 300);
  ASSERT_TRUE(parts_.context.files.slots.Give(0, 0, 4 * 256).ok());
  ASSERT_TRUE(keeper_.EnsureFile().ok());
  ASSERT_TRUE(parts_.writer.FlushFound().ok());
  std::vector<std::string> calls;
  CallWatch watch([&calls](SystemCall* call) {
    if (PathOf(*call).ends_with(format::kRowsName)) {
      if (call->kind == CallKind::kPwrite) calls.push_back(call->offset == 0 ? "head" : "rows");
      if (call->kind == CallKind::kFdatasync || call->kind == CallKind::kFsync) {
        calls.emplace_back("sync");
      }
    }
    return call->Proceed();
  });
  const ScopedHook hook(&watch);
  ASSERT_TRUE(keeper_.BeginRows(0).ok());
  EXPECT_EQ(calls, (std::vector<std::string>{"rows", "sync", "head"}));
  EXPECT_EQ(bucket().durable_row_end, 4u) << "the rows of all its segments";
  calls.clear();
  uint32_t row = 0;
  ASSERT_TRUE(keeper_.TakeRow(0, 0, &row).ok());
  EXPECT_EQ(calls, (std::vector<std::string>{"head"}));
  ExpectFileHasTheTable();

  // As in an opening, which knows only of the rows that the head reaches.
  bucket().durable_row_end = 3;
  calls.clear();
  ASSERT_TRUE(keeper_.TakeRow(0, 0, &row).ok());
  EXPECT_EQ(row, 3u);
  EXPECT_EQ(calls, (std::vector<std::string>{"rows", "sync", "head"}));
  ExpectFileHasTheTable();
}

// A loss of power could leave the head that reaches them.
TEST_F(RowKeeperTest, RowsThatCannotBeFlushedAreNotReached) {
  ASSERT_TRUE(BeginRows().ok());
  bucket().durable_row_end = 0;
  {
    FailingCalls failing(CallKind::kFdatasync, format::kRowsName, EIO);
    const ScopedHook hook(&failing);
    EXPECT_EQ(parts_.Append(0, 0).code(), Code::kIOError);
  }
  EXPECT_TRUE(table().rows().empty());
  ExpectFileHasTheTable();
}

TEST_F(RowKeeperTest, RowsThatCannotBeWrittenDoNotBegin) {
  parts_.AppendKeys(0, 300);
  ASSERT_TRUE(keeper_.EnsureFile().ok());
  {
    FailingCalls failing(CallKind::kPwrite, format::kRowsName, ENOSPC);
    const ScopedHook hook(&failing);
    EXPECT_EQ(keeper_.BeginRows(0).code(), Code::kFull);
  }
  EXPECT_FALSE(bucket().HasRows());
  ExpectFileHasTheTable();
  parts_.AppendKeys(300, 600);
  EXPECT_EQ(parts_.Read(599), ValueOf(599, 1));
}

// Where the disk is full half-way through it, too.
TEST_F(RowKeeperTest, AHeadThatFindsTheDiskFullDoesNotCount) {
  parts_.AppendKeys(0, 300);
  ASSERT_TRUE(keeper_.EnsureFile().ok());
  CallWatch watch([](SystemCall* call) -> long {
    const bool is_head = call->kind == CallKind::kPwrite && call->offset == 0 &&
                         PathOf(*call).ends_with(format::kRowsName);
    if (!is_head) return call->Proceed();
    if (call->size > sizeof(format::RowsHead)) {
      call->size /= 2;
      EXPECT_GT(call->Proceed(), 0);
    }
    errno = ENOSPC;
    return -1;
  });
  {
    const ScopedHook hook(&watch);
    EXPECT_EQ(BeginRows().code(), Code::kFull);
  }
  EXPECT_FALSE(parts_.context.latch.latched());
  ExpectFileHasTheTable();
}

// Records that are appended behind it would be in no row when the store is opened again.
TEST_F(RowKeeperTest, AHeadThatMayBeWrittenEndsAllWrites) {
  parts_.AppendKeys(0, 300);
  ASSERT_TRUE(keeper_.EnsureFile().ok());
  CallWatch watch([](SystemCall* call) -> long {
    const long written = call->Proceed();
    if (call->kind != CallKind::kPwrite || call->offset != 0 ||
        !PathOf(*call).ends_with(format::kRowsName)) {
      return written;
    }
    errno = EIO;
    return -1;
  });
  {
    const ScopedHook hook(&watch);
    EXPECT_EQ(BeginRows().code(), Code::kIOError);
  }
  EXPECT_TRUE(parts_.context.latch.latched());
  EXPECT_EQ(parts_.Append(0, 1).code(), Code::kIOError);
}

// A row that the file has and the memory does not would be given to two runs, or to nobody.
TEST_F(RowKeeperTest, WithoutMemoryNoRowIsLost) {
  ASSERT_TRUE(BeginRows().ok());
  uint64_t key = 0;
  bool refused = true;
  for (uint64_t passed = 0; refused; ++passed) {
    parts_.AppendKeys(key, key + 256);
    const uint64_t free_count = keeper_.FreeRowCount(0);
    {
      const RefuseMemory refusal(passed);
      const Status appended = Guarded([&] { return parts_.Append(0, key + 256); });
      refused = refusal.refused();
      EXPECT_EQ(appended.ok(), !refused) << appended.ToString();
    }
    EXPECT_EQ(keeper_.FreeRowCount(0), refused ? free_count : free_count - 1) << passed;
    ExpectFileHasTheTable();
    parts_.AppendKeys(bucket().record_count, key + 512);
    ExpectFileHasTheTable();
    EXPECT_FALSE(parts_.context.latch.latched());
    for (uint64_t run = key / 256; run < key / 256 + 2; ++run) {
      uint64_t slot = 0;
      ASSERT_TRUE(table().SlotOf(run * 256, &slot)) << run;
      ASSERT_NO_FATAL_FAILURE(Free(static_cast<uint32_t>(slot / 256)));
    }
    key += 512;
  }
}

// A row that was never used, and the same one after it was given back.
TEST_F(RowKeeperTest, ARowThatIsTakenWithoutMemoryStaysFree) {
  ASSERT_TRUE(BeginRows().ok());
  for (const char* const which : {"never used", "given back"}) {
    SCOPED_TRACE(which);
    const uint64_t free_count = keeper_.FreeRowCount(0);
    uint32_t row = 1;
    bool refused = true;
    for (uint64_t passed = 0; refused; ++passed) {
      const RefuseMemory refusal(passed);
      const Status taken = Guarded([&] { return keeper_.TakeRow(0, 0, &row); });
      refused = refusal.refused();
      EXPECT_EQ(taken.ok(), !refused) << taken.ToString();
      EXPECT_EQ(keeper_.FreeRowCount(0), refused ? free_count : free_count - 1) << passed;
    }
    EXPECT_EQ(row, 0u);
    EXPECT_FALSE(parts_.context.latch.latched());
    keeper_.ReturnRow(0, row);
  }
}

// A caller gives the row back after a failure, perhaps because memory was refused.
TEST_F(RowKeeperTest, GivingARowBackNeedsNoMemory) {
  ASSERT_TRUE(BeginRows().ok());
  uint32_t row = 0;
  ASSERT_TRUE(keeper_.TakeRow(0, 0, &row).ok());
  const uint64_t free_count = keeper_.FreeRowCount(0);
  {
    const RefuseMemory refusal(0);
    keeper_.ReturnRow(0, row);
    EXPECT_FALSE(refusal.refused());
  }
  EXPECT_EQ(keeper_.FreeRowCount(0), free_count + 1);
}

// Without a row that a mover can take, nothing could be freed any more.
TEST_F(RowKeeperTest, TheTailLeavesTheLastFreeRow) {
  ASSERT_TRUE(BeginRows().ok());
  parts_.AppendKeys(0, 3 * 256);
  EXPECT_EQ(parts_.Append(0, 1).code(), Code::kFull);
  EXPECT_FALSE(parts_.context.latch.latched());
  uint32_t row = 0;
  ASSERT_TRUE(keeper_.TakeRow(0, 0, &row).ok()) << "for a mover";
  EXPECT_EQ(row, 3u);
  EXPECT_EQ(keeper_.TakeRow(0, 0, &row).code(), Code::kFull);
  keeper_.ReturnRow(0, 3);
  EXPECT_EQ(parts_.Append(0, 1).code(), Code::kFull);
  Free(1);
  parts_.AppendKeys(3 * 256, 4 * 256);
  EXPECT_EQ(table().SlotOf(3 * 256), 256u) << "the first free row";
  EXPECT_EQ(parts_.Append(0, 1).code(), Code::kFull);
  ExpectFileHasTheTable();
}

// Sequence numbers go on where slots are used again, and every record reads as itself.
TEST_F(RowKeeperTest, SlotsAreUsedAgainManyTimesOver) {
  ASSERT_TRUE(BeginRows().ok());
  uint64_t key = 0;
  for (int round = 0; round < 20; ++round) {
    parts_.AppendKeys(key, key + 256);
    key += 256;
    for (uint64_t back = 1; back <= std::min<uint64_t>(key, 512); ++back) {
      ASSERT_EQ(parts_.Read(table().SlotOf(key - back)), ValueOf(key - back, 1)) << key - back;
    }
    if (round < 2) continue;
    uint64_t slot = 0;
    ASSERT_TRUE(table().SlotOf(key - 3 * 256, &slot));
    ASSERT_NO_FATAL_FAILURE(Free(static_cast<uint32_t>(slot / 256)));
  }
  EXPECT_EQ(bucket().record_count, 20u * 256);
  ExpectFileHasTheTable();
  EXPECT_EQ(parts_.Counts().record_count, 20u * 256);
  EXPECT_FALSE(parts_.Counts().damaged);
}

TEST_F(RowKeeperTest, AFullDiskRefusesARowAndLaterGivesIt) {
  ASSERT_TRUE(BeginRows().ok());
  parts_.AppendKeys(0, 256);
  {
    FailingCalls failing(CallKind::kPwrite, format::kRowsName, ENOSPC);
    const ScopedHook hook(&failing);
    EXPECT_EQ(parts_.Append(0, 256).code(), Code::kFull);
  }
  EXPECT_FALSE(parts_.context.latch.latched());
  EXPECT_EQ(bucket().record_count, 256u);
  parts_.AppendKeys(256, 257);
  EXPECT_EQ(parts_.Read(256), ValueOf(256, 1));
  ExpectFileHasTheTable();
}

// Whether the file has the row is not known after another failure.
TEST_F(RowKeeperTest, ARowThatCannotBeWrittenEndsAllWrites) {
  ASSERT_TRUE(BeginRows().ok());
  parts_.AppendKeys(0, 256);
  Free(0);
  {
    FailingCalls failing(CallKind::kPwrite, format::kRowsName, EIO);
    const ScopedHook hook(&failing);
    EXPECT_EQ(parts_.Append(0, 256).code(), Code::kIOError);
  }
  EXPECT_TRUE(parts_.context.latch.latched());
  EXPECT_EQ(parts_.Append(0, 256).code(), Code::kIOError);
  EXPECT_EQ(bucket().record_count, 256u);
}

}  // namespace
}  // namespace engine_race::test
