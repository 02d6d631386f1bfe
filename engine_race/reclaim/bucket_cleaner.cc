#include "engine_race/reclaim/bucket_cleaner.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine_race/base/guarded.h"
#include "engine_race/base/round_up.h"

namespace engine_race {
namespace {

// The entries that are sorted at once. A bucket with more of them takes several passes.
constexpr uint64_t kMaxItems = uint64_t{2} << 20;
// Entries are read in pieces of this size.
constexpr uint64_t kPieceBytes = uint64_t{4} << 20;
// Values that are held at once.
constexpr uint64_t kMaxMovedBytes = uint64_t{8} << 20;
// One read takes so many slots that are not wanted along: another read would cost more.
constexpr uint32_t kMaxReadGap = 16;
// A cleaning moves so much, or this share of its bucket. Until it is settled and released, moved
// records take space twice.
constexpr uint64_t kMovedShare = 16;

uint64_t PassOf(uint64_t key, uint64_t pass_count) {
  return (key * 0x9e3779b97f4a7c15 >> 32) * pass_count >> 32;
}

}  // namespace

Status BucketCleaner::Clean(uint32_t bucket, uint32_t dead_percent, BucketUse* use,
                            SharedProgress* progress) {
  const auto choose = [&]() -> RowChoice {
    // Tombstones that are dead next time are not worth moving. On a full disk gaps are punched out:
    // moved records would take as much as they leave.
    if (has_more_ || log_.reserve().is_given_up()) return {};
    const uint32_t row_records = log_.geometry().row_records();
    const uint64_t free_count = log_.mover().FreeRowCount(bucket);
    if (dead_percent == 0) return ChooseSparse(MovableRows(), row_records, free_count);
    // One free row is left to cleanings of a bucket that is full.
    const uint64_t room = free_count - std::min<uint64_t>(free_count, 1);
    const uint64_t wanted = SpareRows(slot_count_, SlotLimit(live_count_, dead_percent),
                                      row_records, log_.geometry().bucket_count);
    return ChooseRows(MovableRows(), row_records, wanted, room);
  };
  return CleanGuarded(bucket, choose, use, progress);
}

Status BucketCleaner::MakeSpace(uint32_t bucket, BucketUse* use) {
  return CleanGuarded(
      bucket, [] { return RowChoice(); }, use, /*progress=*/nullptr);
}

Status BucketCleaner::CleanGuarded(uint32_t bucket, FunctionRef<RowChoice()> choose, BucketUse* use,
                                   SharedProgress* progress) {
  Status cleaned = Guarded([&] {
    ENGINE_RACE_RETURN_IF_ERROR(Look(bucket));
    ENGINE_RACE_RETURN_IF_ERROR(FreeDead(bucket));
    Status moved = MoveChosen(bucket, choose(), progress);
    Finish(use);
    return moved;
  });
  // Nothing is released while the cut is held.
  cut_ = BucketCut();
  return cleaned;
}

Status BucketCleaner::Look(uint32_t bucket) {
  if (std::exchange(bucket_, bucket) != bucket) unreadable_rows_.clear();
  has_more_ = false;
  freed_count_ = moved_count_ = 0;
  cut_ = BucketCut();
  log_.mover().ReleaseLeftovers(bucket);
  // Before the cut: what is settled meanwhile is not in its table.
  unsettled_ = log_.mover().UnsettledSlots(bucket);
  ENGINE_RACE_RETURN_IF_ERROR(log_.LookAtBucket(bucket, /*first_sequence=*/0, &cut_));
  horizon_ = cut_.logged_watermark;
  ENGINE_RACE_RETURN_IF_ERROR(ReadEntries(bucket));
  FindLive(bucket);
  CountRows();
  return Status::Ok();
}

Status BucketCleaner::ReadEntries(uint32_t bucket) {
  const uint64_t bytes = RoundUp(std::max<uint64_t>(cut_.slot_end(), 1) * format::kKeyEntryBytes,
                                 uint64_t{kIoAlignment});
  if (entries_.size() < bytes) {
    ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(bytes + bytes / 4 / kIoAlignment * kIoAlignment,
                                                 /*huge_pages=*/false, &entries_,
                                                 log_.placement().memory()));
  }
  for (uint64_t begin = 0; begin < bytes; begin += kPieceBytes) {
    const uint64_t size = std::min(kPieceBytes, bytes - begin);
    ENGINE_RACE_RETURN_IF_ERROR(log_.slots().ReadKeys(bucket, begin / format::kKeyEntryBytes,
                                                      size / format::kKeyEntryBytes,
                                                      entries_.data() + begin));
  }
  log_.mover().CountRead(bytes);
  cut_.PutStaged(reinterpret_cast<format::KeyEntry*>(entries_.data()));
  return Status::Ok();
}

// A damaged entry counts as live, so that its slot is not given up. It may be of any key. So
// records that are older must not be told to the index by a move, and tombstones stay live. A
// record that only records behind the horizon supersede is live, too: its key counts once.
void BucketCleaner::FindLive(uint32_t bucket) {
  const auto* const entries = reinterpret_cast<const format::KeyEntry*>(entries_.data());
  const EntryCodec codec = log_.codec(bucket);
  const uint64_t slot_end = cut_.slot_end();
  live_.assign(slot_end, false);
  tombstones_.assign(slot_end, false);
  lone_tombstones_.assign(slot_end, false);
  first_movable_ = live_count_ = 0;
  const uint64_t pass_count = (slot_end + kMaxItems - 1) / kMaxItems;
  for (uint64_t pass = 0; pass < pass_count; ++pass) {
    items_.clear();
    for (uint64_t slot = 0; slot < slot_end; ++slot) {
      if (!cut_.Holds(slot) || PassOf(entries[slot].key, pass_count) != pass) continue;
      KeyRecord record;
      if (cut_.table.Decode(codec, entries[slot], slot, &record)) {
        items_.push_back({record.key, record.sequence, record.slot, record.tombstone});
      } else {
        live_[slot] = true;
        ++live_count_;
        first_movable_ = std::max(first_movable_, cut_.table.SequenceEnd(slot) + 1);
      }
    }
    std::sort(items_.begin(), items_.end(), [this](const Item& a, const Item& b) {
      if (a.key != b.key) return a.key < b.key;
      return a.sequence != b.sequence ? a.sequence > b.sequence
                                      : cut_.table.IsLaterCopy(a.slot, b.slot);
    });
    const Item* newest = nullptr;  // of its key, before the horizon
    for (size_t i = 0; i < items_.size(); ++i) {
      const Item& item = items_[i];
      if ((i == 0 || items_[i - 1].key != item.key) && !item.tombstone) ++live_count_;
      if (item.sequence >= horizon_) live_[item.slot] = true;
      if (item.sequence >= horizon_ || (newest != nullptr && newest->key == item.key)) continue;
      newest = &item;
      const bool has_older = i + 1 < items_.size() && items_[i + 1].key == item.key;
      live_[item.slot] = !item.tombstone || has_older;
      tombstones_[item.slot] = item.tombstone && has_older;
      lone_tombstones_[item.slot] = item.tombstone && !has_older;
    }
  }
  for (uint64_t slot = 0; slot < slot_end && first_movable_ != 0; ++slot) {
    if (!lone_tombstones_[slot]) continue;
    live_[slot] = true;
    ++live_count_;
  }
}

// A row with records that may be older than a damaged one of their key stays: moved ones would pass
// for the newest.
void BucketCleaner::CountRows() {
  const auto* const entries = reinterpret_cast<const format::KeyEntry*>(entries_.data());
  rows_.clear();
  held_count_ = slot_count_ = 0;
  SlotTable table = cut_.table;
  if (!table.has_rows()) table.BeginRows(cut_.record_count);
  const uint32_t row_records = table.row_records();
  for (uint32_t index = 0; index < table.rows().size(); ++index) {
    const Row& row = table.rows()[index];
    if (row.free()) continue;
    const auto unsettled = unsettled_.find(index);
    UsedRow use;
    use.is_fixed = row.is_moving();
    use.keeps_run = row.RunReaches(horizon_);
    for (uint32_t i = 0; i < row_records; ++i) {
      const uint64_t slot = uint64_t{index} * row_records + i;
      if (unsettled != unsettled_.end() && unsettled->second.Has(i)) continue;
      if (!table.Holds(slot, cut_.record_count)) continue;
      ++held_count_;
      if (!live_[slot]) {
        use.dead.Add(i);
        continue;
      }
      use.live.Add(i);
      use.is_fixed =
          use.is_fixed || table.NewestBelow(slot, entries[slot].sequence()) < first_movable_;
      // It goes once the older record that this cleaning gives up has gone.
      has_more_ = has_more_ || tombstones_[slot];
    }
    rows_.emplace(index, use);
    // A row that was given up whole gets free with the next Settle, unless its run stays.
    const bool is_given_up =
        !use.keeps_run && unsettled != unsettled_.end() && use.live.empty() && use.dead.empty();
    if (!is_given_up) slot_count_ += row_records;
  }
}

std::vector<MovableRow> BucketCleaner::MovableRows() const {
  const uint32_t row_records = log_.geometry().row_records();
  std::vector<MovableRow> movable;
  for (const auto& [index, row] : rows_) {
    const uint32_t live_count = row.live.count();
    if (!row.is_fixed && !row.keeps_run && live_count != 0 && live_count != row_records &&
        unreadable_rows_.count(index) == 0) {
      movable.push_back({index, live_count, row.live.Nth(live_count - 1) + 1});
    }
  }
  return movable;
}

Status BucketCleaner::FreeDead(uint32_t bucket) {
  for (const auto& [index, row] : rows_) {
    if (row.is_fixed || row.dead.empty()) continue;
    if (freed_count_ == 0) ENGINE_RACE_RETURN_IF_ERROR(log_.mover().Begin(bucket));
    ENGINE_RACE_RETURN_IF_ERROR(Free(bucket, index, row.dead));
    freed_count_ += row.dead.count();
    if (row.live.empty() && !row.keeps_run) slot_count_ -= log_.geometry().row_records();
  }
  has_more_ = has_more_ && freed_count_ != 0;
  return Status::Ok();
}

Status BucketCleaner::MoveChosen(uint32_t bucket, const RowChoice& choice,
                                 SharedProgress* progress) {
  has_more_ = has_more_ || choice.has_more;
  if (choice.rows.empty()) return Status::Ok();
  ENGINE_RACE_RETURN_IF_ERROR(log_.mover().Begin(bucket));
  const uint64_t row_bytes = uint64_t{log_.geometry().row_records()} * kValueBytes;
  const uint64_t most_rows = std::max<uint64_t>(kMaxMovedBytes / row_bytes, 1);
  const uint64_t most_moved = std::max(kMaxMovedBytes / kValueBytes, slot_count_ / kMovedShare);
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
    // On a disk that is full by now the gaps are punched out.
    if (log_.reserve().is_given_up()) return Status::Ok();
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
  const uint64_t row_bytes = uint64_t{row_records} * kValueBytes;
  if (values_.size() < rows.size() * row_bytes) {
    ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(rows.size() * row_bytes, /*huge_pages=*/false,
                                                 &values_, log_.placement().memory()));
  }
  moving_.clear();
  std::vector<uint32_t> moved;
  for (size_t i = 0; i < rows.size(); ++i) {
    const size_t before = moving_.size();
    const Status taken = TakeLive(bucket, rows[i], values_.data() + i * row_bytes);
    if (taken.ok()) {
      moved.push_back(rows[i]);
      continue;
    }
    // A row that cannot be read or verified stays as it is.
    moving_.resize(before);
    if (taken.code() != Code::kCorruption && taken.code() != Code::kIOError) return taken;
    unreadable_rows_.insert(rows[i]);
  }
  // By age: records that change seldom come to lie together.
  std::sort(moving_.begin(), moving_.end(),
            [](const Moving& a, const Moving& b) { return a.record.sequence < b.record.sequence; });
  for (uint64_t from = 0; from < moving_.size(); from += row_records) {
    const uint64_t to = std::min<uint64_t>(from + row_records, moving_.size());
    ENGINE_RACE_RETURN_IF_ERROR(WriteMoved(bucket, from, to));
    moved_count_ += to - from;
    slot_count_ += row_records;
  }
  for (const uint32_t row : moved) {
    ENGINE_RACE_RETURN_IF_ERROR(Free(bucket, row, rows_.at(row).live));
    slot_count_ -= row_records;
  }
  return Status::Ok();
}

// Reads the live records of a row, those near each other together, and adds them to moving_.
Status BucketCleaner::TakeLive(uint32_t bucket, uint32_t row, char* values) {
  const auto* const entries = reinterpret_cast<const format::KeyEntry*>(entries_.data());
  const EntryCodec codec = log_.codec(bucket);
  const uint64_t first = uint64_t{row} * log_.geometry().row_records();
  const SlotBits& live = rows_.at(row).live;
  ENGINE_RACE_RETURN_IF_ERROR(ReadValues(bucket, first, live, values));
  const uint32_t count = live.count();
  for (uint32_t n = 0; n < count; ++n) {
    const uint32_t i = live.Nth(n);
    Moving moving;
    if (!cut_.table.Decode(codec, entries[first + i], first + i, &moving.record)) {
      return Status::Corruption("a key entry does not match its check");
    }
    if (!moving.record.tombstone) {
      moving.value = values + i * uint64_t{kValueBytes};
      if (!IsValueOf(moving.record, moving.value, kValueBytes))
        return log_.CorruptValue(bucket, first + i);
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
  uint32_t max_gap = kMaxReadGap;
  for (uint32_t done = 0; done < count;) {
    const uint32_t begin = slots.Nth(done);
    uint32_t end = slots.EndFrom(begin);
    uint32_t taken = end - begin;
    while (done + taken < count && slots.Nth(done + taken) - end <= max_gap) {
      const uint32_t next = slots.Nth(done + taken);
      end = slots.EndFrom(next);
      taken += end - next;
    }
    const Status read = log_.slots().ReadValues(bucket, first + begin, end - begin,
                                                values + begin * uint64_t{kValueBytes});
    if (!read.ok()) {
      if (taken == end - begin) return read;
      // What is not wanted may be what cannot be read.
      max_gap = 0;
      continue;
    }
    log_.mover().CountRead(uint64_t{end - begin} * kValueBytes);
    done += taken;
  }
  return Status::Ok();
}

// Writes moving_[from] to moving_[to - 1] to a row of their own.
Status BucketCleaner::WriteMoved(uint32_t bucket, uint64_t from, uint64_t to) {
  RowMover& mover = log_.mover();
  const uint64_t group_records = log_.geometry().values_per_group();
  if (group_.size() == 0) {
    ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(group_records * kValueBytes, /*huge_pages=*/false,
                                                 &group_, log_.placement().memory()));
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
    for (uint64_t i = 0; i < count; ++i) {
      const Moving& moving = moving_[at + i];
      char* const place = group_.data() + i * kValueBytes;
      if (moving.value == nullptr) {
        std::memset(place, 0, kValueBytes);
      } else {
        std::memcpy(place, moving.value, kValueBytes);
      }
      records.push_back(moving.record);
    }
    written = Guarded(
        [&] { return mover.WriteValues(bucket, first_slot + (at - from), count, group_.data()); });
    at += count;
  }
  if (!written.ok()) {
    mover.ReturnRow(bucket, row);
    return written;
  }
  return mover.Publish(bucket, row, horizon_, records);
}

Status BucketCleaner::Free(uint32_t bucket, uint32_t row, const SlotBits& slots) {
  FreedSlots freed;
  log_.mover().Describe(bucket, row, &freed);
  freed.slots = slots;
  return log_.mover().Free({&freed, 1});
}

void BucketCleaner::Finish(BucketUse* use) {
  *use = {.record_count = cut_.record_count,
          .live_count = live_count_,
          .held_count = held_count_ - freed_count_,
          .slot_count = slot_count_,
          .freed_count = freed_count_,
          .moved_count = moved_count_,
          .has_more = has_more_};
}

}  // namespace engine_race
