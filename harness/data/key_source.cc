#include "harness/data/key_source.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "engine_race/base/named_options.h"

namespace engine_race::harness {
namespace {

constexpr double kExponent = 0.99;
// Of a range, for keys that lie close together.
constexpr uint64_t kPartCount = 1024;

struct ShapeName {
  KeyShape shape;
  std::string_view name;
};
constexpr std::array<ShapeName, 4> kShapeNames = {{{KeyShape::kUniform, "uniform"},
                                                   {KeyShape::kSequential, "sequential"},
                                                   {KeyShape::kZipfian, "zipfian"},
                                                   {KeyShape::kOneBucket, "onebucket"}}};

// The sum of k^-0.99 for k = 1 to n: the first terms one by one, the rest by Euler and Maclaurin,
// whose error is far below a double's precision at such a start.
double Zeta(uint64_t n) {
  constexpr uint64_t kExactTerms = 1000;
  double sum = 0;
  for (uint64_t k = 1; k <= std::min(n, kExactTerms); ++k) {
    sum += std::pow(static_cast<double>(k), -kExponent);
  }
  if (n <= kExactTerms) return sum;
  const double from = static_cast<double>(kExactTerms);
  const double to = static_cast<double>(n);
  const auto term = [](double x) { return std::pow(x, -kExponent); };
  const auto slope = [](double x) { return -kExponent * std::pow(x, -kExponent - 1); };
  const double area =
      (std::pow(to, 1 - kExponent) - std::pow(from, 1 - kExponent)) / (1 - kExponent);
  return sum + area + (term(to) - term(from)) / 2 + (slope(to) - slope(from)) / 12;
}

}  // namespace

std::string KeyFailure(uint64_t key, const std::string& what) {
  char name[32];
  std::snprintf(name, sizeof(name), "key %016llx: ", static_cast<unsigned long long>(key));
  return name + what;
}

std::vector<std::string> KeyShapeNames() {
  std::vector<std::string> names;
  names.reserve(std::size(kShapeNames));
  for (const ShapeName& entry : kShapeNames) names.emplace_back(entry.name);
  return names;
}

std::optional<KeyShape> ParseKeyShape(std::string_view name) {
  for (const ShapeName& entry : kShapeNames) {
    if (entry.name == name) return entry.shape;
  }
  return std::nullopt;
}

std::optional<KeyRange> ParseKeyRange(std::string_view text) {
  Options options;
  if (!SetOption("key_range", text, &options).ok()) return std::nullopt;
  if (options.key_range && options.key_range->empty()) return std::nullopt;
  return options.key_range;
}

ZipfRanks::ZipfRanks(uint64_t rank_count)
    : rank_count_(std::max<uint64_t>(rank_count, 1)), zeta_(Zeta(rank_count_)) {
  const double two_over_n = 2.0 / static_cast<double>(rank_count_);
  eta_ = (1 - std::pow(two_over_n, 1 - kExponent)) / (1 - Zeta(2) / zeta_);
}

uint64_t ZipfRanks::RankAt(double fraction) const {
  const double place = fraction * zeta_;
  if (place < 1 || rank_count_ == 1) return 0;
  if (place < 1 + std::pow(0.5, kExponent) || rank_count_ == 2) return 1;
  const double rank =
      static_cast<double>(rank_count_) * std::pow(eta_ * fraction - eta_ + 1, 1 / (1 - kExponent));
  return std::min(static_cast<uint64_t>(rank), rank_count_ - 1);
}

double ZipfRanks::ShareOf(uint64_t rank) const {
  return std::pow(static_cast<double>(rank + 1), -kExponent) / zeta_;
}

uint64_t MaxKeyCount(KeyShape shape, const KeyRange& range) {
  if (range.empty()) return 0;
  if (range.HasAllKeys()) return ~uint64_t{0};
  const uint64_t size = range.last - range.first + 1;
  return shape == KeyShape::kOneBucket ? size / kPartCount : size;
}

KeySource::KeySource(KeyShape shape, uint64_t record_count, uint64_t seed, KeyRange range)
    : shape_(shape),
      record_count_(record_count),
      seed_(seed),
      range_(range),
      zipf_(shape == KeyShape::kZipfian ? record_count : 1) {}

uint64_t KeySource::RankAt(uint64_t index) const {
  return zipf_.RankAt(AsFraction(MixAt(~seed_, index)));
}

uint64_t KeySource::SpreadKey(uint64_t rank) const {
  if (range_.HasAllKeys()) return MixAt(seed_, rank);
  return range_.first + MixBelow(seed_, rank, range_.last - range_.first + 1);
}

uint64_t KeySource::KeyAt(uint64_t index) const {
  switch (shape_) {
    case KeyShape::kUniform:
      return SpreadKey(index);
    case KeyShape::kSequential:
      return range_.first + index;
    case KeyShape::kZipfian:
      return SpreadKey(RankAt(index));
    case KeyShape::kOneBucket: {
      if (!range_.HasAllKeys()) {
        const uint64_t size = MaxKeyCount(shape_, range_);
        return range_.first + AsBelow(Mix64(seed_), kPartCount) * size +
               MixBelow(seed_, index, size);
      }
      const uint64_t prefix = Mix64(seed_) & ~((uint64_t{1} << 54) - 1);
      return prefix | Mix54(index);
    }
  }
  return 0;
}

KeySummary KeySource::Summarize() const {
  KeySummary summary;
  if (shape_ != KeyShape::kZipfian) {
    summary.distinct_count = record_count_;
    for (uint64_t i = 0; i < record_count_; ++i) summary.key_sum += KeyAt(i);
    return summary;
  }
  std::vector<bool> seen(record_count_, false);
  for (uint64_t i = 0; i < record_count_; ++i) {
    const uint64_t rank = RankAt(i);
    if (seen[rank]) continue;
    seen[rank] = true;
    ++summary.distinct_count;
    summary.key_sum += SpreadKey(rank);
  }
  return summary;
}

}  // namespace engine_race::harness
