// How values lie in the buffers of scans. A value type.
//
// Positions count units of ValueLayout::unit_bytes through a row of buffers. A read brings whole
// blocks to positions that are whole blocks of a buffer. So the values of slots that share blocks
// lie there as they lie in the file. A value that is copied takes the positions of one slot.
//
// Invariant: neither a read nor a value crosses the end of a buffer.
#ifndef ENGINE_RACE_SCAN_BUFFER_LAYOUT_H_
#define ENGINE_RACE_SCAN_BUFFER_LAYOUT_H_

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>

#include "engine_race/base/assert.h"
#include "engine_race/base/memory.h"
#include "engine_race/base/round_up.h"
#include "engine_race/base/value_layout.h"
#include "engine_race/log/format.h"

namespace engine_race {

class BufferLayout {
 public:
  // A gap of this many bytes between slots costs about as long to read along as another request.
  static constexpr uint32_t kMaxGapBytes = 32 * 1024;

  explicit BufferLayout(const ValueLayout& values = ValueLayout(),
                        uint32_t row_records = format::kMaxRowRecords)
      : values_(values),
        row_records_(row_records),
        row_bytes_(values.BlockBytesFor(row_records)),
        position_shift_(static_cast<uint32_t>(std::countr_zero(values.unit_bytes()))),
        slot_positions_(values.slot_bytes() / values.unit_bytes()),
        read_positions_(values.read_bytes() / values.unit_bytes()),
        block_positions_(kIoAlignment / values.unit_bytes()),
        buffer_positions_(std::max(kBufferBytes / values.read_bytes(), 1U) * read_positions_),
        buffers_per_position_(~uint64_t{0} / buffer_positions_ + 1) {
    ENGINE_RACE_ASSERT(buffer_positions_ > 1);
  }

  uint32_t value_bytes() const { return values_.value_bytes(); }
  uint32_t slot_bytes() const { return values_.slot_bytes(); }
  // The most that a value takes that is read by itself.
  uint32_t read_bytes() const { return values_.read_bytes(); }
  uint32_t position_bytes() const { return values_.unit_bytes(); }
  // About kBufferBytes: as many values as fit if each is read by itself, or one.
  uint32_t buffer_bytes() const { return buffer_positions_ * position_bytes(); }

  uint32_t slot_positions() const { return slot_positions_; }
  uint32_t read_positions() const { return read_positions_; }
  uint32_t block_positions() const { return block_positions_; }
  uint32_t buffer_positions() const { return buffer_positions_; }

  uint64_t PositionsIn(uint64_t size_bytes) const { return size_bytes >> position_shift_; }
  // Buffers that so many positions take.
  uint32_t BuffersFor(uint64_t position_count) const {
    return static_cast<uint32_t>((position_count + buffer_positions_ - 1) / buffer_positions_);
  }
  // Buffers that fit into so many bytes, or one.
  uint32_t BuffersIn(uint64_t size_bytes) const {
    return static_cast<uint32_t>(std::max<uint64_t>(size_bytes / buffer_bytes(), 1));
  }
  // Where position `at` lies when the positions are laid out over these buffers.
  uint32_t PositionIn(std::span<const uint32_t> buffers, uint32_t at) const {
    // A division would take longer than all else that is done for a small value here. The result is
    // exact: the factor is too large by less than 1, which 32 bits of `at` cannot make a whole.
    const auto buffer =
        static_cast<uint32_t>((static_cast<unsigned __int128>(at) * buffers_per_position_) >> 64);
    ENGINE_RACE_ASSERT(buffer == at / buffer_positions_);
    return buffers[buffer] * buffer_positions_ + (at - buffer * buffer_positions_);
  }
  // From the beginning of the first buffer.
  uint64_t OffsetOf(uint64_t position) const { return position << position_shift_; }

  // The values that fit into so many positions if each is read by itself.
  uint32_t SureRecords(uint32_t position_count) const { return position_count / read_positions_; }
  // The values that fit if nothing else is read.
  uint32_t MostRecords(uint32_t position_count) const {
    return position_count / buffer_positions_ * (buffer_positions_ / slot_positions_) +
           position_count % buffer_positions_ / slot_positions_;
  }
  // Where `record_count` more values end at the latest, if they are put from `position` on.
  uint64_t EndOfReads(uint64_t position, uint64_t record_count) const;

  // The row of a slot: no read goes from one to another.
  uint64_t RowOf(uint64_t slot) const { return slot / row_records_; }
  // Where a slot begins, from the beginning of the bucket's first row, as if its rows followed one
  // another.
  uint64_t SlotOffset(uint64_t slot) const {
    return RowOf(slot) * row_bytes_ + slot % row_records_ * slot_bytes();
  }
  // Its blocks, likewise.
  Blocks BlocksOf(uint64_t slot) const { return BlocksAround(SlotOffset(slot), slot_bytes()); }

  // About how many records a scan for itself reads at once: into one buffer, and at most.
  uint32_t window_records() const {
    return std::clamp(buffer_bytes() / slot_bytes(), 1U, kMostWindowRecords);
  }
  uint32_t walk_records() const {
    return std::clamp(kWalkBytes / slot_bytes(), kLeastWalkRecords, kMostWalkRecords);
  }
  // The memory for the most, without that for gaps.
  uint32_t walk_positions() const {
    return std::max(kWalkBytes / read_bytes(), kLeastWalkRecords) * read_positions_;
  }
  // About how much memory such a scan takes to read so many records at once.
  uint32_t PositionsFor(uint32_t record_count) const {
    const uint64_t positions = uint64_t{record_count} * read_positions_;
    if (record_count <= window_records()) {
      return static_cast<uint32_t>(std::min<uint64_t>(positions, buffer_positions_));
    }
    return WithGapPositions(static_cast<uint32_t>(std::min<uint64_t>(positions, walk_positions())));
  }
  // How many records it plans to read into so many positions.
  uint32_t RecordsIn(uint32_t position_count) const {
    return MostRecords(position_count - GapPositions(position_count));
  }

 private:
  static constexpr uint32_t kBufferBytes = 256 * 1024;
  static constexpr uint32_t kWalkBytes = 4 * 1024 * 1024;
  static constexpr uint32_t kGapFraction = 8;
  static constexpr uint32_t kMostWindowRecords = 64;
  static constexpr uint32_t kLeastWalkRecords = 4;
  // Their descriptions stay small beside kWalkBytes.
  static constexpr uint32_t kMostWalkRecords = 8192;

  bool HasGaps(uint32_t position_count) const {
    return position_count > buffer_positions_ && slot_bytes() <= kMaxGapBytes;
  }
  // Of so many positions, those that are for gaps between slots, if there are several buffers.
  uint32_t GapPositions(uint32_t position_count) const {
    return HasGaps(position_count) ? position_count / kGapFraction : 0;
  }
  // With those for gaps.
  uint32_t WithGapPositions(uint32_t position_count) const {
    return position_count + (HasGaps(position_count) ? position_count / (kGapFraction - 1) : 0);
  }

  ValueLayout values_;
  uint32_t row_records_;
  uint64_t row_bytes_;
  uint32_t position_shift_;
  uint32_t slot_positions_;
  uint32_t read_positions_;
  uint32_t block_positions_;
  uint32_t buffer_positions_;
  uint64_t buffers_per_position_;  // 2^64 / buffer_positions_, rounded up
};

inline uint64_t BufferLayout::EndOfReads(uint64_t position, uint64_t record_count) const {
  position = RoundUp(position, block_positions_);
  const uint64_t rest = buffer_positions_ - position % buffer_positions_;
  const uint64_t here = rest / read_positions_;
  if (record_count <= here) return position + record_count * read_positions_;
  return position + rest + (record_count - here) * read_positions_;
}

}  // namespace engine_race

#endif  // ENGINE_RACE_SCAN_BUFFER_LAYOUT_H_
