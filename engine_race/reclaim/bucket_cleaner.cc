#include "engine_race/reclaim/bucket_cleaner.h"

#include <algorithm>
#include <cstring>

#include "engine_race/base/guarded.h"
#include "engine_race/base/round_up.h"

namespace engine_race {
namespace {

// The entries that are sorted at once. A bucket with more of them takes several passes.
constexpr uint64_t kMaxItems = uint64_t{2} << 20;
// Entries are read in pieces of this size.
constexpr uint64_t kPieceBytes = uint64_t{4} << 20;
// Values that are held at once. Their records are sorted by age together.
constexpr uint64_t kMaxMovedBytes = uint64_t{8} << 20;
// Free rows are scarce when there are at most four of them, or when at most one row in four is
// free.
constexpr uint64_t kScarceRows = 4;
constexpr uint64_t kScarceShare = 4;

uint64_t PassOf(uint64_t key, uint64_t pass_count) {
  return (key * 0x9e3779b97f4a7c15 >> 32) * pass_count >> 32;
}

}  // namespace

Status BucketCleaner::Clean(uint32_t bucket, uint32_t dead_percent, BucketUse* use,
                            SharedProgress* progress) {
  const auto choose = [&] {
    // Cells free no row for others. So where free rows are scarce, whole ones are freed.
    const uint64_t free_count = log_.mover().FreeRowCount(bucket);
    const uint64_t scarce_count =
        std::max(kScarceRows, log_.geometry().rows_per_bucket() / kScarceShare);
    const uint64_t row_records = cut_.table.row_records();
    kept_row_count_ = free_count <= scarce_count ? 0 : 1;
    choice_ = free_count <= scarce_count
                  ? ChooseRows(Cells(), free_count * row_records)
                  : ChooseCells(Cells(), dead_percent, (free_count - scarce_count) * row_records);
  };
  return FreeWhat(choose, bucket, use, progress);
}

Status BucketCleaner::MakeSpace(uint32_t bucket, BucketUse* use) {
  const auto choose = [&] {
    kept_row_count_ = 0;
    choice_ = ChooseRows(Cells(), log_.mover().FreeRowCount(bucket) * cut_.table.row_records());
  };
  return FreeWhat(choose, bucket, use, /*progress=*/nullptr);
}

Status BucketCleaner::FreeWhat(FunctionRef<void()> choose, uint32_t bucket, BucketUse* use,
                               SharedProgress* progress) {
  Status freed = Guarded([&] {
    ENGINE_RACE_RETURN_IF_ERROR(Look(bucket));
    choose();
    Status done = FreeChosen(bucket, progress);
    Finish(use);
    return done;
  });
  // Nothing is released while the cut is held.
  cut_ = BucketCut();
  return freed;
}

Status BucketCleaner::Look(uint32_t bucket) {
  choice_ = {};
  freed_count_ = moved_count_ = 0;
  cut_ = BucketCut();
  log_.mover().ReleaseLeftovers(bucket);
  // Before the cut: what is settled meanwhile is not in its table.
  unsettled_ = log_.mover().UnsettledCells(bucket);
  ENGINE_RACE_RETURN_IF_ERROR(log_.LookAtBucket(bucket, /*first_sequence=*/0, &cut_));
  horizon_ = std::max(cut_.logged_watermark, cut_.synced_watermark);
  ENGINE_RACE_RETURN_IF_ERROR(ReadEntries(bucket));
  FindLive(bucket);
  CountCells();
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
    ENGINE_RACE_RETURN_IF_ERROR(log_.KeyFile(bucket).Read(entries_.data() + begin, size,
                                                          log_.KeyOffset(bucket, 0) + begin));
  }
  log_.mover().CountRead(bytes);
  cut_.PutStaged(reinterpret_cast<format::KeyEntry*>(entries_.data()));
  return Status::Ok();
}

// A damaged entry counts as live, so that its cell is not given up. It may be of any key. So
// records that are older must not become newer by a move, and tombstones stay live. A record that
// only records behind the horizon supersede is live, too.
void BucketCleaner::FindLive(uint32_t bucket) {
  const auto* const entries = reinterpret_cast<const format::KeyEntry*>(entries_.data());
  const EntryCodec codec = log_.codec(bucket);
  const uint64_t slot_end = cut_.slot_end();
  live_.assign(slot_end, false);
  tombstones_.assign(slot_end, false);
  lone_tombstones_.assign(slot_end, false);
  first_movable_ = 0;
  const uint64_t pass_count = (slot_end + kMaxItems - 1) / kMaxItems;
  for (uint64_t pass = 0; pass < pass_count; ++pass) {
    items_.clear();
    for (uint64_t slot = 0; slot < slot_end; ++slot) {
      if (!cut_.Holds(slot) || PassOf(entries[slot].key, pass_count) != pass) continue;
      if (cut_.table.OrderOf(slot) > 2 * horizon_) {
        live_[slot] = true;
        continue;
      }
      KeyRecord record;
      if (cut_.table.Decode(codec, entries[slot], slot, &record)) {
        items_.push_back({record.key, cut_.table.OrderOf(slot), record.slot, record.tombstone});
      } else {
        live_[slot] = true;
        first_movable_ = std::max(first_movable_, cut_.table.OrderOf(slot) + 1);
      }
    }
    std::sort(items_.begin(), items_.end(), [](const Item& a, const Item& b) {
      return a.key != b.key ? a.key < b.key : a.order > b.order;
    });
    for (size_t i = 0; i < items_.size(); ++i) {
      if (i > 0 && items_[i - 1].key == items_[i].key) continue;
      const bool has_older = i + 1 < items_.size() && items_[i + 1].key == items_[i].key;
      live_[items_[i].slot] = !items_[i].tombstone || has_older;
      tombstones_[items_[i].slot] = items_[i].tombstone && has_older;
      lone_tombstones_[items_[i].slot] = items_[i].tombstone && !has_older;
    }
  }
  if (first_movable_ == 0) return;
  for (uint64_t slot = 0; slot < slot_end; ++slot) {
    if (lone_tombstones_[slot]) live_[slot] = true;
  }
}

// Whether the row's cells may be given up. The last run stays: it tells how many records there are.
// Records behind the horizon may be lost with the power.
bool BucketCleaner::IsSettled(const Row& row) const {
  if (row.kind == format::RowKind::kMoved) return row.number < horizon_;
  return row.is_run() && (row.number + 1) * cut_.table.row_records() <= cut_.logged_watermark &&
         (row.number + 1) * cut_.table.row_records() < horizon_;
}

CellsOfBucket BucketCleaner::Cells() const {
  return {.cells = cells_,
          .record_count = cut_.record_count,
          .live_count = live_count_,
          .held_count = held_count_,
          .row_records = cut_.table.row_records(),
          .cell_records = cut_.table.cell_records()};
}

void BucketCleaner::CountCells() {
  cells_.clear();
  live_count_ = held_count_ = 0;
  SlotTable table = cut_.table;
  if (!table.has_rows()) table.BeginRows(cut_.record_count);
  const uint32_t cell_records = table.cell_records();
  const uint32_t cells_per_row = table.row_records() / cell_records;
  for (uint32_t index = 0; index < table.rows().size(); ++index) {
    const Row& row = table.rows()[index];
    if (row.free()) continue;
    const auto unsettled = unsettled_.find(index);
    const uint32_t given_up = unsettled == unsettled_.end() ? 0 : unsettled->second;
    for (uint32_t i = 0; i < cells_per_row; ++i) {
      if ((given_up >> i & 1) != 0) continue;
      Cell cell{.row = index, .cell = i};
      const uint64_t first = FirstSlotOf(cell);
      bool stays = !IsSettled(row);
      for (uint64_t slot = first; slot < first + cell_records; ++slot) {
        if (!table.Holds(slot, cut_.record_count)) continue;
        ++cell.held_count;
        cell.live_count += live_[slot];
        cell.tombstone_count += tombstones_[slot];
        stays = stays || (live_[slot] && table.OrderOf(slot) < first_movable_);
      }
      if (cell.held_count == 0) continue;
      live_count_ += cell.live_count - cell.tombstone_count;
      held_count_ += cell.held_count;
      if (stays) continue;
      cell.time = row.is_run() ? row.number * table.row_records() + i * cell_records : row.number;
      cells_.push_back(cell);
    }
  }
}

Status BucketCleaner::FreeChosen(uint32_t bucket, SharedProgress* progress) {
  if (choice_.cells.empty()) return Status::Ok();
  ENGINE_RACE_RETURN_IF_ERROR(log_.mover().Begin(bucket));
  const uint64_t cell_bytes = uint64_t{cut_.table.cell_records()} * kValueBytes;
  const uint64_t cells_at_once = std::max<uint64_t>(kMaxMovedBytes / cell_bytes, 1);
  // Cells without live records need no memory.
  const auto end_of_dead = std::find_if(choice_.cells.begin(), choice_.cells.end(),
                                        [](const Cell& cell) { return cell.live_count != 0; });
  std::span<const Cell> rest = choice_.cells;
  const auto dead_count = static_cast<size_t>(end_of_dead - choice_.cells.begin());
  ENGINE_RACE_RETURN_IF_ERROR(Free(bucket, rest.first(dead_count)));
  rest = rest.subspan(dead_count);
  while (!rest.empty()) {
    if (progress != nullptr) ENGINE_RACE_RETURN_IF_ERROR(progress->Tell());
    const std::span<const Cell> cells = rest.first(std::min<size_t>(cells_at_once, rest.size()));
    const Status moved = MoveAndFree(bucket, cells);
    // Rows that are filled in part have taken more than was planned, or a batch has taken some.
    if (moved.code() == Code::kFull) {
      choice_.has_more = true;
      return Status::Ok();
    }
    ENGINE_RACE_RETURN_IF_ERROR(moved);
    rest = rest.subspan(cells.size());
  }
  return Status::Ok();
}

Status BucketCleaner::MoveAndFree(uint32_t bucket, std::span<const Cell> cells) {
  const uint64_t cell_bytes = uint64_t{cut_.table.cell_records()} * kValueBytes;
  const uint64_t bytes = cells.size() * cell_bytes;
  if (values_.size() < bytes) {
    ENGINE_RACE_RETURN_IF_ERROR(
        Region::Allocate(bytes, /*huge_pages=*/false, &values_, log_.placement().memory()));
  }
  moving_.clear();
  std::vector<Cell> moved;
  for (size_t i = 0; i < cells.size(); ++i) {
    char* const values = values_.data() + i * cell_bytes;
    const size_t before = moving_.size();
    Status taken = ReadValues(bucket, cells[i], values);
    if (taken.ok()) taken = TakeLive(bucket, cells[i], values);
    if (taken.ok()) {
      moved.push_back(cells[i]);
      continue;
    }
    // A cell that cannot be read or verified stays as it is.
    moving_.resize(before);
    if (taken.code() != Code::kCorruption && taken.code() != Code::kIOError) return taken;
  }
  std::stable_sort(moving_.begin(), moving_.end(),
                   [](const Moving& a, const Moving& b) { return a.time < b.time; });
  const uint32_t row_records = cut_.table.row_records();
  for (uint64_t from = 0; from < moving_.size(); from += row_records) {
    const uint64_t to = std::min<uint64_t>(from + row_records, moving_.size());
    ENGINE_RACE_RETURN_IF_ERROR(WriteMoved(bucket, from, to));
    moved_count_ += to - from;
  }
  return Free(bucket, moved);
}

// Reads one cell at a time: a larger read would delay the reads of the store's users.
Status BucketCleaner::ReadValues(uint32_t bucket, const Cell& cell, char* values) {
  const uint32_t slot_count = cut_.table.cell_records();
  ENGINE_RACE_RETURN_IF_ERROR(log_.values().Read(bucket, FirstSlotOf(cell), slot_count, values));
  log_.mover().CountRead(uint64_t{slot_count} * kValueBytes);
  return Status::Ok();
}

uint64_t BucketCleaner::FirstSlotOf(const Cell& cell) const {
  return uint64_t{cell.row} * cut_.table.row_records() + cell.cell * cut_.table.cell_records();
}

// Adds the live records of a cell, whose values were read, to moving_.
Status BucketCleaner::TakeLive(uint32_t bucket, const Cell& cell, const char* values) {
  const auto* const entries = reinterpret_cast<const format::KeyEntry*>(entries_.data());
  const EntryCodec codec = log_.codec(bucket);
  const uint32_t cell_records = cut_.table.cell_records();
  const uint64_t first = FirstSlotOf(cell);
  for (uint64_t slot = first; slot < first + cell_records; ++slot) {
    if (!cut_.Holds(slot) || !live_[slot]) continue;
    Moving moving;
    const char* const value = values + (slot - first) * kValueBytes;
    if (!cut_.table.Decode(codec, entries[slot], slot, &moving.record)) {
      return Status::Corruption("a key entry does not match its check");
    }
    moving.time = cell.time;
    if (!moving.record.tombstone) {
      moving.value = value;
      if (!IsValueOf(moving.record, value)) return log_.CorruptValue(bucket, slot);
    }
    moving_.push_back(moving);
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
  ENGINE_RACE_RETURN_IF_ERROR(mover.TakeRow(bucket, kept_row_count_, &row));
  const uint64_t first_slot = uint64_t{row} * cut_.table.row_records();
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

Status BucketCleaner::Free(uint32_t bucket, std::span<const Cell> cells) {
  std::map<uint32_t, FreedCells> by_row;
  for (const Cell& cell : cells) {
    const auto [row, is_new] = by_row.try_emplace(cell.row);
    if (is_new) log_.mover().Describe(bucket, cell.row, &row->second);
    row->second.cells |= uint32_t{1} << cell.cell;
    freed_count_ += cell.held_count;
  }
  std::vector<FreedCells> freed;
  freed.reserve(by_row.size());
  for (const auto& [row, of_row] : by_row) freed.push_back(of_row);
  return log_.mover().Free(freed);
}

void BucketCleaner::Finish(BucketUse* use) {
  *use = {.record_count = cut_.record_count,
          .live_count = live_count_,
          .held_count = held_count_ - freed_count_ + moved_count_,
          .freed_count = freed_count_,
          .moved_count = moved_count_,
          .has_more = choice_.has_more};
}

}  // namespace engine_race
