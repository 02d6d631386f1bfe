#include "engine_race/log/doubt.h"

#include <algorithm>
#include <span>

#include "engine_race/log/lane.h"
#include "engine_race/log/page_cache.h"
#include "engine_race/log/parallel_work.h"
#include "engine_race/log/record_check.h"

namespace engine_race {
namespace {

// *agrees: each of the records that the journal holds of a bucket is where its counts say.
Status CompareWithCounts(const StoreFiles& files, const Staging& staging, uint32_t bucket,
                         const BucketState& state, std::span<const JournalReplay::Record> records,
                         bool* agrees) {
  *agrees = records.empty() || records.back().descriptor.entry.sequence() < state.record_count;
  RecordCheck check(files, staging, bucket, state);
  bool ready = false;
  for (size_t i = 0; i < records.size() && *agrees; ++i) {
    const uint64_t sequence = records[i].descriptor.entry.sequence();
    if (sequence < state.synced_watermark) continue;
    if (!ready) ENGINE_RACE_RETURN_IF_ERROR(check.Init());
    ready = true;
    ENGINE_RACE_RETURN_IF_ERROR(check.ReadersFind(sequence, sequence + 1, agrees));
  }
  return Status::Ok();
}

// Whether the rows reach the counts, and have all records that are not in the logs.
bool RowsHoldRecords(const BucketState& state) {
  const SlotTable& table = state.table;
  if (!table.has_rows()) return true;
  uint64_t next = std::min(state.LoggedKeyCount(), state.LoggedValueCount());
  while (next < state.record_count) {
    const uint64_t end = table.RunEndFrom(next);
    if (end == next) return false;
    next = end;
  }
  return state.record_count <= table.RunEnd();
}

}  // namespace

namespace {

const char* DoubtCountsAlone(const StoreFiles& files, const std::vector<BucketState>& states) {
  const uint32_t page_cache_id = PageCacheId(files);
  const char* doubt = nullptr;
  for (const BucketState& state : states) {
    if (state.damaged) continue;
    // After a failed flush, in a copy, and where the system does not tell.
    if (state.page_cache_id == 0) return "the counts name no page cache";
    if (state.page_cache_id != page_cache_id) {
      doubt = "the machine was restarted, or a file system mounted again";
    }
  }
  return doubt;
}

}  // namespace

const char* DoubtPageCache(const StoreFiles& files, const std::vector<BucketState>& states) {
  const char* const doubt = DoubtCountsAlone(files, states);
  return doubt != nullptr ? doubt : DoubtRows(states);
}

void NoteLostRows(const StoreFiles& files, std::vector<BucketState>* states) {
  const SlotFiles& slots = files.slots;
  // A loss of power may have kept entries from the disk that stood in front of others.
  const bool is_lost = slots.has_damage() || (slots.table().lacks_entries() &&
                                              DoubtCountsAlone(files, *states) == nullptr);
  for (uint32_t bucket = 0; is_lost && bucket < states->size(); ++bucket) {
    BucketState& state = (*states)[bucket];
    for (size_t row = 0; row < state.table.rows().size(); ++row) {
      state.damaged = state.damaged || !slots.HasPlace(bucket, row);
    }
  }
}

const char* DoubtRows(const std::vector<BucketState>& states) {
  const bool all_hold = std::all_of(states.begin(), states.end(), [](const BucketState& state) {
    return state.damaged || RowsHoldRecords(state);
  });
  return all_hold ? nullptr : "the counts have more records than the rows hold";
}

Status CompareWithJournal(const StoreFiles& files, const Staging& staging,
                          const JournalReplay& journal, const std::vector<BucketState>& states,
                          const char** doubt) {
  std::vector<uint32_t> journaled;
  for (uint32_t bucket = 0; bucket < states.size(); ++bucket) {
    if (!states[bucket].damaged && !journal.RecordsOf(bucket).empty()) journaled.push_back(bucket);
  }
  const auto compare = [&](uint32_t bucket, bool* agrees) {
    return CompareWithCounts(files, staging, bucket, states[bucket], journal.RecordsOf(bucket),
                             agrees);
  };
  bool all_agree = false;
  ENGINE_RACE_RETURN_IF_ERROR(AreAllGood(journaled, compare, &all_agree));
  if (!all_agree) *doubt = "the counts lack what the journal holds";
  return Status::Ok();
}

}  // namespace engine_race
