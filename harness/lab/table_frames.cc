#include "harness/lab/table_frames.h"

#include <thread>
#include <utility>

#include "harness/lab/block_shape.h"

namespace lab {

namespace {

void FindParent(uint32_t frame, FrameInfo* info) {
  if (info->tag == 0) return;
  const auto* const finder = reinterpret_cast<const ParentFinder*>(info->tag);
  info->parent = finder->FindParent(frame, &info->parent_frame);
}

}  // namespace

Status TableFrames::Create(uint32_t frame_count, EpochManager* epochs,
                           std::unique_ptr<TableFrames>* frames) {
  return Guarded([&] {
    std::unique_ptr<TableFrames> made(new TableFrames);
    ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(sizeof(ReaderCount) * frame_count,
                                                 /*huge_pages=*/false, &made->count_memory_));
    ENGINE_RACE_RETURN_IF_ERROR(FramePool::Create(kBlockBytes, frame_count, epochs, &made->pool_));
    made->pool_->SetOwner(FrameKind::kBlock, &made->owner_);
    *frames = std::move(made);
    return Status::Ok();
  });
}

uint32_t TableFrames::Take() {
  for (uint32_t i = 0; i < kPatience; ++i) {
    const uint32_t frame = pool_->Take();
    if (frame == kNoFrame) break;
    // Sequentially consistent, as are the accesses of CountReader. It counts itself first and then
    // checks whether the swip still leads here, which it no longer does. Also an acquire: pairs
    // with CountReader's release, so that its reads come before this load.
    if (reader_count(frame).load(std::memory_order_seq_cst) == 0) {
      pool_->info(frame).children.reset();
      return frame;
    }
    // Put behind the other free frames. Readers never stay long.
    pool_->GiveBack(frame);
    std::this_thread::yield();
  }
  return kNoFrame;
}

FrameOwner::Cooled TableFrames::Owner::Cool(uint32_t frame, FrameInfo* info) noexcept {
  FindParent(frame, info);
  return blocks_.Cool(frame, info);
}

bool TableFrames::Owner::WasHeated(uint32_t frame, FrameInfo* info) noexcept {
  FindParent(frame, info);
  return blocks_.WasHeated(frame, info);
}

bool TableFrames::Owner::Unswizzle(uint32_t frame, FrameInfo* info, bool only_cooling) noexcept {
  FindParent(frame, info);
  return blocks_.Unswizzle(frame, info, only_cooling);
}

void TableFrames::Owner::Release(uint32_t frame, FrameInfo* info) noexcept {
  // Sequentially consistent: see Take, which handles frames that counted readers still read.
  if (frames_.reader_count(frame).load(std::memory_order_seq_cst) == 0) {
    blocks_.Release(frame, info);
  }
}

}  // namespace lab
