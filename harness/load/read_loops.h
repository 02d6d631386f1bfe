// Reads of chosen records from an open store, one by one or many at a time. Some of the values are
// checked.
//
// They run in the calling thread. The caller chooses the keys and says when the loop ends.
#ifndef HARNESS_LOAD_READ_LOOPS_H_
#define HARNESS_LOAD_READ_LOOPS_H_

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine_race/base/key.h"
#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "engine_race/store.h"
#include "harness/data/mix.h"
#include "harness/data/value_maker.h"
#include "harness/system/process_stats.h"

namespace engine_race::harness {

// Both loops check one value in this many, so that their costs can be compared. Checking a value
// brings it into the processor's cache.
inline constexpr uint64_t kReadsPerValueLook = 8;
// Reads between two readings of the clock, which cost more than the rest of a loop's step.
inline constexpr uint64_t kReadsPerClockLook = 32;

inline Status CheckRead(const Status& status, const ValueMaker& values, uint64_t key,
                        const std::string& value, bool looks) {
  uint64_t version = 0;
  if (!status.ok() || !looks) return status;
  const bool is_right =
      value.size() == values.value_bytes() && values.CheckEnds(key, value.data(), &version);
  return is_right ? Status::Ok() : Status::Corruption("wrong bytes");
}

// Calls get(key, std::string*), which reads a value, for key_at(i) with i = 0, 1, ... while
// more(i). Each read that was answered adds one to *count.
template <typename Get, typename KeyAt, typename More>
Status ReadOneByOne(const Get& get, const ValueMaker& values, const KeyAt& key_at, const More& more,
                    uint64_t* count) {
  std::string value;
  for (; more(*count); ++*count) {
    const uint64_t key = key_at(*count);
    ENGINE_RACE_RETURN_IF_ERROR(
        CheckRead(get(key, &value), values, key, value, *count % kReadsPerValueLook == 0));
  }
  return Status::Ok();
}

// Reads likewise by MultiRead; the last call may have fewer keys.
template <typename KeyAt, typename More>
Status ReadMany(Store* store, const ValueMaker& values, uint32_t keys_per_call, const KeyAt& key_at,
                const More& more, uint64_t* count) {
  std::vector<uint64_t> numbers(keys_per_call);
  std::vector<char> bytes(keys_per_call * kKeyBytes);
  std::vector<std::string_view> keys;
  for (uint32_t i = 0; i < keys_per_call; ++i) {
    keys.emplace_back(bytes.data() + i * kKeyBytes, kKeyBytes);
  }
  std::vector<std::string> found(keys_per_call);
  std::vector<Status> statuses(keys_per_call);
  for (uint64_t call = 0; more(*count); ++call) {
    uint32_t filled = 0;
    for (; filled < keys_per_call && (filled == 0 || more(*count + filled)); ++filled) {
      numbers[filled] = key_at(*count + filled);
      EncodeKey(numbers[filled], bytes.data() + filled * kKeyBytes);
    }
    ENGINE_RACE_RETURN_IF_ERROR(
        store->MultiRead(std::span(keys).first(filled), found, std::span(statuses).first(filled)));
    // Checks other values in each call.
    for (uint32_t i = 0; i < filled; ++i) {
      ENGINE_RACE_RETURN_IF_ERROR(CheckRead(statuses[i], values, numbers[i], found[i],
                                            (i + call) % kReadsPerValueLook == 0));
    }
    *count += filled;
  }
  return Status::Ok();
}

// Queries of ten short ranges at random keys. Every contender gets the same queries.
//
// A run takes queries from the beginning of their stream for a given time and sums the keys that it
// finds. Two runs over the same records give the same sum.

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

#endif  // HARNESS_LOAD_READ_LOOPS_H_
