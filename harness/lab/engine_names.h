// The names of the engine that the lab's variants are built from.
#ifndef HARNESS_LAB_ENGINE_NAMES_H_
#define HARNESS_LAB_ENGINE_NAMES_H_

#include "engine_race/base/guarded.h"
#include "engine_race/base/memory.h"
#include "engine_race/base/status.h"
#include "engine_race/base/swip.h"
#include "engine_race/base/sys.h"
#include "engine_race/l1/block_builder.h"
#include "engine_race/l1/block_owner.h"
#include "engine_race/l1/epoch.h"
#include "engine_race/l1/extent_file.h"
#include "engine_race/l1/frame_pool.h"
#include "engine_race/l1/key_words.h"
#include "engine_race/l1/node_search.h"
#include "engine_race/l1/table_shape.h"
#include "engine_race/l1/tree_block.h"

namespace lab {

namespace sys = engine_race::sys;

using engine_race::Code;
using engine_race::Guarded;
using engine_race::kIoAlignment;
using engine_race::Region;
using engine_race::Status;
using engine_race::Swip;
using engine_race::UniqueFd;
using engine_race::l1::BestNodeSearch;
using engine_race::l1::BlockBuilder;
using engine_race::l1::BlockEncoding;
using engine_race::l1::BlockEntry;
using engine_race::l1::BlockOwner;
using engine_race::l1::CommonPrefix;
using engine_race::l1::EpochManager;
using engine_race::l1::ExtentFile;
using engine_race::l1::FrameInfo;
using engine_race::l1::FrameOwner;
using engine_race::l1::FramePool;
using engine_race::l1::kBlockBodyBytes;
using engine_race::l1::kBlockBytes;
using engine_race::l1::kBlocksPerExtent;
using engine_race::l1::kMaxKeyBytes;
using engine_race::l1::kNoFrame;
using engine_race::l1::NodeSearchFn;
using engine_race::l1::NodeSearchKernel;
using engine_race::l1::NodeWords;
using engine_race::l1::TableShape;
using engine_race::l1::Touch;
using engine_race::l1::TreeBlock;

}  // namespace lab

#endif  // HARNESS_LAB_ENGINE_NAMES_H_
