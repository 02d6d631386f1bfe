#include "engine_race/memory_shares.h"

#include <algorithm>
#include <utility>

namespace engine_race {

namespace {

uint64_t Less(uint64_t from, uint64_t bytes) { return from > bytes ? from - bytes : 0; }

}  // namespace

MemoryShares::MemoryShares(RestFn rest)
    : rest_(std::move(rest)), first_(this, &second_), second_(this, &first_) {
  // Relaxed: no other thread knows the shares yet.
  settled_rest_.store(rest_(), std::memory_order_relaxed);
}

MemoryShares::MemoryShares(MemoryShare* whole)
    : rest_([whole] { return whole->LimitBytes(); }),
      whole_(whole),
      first_(this, &second_),
      second_(this, &first_) {}

void MemoryShares::Settle() noexcept {
  const std::lock_guard lock(settle_mutex_);
  const uint64_t rest = rest_();
  // Relaxed, both: changed under the mutex. Before the work, so that a thread that changes the rest
  // during the work settles it again.
  if (settled_rest_.load(std::memory_order_relaxed) == rest) return;
  settled_rest_.store(rest, std::memory_order_relaxed);
  first_.Settle(rest);
  second_.Settle(rest);
}

void MemoryShares::ShrinkTo(uint64_t bytes) noexcept {
  first_.Settle(bytes);
  second_.Settle(bytes);
}

// The memory that is kept for the share whether it is used or not. It has no part in what is always
// kept for the other share.
uint64_t MemoryShares::Share::LeastOf(uint64_t rest_bytes) const noexcept {
  const uint64_t eighth =
      std::min(rest_bytes / kLeastFraction, Less(rest_bytes, other_.min_bytes_));
  return std::max(eighth, min_bytes_);
}

uint64_t MemoryShares::Share::LimitOf(uint64_t rest_bytes) const noexcept {
  const uint64_t others_bytes = std::max(other_.booked(), other_.LeastOf(rest_bytes));
  return std::max(Less(rest_bytes, others_bytes), LeastOf(rest_bytes));
}

bool MemoryShares::Share::Book(uint64_t bytes) noexcept {
  const std::lock_guard lock(shares_.mutex_);
  if (!HasRoomFor(bytes)) return false;
  if (shares_.whole_ != nullptr && !shares_.whole_->Book(bytes)) return false;
  booked_bytes_.store(booked() + bytes, std::memory_order_relaxed);
  return true;
}

void MemoryShares::Share::Cancel(uint64_t bytes) noexcept {
  const std::lock_guard lock(shares_.mutex_);
  booked_bytes_.store(booked() - bytes, std::memory_order_relaxed);
  if (shares_.whole_ != nullptr) shares_.whole_->Cancel(bytes);
}

bool MemoryShares::Share::Want(uint64_t bytes) noexcept {
  if (HasRoomFor(bytes)) return true;
  // What they divide may grow.
  if (shares_.whole_ != nullptr && shares_.whole_->Want(bytes) && HasRoomFor(bytes)) return true;
  const uint64_t rest = shares_.rest_();
  const uint64_t others_bytes = other_.booked();
  const uint64_t others_least = other_.LeastOf(rest);
  // Acquire: pairs with SetUser.
  MemoryUser* const user = other_.user_.load(std::memory_order_acquire);
  if (others_bytes <= others_least || user == nullptr) return false;
  if (!OtherIsIdle(user->UseCount(), bytes, rest)) return false;
  user->ShrinkTo(std::max(Less(others_bytes, bytes), others_least));
  return HasRoomFor(bytes);
}

bool MemoryShares::Share::OtherIsIdle(uint64_t other_use_count, uint64_t bytes,
                                      uint64_t rest_bytes) noexcept {
  const std::lock_guard lock(shares_.mutex_);
  if (other_use_count_ != other_use_count) {
    other_use_count_ = other_use_count;
    wanted_bytes_ = 0;
  }
  wanted_bytes_ += bytes;
  return wanted_bytes_ > rest_bytes / kLeastFraction;
}

uint64_t MemoryShares::Share::UseCount() const noexcept {
  // Acquire: pairs with SetUser.
  const MemoryUser* const user = user_.load(std::memory_order_acquire);
  return user == nullptr ? 0 : user->UseCount();
}

void MemoryShares::Share::Settle(uint64_t rest_bytes) noexcept {
  const uint64_t limit_bytes = LimitOf(rest_bytes);
  // Acquire: pairs with SetUser.
  MemoryUser* const user = user_.load(std::memory_order_acquire);
  if (booked() > limit_bytes && user != nullptr) user->ShrinkTo(limit_bytes);
}

}  // namespace engine_race
