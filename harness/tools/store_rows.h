// Files of rows that have one size: arrays that numpy.save has saved, and records. Also
// the note from which an import or an export goes on, and those calls.
//
// A record is the 8 bytes of a key and those of its value. One thread at a time for a file.
#ifndef HARNESS_TOOLS_STORE_ROWS_H_
#define HARNESS_TOOLS_STORE_ROWS_H_

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "engine_race/base/options.h"
#include "engine_race/base/progress.h"
#include "engine_race/base/status.h"
#include "engine_race/base/sys.h"

namespace engine_race::harness {

// Opens a file that must be a regular one: kInvalidArgument for others, and for a FIFO without a
// wait. `flags` are those of open.
Status OpenRegularFile(const std::string& path, int flags, UniqueFd* fd);

// Whether the name says that a file is an array: it ends in ".npy". Other files have records.
bool IsNpy(const std::string& path);

struct RowFile {
  UniqueFd fd;
  std::string path;
  std::string type;    // of an array's items, as numpy writes it: "<f4"
  uint64_t begin = 0;  // where the rows begin
  uint64_t row_bytes = 0;
  uint64_t count = 0;
  uint32_t dimension_count = 0;  // of an array

  // Rows from `first` on. kIOError where the file has become shorter.
  Status Read(uint64_t first, uint64_t row_count, char* rows) const;
};

// Opens a file and checks that it has all of its rows and nothing else. Records have values of
// `value_bytes`. kInvalidArgument for a file that is not whole, and for arrays of no dimension, in
// Fortran's order, of big-endian items or objects.
Status OpenRows(const std::string& path, uint32_t value_bytes, RowFile* file);

// Writes rows to the end of a file, which it makes and locks.
class RowWriter {
 public:
  // Changes nothing yet in a file that is there. kInvalidArgument for one that another writer has
  // open, and for one with fewer than `row_count` rows. A file with any bytes is refused unless it
  // is this call's `own`: an earlier one made it.
  Status Open(const std::string& path, bool is_npy, uint64_t row_bytes, uint64_t row_count,
              bool own);
  // Drops all behind the rows of Open. An array's header is zeros until Finish.
  Status Begin() { return sys::Truncate(fd_.get(), row_count_ == 0 ? 0 : end_); }
  bool is_open() const { return fd_.valid(); }
  void Add(std::string_view part) { pending_ += part; }
  // Writes what was added.
  Status Flush();
  // Makes durable what was flushed.
  Status Sync() { return sys::Fdatasync(fd_.get()); }
  // Writes an array's header and makes the file durable. Its rows have items of `type`: one, or as
  // many as `shape` says.
  Status Finish(std::string_view type, std::string_view shape);

 private:
  UniqueFd fd_;
  uint64_t begin_ = 0;
  uint64_t row_bytes_ = 0;
  uint64_t row_count_ = 0;  // of Open
  uint64_t end_ = 0;
  std::string pending_;
};

// How far an import or export is: a small file that a later call goes on from.
//
// One thread at a time.

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

// The import and export of bin/store: between a store and files of rows.
//
// A note beside the file, FILE.note, says how far the call is. Each note follows a sync of the
// store, or of the file, so all that it counts is durable. After any end of a call another one can
// go on from the note. It writes again the records that came after the note, and removes it when
// all is done.
//
// One call at a time for a store or a file.

struct Transfer {
  std::string dir;
  std::string file;
  // An array of keys, for a `file` that is an array. Without it a row's number is its key.
  std::optional<std::string> keys;
  bool resumes = false;
  bool pads = false;     // an import fills rows that are too short with zeros
  bool creates = false;  // an import makes the store if there is none
  // Of the values of a store that is made. 0: those of the rows of an array without `pads`, else
  // the default. A store that is there must have this size, if it is not 0.
  uint32_t value_bytes = 0;
  // Between two calls of the progress function, and between two notes. With large values there are
  // fewer: see kMaxPieceBytes.
  uint64_t piece_records = 1024;
  uint64_t note_records = 65536;
};

struct TransferReport {
  uint64_t record_count = 0;  // that the target has: of this call and of those before it
  uint64_t moved_count = 0;   // of this call alone
  double seconds = 0;
};

// Writes all records of the file. Later rows of a key win. kInvalidArgument, before anything is
// written, for files that are not whole and for a note of something else. Any other file in the
// note's place is refused as well. kIncomplete when `on_progress` cancelled it. Its message names
// the record that a failed write was for. The first call of `on_progress` counts what was done
// before.
Status Import(const Transfer& transfer, const ProgressFn& on_progress, TransferReport* report);

// Writes all records in order of key to a file that does not exist yet, and gives it that name once
// it is whole. Until then it has the suffix ".part". A store that is written to between two calls
// is exported by each as it then is. kInvalidArgument, before anything is written, where an array
// without keys would lose some. No file is replaced but those of the call that is resumed.
Status Export(const Transfer& transfer, const ProgressFn& on_progress, TransferReport* report);

// Import or Export with its progress and its result on the terminal. Returns the exit code.
int RunTransfer(bool is_import, const Transfer& transfer);

}  // namespace engine_race::harness

#endif  // HARNESS_TOOLS_STORE_ROWS_H_
