// The kernel's lists of a process's memory, parsed, and a move of this process's text.
//
// /proc/PID/numa_maps has the nodes of its pages; /proc/PID/maps and smaps have what each mapping
// may do.
//
// numa_maps names neither permissions nor the ends of mappings, so the two are joined by address.
// The parsers are pure functions of recorded text; thread-safe.
#ifndef HARNESS_SYSTEM_MEMORY_MAPS_H_
#define HARNESS_SYSTEM_MEMORY_MAPS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine_race/base/status.h"

namespace engine_race::harness {

// Bytes by number of node; nodes that hold nothing are left out.
using NodeBytes = std::map<uint32_t, uint64_t>;

// One line of numa_maps.
struct NumaMapping {
  uint64_t start = 0;
  // In the kernel's words, "bind:1" or "prefer (many):0-1". Memory without a policy of its own has
  // that of the process's first thread.
  std::string policy;
  // Empty for anonymous memory; otherwise the path as /proc/PID/maps writes it.
  std::string file;
  bool is_heap = false;
  bool is_stack = false;
  // Pages of this process alone, and all of them, in pages of `page_bytes`.
  uint64_t anonymous_pages = 0;
  uint64_t pages = 0;
  uint64_t page_bytes = 4096;
  NodeBytes bytes;
};

// One entry of maps or smaps.
struct Mapping {
  uint64_t start = 0;
  uint64_t end = 0;
  bool readable = false;
  bool writable = false;
  bool executable = false;
  bool shared = false;
  uint64_t inode = 0;
  // A path, a name in brackets, or empty.
  std::string path;
  // On transparent huge pages, anonymous or of a file; 0 in maps, which does not say.
  uint64_t huge_bytes = 0;

  // Of a file, also of one that has been deleted.
  bool HasFile() const { return inode != 0; }
};

// kIOError, with its number, for a line that cannot be parsed: a report of half of the memory would
// look whole.
Status ParseNumaMaps(std::string_view text, std::vector<NumaMapping>* mappings);
// Of maps and of smaps, in order of addresses.
Status ParseMaps(std::string_view text, std::vector<Mapping>* mappings);

// The value of "Name:\tvalue" in /proc/PID/status, without blanks around it; nullopt without such a
// line.
std::optional<std::string> StatusField(std::string_view text, std::string_view name);

// The mapping that holds the address, among mappings in order; null where there is none.
const Mapping* FindMapping(const std::vector<Mapping>& mappings, uint64_t address);

// Moves the text of this process to anonymous memory, on huge pages where it can.
//
// The page cache keeps one copy of a program's file, on the node of the process that first read it.
// Afterwards the text belongs to this process alone and lies where its memory policy says. Tools
// that look for functions by file (perf, a debugger that attaches) no longer find them there.

// Moves every executable mapping of a file, shared libraries too. Only while the process has one
// thread and no handler of a signal that may come. kNotSupported where the system forbids anonymous
// memory that can be executed; then what had been moved stays moved. kNotSupported, with nothing
// moved, where text can be written to or cannot be read.
Status MoveTextToOwnMemory();

}  // namespace engine_race::harness

#endif  // HARNESS_SYSTEM_MEMORY_MAPS_H_
