// How far an import or export is: a small file that a later call goes on from.
//
// One thread at a time.
#ifndef HARNESS_TOOLS_STORE_NOTE_H_
#define HARNESS_TOOLS_STORE_NOTE_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "engine_race/base/status.h"

namespace engine_race::harness {

// The absolute name of a file, its size and its time of change: a note is of this file only. Null
// for no name.
nlohmann::json DescribeFile(const std::string& path);

class TransferNote {
 public:
  // `transfer` says what is moved from where to where.
  TransferNote(std::string path, nlohmann::json transfer)
      : path_(std::move(path)), transfer_(std::move(transfer)) {}

  // Takes the note of an earlier call, if there is one. kInvalidArgument for another transfer's.
  Status Read();
  // Replaces the file. The caller has synced what the note counts.
  Status Write(uint64_t done_count, uint64_t last_key);
  Status Remove();

  const std::string& path() const { return path_; }
  // Whether Read has taken one.
  bool is_found() const { return is_found_; }
  // Records that are done, and the key of the last one.
  uint64_t done_count() const { return done_count_; }
  uint64_t last_key() const { return last_key_; }

 private:
  const std::string path_;
  const nlohmann::json transfer_;
  bool is_found_ = false;
  uint64_t done_count_ = 0;
  uint64_t last_key_ = 0;
};

// Makes the names in the directory of a file durable.
Status SyncDirectoryOf(const std::string& path);

}  // namespace engine_race::harness

#endif  // HARNESS_TOOLS_STORE_NOTE_H_
