// Helpers of every load: options that keep a store quiet, a store's space and files.
#ifndef HARNESS_LOAD_STORE_BASICS_H_
#define HARNESS_LOAD_STORE_BASICS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "engine_race/base/options.h"
#include "engine_race/numa/topology.h"
#include "engine_race/store.h"

namespace engine_race::harness {

// The default options with a budget of 2 GiB, and the engine's warnings and errors written to
// standard error.
Options QuietOptions();

// Waits until the index has every record. The first read of a key waits for less.
Status AwaitIndex(Store* store);
// Opens a store, and waits for its index.
Status OpenWithIndex(const Options& options, const std::string& dir, std::unique_ptr<Store>* store);

// The most space that a store of this many records takes on disk, staging included.
uint64_t StoreBytes(uint64_t record_count, uint32_t value_bytes = kValueBytes);

// The most records that a thread of a race may have: with 4096 threads no sum of bytes wraps.
inline constexpr uint64_t kMaxRecordsPerThread = uint64_t{1} << 36;
// The most space that the phases of a race take on disk.
uint64_t RaceBytes(uint64_t record_count, bool has_write, bool has_mixed,
                   uint32_t value_bytes = kValueBytes);

// Whether the engine gives a file exactly such a name: "manifest", "value_07", never "value_map".
bool IsStoreFile(const std::string& name);
// Removes the files directly in `dir` that have such names, and syncs, so that the next writer does
// not pay for it.
void RemoveFiles(const std::string& dir, bool (*has_name)(const std::string& name));

// The flag --numa of programs that open a store.

// "none", "interleave", "interleave:0,2-3" or "bind:0,2-3"; nullopt for any other text.
std::optional<NumaOptions> ParseNuma(std::string_view text);
// Parses the flag into *numa. Returns an empty string or what is wrong: another text, or a node
// that the machine does not have. Where the kernel shows no nodes, the store does without them.
std::string ParseNumaFlag(std::string_view text, const numa::Topology& topology, NumaOptions* numa);

}  // namespace engine_race::harness

#endif  // HARNESS_LOAD_STORE_BASICS_H_
