// Stores that hold keys 1 to n, key k in version k: what a loss of power leaves of writes in order.
#ifndef TEST_POWER_KEY_PREFIX_H_
#define TEST_POWER_KEY_PREFIX_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

#include "engine_race/store.h"
#include "test/e2e/engine_fixture.h"

namespace engine_race::test {

// Writes keys [begin, end).
inline void WriteKeysTo(Store* store, uint64_t begin, uint64_t end) {
  ASSERT_NE(store, nullptr);
  for (uint64_t key = begin; key < end; ++key) {
    const Status status = store->Write(KeyOf(key), ValueOf(key, key));
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
}

// Expects keys 1 to n, for some n from `least` to `most`, which is returned; 0 without a store,
// whose opening has reported why.
inline uint64_t ExpectPrefixOf(Store* store, uint64_t least, uint64_t most) {
  if (store == nullptr) return 0;
  const Versions seen = RangeOf(store, "", "");
  for (uint64_t i = 0; i < seen.size(); ++i) {
    EXPECT_EQ(seen[i], (std::pair<uint64_t, uint64_t>(i + 1, i + 1)));
  }
  EXPECT_GE(seen.size(), least);
  EXPECT_LE(seen.size(), most);
  return seen.size();
}

}  // namespace engine_race::test

#endif  // TEST_POWER_KEY_PREFIX_H_
