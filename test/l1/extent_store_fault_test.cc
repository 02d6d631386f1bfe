// What the system may refuse the index files: space, memory, direct access, holes.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "test/e2e/small_disk.h"
#include "test/faults/system_calls.h"
#include "test/index/refused_memory.h"
#include "test/l1/extent_store_fixture.h"

namespace engine_race::test {
namespace {

using format::IndexExtent;
using format::kIndexExtentBytes;
using l1::ExtentId;
using l1::ExtentImage;
using l1::ExtentStore;

using ExtentStoreFaultTest = ExtentStoreFixture;

// Answers calls of one kind with an error, if their path ends with `name`.
class FailCalls final : public SystemCallHook {
 public:
  FailCalls(CallKind kind, int error, std::string name, int flags = 0)
      : kind_(kind), error_(error), name_(std::move(name)), flags_(flags) {}
  long OnCall(SystemCall* call) override {
    const bool meant =
        call->kind == kind_ && (call->flags & flags_) == flags_ && PathOf(*call).ends_with(name_);
    if (!meant || !failing) return call->Proceed();
    ++count;
    errno = error_;
    return -1;
  }

  std::atomic<bool> failing{true};
  std::atomic<int> count{0};

 private:
  const CallKind kind_;
  const int error_;
  const std::string name_;
  const int flags_;
};

// The system may take for clean what a failed flush has lost.
TEST_F(ExtentStoreFaultTest, AfterAFailedFlushItsExtentsAreWrittenAgain) {
  ASSERT_TRUE(store_->Sync().ok());
  const ExtentId id = Put(1);
  FailCalls refuse(CallKind::kFdatasync, EIO, kFirstFile);
  {
    const ScopedHook hook(&refuse);
    EXPECT_EQ(store_->Sync().code(), Code::kIOError);
  }
  {
    // Without them there is no success.
    FailCalls refuse_write(CallKind::kPwrite, EIO, kFirstFile);
    const ScopedHook hook(&refuse_write);
    EXPECT_EQ(store_->Sync().code(), Code::kIOError);
    EXPECT_GT(refuse_write.count, 0);
  }
  EXPECT_TRUE(store_->Sync().ok());
  ExpectHolds(id, 1);
  // They are durable now.
  FailCalls refuse_write(CallKind::kPwrite, EIO, kFirstFile);
  const ScopedHook hook(&refuse_write);
  EXPECT_TRUE(store_->Sync().ok());
  EXPECT_EQ(refuse_write.count, 0);
}

TEST_F(ExtentStoreFaultTest, WithoutPunchingThePlaceIsUsedAgain) {
  const ExtentId freed = Put(1);
  FailCalls refuse(CallKind::kFallocate, EOPNOTSUPP, kFirstFile);
  const ScopedHook hook(&refuse);
  store_->Free(freed);
  EXPECT_EQ(refuse.count, 1);
  const ExtentId id = Put(7);
  EXPECT_EQ(id.place, freed.place);
  ExpectHolds(id, 7);
}

TEST_F(ExtentStoreFaultTest, FilesThatAreNoFilesAreRefused) {
  for (const char* name : {kFirstFile, "key_index_01", "key_index_02", "key_index_03"}) {
    std::filesystem::create_symlink("elsewhere", dir_.Join(name));
  }
  ExtentId id;
  EXPECT_EQ(TryPut(&id).code(), Code::kCorruption);
  EXPECT_FALSE(dir_.Has("elsewhere"));
  Open();
  const Status status = store_->Reserve(std::vector<IndexExtent>{Named({7, 0})});
  EXPECT_EQ(status.code(), Code::kCorruption) << status.ToString();
}

TEST_F(ExtentStoreFaultTest, AFailedWriteLeavesThePlaceFree) {
  const struct {
    int error;
    Code code;
  } kFailures[] = {{ENOSPC, Code::kFull}, {EDQUOT, Code::kFull}};
  Put(1), Put(2);
  for (const auto& failure : kFailures) {
    FailCalls refuse(CallKind::kPwrite, failure.error, "key_index_02");
    const ScopedHook hook(&refuse);
    ExtentId id;
    const Status status = TryPut(&id);
    EXPECT_EQ(status.code(), failure.code) << status.ToString();
    EXPECT_NE(status.message().find("key_index_02"), std::string::npos);
    EXPECT_FALSE(id.valid());
    EXPECT_EQ(store_->used_bytes(), 2u * 5 * 4096);
    refuse.failing = false;
    id = Put(9);
    EXPECT_EQ(id.place, 2u);
    ExpectHolds(id, 9);
    store_->Free(id);
  }
}

// Otherwise one bad sector would be all that is ever tried.
TEST_F(ExtentStoreFaultTest, APlaceThatCannotBeWrittenIsSkipped) {
  const ExtentId first = Put(1);
  Put(2);
  FailCalls refuse(CallKind::kPwrite, EIO, "key_index_02");
  const ScopedHook hook(&refuse);
  const ExtentId id = Put(9);
  EXPECT_GT(refuse.count, 0);
  EXPECT_EQ(store_->used_bytes(), 3u * 5 * 4096);
  EXPECT_EQ(id.place, 3u);
  ExpectHolds(id, 9);
  // It is tried again once another place was freed.
  store_->Free(first);
  EXPECT_EQ(Put(3).place, first.place);
  refuse.failing = false;
  EXPECT_EQ(Put(4).place, 2u);
}

TEST_F(ExtentStoreFaultTest, ADiskThatTakesNoWriteIsAnError) {
  FailCalls refuse(CallKind::kPwrite, EIO, /*name=*/"");
  const ScopedHook hook(&refuse);
  ExtentId id;
  EXPECT_EQ(TryPut(&id).code(), Code::kIOError);
  EXPECT_FALSE(id.valid());
  EXPECT_EQ(store_->used_bytes(), 0u);
}

TEST_F(ExtentStoreFaultTest, AFileThatCannotBeOpenedIsSkipped) {
  std::filesystem::create_directory(dir_.Join(kFirstFile));
  for (const uint32_t place : {1, 2, 3, 5}) EXPECT_EQ(Put(1).place, place);
}

TEST_F(ExtentStoreFaultTest, TheLimitOnFileSizesIsFullAndNoSignal) {
  for (int i = 0; i < 4; ++i) Put(1);
  struct rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const struct rlimit limit = {kIndexExtentBytes, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  ExtentId id;
  const Status status = TryPut(&id);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(status.code(), Code::kFull) << status.ToString();
  EXPECT_EQ(Put(1).place, 4u);
}

TEST_F(ExtentStoreFaultTest, RefusedMemoryIsAnErrorAndLosesNoPlace) {
  Put(1);
  bool refused = true;
  for (uint64_t passed = 0; refused; ++passed) {
    ASSERT_LT(passed, 100u);
    ExtentId id;
    Lay(EvenKeys(1, 1, 1000), &image_);
    Status status;
    {
      const RefuseMemory refuse(passed);
      status = store_->Write(&image_, &id);
      refused = refuse.refused();
    }
    if (status.ok()) {
      EXPECT_EQ(id.place, 1u);
      store_->Free(id);
    } else {
      EXPECT_EQ(status.code(), Code::kOutOfMemory);
      EXPECT_EQ(store_->used_bytes(), 5u * 4096);
    }
  }
}

// Where there is no memory for the message either.
TEST_F(ExtentStoreFaultTest, AFailedReadWithoutMemoryThrowsNothing) {
  const ExtentId id = Put(1);
  ASSERT_TRUE(store_->Sync().ok());
  // The fences are there, and what follows them is not.
  std::filesystem::resize_file(dir_.Join(kFirstFile), format::kIndexBlockBytes);
  for (const ExtentId& asked : {id, ExtentId{id.generation + 1, id.place}}) {
    const uint32_t block_count = asked == id ? 2 : 1;
    bool refused = true;
    for (uint64_t passed = 0; refused; ++passed) {
      ASSERT_LT(passed, 100u);
      Status status;
      {
        const RefuseMemory memory(passed);
        status = store_->ReadBlocks(asked, 0, block_count, memory_.data());
        refused = memory.refused();
      }
      const Code code = asked == id ? Code::kIOError : Code::kCorruption;
      EXPECT_EQ(status.code(), refused ? Code::kOutOfMemory : code);
    }
  }
}

TEST_F(ExtentStoreFaultTest, WorksBufferedWhereDirectAccessIsRefused) {
  FailCalls refuse(CallKind::kOpenAt, EINVAL, kFirstFile, O_DIRECT);
  const ScopedHook hook(&refuse);
  const ExtentId id = Put(5);
  EXPECT_EQ(refuse.count, 1);
  EXPECT_FALSE(store_->Locate(id, 0).file->direct());
  ExpectHolds(id, 5);
  EXPECT_TRUE(store_->Sync().ok());
}

// Counts what is made durable.
class CountSyncs final : public SystemCallHook {
 public:
  long OnCall(SystemCall* call) override {
    if (call->kind == CallKind::kFdatasync) ++data;
    if (call->kind == CallKind::kFsync) ++names;
    return call->Proceed();
  }
  std::atomic<int> data{0};
  std::atomic<int> names{0};
};

TEST_F(ExtentStoreFaultTest, SyncsWhatWasWrittenSinceAndNamesOnce) {
  CountSyncs count;
  const ScopedHook hook(&count);
  Put(1), Put(2);
  ASSERT_TRUE(store_->Sync().ok());
  EXPECT_EQ(count.data, 2);
  EXPECT_EQ(count.names, 1);
  ASSERT_TRUE(store_->Sync().ok());
  EXPECT_EQ(count.data, 2);
  store_->Free(Put(3));
  ASSERT_TRUE(store_->Sync().ok());
  EXPECT_EQ(count.data, 3);
  EXPECT_EQ(count.names, 2);
  Put(3);
  ASSERT_TRUE(store_->Sync().ok());
  EXPECT_EQ(count.data, 4);
  EXPECT_EQ(count.names, 2);
}

TEST_F(ExtentStoreFaultTest, AFailedSyncIsTriedAgain) {
  Put(1), Put(2);
  for (const auto& [kind, name] : {std::pair{CallKind::kFdatasync, std::string("key_index_01")},
                                   std::pair{CallKind::kFsync, std::string()}}) {
    FailCalls refuse(kind, EIO, name);
    const ScopedHook hook(&refuse);
    EXPECT_EQ(store_->Sync().code(), Code::kIOError);
    EXPECT_EQ(store_->Sync().code(), Code::kIOError);
    EXPECT_EQ(refuse.count, 2);
  }
  EXPECT_TRUE(store_->Sync().ok());
}

// No place is lost when the disk is full, and what was freed can be written again.
TEST(ExtentStoreDiskTest, AFullDiskIsFullUntilSomethingIsFreed) {
  const SmallDisk disk(DiskKind::kTmpfs);
  if (!disk.mounted()) GTEST_SKIP() << "mounting needs root";
  const OpenDir dir(std::filesystem::path(disk.StoreDir()).parent_path());
  std::unique_ptr<ExtentStore> store;
  ASSERT_TRUE(ExtentStore::Open(dir.fd(), kExtentStoreId, 0600, true, &store).ok());
  ASSERT_TRUE(store->Reserve({}).ok());
  ExtentImage image;
  ASSERT_TRUE(ExtentImage::Create(&image).ok());
  std::vector<ExtentId> ids;
  Status status;
  while (status.ok()) {
    ASSERT_LT(ids.size(), kDiskBytes / kMiB);
    Lay(EvenKeys(ids.size() << 20, 1, format::kIndexExtentRecords), &image);
    ids.emplace_back();
    status = store->Write(&image, &ids.back());
  }
  EXPECT_EQ(status.code(), Code::kFull) << status.ToString();
  ids.pop_back();
  EXPECT_EQ(store->used_bytes(), ids.size() * 511 * 4096u);
  store->Free(ids[3]);
  EXPECT_TRUE(store->Write(&image, &ids[3]).ok());
  EXPECT_EQ(ids[3].place, 3u);
  const BlockMemory memory;
  for (const ExtentId& id : ids) EXPECT_TRUE(store->ReadBlocks(id, 0, 511, memory.data()).ok());
}

}  // namespace
}  // namespace engine_race::test
