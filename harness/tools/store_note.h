// How far an import or export is: a small file that a later call goes on from.
//
// One thread at a time.
#ifndef HARNESS_TOOLS_STORE_NOTE_H_
#define HARNESS_TOOLS_STORE_NOTE_H_

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "engine_race/base/status.h"

namespace engine_race::harness {

// The one name of a file or directory: absolute, without symlinks, its bytes escaped by Escaped.
std::string NameOf(const std::string& path);

// The name of a file, its size and its time of change. Null for no name.
nlohmann::json DescribeFile(const std::optional<std::string>& path);

class TransferNote {
 public:
  struct Place {
    uint64_t done_count = 0;  // records
    uint64_t last_key = 0;    // of the last one
  };

  // `kind` is "import" or "export".
  TransferNote(std::string path, std::string kind)
      : path_(std::move(path)), kind_(std::move(kind)) {}

  // Reads the note of an earlier call, if there is one. kInvalidArgument for another file of this
  // name, which is never replaced.
  Status Read();
  // `transfer` says what is moved from where to where. `sync` makes durable what a note is to
  // count. kInvalidArgument for a call that resumes by the note of another transfer.
  Status Begin(nlohmann::json transfer, bool resumes, std::function<Status()> sync);
  // Syncs, then replaces the file. After a failed sync it always fails: the kernel reports a lost
  // write only once.
  Status Write(const Place& place);
  Status Remove();

  bool is_found() const { return noted_.is_object(); }
  // Whether an earlier call began the same transfer. Valid after Begin.
  bool is_begun() const { return is_begun_; }
  // The last place that was written. After Begin, where this call begins.
  const Place& place() const { return place_; }

 private:
  const std::string path_;
  const std::string kind_;
  nlohmann::json noted_;
  nlohmann::json transfer_;
  std::function<Status()> sync_;
  bool is_begun_ = false;
  bool is_sync_failed_ = false;
  Place place_;
};

// Makes the names in the directory of a file durable.
Status SyncDirectoryOf(const std::string& path);

}  // namespace engine_race::harness

#endif  // HARNESS_TOOLS_STORE_NOTE_H_
