#include "engine_race/l1/limbo.h"

#include <utility>

namespace engine_race::l1 {

Limbo::~Limbo() { Destroy(first_); }

bool Limbo::Keep(std::unique_ptr<Retirable> object, size_t bytes) noexcept {
  object->bytes_ = bytes;
  const std::lock_guard lock(mutex_);
  // Under the mutex, so that the epochs of the list descend.
  object->retired_epoch_ = epochs_.Retire();
  object->next_ = first_;
  first_ = object.release();
  bytes_.fetch_add(bytes, std::memory_order_relaxed);
  new_bytes_ += bytes;
  return ++count_ >= next_look_ || new_bytes_ >= kBatchBytes;
}

void Limbo::Retire(std::unique_ptr<Retirable> object, size_t bytes) noexcept {
  if (Keep(std::move(object), bytes)) FreeSafe();
}

void Limbo::FreeSafe() noexcept {
  Retirable* safe = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (first_ != nullptr) safe = TakeSafe();
  }
  Destroy(safe);
}

Retirable* Limbo::TakeSafe() noexcept {
  const uint64_t safe_below = epochs_.SafeBelow();
  Retirable** link = &first_;
  size_t left_count = 0;
  size_t left_bytes = 0;
  while (*link != nullptr && (*link)->retired_epoch_ >= safe_below) {
    left_bytes += (*link)->bytes_;
    link = &(*link)->next_;
    ++left_count;
  }
  count_ = left_count;
  next_look_ = left_count + kBatch;
  new_bytes_ = 0;
  bytes_.store(left_bytes, std::memory_order_relaxed);
  return std::exchange(*link, nullptr);
}

void Limbo::Destroy(Retirable* first) noexcept {
  while (first != nullptr) {
    const std::unique_ptr<Retirable> object(first);
    first = object->next_;
  }
}

}  // namespace engine_race::l1
