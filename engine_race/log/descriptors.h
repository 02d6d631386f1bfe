// File descriptors: whether this process may open as many as a store takes once all of its files
// are open.
//
// Thread-safe.
#ifndef ENGINE_RACE_LOG_DESCRIPTORS_H_
#define ENGINE_RACE_LOG_DESCRIPTORS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/log/geometry.h"

namespace engine_race {

// Descriptors that an open store keeps beside its logs: its directory, lock, staging, journal and
// the files of the index. Descriptors to spare are for rings, for files that are open for a moment,
// and for the program. A ring that finds none is replaced by libaio, which needs none.
inline constexpr uint64_t kOwnDescriptors = 13;
inline constexpr uint64_t kSpareDescriptors = 24;

// Descriptors that a store with values on `directory_count` paths and on `device_count` raw devices
// takes; with neither, the values lie in its own directory.
uint64_t DescriptorsOf(const Geometry& geometry, uint64_t directory_count, uint64_t device_count);

// kIOError, naming both numbers, when a store with these paths takes more descriptors than the
// process may still open. The store has `open_count` of them open already. Ok where the system does
// not tell.
Status CheckDescriptors(const Geometry& geometry, const std::vector<std::string>& paths,
                        uint64_t open_count);

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_DESCRIPTORS_H_
