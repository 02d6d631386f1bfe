// Reads what the logs hold of appended records, wherever these lie.
//
// Thread safety: stateless functions. Nothing is verified.
#ifndef ENGINE_RACE_LOG_LOGGED_RECORDS_H_
#define ENGINE_RACE_LOG_LOGGED_RECORDS_H_

#include <cstdint>

#include "engine_race/base/status.h"
#include "engine_race/log/format.h"
#include "engine_race/log/slot_table.h"
#include "engine_race/log/store_files.h"

namespace engine_race {

// The entries of records [begin, end) of a bucket. Zeros where no row holds a record.
Status ReadLoggedKeys(const StoreFiles& files, uint32_t bucket, const SlotTable& table,
                      uint64_t begin, uint64_t end, format::KeyEntry* entries);
// Their values; `values` is aligned to kIoAlignment. Where no row holds a record, its place stays
// as it is.
Status ReadLoggedValues(const StoreFiles& files, uint32_t bucket, const SlotTable& table,
                        uint64_t begin, uint64_t end, char* values);

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_LOGGED_RECORDS_H_
