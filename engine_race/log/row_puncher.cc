#include "engine_race/log/row_puncher.h"

#include "engine_race/base/guarded.h"
#include "engine_race/base/options.h"
#include "engine_race/base/status.h"

namespace engine_race {

void RowPuncher::PunchValues(uint32_t bucket, uint32_t row, uint32_t cells) noexcept {
  const Geometry& geometry = context_.geometry();
  const uint32_t cell_records = geometry.cell_records();
  const uint64_t first_slot = uint64_t{row} * geometry.row_records();
  bool supported = true;
  for (uint32_t cell = 0; cell < geometry.cells_per_row(); ++cell) {
    if ((cells >> cell & 1) == 0) continue;
    uint32_t end = cell + 1;
    while (end < geometry.cells_per_row() && (cells >> end & 1) != 0) ++end;
    const Status punched = Guarded([&] {
      return context_.files.values.Punch(bucket, first_slot + cell * cell_records,
                                         (end - cell) * cell_records, &supported);
    });
    if (!punched.ok() || !supported) break;
    cell = end;
  }
  if (!supported) NoteRefusal();
}

void RowPuncher::PunchKeys(uint32_t bucket, uint32_t row) noexcept {
  const Geometry& geometry = context_.geometry();
  const uint64_t offset = geometry.KeyOffset(bucket, uint64_t{row} * geometry.row_records());
  const uint64_t end = offset + geometry.row_records() * sizeof(format::KeyEntry);
  bool supported = true;
  static_cast<void>(
      Guarded([&] { return context_.files.KeyFile(bucket).Punch(offset, end, &supported); }));
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
