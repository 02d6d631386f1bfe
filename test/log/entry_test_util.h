// Damaged entries, and values that the index cannot tell apart.
#ifndef TEST_LOG_ENTRY_TEST_UTIL_H_
#define TEST_LOG_ENTRY_TEST_UTIL_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <unordered_map>

#include "engine_race/base/checksum.h"
#include "engine_race/log/entry_codec.h"
#include "test/test_util.h"

namespace engine_race::test {

// Bits count from the lowest one of the first word.
inline format::KeyEntry WithFlippedBit(format::KeyEntry entry, int bit) {
  uint64_t* const words[] = {&entry.key, &entry.word, &entry.value_hash, &entry.check};
  *words[bit / 64] ^= uint64_t{1} << bit % 64;
  return entry;
}

// Two values that differ, and whose hashes agree in the bits that the index keeps. Of 2^16 hashes
// about 2^31 pairs are compared, and one in 2^28 agrees.
struct CollidingValues {
  CollidingValues() : first(ValueOf(1, 1)), second(first) {
    constexpr uint64_t kTried = uint64_t{1} << 16;
    std::unordered_map<uint32_t, uint64_t> seen;
    for (uint64_t number = 0; number < kTried; ++number) {
      std::memcpy(second.data(), &number, sizeof(number));
      const uint64_t hash = HashValue(second.data(), second.size());
      const auto [place, is_new] = seen.emplace(ChecksumOfHash(hash), number);
      if (is_new) continue;
      std::memcpy(first.data(), &place->second, sizeof(number));
      if (HashValue(first.data(), first.size()) != hash) return;
    }
    ADD_FAILURE() << "no two of so many values agree";
  }

  std::string first;
  std::string second;
};

}  // namespace engine_race::test

#endif  // TEST_LOG_ENTRY_TEST_UTIL_H_
