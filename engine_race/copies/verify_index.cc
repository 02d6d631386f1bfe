#include "engine_race/copies/copies.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "engine_race/base/memory.h"
#include "engine_race/copies/verify.h"
#include "engine_race/index/held_slots.h"
#include "engine_race/index/run_extent.h"
#include "engine_race/index/value_ref.h"
#include "engine_race/l1/extent_store.h"
#include "engine_race/l1/index_root.h"
#include "engine_race/l1/key_block.h"
#include "engine_race/log/index_coverage.h"

namespace engine_race {
namespace {

// The index on disk, and what the threads find out about it.
struct IndexFiles {
  l1::IndexRoot root;
  std::unique_ptr<l1::ExtentStore> extents;
  BadRecordFn on_bad;
  std::mutex mutex;  // around the counts
  uint64_t record_count = 0;
  uint64_t unusable_count = 0;
  uint64_t bad_count = 0;
};

// Of all rows: which of them an opening would look at depends on the extents.
void SetKeys(const SlotTable& table, const std::vector<KeyRecord>& records, HeldSlots* held) {
  std::unordered_map<uint32_t, HeldSlots::Keys> keys;
  for (const KeyRecord& record : records) {
    if (record.slot == kNoSlot) continue;
    keys[record.slot / table.row_records()][record.slot % table.row_records()] = record.key;
  }
  for (const auto& [row, of_row] : keys) held->SetKeys(row, table.rows()[row].kept(), of_row);
}

// Collects the records of a bucket and compares them with the extents.
class Comparison final : public RecordSink {
 public:
  Comparison(const StoreFiles& files, IndexFiles* index) : files_(files), index_(*index) {}

  Status Take(uint32_t bucket, const KeyRecord& record, const char* /*value*/) override {
    if (!IsInRoot(bucket)) return Status::Ok();
    records_.push_back(record);
    return Status::Ok();
  }

  Status Finish(uint32_t bucket, const VerifiedBucket& verified) override {
    std::vector<KeyRecord> records = std::exchange(records_, {});
    if (!IsInRoot(bucket)) return Status::Ok();
    std::vector<IndexEntry> entries;
    const bool is_usable = records.size() == verified.held_count &&
                           Holds(bucket, verified, records) &&
                           ReadExtents(bucket, verified, records, &entries);
    if (!is_usable) {
      const std::lock_guard lock(index_.mutex);
      ++index_.unusable_count;
      return Status::Ok();
    }
    Compare(bucket, verified.table, std::move(records), entries);
    return Status::Ok();
  }

 private:
  const format::IndexCoverage& CoverageOf(uint32_t bucket) const {
    return index_.root.coverages[bucket];
  }
  bool IsInRoot(uint32_t bucket) const {
    return CoverageOf(bucket).record_count > 0 || !index_.root.ExtentsOf(bucket).empty();
  }
  bool Holds(uint32_t bucket, const VerifiedBucket& verified,
             const std::vector<KeyRecord>& records) const {
    const StoreIds ids = files_.identity.ids();
    const auto read_entry = [&](uint64_t sequence, format::KeyEntry* entry) {
      const auto found = std::find_if(records.rbegin(), records.rend(), [&](const KeyRecord& each) {
        return each.sequence == sequence;
      });
      // An opening may find it in a slot that was freed.
      if (found == records.rend()) return Status(Code::kInvalidArgument, {});
      *entry = SlotTable::EncodeAppended(EntryCodec(ids.seed_id, bucket), *found, sequence);
      return Status::Ok();
    };
    return CoverageHolds(ids.store_id, index_.root.root_id, bucket, CoverageOf(bucket),
                         {verified.record_count, verified.table.births()}, read_entry);
  }

  // Leaves void words out.
  bool ReadExtents(uint32_t bucket, const VerifiedBucket& verified,
                   const std::vector<KeyRecord>& records, std::vector<IndexEntry>* entries);
  // Whether an opening reads the record from the key log.
  bool IsInTail(uint32_t bucket, const SlotTable& table, const KeyRecord& record) const;
  void Compare(uint32_t bucket, const SlotTable& table, std::vector<KeyRecord> records,
               const std::vector<IndexEntry>& entries);
  void AddBad(uint32_t bucket, uint64_t slot, const char* what);

  const StoreFiles& files_;
  IndexFiles& index_;
  std::vector<KeyRecord> records_;
  Region memory_;
};

bool Comparison::ReadExtents(uint32_t bucket, const VerifiedBucket& verified,
                             const std::vector<KeyRecord>& records,
                             std::vector<IndexEntry>* entries) {
  const SlotTable& table = verified.table;
  const uint64_t slot_end = table.SlotEnd(verified.record_count);
  std::optional<HeldSlots> held;
  if (table.has_rows()) {
    held.emplace(table);
    SetKeys(table, records, &*held);
  }
  std::vector<uint64_t> keys;
  for (const format::IndexExtent& extent : index_.root.ExtentsOf(bucket)) {
    if (memory_.data() == nullptr &&
        !Region::Allocate(format::kIndexExtentBytes, /*huge_pages=*/false, &memory_).ok()) {
      return false;
    }
    const uint32_t block_count = format::IndexBlocksOf(extent.record_count);
    const l1::ExtentId id = {extent.generation, extent.place};
    if (!index_.extents->ReadBlocks(id, 0, block_count + 1, memory_.data()).ok()) return false;
    const l1::FenceBlock fences(memory_.data());
    if (fences.block_count() != block_count) return false;
    for (uint32_t i = 1; i <= block_count; ++i) {
      const char* const data = memory_.data() + size_t{i} * format::kIndexBlockBytes;
      const l1::RecordBlock block(data);
      const bool is_good = IsSoundBlock(i, data, {extent.first_key, extent.last_key}, slot_end);
      if (!is_good || block.keys()[0] != fences.first_keys()[i - 1]) return false;
      keys.insert(keys.end(), block.keys(), block.keys() + block.count());
      for (uint32_t j = 0; j < block.count(); ++j) {
        const ValueRef ref = ValueRef::FromWord(block.words()[j]);
        if (held && !held->Holds(ref.slot(), extent.births, block.keys()[j])) continue;
        entries->push_back({block.keys()[j], ref});
      }
    }
  }
  return std::is_sorted(keys.begin(), keys.end(), std::less_equal<>());
}

bool Comparison::IsInTail(uint32_t bucket, const SlotTable& table, const KeyRecord& record) const {
  const format::IndexCoverage& coverage = CoverageOf(bucket);
  const BucketMoment since = {coverage.record_count, coverage.births};
  if (record.slot == kNoSlot) return true;
  uint64_t sequence = 0;
  if (!table.SequenceOf(record.slot, &sequence)) {
    const Row& row = table.rows()[record.slot / table.row_records()];
    if (row.birth <= since.births) return false;
    if (row.moved_at > since.births) return true;
  }
  return record.sequence >= table.FirstSince(since);
}

// The words of the extents lead to records of their keys. That is the newest one of the key, unless
// the newest one is in the tail: then the record in the extents may be old or missing. A later
// record of the key may even have been moved to the slot that the word names.
void Comparison::Compare(uint32_t bucket, const SlotTable& table, std::vector<KeyRecord> records,
                         const std::vector<IndexEntry>& entries) {
  const uint64_t end = CoverageOf(bucket).end_count;
  // Later copies of a record come behind the others, as they were taken.
  std::stable_sort(records.begin(), records.end(), [](const KeyRecord& a, const KeyRecord& b) {
    return a.key != b.key ? a.key < b.key : a.sequence < b.sequence;
  });
  auto entry = entries.begin();
  for (auto begin = records.begin(); begin != records.end();) {
    auto record_end = begin;
    while (record_end != records.end() && record_end->key == begin->key) ++record_end;
    for (; entry != entries.end() && entry->key < begin->key; ++entry) {
      AddBad(bucket, entry->ref.slot(), "the index has a key that the key log does not have");
    }
    const bool is_found = entry != entries.end() && entry->key == begin->key;
    const KeyRecord& newest = *(record_end - 1);
    const bool is_in_tail = IsInTail(bucket, table, newest);
    const auto is_entry = [&](const KeyRecord& record) {
      return record.slot != kNoSlot && record.sequence < end && !record.tombstone &&
             entry->ref == ValueRef(record);
    };
    const auto is_in_its_slot = [&](const KeyRecord& record) {
      return is_entry(record) || record.slot == entry->ref.slot();
    };
    const bool is_right = !is_found    ? is_in_tail || newest.tombstone
                          : is_in_tail ? std::any_of(begin, record_end, is_in_its_slot)
                                       : is_entry(newest);
    if (!is_right) AddBad(bucket, newest.slot, "the index has another record of the key");
    if (is_found) ++entry;
    begin = record_end;
  }
  for (; entry != entries.end(); ++entry) {
    AddBad(bucket, entry->ref.slot(), "the index has a key that the key log does not have");
  }
  const std::lock_guard lock(index_.mutex);
  index_.record_count += entries.size();
}

void Comparison::AddBad(uint32_t bucket, uint64_t slot, const char* what) {
  {
    const std::lock_guard lock(index_.mutex);
    ++index_.bad_count;
  }
  if (index_.on_bad) index_.on_bad({format::kIndexFilePrefix, bucket, slot, what});
}

}  // namespace

Status VerifyStore(const std::string& dir, VerifyReport* report, const BadRecordFn& tell,
                   const Options& options, const ProgressFn& tell_progress) {
  // Threads find bad records in the logs and in the index; the caller hears of one at a time.
  std::mutex tell_mutex;
  ProgressFn on_progress;
  if (tell_progress) {
    on_progress = [&](uint64_t done_count, uint64_t record_count) {
      const std::lock_guard lock(tell_mutex);
      return tell_progress(done_count, record_count);
    };
  }
  BadRecordFn on_bad;
  if (tell) {
    on_bad = [&](const BadRecord& bad) {
      const std::lock_guard lock(tell_mutex);
      tell(bad);
    };
  }
  Options any_size = options;
  any_size.value_bytes = 0;
  StoreFiles files;
  ENGINE_RACE_RETURN_IF_ERROR(OpenStoreFilesToRead(dir, &files, any_size));
  ENGINE_RACE_RETURN_IF_ERROR(CheckRootFile(files));
  IndexFiles index;
  index.on_bad = on_bad;
  ENGINE_RACE_RETURN_IF_ERROR(l1::ExtentStore::Open(files.directory.get(), files.identity.store_id,
                                                    /*file_mode=*/0, /*writable=*/false,
                                                    &index.extents));
  const uint32_t bucket_count = files.identity.geometry.bucket_count;
  Status loaded =
      l1::LoadIndexRoot(files.directory.get(), files.identity.ids(), bucket_count, &index.root);
  if (loaded.ok()) loaded = index.extents->Reserve(index.root.extents);
  if (!loaded.ok()) {
    Status verified = VerifyFiles(files, report, on_bad, {}, on_progress);
    // The next opening builds all of it.
    if (loaded.code() != Code::kNotFound) report->index_unusable_bucket_count = bucket_count;
    return verified;
  }
  const MakeSinkFn make_sink = [&](std::unique_ptr<RecordSink>* sink) {
    *sink = std::make_unique<Comparison>(files, &index);
    return Status::Ok();
  };
  Status verified = VerifyFiles(files, report, on_bad, make_sink, on_progress);
  report->index_record_count = index.record_count;
  report->index_unusable_bucket_count = index.unusable_count;
  report->bad_count += index.bad_count;
  if (verified.ok() && index.bad_count > 0) {
    verified = Status::Corruption(std::to_string(index.bad_count) +
                                  " records of the index differ from the key logs");
  }
  return verified;
}

}  // namespace engine_race
