// How records are staged: which way a file system gets, and that nothing is ever stored where a
// store could be a SIGBUS.
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

#include "test/faults/staging_test_util.h"

namespace engine_race::test {
namespace {

// fstatfs says that files lie on a file system of another type.
CallWatch OnFileSystem(uint64_t type_magic) {
  return CallWatch([type_magic](SystemCall* call) {
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
    CallWatch hook = OnFileSystem(magic);
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
  CallWatch hook([](SystemCall* call) {
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

// Has stores staged through mappings on every file system.
CallWatch Mapped(CallWatch::Fn on_call) {
  return CallWatch([on_call = std::move(on_call)](SystemCall* call) {
    const long result = on_call(call);
    PretendMapped(*call, result);
    return result;
  });
}

TEST(MappedStagingTest, PagesArePopulatedBeforeTheyAreStoredInto) {
  TempDir dir;
  long mapped_at = 0;
  std::map<uint64_t, int> populated;  // by offset in the file of values
  uint64_t call_count = 0;
  CallWatch hook = Mapped([&](SystemCall* call) {
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
  CallWatch hook = Mapped([&](SystemCall* call) {
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
      CallWatch hook = Mapped([&](SystemCall* call) {
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
  CallWatch hook = Mapped([&](SystemCall* call) {
    if (call->kind == CallKind::kFallocate) {
      const std::string path = PathOfFd(call->fd);
      const bool unshares = (call->flags & FALLOC_FL_UNSHARE_RANGE) != 0;
      const Range range(call->offset, call->length);
      if (unshares) unshared[path].push_back(range);
      // The reserve is mapped by nobody.
      if (call->flags == 0 && !path.ends_with(format::kReserveName)) {
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
  CallWatch hook = Mapped([&write_count](SystemCall* call) {
    if (call->kind == CallKind::kFallocate) return Refuse(EOPNOTSUPP);
    if (IsOn(*call, CallKind::kPwrite, format::kStagingCountsName)) {
      ++write_count;
      EXPECT_EQ(call->size, sizeof(uint64_t));
      EXPECT_EQ(static_cast<uint64_t>(call->offset) % sizeof(format::BucketCounts),
                offsetof(format::BucketCounts, clean_at));
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
      CallWatch hook = Mapped([name](SystemCall* call) {
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

// On a full disk a write looks for zeros, which become holes. The disk is full for values alone.
TEST(MappedStagingTest, AFullDiskLooksAtWhatIsStagedByPread) {
  TempDir dir;
  int read_count = 0;
  CallWatch hook = Mapped([&read_count](SystemCall* call) {
    if (IsOn(*call, CallKind::kPwrite, "value_00")) return Refuse(ENOSPC);
    if (!IsOn(*call, CallKind::kPread, format::kStagingValuesName)) return call->Proceed();
    ++read_count;
    return Refuse(EIO);
  });
  const ScopedHook scope(&hook);
  Options options = OptionsOf(StagingMode::kAuto);
  options.io_backend = IoBackend::kPsync;
  const auto log = OpenLog(options, dir.path());
  const uint64_t group_records = log->geometry().values_per_group();
  for (uint64_t n = 0; n < group_records; ++n) ASSERT_TRUE(AppendTo(log.get(), 1).ok()) << n;
  EXPECT_EQ(AppendTo(log.get(), 1).code(), Code::kFull);
  EXPECT_EQ(read_count, 0) << "the kernel reads what is mapped";
  ASSERT_TRUE(log->reserve().GiveUp());
  EXPECT_EQ(AppendTo(log.get(), 1).code(), Code::kIOError);
  EXPECT_EQ(read_count, 1);
}

}  // namespace
}  // namespace engine_race::test
