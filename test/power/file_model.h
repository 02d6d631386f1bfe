// One file as a power loss would leave it: its durable content, and the changes since.
//
// A change (write, punched hole, new size) is pending from the moment it is issued until a flush
// that began after its completion has succeeded. Until then a power loss may take it, whole or in
// sectors, independently of the changes before and after it. Changes made through the page cache
// that a failed flush covered stay in doubt for ever. The kernel has forgotten that they are not on
// the device.
//
// Stores into a shared mapping are seen by nobody. A mapped file is looked at now and then instead.
// Each sector of it may come back as it was at the last flush, at any later look, or at the end.
// Pages that were dirty when a flush failed are clean for later flushes until they change again.
//
// Not thread-safe: PowerDisk calls it under its lock.
#ifndef TEST_POWER_FILE_MODEL_H_
#define TEST_POWER_FILE_MODEL_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "test/power/crash_bias.h"

namespace engine_race::test {

inline constexpr uint64_t kSectorBytes = 512;
inline constexpr uint64_t kPageBytes = 4096;

// The bytes of a file, of which long stretches are zeros.
class SparseBytes {
 public:
  uint64_t size() const { return size_; }
  void Resize(uint64_t size);
  // `data` null: zeros. Grows the file.
  void Write(const char* data, uint64_t size, uint64_t offset);
  void Punch(uint64_t size, uint64_t offset);
  // Writes everything into the empty file `fd`.
  void CopyTo(int fd, bool allocate_zeros) const;

 private:
  using Page = std::array<char, kPageBytes>;
  uint64_t size_ = 0;
  // By number; null: allocated, and zeros.
  std::map<uint64_t, std::unique_ptr<Page>> pages_;
};

struct Change {
  enum class Kind { kWrite, kPunch, kResize };
  Kind kind = Kind::kWrite;
  uint64_t id = 0;  // over all files of a disk, ascending
  uint64_t offset = 0;
  uint64_t size = 0;    // kResize: the new size
  std::string data;     // kWrite; empty: zeros
  bool direct = false;  // past the page cache
  bool completed = false;
  bool durable = false;
  bool doubtful = false;  // failed, or in the page cache when a flush failed
};

class FileModel {
 public:
  // The changes that a flush covers, from its beginning to its end.
  struct Flush {
    std::vector<std::shared_ptr<Change>> changes;
    uint64_t look_count = 0;
  };

  // `path` is where a mapped file can be looked at.
  FileModel(std::string path, bool mapped) : path_(std::move(path)), mapped_(mapped) {}
  FileModel(const FileModel&) = delete;
  ~FileModel();

  // Takes what the file at `path` holds now as durable.
  void Adopt();

  std::shared_ptr<Change> Begin(Change change);
  // `done_bytes`: what a write said, -1 when the change failed.
  void Complete(Change* change, int64_t done_bytes);

  Flush BeginFlush();
  void EndFlush(const Flush& flush, bool succeeded);

  // Remembers what a mapped file holds now.
  void Look();
  // Writes one possible state after a power loss into the empty file `fd`. A mapped file is as the
  // last look found it.
  void CopyCrashed(const CrashBias& bias, Random* random, int fd) const;

  size_t pending_count() const { return changes_.size(); }
  bool mapped() const { return mapped_; }

 private:
  using Sector = std::array<char, kSectorBytes>;

  void Fold();
  void CommitLooks(uint64_t look_count);
  void AbandonPages(uint64_t look_count);
  void ReadWhole(std::string* bytes);
  std::vector<bool> ChooseKept(const CrashBias& bias, Random* random) const;
  void CopyMapped(const CrashBias& bias, Random* random, int fd) const;

  const std::string path_;
  const bool mapped_;
  int fd_ = -1;  // of a mapped file, once it was looked at

  SparseBytes durable_;  // of a mapped file, the size alone
  std::vector<std::shared_ptr<Change>> changes_;

  std::string synced_bytes_;
  std::string last_bytes_;
  // Changes from one look to the next, by sector; those before look_base_ are durable.
  std::vector<std::map<uint64_t, Sector>> looks_;
  uint64_t look_base_ = 0;
  std::set<uint64_t> abandoned_pages_;  // dirty when a flush failed, and not changed since
};

}  // namespace engine_race::test

#endif  // TEST_POWER_FILE_MODEL_H_
