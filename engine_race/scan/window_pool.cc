#include "engine_race/scan/window_pool.h"

#include <string>
#include <utility>

#include "engine_race/base/assert.h"
#include "engine_race/base/guarded.h"

namespace engine_race {

namespace {

// Without a window of the pool.
constexpr uint32_t kSmallRecords = 4;
constexpr size_t kSmallBytes = size_t{kSmallRecords} * kValueBytes;

// How many scans have a loader at once, and how many of them may read ahead. Overlapping reads help
// a few scans; more scans overlap each other anyway. Each psync queue has threads, and each libaio
// queue takes tens of milliseconds to destroy.
constexpr uint32_t kMaxLoaders = 8;
constexpr uint32_t kMaxAheadLoaders = 4;

}  // namespace

WindowPool::WindowPool(ScanContext* context, Coordinator* coordinator, uint32_t window_count)
    : context_(context), coordinator_(coordinator) {
  const Status status = pool_.Allocate(kWindowBytes, window_count, /*huge_pages=*/true,
                                       context->log.placement().memory());
  if (!status.ok() && context->options.log) {
    context->options.log(LogLevel::kWarning,
                         "short scans have little memory: " + status.ToString());
  }
}

Status WindowPool::TakeWindows(uint32_t record_count, bool may_allocate, Windows* windows) {
  const size_t wanted_count = WindowsFor(record_count);
  if (windows->small == nullptr && windows->places.size() == wanted_count) return Status::Ok();
  GiveWindows(windows);
  if (wanted_count > 1) {
    coordinator_->Lend(static_cast<uint32_t>(wanted_count), &windows->places);
    windows->are_lent = !windows->places.empty();
    if (windows->are_lent) windows->base = coordinator_->base();
  }
  // First, so that nothing is thrown while a window has no owner.
  windows->places.reserve(1);
  if (!windows->are_lent && !TakeOne(may_allocate, windows)) {
    return may_allocate ? AllocateSmall(windows) : Status::Ok();
  }
  windows->record_count = static_cast<uint32_t>(windows->places.size()) * kWindowRecords;
  return Status::Ok();
}

bool WindowPool::TakeOne(bool may_allocate, Windows* windows) {
  std::lock_guard lock(mutex_);
  if (!may_allocate && pool_.free_count() <= pool_.buffer_count() / 2) return false;
  uint32_t place = 0;
  if (!pool_.TakeOne(&place)) return false;
  windows->places.push_back(place);
  windows->base = pool_.base();
  return true;
}

Status WindowPool::AllocateSmall(Windows* windows) {
  windows->small.reset(static_cast<char*>(std::aligned_alloc(kIoAlignment, kSmallBytes)));
  if (windows->small == nullptr) return Status::OutOfMemory("scan window");
  small_bytes_.fetch_add(kSmallBytes);
  windows->places.push_back(0);
  windows->base = windows->small.get();
  windows->record_count = kSmallRecords;
  return Status::Ok();
}

void WindowPool::TrimWindows(uint32_t record_count, Windows* windows) noexcept {
  const size_t needed_count = WindowsFor(record_count);
  if (windows->small != nullptr || windows->places.size() <= needed_count) return;
  if (windows->are_lent) {
    coordinator_->TakeBack(static_cast<uint32_t>(needed_count), &windows->places);
  } else {
    std::lock_guard lock(mutex_);
    pool_.Give(&windows->places);
  }
  windows->record_count = static_cast<uint32_t>(windows->places.size()) * kWindowRecords;
  windows->are_lent = windows->are_lent && needed_count > 0;
}

void WindowPool::GiveWindows(Windows* windows) noexcept {
  TrimWindows(0, windows);
  if (windows->small == nullptr) return;
  windows->small.reset();
  small_bytes_.fetch_sub(kSmallBytes);
  windows->places.clear();
  windows->record_count = 0;
}

ChunkLoader* WindowPool::TakeLoader(bool ahead) noexcept {
  std::lock_guard lock(mutex_);
  if (loaders_.size() - free_loaders_.size() >= (ahead ? kMaxAheadLoaders : kMaxLoaders)) {
    return nullptr;
  }
  // Null is a good answer to a refusal too.
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
