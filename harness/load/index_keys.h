// The keys of a store that FillKeyLogs has made: those that it holds, those that it lacks, and new
// ones to write.
//
// Immutable; thread-safe.
#ifndef HARNESS_LOAD_INDEX_KEYS_H_
#define HARNESS_LOAD_INDEX_KEYS_H_

#include <cstdint>
#include <vector>

#include "engine_race/base/options.h"
#include "engine_race/log/geometry.h"

namespace engine_race::harness {

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

#endif  // HARNESS_LOAD_INDEX_KEYS_H_
