// The import and export of bin/store: between a store and files of rows, see store_rows.h.
//
// A note beside the file, FILE.note, says how far the call is. Each note follows a sync of the
// store, or of the file, so all that it counts is durable. After any end of a call another one can
// go on from the note. It writes again the records that came after the note, and removes it when
// all is done.
//
// One call at a time for a store or a file.
#ifndef HARNESS_TOOLS_STORE_TRANSFER_H_
#define HARNESS_TOOLS_STORE_TRANSFER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "engine_race/base/progress.h"
#include "engine_race/base/status.h"

namespace engine_race::harness {

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

#endif  // HARNESS_TOOLS_STORE_TRANSFER_H_
