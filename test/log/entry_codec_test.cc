#include "engine_race/log/entry_codec.h"

#include <gtest/gtest.h>

#include <random>

#include "test/log/entry_test_util.h"
#include "test/test_util.h"

namespace engine_race {
namespace {

using test::CollidingValues;
using test::WithFlippedBit;

constexpr uint64_t kStore = 0x1234567890abcdef;
constexpr uint64_t kSequenceEnd = uint64_t{1} << 48;

KeyRecord RandomRecord(std::mt19937_64* random) {
  KeyRecord record;
  record.key = (*random)();
  record.sequence = (*random)() % kSequenceEnd;
  record.slot = static_cast<uint32_t>((*random)() % kMaxBucketRecords);
  record.tombstone = (*random)() % 4 == 0;
  record.in_large_batch = (*random)() % 4 == 0;
  record.value_hash = record.tombstone ? 0 : (*random)();
  return record;
}

void ExpectRoundTrip(const EntryCodec& codec, const KeyRecord& record) {
  KeyRecord decoded;
  ASSERT_TRUE(codec.Decode(codec.Encode(record, record.slot), record.slot, &decoded));
  EXPECT_EQ(decoded.key, record.key);
  EXPECT_EQ(decoded.sequence, record.sequence);
  EXPECT_EQ(decoded.value_hash, record.value_hash);
  EXPECT_EQ(decoded.tombstone, record.tombstone);
  EXPECT_EQ(decoded.in_large_batch, record.in_large_batch);
}

TEST(EntryCodecTest, DecodesWhatItEncoded) {
  std::mt19937_64 random(11);
  const EntryCodec codec(kStore, 77);
  for (int i = 0; i < 100000; ++i) {
    ASSERT_NO_FATAL_FAILURE(ExpectRoundTrip(codec, RandomRecord(&random)));
  }
}

TEST(EntryCodecTest, SequenceNumbersHave48Bits) {
  const EntryCodec codec(kStore, 77);
  for (uint32_t bit = 0; bit < 48; ++bit) {
    for (const uint64_t sequence : {(uint64_t{1} << bit) - 1, uint64_t{1} << bit}) {
      for (const bool tombstone : {false, true}) {
        SCOPED_TRACE(sequence);
        ASSERT_NO_FATAL_FAILURE(
            ExpectRoundTrip(codec, {.key = 5, .sequence = sequence, .tombstone = tombstone}));
      }
    }
  }
  ASSERT_NO_FATAL_FAILURE(ExpectRoundTrip(codec, {.key = 5, .sequence = kSequenceEnd - 1}));
}

// All words are there to be read, and nothing else is.
TEST(EntryCodecTest, AnEntrySaysEverythingPlainly) {
  const EntryCodec codec(kStore, 3);
  const KeyRecord put = {.key = 21, .sequence = kSequenceEnd - 2, .value_hash = 22};
  const format::KeyEntry entry = codec.Encode(put, 4);
  EXPECT_EQ(entry.key, 21u);
  EXPECT_EQ(entry.word, kSequenceEnd - 2);
  EXPECT_EQ(entry.value_hash, 22u);
  const format::KeyEntry deletion = codec.Encode({.key = 21, .sequence = 7, .tombstone = true}, 4);
  EXPECT_EQ(deletion.word, kSequenceEnd + 7);
  EXPECT_EQ(deletion.value_hash, 0u);
  const format::KeyEntry in_batch = codec.Encode({.sequence = 7, .in_large_batch = true}, 4);
  EXPECT_EQ(in_batch.word, 2 * kSequenceEnd + 7);
}

// The check, as docs/format.md says it.
uint64_t CheckOf(const format::KeyEntry& entry, uint64_t store_id, uint32_t bucket,
                 uint64_t position) {
  const uint64_t seed = MixWords(store_id ^ 0x9e3779b97f4a7c15, bucket + 0xd1b54a32d192ed03);
  const uint64_t place = (position + 0xa0761d6478bd642f) * 0xe7037ed1a0b428db;
  return MixWords(MixWords(entry.key ^ seed, entry.word ^ place),
                  entry.value_hash ^ 0x8ebc6af09c88c6e3);
}

TEST(EntryCodecTest, BitsAboveThoseOfTheRecordAreZero) {
  std::mt19937_64 random(16);
  const EntryCodec codec(kStore, 3);
  const KeyRecord record = RandomRecord(&random);
  const format::KeyEntry entry = codec.Encode(record, record.slot);
  EXPECT_EQ(entry.check, CheckOf(entry, kStore, 3, record.slot));
  KeyRecord decoded;
  ASSERT_TRUE(codec.Decode(entry, record.slot, &decoded));
  for (uint32_t bit = 50; bit < 64; ++bit) {
    format::KeyEntry other = entry;
    other.word |= uint64_t{1} << bit;
    other.check = CheckOf(other, kStore, 3, record.slot);
    EXPECT_FALSE(codec.Decode(other, record.slot, &decoded)) << bit;
  }
}

TEST(EntryCodecTest, EverySingleFlippedBitIsSeen) {
  std::mt19937_64 random(12);
  const EntryCodec codec(kStore, 3);
  for (int i = 0; i < 1000; ++i) {
    const KeyRecord record = RandomRecord(&random);
    const format::KeyEntry entry = codec.Encode(record, record.slot);
    for (int bit = 0; bit < 256; ++bit) {
      KeyRecord decoded;
      EXPECT_FALSE(codec.Decode(WithFlippedBit(entry, bit), record.slot, &decoded))
          << "bit " << bit;
    }
  }
}

// Damage in two words does not cancel out.
TEST(EntryCodecTest, EveryTwoFlippedBitsAreSeen) {
  const EntryCodec codec(kStore, 3);
  const KeyRecord record = {.key = 9, .sequence = 70000, .value_hash = 8, .slot = 5};
  const format::KeyEntry entry = codec.Encode(record, record.slot);
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < first; ++second) {
      KeyRecord decoded;
      EXPECT_FALSE(
          codec.Decode(WithFlippedBit(WithFlippedBit(entry, first), second), record.slot, &decoded))
          << first << ", " << second;
    }
  }
}

TEST(EntryCodecTest, AnEntryOfAnotherPlaceIsRefused) {
  std::mt19937_64 random(13);
  const EntryCodec here(kStore, 3);
  for (int i = 0; i < 1000; ++i) {
    const KeyRecord record = RandomRecord(&random);
    const format::KeyEntry entry = here.Encode(record, record.slot);
    KeyRecord decoded;
    for (uint32_t bit = 0; bit < 32; ++bit) {
      const EntryCodec other_bucket(kStore, 3 ^ uint32_t{1} << bit);
      EXPECT_FALSE(other_bucket.Decode(entry, record.slot, &decoded)) << bit;
    }
    for (uint32_t bit = 0; bit < 64; ++bit) {
      const uint64_t other = uint64_t{1} << bit;
      EXPECT_FALSE(here.Decode(entry, record.slot ^ other, &decoded)) << bit;
      const EntryCodec other_store(kStore ^ other, 3);
      EXPECT_FALSE(other_store.Decode(entry, record.slot, &decoded)) << bit;
    }
  }
}

TEST(EntryCodecTest, ZerosAreNoEntry) {
  for (uint32_t slot = 0; slot < 2000; ++slot) {
    KeyRecord decoded;
    EXPECT_FALSE(EntryCodec(kStore, 5).Decode(format::KeyEntry(), slot, &decoded));
  }
}

TEST(EntryCodecTest, TheIndexKeepsTheHighestBitsOfAHash) {
  EXPECT_EQ(ChecksumOfHash(0xfedcba9876543210), 0xfedcba9u);
}

TEST(EntryCodecTest, AValueIsThatOfItsRecordByAllBitsOfItsHash) {
  const CollidingValues values;
  const KeyRecord record = {.value_hash = HashValue(values.first.data(), kValueBytes)};
  const uint32_t checksum = ChecksumOfHash(record.value_hash);
  EXPECT_TRUE(IsValueOf(record, values.first.data(), kValueBytes));
  EXPECT_TRUE(ValueMatches(values.first.data(), kValueBytes, checksum));
  EXPECT_FALSE(IsValueOf(record, values.second.data(), kValueBytes));
  EXPECT_TRUE(ValueMatches(values.second.data(), kValueBytes, checksum))
      << "as far as the index can tell";
}

TEST(CountWordTest, RoundTripAndDamage) {
  const struct {
    format::WordKind kind;
    format::WordKind other;
    uint64_t payload;
  } cases[] = {
      {format::WordKind::kRecords, format::WordKind::kLoggedKeys, 0},
      {format::WordKind::kRecords, format::WordKind::kLoggedValues, 1},
      {format::WordKind::kLoggedKeys, format::WordKind::kRecords, 65536},
      {format::WordKind::kLoggedValues, format::WordKind::kRecords, kMaxBucketRecords},
      {format::WordKind::kValuePlaces, format::WordKind::kKeyPlaces, 0x76543210},
  };
  for (const auto& c : cases) {
    const uint32_t bits = PayloadBits(c.kind);
    const uint64_t word = EncodeWord(kStore, 9, c.kind, c.payload, bits);
    uint64_t decoded = 0;
    ASSERT_TRUE(DecodeWord(kStore, 9, c.kind, word, bits, &decoded));
    EXPECT_EQ(decoded, c.payload);
    for (int bit = 0; bit < 64; ++bit) {
      EXPECT_FALSE(DecodeWord(kStore, 9, c.kind, word ^ (1ull << bit), bits, &decoded)) << bit;
    }
    EXPECT_FALSE(DecodeWord(kStore, 9, c.other, word, bits, &decoded));
    EXPECT_FALSE(DecodeWord(kStore, 8, c.kind, word, bits, &decoded));
    EXPECT_FALSE(DecodeWord(kStore + 1, 9, c.kind, word, bits, &decoded));
  }
}

TEST(CountWordTest, ZeroIsNoWordThatAnybodyWrites) {
  uint64_t payload = 0;
  for (uint32_t kind = 0; kind <= static_cast<uint32_t>(format::WordKind::kPageCache); ++kind) {
    const auto word_kind = static_cast<format::WordKind>(kind);
    EXPECT_FALSE(DecodeWord(kStore, 9, word_kind, 0, PayloadBits(word_kind), &payload)) << kind;
    const uint64_t word = EncodeWord(kStore, 9, word_kind, 0, PayloadBits(word_kind));
    EXPECT_TRUE(DecodeWord(kStore, 9, word_kind, word, PayloadBits(word_kind), &payload)) << kind;
  }
}

}  // namespace
}  // namespace engine_race
