#include "engine_race/copies/copies.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "engine_race/base/memory.h"
#include "engine_race/copies/verify.h"
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

// Collects the records of a bucket and compares them with the extents.
class Comparison final : public RecordSink {
 public:
  Comparison(const StoreFiles& files, IndexFiles* index) : files_(files), index_(*index) {}

  Status Take(uint32_t bucket, const KeyRecord& record, const char* /*value*/) override {
    if (!IsInRoot(bucket)) return Status::Ok();
    // In a bucket whose slots were used again they are not: openings do not use its extents.
    is_in_order_ = is_in_order_ && record.slot == records_.size();
    records_.push_back(record);
    return Status::Ok();
  }

  Status Finish(uint32_t bucket, uint64_t record_count) override {
    std::vector<KeyRecord> records = std::exchange(records_, {});
    const bool is_in_order = std::exchange(is_in_order_, true);
    const auto extents = index_.root.ExtentsOf(bucket);
    const format::IndexCoverage& coverage = index_.root.coverages[bucket];
    if (!IsInRoot(bucket)) return Status::Ok();
    std::vector<IndexEntry> entries;
    const bool is_usable = records.size() == record_count && is_in_order &&
                           Holds(bucket, coverage, records) &&
                           ReadExtents(extents, record_count, &entries);
    if (!is_usable) {
      const std::lock_guard lock(index_.mutex);
      ++index_.unusable_count;
      return Status::Ok();
    }
    Compare(bucket, coverage, std::move(records), entries);
    return Status::Ok();
  }

 private:
  bool IsInRoot(uint32_t bucket) const {
    return index_.root.coverages[bucket].record_count > 0 || !index_.root.ExtentsOf(bucket).empty();
  }
  bool Holds(uint32_t bucket, const format::IndexCoverage& coverage,
             const std::vector<KeyRecord>& records) const {
    const StoreIds ids = files_.identity.ids();
    const auto read_entry = [&](uint64_t slot, format::KeyEntry* entry) {
      *entry = SlotTable::EncodeAppended(EntryCodec(ids.seed_id, bucket), records[slot], slot);
      return true;
    };
    return CoverageHolds(ids.store_id, index_.root.root_id, bucket, coverage, records.size(),
                         read_entry);
  }

  bool ReadExtents(std::span<const format::IndexExtent> extents, uint64_t record_count,
                   std::vector<IndexEntry>* entries);
  void Compare(uint32_t bucket, const format::IndexCoverage& coverage,
               std::vector<KeyRecord> records, const std::vector<IndexEntry>& entries);
  void AddBad(uint32_t bucket, uint64_t slot, const char* what);

  const StoreFiles& files_;
  IndexFiles& index_;
  std::vector<KeyRecord> records_;
  bool is_in_order_ = true;
  Region memory_;
};

bool Comparison::ReadExtents(std::span<const format::IndexExtent> extents, uint64_t record_count,
                             std::vector<IndexEntry>* entries) {
  for (const format::IndexExtent& extent : extents) {
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
      const bool is_good = IsSoundBlock(i, data, {extent.first_key, extent.last_key}, record_count);
      if (!is_good || block.keys()[0] != fences.first_keys()[i - 1]) return false;
      for (uint32_t j = 0; j < block.count(); ++j) {
        entries->push_back({block.keys()[j], ValueRef::FromWord(block.words()[j])});
      }
    }
  }
  return std::is_sorted(entries->begin(), entries->end(),
                        [](const IndexEntry& a, const IndexEntry& b) { return a.key <= b.key; });
}

// The extents have each key's newest record below coverage.end_count, unless that lies in the tail.
void Comparison::Compare(uint32_t bucket, const format::IndexCoverage& coverage,
                         std::vector<KeyRecord> records, const std::vector<IndexEntry>& entries) {
  records.resize(coverage.end_count);
  std::sort(records.begin(), records.end(), [](const KeyRecord& a, const KeyRecord& b) {
    return a.key != b.key ? a.key < b.key : a.sequence < b.sequence;
  });
  auto entry = entries.begin();
  for (auto begin = records.begin(); begin != records.end();) {
    auto end = begin;
    while (end != records.end() && end->key == begin->key) ++end;
    for (; entry != entries.end() && entry->key < begin->key; ++entry) {
      AddBad(bucket, entry->ref.slot(), "the index has a key that the key log does not have");
    }
    const bool is_found = entry != entries.end() && entry->key == begin->key;
    const KeyRecord& newest = *(end - 1);
    // The tail is read again: of a key that has a record there, the record in the extents may be
    // old or missing.
    const bool is_in_tail = newest.sequence >= SlotTable::OrderOfSequence(coverage.record_count);
    const auto is_entry = [&](const KeyRecord& record) {
      return entry->ref == ValueRef(record) && !record.tombstone;
    };
    const bool is_right = !is_found    ? is_in_tail || newest.tombstone
                          : is_in_tail ? std::any_of(begin, end, is_entry)
                                       : is_entry(newest);
    if (!is_right) AddBad(bucket, newest.slot, "the index has another record of the key");
    if (is_found) ++entry;
    begin = end;
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
                   const std::vector<std::string>& paths, const std::optional<KeyRange>& key_range,
                   const ProgressFn& tell_progress) {
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
  StoreFiles files;
  ENGINE_RACE_RETURN_IF_ERROR(OpenStoreFilesToRead(dir, &files, paths, key_range));
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
