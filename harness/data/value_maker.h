// Values that prove where they belong: every byte follows from the run, the key and a version.
//
// Word 0 carries the version, masked with the key. Word 1 is a hash of run, key and version. Each
// later word adds an odd step to the word before it, and the last one may be cut off. So two values
// of different (run, key, version) share a word at one position only by chance, and a mixture of
// two values fails. Making and checking take a few additions for every 16 bytes: some tens of GB/s
// in cache.
//
// A value below 16 bytes has no room for the hash. Its version is below 2^40, and a foreign one
// passes for that once in 16 million times.
//
// A ValueMaker is immutable and thread-safe. Visitors of ranges, which check such values, are not.
#ifndef HARNESS_DATA_VALUE_MAKER_H_
#define HARNESS_DATA_VALUE_MAKER_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <string_view>

#include "engine_race/base/key.h"
#include "engine_race/base/options.h"
#include "harness/data/key_source.h"
#include "harness/data/mix.h"

namespace engine_race::harness {

// Of the contest, and where no other size is asked for.
inline constexpr size_t kValueSize = kValueBytes;
// A key and its value.
constexpr uint64_t RecordBytes(uint64_t value_bytes = kValueSize) { return 8 + value_bytes; }

// Memory for a value, as aligned as a cache line.
struct DeleteValue {
  static constexpr std::align_val_t kAlignment{64};
  void operator()(char* value) const { ::operator delete[](value, kAlignment); }
};
using ValueBuffer = std::unique_ptr<char[], DeleteValue>;

class ValueMaker {
 public:
  // Values have 8 bytes at least.
  explicit ValueMaker(uint64_t run_seed, uint32_t value_bytes = kValueSize)
      : seed_(Mix64(run_seed ^ 0x76616c756573)),
        value_bytes_(value_bytes),
        last_word_(value_bytes / sizeof(uint64_t) - 1),
        last_step_((last_word_ - 1) * kStep) {}

  uint32_t value_bytes() const { return value_bytes_; }
  ValueBuffer MakeBuffer() const {
    return ValueBuffer(new (DeleteValue::kAlignment) char[value_bytes_]());
  }

  // Writes value_bytes() bytes.
  void Fill(uint64_t key, uint64_t version, char* value) const;

  // Looks at the first two words of a value and at the last whole one. On success *version is the
  // version that they carry.
  bool CheckEnds(uint64_t key, const char* value, uint64_t* version) const {
    *version = Word(value, 0) ^ Mask(key);
    if (value_bytes_ < 2 * sizeof(uint64_t)) return *version < kMostShortVersions;
    const uint64_t base = Base(key, *version);
    return Word(value, 1) == base && Word(value, last_word_) == base + last_step_;
  }

  // Looks at every byte.
  bool CheckAll(uint64_t key, const char* value, uint64_t* version) const;

 private:
  static constexpr uint64_t kMostShortVersions = uint64_t{1} << 40;
  static constexpr uint64_t kStep = 0x9e3779b97f4a7c15;

  static uint64_t Word(const char* value, size_t index) {
    uint64_t word;
    std::memcpy(&word, value + index * sizeof(word), sizeof(word));
    return word;
  }
  uint64_t Mask(uint64_t key) const { return (key ^ seed_) * 0xd6e8feb86659fd93; }
  uint64_t Base(uint64_t key, uint64_t version) const {
    return Mix64(Mask(key) + (version + 1) * 0xa0761d6478bd642f);
  }

  uint64_t seed_;
  uint32_t value_bytes_;
  uint64_t last_word_;  // the last whole one; of a value of one word, 0
  uint64_t last_step_;  // how far it is from the base
};

// The race's visitors: each checks the order of keys and, as far as it is told, the values.
//
// A visitor belongs to one scan and one thread. It throws std::runtime_error at a fault, which
// leaves the range at once.

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

#endif  // HARNESS_DATA_VALUE_MAKER_H_
