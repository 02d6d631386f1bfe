// Of SlotFiles: places whose records, or whose entries in the table, may have been lost.
#include <algorithm>
#include <utility>

#include "engine_race/base/round_up.h"
#include "engine_race/log/slot_files.h"

namespace engine_race {
namespace {

// How many places take so many bytes.
uint64_t PlacesIn(uint64_t bytes, uint64_t place_bytes) {
  return RoundUp(bytes, place_bytes) / place_bytes;
}

}  // namespace

Status SlotFiles::KeepLost() {
  grows_exactly_ = true;
  Status kept;
  for (uint32_t file = 0; file < file_count(); ++file) {
    ENGINE_RACE_RETURN_IF_ERROR(Open(file));
    uint64_t key_bytes = 0;
    uint64_t value_bytes = 0;
    ENGINE_RACE_RETURN_IF_ERROR(key_files_[file].Size(&key_bytes));
    if (!IsDevice(file)) ENGINE_RACE_RETURN_IF_ERROR(value_files_[file].Size(&value_bytes));
    Status set_aside =
        table_->SetAside(file, std::max(PlacesIn(key_bytes, geometry_.segment_key_bytes()),
                                        PlacesIn(value_bytes, geometry_.segment_value_bytes())));
    if (kept.ok()) kept = std::move(set_aside);
  }
  return kept;
}

Status SlotFiles::EraseUngiven() const {
  for (uint32_t file = 0; file < file_count(); ++file) {
    ENGINE_RACE_RETURN_IF_ERROR(Open(file));
    uint64_t key_bytes = 0;
    ENGINE_RACE_RETURN_IF_ERROR(key_files_[file].Size(&key_bytes));
    const uint64_t place_count = PlacesIn(key_bytes, geometry_.segment_key_bytes());
    for (uint64_t place = 0; place < place_count;) {
      uint64_t end = place;
      while (end < place_count && !table_->IsGiven(file, end)) ++end;
      if (end != place) ENGINE_RACE_RETURN_IF_ERROR(ErasePlaces(file, place, end));
      place = end + 1;
    }
  }
  return Status::Ok();
}

Status SlotFiles::ErasePlaces(uint32_t file, uint64_t begin, uint64_t end) const {
  const io::File& keys = key_files_[file];
  bool supported = false;
  begin *= geometry_.segment_key_bytes();
  end *= geometry_.segment_key_bytes();
  ENGINE_RACE_RETURN_IF_ERROR(keys.Punch(begin, end, &supported));
  if (supported) return Status::Ok();
  alignas(kIoAlignment) static constexpr char kZeros[kIoAlignment] = {};
  for (; begin < end; begin += sizeof(kZeros)) {
    ENGINE_RACE_RETURN_IF_ERROR(keys.Write(kZeros, sizeof(kZeros), begin));
  }
  return Status::Ok();
}

}  // namespace engine_race
