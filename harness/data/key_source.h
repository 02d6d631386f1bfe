// The keys that a run writes: four shapes, each a pure function of (seed, record index).
//
// Nothing is stored: every process of a run computes the same keys by itself. Record `index` is the
// write that thread (index % threads) makes as its (index / threads)-th. Immutable after
// construction; thread-safe.
#ifndef HARNESS_DATA_KEY_SOURCE_H_
#define HARNESS_DATA_KEY_SOURCE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace harness {

enum class KeyShape {
  kUniform,     // 64-bit words spread evenly, all distinct
  kSequential,  // 0, 1, 2, ...: interleaved over the threads
  kZipfian,     // exponent 0.99 over as many keys as there are records, scrambled; keys repeat
  kOneBucket,   // distinct keys, all under one 10-bit prefix
};

// "key 00000000000000ff: <what>"
std::string KeyFailure(uint64_t key, const std::string& what);

std::string_view KeyShapeName(KeyShape shape);
std::optional<KeyShape> ParseKeyShape(std::string_view name);

// Ranks of a Zipf distribution with exponent 0.99 by the method of Gray et al., "Quickly generating
// billion-record synthetic databases" (SIGMOD 1994).
class ZipfRanks {
 public:
  explicit ZipfRanks(uint64_t rank_count);
  // `fraction` lies in [0, 1); rank 0 is the most frequent.
  uint64_t RankAt(double fraction) const;
  // The share of all draws that falls on `rank`.
  double ShareOf(uint64_t rank) const;

 private:
  uint64_t rank_count_;
  double zeta_;
  double eta_;
};

// The count and sum of the keys that a complete scan must find. `key_sum` adds the distinct keys,
// modulo 2^64.
struct KeySummary {
  uint64_t distinct_count = 0;
  uint64_t key_sum = 0;
};

class KeySource {
 public:
  KeySource(KeyShape shape, uint64_t record_count, uint64_t seed);

  uint64_t record_count() const { return record_count_; }
  // index < record_count().
  uint64_t KeyAt(uint64_t index) const;
  // Visits all records. When keys repeat it needs one bit of memory for each record.
  KeySummary Summarize() const;

 private:
  uint64_t RankAt(uint64_t index) const;

  KeyShape shape_;
  uint64_t record_count_;
  uint64_t seed_;
  ZipfRanks zipf_;
};

}  // namespace harness

#endif  // HARNESS_DATA_KEY_SOURCE_H_
