#include "engine_race/scan/window_pool.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "engine_race/base/assert.h"
#include "engine_race/base/guarded.h"

namespace engine_race {

namespace {

// Of a window from the heap, or what one value takes.
constexpr uint32_t kSmallBytes = 16 * 1024;

// How many scans have a loader at once, and how many of them may read ahead. Overlapping reads help
// a few scans; more scans overlap each other anyway. Each psync queue has threads, and each libaio
// queue takes tens of milliseconds to destroy.
constexpr uint32_t kMaxLoaders = 8;
constexpr uint32_t kMaxAheadLoaders = 4;

}  // namespace

WindowPool::WindowPool(ScanContext* context, Coordinator* coordinator, uint32_t window_count)
    : context_(context), coordinator_(coordinator) {
  const Status status = pool_.Allocate(context->layout.buffer_bytes(), window_count,
                                       /*huge_pages=*/true, context->log.placement().memory());
  if (!status.ok()) {
    Log(context->options.log, LogLevel::kWarning,
        "short scans have little memory: " + status.ToString());
  }
}

Status WindowPool::TakeWindows(uint32_t position_count, bool may_allocate, Windows* windows) {
  const uint32_t wanted_count = context_->layout.BuffersFor(position_count);
  if (windows->small == nullptr && windows->buffers.size() == wanted_count) return Status::Ok();
  GiveWindows(windows);
  if (wanted_count > 1) {
    coordinator_->Lend(wanted_count, &windows->buffers);
    windows->are_lent = !windows->buffers.empty();
    if (windows->are_lent) windows->base = coordinator_->base();
  }
  // Before a window is taken: TakeOne must not throw.
  windows->buffers.reserve(1);
  if (!windows->are_lent && !TakeOne(may_allocate, windows)) {
    return may_allocate ? AllocateSmall(windows) : Status::Ok();
  }
  windows->position_count =
      static_cast<uint32_t>(windows->buffers.size()) * context_->layout.buffer_positions();
  return Status::Ok();
}

bool WindowPool::TakeOne(bool is_needed, Windows* windows) {
  std::lock_guard lock(mutex_);
  if (!is_needed && pool_.free_count() <= pool_.buffer_count() / 2) return false;
  uint32_t buffer = 0;
  if (!pool_.TakeOne(&buffer)) return false;
  windows->buffers.push_back(buffer);
  windows->base = pool_.base();
  return true;
}

uint32_t WindowPool::SmallBytes() const {
  return std::max(kSmallBytes, context_->layout.read_bytes());
}

Status WindowPool::AllocateSmall(Windows* windows) {
  windows->small.reset(static_cast<char*>(std::aligned_alloc(kIoAlignment, SmallBytes())));
  if (windows->small == nullptr) return Status::OutOfMemory("scan window");
  small_bytes_.fetch_add(SmallBytes());
  windows->buffers.push_back(0);
  windows->base = windows->small.get();
  windows->position_count = static_cast<uint32_t>(context_->layout.PositionsIn(SmallBytes()));
  return Status::Ok();
}

void WindowPool::TrimWindows(uint32_t position_count, Windows* windows) noexcept {
  const uint32_t needed_count = context_->layout.BuffersFor(position_count);
  if (windows->small != nullptr || windows->buffers.size() <= needed_count) return;
  if (windows->are_lent) {
    coordinator_->TakeBack(needed_count, &windows->buffers);
  } else {
    std::lock_guard lock(mutex_);
    pool_.Give(&windows->buffers);
  }
  windows->position_count =
      static_cast<uint32_t>(windows->buffers.size()) * context_->layout.buffer_positions();
  windows->are_lent = windows->are_lent && needed_count > 0;
}

void WindowPool::GiveWindows(Windows* windows) noexcept {
  TrimWindows(0, windows);
  if (windows->small == nullptr) return;
  windows->small.reset();
  small_bytes_.fetch_sub(SmallBytes());
  windows->buffers.clear();
  windows->position_count = 0;
}

ChunkLoader* WindowPool::TakeLoader(bool ahead) noexcept {
  std::lock_guard lock(mutex_);
  if (loaders_.size() - free_loaders_.size() >= (ahead ? kMaxAheadLoaders : kMaxLoaders)) {
    return nullptr;
  }
  // A refusal leaves no free loader.
  if (free_loaders_.empty()) {
    (void)Guarded([&] {
      free_loaders_.reserve(kMaxLoaders);
      loaders_.reserve(kMaxLoaders);
      auto made = std::make_unique<ChunkLoader>(context_);
      ENGINE_RACE_RETURN_IF_ERROR(made->Start());
      free_loaders_.push_back(made.get());
      loaders_.push_back(std::move(made));
      return Status::Ok();
    });
    if (free_loaders_.empty()) return nullptr;
  }
  ChunkLoader* const loader = free_loaders_.back();
  free_loaders_.pop_back();
  return loader;
}

void WindowPool::GiveLoader(ChunkLoader* loader) noexcept {
  ENGINE_RACE_ASSERT(!loader->busy());
  std::lock_guard lock(mutex_);
  free_loaders_.push_back(loader);
}

}  // namespace engine_race
