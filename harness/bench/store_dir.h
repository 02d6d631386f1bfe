// The directory of a bench's store: made when missing, and guarded against the loss of other files.
//
// A note beside the store says that a bench made it, and the same note lies in each of its value
// paths. Only directories that have this note, or are empty, are ever emptied. The note keeps
// canonical paths, so it means the same from every working directory. A bench holds the lock of the
// note from Empty on. A bench that is killed before it has written its note leaves it empty, which
// is taken for none.
#ifndef HARNESS_BENCH_STORE_DIR_H_
#define HARNESS_BENCH_STORE_DIR_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/base/sys.h"
#include "harness/bench/benchmark.h"
#include "harness/system/disk.h"

namespace engine_race::harness {

class StoreDir {
 public:
  // Removes the store and its directory if Prepare has chosen the directory and Empty has taken it.
  ~StoreDir();

  // Takes `path` for new stores; an empty one makes a fresh directory below the current one.
  // `value_paths` are the directories of Options::paths. kInvalidArgument for a directory that
  // cannot be made, or that holds anything but a bench's store with the same value paths.
  Status Prepare(const std::string& path, const std::vector<std::string>& value_paths);
  // Takes the store that lies in `path`, also one that no bench has made. It cannot be emptied.
  // kInvalidArgument when there is none.
  Status Adopt(const std::string& path, const std::vector<std::string>& value_paths);

  // Removes the store and its values, for a new one. Fails, and nothing is removed, while another
  // bench holds the note or a process has the store open.
  Status Empty();

  // All canonical. An adopted store's value paths are those that its manifest names, unless the
  // caller has named them.
  const std::string& path() const { return path_; }
  const std::vector<std::string>& value_paths() const { return value_paths_; }
  // Of the store, on disk. Nothing when it has values on a raw device: those are no file's bytes.
  std::optional<uint64_t> AllocatedBytes() const;

 private:
  Status TakeNote();
  Status ClaimValuePaths() const;
  Status WriteNote();
  Status RemoveStore() const;
  // Removes the notes where no store lies, and gives up the lock.
  void DropNotes();

  WorkDir dir_{"bench-store."};
  std::string path_;
  std::string text_;  // of the note
  std::vector<std::string> value_paths_;
  bool is_fresh_ = false;
  // Open and locked since the first Empty.
  UniqueFd note_;
};

// The disk space that a session of benchmarks will take, estimated before it begins.

// The most records that the store has space for at once when it runs these steps. Expected
// updates count, as if reclaim gave nothing back. Writes by time are counted as if by number.
uint64_t MostRecords(const BenchConfig& config, const std::vector<std::string>& steps);

// Empty, or why there is no room for `records` records with values of this size. In question are
// the file systems of the store's directory and of its value paths. A store that lies there makes
// room. Raw devices are not looked at: the engine refuses a small one.
std::string WhyNoRoomFor(uint64_t records, uint32_t record_value_bytes, const std::string& dir,
                         const std::vector<std::string>& value_paths);

}  // namespace engine_race::harness

#endif  // HARNESS_BENCH_STORE_DIR_H_
