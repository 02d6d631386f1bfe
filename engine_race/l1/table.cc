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

// Where a lookup stands in the frames.
struct Table::Place {
  uint32_t extent = 0;
  std::atomic<uint64_t>* parent = nullptr;
  uint32_t parent_frame = FramePool::kNoFrame;
  uint32_t block = 0;
};

Status Table::Get(const char* key, char* payload) const { return GetByPointer(key, payload); }

Status Table::GetByPointer(const char* key, char* payload) const {
  const uint32_t extent = file_->ExtentOf(key);
  if (extent == file_->extent_count()) return Status::NotFound();
  const Encoding encoding = file_->encoding();
  for (uint32_t loads = 0; loads <= kMaxLoads; ++loads) {
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
    if (loads < kMaxLoads) ENGINE_RACE_RETURN_IF_ERROR(Load(extent, missing, key));
  }
  return GetFromDisk(key, payload);
}

}  // namespace engine_race::l1
