#include "engine_race/log/row_file.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

#include "engine_race/base/assert.h"
#include "engine_race/base/memory.h"
#include "engine_race/base/sys.h"
#include "engine_race/log/row_codec.h"

namespace engine_race {
namespace {

using format::RowImage;
using format::RowImages;
using format::RowKind;
using format::RowsHead;

// Rows of a bucket that one call of the system reads or writes, at most.
constexpr size_t kRowsAtOnce = 256;
// Rows of several buckets that are read at once. The kernel would map and clear the pages of a
// much larger buffer anew for each reading.
constexpr uint64_t kReadBytes = kRowsAtOnce * sizeof(RowImages);
// How much of the file is read at once to be written again.
constexpr size_t kAgainBytes = size_t{1} << 20;
// Rows of other buckets between two pieces cost less than another call of the system.
constexpr uint64_t kMaxGapBytes = 4096;

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

// Rows of one bucket that lie together in the file.
struct RowPiece {
  uint32_t bucket = 0;
  uint64_t first = 0;
  uint64_t count = 0;
  uint64_t number = 0;  // of the first row's place
  uint64_t offset = 0;

  uint64_t end_offset() const { return offset + count * sizeof(RowImages); }
};

// Calls visit(piece) for those of rows [begin, end) that have places, neighbouring ones at once.
template <typename Visit>
Status ForRows(const StoreFiles& files, uint32_t bucket, uint64_t begin, uint64_t end,
               const Visit& visit) {
  while (begin < end) {
    RowPiece piece = {.bucket = bucket, .first = begin, .count = 1};
    if (files.slots.NumberOf(bucket, begin, &piece.number)) {
      piece.offset = files.identity.geometry.RowsOffset(piece.number);
      uint64_t next = 0;
      while (begin + piece.count < end && piece.count < kRowsAtOnce &&
             files.slots.NumberOf(bucket, begin + piece.count, &next) &&
             next == piece.number + piece.count) {
        ++piece.count;
      }
      ENGINE_RACE_RETURN_IF_ERROR(visit(piece));
    }
    begin += piece.count;
  }
  return Status::Ok();
}

// kCorruption for a damaged row, and for one without a place.
Status FindRow(const StoreFiles& files, uint32_t bucket, uint32_t index, uint64_t* offset,
               RowCodec::Found* found) {
  const std::string row = "bucket " + std::to_string(bucket) + ": row " + std::to_string(index);
  uint64_t number = 0;
  if (!files.slots.NumberOf(bucket, index, &number)) {
    return Status::Corruption(row + " has no place");
  }
  *offset = files.identity.geometry.RowsOffset(number);
  // Behind the end of the file there are zeros.
  RowImages images{};
  size_t read_bytes = 0;
  ENGINE_RACE_RETURN_IF_ERROR(files.rows.ReadSome(&images, sizeof(images), *offset, &read_bytes));
  const bool is_sound = CodecOf(files, bucket).Find(index, number, images, found);
  return is_sound ? Status::Ok() : Status::Corruption(row + " is damaged");
}

// Appends the pieces of the file that have a bucket's rows, up to the head's row end. False: the
// head is damaged, or its last row has no place. No rows: *row_end is kNoRows.
bool FindPieces(const StoreFiles& files, uint32_t bucket, const RowsHead& head, uint64_t* row_end,
                std::vector<RowPiece>* pieces) {
  if (!CodecOf(files, bucket).DecodeHead(head, row_end)) return false;
  if (*row_end == format::kNoRows) return true;
  if (*row_end > files.identity.geometry.rows_per_bucket() ||
      (*row_end != 0 && !files.slots.HasPlace(bucket, *row_end - 1))) {
    return false;
  }
  static_cast<void>(ForRows(files, bucket, 0, *row_end, [&](const RowPiece& piece) {
    pieces->push_back(piece);
    return Status::Ok();
  }));
  return true;
}

// Reads the rows of neighbouring buckets. Calls begin(bucket, is_whole, row_end, births) for each,
// and then visit(piece, images), in the file's order. Images behind the file's end are null. The
// last row of a whole bucket has a place, so `row_end` may size memory.
template <typename Begin, typename Visit>
Status VisitRows(const StoreFiles& files, uint32_t first_bucket, size_t bucket_count,
                 const Begin& begin, const Visit& visit) {
  std::vector<RowsHead> heads(bucket_count);
  ENGINE_RACE_RETURN_IF_ERROR(files.rows.Read(heads.data(), heads.size() * sizeof(heads[0]),
                                              files.identity.geometry.RowHeadOffset(first_bucket)));
  std::vector<RowPiece> pieces;
  for (uint32_t i = 0; i < bucket_count; ++i) {
    uint64_t row_end = 0;
    const bool is_whole = FindPieces(files, first_bucket + i, heads[i], &row_end, &pieces);
    begin(first_bucket + i, is_whole, row_end, heads[i].births);
  }
  std::sort(pieces.begin(), pieces.end(),
            [](const RowPiece& a, const RowPiece& b) { return a.offset < b.offset; });
  std::vector<RowImages> buffer;
  for (std::span<const RowPiece> left = pieces; !left.empty();) {
    const uint64_t offset = left[0].offset;
    size_t count = 1;
    while (count < left.size() &&
           left[count].offset <= left[count - 1].end_offset() + kMaxGapBytes &&
           left[count].end_offset() <= offset + kReadBytes) {
      ++count;
    }
    const uint64_t bytes = left[count - 1].end_offset() - offset;
    buffer.resize(std::max(buffer.size(), bytes / sizeof(RowImages)));
    size_t read_bytes = 0;
    ENGINE_RACE_RETURN_IF_ERROR(files.rows.ReadSome(buffer.data(), bytes, offset, &read_bytes));
    for (const RowPiece& piece : left.first(count)) {
      const bool is_read = piece.end_offset() <= offset + read_bytes;
      visit(piece, is_read ? &buffer[(piece.offset - offset) / sizeof(RowImages)] : nullptr);
    }
    left = left.subspan(count);
  }
  return Status::Ok();
}

// Adds rows to those of a bucket. Once it is damaged, no more are added.
void AddRows(const RowCodec& codec, const RowPiece& piece, const RowImages* images,
             BucketRows* rows) {
  rows->damaged = rows->damaged || images == nullptr;
  for (uint32_t i = 0; i < piece.count && !rows->damaged; ++i) {
    const auto index = static_cast<uint32_t>(piece.first + i);
    RowCodec::Found found;
    rows->damaged =
        !codec.Find(index, piece.number + i, images[i], &found) || !IsSound(found.row, rows->table);
    if (!rows->damaged) rows->table.SetRow(index, found.row);
  }
}

}  // namespace

Status ReadRawRows(const StoreFiles& files, uint32_t bucket, RawRows* raw) {
  *raw = RawRows();
  if (!files.rows.valid()) return Status::Ok();
  const auto begin = [&](uint32_t /*bucket*/, bool is_whole, uint64_t row_end, uint64_t births) {
    raw->is_whole = is_whole;
    raw->has_rows = is_whole && row_end != format::kNoRows;
    raw->births = births;
    if (!raw->has_rows) return;
    raw->numbers.assign(row_end, RawRows::kNoPlace);
    raw->images.resize(row_end);
  };
  return VisitRows(files, bucket, 1, begin, [&](const RowPiece& piece, const RowImages* images) {
    raw->is_whole = raw->is_whole && images != nullptr;
    if (images == nullptr) return;
    std::iota(&raw->numbers[piece.first], &raw->numbers[piece.first] + piece.count, piece.number);
    std::copy_n(images, piece.count, &raw->images[piece.first]);
  });
}

void DecodeRows(const StoreFiles& files, uint32_t bucket, const RawRows& raw, BucketRows* rows) {
  *rows = {.table = SlotTable(files.identity.geometry), .damaged = !raw.is_whole};
  if (rows->damaged || !raw.has_rows) return;
  rows->table.BeginRows(0);
  rows->table.RaiseBirths(raw.births);
  for (uint64_t row = 0; row < raw.images.size(); ++row) {
    if (raw.numbers[row] == RawRows::kNoPlace) continue;
    AddRows(CodecOf(files, bucket), {bucket, row, 1, raw.numbers[row]}, &raw.images[row], rows);
  }
}

Status ReadRows(const StoreFiles& files, uint32_t first_bucket, std::span<BucketRows> buckets) {
  for (BucketRows& rows : buckets) rows = {.table = SlotTable(files.identity.geometry)};
  if (!files.rows.valid()) return Status::Ok();
  const auto begin = [&](uint32_t bucket, bool is_whole, uint64_t row_end, uint64_t births) {
    BucketRows& rows = buckets[bucket - first_bucket];
    rows.damaged = !is_whole;
    if (!is_whole || row_end == format::kNoRows) return;
    rows.table.BeginRows(0);
    rows.table.RaiseBirths(births);
    rows.table.Reserve(row_end);
  };
  return VisitRows(files, first_bucket, buckets.size(), begin,
                   [&](const RowPiece& piece, const RowImages* images) {
                     AddRows(CodecOf(files, piece.bucket), piece, images,
                             &buckets[piece.bucket - first_bucket]);
                   });
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
  uint64_t offset = 0;
  RowCodec::Found found;
  ENGINE_RACE_RETURN_IF_ERROR(FindRow(files, bucket, index, &offset, &found));
  *row = found.row;
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
  return ForRows(files, bucket, first, first + rows.size(), [&](const RowPiece& piece) {
    images.clear();
    for (uint64_t i = piece.first; i < piece.first + piece.count; ++i) {
      images.push_back(codec.EncodeNew(static_cast<uint32_t>(i), rows[i - first]));
    }
    return files.rows.Write(images.data(), images.size() * sizeof(RowImages), piece.offset);
  });
}

Status WriteRow(const StoreFiles& files, uint32_t bucket, uint32_t index, const Row& row) {
  uint64_t offset = 0;
  RowCodec::Found found;
  ENGINE_RACE_RETURN_IF_ERROR(FindRow(files, bucket, index, &offset, &found));
  const RowImage image = CodecOf(files, bucket).Encode(index, row, found.number + 1);
  return files.rows.Write(&image, sizeof(image), offset + (1 - found.which) * sizeof(image));
}

Status WriteVacantRow(const StoreFiles& files, uint64_t place_number) {
  const RowImages images = CodecOf(files, format::kNoBucket).EncodeVacant(place_number);
  return files.rows.Write(&images, sizeof(images),
                          files.identity.geometry.RowsOffset(place_number));
}

Status PlaceRow(const StoreFiles& files, uint32_t bucket, uint32_t index,
                FunctionRef<Status()> flush) {
  const auto prepare = [&](uint64_t number) {
    ENGINE_RACE_RETURN_IF_ERROR(WriteVacantRow(files, number));
    return flush();
  };
  const SegmentTable::PrepareFn prepare_fn = prepare;
  return files.slots.GiveRow(bucket, index, &prepare_fn);
}

Status WriteRowsHead(const StoreFiles& files, uint32_t bucket, uint64_t row_end, uint64_t births) {
  const RowsHead head = CodecOf(files, bucket).EncodeHead(row_end, births);
  return files.rows.Write(&head, sizeof(head), files.identity.geometry.RowHeadOffset(bucket));
}

uint64_t PlacedRowEnd(const StoreFiles& files, uint32_t bucket, uint64_t row_end) {
  while (row_end > 0 && !files.slots.HasPlace(bucket, row_end - 1)) --row_end;
  return row_end;
}

Status WriteTable(const StoreFiles& files, uint32_t bucket, const SlotTable& table) {
  ENGINE_RACE_ASSERT(table.has_rows());
  const std::span<const Row> rows = table.rows();
  const auto is_left_out = [&](uint32_t index) {
    return rows[index].free() && !files.slots.HasPlace(bucket, index);
  };
  for (uint32_t index = 0; index < rows.size();) {
    const uint32_t first = index;
    while (index < rows.size() && !is_left_out(index)) ++index;
    ENGINE_RACE_RETURN_IF_ERROR(
        WriteNewRows(files, bucket, first, rows.subspan(first, index - first)));
    if (index == first) ++index;
  }
  return WriteRowsHead(files, bucket, PlacedRowEnd(files, bucket, rows.size()), table.births());
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
    const RowsHead head = CodecOf(files, bucket).EncodeHead(format::kNoRows, 0);
    std::memcpy(heads.data() + geometry.RowHeadOffset(bucket), &head, sizeof(head));
  }
  ENGINE_RACE_RETURN_IF_ERROR(file->Write(heads.data(), heads.size(), 0));
  ENGINE_RACE_RETURN_IF_ERROR(file->Sync());
  return sys::Fsync(dir_fd);
}

}  // namespace engine_race
