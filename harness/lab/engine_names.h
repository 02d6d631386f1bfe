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
#include "harness/data/table_shape.h"

namespace lab {

namespace io = engine_race::io;
namespace sys = engine_race::sys;

using engine_race::Code;
using engine_race::Guarded;
using engine_race::kIoAlignment;
using engine_race::Region;
using engine_race::Status;
using engine_race::Swip;
using engine_race::Touch;
using engine_race::UniqueFd;
using engine_race::l1::BlockOwner;
using engine_race::l1::EpochManager;
using engine_race::l1::FrameInfo;
using engine_race::l1::FrameKind;
using engine_race::l1::FrameOwner;
using engine_race::l1::FramePool;
using engine_race::l1::GuessRank;
using engine_race::l1::kNoFrame;
using harness::kMaxKeyBytes;
using harness::kMaxPayloadBytes;
using harness::TableShape;

}  // namespace lab

#endif  // HARNESS_LAB_ENGINE_NAMES_H_
