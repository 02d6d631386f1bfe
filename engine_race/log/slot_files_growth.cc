// Of SlotFiles: its files get longer, and shorter again.
#include <algorithm>
#include <mutex>

#include "engine_race/base/guarded.h"
#include "engine_race/base/sys.h"
#include "engine_race/log/slot_files.h"

namespace engine_race {
namespace {

// Files grow by one of so many segments that they have, so that most segments find them large
// enough.
constexpr uint64_t kSegmentsPerGrown = 32;
// Without need they are cut only by more than one of so many, and as many more.
constexpr uint64_t kSegmentsPerCut = 16;

}  // namespace

Status SlotFiles::Grow(uint32_t file, uint64_t place_count) const {
  ENGINE_RACE_RETURN_IF_ERROR(Open(file));
  if (HasRoom(file, place_count)) return Status::Ok();
  const uint64_t more = grows_exactly_ ? 0 : place_count / kSegmentsPerGrown;
  const Status grown = GrowTo(file, place_count + more);
  // Some limit may leave room for no more than that.
  return grown.code() == Code::kFull ? GrowTo(file, place_count) : grown;
}

Status SlotFiles::GrowTo(uint32_t file, uint64_t room) const {
  if (!IsDevice(file)) {
    ENGINE_RACE_RETURN_IF_ERROR(sys::CheckFileSizeLimit(room * geometry_.segment_value_bytes()));
  }
  ENGINE_RACE_RETURN_IF_ERROR(Resize(file, room));
  // Release, for HasRoom.
  growths_[file].room.store(room, std::memory_order_release);
  return Status::Ok();
}

Status SlotFiles::Resize(uint32_t file, uint64_t room) const {
  if (!IsDevice(file)) {
    ENGINE_RACE_RETURN_IF_ERROR(
        value_files_[file].Truncate(room * geometry_.segment_value_bytes()));
  }
  return key_files_[file].Truncate(room * geometry_.segment_key_bytes());
}

// Places behind the new end are given only after Grow, which waits.
void SlotFiles::CutFreeEnds(bool exactly) const noexcept {
  for (uint32_t file = 0; file < file_count(); ++file) {
    if (!is_open(file)) continue;
    static_cast<void>(Guarded([&] {
      const std::lock_guard<std::mutex> lock(growths_[file].mutex);
      bool is_cut = false;
      uint64_t end = 0;
      table_->CutAtEnd(file, [&](uint64_t place_end) {
        end = place_end;
        const uint64_t least = exactly ? 0 : end / kSegmentsPerCut + kSegmentsPerCut;
        is_cut = growths_[file].room.load(std::memory_order_relaxed) > end + least;
        // Release, for HasRoom.
        if (is_cut) growths_[file].room.store(end, std::memory_order_release);
      });
      return is_cut ? Resize(file, end) : Status::Ok();
    }));
  }
}

}  // namespace engine_race
