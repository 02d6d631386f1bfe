#include "engine_race/log/bucket.h"

#include "engine_race/base/assert.h"

namespace engine_race {

void Bucket::Wait(std::unique_lock<std::mutex>* lock) {
  ENGINE_RACE_ASSERT(lock->owns_lock() && lock->mutex() == &mutex);
  ++waiting;
  changed.wait(*lock);
  --waiting;
  waking = false;
}

void Bucket::AwaitRelease(std::unique_lock<std::mutex>* lock, bool unclaimed) {
  ENGINE_RACE_ASSERT(lock->owns_lock() && lock->mutex() == &mutex);
  while (held || (unclaimed && claimed)) {
    ++awaiting_release;
    written.wait(*lock);
    --awaiting_release;
  }
}

}  // namespace engine_race
