// The file that says what the rows of slots hold: key_rows.
//
// Only stores that use slots again have it. A bucket whose head is kNoRows has no rows there: its
// slots are sequence numbers.
//
// Thread safety: the reads from any thread; writes of one bucket by one thread at a time. They go
// through the page cache and outlive the process. Flush makes them outlive power loss.
#ifndef ENGINE_RACE_LOG_ROW_FILE_H_
#define ENGINE_RACE_LOG_ROW_FILE_H_

#include <sys/types.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "engine_race/base/function_ref.h"
#include "engine_race/base/status.h"
#include "engine_race/log/slot_table.h"
#include "engine_race/log/store_files.h"

namespace engine_race {

// The rows of a bucket as the file has them.
struct RawRows {
  static constexpr uint64_t kNoPlace = ~uint64_t{0};

  bool is_whole = true;  // false: the head is damaged, or its last row has no place
  bool has_rows = false;
  uint64_t births = 0;  // of the head
  // By row: the number of its place in the table of segments, and what lies there.
  std::vector<uint64_t> numbers;
  std::vector<format::RowImages> images;

  friend bool operator==(const RawRows& a, const RawRows& b) {
    return a.is_whole == b.is_whole && a.has_rows == b.has_rows && a.births == b.births &&
           a.numbers == b.numbers && a.images.size() == b.images.size() &&
           (a.images.empty() || std::memcmp(a.images.data(), b.images.data(),
                                            a.images.size() * sizeof(a.images[0])) == 0);
  }
};
Status ReadRawRows(const StoreFiles& files, uint32_t bucket, RawRows* raw);

// The rows of a bucket, decoded.
struct BucketRows {
  SlotTable table;
  // Not all of them are there, an image is damaged, or rows contradict each other.
  bool damaged = false;
};
void DecodeRows(const StoreFiles& files, uint32_t bucket, const RawRows& raw, BucketRows* rows);
// Reads the rows of neighbouring buckets, from `first_bucket` on, and decodes them. Their heads lie
// together in the file, and their rows often do: that takes few calls of the system. kIOError.
Status ReadRows(const StoreFiles& files, uint32_t first_bucket, std::span<BucketRows> buckets);

// Whether the bucket has rows there. True for a head that is damaged, too.
Status ReadHasRows(const StoreFiles& files, uint32_t bucket, bool* has_rows);
// Reads one row that the head reaches. kCorruption if it is damaged or has no place, also while
// another process changes it.
Status ReadRow(const StoreFiles& files, uint32_t bucket, uint32_t index, Row* row);

// Writes rows that the head does not reach, from `first` on. They must be durable before it does:
// a row that it reaches and that was never written is damage. Their segments get places. kFull on a
// full disk.
Status WriteNewRows(const StoreFiles& files, uint32_t bucket, uint32_t first,
                    std::span<const Row> rows);
// Writes a row once more. kFull on a full disk, when nothing has changed. kCorruption if the row is
// damaged.
Status WriteRow(const StoreFiles& files, uint32_t bucket, uint32_t index, const Row& row);
// A place is to belong to no bucket: what it says of a row is that it is free.
Status WriteVacantRow(const StoreFiles& files, uint64_t place_number);
// Gives a free row a place again. Before that, the place gets vacant images, and `flush` makes the
// file of rows durable. The head is to be written next.
Status PlaceRow(const StoreFiles& files, uint32_t bucket, uint32_t index,
                FunctionRef<Status()> flush);
// Says that the bucket has rows, that those from `row_end` on do not count, and that it has had so
// many births. The last row before `row_end` has a place.
Status WriteRowsHead(const StoreFiles& files, uint32_t bucket, uint64_t row_end, uint64_t births);
// Behind the last of the first `row_end` rows that has a place.
uint64_t PlacedRowEnd(const StoreFiles& files, uint32_t bucket, uint64_t row_end);
// Writes all rows of a table and then the head, into a file that does not count yet. Free rows get
// no places.
Status WriteTable(const StoreFiles& files, uint32_t bucket, const SlotTable& table);

// Writes the file once more, but for its holes, where there is one. A flush that failed may have
// left pages that the kernel holds for clean and no disk has.
Status WriteRowsAgain(const StoreFiles& files);

// Makes the file durably, where there is none yet, and has it open in *file.
Status CreateRowFile(const StoreFiles& files, mode_t file_mode, io::File* file);

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_ROW_FILE_H_
