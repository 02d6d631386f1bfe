// What the race's visitors look at: the order of keys and, as closely as each is told, values.
//
// One scan's by one thread. Fails by throwing std::runtime_error, which leaves the range at once
// and which RunWorkers turns into a failure.
#ifndef HARNESS_DATA_RANGE_VISITOR_H_
#define HARNESS_DATA_RANGE_VISITOR_H_

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "engine_race/base/key.h"
#include "harness/data/key_source.h"
#include "harness/data/value_maker.h"

namespace harness {

// How closely a visitor looks at values.
enum class RangeChecks { kNothing, kEnds, kEverything };

class RangeVisitor {
 public:
  // Both outlive this; their record indices are the values' versions.
  RangeVisitor(const KeySource& keys, const ValueMaker& values, RangeChecks checks)
      : keys_(keys), values_(values), checks_(checks) {}

  void Visit(std::string_view key_bytes, std::string_view value) {
    if (key_bytes.size() != sizeof(uint64_t)) Fail(0, "a key of another size");
    const uint64_t key = engine_race::DecodeKey(key_bytes.data());
    if (value.size() != kValueSize) Fail(key, "a value of another size");
    if (count_ != 0 && key <= last_key_) Fail(key, "not ascending");
    if (!ValueIsRight(key, value.data())) Fail(key, "wrong bytes");
    last_key_ = key;
    key_sum_ += key;
    ++count_;
  }

  uint64_t count() const { return count_; }
  uint64_t key_sum() const { return key_sum_; }

 private:
  [[noreturn]] static void Fail(uint64_t key, const char* what) {
    throw std::runtime_error("range: " + KeyFailure(key, what));
  }

  bool ValueIsRight(uint64_t key, const char* value) const {
    uint64_t version = 0;
    if (checks_ == RangeChecks::kNothing) return true;
    if (checks_ == RangeChecks::kEnds) return values_.CheckEnds(key, value, &version);
    return values_.CheckAll(key, value, &version) && version < keys_.record_count() &&
           keys_.KeyAt(version) == key;
  }

  const KeySource& keys_;
  const ValueMaker& values_;
  const RangeChecks checks_;
  uint64_t last_key_ = 0;
  uint64_t count_ = 0;
  uint64_t key_sum_ = 0;
};

// Of the visitors of a pass one checks every byte, another thread's in each pass.
inline RangeChecks ChecksOf(uint32_t thread, uint32_t pass, uint32_t thread_count) {
  return thread == pass % thread_count ? RangeChecks::kEverything : RangeChecks::kEnds;
}

}  // namespace harness

#endif  // HARNESS_DATA_RANGE_VISITOR_H_
