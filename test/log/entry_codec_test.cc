#include "engine_race/log/entry_codec.h"

#include <gtest/gtest.h>

#include <random>

#include "test/test_util.h"

namespace engine_race {
namespace {

constexpr uint64_t kStore = 0x1234567890abcdef;

KeyRecord RandomRecord(std::mt19937_64* random, uint64_t bound) {
  KeyRecord record;
  record.key = (*random)();
  record.sequence = (*random)() % bound;
  record.slot = static_cast<uint32_t>((*random)() % kMaxBucketRecords);
  record.tombstone = (*random)() % 4 == 0;
  record.value_checksum =
      record.tombstone ? 0 : static_cast<uint32_t>((*random)() & format::kChecksumMask);
  return record;
}

TEST(EntryCodecTest, DecodesWhatItEncoded) {
  std::mt19937_64 random(11);
  const EntryCodec codec(kStore, 77);
  for (int i = 0; i < 100000; ++i) {
    const KeyRecord record = RandomRecord(&random, format::kGuardMask);
    KeyRecord decoded;
    ASSERT_TRUE(codec.Decode(codec.Encode(record), record.slot, record.sequence + 1, &decoded));
    EXPECT_EQ(decoded.key, record.key);
    EXPECT_EQ(decoded.sequence, record.sequence);
    EXPECT_EQ(decoded.slot, record.slot);
    EXPECT_EQ(decoded.value_checksum, record.value_checksum);
    EXPECT_EQ(decoded.tombstone, record.tombstone);
  }
}

// 65536 records in the bucket leave 19 bits of guard: of 25600 flips 0.05 may pass by chance, and
// the seed is fixed.
TEST(EntryCodecTest, EverySingleFlippedBitIsSeen) {
  std::mt19937_64 random(12);
  const EntryCodec codec(kStore, 3);
  constexpr uint64_t kBound = 65536;
  for (int i = 0; i < 200; ++i) {
    const KeyRecord record = RandomRecord(&random, kBound);
    const format::KeyEntry entry = codec.Encode(record);
    for (int bit = 0; bit < 128; ++bit) {
      format::KeyEntry flipped = entry;
      (bit < 64 ? flipped.key : flipped.check) ^= uint64_t{1} << (bit % 64);
      KeyRecord decoded;
      EXPECT_FALSE(codec.Decode(flipped, record.slot, kBound, &decoded)) << "bit " << bit;
    }
  }
}

TEST(EntryCodecTest, AnEntryOfAnotherPlaceIsRefused) {
  std::mt19937_64 random(13);
  constexpr uint64_t kBound = 65536;
  const EntryCodec here(kStore, 3);
  int accepted = 0;
  for (int i = 0; i < 2000; ++i) {
    const KeyRecord record = RandomRecord(&random, kBound);
    const format::KeyEntry entry = here.Encode(record);
    KeyRecord decoded;
    accepted += here.Decode(entry, record.slot ^ 1, kBound, &decoded);
    accepted += EntryCodec(kStore, 4).Decode(entry, record.slot, kBound, &decoded);
    accepted += EntryCodec(kStore + 1, 3).Decode(entry, record.slot, kBound, &decoded);
  }
  EXPECT_EQ(accepted, 0);
}

TEST(EntryCodecTest, ZerosAreNoEntry) {
  int accepted = 0;
  for (uint32_t slot = 0; slot < 2000; ++slot) {
    KeyRecord decoded;
    accepted += EntryCodec(kStore, 5).Decode(format::KeyEntry{0, 0}, slot, 65536, &decoded);
  }
  EXPECT_EQ(accepted, 0);
}

TEST(EntryCodecTest, PermutationIsItsInversesInverse) {
  std::mt19937_64 random(14);
  for (int i = 0; i < 100000; ++i) {
    const uint64_t x = random() & format::kGuardMask;
    ASSERT_EQ(guard::Unpermute(guard::Permute(x)), x);
    ASSERT_LE(guard::Permute(x), format::kGuardMask);
  }
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
