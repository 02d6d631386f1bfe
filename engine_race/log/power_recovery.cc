#include "engine_race/log/power_recovery.h"

#include <algorithm>
#include <atomic>
#include <span>
#include <string>
#include <vector>

#include "engine_race/base/assert.h"
#include "engine_race/base/memory.h"
#include "engine_race/log/entry_codec.h"
#include "engine_race/log/index_coverage.h"
#include "engine_race/log/key_log_cut.h"
#include "engine_race/log/log_repair.h"
#include "engine_race/log/parallel_work.h"
#include "engine_race/log/record_check.h"
#include "engine_race/log/row_file.h"
#include "engine_race/log/tail.h"

namespace engine_race {
namespace {

// *good: all records that were moved to the row are there.
Status MovedRowVerifies(const StoreFiles& files, uint32_t bucket, const SlotTable& table,
                        uint32_t index, bool* good) {
  *good = false;
  const EntryCodec codec(files.identity.seed_id(), bucket);
  const uint64_t first = uint64_t{index} * table.row_records();
  Region keys;
  Region value;
  const uint64_t count = table.row_records();
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(count * format::kKeyEntryBytes, false, &keys));
  ENGINE_RACE_RETURN_IF_ERROR(
      Region::Allocate(files.identity.geometry.slot_bytes(), false, &value));
  ENGINE_RACE_RETURN_IF_ERROR(files.slots.ReadKeys(bucket, first, count, keys.data()));
  const auto* const entries = reinterpret_cast<const format::KeyEntry*>(keys.data());
  for (uint32_t i = 0; i < count; ++i) {
    if (!table.Holds(first + i, /*record_count=*/0)) continue;
    KeyRecord record;
    if (!table.Decode(codec, entries[i], first + i, &record)) return Status::Ok();
    if (record.tombstone) continue;
    ENGINE_RACE_RETURN_IF_ERROR(files.slots.ReadValues(bucket, first + i, 1, value.data()));
    const uint32_t value_bytes = files.identity.geometry.value_bytes();
    if (!IsValueOf(record, value.data(), value_bytes)) return Status::Ok();
  }
  *good = true;
  return Status::Ok();
}

// Moved records that were read without direct I/O may be in the page cache alone, after a failed
// flush. Slots that hold nothing stay as they are: the disk may be full.
Status WriteMovedRowsAgain(const StoreFiles& files, uint32_t bucket, const SlotTable& table) {
  format::KeyEntry key;
  std::vector<char> value(files.identity.geometry.slot_bytes());
  for (uint64_t slot = 0; slot < table.rows().size() * table.row_records(); ++slot) {
    if (!table.rows()[slot / table.row_records()].is_moving() || !table.Holds(slot, 0)) continue;
    const SlotLocation location = files.slots.LocateKeys(bucket, slot);
    if (!location.found()) continue;
    if (!location.file->direct()) {
      ENGINE_RACE_RETURN_IF_ERROR(files.slots.ReadKeys(bucket, slot, 1, &key));
      ENGINE_RACE_RETURN_IF_ERROR(files.slots.WriteKeys(bucket, slot, 1, &key));
    }
    if (!files.slots.LocateValues(bucket, slot).file->direct()) {
      ENGINE_RACE_RETURN_IF_ERROR(files.slots.ReadValues(bucket, slot, 1, value.data()));
      ENGINE_RACE_RETURN_IF_ERROR(files.slots.WriteValues(bucket, slot, 1, value.data()));
    }
  }
  return Status::Ok();
}

}  // namespace

Status SettleMovedRows(const StoreFiles& files, uint32_t bucket, SlotTable* table) {
  const uint64_t era = table->NextEra();
  for (uint32_t index = 0; index < table->rows().size(); ++index) {
    Row row = table->rows()[index];
    if (!row.is_moving()) continue;
    bool good = false;
    ENGINE_RACE_RETURN_IF_ERROR(MovedRowVerifies(files, bucket, *table, index, &good));
    if (good) {
      row.kind = format::RowKind::kUsed;
    } else {
      // In one image: neither is durable without the other.
      row = Row();
      row.birth = era;
    }
    table->SetRow(index, row);
  }
  return Status::Ok();
}

void CutRows(uint64_t cut, uint64_t synced_watermark, SlotTable* table) {
  for (uint32_t index = 0; index < table->rows().size(); ++index) {
    Row row = table->rows()[index];
    if (row.has_run() && row.number >= cut) {
      row.held = row.kept();
      row.path = {};
      row.number = cut;
    }
    if (!row.kept().empty() && row.horizon > cut) row.held = row.held & row.path;
    if (row.held.empty() && !row.RunReaches(synced_watermark)) row = row.Freed();
    if (row != table->rows()[index]) table->SetRow(index, row);
  }
}

namespace {

// AreAllReadable for one bucket.
Status IsReadable(const StoreFiles& files, const Staging& staging, const JournalReplay& journal,
                  uint32_t bucket, BucketState* state, bool* readable) {
  *readable = false;
  if (journal.EndSequence(bucket) > state->record_count) return Status::Ok();
  ENGINE_RACE_RETURN_IF_ERROR(SettleMovedRows(files, bucket, &state->table));
  // The counts may be older than the log: a repair would go on from there. With the rows as they
  // are, because those behind the count are about to be dropped.
  BucketState counted = *state;
  counted.synced_watermark = counted.record_count;
  TailReader tail(files, staging, journal);
  uint64_t end = 0;
  ENGINE_RACE_RETURN_IF_ERROR(tail.Init());
  ENGINE_RACE_RETURN_IF_ERROR(tail.Walk(
      bucket, counted, [](const TailRecord&) { return Status::Ok(); }, &end));
  if (end != state->record_count) return Status::Ok();
  if (state->table.has_rows()) {
    CutRows(state->record_count, state->synced_watermark, &state->table);
  }
  RecordCheck check(files, staging, bucket, *state);
  ENGINE_RACE_RETURN_IF_ERROR(check.Init());
  return check.ReadersFind(state->synced_watermark, state->record_count, readable);
}

}  // namespace

Status AreAllReadable(const StoreFiles& files, const Staging& staging, const JournalReplay& journal,
                      const std::vector<uint32_t>& buckets, std::vector<BucketState>* states,
                      bool* readable) {
  // A failure counts also where another bucket is not readable: a device that fails is not
  // repaired.
  std::atomic<bool> all_readable{true};
  Status looked = ForEachBucket(buckets, [&](uint32_t index) {
    if (!all_readable.load()) return Status::Ok();
    bool found = false;
    Status read = IsReadable(files, staging, journal, index, &(*states)[index], &found);
    if (!found) all_readable.store(false);
    return read;
  });
  *readable = all_readable.load();
  return looked;
}

Status PowerRecovery::Run(uint32_t page_cache_id, std::vector<BucketState>* states,
                          bool* readable) {
  *readable = false;
  std::vector<uint32_t> doubtful;
  for (uint32_t index = 0; index < context_.geometry().bucket_count; ++index) {
    if (!(*states)[index].damaged) doubtful.push_back(index);
  }
  std::vector<uint64_t> cuts(context_.geometry().bucket_count);
  Status repaired = MarkDoubt(doubtful);
  if (repaired.ok()) repaired = RepairLogs(states, doubtful, &cuts);
  if (repaired.ok()) return SettleTails(page_cache_id, doubtful, cuts, states);
  // A full disk: the user makes room before anything is written.
  if (repaired.code() == Code::kFull) return repaired;
  static_cast<void>(
      AreAllReadable(context_.files, context_.staging, journal_, doubtful, states, readable).ok());
  return repaired;
}

// Makes the counts show the doubt, durably, before anything changes that may be all that shows it:
// the journal, rows, staging. The line of the first bucket does. SettleTails writes it last.
Status PowerRecovery::MarkDoubt(const std::vector<uint32_t>& doubtful) {
  if (doubtful.empty()) return Status::Ok();
  // What follows writes to slots that the rows call free, and to segments. So the rows and the
  // table must be durable before.
  ENGINE_RACE_RETURN_IF_ERROR(context_.reserve.Write([this] {
    ENGINE_RACE_RETURN_IF_ERROR(context_.files.slots.table().WriteAgain());
    return WriteRowsAgain(context_.files);
  }));
  ENGINE_RACE_RETURN_IF_ERROR(writer_.FlushRows());
  ENGINE_RACE_RETURN_IF_ERROR(
      context_.reserve.Write([this] { return context_.files.slots.EraseUngiven(); }));
  ENGINE_RACE_RETURN_IF_ERROR(context_.reserve.Write([&] {
    ENGINE_RACE_RETURN_IF_ERROR(context_.staging.ReserveCounts());
    return context_.staging.PublishWord(doubtful.front(), format::WordKind::kPageCache,
                                        /*payload=*/0);
  }));
  return writer_.Flush(context_.files.counts);
}

// Brings into the logs, durably, what is left of the buckets' tails. Then come the rows, and then
// the journal ends. cuts[i] is where bucket i ends.
Status PowerRecovery::RepairLogs(std::vector<BucketState>* states,
                                 const std::vector<uint32_t>& buckets,
                                 std::vector<uint64_t>* cuts) {
  // By bucket: how many rows the head reaches.
  std::vector<size_t> row_ends(states->size());
  ENGINE_RACE_RETURN_IF_ERROR(ForEachBucket(buckets, [&](uint32_t index) {
    SlotTable& table = (*states)[index].table;
    row_ends[index] = table.rows().size();
    ENGINE_RACE_RETURN_IF_ERROR(
        context_.reserve.Write([&] { return WriteMovedRowsAgain(context_.files, index, table); }));
    ENGINE_RACE_RETURN_IF_ERROR(SettleMovedRows(context_.files, index, &table));
    ENGINE_RACE_RETURN_IF_ERROR(context_.reserve.Write(
        [&] { return RepairLog(index, (*states)[index], &table, &(*cuts)[index]); }));
    if (table.has_rows()) CutRows((*cuts)[index], (*states)[index].synced_watermark, &table);
    return Status::Ok();
  }));
  ENGINE_RACE_RETURN_IF_ERROR(writer_.FlushLogs());
  // Rows name only what is durable. After a power loss nothing looks at moved records again.
  ENGINE_RACE_RETURN_IF_ERROR(ForEachBucket(buckets, [&](uint32_t index) {
    return context_.reserve.Write(
        [&] { return WriteRows(index, (*states)[index].table, row_ends[index]); });
  }));
  ENGINE_RACE_RETURN_IF_ERROR(writer_.FlushRows());
  // All heads: an earlier flush of one may have failed.
  ENGINE_RACE_RETURN_IF_ERROR(ForEachBucket(buckets, [&](uint32_t index) {
    const SlotTable& table = (*states)[index].table;
    if (!table.has_rows()) return Status::Ok();
    return context_.reserve.Write([&] {
      const uint64_t row_end = PlacedRowEnd(context_.files, index, table.rows().size());
      return WriteRowsHead(context_.files, index, row_end, table.births());
    });
  }));
  ENGINE_RACE_RETURN_IF_ERROR(writer_.FlushRows());
  return context_.reserve.Write(
      [this] { return JournalReplay::Erase(context_.files.directory.get()); });
}

// The head reaches the rows below `row_end`, and is to reach the others when they are durable.
Status PowerRecovery::WriteRows(uint32_t bucket, const SlotTable& table, size_t row_end) {
  const std::span<const Row> rows = table.rows();
  for (uint32_t index = 0; index < row_end; ++index) {
    if (rows[index].free() && !context_.files.slots.HasPlace(bucket, index)) continue;
    ENGINE_RACE_RETURN_IF_ERROR(WriteRow(context_.files, bucket, index, rows[index]));
  }
  return WriteNewRows(context_.files, bucket, static_cast<uint32_t>(row_end),
                      rows.subspan(row_end));
}

// Brings the records of one tail into the bucket's log, and those to which the table gives no slot
// into rows. What it has brought there it finds there when it is called again.
Status PowerRecovery::RepairLog(uint32_t bucket, const BucketState& state, SlotTable* table,
                                uint64_t* cut) {
  TailReader reader(context_.files, context_.staging, journal_);
  const auto flush_rows = [this] { return writer_.FlushRows(); };
  LogRepair repair(context_.files, bucket, state.synced_watermark, flush_rows, table);
  ENGINE_RACE_RETURN_IF_ERROR(reader.Init());
  ENGINE_RACE_RETURN_IF_ERROR(repair.Init());
  const auto take = [&repair](const TailRecord& found) { return repair.Take(found); };
  ENGINE_RACE_RETURN_IF_ERROR(reader.Walk(bucket, state, take, cut));
  return repair.Finish();
}

// Makes the cuts durable, to the index as well, and writes the counts anew.
Status PowerRecovery::SettleTails(uint32_t page_cache_id, const std::vector<uint32_t>& doubtful,
                                  const std::vector<uint64_t>& cuts,
                                  std::vector<BucketState>* states) {
  SpaceReserve& reserve = context_.reserve;
  std::vector<BucketMoment> ends(cuts.size());
  for (const uint32_t index : doubtful) {
    ends[index] = {cuts[index], (*states)[index].table.births()};
  }
  ENGINE_RACE_RETURN_IF_ERROR(VoidCoverage(context_.files, doubtful, ends));
  ENGINE_RACE_RETURN_IF_ERROR(ForEachBucket(doubtful, [&](uint32_t index) {
    return reserve.Write(
        [&] { return CutKeyLog(context_.files, index, (*states)[index].table, cuts[index]); });
  }));
  // Leaves no entry staged: one of a record that is lost must not count later. Zeros would hide
  // from the next opening that the flush has failed.
  const auto replace_staged = [&](const format::KeyEntry& instead) {
    return ForEachBucket(doubtful, [&](uint32_t index) {
      bool has_found = false;
      return reserve.Write([&] {
        return context_.staging.ReplaceKeysFrom(index, /*record_count=*/0, &instead, &has_found);
      });
    });
  };
  ENGINE_RACE_RETURN_IF_ERROR(replace_staged(format::kNoRecord));
  const SlotFiles& slots = context_.files.slots;
  for (uint32_t file = 0; file < slots.file_count(); ++file) {
    if (slots.is_open(file)) ENGINE_RACE_RETURN_IF_ERROR(writer_.Flush(slots.key_file(file)));
  }
  ENGINE_RACE_RETURN_IF_ERROR(writer_.Flush(context_.files.staged_keys));
  ENGINE_RACE_RETURN_IF_ERROR(replace_staged({}));

  ENGINE_RACE_RETURN_IF_ERROR(reserve.Write([this] { return context_.staging.ReserveCounts(); }));
  uint64_t kept_count = 0;
  uint64_t lost_count = 0;
  for (const uint32_t index : doubtful) {
    BucketState& state = (*states)[index];
    const uint64_t cut = cuts[index];
    const uint64_t known_end = std::max(state.record_count, journal_.EndSequence(index));
    // TailReader::Walk begins at the synced watermark.
    ENGINE_RACE_ASSERT(cut >= state.synced_watermark);
    kept_count += cut - state.synced_watermark;
    lost_count += known_end - std::min(cut, known_end);
    state.SetLogged(context_.geometry(), cut);
    state.page_cache_id = page_cache_id;
    if (index == doubtful.front()) continue;
    ENGINE_RACE_RETURN_IF_ERROR(
        reserve.Write([&] { return context_.staging.WriteLine(index, state); }));
  }
  ENGINE_RACE_RETURN_IF_ERROR(writer_.Flush(context_.files.counts));
  // The line with the mark ends the doubt: all other lines are there by then, durably.
  if (!doubtful.empty()) {
    const BucketState& first = (*states)[doubtful.front()];
    ENGINE_RACE_RETURN_IF_ERROR(
        reserve.Write([&] { return context_.staging.WriteLine(doubtful.front(), first); }));
    ENGINE_RACE_RETURN_IF_ERROR(writer_.Flush(context_.files.counts));
  }
  if (kept_count + lost_count > 0) {
    Log(context_.options.log, lost_count > 0 ? LogLevel::kWarning : LogLevel::kInfo,
        "of the records written since the last sync " + std::to_string(kept_count) +
            " are kept and at least " + std::to_string(lost_count) + " lost");
  }
  return Status::Ok();
}

}  // namespace engine_race
