// The directory of a bench's store: made when missing, and guarded against the loss of other files.
//
// A note beside the store says that a bench made it. Only a directory that has a note, or is empty,
// is ever emptied. Not thread-safe.
#ifndef HARNESS_BENCH_STORE_DIR_H_
#define HARNESS_BENCH_STORE_DIR_H_

#include <string>
#include <vector>

#include "harness/system/work_dir.h"

namespace harness {

class StoreDir {
 public:
  StoreDir() = default;
  StoreDir(const StoreDir&) = delete;
  StoreDir& operator=(const StoreDir&) = delete;
  // Removes the store and its directory if Prepare has chosen the directory.
  ~StoreDir();

  // Takes `path` for new stores; an empty one makes a fresh directory below the current one.
  // `value_paths` are the directories of Options::paths. False for a directory that holds anything
  // but a bench's store with the same value paths; *error says why.
  bool Prepare(const std::string& path, const std::vector<std::string>& value_paths,
               std::string* error);
  // Takes the store that lies in `path`, whoever made it. It cannot be emptied.
  bool Adopt(const std::string& path, std::string* error);

  // Removes the store and its values, for a new one.
  bool Empty(std::string* error);

  // Absolute.
  const std::string& path() const { return path_; }
  // Of the store, on disk.
  uint64_t AllocatedBytes() const;

 private:
  void RemoveStore() const;

  WorkDir dir_;
  std::string path_;
  std::vector<std::string> value_paths_;
  bool is_fresh_ = false;
};

}  // namespace harness

#endif  // HARNESS_BENCH_STORE_DIR_H_
