#include "engine_race/log/row_puncher.h"

#include <algorithm>

#include "engine_race/base/guarded.h"
#include "engine_race/base/options.h"
#include "engine_race/base/status.h"

namespace engine_race {

void RowPuncher::PunchValues(uint32_t bucket, uint32_t row, const SlotBits& slots) noexcept {
  const uint64_t first_slot = uint64_t{row} * context_.geometry().row_records();
  bool supported = true;
  const uint32_t count = slots.count();
  for (uint32_t done = 0; done < count && supported;) {
    const uint32_t begin = slots.Nth(done);
    const uint32_t end = std::min(slots.EndFrom(begin), context_.geometry().row_records());
    done += end - begin;
    const bool has_space =
        context_.files.slots.MayHoldValues(bucket, first_slot + begin, end - begin);
    const Status punched = Guarded([&] {
      return context_.reserve.Write([&] {
        return context_.files.slots.PunchValues(bucket, first_slot + begin, end - begin,
                                                &supported);
      });
    });
    if (!punched.ok()) break;
    if (supported && has_space) {
      given_back_bytes_.fetch_add((end - begin) * uint64_t{context_.geometry().slot_bytes()},
                                  std::memory_order_relaxed);
    }
  }
  if (!supported) NoteRefusal();
}

void RowPuncher::PunchKeys(uint32_t bucket, uint32_t row) noexcept {
  const uint64_t row_records = context_.geometry().row_records();
  bool supported = true;
  static_cast<void>(Guarded([&] {
    return context_.reserve.Write([&] {
      return context_.files.slots.PunchKeys(bucket, row * row_records, row_records, &supported);
    });
  }));
  if (!supported) NoteRefusal();
}

// Logs the first refusal.
void RowPuncher::NoteRefusal() {
  if (!punches_.exchange(false, std::memory_order_relaxed)) return;
  static_cast<void>(Guarded([&] {
    Log(context_.options.log, LogLevel::kWarning,
        "the file system cannot punch holes: freed slots are used again, but no space is given "
        "back");
    return Status::Ok();
  }));
}

}  // namespace engine_race
