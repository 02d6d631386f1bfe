// The order in which the records of a bucket with rows are verified.
//
// Thread safety: a stateless function.
#ifndef ENGINE_RACE_COPIES_SLOTS_IN_ORDER_H_
#define ENGINE_RACE_COPIES_SLOTS_IN_ORDER_H_

#include <cstdint>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/log/slot_table.h"
#include "engine_race/log/store_files.h"

namespace engine_race {

// Adds the slots that hold records of a bucket with `record_count` records, those of older records
// and older copies first. Slots whose entries cannot be read may come anywhere. May throw
// std::bad_alloc.
Status SlotsInOrder(const StoreFiles& files, uint32_t bucket, const SlotTable& table,
                    uint64_t record_count, std::vector<uint64_t>* slots);

}  // namespace engine_race

#endif  // ENGINE_RACE_COPIES_SLOTS_IN_ORDER_H_
