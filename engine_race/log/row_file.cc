#include "engine_race/log/row_file.h"

#include <vector>

#include "engine_race/base/assert.h"
#include "engine_race/base/checksum.h"
#include "engine_race/base/sys.h"

namespace engine_race {
namespace {

using format::RowKind;
using format::RowsHead;
using format::RowWords;

constexpr uint32_t kContentBits = format::kSequenceBits + format::kRowKindBits;
constexpr uint32_t kCellsBits = format::kMaxRowCells + format::kRowCountBits;
constexpr uint32_t kRowEndBits = 32;
constexpr uint64_t kHeadSeed = 0x5d3c9f1be7a24681;
constexpr uint64_t kContentSeed = 0xc1a7b35f90d2e64b;
constexpr uint64_t kCellsSeed = 0x9be4d7716a3fc025;

// `payload` in the low bits, and a hash of it and of its place above.
uint64_t Checked(uint64_t seed, uint64_t where, uint64_t payload, uint32_t bits) {
  ENGINE_RACE_ASSERT(payload >> bits == 0);
  return MixWords(seed ^ payload * 0x9e3779b97f4a7c15, where + 0x2d358dccaa6c78a5) << bits |
         payload;
}

// The words of one bucket's rows.
class RowCodec {
 public:
  RowCodec(uint64_t store_id, uint32_t bucket) : seed_(store_id), where_(uint64_t{bucket} << 32) {}

  RowsHead EncodeHead(uint64_t row_end) const {
    return {Checked(seed_ ^ kHeadSeed, where_, row_end, kRowEndBits), 0};
  }
  bool DecodeHead(const RowsHead& head, uint64_t* row_end) const {
    *row_end = head.row_end & ((uint64_t{1} << kRowEndBits) - 1);
    return head.row_end == EncodeHead(*row_end).row_end;
  }
  RowWords Encode(uint32_t index, const Row& row) const {
    return {Checked(seed_ ^ kContentSeed, where_ | index, ContentOf(row), kContentBits),
            EncodeCells(index, row, ContentOf(row))};
  }
  // Words of zeros were never written. A write that fails may have changed the first word alone:
  // then the second one is still of what the row was before.
  bool Decode(uint32_t index, const RowWords& words, Row* row) const {
    *row = Row();
    if (words.content == 0 && words.cells == 0) return true;
    row->number = words.content & ((uint64_t{1} << format::kSequenceBits) - 1);
    row->kind = static_cast<RowKind>(words.content >> format::kSequenceBits &
                                     ((uint64_t{1} << format::kRowKindBits) - 1));
    row->freed_cells =
        static_cast<uint32_t>(words.cells & ((uint64_t{1} << format::kMaxRowCells) - 1));
    row->record_count = static_cast<uint32_t>(words.cells >> format::kMaxRowCells &
                                              ((uint64_t{1} << format::kRowCountBits) - 1));
    const RowWords wanted = Encode(index, *row);
    if (wanted.content != words.content) return false;
    if (wanted.cells == words.cells) return true;
    Row before;
    if (row->kind == RowKind::kMoved) {
      before = *row;
      before.kind = RowKind::kMoving;
      return EncodeCells(index, *row, ContentOf(before)) == words.cells;
    }
    // Nothing was stored in a row that could not be written.
    const bool was_free = words.cells == EncodeCells(index, before, ContentOf(before));
    if (!row->free() && !was_free) return false;
    *row = Row();
    return true;
  }

 private:
  static uint64_t ContentOf(const Row& row) {
    return row.number | static_cast<uint64_t>(row.kind) << format::kSequenceBits;
  }
  // Of this content: cells of an older one must not count.
  uint64_t EncodeCells(uint32_t index, const Row& row, uint64_t content) const {
    const uint64_t cells = row.freed_cells | uint64_t{row.record_count} << format::kMaxRowCells;
    return Checked(seed_ ^ kCellsSeed ^ content, where_ | index, cells, kCellsBits);
  }

  uint64_t seed_;
  uint64_t where_;
};

RowCodec CodecOf(const StoreFiles& files, uint32_t bucket) {
  return {files.identity.seed_id(), bucket};
}

uint64_t HeadOffset(const StoreFiles& files, uint32_t bucket) {
  return bucket * files.identity.geometry.rows_stride_bytes();
}
uint64_t RowOffset(const StoreFiles& files, uint32_t bucket, uint64_t index) {
  return HeadOffset(files, bucket) + (index + 1) * sizeof(RowWords);
}

}  // namespace

Status ReadRows(const StoreFiles& files, uint32_t bucket, SlotTable* table, bool* damaged) {
  const Geometry& geometry = files.identity.geometry;
  *table = SlotTable(geometry);
  *damaged = false;
  if (!files.rows.valid()) return Status::Ok();
  RowsHead head;
  ENGINE_RACE_RETURN_IF_ERROR(files.rows.Read(&head, sizeof(head), HeadOffset(files, bucket)));
  if (head.row_end == 0) return Status::Ok();
  const RowCodec codec = CodecOf(files, bucket);
  uint64_t row_end = 0;
  *damaged = !codec.DecodeHead(head, &row_end) || row_end > geometry.rows_per_bucket();
  if (*damaged) return Status::Ok();
  std::vector<RowWords> words(row_end);
  if (row_end > 0) {
    ENGINE_RACE_RETURN_IF_ERROR(
        files.rows.Read(words.data(), row_end * sizeof(RowWords), RowOffset(files, bucket, 0)));
  }
  table->BeginRows(0);
  for (uint32_t index = 0; index < row_end; ++index) {
    Row row;
    const bool is_sound = codec.Decode(index, words[index], &row) &&
                          row.record_count <= geometry.row_records() &&
                          row.freed_cells >> geometry.cells_per_row() == 0 &&
                          !(row.is_run() && table->runs().contains(row.number));
    if (!is_sound) {
      *damaged = true;
      return Status::Ok();
    }
    table->SetRow(index, row);
  }
  return Status::Ok();
}

Status WriteRow(const StoreFiles& files, uint32_t bucket, uint32_t index, const Row& row) {
  const RowWords words = CodecOf(files, bucket).Encode(index, row);
  return files.rows.Write(&words, sizeof(words), RowOffset(files, bucket, index));
}

Status WriteRowsHead(const StoreFiles& files, uint32_t bucket, uint64_t row_end) {
  // One word: no part of it is written without the rest.
  const uint64_t word = CodecOf(files, bucket).EncodeHead(row_end).row_end;
  return files.rows.Write(&word, sizeof(word), HeadOffset(files, bucket));
}

Status WriteTable(const StoreFiles& files, uint32_t bucket, const SlotTable& table) {
  ENGINE_RACE_ASSERT(table.has_rows());
  const RowCodec codec = CodecOf(files, bucket);
  std::vector<RowWords> words;
  for (uint32_t index = 0; index < table.rows().size(); ++index) {
    words.push_back(codec.Encode(index, table.rows()[index]));
  }
  if (!words.empty()) {
    ENGINE_RACE_RETURN_IF_ERROR(files.rows.Write(words.data(), words.size() * sizeof(RowWords),
                                                 RowOffset(files, bucket, 0)));
  }
  return WriteRowsHead(files, bucket, table.rows().size());
}

Status CreateRowFile(const StoreFiles& files, mode_t file_mode, io::File* file) {
  const int dir_fd = files.directory.get();
  const uint64_t size_bytes = files.identity.geometry.rows_file_bytes();
  ENGINE_RACE_RETURN_IF_ERROR(sys::CheckFileSizeLimit(size_bytes));
  // A file without a manifest that knows it is from an interrupted call, and has no rows.
  ENGINE_RACE_RETURN_IF_ERROR(io::File::Open(dir_fd, format::kRowsName, io::Access::kReplace,
                                             io::Caching::kBuffered, file, file_mode));
  ENGINE_RACE_RETURN_IF_ERROR(file->Truncate(size_bytes));
  ENGINE_RACE_RETURN_IF_ERROR(file->Sync());
  return sys::Fsync(dir_fd);
}

}  // namespace engine_race
