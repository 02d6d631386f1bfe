// Stores filled past the engine: key logs written in one go, values left out.
//
// For measurements and tests that need many keys, or entries in an order that appends do not give.
// The value of every record is a page of zeros, which is what the holes in the value files read as,
// so a store made here can be read as any other. One thread at a time.
#ifndef HARNESS_LOAD_FILL_KEYS_H_
#define HARNESS_LOAD_FILL_KEYS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "engine_race/log/entry_codec.h"
#include "engine_race/log/geometry.h"

namespace harness {

// Key `number` of a bucket: distinct for distinct numbers, evenly spread, the same for the same
// seed.
uint64_t FilledKey(const engine_race::Geometry& geometry, uint32_t bucket, uint64_t number,
                   uint64_t seed);

// How many of `key_count` uniform keys each bucket gets.
std::vector<uint64_t> FilledCounts(uint32_t bucket_count, uint64_t key_count, uint64_t seed);

// Makes a new store in `dir` with `key_count` uniform keys: key i of a bucket in slot i, the last
// ones staged, as if they had been written one by one.
engine_race::Status FillKeyLogs(const engine_race::Options& options, const std::string& dir,
                                uint64_t key_count, uint64_t seed);

// The record of a bucket's slot; whatever value sum it has does not count.
using RecordFn = std::function<engine_race::KeyRecord(uint32_t bucket, uint32_t slot)>;

// Makes a new store in `dir` with counts[b] records in bucket b and nothing staged: each count is a
// multiple of the records in a group of keys and in a group of values. Value sums become those of
// zeros, except for tombstones.
engine_race::Status WriteKeyLogs(const engine_race::Options& options, const std::string& dir,
                                 const std::vector<uint64_t>& counts, const RecordFn& record_of);

}  // namespace harness

#endif  // HARNESS_LOAD_FILL_KEYS_H_
