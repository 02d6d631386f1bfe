// The names of the engine, and of the records in tables, that the lab's variants are built from.
#ifndef HARNESS_LAB_ENGINE_NAMES_H_
#define HARNESS_LAB_ENGINE_NAMES_H_

#include "engine_race/base/assert.h"
#include "engine_race/base/guarded.h"
#include "engine_race/base/memory.h"
#include "engine_race/base/status.h"
#include "engine_race/base/swip.h"
#include "engine_race/base/sys.h"
#include "engine_race/base/touch.h"
#include "engine_race/io/file.h"
#include "engine_race/l1/block_owner.h"
#include "engine_race/l1/epoch.h"
#include "engine_race/l1/frame_pool.h"
#include "engine_race/l1/key_search.h"
#include "harness/load/l1_lookups.h"

namespace engine_race::lab {

using harness::kMaxKeyBytes;
using harness::kMaxPayloadBytes;
using harness::TableShape;
using l1::BlockOwner;
using l1::EpochManager;
using l1::FrameInfo;
using l1::FrameKind;
using l1::FramePool;
using l1::GuessRank;
using l1::kNoFrame;

}  // namespace engine_race::lab

#endif  // HARNESS_LAB_ENGINE_NAMES_H_
