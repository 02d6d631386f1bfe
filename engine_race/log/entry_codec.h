// Key entries that say everything about their records and check themselves, and the checked words
// of the counts.
//
// An entry has the key, the sequence number, two bits, the whole hash of its value, and a check.
// The bits say whether the record is a tombstone, and whether it came with a large batch. The check
// is a hash of all the others, seeded with store, bucket and position: see SlotTable. So an entry
// with a damaged bit is refused, and so is one that lies in another place.
//
// A value is verified with its entry by all 64 bits of its hash. The index keeps 28 of them.
//
// Thread safety: values and stateless functions. Invariant: what Encode made of a record decodes in
// its position of its bucket of its store alone.
#ifndef ENGINE_RACE_LOG_ENTRY_CODEC_H_
#define ENGINE_RACE_LOG_ENTRY_CODEC_H_

#include <cstddef>
#include <cstdint>

#include "engine_race/base/assert.h"
#include "engine_race/base/checksum.h"
#include "engine_race/log/format.h"

namespace engine_race {

// A decoded entry. `value_hash` is HashValue(value), zero for a tombstone.
struct KeyRecord {
  uint64_t key = 0;
  uint64_t sequence = 0;
  uint64_t value_hash = 0;
  uint32_t slot = 0;
  bool tombstone = false;
  // Written to the logs before its batch was committed: it counts only below the synced watermark.
  bool in_large_batch = false;
};

// Whether the value is that of the record, which is no tombstone.
inline bool IsValueOf(const KeyRecord& record, const char* value, size_t size) {
  return HashValue(value, size) == record.value_hash;
}

// The part of a value's hash that the index keeps.
inline uint32_t ChecksumOfHash(uint64_t value_hash) {
  return static_cast<uint32_t>(value_hash >> (64 - format::kChecksumBits));
}
// Whether the value has this checksum. For readers that have no entry.
inline bool ValueMatches(const char* value, size_t size, uint32_t value_checksum) {
  return ChecksumOfHash(HashValue(value, size)) == value_checksum;
}

// Encodes and decodes the entries of one bucket. A value type; const calls are thread-safe.
class EntryCodec {
 public:
  EntryCodec(uint64_t store_id, uint32_t bucket)
      : seed_(MixWords(store_id ^ 0x9e3779b97f4a7c15, bucket + 0xd1b54a32d192ed03)) {}

  format::KeyEntry Encode(const KeyRecord& record, uint64_t position) const {
    ENGINE_RACE_ASSERT(record.sequence <= format::kSequenceMask);
    ENGINE_RACE_ASSERT(!record.tombstone || record.value_hash == 0);
    format::KeyEntry entry;
    entry.key = record.key;
    entry.word = record.sequence | uint64_t{record.tombstone} << format::kSequenceBits |
                 uint64_t{record.in_large_batch} << (format::kSequenceBits + 1);
    entry.value_hash = record.value_hash;
    entry.check = CheckOf(entry, position);
    return entry;
  }

  // Leaves record->slot as it is. False when the entry is damaged, or not of this position. *record
  // is then unspecified.
  bool Decode(const format::KeyEntry& entry, uint64_t position, KeyRecord* record) const {
    record->key = entry.key;
    record->sequence = entry.sequence();
    record->value_hash = entry.value_hash;
    record->tombstone = entry.tombstone();
    record->in_large_batch = entry.in_large_batch();
    return entry.check == CheckOf(entry, position) && entry.word >> format::kEntryWordBits == 0;
  }

 private:
  // Both operands of both multiplications depend on the record. So damage in several words does not
  // cancel out.
  uint64_t CheckOf(const format::KeyEntry& entry, uint64_t position) const {
    const uint64_t place = (position + 0xa0761d6478bd642f) * 0xe7037ed1a0b428db;
    return MixWords(MixWords(entry.key ^ seed_, entry.word ^ place),
                    entry.value_hash ^ 0x8ebc6af09c88c6e3);
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

// Which place a places word gives to a group.
constexpr uint32_t PlaceInWord(uint32_t places_word, uint64_t group) {
  const auto shift = static_cast<uint32_t>(group % format::kMaxPlaces) * format::kPlaceBits;
  return (places_word >> shift) & ((uint32_t{1} << format::kPlaceBits) - 1);
}

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_ENTRY_CODEC_H_
