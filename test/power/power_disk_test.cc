// The disk model itself: what a power loss may take and what it may not.
#include "test/power/power_disk.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "engine_race/base/sys.h"
#include "test/power/state_directory.h"

namespace engine_race::test {
namespace {

constexpr char kGone[] = "(no file)";

class PowerDiskTest : public testing::Test {
 protected:
  PowerDiskTest() {
    std::filesystem::create_directory(dir_);
    disk_ = std::make_unique<PowerDisk>(dir_);
    hook_ = std::make_unique<ScopedHook>(disk_.get());
    EXPECT_TRUE(sys::OpenDirectory(dir_, false, &dir_fd_).ok());
  }
  ~PowerDiskTest() override {
    dir_fd_.Reset();
    file_.Reset();
  }

  void Open(const std::string& name) {
    ASSERT_TRUE(sys::OpenAt(dir_fd_.get(), name, O_RDWR | O_CREAT, 0644, &file_).ok());
  }
  // A file that is durable already, name and all.
  void OpenDurable(const std::string& name, const std::string& bytes) {
    Open(name);
    Write(bytes, 0);
    Flush();
    FlushNames();
  }
  void Write(const std::string& bytes, uint64_t offset) {
    ASSERT_TRUE(sys::PwriteFull(file_.get(), bytes.data(), bytes.size(), offset).ok());
  }
  void Flush() { ASSERT_TRUE(sys::Fsync(file_.get()).ok()); }
  void FlushNames() { ASSERT_TRUE(sys::Fsync(dir_fd_.get()).ok()); }

  // What `name` holds after one loss of power.
  std::string After(const CrashBias& bias, const std::string& name) {
    const std::string to = temp_.NewPath();
    std::filesystem::create_directory(to);
    disk_->Crash(bias, &random_, to);
    return BytesOf(to + "/" + name);
  }
  // All that `name` may hold.
  std::set<std::string> Possible(const std::string& name) {
    std::set<std::string> found;
    for (int i = 0; i < 300; ++i) {
      const std::string to = temp_.NewPath();
      std::filesystem::create_directory(to);
      disk_->Crash(&random_, to);
      found.insert(BytesOf(to + "/" + name));
      std::filesystem::remove_all(to);
    }
    return found;
  }
  static std::string BytesOf(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) return kGone;
    std::stringstream bytes;
    bytes << file.rdbuf();
    return bytes.str();
  }
  static std::string Sectors(const std::string& letters) {
    std::string bytes;
    for (const char letter : letters) bytes += std::string(kSectorBytes, letter);
    return bytes;
  }

  StateDirectory temp_;
  const std::string dir_ = temp_.NewPath();
  std::unique_ptr<PowerDisk> disk_;
  std::unique_ptr<ScopedHook> hook_;
  UniqueFd dir_fd_;
  UniqueFd file_;
  Random random_{7};
};

TEST_F(PowerDiskTest, UnsyncedWritesMayGoAndSyncedOnesStay) {
  OpenDurable("value_00", Sectors("a"));
  Write(Sectors("b"), 0);
  EXPECT_EQ(After(CrashBias::KeepAll(), "value_00"), Sectors("b"));
  EXPECT_EQ(After(CrashBias::KeepNone(), "value_00"), Sectors("a"));
  EXPECT_EQ(disk_->pending_count(), 1);
  Flush();
  EXPECT_EQ(disk_->pending_count(), 0);
  EXPECT_EQ(After(CrashBias::KeepNone(), "value_00"), Sectors("b"));
}

TEST_F(PowerDiskTest, WritesAreKeptInTheirOrderAndEachByItself) {
  OpenDurable("value_00", Sectors("a"));
  Write(Sectors("b"), 0);
  Write(Sectors("c"), 0);
  EXPECT_EQ(After(CrashBias::KeepAll(), "value_00"), Sectors("c"));
  EXPECT_EQ(Possible("value_00"),
            (std::set<std::string>{Sectors("a"), Sectors("b"), Sectors("c")}));
}

TEST_F(PowerDiskTest, TornWritesKeepWholeSectors) {
  OpenDurable("value_00", Sectors("aa"));
  Write(Sectors("bb"), 0);
  EXPECT_EQ(Possible("value_00"),
            (std::set<std::string>{Sectors("aa"), Sectors("ab"), Sectors("ba"), Sectors("bb")}));
}

TEST_F(PowerDiskTest, SectorsAreTheDevicesWhereverAWriteBegins) {
  OpenDurable("value_00", Sectors("aa"));
  Write("bb", kSectorBytes - 1);
  std::string left = Sectors("aa");
  left[kSectorBytes - 1] = 'b';
  std::string right = Sectors("aa");
  right[kSectorBytes] = 'b';
  std::string both = left;
  both[kSectorBytes] = 'b';
  EXPECT_EQ(Possible("value_00"), (std::set<std::string>{Sectors("aa"), left, right, both}));
}

TEST_F(PowerDiskTest, HolesPunchedAndNewSizesAreChangesToo) {
  OpenDurable("key_00", Sectors("aaaaaaaa"));
  ASSERT_EQ(::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
  EXPECT_EQ(After(CrashBias::KeepAll(), "key_00"), std::string(4096, '\0'));
  EXPECT_EQ(After(CrashBias::KeepNone(), "key_00"), Sectors("aaaaaaaa"));
  Flush();
  EXPECT_EQ(After(CrashBias::KeepNone(), "key_00"), std::string(4096, '\0'));
  ASSERT_TRUE(sys::Truncate(file_.get(), 512).ok());
  EXPECT_EQ(After(CrashBias::KeepAll(), "key_00").size(), 512);
  EXPECT_EQ(After(CrashBias::KeepNone(), "key_00").size(), 4096);
}

TEST_F(PowerDiskTest, NamesNeedTheirDirectoryFlushed) {
  Open("manifest.new");
  Write("m", 0);
  Flush();
  EXPECT_EQ(After(CrashBias::KeepNone(), "manifest.new"), kGone);
  FlushNames();
  EXPECT_EQ(After(CrashBias::KeepNone(), "manifest.new"), "m");
  ASSERT_TRUE(sys::Rename(dir_fd_.get(), "manifest.new", "manifest").ok());
  Flush();
  EXPECT_EQ(After(CrashBias::KeepNone(), "manifest"), kGone);
  EXPECT_EQ(After(CrashBias::KeepNone(), "manifest.new"), "m");
  EXPECT_EQ(After(CrashBias::KeepAll(), "manifest"), "m");
  EXPECT_EQ(After(CrashBias::KeepAll(), "manifest.new"), kGone);
  FlushNames();
  EXPECT_EQ(After(CrashBias::KeepNone(), "manifest"), "m");
}

TEST_F(PowerDiskTest, NamesAreKeptEachByItself) {
  Open("key_00");
  Open("value_00");
  std::set<std::pair<bool, bool>> seen;
  for (int i = 0; i < 100; ++i) {
    CrashBias bias;
    bias.keep_name = 0.5;
    const std::string to = temp_.NewPath();
    std::filesystem::create_directory(to);
    disk_->Crash(bias, &random_, to);
    seen.emplace(std::filesystem::exists(to + "/key_00"),
                 std::filesystem::exists(to + "/value_00"));
  }
  EXPECT_EQ(seen.size(), 4);
}

TEST_F(PowerDiskTest, MappedSectorsComeBackFromAnyMoment) {
  Open("staging_values");
  ASSERT_TRUE(sys::Truncate(file_.get(), 2 * kSectorBytes).ok());
  void* const map =
      ::mmap(nullptr, 2 * kSectorBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
  ASSERT_NE(map, MAP_FAILED);
  const auto store = [&](char letter) { std::memset(map, letter, 2 * kSectorBytes); };
  store('a');
  Flush();
  FlushNames();
  store('b');
  disk_->Look();
  store('c');
  EXPECT_EQ(After(CrashBias::KeepAll(), "staging_values"), Sectors("cc"));
  EXPECT_EQ(After(CrashBias::KeepNone(), "staging_values"), Sectors("aa"));
  std::set<std::string> all;
  for (const char* pair : {"aa", "ab", "ac", "ba", "bb", "bc", "ca", "cb", "cc"}) {
    all.insert(Sectors(pair));
  }
  EXPECT_EQ(Possible("staging_values"), all);
  Flush();
  EXPECT_EQ(Possible("staging_values"), std::set<std::string>{Sectors("cc")});
  ::munmap(map, 2 * kSectorBytes);
}

TEST_F(PowerDiskTest, AStateCanBeTakenFromWithinACall) {
  OpenDurable("value_00", Sectors("a"));
  std::string before;
  std::string after;
  disk_->on_event = [&](const std::string& event) {
    if (event == "before pwrite value_00") before = After(CrashBias::KeepAll(), "value_00");
    if (event == "after pwrite value_00") after = After(CrashBias::KeepAll(), "value_00");
  };
  Write(Sectors("b"), 0);
  EXPECT_EQ(before, Sectors("a"));
  EXPECT_EQ(after, Sectors("b"));
}

TEST_F(PowerDiskTest, AFlushCoversWhatWasCompleteWhenItBegan) {
  FileModel file(temp_.NewPath(), false);
  const auto write = [&](char letter) {
    Change change;
    change.size = kSectorBytes;
    change.data = std::string(kSectorBytes, letter);
    return file.Begin(std::move(change));
  };
  const auto after_loss = [&] {
    const std::string path = temp_.NewPath();
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0644);
    file.CopyCrashed(CrashBias::KeepNone(), &random_, fd);
    ::close(fd);
    return BytesOf(path);
  };
  const auto early = write('a');
  file.Complete(early.get(), kSectorBytes);
  const auto under_way = write('b');
  const FileModel::Flush flush = file.BeginFlush();
  file.Complete(under_way.get(), kSectorBytes);
  file.EndFlush(flush, true);
  EXPECT_EQ(after_loss(), Sectors("a"));
  file.EndFlush(file.BeginFlush(), true);
  EXPECT_EQ(after_loss(), Sectors("b"));
}

TEST_F(PowerDiskTest, WhatAFailedFlushCoveredStaysInDoubt) {
  OpenDurable("value_00", Sectors("a"));
  Write(Sectors("b"), 0);
  disk_->fails_flush = [](const std::string& name) { return name == "value_00"; };
  EXPECT_EQ(sys::Fsync(file_.get()).code(), Code::kIOError);
  disk_->fails_flush = nullptr;
  Flush();
  EXPECT_EQ(After(CrashBias::KeepNone(), "value_00"), Sectors("a"));
  EXPECT_EQ(After(CrashBias::KeepAll(), "value_00"), Sectors("b"));
  Write(Sectors("c"), 0);
  Flush();
  EXPECT_EQ(Possible("value_00"), std::set<std::string>{Sectors("c")});
}

TEST_F(PowerDiskTest, DirectWritesAreFlushedByTheNextFlushThatSucceeds) {
  ASSERT_TRUE(
      sys::OpenAt(dir_fd_.get(), "value_00", O_RDWR | O_CREAT | O_DIRECT, 0644, &file_).ok());
  FlushNames();
  alignas(4096) char page[4096];
  std::memset(page, 'a', sizeof(page));
  ASSERT_TRUE(sys::PwriteFull(file_.get(), page, sizeof(page), 0).ok());
  disk_->fails_flush = [](const std::string&) { return true; };
  EXPECT_EQ(sys::Fsync(file_.get()).code(), Code::kIOError);
  EXPECT_EQ(After(CrashBias::KeepNone(), "value_00"), "");
  disk_->fails_flush = nullptr;
  Flush();
  EXPECT_EQ(After(CrashBias::KeepNone(), "value_00"), std::string(4096, 'a'));
}

TEST_F(PowerDiskTest, PagesThatAFailedFlushLeftAreFlushedOnlyOnceTheyChangeAgain) {
  Open("staging_keys");
  ASSERT_TRUE(sys::Truncate(file_.get(), 2 * kPageBytes).ok());
  Flush();
  FlushNames();
  const std::string zeros(kPageBytes, '\0');
  const std::string letters(kPageBytes, 'a');
  Write(letters + letters, 0);
  disk_->fails_flush = [](const std::string&) { return true; };
  EXPECT_EQ(sys::Fsync(file_.get()).code(), Code::kIOError);
  disk_->fails_flush = nullptr;
  Flush();
  EXPECT_EQ(After(CrashBias::KeepNone(), "staging_keys"), zeros + zeros);
  EXPECT_EQ(After(CrashBias::KeepAll(), "staging_keys"), letters + letters);
  // Written again, if with the same bytes.
  Write(letters, kPageBytes);
  Flush();
  EXPECT_EQ(After(CrashBias::KeepNone(), "staging_keys"), zeros + letters);
  Write("b", 1);
  Flush();
  EXPECT_EQ(After(CrashBias::KeepNone(), "staging_keys"),
            "ab" + std::string(kPageBytes - 2, 'a') + letters);
}

TEST_F(PowerDiskTest, AStateIsTheNextDisksBeginning) {
  OpenDurable("value_00", Sectors("a"));
  Write(Sectors("b"), 8192);
  const std::string to = temp_.NewPath();
  std::filesystem::create_directory(to);
  disk_->Crash(CrashBias::KeepAll(), &random_, to);
  PowerDisk next(to);
  const std::string then = temp_.NewPath();
  std::filesystem::create_directory(then);
  next.Crash(CrashBias::KeepNone(), &random_, then);
  EXPECT_EQ(BytesOf(then + "/value_00"),
            Sectors("a") + std::string(8192 - kSectorBytes, '\0') + Sectors("b"));
}

TEST_F(PowerDiskTest, LongZerosStayHolesUnlessAskedFor) {
  Open("staging_journal");
  Write(std::string(1 << 20, '\0'), 0);
  Flush();
  FlushNames();
  CrashBias bias;
  for (const bool allocate : {false, true}) {
    bias.allocate_zeros = allocate;
    const std::string to = temp_.NewPath();
    std::filesystem::create_directory(to);
    disk_->Crash(bias, &random_, to);
    struct stat info;
    ASSERT_EQ(::stat((to + "/staging_journal").c_str(), &info), 0);
    EXPECT_EQ(info.st_size, 1 << 20);
    EXPECT_EQ(info.st_blocks * 512, allocate ? 1 << 20 : 0);
  }
}

TEST_F(PowerDiskTest, TheBootIdIsAnothers) {
  const std::string path = temp_.NewPath();
  std::ofstream(path) << "other";
  disk_->boot_id_path = path;
  ASSERT_TRUE(sys::OpenAt(AT_FDCWD, "/proc/sys/kernel/random/boot_id", O_RDONLY, 0, &file_).ok());
  std::string bytes(5, '\0');
  ASSERT_TRUE(sys::PreadFull(file_.get(), bytes.data(), bytes.size(), 0).ok());
  EXPECT_EQ(bytes, "other");
}

}  // namespace
}  // namespace engine_race::test
