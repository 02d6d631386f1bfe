// Stores filled past the engine: key logs written in one go, values left out.
//
// For measurements and tests that need many keys. The value of every record is zeros. The
// holes in the value files read as zeros, so a store made here can be read like any other.
#ifndef HARNESS_LOAD_FILL_KEYS_H_
#define HARNESS_LOAD_FILL_KEYS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "engine_race/log/bucket_log.h"
#include "engine_race/log/entry_codec.h"
#include "engine_race/log/format.h"
#include "engine_race/log/geometry.h"

namespace engine_race::harness {

// Key `number` of a bucket, in a store that takes all keys. The keys of a seed are distinct and
// evenly spread.
uint64_t FilledKey(const Geometry& geometry, uint32_t bucket, uint64_t number, uint64_t seed);

// The number of keys in each bucket when `key_count` uniform keys are drawn.
std::vector<uint64_t> FilledCounts(uint32_t bucket_count, uint64_t key_count, uint64_t seed);

// The keys that FillKeyLogs makes, ascending.
std::vector<uint64_t> FilledKeys(const Geometry& geometry, uint64_t key_count, uint64_t seed);

// Makes a new store in `dir` with `key_count` uniform keys. Key i of a bucket has slot i. The last
// records are staged, as if all had been written one by one. kInvalidArgument for a store of a part
// of the keys.
Status FillKeyLogs(const Options& options, const std::string& dir, uint64_t key_count,
                   uint64_t seed);

// Gives the record of a bucket's slot, which is its sequence number. Of the record only the key and
// whether it is a tombstone count.
using RecordFn = std::function<KeyRecord(uint32_t bucket, uint32_t slot)>;

// Makes a new store in `dir` with counts[b] records in bucket b and nothing staged. Each count must
// be a multiple of the records in a group of entries and of those in a group of values. Checksums
// become those of values of zeros, except for tombstones.
Status WriteKeyLogs(const Options& options, const std::string& dir,
                    const std::vector<uint64_t>& counts, const RecordFn& record_of);

// Replaces *entries by all entries of the bucket, read as a build of the index reads them: entry i
// is slot i.
Status ReadEntries(BucketLog* log, uint32_t bucket, std::vector<format::KeyEntry>* entries);

// The keys of a store that FillKeyLogs has made: those that it holds, those that it lacks, and new
// ones to write.
class IndexKeys {
 public:
  // A key and its place in the store.
  struct Place {
    uint64_t key = 0;
    uint32_t bucket = 0;
    uint32_t slot = 0;
  };

  // The arguments that FillKeyLogs got. `key_count` is not 0.
  IndexKeys(const Options& options, uint64_t key_count, uint64_t seed);

  uint64_t key_count() const { return key_count_; }
  // A key of the store that the random `word` selects: all are equally likely.
  Place Present(uint64_t word) const;
  uint64_t PresentKey(uint64_t word) const { return Present(word).key; }
  // A key that the store lacks and that New() never gives.
  uint64_t AbsentKey(uint64_t word) const;
  // Distinct keys that the store lacks, spread evenly. `number` is below 2^32.
  uint64_t New(uint64_t number) const;

 private:
  const Geometry geometry_;
  const uint64_t key_count_;
  const uint64_t seed_;
  const std::vector<uint64_t> counts_;
  // ends_[b] is the number of keys in the buckets up to b.
  std::vector<uint64_t> ends_;
};

}  // namespace engine_race::harness

#endif  // HARNESS_LOAD_FILL_KEYS_H_
