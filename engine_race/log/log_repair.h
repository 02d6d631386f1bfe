// Puts the records of one bucket's tail where they belong in the logs, during a recovery. Gives
// rows to runs whose row was lost.
//
// Not synchronised; works on one bucket, which nobody else changes.
#ifndef ENGINE_RACE_LOG_LOG_REPAIR_H_
#define ENGINE_RACE_LOG_LOG_REPAIR_H_

#include <cstdint>

#include "engine_race/base/function_ref.h"
#include "engine_race/base/memory.h"
#include "engine_race/base/status.h"
#include "engine_race/log/entry_pages.h"
#include "engine_race/log/slot_table.h"
#include "engine_race/log/store_files.h"
#include "engine_race/log/tail.h"

namespace engine_race {

class LogRepair {
 public:
  // Works on the files and on *table, which outlive it. `flush_rows` makes the file of rows
  // durable.
  LogRepair(const StoreFiles& files, uint32_t bucket, uint64_t synced_watermark,
            FunctionRef<Status()> flush_rows, SlotTable* table)
      : files_(files),
        bucket_(bucket),
        synced_watermark_(synced_watermark),
        flush_rows_(flush_rows),
        table_(*table),
        pages_(files, bucket) {}

  Status Init() { return Region::Allocate(files_.identity.geometry.slot_bytes(), false, &value_); }
  // With the records of the tail in their order. kFull: there is no row or no space for one.
  Status Take(const TailRecord& found);
  // Writes the last page of entries.
  Status Finish() { return pages_.Finish(); }

 private:
  Status GiveRow(uint64_t sequence);
  SlotBits GapsOf(const Row& row) const { return SlotBits::First(table_.row_records()) - row.held; }
  bool FindGaps(uint32_t wanted, uint32_t* index) const;

  const StoreFiles& files_;
  const uint32_t bucket_;
  const uint64_t synced_watermark_;
  const FunctionRef<Status()> flush_rows_;
  SlotTable& table_;
  EntryPages pages_;
  Region value_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_LOG_REPAIR_H_
