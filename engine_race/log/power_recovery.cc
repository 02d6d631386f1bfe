#include "engine_race/log/power_recovery.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <vector>

#include "engine_race/base/assert.h"
#include "engine_race/base/memory.h"
#include "engine_race/base/round_up.h"
#include "engine_race/log/index_coverage.h"
#include "engine_race/log/key_log_cut.h"
#include "engine_race/log/logged_state.h"
#include "engine_race/log/parallel_work.h"
#include "engine_race/log/record_check.h"
#include "engine_race/log/tail.h"

namespace engine_race {
namespace {

constexpr uint64_t kEntryBytes = sizeof(format::KeyEntry);
constexpr uint64_t kPageEntries = kIoAlignment / kEntryBytes;

// Puts the records of one bucket's tail where they belong in the logs.
class LogRepair {
 public:
  LogRepair(const StoreFiles& files, uint32_t bucket) : files_(files), bucket_(bucket) {}

  Status Init() {
    ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(kIoAlignment, false, &page_));
    return Region::Allocate(kValueBytes, false, &value_);
  }

  Status Take(const TailRecord& found) {
    const uint64_t slot = found.record.slot;
    // In order of slot: a page is read once, and written when the next one begins.
    ENGINE_RACE_ASSERT(page_number_ == ~uint64_t{0} || slot / kPageEntries >= page_number_);
    if (!found.value_in_log) {
      std::memcpy(value_.data(), found.value, kValueBytes);
      ValueLocation location;
      ENGINE_RACE_RETURN_IF_ERROR(files_.values.LocateToWrite(bucket_, slot, &location));
      ENGINE_RACE_RETURN_IF_ERROR(
          location.file->Write(value_.data(), kValueBytes, location.offset));
    }
    if (slot / kPageEntries != page_number_) {
      ENGINE_RACE_RETURN_IF_ERROR(Finish());
      page_number_ = slot / kPageEntries;
      // Entries before the tail stay as they are.
      ENGINE_RACE_RETURN_IF_ERROR(
          files_.KeyFile(bucket_).Read(page_.data(), kIoAlignment, PageOffset()));
    }
    if (!found.key_in_log) {
      std::memcpy(page_.data() + slot % kPageEntries * kEntryBytes, &found.entry, kEntryBytes);
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
  uint64_t PageOffset() const {
    return files_.identity.geometry.KeyOffset(bucket_, page_number_ * kPageEntries);
  }

  const StoreFiles& files_;
  const uint32_t bucket_;
  Region page_;
  Region value_;
  uint64_t page_number_ = ~uint64_t{0};
  bool page_changed_ = false;
};

// Stages the records of the unfinished groups again, in place 0, and leaves no other entry staged.
// `state` is a LoggedState.
Status RestageGroups(const StoreFiles& files, Staging* staging, uint32_t bucket,
                     const BucketState& state) {
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

  ENGINE_RACE_RETURN_IF_ERROR(staging->Reserve(bucket));
  std::memset(keys.data(), 0, place_bytes);
  ENGINE_RACE_RETURN_IF_ERROR(
      files.KeyFile(bucket).Read(keys.data(), RoundUp(key_count * kEntryBytes, kIoAlignment),
                                 geometry.KeyOffset(bucket, state.logged_key_watermark)));
  ENGINE_RACE_RETURN_IF_ERROR(files.staged_keys.Write(keys.data(), place_bytes, places_offset));

  const uint64_t value_count = state.record_count - state.logged_value_watermark;
  const uint64_t value_bytes = value_count * kValueBytes;
  Region values;
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(value_bytes, false, &values));
  ENGINE_RACE_RETURN_IF_ERROR(
      files.values.Read(bucket, state.logged_value_watermark, value_count, values.data()));
  return files.staged_values.Write(values.data(), value_bytes,
                                   geometry.ValuePlaceOffset(bucket, 0));
}

// *readable: every record of the bucket past the synced ones is where readers look for it, and the
// journal holds none besides.
Status IsReadable(const StoreFiles& files, const Staging& staging, const JournalReplay& journal,
                  uint32_t bucket, const BucketState& state, bool* readable) {
  *readable = false;
  if (journal.EndSlot(bucket) > state.record_count) return Status::Ok();
  RecordCheck check(files, staging, bucket, state);
  ENGINE_RACE_RETURN_IF_ERROR(check.Init());
  return check.ReadersFind(state.synced_watermark, state.record_count, readable);
}

}  // namespace

Status PowerRecovery::Run(uint32_t page_cache_id, std::vector<BucketState>* states,
                          bool* readable) {
  *readable = false;
  std::vector<uint32_t> doubtful;
  for (uint32_t index = 0; index < context_.geometry().bucket_count; ++index) {
    if (!(*states)[index].damaged) doubtful.push_back(index);
  }
  std::vector<uint64_t> cuts(context_.geometry().bucket_count);
  Status repaired = RepairLogs(*states, doubtful, &cuts);
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

// Brings into the logs, durably, what is left of the buckets' tails, and ends the journal. cuts[i]
// is where bucket i ends.
Status PowerRecovery::RepairLogs(const std::vector<BucketState>& states,
                                 const std::vector<uint32_t>& buckets,
                                 std::vector<uint64_t>* cuts) {
  ENGINE_RACE_RETURN_IF_ERROR(ForEachBucket(buckets, [&](uint32_t index) {
    TailReader reader(context_.files, context_.staging, journal_);
    LogRepair repair(context_.files, index);
    ENGINE_RACE_RETURN_IF_ERROR(reader.Init());
    ENGINE_RACE_RETURN_IF_ERROR(repair.Init());
    const auto take = [&repair](const TailRecord& found) { return repair.Take(found); };
    ENGINE_RACE_RETURN_IF_ERROR(reader.Walk(index, states[index], take, &(*cuts)[index]));
    return repair.Finish();
  }));
  ENGINE_RACE_RETURN_IF_ERROR(writer_.FlushLogs());
  // The journal may be all that shows the doubt. Once it has gone, the counts must show it until
  // they are set. One bucket's do.
  if (!buckets.empty()) {
    ENGINE_RACE_RETURN_IF_ERROR(context_.staging.ReserveCounts());
    ENGINE_RACE_RETURN_IF_ERROR(
        context_.staging.PublishWord(buckets.front(), format::WordKind::kPageCache, /*payload=*/0));
    ENGINE_RACE_RETURN_IF_ERROR(writer_.Flush(context_.files.counts));
  }
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
    return RestageGroups(context_.files, &context_.staging, index,
                         LoggedState(context_.geometry(), cuts[index], page_cache_id));
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
    const uint64_t known_end = std::max(state.record_count, journal_.EndSlot(index));
    // TailReader::Walk begins at the synced watermark.
    ENGINE_RACE_ASSERT(cut >= state.synced_watermark);
    kept_count += cut - state.synced_watermark;
    lost_count += known_end - std::min(cut, known_end);
    state = LoggedState(context_.geometry(), cut, page_cache_id);
    ENGINE_RACE_RETURN_IF_ERROR(context_.staging.WriteLine(index, state));
  }
  ENGINE_RACE_RETURN_IF_ERROR(writer_.Flush(context_.files.counts));
  if (kept_count + lost_count > 0) {
    Log(context_.options.log, lost_count > 0 ? LogLevel::kWarning : LogLevel::kInfo,
        "of the records written since the last sync " + std::to_string(kept_count) +
            " are kept and at least " + std::to_string(lost_count) + " lost");
  }
  return Status::Ok();
}

}  // namespace engine_race
