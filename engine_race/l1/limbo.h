// Objects that no new reader finds, until those readers have left the epoch that may still have
// found them.
//
// Thread-safe. When it is destroyed, no reader may be inside.
#ifndef ENGINE_RACE_L1_LIMBO_H_
#define ENGINE_RACE_L1_LIMBO_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "engine_race/l1/epoch.h"

namespace engine_race::l1 {

// The base of what readers inside the epoch reach by pointer.
class Retirable {
 public:
  virtual ~Retirable() = default;

 private:
  friend class Limbo;
  Retirable* next_ = nullptr;
  uint64_t retired_epoch_ = 0;
  size_t bytes_ = 0;
};

class Limbo {
 public:
  // The objects, or the bytes, that wait before it looks which readers have left: the look
  // interrupts all processors.
  static constexpr size_t kBatch = 64;
  static constexpr size_t kBatchBytes = size_t{1} << 20;

  // `epochs` outlives it.
  explicit Limbo(EpochManager& epochs) : epochs_(epochs) {}
  Limbo(const Limbo&) = delete;
  Limbo& operator=(const Limbo&) = delete;
  ~Limbo();

  // Takes an object that no reader that enters from here on can find. A change that readers load in
  // sequentially consistent order has hidden it. Destroys none, so that locks may be held.
  void Keep(std::unique_ptr<Retirable> object) noexcept { Keep(std::move(object), 0); }
  // Keep of an object that gives `bytes` back. Destroys objects that are safe if many wait. Never
  // waits for a reader.
  void Retire(std::unique_ptr<Retirable> object, size_t bytes = 0) noexcept;
  // Destroys all that are safe, however few.
  void FreeSafe() noexcept;
  // The memory that waiting objects will give back. Relaxed: a statistic.
  size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  // Whether it is time for a look.
  bool Keep(std::unique_ptr<Retirable> object, size_t bytes) noexcept;
  // Takes the safe ones of the waiting objects. Under mutex_.
  Retirable* TakeSafe() noexcept;
  static void Destroy(Retirable* first) noexcept;

  EpochManager& epochs_;
  std::mutex mutex_;
  // All under mutex_. The object that was retired last comes first.
  Retirable* first_ = nullptr;
  size_t count_ = 0;
  size_t next_look_ = kBatch;  // at this count
  size_t new_bytes_ = 0;       // since the last look
  std::atomic<size_t> bytes_{0};
};

}  // namespace engine_race::l1

#endif  // ENGINE_RACE_L1_LIMBO_H_
