// Reads of chosen records from an open store, one by one or many at a time. Some of the values are
// checked.
//
// They run in the calling thread. The caller chooses the keys and says when the loop ends.
#ifndef HARNESS_LOAD_READ_LOOPS_H_
#define HARNESS_LOAD_READ_LOOPS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine_race/base/key.h"
#include "engine_race/base/status.h"
#include "engine_race/store.h"
#include "harness/data/value_maker.h"

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
  const bool is_right = value.size() == kValueSize && values.CheckEnds(key, value.data(), &version);
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

}  // namespace engine_race::harness

#endif  // HARNESS_LOAD_READ_LOOPS_H_
