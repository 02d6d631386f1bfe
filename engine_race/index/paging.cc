#include "engine_race/index/paging.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "engine_race/base/assert.h"
#include "engine_race/base/guarded.h"
#include "engine_race/index/run_extent.h"

namespace engine_race {

void PagedRunDeleter::operator()(PagedRun* run) const noexcept {
  run->owner->Discard(std::unique_ptr<PagedRun>(run));
}

Status Paging::Write(const SortedRun& flat, const FrameSlots& frames, uint64_t births,
                     l1::ExtentImage* image, PagedRunPtr* run) {
  if (!may_write()) return Status::NotSupported("the store is open for reading only");
  l1::ExtentId id;
  const Status written = WriteRun(flat, frames, store_.get(), image, &id);
  faults_.NoteWrite(written);
  ENGINE_RACE_RETURN_IF_ERROR(written);
  const Status adopted = AdoptNamed({flat.min_key(), flat.max_key(), id.generation, id.place,
                                     static_cast<uint32_t>(flat.count()), 0, 0, births},
                                    /*held=*/nullptr, run);
  if (adopted.ok()) {
    unnamed_count_.fetch_add(1, std::memory_order_relaxed);
  } else {
    store_->Free(id);
  }
  return adopted;
}

Status Paging::AdoptNamed(const format::IndexExtent& extent, std::shared_ptr<const HeldSlots> held,
                          PagedRunPtr* run) {
  run->reset(new (std::nothrow) PagedRun);
  if (*run == nullptr) return Status::OutOfMemory("index: no memory for an extent's description");
  (*run)->id = {extent.generation, extent.place};
  (*run)->Describe(extent.first_key, extent.last_key, extent.record_count);
  (*run)->births = extent.births;
  (*run)->held = std::move(held);
  (*run)->owner = this;
  return Status::Ok();
}

Status Paging::PageFresh(std::span<const std::unique_ptr<Part>> parts, uint64_t other_bytes,
                         l1::ExtentImage* image) {
  uint64_t bytes = other_bytes;
  for (const auto& part : parts) bytes += part->memory_bytes();
  if (FlatBytes() + bytes <= FlatLimit() || faults_.is_pausing()) return Status::Ok();
  if (image->data() == nullptr) ENGINE_RACE_RETURN_IF_ERROR(l1::ExtentImage::Create(image));
  // No word leads to a frame yet.
  const FrameSlots no_frames;
  for (const auto& part : parts) {
    if (part->run.count() == 0) continue;
    ENGINE_RACE_RETURN_IF_ERROR(Write(part->run, no_frames, part->births, image, &part->extent));
    part->run = SortedRun();
  }
  return Status::Ok();
}

uint64_t Paging::FlatLimit() const { return std::min(limit_(), max_flat_bytes_); }

bool Paging::HasRunsToPage() const {
  return may_write() && MustPage() && has_flat_runs() && !faults_.is_pausing();
}

bool Paging::HasLargeDeltas() const {
  if (!may_write() || has_flat_runs()) return false;
  const uint64_t bytes = part_bytes_.bytes();
  // Relaxed: a hint.
  const uint64_t merged = merged_bytes_.load(std::memory_order_relaxed);
  return bytes > merged + merged / 8 && bytes > limit_();
}

std::optional<PagingFaults::Clock::time_point> Paging::NextTry() const {
  std::optional<PagingFaults::Clock::time_point> next = faults_.next_rested();
  if (faults_.has_failed() && MustPage() && has_flat_runs()) {
    next = std::min(next.value_or(faults_.next_write()), faults_.next_write());
  }
  return next;
}

Status Paging::CheckRoom() const {
  // Without runs that wait for the files nothing would ever end the refusal.
  if (!faults_.has_failed() || !has_flat_runs()) [[likely]] {
    return Status::Ok();
  }
  const uint64_t bytes = part_bytes_.bytes();
  const uint64_t limit = limit_();
  if (bytes <= limit || bytes - limit <= limit / 2) return Status::Ok();
  return Status::Full("the index takes " + std::to_string(bytes) +
                      " bytes, far more than it may, and cannot be written to disk");
}

void Paging::Discard(std::unique_ptr<PagedRun> run) noexcept {
  blocks_.Evict(*run);
  FreeUnlessNamed(run->id);
  limbo_.Retire(std::move(run));
}

void Paging::FreeUnlessNamed(const l1::ExtentId& id) noexcept {
  if (!may_write()) return;
  {
    const std::lock_guard lock(mutex_);
    if (is_committing_ || is_in_doubt_ || IsNamed(id)) {
      // If memory is refused, the place stays in use until the store is opened again.
      (void)Guarded([&] {
        waiting_.push_back(id);
        return Status::Ok();
      });
      return;
    }
  }
  store_->Free(id);
}

bool Paging::IsNamed(const l1::ExtentId& id) const {
  const auto found = named_.find(id.place);
  return found != named_.end() && found->second == id.generation;
}

void Paging::BeginCommit() noexcept {
  const std::lock_guard lock(mutex_);
  is_committing_ = true;
  begun_count_ = unnamed_count_.exchange(0, std::memory_order_relaxed);
}

void Paging::EndCommit(CommitEnd end, const l1::IndexRoot& root) noexcept {
  std::unordered_map<uint32_t, uint64_t> named;
  if (end == CommitEnd::kStored) {
    const Status listed = Guarded([&] {
      named.reserve(root.extents.size());
      for (const format::IndexExtent& extent : root.extents) {
        named.emplace(extent.place, extent.generation);
      }
      return Status::Ok();
    });
    if (!listed.ok()) end = CommitEnd::kInDoubt;
  }
  std::vector<l1::ExtentId> freed;
  {
    const std::lock_guard lock(mutex_);
    ENGINE_RACE_ASSERT(is_committing_);
    is_committing_ = false;
    if (end == CommitEnd::kStored) {
      is_in_doubt_ = false;
      named_.swap(named);
    } else if (end != CommitEnd::kNotMade) {
      is_in_doubt_ |= end == CommitEnd::kInDoubt;
      unnamed_count_.fetch_add(begun_count_, std::memory_order_relaxed);
    }
    if (is_in_doubt_) return;
    const auto still_named = std::partition(waiting_.begin(), waiting_.end(),
                                            [this](const l1::ExtentId& id) { return IsNamed(id); });
    // Without memory they wait for the next root.
    const Status moved = Guarded([&] {
      freed.assign(still_named, waiting_.end());
      return Status::Ok();
    });
    if (moved.ok()) waiting_.erase(still_named, waiting_.end());
  }
  for (const l1::ExtentId& id : freed) store_->Free(id);
}

bool Paging::is_in_doubt() const {
  const std::lock_guard lock(mutex_);
  return is_in_doubt_;
}

uint64_t Paging::waiting_count() const {
  const std::lock_guard lock(mutex_);
  return waiting_.size();
}

void Paging::Ask(BucketIndex* bucket, Work work) noexcept {
  bool is_new = false;
  (void)Guarded([&] {
    const std::lock_guard lock(mutex_);
    const Request request = {bucket, work};
    is_new = std::find(requests_.begin(), requests_.end(), request) == requests_.end();
    if (is_new && requests_.size() < kMaxRequests) requests_.push_back(request);
    return Status::Ok();
  });
  if (is_new) Wake();
}

void Paging::Wake() noexcept {
  std::function<void()> wake;
  (void)Guarded([&] {
    const std::lock_guard lock(mutex_);
    wake = wake_;
    return Status::Ok();
  });
  if (wake) wake();
}

bool Paging::has_requests() const {
  const std::lock_guard lock(mutex_);
  return !requests_.empty();
}

std::vector<Paging::Request> Paging::TakeRequests() {
  const std::lock_guard lock(mutex_);
  return std::exchange(requests_, {});
}

void Paging::set_wake(std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  wake_ = std::move(wake);
}

}  // namespace engine_race
