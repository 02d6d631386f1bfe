#include "engine_race/task/read_bound.h"

#include <string>

#include "engine_race/base/assert.h"

namespace engine_race {
namespace {

// The innermost function of a read that the thread runs, of whichever store.
constinit thread_local ReadBound::Function* current_function = nullptr;

}  // namespace

ReadBound::Function::Function(ReadBound* bound) noexcept : bound_(bound), outer_(current_function) {
  current_function = this;
}

ReadBound::Function::~Function() {
  ENGINE_RACE_ASSERT(current_function == this);
  current_function = outer_;
  if (has_place_) bound_->Give();
}

Status ReadBound::Take() {
  Function* const function = current_function;
  if (function != nullptr && function->bound_ == this && function->has_place_) {
    function->has_place_ = false;
    return Status::Ok();
  }
  if (TryTake()) return Status::Ok();
  if (function != nullptr || !waits_) {
    return Status(Code::kBusy, std::to_string(limit_) + " asynchronous reads are pending");
  }
  std::unique_lock lock(mutex_);
  // Sequentially consistent, as in TryTake: pairs with Give. Either Give sees this thread, or this
  // thread sees the place.
  waiting_.fetch_add(1, std::memory_order_seq_cst);
  place_given_.wait(lock, [this] { return TryTake(); });
  waiting_.fetch_sub(1, std::memory_order_relaxed);
  return Status::Ok();
}

bool ReadBound::TryTake() noexcept {
  uint32_t pending = pending_.load(std::memory_order_seq_cst);
  do {
    if (pending >= limit_) return false;
  } while (!pending_.compare_exchange_weak(pending, pending + 1, std::memory_order_seq_cst));
  // Relaxed, here and below: a statistic.
  uint32_t most = most_pending_.load(std::memory_order_relaxed);
  while (most <= pending &&
         !most_pending_.compare_exchange_weak(most, pending + 1, std::memory_order_relaxed)) {
  }
  return true;
}

void ReadBound::Give() noexcept {
  // Sequentially consistent, both: pair with Take.
  const uint32_t before = pending_.fetch_sub(1, std::memory_order_seq_cst);
  ENGINE_RACE_ASSERT(before > 0);
  if (waiting_.load(std::memory_order_seq_cst) == 0) return;
  // Under the mutex, so that a thread that has just found no place is asleep by now.
  const std::lock_guard lock(mutex_);
  place_given_.notify_one();
}

}  // namespace engine_race
