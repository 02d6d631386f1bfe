#include "engine_race/log/power_recovery.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "engine_race/base/assert.h"
#include "engine_race/base/memory.h"
#include "engine_race/base/round_up.h"
#include "engine_race/log/entry_codec.h"
#include "engine_race/log/index_coverage.h"
#include "engine_race/log/key_log_cut.h"
#include "engine_race/log/logged_state.h"
#include "engine_race/log/parallel_work.h"
#include "engine_race/log/record_check.h"
#include "engine_race/log/row_file.h"
#include "engine_race/log/tail.h"

namespace engine_race {
namespace {

// Puts the records of one bucket's tail where they belong in the logs. Gives rows to runs whose row
// was lost.
class LogRepair {
 public:
  LogRepair(const StoreFiles& files, uint32_t bucket, SlotTable* table)
      : files_(files), bucket_(bucket), table_(*table) {}

  Status Init() {
    ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(kIoAlignment, false, &page_));
    return Region::Allocate(kValueBytes, false, &value_);
  }

  Status Take(const TailRecord& found) {
    uint64_t slot = 0;
    if (!table_.SlotOf(found.sequence, &slot)) {
      ENGINE_RACE_RETURN_IF_ERROR(GiveRow(found.sequence));
      slot = table_.SlotOf(found.sequence);
    }
    if (!found.value_in_log) {
      std::memcpy(value_.data(), found.value, kValueBytes);
      ValueLocation location;
      ENGINE_RACE_RETURN_IF_ERROR(files_.values.LocateToWrite(bucket_, slot, &location));
      ENGINE_RACE_RETURN_IF_ERROR(
          location.file->Write(value_.data(), kValueBytes, location.offset));
    }
    if (slot / format::kPageEntries != page_number_) {
      ENGINE_RACE_RETURN_IF_ERROR(Finish());
      page_number_ = slot / format::kPageEntries;
      // Entries before the tail stay as they are.
      ENGINE_RACE_RETURN_IF_ERROR(
          files_.KeyFile(bucket_).Read(page_.data(), kIoAlignment, PageOffset()));
    }
    if (!found.key_in_log) {
      std::memcpy(page_.data() + slot % format::kPageEntries * format::kKeyEntryBytes, &found.entry,
                  format::kKeyEntryBytes);
      page_changed_ = true;
    }
    return Status::Ok();
  }

  // Writes the last page.
  Status Finish() {
    if (!page_changed_) return Status::Ok();
    page_changed_ = false;
    return files_.KeyFile(bucket_).Write(page_.data(), kIoAlignment, PageOffset());
  }

 private:
  Status GiveRow(uint64_t sequence) {
    uint32_t index = 0;
    while (index < table_.rows().size() && !table_.rows()[index].free()) ++index;
    if (index == files_.identity.geometry.rows_per_bucket()) {
      return Status::Full("bucket " + std::to_string(bucket_) + " has no row for its last records");
    }
    table_.SetRow(index,
                  {.kind = format::RowKind::kRun, .number = sequence / table_.row_records()});
    return Status::Ok();
  }
  uint64_t PageOffset() const {
    return files_.identity.geometry.KeyOffset(bucket_, page_number_ * format::kPageEntries);
  }

  const StoreFiles& files_;
  const uint32_t bucket_;
  SlotTable& table_;
  Region page_;
  Region value_;
  uint64_t page_number_ = ~uint64_t{0};
  bool page_changed_ = false;
};

// The slot of an unfinished group's first record, which has that number. 0 for a group of no
// records.
uint64_t SlotOfGroup(const BucketState& state, uint64_t record_count, uint64_t sequence) {
  return record_count == 0 ? 0 : state.table.SlotOf(sequence);
}

// *good: all records that were moved to the row are there.
Status MovedRowVerifies(const StoreFiles& files, uint32_t bucket, const SlotTable& table,
                        uint32_t index, bool* good) {
  *good = false;
  const Geometry& geometry = files.identity.geometry;
  const EntryCodec codec(files.identity.seed_id(), bucket);
  const uint64_t first = uint64_t{index} * table.row_records();
  Region keys;
  Region value;
  const uint64_t key_bytes = table.row_records() * format::kKeyEntryBytes;
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(key_bytes, false, &keys));
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(kValueBytes, false, &value));
  ENGINE_RACE_RETURN_IF_ERROR(
      files.KeyFile(bucket).Read(keys.data(), key_bytes, geometry.KeyOffset(bucket, first)));
  const auto* const entries = reinterpret_cast<const format::KeyEntry*>(keys.data());
  for (uint32_t i = 0; i < table.rows()[index].record_count; ++i) {
    if (!table.Holds(first + i, /*record_count=*/0)) continue;
    KeyRecord record;
    if (!table.Decode(codec, entries[i], first + i, &record)) return Status::Ok();
    if (record.tombstone) continue;
    ENGINE_RACE_RETURN_IF_ERROR(files.values.Read(bucket, first + i, 1, value.data()));
    if (!IsValueOf(record, value.data())) return Status::Ok();
  }
  *good = true;
  return Status::Ok();
}

// Stages the records of the unfinished groups again, in place 0, and leaves no other entry staged.
// `state` is a LoggedState.
Status RestageGroups(const StoreFiles& files, uint32_t bucket, const BucketState& state) {
  const Geometry& geometry = files.identity.geometry;
  const uint64_t place_bytes = geometry.staged_key_bytes_per_bucket();
  Region keys;
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(place_bytes, false, &keys));
  const uint64_t places_offset = geometry.KeyPlaceOffset(bucket, 0);
  ENGINE_RACE_RETURN_IF_ERROR(files.staged_keys.Read(keys.data(), place_bytes, places_offset));
  const uint64_t key_count = state.record_count - state.logged_key_watermark;
  ENGINE_RACE_ASSERT(key_count < geometry.keys_per_group());
  const bool empty =
      key_count == 0 && state.record_count == state.logged_value_watermark &&
      std::all_of(keys.data(), keys.data() + place_bytes, [](char c) { return c == 0; });
  if (empty) return Status::Ok();

  std::memset(keys.data(), 0, place_bytes);
  ENGINE_RACE_RETURN_IF_ERROR(files.KeyFile(bucket).Read(
      keys.data(), RoundUp(key_count * format::kKeyEntryBytes, kIoAlignment),
      geometry.KeyOffset(bucket, SlotOfGroup(state, key_count, state.logged_key_watermark))));
  ENGINE_RACE_RETURN_IF_ERROR(files.staged_keys.Write(keys.data(), place_bytes, places_offset));

  const uint64_t value_count = state.record_count - state.logged_value_watermark;
  const uint64_t value_bytes = value_count * kValueBytes;
  Region values;
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(value_bytes, false, &values));
  ENGINE_RACE_RETURN_IF_ERROR(
      files.values.Read(bucket, SlotOfGroup(state, value_count, state.logged_value_watermark),
                        value_count, values.data()));
  return files.staged_values.Write(values.data(), value_bytes,
                                   geometry.ValuePlaceOffset(bucket, 0));
}

// *readable: every record of the bucket past the synced ones is where readers look for it, and the
// journal holds none besides.
Status IsReadable(const StoreFiles& files, const Staging& staging, const JournalReplay& journal,
                  uint32_t bucket, const BucketState& state, bool* readable) {
  *readable = false;
  if (journal.EndSequence(bucket) > state.record_count) return Status::Ok();
  RecordCheck check(files, staging, bucket, state);
  ENGINE_RACE_RETURN_IF_ERROR(check.Init());
  return check.ReadersFind(state.synced_watermark, state.record_count, readable);
}

}  // namespace

Status SettleMovedRows(const StoreFiles& files, uint32_t bucket, SlotTable* table) {
  for (uint32_t index = 0; index < table->rows().size(); ++index) {
    Row row = table->rows()[index];
    if (row.kind != format::RowKind::kMoving) continue;
    bool good = false;
    ENGINE_RACE_RETURN_IF_ERROR(MovedRowVerifies(files, bucket, *table, index, &good));
    if (good) {
      row.kind = format::RowKind::kMoved;
    } else {
      row = Row();
    }
    table->SetRow(index, row);
  }
  return Status::Ok();
}

void CutRows(uint64_t cut, SlotTable* table) {
  std::vector<uint32_t> lost;
  for (uint32_t index = 0; index < table->rows().size(); ++index) {
    const Row& row = table->rows()[index];
    const bool is_behind =
        row.is_run() ? row.number * table->row_records() >= cut : row.number > cut;
    if (!row.free() && is_behind) lost.push_back(index);
  }
  for (const uint32_t index : lost) table->SetRow(index, Row());
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
  std::atomic<bool> all_readable{true};
  const Status looked = ForEachBucket(doubtful, [&](uint32_t index) {
    bool found = false;
    Status read =
        IsReadable(context_.files, context_.staging, journal_, index, (*states)[index], &found);
    if (!found) all_readable.store(false);
    return read;
  });
  *readable = looked.ok() && all_readable.load();
  return repaired;
}

// Makes the counts show the doubt, durably, before anything changes that may be all that shows it:
// the journal, rows, staging. The line of the first bucket does. SettleTails writes it last.
Status PowerRecovery::MarkDoubt(const std::vector<uint32_t>& doubtful) {
  if (doubtful.empty()) return Status::Ok();
  ENGINE_RACE_RETURN_IF_ERROR(context_.staging.ReserveCounts());
  ENGINE_RACE_RETURN_IF_ERROR(
      context_.staging.PublishWord(doubtful.front(), format::WordKind::kPageCache, /*payload=*/0));
  return writer_.Flush(context_.files.counts);
}

// Brings into the logs, durably, what is left of the buckets' tails. Then come the rows, and then
// the journal ends. cuts[i] is where bucket i ends.
Status PowerRecovery::RepairLogs(std::vector<BucketState>* states,
                                 const std::vector<uint32_t>& buckets,
                                 std::vector<uint64_t>* cuts) {
  ENGINE_RACE_RETURN_IF_ERROR(ForEachBucket(buckets, [&](uint32_t index) {
    SlotTable& table = (*states)[index].table;
    ENGINE_RACE_RETURN_IF_ERROR(SettleMovedRows(context_.files, index, &table));
    TailReader reader(context_.files, context_.staging, journal_);
    LogRepair repair(context_.files, index, &table);
    ENGINE_RACE_RETURN_IF_ERROR(reader.Init());
    ENGINE_RACE_RETURN_IF_ERROR(repair.Init());
    const auto take = [&repair](const TailRecord& found) { return repair.Take(found); };
    ENGINE_RACE_RETURN_IF_ERROR(reader.Walk(index, (*states)[index], take, &(*cuts)[index]));
    ENGINE_RACE_RETURN_IF_ERROR(repair.Finish());
    if (table.has_rows()) CutRows((*cuts)[index], &table);
    return Status::Ok();
  }));
  ENGINE_RACE_RETURN_IF_ERROR(writer_.FlushLogs());
  // Rows name only what is durable. After a power loss nothing looks at moved records again.
  ENGINE_RACE_RETURN_IF_ERROR(ForEachBucket(buckets, [&](uint32_t index) {
    const SlotTable& table = (*states)[index].table;
    return table.has_rows() ? WriteTable(context_.files, index, table) : Status::Ok();
  }));
  ENGINE_RACE_RETURN_IF_ERROR(writer_.FlushRows());
  return JournalReplay::Erase(context_.files.directory.get());
}

// Makes the cuts durable, to the index as well, and writes the counts anew.
Status PowerRecovery::SettleTails(uint32_t page_cache_id, const std::vector<uint32_t>& doubtful,
                                  const std::vector<uint64_t>& cuts,
                                  std::vector<BucketState>* states) {
  ENGINE_RACE_RETURN_IF_ERROR(VoidCoverage(context_.files, doubtful, cuts));
  ENGINE_RACE_RETURN_IF_ERROR(
      CutKeyLogs({doubtful, cuts, *states}, context_.options.file_mode, &context_.files));
  ENGINE_RACE_RETURN_IF_ERROR(ForEachBucket(doubtful, [&](uint32_t index) {
    BucketState logged = LoggedState(context_.geometry(), cuts[index], page_cache_id);
    logged.table = (*states)[index].table;
    return RestageGroups(context_.files, index, logged);
  }));
  for (const io::File& file : context_.files.key_files) {
    ENGINE_RACE_RETURN_IF_ERROR(writer_.Flush(file));
  }
  ENGINE_RACE_RETURN_IF_ERROR(writer_.Flush(context_.files.staged_keys));

  ENGINE_RACE_RETURN_IF_ERROR(context_.staging.ReserveCounts());
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
    SlotTable table = std::move(state.table);
    const uint64_t clean_at = state.clean_at;
    state = LoggedState(context_.geometry(), cut, page_cache_id);
    state.table = std::move(table);
    state.clean_at = clean_at;
    if (index == doubtful.front()) continue;
    ENGINE_RACE_RETURN_IF_ERROR(context_.staging.WriteLine(index, state));
  }
  ENGINE_RACE_RETURN_IF_ERROR(writer_.Flush(context_.files.counts));
  // The line with the mark ends the doubt: all other lines are there by then, durably.
  if (!doubtful.empty()) {
    ENGINE_RACE_RETURN_IF_ERROR(
        context_.staging.WriteLine(doubtful.front(), (*states)[doubtful.front()]));
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
