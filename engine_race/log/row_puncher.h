// Gives the space of freed slots back to the file system, by punching holes into the logs.
//
// A failure costs space and nothing else: the slots are used again all the same. On a full disk the
// reserve of space is used, because some file systems need space to split an extent.
//
// Thread safety: every call from any thread. Nothing reads or writes the slots meanwhile.
#ifndef ENGINE_RACE_LOG_ROW_PUNCHER_H_
#define ENGINE_RACE_LOG_ROW_PUNCHER_H_

#include <atomic>
#include <cstdint>

#include "engine_race/log/log_context.h"

namespace engine_race {

class RowPuncher {
 public:
  // Works on the files of the context, which outlives it.
  explicit RowPuncher(LogContext* context) : context_(*context) {}

  // The values of these slots of the row.
  void PunchValues(uint32_t bucket, uint32_t row, const SlotBits& slots) noexcept;
  // The key entries of the whole row.
  void PunchKeys(uint32_t bucket, uint32_t row) noexcept;
  // Whether the file systems give space back. True until one has refused.
  bool punches() const { return punches_.load(std::memory_order_relaxed); }
  // Bytes of values that were given back to the file systems.
  uint64_t given_back_bytes() const { return given_back_bytes_.load(std::memory_order_relaxed); }

 private:
  void NoteRefusal();

  LogContext& context_;
  // Relaxed everywhere: a hint.
  std::atomic<bool> punches_{true};
  std::atomic<uint64_t> given_back_bytes_{0};
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_ROW_PUNCHER_H_
