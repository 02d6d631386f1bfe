#include "engine_race/log/row_file.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "engine_race/base/assert.h"
#include "engine_race/base/checksum.h"
#include "engine_race/base/memory.h"
#include "engine_race/base/sys.h"

namespace engine_race {
namespace {

using format::RowImage;
using format::RowImages;
using format::RowKind;
using format::RowsHead;

constexpr uint32_t kRowEndBits = 32;
constexpr uint64_t kHeadSeed = 0x5d3c9f1be7a24681;
constexpr uint64_t kRowSeed = 0xc1a7b35f90d2e64b;
// New rows that one call of the system writes.
constexpr size_t kRowsAtOnce = 256;
// How much of the file is read at once to be written again.
constexpr size_t kAgainBytes = size_t{1} << 20;

// What the file has of one bucket's rows.
class RowCodec {
 public:
  RowCodec(uint64_t store_id, uint32_t bucket) : seed_(store_id), where_(uint64_t{bucket} << 32) {}

  // The row end in the low bits, and a hash of it above.
  RowsHead EncodeHead(uint64_t row_end) const {
    ENGINE_RACE_ASSERT(row_end >> kRowEndBits == 0);
    const uint64_t hash =
        MixWords(seed_ ^ kHeadSeed ^ row_end * 0x9e3779b97f4a7c15, where_ + 0x2d358dccaa6c78a5);
    return {hash << kRowEndBits | row_end};
  }
  bool DecodeHead(const RowsHead& head, uint64_t* row_end) const {
    *row_end = head.row_end & ((uint64_t{1} << kRowEndBits) - 1);
    return head.row_end == EncodeHead(*row_end).row_end;
  }
  RowImage Encode(uint32_t index, const Row& row, uint64_t number) const {
    RowImage image{};
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
  // Of a row that was not written before: both images count for the same.
  RowImages EncodeNew(uint32_t index, const Row& row) const {
    return {{Encode(index, row, 2), Encode(index, row, 1)}};
  }
  // *which: the image that counts, and its number. False: the row is damaged. Zeros are damage: a
  // row has both images before the head reaches it.
  bool Find(uint32_t index, const RowImages& images, uint32_t* which, uint64_t* number) const {
    *which = 0;
    *number = 0;
    for (uint32_t i = 0; i < 2; ++i) {
      const RowImage& image = images.images[i];
      uint64_t begin = 0;
      uint64_t end = 0;
      if (!DecodeNumber(index, i, image.begin, &begin) ||
          !DecodeNumber(index, i, image.end, &end)) {
        return false;
      }
      if (begin != end) continue;
      if (image.hash != HashOf(index, image)) return false;
      if (begin <= *number) continue;
      *which = i;
      *number = begin;
    }
    return *number != 0;
  }
  static Row Decode(const RowImage& image) {
    SlotBits::Words path;
    SlotBits::Words held;
    std::copy_n(image.path, path.size(), path.begin());
    std::copy_n(image.held, held.size(), held.begin());
    return {.kind = static_cast<RowKind>(image.birth & ((1U << format::kRowKindBits) - 1)),
            .number = image.number,
            .path = SlotBits(path),
            .held = SlotBits(held),
            .birth = image.birth >> format::kRowKindBits,
            .horizon = image.horizon,
            .seal = image.seal,
            .moved_at = image.moved_at};
  }

 private:
  uint64_t HashOf(uint32_t index, const RowImage& image) const {
    return Hash64(&image, offsetof(RowImage, hash), SeedOf(index));
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

  uint64_t seed_;
  uint64_t where_;
};

RowCodec CodecOf(const StoreFiles& files, uint32_t bucket) {
  return {files.identity.seed_id(), bucket};
}

// Whether a row that passes its check can be one of `table`.
bool IsSound(const Row& row, const SlotTable& table) {
  const SlotBits none_past_the_end = SlotBits::First(table.row_records());
  if (row.kind > RowKind::kMoving || !((row.path | row.held) - none_past_the_end).empty()) {
    return false;
  }
  if (row.free()) return row.held.empty() && row.path.empty();
  if (row.number >> format::kSequenceBits != 0 || row.run_end() >> format::kSequenceBits != 0 ||
      row.horizon >> format::kSequenceBits != 0 || row.seal >> format::kSealBits != 0 ||
      row.birth >> format::kBirthBits != 0 || row.moved_at > row.birth) {
    return false;
  }
  if (!row.has_run()) return true;
  const auto next = table.runs().lower_bound(row.number);
  const bool is_before = next == table.runs().end() || row.run_end() <= next->first;
  return !row.is_moving() && is_before &&
         (next == table.runs().begin() ||
          table.rows()[std::prev(next)->second].run_end() <= row.number);
}

// Where the rows of one segment lie.
Status FindRows(const StoreFiles& files, uint32_t bucket, uint64_t segment, uint64_t* offset) {
  uint64_t number = 0;
  if (!files.slots.NumberOf(bucket, segment, &number)) {
    return Status::Corruption("bucket " + std::to_string(bucket) + ": segment " +
                              std::to_string(segment) + " has no place");
  }
  *offset = files.identity.geometry.RowsOffset(number);
  return Status::Ok();
}

Status FindRow(const StoreFiles& files, uint32_t bucket, uint64_t index, uint64_t* offset) {
  const uint32_t in_segment = files.identity.geometry.rows_per_segment();
  ENGINE_RACE_RETURN_IF_ERROR(FindRows(files, bucket, index / in_segment, offset));
  *offset += index % in_segment * sizeof(RowImages);
  return Status::Ok();
}

// Calls visit(offset, first, count) for rows [begin, end), those of neighbouring segments at once.
template <typename Visit>
Status ForRows(const StoreFiles& files, uint32_t bucket, uint64_t begin, uint64_t end,
               const Visit& visit) {
  const uint32_t in_segment = files.identity.geometry.rows_per_segment();
  while (begin < end) {
    uint64_t offset = 0;
    ENGINE_RACE_RETURN_IF_ERROR(FindRow(files, bucket, begin, &offset));
    uint64_t count = std::min(in_segment - begin % in_segment, end - begin);
    uint64_t next = 0;
    while (begin + count < end && count < kRowsAtOnce &&
           FindRow(files, bucket, begin + count, &next).ok() &&
           next == offset + count * sizeof(RowImages)) {
      count = std::min(count + in_segment, end - begin);
    }
    ENGINE_RACE_RETURN_IF_ERROR(visit(offset, begin, count));
    begin += count;
  }
  return Status::Ok();
}

// The images of one row that the head reaches, and which of them counts.
struct FoundRow {
  uint64_t offset = 0;
  RowImages images;
  uint32_t which = 0;
  uint64_t number = 0;
};

// kCorruption for a damaged row.
Status FindImages(const StoreFiles& files, uint32_t bucket, uint32_t index, FoundRow* found) {
  ENGINE_RACE_RETURN_IF_ERROR(FindRow(files, bucket, index, &found->offset));
  ENGINE_RACE_RETURN_IF_ERROR(
      files.rows.Read(&found->images, sizeof(found->images), found->offset));
  if (CodecOf(files, bucket).Find(index, found->images, &found->which, &found->number)) {
    return Status::Ok();
  }
  return Status::Corruption("bucket " + std::to_string(bucket) + ": row " + std::to_string(index) +
                            " is damaged");
}

}  // namespace

Status ReadRawRows(const StoreFiles& files, uint32_t bucket, RawRows* raw) {
  const Geometry& geometry = files.identity.geometry;
  *raw = RawRows();
  if (!files.rows.valid()) return Status::Ok();
  RowsHead head;
  ENGINE_RACE_RETURN_IF_ERROR(files.rows.Read(&head, sizeof(head), geometry.RowHeadOffset(bucket)));
  uint64_t row_end = 0;
  raw->is_whole = CodecOf(files, bucket).DecodeHead(head, &row_end);
  if (!raw->is_whole || row_end == format::kNoRows) return Status::Ok();
  // Rows without a place are damage, and take no memory.
  raw->is_whole = row_end <= std::min(geometry.rows_per_bucket(),
                                      files.slots.SlotEnd(bucket) / geometry.row_records());
  if (!raw->is_whole) return Status::Ok();
  raw->has_rows = true;
  raw->images.resize(row_end);
  Status read =
      ForRows(files, bucket, 0, row_end, [&](uint64_t offset, uint64_t first, uint64_t count) {
        return files.rows.Read(&raw->images[first], count * sizeof(RowImages), offset);
      });
  raw->is_whole = read.code() != Code::kCorruption;
  return raw->is_whole ? read : Status::Ok();
}

void DecodeRows(const StoreFiles& files, uint32_t bucket, const RawRows& raw, SlotTable* table,
                bool* damaged) {
  *table = SlotTable(files.identity.geometry);
  *damaged = !raw.is_whole;
  if (*damaged || !raw.has_rows) return;
  const RowCodec codec = CodecOf(files, bucket);
  table->BeginRows(0);
  for (uint32_t index = 0; index < raw.images.size(); ++index) {
    uint32_t which = 0;
    uint64_t number = 0;
    *damaged = !codec.Find(index, raw.images[index], &which, &number);
    if (*damaged) return;
    const Row row = RowCodec::Decode(raw.images[index].images[which]);
    *damaged = !IsSound(row, *table);
    if (*damaged) return;
    table->SetRow(index, row);
  }
}

Status ReadRows(const StoreFiles& files, uint32_t bucket, SlotTable* table, bool* damaged) {
  RawRows raw;
  ENGINE_RACE_RETURN_IF_ERROR(ReadRawRows(files, bucket, &raw));
  DecodeRows(files, bucket, raw, table, damaged);
  return Status::Ok();
}

Status ReadHasRows(const StoreFiles& files, uint32_t bucket, bool* has_rows) {
  RowsHead head;
  ENGINE_RACE_RETURN_IF_ERROR(
      files.rows.Read(&head, sizeof(head), files.identity.geometry.RowHeadOffset(bucket)));
  uint64_t row_end = 0;
  *has_rows = !CodecOf(files, bucket).DecodeHead(head, &row_end) || row_end != format::kNoRows;
  return Status::Ok();
}

Status ReadRow(const StoreFiles& files, uint32_t bucket, uint32_t index, Row* row) {
  FoundRow found;
  ENGINE_RACE_RETURN_IF_ERROR(FindImages(files, bucket, index, &found));
  *row = RowCodec::Decode(found.images.images[found.which]);
  return Status::Ok();
}

Status WriteNewRows(const StoreFiles& files, uint32_t bucket, uint32_t first,
                    std::span<const Row> rows) {
  if (rows.empty()) return Status::Ok();
  const uint64_t row_records = files.identity.geometry.row_records();
  ENGINE_RACE_RETURN_IF_ERROR(
      files.slots.Give(bucket, first * row_records, rows.size() * row_records));
  const RowCodec codec = CodecOf(files, bucket);
  std::vector<RowImages> images;
  return ForRows(files, bucket, first, first + rows.size(),
                 [&](uint64_t offset, uint64_t begin, uint64_t count) {
                   images.clear();
                   for (uint64_t i = begin; i < begin + count; ++i) {
                     images.push_back(codec.EncodeNew(static_cast<uint32_t>(i), rows[i - first]));
                   }
                   return files.rows.Write(images.data(), count * sizeof(RowImages), offset);
                 });
}

Status WriteRow(const StoreFiles& files, uint32_t bucket, uint32_t index, const Row& row) {
  FoundRow found;
  ENGINE_RACE_RETURN_IF_ERROR(FindImages(files, bucket, index, &found));
  const RowImage image = CodecOf(files, bucket).Encode(index, row, found.number + 1);
  return files.rows.Write(&image, sizeof(image), found.offset + (1 - found.which) * sizeof(image));
}

Status WriteRowsHead(const StoreFiles& files, uint32_t bucket, uint64_t row_end) {
  // One word: no part of it is written without the rest.
  const uint64_t word = CodecOf(files, bucket).EncodeHead(row_end).row_end;
  return files.rows.Write(&word, sizeof(word), files.identity.geometry.RowHeadOffset(bucket));
}

Status WriteTable(const StoreFiles& files, uint32_t bucket, const SlotTable& table) {
  ENGINE_RACE_ASSERT(table.has_rows());
  ENGINE_RACE_RETURN_IF_ERROR(WriteNewRows(files, bucket, 0, table.rows()));
  return WriteRowsHead(files, bucket, table.rows().size());
}

Status WriteRowsAgain(const StoreFiles& files) {
  if (!files.rows.valid()) return Status::Ok();
  Region piece;
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(kAgainBytes, /*huge_pages=*/false, &piece));
  size_t read_bytes = kAgainBytes;
  for (uint64_t offset = 0; read_bytes == kAgainBytes; offset += read_bytes) {
    ENGINE_RACE_RETURN_IF_ERROR(
        files.rows.ReadSome(piece.data(), kAgainBytes, offset, &read_bytes));
    for (size_t at = 0; at < read_bytes; at += kIoAlignment) {
      const size_t bytes = std::min<size_t>(kIoAlignment, read_bytes - at);
      // Holes stay holes: the disk may be full.
      if (!files.rows.MayHoldData(offset + at, offset + at + bytes)) continue;
      ENGINE_RACE_RETURN_IF_ERROR(files.rows.Write(piece.data() + at, bytes, offset + at));
    }
  }
  return Status::Ok();
}

Status CreateRowFile(const StoreFiles& files, mode_t file_mode, io::File* file) {
  const int dir_fd = files.directory.get();
  // A file without a manifest that knows it is from an interrupted call, and has no rows.
  ENGINE_RACE_RETURN_IF_ERROR(io::File::Open(dir_fd, format::kRowsName, io::Access::kReplace,
                                             io::Caching::kBuffered, file, file_mode));
  const Geometry& geometry = files.identity.geometry;
  std::vector<char> heads(geometry.RowsOffset(0));
  for (uint32_t bucket = 0; bucket < geometry.bucket_count; ++bucket) {
    const RowsHead head = CodecOf(files, bucket).EncodeHead(format::kNoRows);
    std::memcpy(heads.data() + geometry.RowHeadOffset(bucket), &head, sizeof(head));
  }
  ENGINE_RACE_RETURN_IF_ERROR(file->Write(heads.data(), heads.size(), 0));
  ENGINE_RACE_RETURN_IF_ERROR(file->Sync());
  return sys::Fsync(dir_fd);
}

}  // namespace engine_race
