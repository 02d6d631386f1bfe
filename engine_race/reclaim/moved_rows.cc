// The part of BucketCleaner that empties rows.
#include <algorithm>
#include <cstring>
#include <iterator>

#include "engine_race/base/guarded.h"
#include "engine_race/base/round_up.h"
#include "engine_race/reclaim/bucket_cleaner.h"

namespace engine_race {
namespace {

// Values that are held at once, and their records at most. One row may have more.
constexpr uint64_t kMaxMovedBytes = uint64_t{8} << 20;
constexpr uint64_t kMaxMovedRecords = uint64_t{64} << 10;
// One read takes so much along that is not wanted: another read would cost more.
constexpr uint32_t kMaxReadGapBytes = uint32_t{64} << 10;
// A cleaning moves so much, or this share of its bucket. Until it is settled and released, moved
// records take space twice.
constexpr uint64_t kMovedShare = 16;

}  // namespace

Status BucketCleaner::MoveChosen(uint32_t bucket, const RowChoice& choice,
                                 SharedProgress* progress) {
  has_more_ = has_more_ || choice.has_more;
  if (choice.rows.empty()) return Status::Ok();
  ENGINE_RACE_RETURN_IF_ERROR(log_.mover().Begin(bucket));
  const Geometry& geometry = log_.geometry();
  // Two at least: a row by itself would come to lie as it does.
  const uint64_t most_rows = std::clamp<uint64_t>(kMaxMovedBytes / geometry.row_bytes(), 2,
                                                  kMaxMovedRecords / geometry.row_records());
  const uint64_t most_moved =
      std::max(kMaxMovedBytes / geometry.slot_bytes(), slot_count_ / kMovedShare);
  size_t row_count = 0;
  for (uint64_t moved = 0; row_count < choice.rows.size() && moved < most_moved; ++row_count) {
    moved += rows_.at(choice.rows[row_count]).live.count();
  }
  // The last piece is as long as the others: in a short one less is won.
  row_count = std::min<size_t>(RoundUp(row_count, most_rows), choice.rows.size());
  std::span<const uint32_t> rest = std::span(choice.rows).first(row_count);
  has_more_ = has_more_ || row_count < choice.rows.size();
  // Else the tail would fill these rows first: they have the most gaps.
  ENGINE_RACE_RETURN_IF_ERROR(log_.mover().Empty(bucket, rest));
  while (!rest.empty()) {
    if (PunchesInstead()) return Status::Ok();
    if (progress != nullptr) ENGINE_RACE_RETURN_IF_ERROR(progress->Tell());
    const std::span<const uint32_t> rows = rest.first(std::min<size_t>(most_rows, rest.size()));
    const Status moved = MoveAndFree(bucket, rows);
    // A batch, or the tail, has taken some of the rows. Or the disk is full.
    if (moved.code() == Code::kFull) {
      has_more_ = true;
      return Status::Ok();
    }
    ENGINE_RACE_RETURN_IF_ERROR(moved);
    rest = rest.subspan(rows.size());
    // Each piece ends with a row that is not full. Another cleaning joins these.
    has_more_ = has_more_ || !rest.empty();
  }
  return Status::Ok();
}

Status BucketCleaner::MoveAndFree(uint32_t bucket, std::span<const uint32_t> rows) {
  const uint32_t row_records = log_.geometry().row_records();
  const uint64_t row_bytes = log_.geometry().row_bytes();
  // Else WriteMoved reads them.
  const bool holds_values = rows.size() * row_bytes <= kMaxMovedBytes;
  if (holds_values && values_.size() < rows.size() * row_bytes) {
    ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(RoundUp(rows.size() * row_bytes, kIoAlignment),
                                                 /*huge_pages=*/false, &values_,
                                                 log_.placement().memory()));
  }
  moving_.clear();
  std::vector<uint32_t> moved;
  for (size_t i = 0; i < rows.size(); ++i) {
    const size_t before = moving_.size();
    const Status taken =
        TakeLive(bucket, rows[i], holds_values ? values_.data() + i * row_bytes : nullptr);
    if (taken.ok()) {
      moved.push_back(rows[i]);
      continue;
    }
    moving_.resize(before);
    if (!NoteUnreadable(rows[i], taken)) return taken;
  }
  // By age: records that change seldom come to lie together.
  std::sort(moving_.begin(), moving_.end(),
            [](const Moving& a, const Moving& b) { return a.record.sequence < b.record.sequence; });
  for (uint64_t from = 0; from < moving_.size(); from += row_records) {
    const uint64_t to = std::min<uint64_t>(from + row_records, moving_.size());
    const Status written = WriteMoved(bucket, from, to);
    if (!written.ok() && !holds_values) {
      std::vector<uint32_t> readable;
      std::copy_if(rows.begin(), rows.end(), std::back_inserter(readable),
                   [this](uint32_t row) { return unreadable_rows_.count(row) == 0; });
      if (readable.size() < rows.size()) {
        if (from == 0) return MoveAndFree(bucket, readable);
        // What was moved lies there twice until the next cleaning.
        has_more_ = true;
        return Status::Ok();
      }
    }
    ENGINE_RACE_RETURN_IF_ERROR(written);
    moved_count_ += to - from;
    slot_count_ += row_records;
  }
  for (const uint32_t row : moved) {
    ENGINE_RACE_RETURN_IF_ERROR(Free(bucket, row, rows_.at(row).live));
    slot_count_ -= row_records;
  }
  return Status::Ok();
}

// A row that cannot be read or verified stays as it is. False for other failures.
bool BucketCleaner::NoteUnreadable(uint32_t row, const Status& failure) {
  if (failure.code() != Code::kCorruption && failure.code() != Code::kIOError) return false;
  unreadable_rows_.insert(row);
  return true;
}

// Adds the live records of a row to moving_. Reads their values to `values`, those near each other
// together, unless that is null.
Status BucketCleaner::TakeLive(uint32_t bucket, uint32_t row, char* values) {
  const auto* const entries = reinterpret_cast<const format::KeyEntry*>(entries_.data());
  const EntryCodec codec = log_.codec(bucket);
  const Geometry& geometry = log_.geometry();
  const uint64_t first = uint64_t{row} * geometry.row_records();
  const SlotBits& live = rows_.at(row).live;
  if (values != nullptr) ENGINE_RACE_RETURN_IF_ERROR(ReadValues(bucket, first, live, values));
  const uint32_t count = live.count();
  for (uint32_t n = 0; n < count; ++n) {
    const uint32_t i = live.Nth(n);
    Moving moving;
    if (!cut_.table.Decode(codec, entries[first + i], first + i, &moving.record)) {
      return Status::Corruption("a key entry does not match its check");
    }
    if (!moving.record.tombstone && values != nullptr) {
      moving.value = values + i * uint64_t{geometry.slot_bytes()};
      if (!IsValueOf(moving.record, moving.value, geometry.value_bytes())) {
        return log_.reader().CorruptValue(bucket, first + i);
      }
    }
    moving_.push_back(moving);
  }
  return Status::Ok();
}

// Reads the values of these slots of the row that begins with slot `first` to their places in
// `values`. What lies between them there may change, too.
Status BucketCleaner::ReadValues(uint32_t bucket, uint64_t first, const SlotBits& slots,
                                 char* values) {
  const uint32_t count = slots.count();
  const uint64_t slot_bytes = log_.geometry().slot_bytes();
  uint64_t max_gap = kMaxReadGapBytes / slot_bytes;
  for (uint32_t done = 0; done < count;) {
    const uint32_t begin = slots.Nth(done);
    uint32_t end = slots.EndFrom(begin);
    uint32_t taken = end - begin;
    while (done + taken < count && slots.Nth(done + taken) - end <= max_gap) {
      const uint32_t next = slots.Nth(done + taken);
      end = slots.EndFrom(next);
      taken += end - next;
    }
    const Status read =
        log_.slots().ReadValues(bucket, first + begin, end - begin, values + begin * slot_bytes);
    if (!read.ok()) {
      if (taken == end - begin) return read;
      // What is not wanted may be what cannot be read.
      max_gap = 0;
      continue;
    }
    log_.mover().CountRead((end - begin) * slot_bytes);
    done += taken;
  }
  return Status::Ok();
}

// Puts the value of a record, or zeros, in `slot`.
Status BucketCleaner::PutMoving(uint32_t bucket, const Moving& moving, char* slot) {
  const Geometry& geometry = log_.geometry();
  if (moving.record.tombstone) {
    std::memset(slot, 0, geometry.slot_bytes());
    return Status::Ok();
  }
  if (moving.value != nullptr) {
    std::memcpy(slot, moving.value, geometry.slot_bytes());
    return Status::Ok();
  }
  const uint32_t from = moving.record.slot;
  Status read = log_.slots().ReadValues(bucket, from, 1, slot);
  if (read.ok()) {
    log_.mover().CountRead(geometry.slot_bytes());
    if (IsValueOf(moving.record, slot, geometry.value_bytes())) return read;
    read = log_.reader().CorruptValue(bucket, from);
  }
  static_cast<void>(NoteUnreadable(from / geometry.row_records(), read));
  return read;
}

// Writes moving_[from] to moving_[to - 1] to a row of their own.
Status BucketCleaner::WriteMoved(uint32_t bucket, uint64_t from, uint64_t to) {
  RowMover& mover = log_.mover();
  const uint64_t group_records = log_.geometry().values_per_group();
  const uint64_t slot_bytes = log_.geometry().slot_bytes();
  if (group_.size() == 0) {
    ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(log_.geometry().value_group_bytes,
                                                 /*huge_pages=*/false, &group_,
                                                 log_.placement().memory()));
  }
  std::vector<KeyRecord> records;
  records.reserve(to - from);
  // From here on nothing is thrown that would lose the row.
  uint32_t row = 0;
  ENGINE_RACE_RETURN_IF_ERROR(mover.TakeRow(bucket, /*kept_count=*/0, &row));
  const uint64_t first_slot = uint64_t{row} * log_.geometry().row_records();
  Status written;
  for (uint64_t at = from; at < to && written.ok();) {
    const uint64_t count = std::min(group_records, to - at);
    written = Guarded([&] {
      for (uint64_t i = 0; i < count; ++i) {
        const Moving& moving = moving_[at + i];
        ENGINE_RACE_RETURN_IF_ERROR(PutMoving(bucket, moving, group_.data() + i * slot_bytes));
        records.push_back(moving.record);
      }
      return mover.WriteValues(bucket, first_slot + (at - from), count, group_.data());
    });
    at += count;
  }
  if (!written.ok()) {
    mover.ReturnRow(bucket, row);
    return written;
  }
  return mover.Publish(bucket, row, horizon_, records);
}

}  // namespace engine_race
