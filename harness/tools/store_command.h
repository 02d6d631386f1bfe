// The commands of bin/store, and the common part of all of them: opening, failures, progress, keys.
//
// Thread safety: one call at a time for a store or a backup.
#ifndef HARNESS_TOOLS_STORE_COMMAND_H_
#define HARNESS_TOOLS_STORE_COMMAND_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/log/manifest.h"
#include "engine_race/stats_file.h"
#include "engine_race/store.h"
#include "harness/measure/progress.h"

namespace engine_race::harness {

// Backups print what they have done, and show a line of their progress on a terminal. They return
// the exit code: 0, 1 for a damaged backup, else 2.

// Backs the store in `dir` up into `to`: what changed since the backup in `since`, or everything
// where that is empty. Verifies the backup then, where that is asked for.
int RunBackup(const std::string& dir, const std::string& to, const std::string& since, bool verify);

// Reads all that a restore of the backup would read.
int RunVerifyBackup(const std::string& backup);

// Makes a store in `to` of the backup and its parents.
int RunRestore(const std::string& backup, const std::string& to);

// Opens the store in `dir`, gives the space of overwritten and deleted records back, and prints how
// much that was. Returns the exit code: 0, 1 for a damaged store, else 2.
int RunCompact(const std::string& dir);

// Prints the manifest and the fill and skew of the buckets. With `every_bucket` also prints a line
// for each bucket that has records. Returns the exit code.
int RunDump(const std::string& dir, bool every_bucket);

// At a terminal the shell prompts. Where libedit was there to build with, lines can be edited and
// called back, and the tab key completes names of commands and files.

// Opens the store and runs the commands of standard input, a line each, until it ends or one is
// `quit`. Values have `value_bytes` if that is not 0. A command that fails does not end the shell.
// Returns the exit code: the highest one of a command, but 0 for a person at a terminal.
int RunShell(const std::string& dir, bool read_only, bool creates, uint32_t value_bytes);

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

// Keys as the commands of bin/store take and print them.
//
// Stateless, thread-safe.

// "auto": 0x and digits are hexadecimal, digits alone decimal, all else is the key's 8 bytes.
enum class KeyFormat { kAuto, kHex, kDecimal, kText };
inline const std::vector<std::string> kKeyFormatNames = {"auto", "hex", "decimal", "text"};

// Reads a key as the number that its bytes are. kInvalidArgument when the text is no such key.
Status ParseKey(std::string_view text, KeyFormat format, uint64_t* key);

// The key in its format: "0x" and 16 digits by kAuto and kHex, Escaped by kText.
std::string KeyText(uint64_t key, KeyFormat format);

// The bytes, but for `\x` and two digits where one is a backslash or not printable ASCII.
std::string Escaped(std::string_view bytes);

// Two hexadecimal digits for each byte.
std::string HexOf(std::string_view bytes);

// `bin/store top`: follows a running store through the stats file that it offers.
//
// Neither the store nor other readers notice.

// Rates, latencies, hit rates and memory, between two states of one store's stats.
std::string TopTable(const std::string& dir, const PublishedStats& before,
                     const PublishedStats& now);
// Rates and latencies as one line of JSON, with every number of the later state.
std::string TopJson(const std::string& dir, const PublishedStats& before,
                    const PublishedStats& now);

// The metrics for Prometheus. The label `store` is the absolute name of `dir`, with U+FFFD for
// bytes that are not UTF-8.
Status TopPrometheus(const std::string& dir, const PublishedStats& now, std::string* text);

enum class TopForm { kTable, kJson, kPrometheus };

// Prints one form of the stats whenever the store has written them, or once; Prometheus' form
// always once. Returns the exit code: kExitFailure when the store has ended meanwhile, kExitRefused
// when there is nothing to follow or the output cannot be written. With kPrometheus also
// kExitRefused when the store has not written its stats for three intervals and at least five
// seconds.
int RunTop(const std::string& dir, TopForm form, bool once);

// The commands of bin/store for records: get, put, delete, scan and count. Its shell has them too.
//
// One thread at a time.

// Words of a command line.
struct RecordFlags {
  // In a shell the store is open, get shows values as text, and standard input has no value.
  bool in_shell = false;
  std::string dir;
  std::string key;
  std::vector<std::string> keys;  // of a deletion
  std::string key_format = kKeyFormatNames[0];
  std::optional<std::string> file;
  std::optional<std::string> text;
  std::optional<std::string> from;
  std::optional<std::string> to;
  uint64_t limit = 0;        // 0: none
  uint32_t value_bytes = 0;  // 0: those of the store; of a new one the default
  bool creates = false;
  bool pads = false;
  bool keys_only = false;
  bool reverse = false;
  bool json = false;
};

// Adds the flag --value_size. `what` begins the words of its help about the default size.
void AddValueSize(CLI::App* app, uint32_t* value_bytes, const std::string& what);

// Adds the commands to `app`. Parsing fills *flags.
void AddRecordCommands(CLI::App* app, RecordFlags* flags);

// Runs the command that was given, if it is one of these. A shell gives its open store. Prints
// records and failures. Returns the exit code: 1 for a key that is not there and for damage, 2 for
// what cannot be done. With 0 its writes are durable.
std::optional<int> RunRecordCommand(const CLI::App& app, const RecordFlags& flags,
                                    Store* open_store = nullptr);

}  // namespace engine_race::harness

#endif  // HARNESS_TOOLS_STORE_COMMAND_H_
