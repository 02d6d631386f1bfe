// Key entries that check themselves, and the checked words of the counts.
//
// An entry stores its sequence number s as guard = Permute(s ^ h). h hashes everything else about
// the entry: store, bucket, slot, key, tombstone bit and checksum. A reader undoes the permutation.
// A damaged bit, or another slot, bucket or store, gives a number spread over all 35 bits. Such a
// number is nearly always too high for the bucket, and the entry is refused. So the same bits order
// the records of a key and prove that the entry belongs where it lies.
//
// The value's checksum is masked with a hash of store, bucket, slot, key and sequence number, so a
// checksum that was moved elsewhere fails. Unmasked it is a plain hash of the value. Read keeps
// only that hash in memory.
//
// Thread safety: values and stateless functions. Invariant: what Encode made of a record decodes in
// its slot of its bucket of its store alone.
#ifndef ENGINE_RACE_LOG_ENTRY_CODEC_H_
#define ENGINE_RACE_LOG_ENTRY_CODEC_H_

#include <cstdint>

#include "engine_race/base/assert.h"
#include "engine_race/base/checksum.h"
#include "engine_race/log/format.h"

namespace engine_race {

// A decoded entry. `value_checksum` is ValueChecksum(value), zero for a tombstone.
struct KeyRecord {
  uint64_t key = 0;
  uint64_t sequence = 0;
  uint32_t slot = 0;
  uint32_t value_checksum = 0;
  bool tombstone = false;
};

// The part of a value's hash that an entry and the index keep: 28 bits.
inline uint32_t ChecksumOfHash(uint64_t value_hash) {
  return static_cast<uint32_t>(value_hash >> (64 - format::kChecksumBits));
}
inline uint32_t ValueChecksum(const char* value) { return ChecksumOfHash(HashValue(value)); }

// Of an entry as it lies in the log: not checked.
inline bool IsTombstone(const format::KeyEntry& entry) {
  return (entry.check >> format::kTombstoneShift & 1) != 0;
}

// Whether the value has this checksum.
inline bool ValueMatches(const char* value, uint32_t value_checksum) {
  return ValueChecksum(value) == value_checksum;
}

// A bijection of 35-bit words in which every bit of the result depends on many bits of the
// argument.
namespace guard {

inline constexpr uint64_t kA = 0x2545f4915;
inline constexpr uint64_t kB = 0x5851f42d5;

// Of an odd number, modulo 2^35.
constexpr uint64_t Inverse(uint64_t odd) {
  uint64_t inverse = odd;  // right to 3 bits; each step doubles them
  for (int i = 0; i < 5; ++i) inverse *= 2 - odd * inverse;
  return inverse & format::kGuardMask;
}

static_assert(((kA * Inverse(kA)) & format::kGuardMask) == 1);
static_assert(((kB * Inverse(kB)) & format::kGuardMask) == 1);
static_assert(18 * 2 >= format::kGuardBits, "x ^= x >> 18 is its own inverse");

constexpr uint64_t Permute(uint64_t x) {
  x = (x * kA) & format::kGuardMask;
  x ^= x >> 18;
  x = (x * kB) & format::kGuardMask;
  return x ^ (x >> 18);
}

constexpr uint64_t Unpermute(uint64_t x) {
  x ^= x >> 18;
  x = (x * Inverse(kB)) & format::kGuardMask;
  x ^= x >> 18;
  return (x * Inverse(kA)) & format::kGuardMask;
}

}  // namespace guard

// Encodes and decodes the entries of one bucket. A value type; const calls are thread-safe.
class EntryCodec {
 public:
  EntryCodec(uint64_t store_id, uint32_t bucket)
      : seed_(MixWords(store_id ^ 0x9e3779b97f4a7c15, bucket + 0xd1b54a32d192ed03)) {}

  format::KeyEntry Encode(const KeyRecord& record) const {
    ENGINE_RACE_ASSERT(record.sequence <= format::kGuardMask);
    ENGINE_RACE_ASSERT(record.value_checksum <= format::kChecksumMask);
    const uint64_t location = LocationHash(record.key, record.slot);
    const uint64_t low =
        (uint64_t{record.tombstone} << format::kTombstoneShift) |
        ((record.value_checksum ^ ChecksumMask(location, record.sequence)) & format::kChecksumMask);
    const uint64_t hidden = guard::Permute(record.sequence ^ GuardKey(location, low));
    return {record.key, (hidden << format::kGuardShift) | low};
  }

  // False when the entry is damaged or not of this slot: its sequence number comes out at
  // `sequence_bound` or above. *record is then unspecified.
  bool Decode(const format::KeyEntry& entry, uint32_t slot, uint64_t sequence_bound,
              KeyRecord* record) const {
    const uint64_t location = LocationHash(entry.key, slot);
    const uint64_t low = entry.check & ((uint64_t{1} << format::kGuardShift) - 1);
    const uint64_t sequence =
        guard::Unpermute(entry.check >> format::kGuardShift) ^ GuardKey(location, low);
    record->key = entry.key;
    record->sequence = sequence;
    record->slot = slot;
    record->value_checksum =
        static_cast<uint32_t>((low ^ ChecksumMask(location, sequence)) & format::kChecksumMask);
    record->tombstone = ((low >> format::kTombstoneShift) & 1) != 0;
    return sequence < sequence_bound;
  }

 private:
  uint64_t LocationHash(uint64_t key, uint32_t slot) const {
    return MixWords(key ^ seed_, slot + 0xa0761d6478bd642f);
  }
  static uint64_t ChecksumMask(uint64_t location, uint64_t sequence) {
    return ((location ^ sequence) * 0xe7037ed1a0b428db) >> (64 - format::kChecksumBits);
  }
  static uint64_t GuardKey(uint64_t location, uint64_t low) {
    return ((location ^ low) * 0x8ebc6af09c88c6e3) >> (64 - format::kGuardBits);
  }

  uint64_t seed_;
};

// The words of format::BucketCounts: `payload` in the low `bits`, a hash above it.
inline uint64_t EncodeWord(uint64_t store_id, uint32_t bucket, format::WordKind kind,
                           uint64_t payload, uint32_t bits) {
  ENGINE_RACE_ASSERT(payload >> bits == 0);
  const uint64_t where = (uint64_t{bucket} << 8) | static_cast<uint64_t>(kind);
  const uint64_t hash = MixWords(store_id ^ 0x8bb84b93962eacc9 ^ (payload * 0x9e3779b97f4a7c15),
                                 where + 0x2d358dccaa6c78a5);
  return (hash << bits) | payload;
}

// False when the word's check fails; so does a word of zero, which nobody ever writes.
inline bool DecodeWord(uint64_t store_id, uint32_t bucket, format::WordKind kind, uint64_t word,
                       uint32_t bits, uint64_t* payload) {
  *payload = word & ((uint64_t{1} << bits) - 1);
  return word == EncodeWord(store_id, bucket, kind, *payload, bits);
}

// How many low bits of a word of this kind are payload.
inline uint32_t PayloadBits(format::WordKind kind) {
  switch (kind) {
    case format::WordKind::kValuePlaces:
    case format::WordKind::kKeyPlaces:
      return format::kPlacesWordBits;
    case format::WordKind::kPageCache:
      return format::kPageCacheBits;
    default:
      return format::kCountBits;
  }
}

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_ENTRY_CODEC_H_
