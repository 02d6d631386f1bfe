// Options by name, with values as text: for callers of other languages and for command lines.
//
// Numbers are decimal, with 0x hexadecimal, with a leading 0 octal. They may end in k, m, g or t:
// times 1024 for each step. Modes of files are always octal. hot_value_bytes and index_memory_bytes
// may be "auto". Booleans are true and false. Enumerations are their constants in small letters:
// "io_uring", "every_write". Paths are separated by colons; in a path \: is a colon and \\ a
// backslash. A key range is its first and its last key: "0-65535". NUMA is "none", "interleave",
// "interleave:0,1" or "bind:0,1". The log function has no name.
//
// Stateless, thread-safe.
#ifndef ENGINE_RACE_BASE_NAMED_OPTIONS_H_
#define ENGINE_RACE_BASE_NAMED_OPTIONS_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "engine_race/base/options.h"
#include "engine_race/base/status.h"

namespace engine_race {

// How many options have names, and the name of one of them: a member of Options.
size_t NamedOptionCount();
std::string_view OptionName(size_t index);

// kInvalidArgument, and nothing changes, for an unknown name and for a text that does not parse.
// The message about an unknown name has the nearest known one. ValidateOptions says whether the
// value is in its range.
Status SetOption(std::string_view name, std::string_view value, Options* options);
// The value as a text that SetOption takes.
Status GetOption(std::string_view name, const Options& options, std::string* value);

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_NAMED_OPTIONS_H_
