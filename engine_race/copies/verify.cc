#include "engine_race/copies/verify.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "engine_race/base/memory.h"
#include "engine_race/base/round_up.h"
#include "engine_race/base/shared_progress.h"
#include "engine_race/log/batch_intents.h"
#include "engine_race/log/bucket_state.h"
#include "engine_race/log/doubt.h"
#include "engine_race/log/entry_codec.h"
#include "engine_race/log/index_coverage.h"
#include "engine_race/log/journal_replay.h"
#include "engine_race/log/lane.h"
#include "engine_race/log/parallel_work.h"
#include "engine_race/log/power_recovery.h"
#include "engine_race/log/staging.h"
#include "engine_race/log/store_files.h"
#include "engine_race/log/tail.h"

namespace engine_race {
namespace {

// Values that are verified together, with their entries.
constexpr uint64_t kVerifiedBytes = uint64_t{1} << 20;

// The store, and what all threads add to.
struct Walk {
  explicit Walk(const StoreFiles& f) : files(f), staging(f) {}

  void AddBad(const BadRecord& bad) {
    // Relaxed: this thread sees it; others, whose buckets are good, may go on for a little longer.
    found_bad.store(true, std::memory_order_relaxed);
    const std::lock_guard<std::mutex> lock(mutex);
    ++report.bad_count;
    if (on_bad) on_bad(bad);
  }
  // How many records a bucket has at most. 0 if its counts are damaged.
  static uint64_t RecordsOf(const BucketState& state) {
    if (state.damaged) return 0;
    return std::min(state.record_count, state.table.SlotEnd(state.record_count));
  }

  const StoreFiles& files;
  Staging staging;
  JournalReplay journal;
  // Whether all counts are the truth, or only their synced watermarks.
  bool trusted = false;
  std::vector<BucketState> states;
  BadRecordFn on_bad;
  std::optional<SharedProgress> progress;  // once the states are known
  std::atomic<bool> found_bad{false};
  std::mutex mutex;
  VerifyReport report;  // under mutex
};

// Adds the slots that hold records of a bucket with `record_count` records, those of older records
// and older copies first. Slots whose entries cannot be read may come anywhere. May throw
// std::bad_alloc.
Status SlotsInOrder(const StoreFiles& files, uint32_t bucket, const SlotTable& table,
                    uint64_t record_count, std::vector<uint64_t>* slots) {
  struct Found {
    uint64_t sequence;
    uint64_t slot;
  };
  std::vector<Found> all;
  Region page;
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(kIoAlignment, false, &page));
  const auto* const entries = reinterpret_cast<const format::KeyEntry*>(page.data());
  for (uint64_t first = 0; first < table.SlotEnd(0); first += format::kPageEntries) {
    const bool is_read =
        files.slots.ReadKeys(bucket, first, format::kPageEntries, page.data()).ok();
    for (uint64_t i = 0; i < format::kPageEntries; ++i) {
      if (!table.Holds(first + i, record_count)) continue;
      uint64_t sequence = 0;
      if (!table.SequenceOf(first + i, &sequence)) {
        sequence = is_read ? entries[i].sequence() : 0;
      }
      all.push_back({sequence, first + i});
    }
  }
  std::sort(all.begin(), all.end(), [&](const Found& a, const Found& b) {
    return a.sequence != b.sequence ? a.sequence < b.sequence : table.IsLaterCopy(b.slot, a.slot);
  });
  for (const Found& each : all) slots->push_back(each.slot);
  return Status::Ok();
}

// Verifies one bucket after another.
class BucketVerifier {
 public:
  explicit BucketVerifier(Walk* walk)
      : walk_(walk),
        geometry_(walk->files.identity.geometry),
        piece_records_(geometry_.RecordsIn(kVerifiedBytes)),
        tail_(walk->files, walk->staging, walk->journal) {}

  // `make_sink` may be empty.
  Status Init(const MakeSinkFn& make_sink) {
    if (make_sink) ENGINE_RACE_RETURN_IF_ERROR(make_sink(&sink_));
    ENGINE_RACE_RETURN_IF_ERROR(tail_.Init());
    const uint64_t key_bytes = RoundUp(piece_records_ * format::kKeyEntryBytes, kIoAlignment);
    ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(key_bytes + 2 * kIoAlignment, false, &keys_));
    return Region::Allocate(geometry_.layout.BlockBytesFor(piece_records_), false, &values_);
  }

  Status Run(uint32_t bucket) {
    bucket_ = bucket;
    state_ = walk_->states[bucket];
    Lane values;
    Lane keys;
    // Counts in doubt need not fit together: the device has words of different moments.
    if (state_.damaged || (walk_->trusted && !InitLanes(geometry_, state_, &values, &keys))) {
      walk_->AddBad({format::kStagingCountsName, bucket, BadRecord::kWholeBucket,
                     "the counts do not match their checks"});
      return walk_->progress->Add(Walk::RecordsOf(state_));
    }
    const uint64_t end = walk_->trusted ? state_.record_count : state_.synced_watermark;
    uint64_t cut = end;
    held_count_ = 0;
    if (!walk_->trusted && state_.table.has_rows()) ENGINE_RACE_RETURN_IF_ERROR(SettleRows());
    ENGINE_RACE_RETURN_IF_ERROR(VerifyRows(end));
    if (!walk_->trusted) {
      const auto hand_on = [this](const TailRecord& found) {
        KeyRecord record = found.record;
        record.slot = SlotOfTail(found.sequence);
        return HandOn(record, found.value);
      };
      ENGINE_RACE_RETURN_IF_ERROR(tail_.Walk(bucket, state_, hand_on, &cut));
      held_count_ += cut - end;
      ENGINE_RACE_RETURN_IF_ERROR(
          walk_->progress->Add(state_.record_count - std::min(end, state_.record_count)));
    }
    if (hands_on())
      ENGINE_RACE_RETURN_IF_ERROR(sink_->Finish(bucket, {held_count_, cut, state_.table}));
    const std::lock_guard<std::mutex> lock(walk_->mutex);
    walk_->report.record_count += held_count_;
    walk_->report.lost_tail_count += state_.record_count - std::min(cut, state_.record_count);
    return Status::Ok();
  }

 private:
  // Drops the rows that the next opening will drop.
  Status SettleRows() {
    // Rows that cannot be read stay: they are found to be bad.
    static_cast<void>(SettleMovedRows(walk_->files, bucket_, &state_.table).ok());
    uint64_t cut = 0;
    const auto ignore = [](const TailRecord&) { return Status::Ok(); };
    ENGINE_RACE_RETURN_IF_ERROR(tail_.Walk(bucket_, state_, ignore, &cut));
    CutRows(cut, state_.synced_watermark, &state_.table);
    return Status::Ok();
  }
  uint32_t SlotOfTail(uint64_t sequence) const {
    uint64_t slot = 0;
    return state_.table.SlotOf(sequence, &slot) ? static_cast<uint32_t>(slot) : kNoSlot;
  }
  // The appended records below `end`, and those that were moved.
  Status VerifyRows(uint64_t end) {
    end_ = end;
    if (!state_.table.has_rows()) return VerifySlots(0, end);
    std::vector<uint64_t> slots;
    ENGINE_RACE_RETURN_IF_ERROR(SlotsInOrder(walk_->files, bucket_, state_.table, end_, &slots));
    for (size_t i = 0; i < slots.size();) {
      const size_t begin = i;
      while (i < slots.size() && slots[i] == slots[begin] + (i - begin)) ++i;
      ENGINE_RACE_RETURN_IF_ERROR(VerifySlots(slots[begin], slots[begin] + (i - begin)));
    }
    return Status::Ok();
  }
  Status VerifySlots(uint64_t begin, uint64_t end) {
    for (; begin < end; begin += piece_records_) {
      const uint64_t piece_end = std::min(begin + piece_records_, end);
      const uint64_t before = held_count_;
      ENGINE_RACE_RETURN_IF_ERROR(VerifyPiece(begin, piece_end));
      ENGINE_RACE_RETURN_IF_ERROR(walk_->progress->Add(held_count_ - before));
    }
    return Status::Ok();
  }

  // Relaxed, as in AddBad.
  bool hands_on() const {
    return sink_ != nullptr && !walk_->found_bad.load(std::memory_order_relaxed);
  }
  Status HandOn(const KeyRecord& record, const char* value) {
    return hands_on() ? sink_->Take(bucket_, record, value) : Status::Ok();
  }

  const SlotFiles& slots() const { return walk_->files.slots; }

  void AddBad(uint64_t slot, bool in_log, bool value, std::string what) {
    const char* const staging = value ? format::kStagingValuesName : format::kStagingKeysName;
    const SlotLocation location =
        value ? slots().LocateValues(bucket_, slot) : slots().LocateKeys(bucket_, slot);
    walk_->AddBad({in_log ? slots().NameOf(location) : staging, bucket_, slot, std::move(what)});
  }

  // Where a record lies: its slot, and its sequence number if it was not moved.
  struct Position {
    uint64_t slot = 0;
    // 0 of a moved record, which is not staged.
    uint64_t sequence = 0;
    bool key_in_log = true;
    bool value_in_log = true;
  };
  Position PositionOf(uint64_t slot) const {
    uint64_t sequence = 0;
    if (!state_.table.SequenceOf(slot, &sequence)) return {slot};
    return {slot, sequence, sequence < state_.LoggedKeyCount(),
            sequence < state_.LoggedValueCount()};
  }

  // The entry of a slot, from staging or from the pages of the log that begin with slot `begin`.
  Status ReadEntry(uint64_t begin, const Position& at, const Status& keys_read,
                   format::KeyEntry* entry) const {
    if (!at.key_in_log) {
      return walk_->staging.Read(LaneKind::kKeys, bucket_, state_.key_places, at.sequence, 1,
                                 entry);
    }
    if (keys_read.ok()) {
      *entry = reinterpret_cast<const format::KeyEntry*>(keys_.data())[at.slot - begin];
    }
    return keys_read;
  }

  Status ReadValue(const Position& at, char* buffer) const {
    if (!at.value_in_log) {
      return walk_->staging.Read(LaneKind::kValues, bucket_, state_.value_places, at.sequence, 1,
                                 buffer);
    }
    return slots().ReadValues(bucket_, at.slot, 1, buffer);
  }

  // Slots [begin, end) of one piece. Fails only as the sink does.
  Status VerifyPiece(uint64_t begin, uint64_t end) {
    const uint64_t page_begin = begin / format::kPageEntries * format::kPageEntries;
    const Status keys_read = slots().ReadKeys(
        bucket_, page_begin, RoundUp(end - page_begin, format::kPageEntries), keys_.data());
    // All values at once; should that fail, one by one.
    const bool values_read = slots().ReadValues(bucket_, begin, end - begin, values_.data()).ok();
    const EntryCodec codec(walk_->files.identity.seed_id(), bucket_);
    for (uint64_t slot = begin; slot < end; ++slot) {
      if (!state_.table.Holds(slot, end_)) continue;
      ++held_count_;
      const Position at = PositionOf(slot);
      format::KeyEntry entry;
      const Status key_read = ReadEntry(page_begin, at, keys_read, &entry);
      if (!key_read.ok()) {
        AddBad(slot, at.key_in_log, /*value=*/false, key_read.ToString());
        continue;
      }
      KeyRecord record;
      if (!state_.table.Decode(codec, entry, slot, &record) ||
          !geometry_.IsIn(bucket_, record.key)) {
        AddBad(slot, at.key_in_log, /*value=*/false, "the key entry does not match its check");
        continue;
      }
      if (record.tombstone) {
        ENGINE_RACE_RETURN_IF_ERROR(HandOn(record, nullptr));
        continue;
      }
      char* const value = values_.data() + (slot - begin) * geometry_.slot_bytes();
      const Status value_read =
          at.value_in_log && values_read ? Status::Ok() : ReadValue(at, value);
      if (!value_read.ok()) {
        AddBad(slot, at.value_in_log, /*value=*/true, value_read.ToString());
      } else if (!IsValueOf(record, value, geometry_.value_bytes())) {
        AddBad(slot, at.value_in_log, /*value=*/true, "the value does not match its checksum");
      } else {
        ENGINE_RACE_RETURN_IF_ERROR(HandOn(record, value));
      }
    }
    return Status::Ok();
  }

  Walk* const walk_;
  const Geometry& geometry_;
  const uint64_t piece_records_;
  TailReader tail_;
  std::unique_ptr<RecordSink> sink_;  // null when nobody wants the records
  Region keys_;
  Region values_;
  // Of the bucket at hand.
  uint32_t bucket_ = 0;
  BucketState state_;
  uint64_t end_ = 0;
  uint64_t held_count_ = 0;
};

}  // namespace

Status VerifyFiles(const StoreFiles& files, VerifyReport* report, const BadRecordFn& on_bad,
                   const MakeSinkFn& make_sink, const ProgressFn& on_progress) {
  Walk walk(files);
  walk.on_bad = on_bad;
  ENGINE_RACE_RETURN_IF_ERROR(walk.staging.ReadCounts(&walk.states));
  NoteLostRows(files, &walk.states);
  MovedCounts moved;
  ENGINE_RACE_RETURN_IF_ERROR(RedoIntents(files, &walk.states, &moved));
  uint64_t total_count = 0;
  for (const BucketState& state : walk.states) total_count += Walk::RecordsOf(state);
  ProgressFn tell;
  if (on_progress) {
    // Not beside a call of on_bad.
    tell = [&](uint64_t done_count, uint64_t most_count) {
      const std::lock_guard<std::mutex> lock(walk.mutex);
      return on_progress(done_count, most_count);
    };
  }
  ENGINE_RACE_RETURN_IF_ERROR(walk.progress.emplace(tell, total_count).Tell());
  ENGINE_RACE_RETURN_IF_ERROR(walk.journal.Read(files.directory.get(), files.identity.ids(),
                                                files.identity.geometry.value_bytes()));
  const char* doubt = DoubtPageCache(files, walk.states);
  // A copy needs no index.
  if (const FoundCoverage found = ReadCoverage(files); found.status.ok()) {
    ENGINE_RACE_RETURN_IF_ERROR(CompareWithCoverage(files, found, walk.states, &doubt));
  }
  walk.trusted = doubt == nullptr;
  for (uint32_t bucket = 0; bucket < walk.states.size() && walk.trusted; ++bucket) {
    // Durable records that the counts have lost are found by a walk over the tails.
    walk.trusted = walk.states[bucket].damaged ||
                   walk.journal.EndSequence(bucket) <= walk.states[bucket].record_count;
  }
  const uint32_t bucket_count = files.identity.geometry.bucket_count;
  const Status walked = RunWorkers(
      bucket_count,
      [&](NumberQueue* buckets) {
        BucketVerifier verifier(&walk);
        ENGINE_RACE_RETURN_IF_ERROR(verifier.Init(make_sink));
        for (uint32_t bucket = 0; buckets->Take(&bucket);) {
          ENGINE_RACE_RETURN_IF_ERROR(verifier.Run(bucket));
        }
        return Status::Ok();
      },
      &*walk.progress);
  *report = walk.report;
  ENGINE_RACE_RETURN_IF_ERROR(walked);
  if (report->bad_count == 0) return Status::Ok();
  return Status::Corruption(std::to_string(report->bad_count) + " bad of " +
                            std::to_string(report->record_count) + " records");
}

}  // namespace engine_race
