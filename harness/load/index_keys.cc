#include "harness/load/index_keys.h"

#include <algorithm>
#include <numeric>

#include "engine_race/base/assert.h"
#include "harness/data/mix.h"
#include "harness/load/fill_keys.h"

namespace engine_race::harness {
namespace {

// New keys of a bucket have the numbers behind its own, and absent keys those from here on.
constexpr uint64_t kFirstAbsentNumber = uint64_t{1} << 33;
constexpr uint64_t kAbsentNumbers = uint64_t{1} << 40;

}  // namespace

IndexKeys::IndexKeys(const Options& options, uint64_t key_count, uint64_t seed)
    : geometry_(GeometryFrom(options)),
      key_count_(key_count),
      seed_(seed),
      counts_(FilledCounts(options.bucket_count, key_count, seed)) {
  ENGINE_RACE_ASSERT(key_count > 0);
  ends_.resize(counts_.size());
  std::partial_sum(counts_.begin(), counts_.end(), ends_.begin());
  ENGINE_RACE_ASSERT(ends_.back() == key_count);
}

IndexKeys::Place IndexKeys::Present(uint64_t word) const {
  const uint64_t index = AsBelow(word, key_count_);
  const auto end = std::upper_bound(ends_.begin(), ends_.end(), index);
  const auto bucket = static_cast<uint32_t>(end - ends_.begin());
  const uint64_t slot = index - (*end - counts_[bucket]);
  return {FilledKey(geometry_, bucket, slot, seed_), bucket, static_cast<uint32_t>(slot)};
}

uint64_t IndexKeys::AbsentKey(uint64_t word) const {
  const auto bucket = static_cast<uint32_t>(AsBelow(word, counts_.size()));
  const uint64_t number = kFirstAbsentNumber + AsBelow(Mix64(word), kAbsentNumbers);
  return FilledKey(geometry_, bucket, number, seed_);
}

uint64_t IndexKeys::New(uint64_t number) const {
  const auto bucket = static_cast<uint32_t>(number % counts_.size());
  return FilledKey(geometry_, bucket, counts_[bucket] + number / counts_.size(), seed_);
}

}  // namespace engine_race::harness
