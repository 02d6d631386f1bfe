// The common part of the commands of bin/store: opening, failures, progress.
#ifndef HARNESS_TOOLS_STORE_COMMAND_H_
#define HARNESS_TOOLS_STORE_COMMAND_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine_race/log/manifest.h"
#include "engine_race/store.h"
#include "harness/measure/progress.h"

namespace engine_race::harness {

// Prints why a command cannot go on with a store, a backup or a file. Returns the exit code: 1 for
// damage, else 2.
int Refuse(const std::string& command, const std::string& name, const Status& status);

// Writes to standard output, which is buffered.
Status Print(std::string_view text);
// Writes what is buffered. A failure does not outlast the call.
Status FlushOutput();

// Options of an opening that makes no store and leaves the index to the next opening. The values of
// the store may have any size.
Options CommandOptions();

// Reads the manifest of the store in `dir`. kNotFound when there is none.
Status ReadIdentity(const std::string& dir, StoreIdentity* identity);

// Shows how far a command is with its records, on a terminal. One call at a time.
class CommandProgress {
 public:
  explicit CommandProgress(const std::string& command) : label_(command + " ") {}

  // Says that `done_count` records of about `record_count` are done. Always true, as a ProgressFn
  // that cancels nothing.
  bool Note(uint64_t done_count, uint64_t record_count);
  // Prints a line about a bad record.
  void PrintBad(const BadRecord& bad);

 private:
  const std::string label_;
  std::optional<Progress> line_;  // once the number of records is known
};

}  // namespace engine_race::harness

#endif  // HARNESS_TOOLS_STORE_COMMAND_H_
