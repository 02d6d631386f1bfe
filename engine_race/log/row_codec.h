// How the file of rows has the rows of one bucket: their head, and two images of each row.
//
// A value type; pure functions.
#ifndef ENGINE_RACE_LOG_ROW_CODEC_H_
#define ENGINE_RACE_LOG_ROW_CODEC_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine_race/base/assert.h"
#include "engine_race/base/checksum.h"
#include "engine_race/log/format.h"
#include "engine_race/log/row.h"
#include "engine_race/log/segment_format.h"

namespace engine_race {

class RowCodec {
 public:
  RowCodec(uint64_t store_id, uint32_t bucket) : seed_(store_id), where_(uint64_t{bucket} << 32) {}

  // The row end in the low bits, and a hash of both above.
  format::RowsHead EncodeHead(uint64_t row_end, uint64_t births) const {
    ENGINE_RACE_ASSERT(row_end >> kRowEndBits == 0);
    const uint64_t hash = MixWords(seed_ ^ kHeadSeed ^ row_end * 0x9e3779b97f4a7c15,
                                   where_ + 0x2d358dccaa6c78a5 + births * 0xd6e8feb86659fd93);
    return {hash << kRowEndBits | row_end, births};
  }
  bool DecodeHead(const format::RowsHead& head, uint64_t* row_end) const {
    *row_end = head.row_end & ((uint64_t{1} << kRowEndBits) - 1);
    return head.births >> format::kBirthBits == 0 &&
           head.row_end == EncodeHead(*row_end, head.births).row_end;
  }
  format::RowImage Encode(uint32_t index, const Row& row, uint64_t number) const {
    format::RowImage image{};
    image.begin = image.end = NumberWord(index, number);
    image.number = row.number;
    std::copy_n(row.path.words().begin(), SlotBits::kWordCount, image.path);
    std::copy_n(row.held.words().begin(), SlotBits::kWordCount, image.held);
    image.birth = row.birth << format::kRowKindBits | static_cast<uint64_t>(row.kind);
    image.horizon = row.horizon;
    image.seal = row.seal;
    image.moved_at = row.moved_at;
    image.hash = HashOf(index, image);
    return image;
  }
  // Both images of a new row say the same.
  format::RowImages EncodeNew(uint32_t index, const Row& row) const {
    return {{Encode(index, row, 2), Encode(index, row, 1)}};
  }
  // Those of a place that belongs to no bucket, by the number of its entry in the table.
  format::RowImages EncodeVacant(uint64_t place_number) const {
    return Vacant().EncodeNew(static_cast<uint32_t>(place_number), Row());
  }
  // The content of a row, by its two images.
  struct Found {
    Row row;
    uint64_t number = 0;  // of the image that counts; 0: both are vacant, and the row is free
    uint32_t which = 0;
  };
  // Images of a row whose place has that number in the table. False: the row is damaged. Zeros are
  // damage: a place has images before the head reaches its row.
  bool Find(uint32_t index, uint64_t place_number, const format::RowImages& images,
            Found* found) const {
    const auto place = static_cast<uint32_t>(place_number);
    *found = Found();
    bool is_vacant = false;
    for (uint32_t i = 0; i < 2; ++i) {
      const format::RowImage& image = images.images[i];
      uint64_t begin = 0;
      uint64_t end = 0;
      if (!DecodeWord(index, place, i, image.begin, &begin) ||
          !DecodeWord(index, place, i, image.end, &end)) {
        return false;
      }
      // It was written half.
      if (begin != end) continue;
      const uint64_t hash = begin != 0 ? HashOf(index, image) : Vacant().HashOf(place, image);
      if (image.hash != hash) return false;
      is_vacant = is_vacant || begin == 0;
      if (begin > found->number) *found = {Decode(image), begin, i};
    }
    return is_vacant || found->number != 0;
  }

 private:
  static Row Decode(const format::RowImage& image) {
    SlotBits::Words path;
    SlotBits::Words held;
    std::copy_n(image.path, path.size(), path.begin());
    std::copy_n(image.held, held.size(), held.begin());
    return {.kind = static_cast<format::RowKind>(image.birth & ((1U << format::kRowKindBits) - 1)),
            .number = image.number,
            .path = SlotBits(path),
            .held = SlotBits(held),
            .birth = image.birth >> format::kRowKindBits,
            .horizon = image.horizon,
            .seal = image.seal,
            .moved_at = image.moved_at};
  }

  RowCodec Vacant() const { return {seed_, format::kNoBucket}; }

  static constexpr uint32_t kRowEndBits = 32;
  static constexpr uint64_t kHeadSeed = 0x5d3c9f1be7a24681;
  static constexpr uint64_t kRowSeed = 0xc1a7b35f90d2e64b;

  uint64_t HashOf(uint32_t index, const format::RowImage& image) const {
    return Hash64(&image, offsetof(format::RowImage, hash), SeedOf(index));
  }
  uint64_t SeedOf(uint32_t index) const {
    return MixWords(seed_ ^ kRowSeed, (where_ | index) + 0x2d358dccaa6c78a5);
  }
  uint64_t NumberWord(uint32_t index, uint64_t number) const {
    const uint64_t check = MixWords(SeedOf(index) ^ number, 0x9e3779b97f4a7c15);
    return check << format::kImageNumberBits | number;
  }
  // Image 0 of a row has even numbers, image 1 odd ones.
  bool DecodeNumber(uint32_t index, uint32_t which, uint64_t word, uint64_t* number) const {
    *number = word & ((uint64_t{1} << format::kImageNumberBits) - 1);
    return *number != 0 && *number % 2 == which && word == NumberWord(index, *number);
  }
  // Likewise. 0 for one of a vacant image.
  bool DecodeWord(uint32_t index, uint32_t place, uint32_t which, uint64_t word,
                  uint64_t* number) const {
    if (DecodeNumber(index, which, word, number)) return true;
    const bool is_vacant = Vacant().DecodeNumber(place, which, word, number);
    *number = 0;
    return is_vacant;
  }

  uint64_t seed_;
  uint64_t where_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_ROW_CODEC_H_
