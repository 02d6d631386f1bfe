#include "engine_race/l1/table.h"

#include <cstring>
#include <new>

#include "engine_race/l1/block_view.h"

namespace engine_race::l1 {

namespace {

// So often a lookup brings a block into memory and then finds another one gone, before it reads
// what it needs past the frames.
constexpr uint32_t kMaxLoads = 4;

}  // namespace

Status Table::Open(int dir_fd, const std::string& name, const TableOptions& options,
                   FramePool* pool, EpochManager* epochs, BlockCache* cache,
                   std::unique_ptr<Table>* table) {
  try {
    std::unique_ptr<Table> opened(new Table);
    ENGINE_RACE_RETURN_IF_ERROR(ExtentFile::Open(dir_fd, name, &opened->file_));
    opened->options_ = options;
    if (options.search == nullptr) opened->options_.search = NodeSearchKernel(BestNodeSearch());
    opened->pool_ = pool;
    opened->epochs_ = epochs;
    opened->cache_ = cache;
    const uint32_t extent_count = opened->file_->extent_count();
    opened->roots_ = std::make_unique<std::atomic<uint64_t>[]>(extent_count);
    *table = std::move(opened);
    return Status::Ok();
  } catch (const std::bad_alloc&) {
    return Status::OutOfMemory("l1: no memory for a table");
  }
}

Status Table::Get(const char* key, char* payload) const { return GetByPointer(key, payload); }

Status Table::GetByPointer(const char* key, char* payload) const {
  const uint32_t extent = file_->ExtentOf(key);
  if (extent == file_->extent_count()) return Status::NotFound();
  const Encoding encoding = file_->encoding();
  for (uint32_t loads = 0; loads < kMaxLoads; ++loads) {
    uint32_t missing = 0;
    {
      const EpochManager::Guard guard(*epochs_);
      // Sequentially consistent, here and below: behind the entry into the epoch.
      const Swip root(roots_[extent].load(std::memory_order_seq_cst));
      if (root.hot()) [[likely]] {
        if (root.cooling()) [[unlikely]] {
          FramePool::Heat(&roots_[extent], root);
        }
        const uint32_t rank =
            LowerBoundInBlock(encoding, pool_->data(root.number()), key, options_.search);
        std::atomic<uint64_t>* const parent = &pool_->info(root.number()).children[rank];
        const Swip child(parent->load(std::memory_order_seq_cst));
        if (child.hot()) [[likely]] {
          if (child.cooling()) [[unlikely]] {
            FramePool::Heat(parent, child);
          }
          const char* const found =
              FindInBlock(encoding, pool_->data(child.number()), key, options_.search);
          if (found == nullptr) return Status::NotFound();
          std::memcpy(payload, found, file_->shape().payload_bytes);
          return Status::Ok();
        }
        missing = rank + 1;
      }
    }
    const Status loaded = Load(extent, missing);
    if (loaded.code() == Code::kFull) break;
    ENGINE_RACE_RETURN_IF_ERROR(loaded);
  }
  return GetFromDisk(extent, key, payload);
}

Status Table::Load(uint32_t extent, uint32_t block) const {
  const uint32_t frame = pool_->Take();
  if (frame == FramePool::kNoFrame) return Status::Full("l1: no frame can be had");
  FrameInfo& info = pool_->info(frame);
  Status status = file_->ReadBlock(extent, block, pool_->data(frame));
  if (status.ok() && block == 0) {
    const uint32_t count = file_->block_count(extent);
    info.children.reset(new (std::nothrow) std::atomic<uint64_t>[count]());
    if (info.children == nullptr) status = Status::OutOfMemory("l1: swips of an index block");
  }
  bool installed = false;
  if (status.ok()) {
    info.place = block;
    info.parent_frame = FramePool::kNoFrame;
    info.parent = &roots_[extent];
    const EpochManager::Guard guard(*epochs_);
    // Sequentially consistent: behind the entry into the epoch.
    const Swip root(roots_[extent].load(std::memory_order_seq_cst));
    if (block == 0) {
      installed = !root.hot() && pool_->InstallBlock(frame, root);
    } else if (root.hot()) {
      info.parent_frame = root.number();
      info.parent = &pool_->info(root.number()).children[block - 1];
      const Swip swip(info.parent->load(std::memory_order_seq_cst));
      installed = !swip.hot() && pool_->InstallBlock(frame, swip);
    }
  }
  if (!installed) pool_->GiveBack(frame);
  return status;
}

Status Table::GetFromDisk(uint32_t extent, const char* key, char* payload) const {
  Region buffer;
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(kBlockBytes, /*huge_pages=*/false, &buffer));
  ENGINE_RACE_RETURN_IF_ERROR(file_->ReadBlock(extent, 0, buffer.data()));
  const uint32_t rank = LowerBoundInBlock(file_->encoding(), buffer.data(), key, options_.search);
  ENGINE_RACE_RETURN_IF_ERROR(file_->ReadBlock(extent, rank + 1, buffer.data()));
  const char* const found = FindInBlock(file_->encoding(), buffer.data(), key, options_.search);
  if (found == nullptr) return Status::NotFound();
  std::memcpy(payload, found, file_->shape().payload_bytes);
  return Status::Ok();
}

}  // namespace engine_race::l1
