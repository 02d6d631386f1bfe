// Queries of ten short ranges at random keys. Every contender gets the same queries.
//
// A run takes queries from the beginning of their stream for a given time and sums the keys that it
// finds. Two runs over the same records give the same sum. Not thread-safe.
#ifndef HARNESS_LOAD_SHORT_RANGES_H_
#define HARNESS_LOAD_SHORT_RANGES_H_

#include <array>
#include <cstdint>

#include "engine_race/base/key.h"
#include "engine_race/base/options.h"
#include "harness/data/mix.h"
#include "harness/system/process_stats.h"

namespace engine_race::harness {

inline constexpr uint32_t kRangesPerQuery = 10;
inline constexpr uint32_t kKeysPerRange = 5;

using RangeStarts = std::array<uint64_t, kRangesPerQuery>;

struct QueryRun {
  uint64_t query_count = 0;
  double seconds = 0;
  // Of the keys of the first kSummedQueries queries.
  uint64_t key_sum = 0;

  double ns_per_query() const {
    return query_count == 0 ? 0 : seconds * 1e9 / static_cast<double>(query_count);
  }
  double ns_per_range() const { return ns_per_query() / kRangesPerQuery; }
};

inline constexpr uint64_t kSummedQueries = 512;

// Sums five keys from `start` on. `Slice` makes the iterator's type of key from eight bytes.
template <typename Slice, typename AnyIterator>
uint64_t SumRange(AnyIterator* iterator, uint64_t start) {
  char bytes[kKeyBytes];
  EncodeKey(start, bytes);
  uint64_t sum = 0;
  iterator->Seek(Slice(bytes, sizeof(bytes)));
  for (uint32_t i = 0; i < kKeysPerRange && iterator->Valid(); ++i) {
    if (i > 0) {
      iterator->Next();
      if (!iterator->Valid()) break;
    }
    sum += DecodeKey(iterator->key().data());
  }
  return sum;
}

// Calls answer(const RangeStarts&), which returns the sum of the keys, for `seconds` and at least
// kSummedQueries times.
template <typename Answer>
QueryRun RunQueries(uint64_t seed, double seconds, Answer answer) {
  QueryRun run;
  uint64_t sum = 0;
  uint64_t drawn = 0;
  const uint64_t start_ns = NowNs();
  const uint64_t end_ns = start_ns + static_cast<uint64_t>(seconds * 1e9);
  do {
    // Reads the clock only now and then: a query may take less than a microsecond.
    constexpr uint64_t kQueriesPerLook = 32;
    for (uint64_t i = 0; i < kQueriesPerLook; ++i) {
      RangeStarts starts;
      for (uint64_t& start : starts) start = MixAt(seed, drawn++);
      sum += answer(starts);
    }
    run.query_count += kQueriesPerLook;
    if (run.query_count == kSummedQueries) run.key_sum = sum;
  } while (run.query_count < kSummedQueries || NowNs() < end_ns);
  run.seconds = SecondsSince(start_ns);
  return run;
}

}  // namespace engine_race::harness

#endif  // HARNESS_LOAD_SHORT_RANGES_H_
