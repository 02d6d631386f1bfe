// Helpers of every load: options that keep a store quiet, a store's space and files.
// Also the flag --numa, and the engine as contest_phases.h calls a store.
#ifndef HARNESS_LOAD_STORE_BASICS_H_
#define HARNESS_LOAD_STORE_BASICS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "engine_race/base/key.h"
#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
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

// How a thread of the contest's phases calls this engine; see contest_phases.h.
//
// For one thread at a time; copies are for others.

class EngineCalls {
 public:
  static constexpr uint64_t kVisitsPerLook = 1024;

  explicit EngineCalls(Store* store) : store_(store), value_bytes_(store->value_bytes()) {}

  Status Write(uint64_t key, const char* value) {
    return store_->Write(KeyBytes(key).view(), {value, value_bytes_});
  }
  Status Read(uint64_t key, const char** value) {
    ENGINE_RACE_RETURN_IF_ERROR(store_->Read(KeyBytes(key).view(), &value_));
    *value = value_.data();
    if (value_.size() == value_bytes_) return Status::Ok();
    return Status::Corruption("a value of " + std::to_string(value_.size()) + " bytes");
  }
  template <typename Visit>
  Status Range(const Visit& visit) {
    return store_->Range({}, {}, visit);
  }

 private:
  Store* const store_;
  const uint32_t value_bytes_;
  std::string value_;
};

}  // namespace engine_race::harness

#endif  // HARNESS_LOAD_STORE_BASICS_H_
