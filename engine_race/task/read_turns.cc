#include "engine_race/task/read_turns.h"

#include <utility>

#include "engine_race/base/assert.h"

namespace engine_race {

ReadJob Turn::Pop() noexcept {
  ENGINE_RACE_ASSERT(!empty());
  if (next_ != end_) return batch_->JobOf(next_++);
  ReadJob job;
  job.posted = std::exchange(posted_, posted_->next);
  job.key = job.posted->key;
  job.value = job.posted->value;
  return job;
}

void PostedList::Push(PostedRead* read) noexcept {
  read->next = nullptr;
  (first_ == nullptr ? first_ : last_->next) = read;
  last_ = read;
  ++count_;
}

PostedRead* PostedList::Pop(size_t max_count) noexcept {
  PostedRead* const popped = first_;
  PostedRead* last = nullptr;
  for (; max_count > 0 && first_ != nullptr; --max_count) {
    last = std::exchange(first_, first_->next);
    --count_;
  }
  if (last != nullptr) last->next = nullptr;
  ENGINE_RACE_ASSERT((count_ == 0) == (first_ == nullptr));
  return popped;
}

void ReadTurns::Append(TurnSource* source) noexcept {
  source->next_source = nullptr;
  *end_ = source;
  end_ = &source->next_source;
}

void ReadTurns::Add(ReadBatch* batch) noexcept {
  ENGINE_RACE_ASSERT(!batch->all_taken());
  Append(batch);
  // Relaxed, like every change of the count: the mutex orders the ring.
  source_count_.fetch_add(1, std::memory_order_relaxed);
}

void ReadTurns::Post(PostedRead* read) noexcept {
  if (posted_.empty()) {
    Append(&posted_source_);
    source_count_.fetch_add(1, std::memory_order_relaxed);
  }
  posted_.Push(read);
}

bool ReadTurns::Take(Turn* turn) noexcept {
  TurnSource* const source = head_;
  if (source == nullptr) return false;
  head_ = source->next_source;
  if (head_ == nullptr) end_ = &head_;
  bool has_more = false;
  if (source == &posted_source_) {
    turn->posted_ = posted_.Pop(kTurnJobs);
    has_more = !posted_.empty();
  } else {
    auto* const batch = static_cast<ReadBatch*>(source);
    TakeOwn(batch, turn);
    has_more = !batch->all_taken();
  }
  if (has_more) {
    Append(source);
  } else {
    source_count_.fetch_sub(1, std::memory_order_relaxed);
  }
  return true;
}

bool ReadTurns::TakeOwn(ReadBatch* batch, Turn* turn) noexcept {
  turn->batch_ = batch;
  return batch->Take(kTurnJobs, &turn->next_, &turn->end_);
}

ReadBatch* ReadTurns::PopBatch() noexcept {
  // At most the posted reads come before the first batch.
  TurnSource** const link = head_ == &posted_source_ ? &head_->next_source : &head_;
  TurnSource* const source = *link;
  if (source == nullptr) return nullptr;
  ENGINE_RACE_ASSERT(source != &posted_source_);
  *link = source->next_source;
  if (*link == nullptr) end_ = link;
  source_count_.fetch_sub(1, std::memory_order_relaxed);
  return static_cast<ReadBatch*>(source);
}

}  // namespace engine_race
