#include "engine_race/l1/limbo.h"

#include <utility>

namespace engine_race::l1 {

Limbo::~Limbo() { Destroy(first_); }

void Limbo::Retire(std::unique_ptr<Retirable> object) noexcept {
  if (object == nullptr || epochs_ == nullptr) return;
  Retirable* safe = nullptr;
  {
    const std::lock_guard lock(mutex_);
    // Under the mutex, so that the epochs of the list descend.
    object->retired_epoch_ = epochs_->Retire();
    object->next_ = first_;
    first_ = object.release();
    if (++count_ >= next_look_) safe = TakeSafe();
  }
  Destroy(safe);
}

Retirable* Limbo::TakeSafe() noexcept {
  const uint64_t safe_below = epochs_->SafeBelow();
  Retirable** link = &first_;
  size_t left_count = 0;
  while (*link != nullptr && (*link)->retired_epoch_ >= safe_below) {
    link = &(*link)->next_;
    ++left_count;
  }
  count_ = left_count;
  next_look_ = left_count + kBatch;
  return std::exchange(*link, nullptr);
}

void Limbo::Destroy(Retirable* first) noexcept {
  while (first != nullptr) {
    const std::unique_ptr<Retirable> object(first);
    first = object->next_;
  }
}

}  // namespace engine_race::l1
