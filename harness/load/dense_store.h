// A store whose value files other programs can read too: every bucket has a file of its own, which
// is full from its start.
//
// Pure functions.
#ifndef HARNESS_LOAD_DENSE_STORE_H_
#define HARNESS_LOAD_DENSE_STORE_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/load/store_runs.h"

namespace engine_race::harness {

inline constexpr uint32_t kDenseStoreFiles = 32;

inline Options DenseStoreOptions() {
  Options options = QuietOptions();
  options.bucket_count = kDenseStoreFiles;
  options.file_count = kDenseStoreFiles;
  return options;
}

// The names of the value files in the store's directory.
inline std::vector<std::string> DenseStoreFileNames() {
  std::vector<std::string> names;
  for (uint32_t i = 0; i < kDenseStoreFiles; ++i) {
    names.push_back((i < 10 ? "value_0" : "value_") + std::to_string(i));
  }
  return names;
}

// The least size of each file: keys fall evenly into buckets, and groups of 32 values are written
// whole.
inline uint64_t DenseStoreFileBytes(uint64_t record_count) {
  const uint64_t records = record_count / kDenseStoreFiles * 9 / 10;
  return std::max<uint64_t>(records / 32 * 32, 1) * kValueSize;
}

}  // namespace engine_race::harness

#endif  // HARNESS_LOAD_DENSE_STORE_H_
