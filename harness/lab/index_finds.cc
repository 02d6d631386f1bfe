#include "harness/lab/index_finds.h"

#include <algorithm>
#include <array>
#include <vector>

#include "engine_race/log/format.h"
#include "harness/load/fill_keys.h"

namespace engine_race::lab {

using engine_race::BlockLookup;
using engine_race::BucketLog;
using engine_race::Code;
using engine_race::Index;
using engine_race::IndexEntry;
using engine_race::KeyRecord;
using engine_race::RunWindow;
using engine_race::Status;
using engine_race::ValueRef;
using engine_race::l1::EpochManager;

Status MakeFlatIndex(BucketLog* log, std::unique_ptr<FlatIndex>* flat) {
  auto made = std::make_unique<FlatIndex>(log->geometry());
  std::vector<engine_race::format::KeyEntry> raw;
  std::vector<IndexEntry> entries;
  for (uint32_t bucket = 0; bucket < log->geometry().bucket_count; ++bucket) {
    if (log->RecordCount(bucket) == 0) continue;
    ENGINE_RACE_RETURN_IF_ERROR(harness::ReadEntries(log, bucket, &raw));
    entries.clear();
    for (uint32_t slot = 0; slot < raw.size(); ++slot) {
      KeyRecord record;
      if (!engine_race::SlotTable::DecodeAppended(log->codec(bucket), raw[slot], slot, &record)) {
        return Status::Corruption("a key entry is damaged");
      }
      record.slot = slot;
      entries.push_back({record.key, ValueRef(record)});
    }
    const auto is_below = [](const IndexEntry& a, const IndexEntry& b) { return a.key < b.key; };
    if (!std::is_sorted(entries.begin(), entries.end(), is_below)) {
      std::sort(entries.begin(), entries.end(), is_below);
    }
    ENGINE_RACE_RETURN_IF_ERROR(made->AddBucket(bucket, entries));
  }
  *flat = std::move(made);
  return Status::Ok();
}

Status FindEach(const Index& index, EpochManager* epochs, std::span<const uint64_t> keys,
                uint64_t* slot_sum) {
  for (const uint64_t key : keys) {
    const EpochManager::Guard guard(*epochs);
    ValueRef ref;
    BlockLookup lookup;
    ENGINE_RACE_RETURN_IF_ERROR(index.FindHot(key, &ref, &lookup));
    *slot_sum += ref.slot();
  }
  return Status::Ok();
}

Status FindTogether(const Index& index, EpochManager* epochs, std::span<const uint64_t> keys,
                    uint64_t* slot_sum) {
  const EpochManager::Guard guard(*epochs);
  std::array<RunWindow, FlatIndex::kBatchKeys> windows;
  index.Prefetch(keys, windows);
  for (size_t i = 0; i < keys.size(); ++i) {
    ValueRef ref;
    BlockLookup lookup;
    ENGINE_RACE_RETURN_IF_ERROR(index.FindHot(keys[i], &ref, &lookup, windows[i]));
    *slot_sum += ref.slot();
  }
  return Status::Ok();
}

Status FindEach(const FlatIndex& flat, std::span<const uint64_t> keys, uint64_t* slot_sum) {
  for (const uint64_t key : keys) {
    ValueRef ref;
    if (!flat.Find(key, &ref)) return Status(Code::kNotFound, "a key is not in the flat arrays");
    *slot_sum += ref.slot();
  }
  return Status::Ok();
}

Status FindTogether(const FlatIndex& flat, std::span<const uint64_t> keys, uint64_t* slot_sum) {
  std::array<ValueRef, FlatIndex::kBatchKeys> refs;
  if (flat.FindBatch(keys, refs) != keys.size()) {
    return Status(Code::kNotFound, "a key is not in the flat arrays");
  }
  for (size_t i = 0; i < keys.size(); ++i) *slot_sum += refs[i].slot();
  return Status::Ok();
}

}  // namespace engine_race::lab
