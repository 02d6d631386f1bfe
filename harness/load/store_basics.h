// Helpers of every load: options that keep a store quiet, the bytes of a key, a store's files.
//
// Stateless.
#ifndef HARNESS_LOAD_STORE_BASICS_H_
#define HARNESS_LOAD_STORE_BASICS_H_

#include <cstdint>
#include <string>

#include "engine_race/base/options.h"

namespace harness {

// The default options, with the engine's warnings and errors written to standard error.
engine_race::Options QuietOptions();

std::string KeyBytesOf(uint64_t key);

// The most space that a store of this many records takes on disk, staging included.
uint64_t StoreBytes(uint64_t record_count);

// Whether the engine gives a file exactly such a name: "manifest", "value_07", never "value_map".
bool IsStoreFile(const std::string& name);
// Removes such files directly in `dir`, and syncs, so that the next writer does not pay for it.
void RemoveStoreFiles(const std::string& dir);

}  // namespace harness

#endif  // HARNESS_LOAD_STORE_BASICS_H_
