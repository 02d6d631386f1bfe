// The commands of bin/store for records: get, put, delete, scan and count. Its shell has them too.
//
// One thread at a time.
#ifndef HARNESS_TOOLS_STORE_RECORDS_H_
#define HARNESS_TOOLS_STORE_RECORDS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine_race/store.h"
#include "harness/tools/store_command.h"

namespace engine_race::harness {

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

#endif  // HARNESS_TOOLS_STORE_RECORDS_H_
