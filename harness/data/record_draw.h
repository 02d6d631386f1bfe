// Draws the record of each read: uniformly or by Zipf's law, from the stream of a seed.
//
// Frequent records are scattered: they were not written one after the other, and their keys are not
// neighbours. Immutable; thread-safe.
#ifndef HARNESS_DATA_RECORD_DRAW_H_
#define HARNESS_DATA_RECORD_DRAW_H_

#include <cstdint>
#include <numeric>

#include "harness/data/key_source.h"
#include "harness/data/mix.h"

namespace engine_race::harness {

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

#endif  // HARNESS_DATA_RECORD_DRAW_H_
