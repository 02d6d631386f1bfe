// How records are staged: which way a file system gets, that a call which fails in either way
// leaves the bucket as it was, and that nothing is ever stored where a store could be a SIGBUS.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/falloc.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>

#include <cerrno>
#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "test/faults/system_calls.h"
#include "test/log/log_test_util.h"

namespace engine_race::test {
namespace {

// Asks a function of the test's about each call.
class CallHook : public SystemCallHook {
 public:
  using Fn = std::function<long(SystemCall*)>;
  explicit CallHook(Fn on_call) : on_call_(std::move(on_call)) {}
  long OnCall(SystemCall* call) override { return on_call_(call); }

 private:
  const Fn on_call_;
};

long Refuse(int error) {
  errno = error;
  return -1;
}

bool IsOn(const SystemCall& call, CallKind kind, const char* name) {
  return call.kind == kind && PathOfFd(call.fd).ends_with(name);
}

// A store whose groups of values are large enough to be populated in several steps.
Options OptionsOf(StagingMode mode) {
  Options options = TinyOptions();
  options.value_group_bytes = 16 * kValueBytes;
  options.staging_mode = mode;
  return options;
}

Status AppendTo(BucketLog* log, uint64_t key) { return log->Append(key, ValueOf(key, 1).data()); }

// Expects slot i of bucket 0 to be key keys[i], after a reopening in either way.
void ExpectReopens(const std::string& dir, const std::vector<uint64_t>& keys) {
  for (const StagingMode mode : {StagingMode::kWritten, StagingMode::kAuto}) {
    const auto log = OpenLog(OptionsOf(mode), dir);
    ASSERT_NE(log, nullptr);
    ASSERT_FALSE(log->BucketDamaged(0));
    ASSERT_EQ(log->RecordCount(0), keys.size());
    const std::vector<KeyRecord> records = RecordsOf(log.get(), 0);
    for (uint64_t slot = 0; slot < keys.size(); ++slot) {
      ASSERT_EQ(records[slot].key, keys[slot]);
      ASSERT_EQ(ReadSlot(*log, 0, slot), ValueOf(keys[slot], 1)) << "slot " << slot;
    }
  }
}

// fstatfs says that files lie on a file system of another type.
CallHook OnFileSystem(uint64_t type_magic) {
  return CallHook([type_magic](SystemCall* call) {
    const long result = call->Proceed();
    if (call->kind == CallKind::kFstatFs && result == 0) {
      static_cast<struct statfs*>(call->buffer)->f_type = static_cast<long>(type_magic);
    }
    return result;
  });
}

TEST(StagingModeTest, TheFileSystemDecides) {
  constexpr uint64_t kF2fsMagic = 0xf2f52010;
  const std::map<uint64_t, bool> expected = {
      {EXT4_SUPER_MAGIC, true},   {XFS_SUPER_MAGIC, true},  {TMPFS_MAGIC, true},
      {BTRFS_SUPER_MAGIC, false}, {NFS_SUPER_MAGIC, false}, {OVERLAYFS_SUPER_MAGIC, false},
      {FUSE_SUPER_MAGIC, false},  {kF2fsMagic, false}};
  for (const auto& [magic, mapped] : expected) {
    TempDir dir;
    CallHook hook = OnFileSystem(magic);
    const ScopedHook scope(&hook);
    std::vector<std::string> lines;
    Options options = OptionsOf(StagingMode::kAuto);
    options.log = [&lines](LogLevel level, std::string_view line) {
      if (line.find("staged with pwrite") == std::string_view::npos) return;
      EXPECT_EQ(level, LogLevel::kInfo);
      lines.emplace_back(line);
    };
    const auto log = OpenLog(options, dir.path());
    ASSERT_NE(log, nullptr);
    EXPECT_EQ(log->staging_mapped(), mapped) << magic;
    EXPECT_EQ(lines.size(), mapped ? 0u : 1u) << magic;
    ASSERT_TRUE(AppendTo(log.get(), 1).ok());
    EXPECT_EQ(ReadSlot(*log, 0, 0), ValueOf(1, 1));
  }
}

TEST(StagingModeTest, FilesThatCannotBeMappedAreWritten) {
  TempDir dir;
  CallHook hook([](SystemCall* call) {
    const bool refused = IsOn(*call, CallKind::kMmap, format::kStagingValuesName);
    return refused ? Refuse(ENODEV) : call->Proceed();  // -1 is MAP_FAILED as well
  });
  int warnings = 0;
  Options options = OptionsOf(StagingMode::kAuto);
  options.log = [&warnings](LogLevel level, std::string_view) {
    warnings += level == LogLevel::kWarning ? 1 : 0;
  };
  {
    const ScopedHook scope(&hook);
    const auto log = OpenLog(options, dir.path());
    ASSERT_NE(log, nullptr);
    EXPECT_FALSE(log->staging_mapped());
    EXPECT_EQ(warnings, 1);
    ASSERT_TRUE(AppendTo(log.get(), 1).ok());
  }
  ExpectReopens(dir.path(), {1});
}

TEST(StagingModeTest, WhatIsAskedForIsNoNews) {
  TempDir dir;
  Options options = OptionsOf(StagingMode::kWritten);
  options.log = [](LogLevel, std::string_view line) { ADD_FAILURE() << line; };
  EXPECT_FALSE(OpenLog(options, dir.path())->staging_mapped());
}

// Fails the n-th pwrite to a staging file, counted from 1 when it is told to.
class FailNthStagingWrite : public SystemCallHook {
 public:
  explicit FailNthStagingWrite(int error) : error_(error) {}
  void Fail(uint64_t nth) { left_ = nth; }
  bool failed() const { return failed_; }

  long OnCall(SystemCall* call) override {
    if (call->kind != CallKind::kPwrite || left_ == 0) return call->Proceed();
    if (PathOfFd(call->fd).find("/staging_") == std::string::npos) return call->Proceed();
    if (--left_ > 0) return call->Proceed();
    failed_ = true;
    return Refuse(error_);
  }

 private:
  const int error_;
  uint64_t left_ = 0;
  bool failed_ = false;
};

// From the first record of a group to the write of a full one: whichever write fails, the record is
// not counted, or its group is written again.
TEST(WrittenStagingTest, AWriteThatFailsForWantOfSpaceChangesNothing) {
  const uint64_t group = OptionsOf(StagingMode::kWritten).value_group_bytes / kValueBytes;
  for (uint64_t nth = 1;; ++nth) {
    TempDir dir;
    auto log = OpenLog(OptionsOf(StagingMode::kWritten), dir.path());
    ASSERT_NE(log, nullptr);
    std::vector<uint64_t> keys;
    for (uint64_t key = 0; key + 1 < group; ++key) {
      ASSERT_TRUE(AppendTo(log.get(), key).ok());
      keys.push_back(key);
    }
    FailNthStagingWrite fault(ENOSPC);
    fault.Fail(nth);
    {
      const ScopedHook scope(&fault);
      for (uint64_t key = 100; key < 103; ++key) {
        const uint64_t before = log->RecordCount(0);
        const Status status = AppendTo(log.get(), key);
        if (!status.ok()) {
          EXPECT_EQ(status.code(), Code::kFull) << status.ToString();
        }
        // A failed append may be there: when it is the group's write that failed.
        if (log->RecordCount(0) != before) keys.push_back(key);
        EXPECT_TRUE(!status.ok() || log->RecordCount(0) == before + 1);
      }
    }
    for (uint64_t key = 200; key < 200 + 2 * group; ++key) {
      const Status status = AppendTo(log.get(), key);
      ASSERT_TRUE(status.ok()) << "there is space again: " << status.ToString();
      keys.push_back(key);
    }
    EXPECT_GE(log->FlushedValueCount(0), 2 * group);
    log.reset();
    ExpectReopens(dir.path(), keys);
    if (!fault.failed()) {
      EXPECT_GT(nth, 9u) << "hardly a write was met";
      return;
    }
  }
}

TEST(WrittenStagingTest, AnotherErrorEndsWritingAndLosesNothing) {
  for (uint64_t nth = 1; nth <= 5; ++nth) {
    TempDir dir;
    {
      const auto log = OpenLog(OptionsOf(StagingMode::kWritten), dir.path());
      FailNthStagingWrite fault(EIO);
      fault.Fail(nth);
      const ScopedHook scope(&fault);
      EXPECT_EQ(AppendTo(log.get(), 1).code(), Code::kIOError);
      EXPECT_EQ(log->RecordCount(0), 0u);
      EXPECT_EQ(AppendTo(log.get(), 2).code(), Code::kIOError) << "writing has ended";
    }
    ExpectReopens(dir.path(), {});
    EXPECT_TRUE(AppendTo(OpenLog(OptionsOf(StagingMode::kWritten), dir.path()).get(), 3).ok());
    ExpectReopens(dir.path(), {3});
  }
}

// While the flushed count cannot be published the group keeps its place, however many writes come.
TEST(WrittenStagingTest, APlaceIsKeptUntilTheFlushedCountIsPublished) {
  TempDir dir;
  auto log = OpenLog(OptionsOf(StagingMode::kWritten), dir.path());
  ASSERT_NE(log, nullptr);
  std::vector<uint64_t> keys;
  const off_t flushed_word =
      static_cast<off_t>(format::WordKind::kFlushedValues) * sizeof(uint64_t);
  CallHook hook([flushed_word](SystemCall* call) {
    const bool met =
        IsOn(*call, CallKind::kPwrite, format::kStagingCountsName) && call->offset == flushed_word;
    return met ? Refuse(ENOSPC) : call->Proceed();
  });
  {
    const ScopedHook scope(&hook);
    for (uint64_t key = 0; key < 100; ++key) {
      const uint64_t before = log->RecordCount(0);
      const Status status = AppendTo(log.get(), key);
      EXPECT_TRUE(status.ok() || status.code() == Code::kFull) << status.ToString();
      if (log->RecordCount(0) != before) keys.push_back(key);
    }
    EXPECT_EQ(keys.size(), log->geometry().values_per_group()) << "the next group has not begun";
    EXPECT_EQ(log->FlushedValueCount(0), 0u);
    log.reset();
  }
  ExpectReopens(dir.path(), keys);
}

TEST(WrittenStagingTest, TheCountComesAfterTheBytes) {
  TempDir dir;
  const auto log = OpenLog(OptionsOf(StagingMode::kWritten), dir.path());
  ASSERT_TRUE(AppendTo(log.get(), 1).ok());
  std::vector<std::string> order;
  CallHook hook([&order](SystemCall* call) {
    if (call->kind == CallKind::kPwrite) {
      const std::string path = PathOfFd(call->fd);
      order.push_back(path.substr(path.rfind('/') + 1));
    }
    return call->Proceed();
  });
  const ScopedHook scope(&hook);
  ASSERT_TRUE(AppendTo(log.get(), 2).ok());
  EXPECT_EQ(order, (std::vector<std::string>{format::kStagingValuesName, format::kStagingKeysName,
                                             format::kStagingCountsName}));
}

// Fresh memory for each group would cost a page fault for each of its pages.
TEST(WrittenStagingTest, GroupsOnTheirWayUseTheSameMemoryAgain) {
  TempDir dir;
  const auto log = OpenLog(OptionsOf(StagingMode::kWritten), dir.path());
  const uint64_t group = log->geometry().values_per_group();
  uint64_t slot = 0;
  for (; slot < group; ++slot) ASSERT_TRUE(AppendTo(log.get(), slot).ok());
  int mapping_count = 0;
  CallHook hook([&mapping_count](SystemCall* call) {
    mapping_count += call->kind == CallKind::kMmap ? 1 : 0;
    return call->Proceed();
  });
  const ScopedHook scope(&hook);
  for (; slot < 4 * group; ++slot) ASSERT_TRUE(AppendTo(log.get(), slot).ok());
  EXPECT_EQ(log->FlushedValueCount(0), 4 * group);
  EXPECT_EQ(mapping_count, 0);
}

// Has stores staged through mappings on every file system.
CallHook Mapped(CallHook::Fn on_call) {
  return CallHook([on_call = std::move(on_call)](SystemCall* call) {
    const long result = on_call(call);
    if (call->kind == CallKind::kFstatFs && result == 0) {
      static_cast<struct statfs*>(call->buffer)->f_type = EXT4_SUPER_MAGIC;
    }
    return result;
  });
}

TEST(MappedStagingTest, PagesArePopulatedBeforeTheyAreStoredInto) {
  TempDir dir;
  long mapped_at = 0;
  std::map<uint64_t, int> populated;  // by offset in the file of values
  uint64_t call_count = 0;
  CallHook hook = Mapped([&](SystemCall* call) {
    const long result = call->Proceed();
    if (IsOn(*call, CallKind::kMmap, format::kStagingValuesName)) mapped_at = result;
    if (call->kind != CallKind::kMadvise || call->flags != MADV_POPULATE_WRITE) return result;
    ++call_count;
    const auto begin = static_cast<uint64_t>(reinterpret_cast<long>(call->buffer) - mapped_at);
    for (uint64_t i = 0; i < call->size; i += kIoAlignment) ++populated[begin + i];
    return result;
  });
  const ScopedHook scope(&hook);
  uint64_t slot = 0;
  // The second opening goes on in a place that the first one has begun to fill.
  for (const uint64_t end : {uint64_t{5}, uint64_t{40}}) {
    const auto log = OpenLog(OptionsOf(StagingMode::kAuto), dir.path());
    populated.clear();
    call_count = 0;
    const uint64_t begin = slot;
    for (; slot < end; ++slot) {
      const uint64_t group = log->geometry().values_per_group();
      if (slot % group == 0) populated.clear();
      ASSERT_TRUE(AppendTo(log.get(), slot).ok());
      // Groups are written before the next begins: each has the first place.
      EXPECT_EQ(populated[slot % group * kValueBytes], 1) << "slot " << slot;
    }
    EXPECT_LT(call_count, 7 + (slot - begin) / 2) << "a call for nearly every record";
  }
}

// Pages that a place has had before are tried again, by one call for all that the group will need.
TEST(MappedStagingTest, APlaceThatIsUsedAgainIsPopulatedByOneCall) {
  TempDir dir;
  long mapped_at = 0;
  size_t mapped_bytes = 0;
  std::vector<std::pair<uint64_t, size_t>> calls;  // offset in the file of values, size
  CallHook hook = Mapped([&](SystemCall* call) {
    const long result = call->Proceed();
    if (IsOn(*call, CallKind::kMmap, format::kStagingValuesName)) {
      mapped_at = result;
      mapped_bytes = call->size;
    }
    if (call->kind != CallKind::kMadvise || call->flags != MADV_POPULATE_WRITE) return result;
    const auto begin = static_cast<uint64_t>(reinterpret_cast<long>(call->buffer) - mapped_at);
    if (begin < mapped_bytes) calls.emplace_back(begin, call->size);
    return result;
  });
  const ScopedHook scope(&hook);
  const auto log = OpenLog(OptionsOf(StagingMode::kAuto), dir.path());
  const uint64_t group = log->geometry().values_per_group();
  uint64_t slot = 0;
  for (; slot < group; ++slot) ASSERT_TRUE(AppendTo(log.get(), slot).ok());
  EXPECT_EQ(calls.size(), 5u) << "of 1, 1, 2, 4 and 8 pages";
  for (uint64_t round = 1; round < 4; ++round) {
    calls.clear();
    for (; slot < (round + 1) * group; ++slot) ASSERT_TRUE(AppendTo(log.get(), slot).ok());
    ASSERT_EQ(calls.size(), 1u);
    EXPECT_EQ(calls[0], (std::pair<uint64_t, size_t>{0, group * kValueBytes}));
  }
}

// A page that cannot be populated is one whose store would be a SIGBUS.
TEST(MappedStagingTest, APageThatCannotBeStoredIntoIsAnError) {
  for (const char* name :
       {format::kStagingCountsName, format::kStagingKeysName, format::kStagingValuesName}) {
    for (const int write_error : {0, EIO, ENOSPC}) {
      SCOPED_TRACE(std::string(name) + ", pwrite says " + std::to_string(write_error));
      TempDir dir;
      OpenLog(OptionsOf(StagingMode::kAuto), dir.path());
      bool broken = true;
      std::map<std::string, std::pair<long, size_t>> mappings;
      CallHook hook = Mapped([&](SystemCall* call) {
        if (IsOn(*call, CallKind::kMmap, name)) {
          const long result = call->Proceed();
          mappings[name] = {result, call->size};
          return result;
        }
        if (broken && call->kind == CallKind::kMadvise && call->flags == MADV_POPULATE_WRITE) {
          const auto& [begin, size] = mappings[name];
          const auto offset = static_cast<size_t>(reinterpret_cast<long>(call->buffer) - begin);
          if (offset < size) return Refuse(EFAULT);
        }
        const bool refused = broken && write_error != 0 && IsOn(*call, CallKind::kPwrite, name);
        return refused ? Refuse(write_error) : call->Proceed();
      });
      const ScopedHook scope(&hook);
      auto log = OpenLog(OptionsOf(StagingMode::kAuto), dir.path());
      const Code wanted = write_error == ENOSPC ? Code::kFull : Code::kIOError;
      EXPECT_EQ(AppendTo(log.get(), 1).code(), wanted);
      EXPECT_EQ(log->RecordCount(0), 0u);
      broken = false;
      if (wanted == Code::kFull) {
        EXPECT_TRUE(AppendTo(log.get(), 2).ok()) << "there is space again";
      } else {
        log.reset();
        log = OpenLog(OptionsOf(StagingMode::kAuto), dir.path());
        EXPECT_TRUE(AppendTo(log.get(), 2).ok());
      }
      log.reset();
      ExpectReopens(dir.path(), {2});
    }
  }
}

// Blocks that a copy shares with its original are replaced before they are reserved.
TEST(MappedStagingTest, SpaceIsUnsharedBeforeItIsReserved) {
  TempDir dir;
  using Range = std::pair<off_t, off_t>;
  std::map<std::string, std::vector<Range>> unshared;
  std::map<std::string, int> reserved;
  CallHook hook = Mapped([&](SystemCall* call) {
    if (call->kind == CallKind::kFallocate) {
      const std::string path = PathOfFd(call->fd);
      const bool unshares = (call->flags & FALLOC_FL_UNSHARE_RANGE) != 0;
      const Range range(call->offset, call->length);
      if (unshares) unshared[path].push_back(range);
      if (call->flags == 0) {
        EXPECT_TRUE(!unshared[path].empty() && unshared[path].back() == range) << path;
        ++reserved[path];
      }
    }
    return call->Proceed();
  });
  const ScopedHook scope(&hook);
  const auto log = OpenLog(OptionsOf(StagingMode::kAuto), dir.path());
  ASSERT_TRUE(AppendTo(log.get(), 1).ok());
  EXPECT_EQ(reserved.size(), 3u) << "counts, keys, values";
}

// Without fallocate the counts get their space by writes; a word that counts may be published
// beside them, and must not be written back as it was.
TEST(MappedStagingTest, CountsAreReservedWithoutWritingAnyOfThem) {
  TempDir dir;
  { EXPECT_TRUE(AppendTo(OpenLog(OptionsOf(StagingMode::kAuto), dir.path()).get(), 1).ok()); }
  uint64_t write_count = 0;
  CallHook hook = Mapped([&write_count](SystemCall* call) {
    if (call->kind == CallKind::kFallocate) return Refuse(EOPNOTSUPP);
    if (IsOn(*call, CallKind::kPwrite, format::kStagingCountsName)) {
      ++write_count;
      EXPECT_EQ(call->size, sizeof(uint64_t));
      EXPECT_EQ(static_cast<uint64_t>(call->offset) % sizeof(format::BucketCounts),
                offsetof(format::BucketCounts, reserved));
    }
    return call->Proceed();
  });
  {
    const ScopedHook scope(&hook);
    const auto log = OpenLog(OptionsOf(StagingMode::kAuto), dir.path());
    EXPECT_TRUE(AppendTo(log.get(), 2).ok());
  }
  EXPECT_GT(write_count, 0u);
  ExpectReopens(dir.path(), {1, 2});
}

// A read through a mapping whose page the device does not give is a SIGBUS; by pread it is an
// error.
TEST(MappedStagingTest, SyncReadsWhatIsStagedByPread) {
  for (const char* name : {format::kStagingKeysName, format::kStagingValuesName}) {
    TempDir dir;
    {
      CallHook hook = Mapped([name](SystemCall* call) {
        return IsOn(*call, CallKind::kPread, name) ? Refuse(EIO) : call->Proceed();
      });
      const ScopedHook scope(&hook);
      const auto log = OpenLog(OptionsOf(StagingMode::kAuto), dir.path());
      ASSERT_TRUE(AppendTo(log.get(), 1).ok());
      EXPECT_EQ(log->Sync().code(), Code::kIOError) << name;
    }
    ExpectReopens(dir.path(), {1});
  }
}

}  // namespace
}  // namespace engine_race::test
