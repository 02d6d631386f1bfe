#include "harness/lab/flat_index.h"

#include <algorithm>
#include <array>
#include <shared_mutex>
#include <utility>

#include "engine_race/base/assert.h"
#include "engine_race/base/lower_bound.h"
#include "engine_race/log/format.h"
#include "harness/load/fill_keys.h"

namespace engine_race::lab {

using l1::EpochManager;

namespace {

constexpr size_t kSlabBytes = size_t{64} << 20;

// Calls find(batch) for one batch of the keys after another.
template <typename Find>
Status ForBatches(std::span<const uint64_t> keys, const Find& find) {
  for (size_t i = 0; i < keys.size(); i += FlatIndex::kBatchKeys) {
    ENGINE_RACE_RETURN_IF_ERROR(
        find(keys.subspan(i, std::min(FlatIndex::kBatchKeys, keys.size() - i))));
  }
  return Status::Ok();
}

}  // namespace

FlatIndex::FlatIndex(const Geometry& geometry)
    : geometry_(geometry), buckets_(geometry.bucket_count), slabs_(kSlabBytes) {}

Status FlatIndex::MakeRun(std::span<const IndexEntry> entries, Run* run) {
  const CellMap map =
      CellMap::Over(entries.front().key, entries.back().key, Run::CellCountFor(entries.size()));
  ENGINE_RACE_RETURN_IF_ERROR(Run::Create(entries.size(), map, &slabs_, run, {}));
  for (size_t i = 0; i < entries.size(); ++i) {
    run->mutable_keys()[i] = entries[i].key;
    run->mutable_refs()[i].Store(entries[i].ref);
  }
  run->FillCells();
  return Status::Ok();
}

Status FlatIndex::AddBucket(uint32_t bucket, std::span<const IndexEntry> entries) {
  Bucket& into = buckets_[bucket];
  const size_t run_count = (entries.size() + kRunKeys - 1) / kRunKeys;
  for (size_t i = 0; i < run_count; ++i) {
    const size_t begin = entries.size() * i / run_count;
    const size_t end = entries.size() * (i + 1) / run_count;
    Run run;
    ENGINE_RACE_RETURN_IF_ERROR(MakeRun(entries.subspan(begin, end - begin), &run));
    if (i == 0) {
      into.first = std::move(run);
    } else {
      into.more.push_back(std::move(run));
      into.more_first_keys.push_back(entries[begin].key);
    }
  }
  return Status::Ok();
}

const FlatIndex::Run& FlatIndex::RunOf(uint64_t key) const {
  const Bucket& bucket = buckets_[geometry_.BucketOf(key)];
  if (bucket.more.empty()) return bucket.first;
  const std::vector<uint64_t>& firsts = bucket.more_first_keys;
  const size_t below = LowerBound(firsts.data(), firsts.size(), key);
  const size_t index = below < firsts.size() && firsts[below] == key ? below + 1 : below;
  return index == 0 ? bucket.first : bucket.more[index - 1];
}

bool FlatIndex::Find(uint64_t key, ValueRef* ref) const {
  const EpochManager::Guard guard(epochs_);
  const Bucket& bucket = buckets_[geometry_.BucketOf(key)];
  const RefWord* const word =
      bucket.more.empty() ? bucket.first.view().LocateNearGuess(key) : nullptr;
  if (word == nullptr) [[unlikely]] {
    return FindSlowly(key, ref);
  }
  *ref = word->Load();
  return true;
}

// Not inlined, so that Find stays short.
__attribute__((noinline)) bool FlatIndex::FindSlowly(uint64_t key, ValueRef* ref) const {
  const std::shared_lock lock(buckets_[geometry_.BucketOf(key)].lock);
  const RefWord* const word = RunOf(key).Locate(key);
  if (word != nullptr) *ref = word->Load();
  return word != nullptr;
}

size_t FlatIndex::FindBatch(std::span<const uint64_t> keys, std::span<ValueRef> refs) const {
  ENGINE_RACE_ASSERT(keys.size() <= kBatchKeys && refs.size() >= keys.size());
  struct Lookup {
    const Run* run = nullptr;  // null: the key is not there
    CellMap::Position position;
    uint32_t rank = 0;   // where its window begins
    uint32_t width = 0;  // of the window
  };
  const EpochManager::Guard guard(epochs_);
  std::array<Lookup, kBatchKeys> lookups;
  for (size_t i = 0; i < keys.size(); ++i) {
    const Run& run = RunOf(keys[i]);
    if (run.view().PrefetchCell(keys[i], &lookups[i].position)) lookups[i].run = &run;
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    Lookup& one = lookups[i];
    if (one.run == nullptr) continue;
    one.width = one.run->view().PrefetchWindow(one.position, &one.rank);
  }
  size_t found = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    Lookup& one = lookups[i];
    if (one.run == nullptr) continue;
    const RunView& run = one.run->view();
    while (one.width > kScanKeyCount) one.width = run.Narrow(keys[i], one.width, &one.rank);
    const RefWord* word = run.LocateInWindow(one.rank, keys[i]);
    if (word == nullptr) word = one.run->Locate(keys[i]);
    if (word == nullptr) continue;
    refs[i] = word->Load();
    ++found;
  }
  return found;
}

Status MakeFlatIndex(BucketLog* log, std::unique_ptr<FlatIndex>* flat) {
  auto made = std::make_unique<FlatIndex>(log->geometry());
  std::vector<format::KeyEntry> raw;
  std::vector<IndexEntry> entries;
  for (uint32_t bucket = 0; bucket < log->geometry().bucket_count; ++bucket) {
    if (log->RecordCount(bucket) == 0) continue;
    ENGINE_RACE_RETURN_IF_ERROR(harness::ReadEntries(log, bucket, &raw));
    entries.clear();
    for (uint32_t slot = 0; slot < raw.size(); ++slot) {
      KeyRecord record;
      if (!SlotTable::DecodeAppended(log->codec(bucket), raw[slot], slot, &record)) {
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

Status FindEach(const Index& index, std::span<const uint64_t> keys, uint64_t* slot_sum) {
  for (const uint64_t key : keys) {
    const EpochManager::Guard guard(index.epochs());
    ValueRef ref;
    BlockLookup lookup;
    ENGINE_RACE_RETURN_IF_ERROR(index.FindHot(key, &ref, &lookup));
    *slot_sum += ref.slot();
  }
  return Status::Ok();
}

Status FindTogether(const Index& index, std::span<const uint64_t> keys, uint64_t* slot_sum) {
  return ForBatches(keys, [&](std::span<const uint64_t> batch) {
    std::array<RunWindow, FlatIndex::kBatchKeys> windows;
    index.Prefetch(batch, windows);
    const EpochManager::Guard guard(index.epochs());
    for (size_t i = 0; i < batch.size(); ++i) {
      ValueRef ref;
      BlockLookup lookup;
      ENGINE_RACE_RETURN_IF_ERROR(index.FindHot(batch[i], &ref, &lookup, windows[i]));
      *slot_sum += ref.slot();
    }
    return Status::Ok();
  });
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
  return ForBatches(keys, [&](std::span<const uint64_t> batch) {
    std::array<ValueRef, FlatIndex::kBatchKeys> refs;
    if (flat.FindBatch(batch, refs) != batch.size()) {
      return Status(Code::kNotFound, "a key is not in the flat arrays");
    }
    for (size_t i = 0; i < batch.size(); ++i) *slot_sum += refs[i].slot();
    return Status::Ok();
  });
}

}  // namespace engine_race::lab
