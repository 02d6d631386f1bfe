// The keys that a run writes: four shapes, each a pure function of (seed, record index).
//
// Nothing is stored: every process of a run computes the same keys by itself. Record `index` is the
// write that thread (index % threads) makes as its (index / threads)-th. Immutable after
// construction; thread-safe.
#ifndef HARNESS_DATA_KEY_SOURCE_H_
#define HARNESS_DATA_KEY_SOURCE_H_

#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine_race/base/key_range.h"
#include "harness/data/mix.h"

namespace engine_race::harness {

// Over all keys; over a range of them the shapes are those of the keys' places in the range.
enum class KeyShape {
  kUniform,     // 64-bit words spread evenly, all distinct
  kSequential,  // 0, 1, 2, ...: interleaved over the threads
  kZipfian,     // exponent 0.99 over as many keys as there are records, scrambled; keys repeat
  kOneBucket,   // distinct keys, all under one 10-bit prefix: in one of 1024 parts of a range
};

// "key 00000000000000ff: <what>"
std::string KeyFailure(uint64_t key, const std::string& what);

// The names of all shapes.
std::vector<std::string> KeyShapeNames();
std::optional<KeyShape> ParseKeyShape(std::string_view name);

// "16384-32767", as the option key_range is written; nullopt for any other text and for a range
// without keys.
std::optional<KeyRange> ParseKeyRange(std::string_view text);

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

// How many distinct keys of this shape the range has; the largest number there is for all keys.
uint64_t MaxKeyCount(KeyShape shape, const KeyRange& range);

class KeySource {
 public:
  // MaxKeyCount(shape, range) is at least `record_count`.
  KeySource(KeyShape shape, uint64_t record_count, uint64_t seed, KeyRange range = {});

  uint64_t record_count() const { return record_count_; }
  // index < record_count().
  uint64_t KeyAt(uint64_t index) const;
  // Visits all records. When keys repeat it needs one bit of memory for each record.
  KeySummary Summarize() const;

 private:
  uint64_t RankAt(uint64_t index) const;
  // A key for each rank, spread over all keys or over the range.
  uint64_t SpreadKey(uint64_t rank) const;

  KeyShape shape_;
  uint64_t record_count_;
  uint64_t seed_;
  KeyRange range_;
  ZipfRanks zipf_;
};

// Draws the record of each read: uniformly or by Zipf's law, from the stream of a seed.
//
// Frequent records are scattered: they were not written one after the other, and their keys are not
// neighbours. Immutable; thread-safe.
enum class DrawShape { kUniform, kZipfian };

class RecordDraw {
 public:
  RecordDraw(DrawShape shape, uint64_t record_count)
      : shape_(shape),
        record_count_(record_count),
        zipf_(shape == DrawShape::kZipfian ? record_count : 1) {
    while (std::gcd(stride_, record_count_) != 1) stride_ += 2;
  }

  uint64_t record_count() const { return record_count_; }
  // The record that the random `word` selects.
  uint64_t IndexFrom(uint64_t word) const {
    if (shape_ == DrawShape::kUniform) return AsBelow(word, record_count_);
    return IndexOfRank(zipf_.RankAt(AsFraction(word)));
  }
  // A bijection of [0, record_count).
  uint64_t IndexOfRank(uint64_t rank) const {
    return static_cast<uint64_t>(static_cast<unsigned __int128>(rank) * stride_ % record_count_);
  }

 private:
  const DrawShape shape_;
  const uint64_t record_count_;
  const ZipfRanks zipf_;
  uint64_t stride_ = 0x9e3779b97f4a7c15;
};

}  // namespace engine_race::harness

#endif  // HARNESS_DATA_KEY_SOURCE_H_
