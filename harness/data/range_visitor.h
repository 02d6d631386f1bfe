// The race's visitors: each checks the order of keys and, as far as it is told, the values.
//
// A visitor belongs to one scan and one thread. It throws std::runtime_error at a fault, which
// leaves the range at once.
#ifndef HARNESS_DATA_RANGE_VISITOR_H_
#define HARNESS_DATA_RANGE_VISITOR_H_

#include <cstdint>
#include <stdexcept>
#include <string_view>

#include "engine_race/base/key.h"
#include "harness/data/key_source.h"
#include "harness/data/value_maker.h"

namespace engine_race::harness {

// Whether the value is that of a record of `keys` with this key, to the last byte. The version in
// it is the record's index in `keys`.
inline bool IsRecord(const KeySource& keys, const ValueMaker& values, uint64_t key,
                     const char* value) {
  uint64_t version = 0;
  return values.CheckAll(key, value, &version) && version < keys.record_count() &&
         keys.KeyAt(version) == key;
}

// How closely a visitor looks at values.
enum class RangeChecks { kNothing, kEnds, kEverything };

class RangeVisitor {
 public:
  // Both outlive this. Values are those of IsRecord.
  RangeVisitor(const KeySource& keys, const ValueMaker& values, RangeChecks checks)
      : keys_(keys), values_(values), checks_(checks) {}

  void Visit(std::string_view key_bytes, std::string_view value) {
    if (key_bytes.size() != sizeof(uint64_t)) Fail(0, "a key of another size");
    const uint64_t key = DecodeKey(key_bytes.data());
    if (value.size() != values_.value_bytes()) Fail(key, "a value of another size");
    if (count_ != 0 && key <= last_key_) Fail(key, "not ascending");
    if (!ValueIsRight(key, value.data())) Fail(key, "wrong bytes");
    last_key_ = key;
    key_sum_ += key;
    ++count_;
  }

  uint64_t count() const { return count_; }
  // Whether these are the keys that it has visited.
  bool Saw(const KeySummary& expected) const {
    return count_ == expected.distinct_count && key_sum_ == expected.key_sum;
  }

 private:
  [[noreturn]] static void Fail(uint64_t key, const char* what) {
    throw std::runtime_error("range: " + KeyFailure(key, what));
  }

  bool ValueIsRight(uint64_t key, const char* value) const {
    if (checks_ == RangeChecks::kNothing) return true;
    uint64_t version = 0;
    if (checks_ == RangeChecks::kEnds) return values_.CheckEnds(key, value, &version);
    return IsRecord(keys_, values_, key, value);
  }

  const KeySource& keys_;
  const ValueMaker& values_;
  const RangeChecks checks_;
  uint64_t last_key_ = 0;
  uint64_t count_ = 0;
  uint64_t key_sum_ = 0;
};

// In each pass one thread's visitor checks every byte, and each pass takes another thread for it.
inline RangeChecks ChecksOf(uint32_t thread, uint32_t pass, uint32_t thread_count) {
  return thread == pass % thread_count ? RangeChecks::kEverything : RangeChecks::kEnds;
}

}  // namespace engine_race::harness

#endif  // HARNESS_DATA_RANGE_VISITOR_H_
