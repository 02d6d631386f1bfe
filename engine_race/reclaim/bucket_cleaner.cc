#include "engine_race/reclaim/bucket_cleaner.h"

#include <algorithm>
#include <utility>

#include "engine_race/base/guarded.h"
#include "engine_race/base/round_up.h"

namespace engine_race {
namespace {

// The entries that are sorted at once. A bucket with more of them takes several passes.
constexpr uint64_t kMaxItems = uint64_t{2} << 20;
// Entries are read in pieces of this size.
constexpr uint64_t kPieceBytes = uint64_t{4} << 20;

uint64_t PassOf(uint64_t key, uint64_t pass_count) {
  return (key * 0x9e3779b97f4a7c15 >> 32) * pass_count >> 32;
}

}  // namespace

Status BucketCleaner::Clean(uint32_t bucket, uint32_t dead_percent, BucketUse* use,
                            SharedProgress* progress) {
  const auto choose = [&]() -> RowChoice {
    // Tombstones that are dead next time are not worth moving.
    if (has_more_ || PunchesInstead()) return {};
    const uint32_t row_records = log_.geometry().row_records();
    const uint64_t free_count = log_.mover().FreeRowCount(bucket);
    if (dead_percent == 0) return ChooseSparse(MovableRows(), row_records, free_count);
    // One free row is left to cleanings of a bucket that is full.
    const uint64_t room = free_count - std::min<uint64_t>(free_count, 1);
    const uint64_t limit = SlotLimit(live_count_, dead_percent, log_.geometry());
    const uint64_t wanted = SpareRows(slot_count_, limit, log_.geometry());
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
  ENGINE_RACE_RETURN_IF_ERROR(log_.reader().LookAtBucket(bucket, /*first_sequence=*/0, &cut_));
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
