// Rows of slots made by hand: in stores that were written and closed, and by moving records.
#ifndef TEST_LOG_ROW_TEST_UTIL_H_
#define TEST_LOG_ROW_TEST_UTIL_H_

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine_race/base/memory.h"
#include "engine_race/log/manifest.h"
#include "engine_race/log/row_file.h"
#include "engine_race/log/row_mover.h"
#include "engine_race/log/store_files.h"
#include "test/log/log_test_util.h"

namespace engine_race::test {

// Opens a closed store to change it past the engine. It has a file of rows from then on.
inline void OpenWithRows(const Options& options, const std::string& dir, StoreFiles* files) {
  const Status opened = OpenStoreFiles(options, dir, files);
  ASSERT_TRUE(opened.ok()) << opened.ToString();
  if (files->rows.valid()) return;
  ASSERT_TRUE(CreateRowFile(*files, options.file_mode, &files->rows).ok());
  files->identity.has_rows = true;
  ASSERT_TRUE(WriteManifest(files->directory.get(), files->identity, options.file_mode).ok());
}

// A run of a whole row.
inline Row RunRow(uint32_t row_records, uint64_t number) {
  const SlotBits all = SlotBits::First(row_records);
  return {.kind = format::RowKind::kUsed, .number = number, .path = all, .held = all};
}

// The bytes of one row.
struct RowImage {
  Region keys;
  Region values;
};

inline void ReadRowImage(const StoreFiles& files, uint32_t bucket, uint64_t row, RowImage* image) {
  const Geometry& geometry = files.identity.geometry;
  const uint64_t records = geometry.row_records();
  const uint64_t key_bytes = records * sizeof(format::KeyEntry);
  ASSERT_TRUE(Region::Allocate(key_bytes, /*huge_pages=*/false, &image->keys).ok());
  ASSERT_TRUE(Region::Allocate(records * kValueBytes, /*huge_pages=*/false, &image->values).ok());
  ASSERT_TRUE(files.slots.ReadKeys(bucket, row * records, records, image->keys.data()).ok());
  ASSERT_TRUE(files.slots.ReadValues(bucket, row * records, records, image->values.data()).ok());
}

inline void WriteRowImage(const StoreFiles& files, uint32_t bucket, uint64_t row,
                          const RowImage& image) {
  const Geometry& geometry = files.identity.geometry;
  const uint64_t records = geometry.row_records();
  ASSERT_TRUE(files.slots.WriteKeys(bucket, row * records, records, image.keys.data()).ok());
  ASSERT_TRUE(files.slots.WriteValues(bucket, row * records, records, image.values.data()).ok());
}

// Run i of the bucket gets row row_of_run[i], which has a row for each run. Rows that no run gets
// are free, and keep what lay in them. The store is closed and its bucket has had no rows.
inline void ScatterRuns(const Options& options, const std::string& dir, uint32_t bucket,
                        const std::vector<uint32_t>& row_of_run) {
  StoreFiles files;
  ASSERT_NO_FATAL_FAILURE(OpenWithRows(options, dir, &files));
  std::vector<RowImage> images(row_of_run.size());
  for (size_t run = 0; run < images.size(); ++run) {
    ASSERT_NO_FATAL_FAILURE(ReadRowImage(files, bucket, run, &images[run]));
  }
  SlotTable table(files.identity.geometry);
  for (size_t run = 0; run < images.size(); ++run) {
    ASSERT_NO_FATAL_FAILURE(WriteRowImage(files, bucket, row_of_run[run], images[run]));
    table.SetRow(row_of_run[run], RunRow(table.row_records(), run * table.row_records()));
  }
  ASSERT_TRUE(WriteTable(files, bucket, table).ok());
}

// Writes the records of a full row to another row, and gives up the first one.
inline void MoveRow(BucketLog* log, uint32_t bucket, uint32_t from_row, uint32_t* moved_row) {
  RowMover& mover = log->mover();
  const uint64_t row_records = log->geometry().row_records();
  std::vector<KeyRecord> moved = RecordsOf(log, bucket);
  std::erase_if(moved, [&](const KeyRecord& each) { return each.slot / row_records != from_row; });
  ASSERT_EQ(moved.size(), row_records);
  ASSERT_TRUE(mover.Claim(bucket));
  ASSERT_TRUE(mover.Begin(bucket).ok());
  ASSERT_TRUE(mover.TakeRow(bucket, /*kept_count=*/0, moved_row).ok());
  const uint64_t group = log->geometry().values_per_group();
  Region values;
  ASSERT_TRUE(Region::Allocate(group * kValueBytes, /*huge_pages=*/false, &values).ok());
  for (uint64_t i = 0; i < row_records; i += group) {
    const uint64_t slot = *moved_row * row_records + i;
    ASSERT_TRUE(
        log->slots().ReadValues(bucket, from_row * row_records + i, group, values.data()).ok());
    ASSERT_TRUE(mover.WriteValues(bucket, slot, group, values.data()).ok());
  }
  ASSERT_TRUE(mover.Publish(bucket, *moved_row, log->RecordCount(bucket), moved).ok());
  FreedSlots freed;
  mover.Describe(bucket, from_row, &freed);
  freed.slots = SlotBits::First(log->geometry().row_records());
  ASSERT_TRUE(mover.Free({&freed, 1}).ok());
  mover.Unclaim(bucket);
}

// Gives up slots of a row as a cleaner does, of which the records are dead. They are released
// unless somebody may come to them.
inline void GiveUpSlots(BucketLog* log, uint32_t bucket, uint32_t row, const SlotBits& slots) {
  RowMover& mover = log->mover();
  ASSERT_TRUE(mover.Claim(bucket));
  ASSERT_TRUE(mover.Begin(bucket).ok());
  FreedSlots freed;
  mover.Describe(bucket, row, &freed);
  freed.slots = slots;
  ASSERT_TRUE(mover.Free({&freed, 1}).ok());
  mover.Unclaim(bucket);
  ASSERT_TRUE(mover.Settle().ok());
  mover.Release();
}

// Gives the records of a bucket the numbers from `first` on, in the rows of their runs. The records
// are whole groups that lie in the logs. The store is closed and its bucket has had no rows.
// `first` is a multiple of 2^11, so places of staging stay as they are.
inline void RenumberRecords(const Options& options, const std::string& dir, uint32_t bucket,
                            uint64_t first, uint64_t record_count) {
  constexpr uint64_t kStep = uint64_t{1} << 11;
  uint64_t store_id = 0;
  {
    StoreFiles files;
    ASSERT_NO_FATAL_FAILURE(OpenWithRows(options, dir, &files));
    const uint64_t row_records = files.identity.geometry.row_records();
    ASSERT_TRUE(first % kStep == 0 && record_count % row_records == 0 && kStep % row_records == 0);
    store_id = files.identity.seed_id();
    const EntryCodec codec(store_id, bucket);
    SlotTable table(files.identity.geometry);
    for (uint32_t row = 0; row < record_count / row_records; ++row) {
      RowImage image;
      ASSERT_NO_FATAL_FAILURE(ReadRowImage(files, bucket, row, &image));
      auto* const entries = reinterpret_cast<format::KeyEntry*>(image.keys.data());
      for (uint64_t i = 0; i < row_records; ++i) {
        KeyRecord record;
        const uint64_t slot = row * row_records + i;
        ASSERT_TRUE(SlotTable::DecodeAppended(codec, entries[i], slot, &record)) << slot;
        entries[i] = SlotTable::EncodeAppended(codec, record, first + slot);
      }
      ASSERT_NO_FATAL_FAILURE(WriteRowImage(files, bucket, row, image));
      table.SetRow(row, RunRow(table.row_records(), first + row * row_records));
    }
    ASSERT_TRUE(WriteTable(files, bucket, table).ok());
  }
  const uint64_t count = (first + record_count) & format::kCountMask;
  for (const format::WordKind kind : {format::WordKind::kRecords, format::WordKind::kLoggedValues,
                                      format::WordKind::kLoggedKeys, format::WordKind::kSynced}) {
    SetWord(dir, store_id, bucket, kind, count);
  }
}

}  // namespace engine_race::test

#endif  // TEST_LOG_ROW_TEST_UTIL_H_
