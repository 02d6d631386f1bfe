#include "engine_race/log/batch_queue.h"

#include <array>
#include <utility>

#include "engine_race/base/guarded.h"
#include "engine_race/log/failure.h"

namespace engine_race {
namespace {

// The most batches that a leader joins. No more threads than theirs can wait.
constexpr size_t kMaxJoined = 256;

}  // namespace

Status BatchQueue::Write(std::span<const WriteBatch::Record> records, Journal* journal,
                         bool* too_large) {
  Waiting own;
  own.records = records;
  std::unique_lock<std::mutex> lock(mutex_);
  *last_ = &own;
  last_ = &own.next;
  changed_.wait(lock, [&] { return own.done || (!led_ && first_ == &own); });
  if (!own.done) Lead(journal, &lock);
  *too_large = own.too_large;
  return std::move(own.status);
}

// Under the lock, which is dropped while the batches are written.
void BatchQueue::Lead(Journal* journal, std::unique_lock<std::mutex>* lock) noexcept {
  led_ = true;
  std::array<Waiting*, kMaxJoined> taken;
  size_t taken_count = 0;
  size_t record_count = 0;
  // The first one is the leader's own. Together they are no large batch.
  while (first_ != nullptr && taken_count < kMaxJoined) {
    record_count += first_->records.size();
    if (taken_count != 0 && record_count > BatchWriter::kMaxStagedRecords) break;
    taken[taken_count++] = first_;
    first_ = first_->next;
  }
  if (first_ == nullptr) last_ = &first_;
  lock->unlock();
  WriteJoined(std::span(taken.data(), taken_count), journal);
  lock->lock();
  for (Waiting* waiting : std::span(taken.data(), taken_count)) waiting->done = true;
  led_ = false;
  changed_.notify_all();
}

void BatchQueue::WriteJoined(std::span<Waiting* const> joined, Journal* journal) noexcept {
  bool too_large = false;
  Status written = Guarded([&] {
    if (joined.size() == 1) return batches_.Write(joined[0]->records, journal, &too_large);
    records_.clear();
    for (const Waiting* waiting : joined) {
      records_.insert(records_.end(), waiting->records.begin(), waiting->records.end());
    }
    return batches_.Write(records_, journal, &too_large);
  });
  if (joined.size() > 1 && (!written.ok() || too_large)) {
    WriteJoined(joined.first(joined.size() / 2), journal);
    WriteJoined(joined.subspan(joined.size() / 2), journal);
    return;
  }
  for (Waiting* waiting : joined) {
    waiting->status = CopyOf(written);
    waiting->too_large = too_large;
  }
}

size_t BatchQueue::waiting_count() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  size_t count = 0;
  for (const Waiting* waiting = first_; waiting != nullptr; waiting = waiting->next) ++count;
  return count;
}

}  // namespace engine_race
