// Objects that take long to make, kept from one use to the next.
//
// Thread-safe. Owner of those that nobody uses.
#ifndef ENGINE_RACE_BASE_SPARES_H_
#define ENGINE_RACE_BASE_SPARES_H_

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "engine_race/base/guarded.h"
#include "engine_race/base/status.h"

namespace engine_race {

template <typename T>
class Spares {
 public:
  // Null if there is none: the caller makes one.
  std::unique_ptr<T> Take() noexcept {
    const std::lock_guard lock(mutex_);
    if (spares_.empty()) return nullptr;
    std::unique_ptr<T> spare = std::move(spares_.back());
    spares_.pop_back();
    return spare;
  }
  // Keeps what a use has left, or frees it: after Drop, or without memory.
  void Give(std::unique_ptr<T> spare) noexcept {
    const std::lock_guard lock(mutex_);
    if (!keeps_) return;
    static_cast<void>(Guarded([&] {
      spares_.push_back(std::move(spare));
      return Status::Ok();
    }));
  }
  // Frees what is kept. From now on nothing is.
  void Drop() noexcept {
    const std::lock_guard lock(mutex_);
    keeps_ = false;
    spares_.clear();
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<T>> spares_;  // under mutex_
  bool keeps_ = true;                       // under mutex_
};

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_SPARES_H_
