// The directory of a race: found or made, guarded against destroying what is not ours, measured.
//
// A note beside the store says that a race made it and with which records; only a directory that
// has one, or is empty, is ever written to. Not synchronised.
#ifndef HARNESS_RACE_DIR_H_
#define HARNESS_RACE_DIR_H_

#include <cstdint>
#include <optional>
#include <string>

#include "harness/race/phase.h"

namespace harness {

class RaceDir {
 public:
  RaceDir() = default;
  RaceDir(const RaceDir&) = delete;
  RaceDir& operator=(const RaceDir&) = delete;
  // Removes a directory that Prepare made up by itself.
  ~RaceDir();

  // Takes `path`, made when missing, or when it is empty a fresh directory below the current one.
  // Refuses a directory that holds anything but a race's store; *error says why.
  bool Prepare(const std::string& path, std::string* error);

  const std::string& path() const { return path_; }

  // Empties the directory for a new store and notes what it will hold.
  bool StartStore(const RaceConfig& config, std::string* error);
  // What the store here holds: a configuration of which threads, records, keys and seed count.
  std::optional<RaceConfig> ReadNote() const;
  // Removes the store and the note, and syncs, so that the next writer does not pay for it.
  void RemoveStore();

 private:
  std::string path_;
  bool is_ours_ = false;
};

// Bytes that may still be written to the file system of `dir`.
uint64_t FreeBytes(const std::string& dir);
// What a store of so many records takes on disk at most, staging included.
uint64_t StoreBytes(uint64_t record_count);
// "ext4 on /dev/vda", as far as /proc/self/mountinfo tells.
std::string FileSystemName(const std::string& dir);

}  // namespace harness

#endif  // HARNESS_RACE_DIR_H_
