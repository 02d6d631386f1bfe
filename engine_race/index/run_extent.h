// Writes a sorted run as an extent, and checks and reads back what lies there.
//
// Pure functions over what they are given; thread-safe.
#ifndef ENGINE_RACE_INDEX_RUN_EXTENT_H_
#define ENGINE_RACE_INDEX_RUN_EXTENT_H_

#include "engine_race/base/status.h"
#include "engine_race/index/frame_slots.h"
#include "engine_race/index/paged_run.h"
#include "engine_race/index/sorted_run.h"
#include "engine_race/l1/extent_image.h"
#include "engine_race/l1/extent_store.h"
#include "engine_race/l1/key_search.h"

namespace engine_race {

// Writes the run, which is not empty and has at most format::kIndexExtentRecords records. Its words
// are written with their slots; they may be swizzled meanwhile. kFull, kIOError.
Status WriteRun(const SortedRun& run, const FrameSlots& slots, l1::ExtentStore* store,
                l1::ExtentImage* image, l1::ExtentId* id);

// Whether a whole block, number `block` of its extent, leads only where it may. Its keys, or the
// fences of the first block, ascend within `keys`. The words of records lead to slots below
// `slot_end`. A forged block that matches its checksum could lead anywhere.
bool IsSoundBlock(uint32_t block, const char* data, const l1::KeyBounds& keys, uint64_t slot_end);

// Reads all records of an extent into memory of `slabs`, or of its own without them. Leaves void
// words out, so *run may be empty. kCorruption, kIOError, kOutOfMemory.
Status ReadRun(const PagedRun& from, const l1::ExtentStore& store, SlabAllocator* slabs,
               const Placement& placement, SortedRun* run);

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_RUN_EXTENT_H_
