// A small file system of a test's own that can be filled, and the books of what was written to it.
//
// Stateless but for its objects. Mounting needs root: mounted() is false without.
#ifndef TEST_E2E_SMALL_DISK_H_
#define TEST_E2E_SMALL_DISK_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <set>
#include <string>

#include "harness/system/disk.h"
#include "test/e2e/engine_fixture.h"
#include "test/test_util.h"

namespace engine_race::test {

// Room on a small disk, roughly.
inline const uint64_t kDiskBytes = FromEnvironment("FULL_DISK_MIB", 64) * kMiB;

enum class DiskKind { kTmpfs, kExt4With4KBlocks, kExt4With1KBlocks, kXfs, kBtrfs };

inline const char* DiskName(DiskKind kind) {
  switch (kind) {
    case DiskKind::kTmpfs:
      return "Tmpfs";
    case DiskKind::kExt4With4KBlocks:
      return "Ext4With4KBlocks";
    case DiskKind::kExt4With1KBlocks:
      return "Ext4With1KBlocks";
    case DiskKind::kXfs:
      return "Xfs";
    case DiskKind::kBtrfs:
      return "Btrfs";
  }
  return "";
}

// Gone with the object.
class SmallDisk {
 public:
  explicit SmallDisk(DiskKind kind, uint64_t room_bytes = kDiskBytes)
      : room_bytes_(room_bytes), mount_point_(dir_.Join("disk")) {
    std::filesystem::create_directory(mount_point_);
    if (kind == DiskKind::kTmpfs) {
      const std::string options = "size=" + std::to_string(room_bytes_);
      mounted_ = ::mount("none", mount_point_.c_str(), "tmpfs", 0, options.c_str()) == 0;
      return;
    }
    mounted_ = loop_.Mount(MakeCommand(kind), dir_.path(), ImageBytes(kind)).ok();
    if (!mounted_) return;
    // The smallest XFS and btrfs are larger than what a test wants to fill.
    const uint64_t free_bytes = std::filesystem::space(mount_point_).available;
    if (free_bytes > room_bytes_) AddBallast(free_bytes - room_bytes_, "padding");
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  ~SmallDisk() {
    if (mounted_ && loop_.path().empty()) ::umount2(mount_point_.c_str(), MNT_DETACH);
  }

  bool mounted() const { return mounted_; }
  std::string StoreDir() const { return mount_point_ + "/store"; }

  // Takes `bytes` of the disk, or all that is left of it.
  void AddBallast(uint64_t bytes, const std::string& name = "ballast") {
    const int fd = ::open((mount_point_ + "/" + name).c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
    ASSERT_GE(fd, 0);
    // Blocks of removed files are free only after the file system's next commit.
    for (uint64_t before = bytes + 1; bytes > 0 && bytes < before;) {
      before = bytes;
      // Gaps that are too small for a large piece take small ones.
      for (const size_t piece_bytes : {size_t{1} << 20, size_t{4096}}) {
        const std::string piece(piece_bytes, 'b');
        while (bytes >= piece_bytes &&
               ::write(fd, piece.data(), piece_bytes) == static_cast<ssize_t>(piece_bytes)) {
          bytes -= piece_bytes;
        }
      }
      ::syncfs(fd);
    }
    ::close(fd);
  }
  void DropBallast() {
    std::filesystem::remove(mount_point_ + "/ballast");
    ::sync();  // ext4 gives freed blocks out again after its next commit
  }

 private:
  uint64_t ImageBytes(DiskKind kind) const {
    if (kind == DiskKind::kXfs) return std::max(room_bytes_ + 16 * kMiB, 320 * kMiB);
    if (kind == DiskKind::kBtrfs) return std::max(room_bytes_ + 128 * kMiB, 256 * kMiB);
    return room_bytes_;
  }
  static std::string MakeCommand(DiskKind kind) {
    switch (kind) {
      case DiskKind::kXfs:
        return harness::kMakeXfs;
      case DiskKind::kBtrfs:
        return "mkfs.btrfs -q -f";
      default:
        return std::string("mkfs.ext4 -q -F -m 0 -b ") +
               (kind == DiskKind::kExt4With1KBlocks ? "1024" : "4096");
    }
  }

  const uint64_t room_bytes_;
  TempDir dir_{FastParent()};
  const std::string mount_point_;
  harness::LoopDisk loop_;
  bool mounted_ = false;
};

inline Options SmallGroups() {
  Options options = TinyOptions();
  options.value_group_bytes = 16384;
  return options;
}

// Writes, and keeps the books: what was acknowledged must be there, what was refused may be.
class Books {
 public:
  // Writes version 1 of key number i; false when it was refused, which must be with kFull.
  bool Write(Store* store, uint64_t i) {
    const Status status = store->Write(KeyOf(NthKey(i)), ValueOf(NthKey(i), 1));
    const std::lock_guard<std::mutex> lock(mutex_);
    if (status.ok()) {
      acknowledged_.insert(NthKey(i));
      return true;
    }
    EXPECT_EQ(status.code(), Code::kFull) << status.ToString();
    EXPECT_FALSE(status.message().empty());
    refused_.insert(NthKey(i));
    return false;
  }

  void ExpectThere(Store* store) const {
    std::set<uint64_t> seen;
    for (const auto& [key, version] : RangeOf(store, "", "")) {
      EXPECT_EQ(version, 1u);
      EXPECT_TRUE(acknowledged_.contains(key) || refused_.contains(key)) << "a phantom";
      seen.insert(key);
    }
    for (const uint64_t key : acknowledged_) {
      ASSERT_TRUE(seen.contains(key)) << "an acknowledged write is not in the range";
      ASSERT_EQ(VersionOf(store, key), 1u);
    }
  }

  size_t acknowledged_count() const { return acknowledged_.size(); }

 private:
  std::mutex mutex_;
  std::set<uint64_t> acknowledged_;
  std::set<uint64_t> refused_;
};

}  // namespace engine_race::test

#endif  // TEST_E2E_SMALL_DISK_H_
