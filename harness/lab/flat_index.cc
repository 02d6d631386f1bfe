#include "harness/lab/flat_index.h"

#include <algorithm>
#include <array>
#include <shared_mutex>
#include <utility>

#include "engine_race/base/assert.h"
#include "engine_race/base/key_scan.h"
#include "engine_race/base/lower_bound.h"
#include "engine_race/base/round_up.h"

namespace lab {
namespace {

using engine_race::CellMap;
using engine_race::IndexEntry;
using engine_race::kScanKeyCount;
using engine_race::RefWord;
using engine_race::Region;
using engine_race::Status;
using engine_race::ValueRef;

constexpr size_t kKeysPerCell = 16;
constexpr size_t kSlabBytes = size_t{64} << 20;
constexpr size_t kLineBytes = 64;

}  // namespace

FlatIndex::FlatIndex(const engine_race::Geometry& geometry)
    : geometry_(geometry), buckets_(geometry.bucket_count) {}

Status FlatIndex::Allocate(size_t bytes, char** memory) {
  const size_t rounded = engine_race::RoundUp(bytes, kLineBytes);
  if (slabs_.empty() || slabs_.back().size() - slab_used_ < rounded) {
    Region slab;
    ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(std::max(kSlabBytes, rounded), true, &slab));
    slabs_.push_back(std::move(slab));
    slab_used_ = 0;
  }
  *memory = reinterpret_cast<char*>(slabs_.back().data()) + slab_used_;
  slab_used_ += rounded;
  return Status::Ok();
}

Status FlatIndex::MakeRun(std::span<const IndexEntry> entries, Run* run) {
  ENGINE_RACE_ASSERT(!entries.empty());
  const size_t count = entries.size();
  const auto cell_count = static_cast<uint32_t>(count / kKeysPerCell + 1);
  run->map = CellMap::Over(entries.front().key, entries.back().key, cell_count);
  run->count = count;
  const size_t padded = count + kScanKeyCount;
  const size_t table_entries = size_t{run->map.cell_count()} + 1;
  char* memory = nullptr;
  ENGINE_RACE_RETURN_IF_ERROR(
      Allocate(padded * sizeof(uint64_t) + count * sizeof(RefWord) + table_entries * 4, &memory));
  auto* const keys = reinterpret_cast<uint64_t*>(memory);
  auto* const refs = reinterpret_cast<RefWord*>(keys + padded);
  auto* const cells = reinterpret_cast<uint32_t*>(refs + count);
  uint32_t next_cell = 0;
  for (size_t i = 0; i < count; ++i) {
    ENGINE_RACE_ASSERT(i == 0 || keys[i - 1] < entries[i].key);
    keys[i] = entries[i].key;
    refs[i].Store(entries[i].ref);
    const uint32_t cell = run->map.Of(keys[i]);
    while (next_cell <= cell) cells[next_cell++] = static_cast<uint32_t>(i);
  }
  while (next_cell < table_entries) cells[next_cell++] = static_cast<uint32_t>(count);
  // CountBelow reads the padding, which must lie on the same side of 2^63 as the last key.
  std::fill_n(keys + count, kScanKeyCount, entries.back().key | (~uint64_t{0} >> 1));
  run->keys = keys;
  run->refs = refs;
  run->cells = cells;
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
      into.first = run;
    } else {
      into.more.push_back(run);
      into.more_first_keys.push_back(entries[begin].key);
    }
  }
  return Status::Ok();
}

const FlatIndex::Run* FlatIndex::RunOf(uint64_t key) const {
  const Bucket& bucket = buckets_[geometry_.BucketOf(key)];
  const Run* run = &bucket.first;
  if (!bucket.more.empty()) {
    const std::vector<uint64_t>& firsts = bucket.more_first_keys;
    const size_t below = engine_race::LowerBound(firsts.data(), firsts.size(), key);
    const size_t index = below < firsts.size() && firsts[below] == key ? below + 1 : below;
    if (index > 0) run = &bucket.more[index - 1];
  }
  return run->count > 0 && run->map.Contains(key) ? run : nullptr;
}

size_t FlatIndex::Guess::window() const {
  return rank > kScanKeyCount / 2 ? rank - kScanKeyCount / 2 : 0;
}

void FlatIndex::Guess::ReadCells() {
  begin = run->cells[position.cell];
  size = run->cells[position.cell + 1] - begin;
  rank = begin + position.FractionOf(size);
}

FlatIndex::Guess FlatIndex::GuessIn(const Run& run, uint64_t key) {
  Guess guess;
  guess.run = &run;
  guess.position = run.map.PositionOf(key);
  guess.ReadCells();
  // The reference lies near the guess. Fetched now, it does not wait for the keys.
  __builtin_prefetch(run.refs + guess.rank);
  return guess;
}

const RefWord* FlatIndex::LocateNear(const Guess& guess, uint64_t key) {
  const Run& run = *guess.run;
  const size_t near = guess.window() + engine_race::CountBelow(run.keys + guess.window(), key);
  return run.keys[near] == key ? run.refs + near : nullptr;
}

const RefWord* FlatIndex::Locate(const Guess& guess, uint64_t key) {
  const RefWord* const near = LocateNear(guess, key);
  if (near != nullptr) [[likely]] {
    return near;
  }
  const Run& run = *guess.run;
  const size_t rank =
      guess.begin + engine_race::LowerBound(run.keys + guess.begin, guess.size, key);
  return rank < run.count && run.keys[rank] == key ? run.refs + rank : nullptr;
}

bool FlatIndex::Find(uint64_t key, ValueRef* ref) const {
  const engine_race::l1::EpochManager::Guard guard(epochs_);
  const Bucket& bucket = buckets_[geometry_.BucketOf(key)];
  if (bucket.more.empty() && bucket.first.map.Contains(key)) {
    const RefWord* const word = LocateNear(GuessIn(bucket.first, key), key);
    if (word != nullptr) [[likely]] {
      *ref = word->Load();
      return true;
    }
  }
  return FindSlowly(key, ref);
}

// Not inlined, so that Find stays short.
__attribute__((noinline)) bool FlatIndex::FindSlowly(uint64_t key, ValueRef* ref) const {
  const std::shared_lock lock(buckets_[geometry_.BucketOf(key)].lock);
  const Run* const run = RunOf(key);
  const RefWord* const word = run == nullptr ? nullptr : Locate(GuessIn(*run, key), key);
  if (word != nullptr) *ref = word->Load();
  return word != nullptr;
}

size_t FlatIndex::FindBatch(std::span<const uint64_t> keys, std::span<ValueRef> refs) const {
  ENGINE_RACE_ASSERT(keys.size() <= kBatchKeys && refs.size() >= keys.size());
  const engine_race::l1::EpochManager::Guard guard(epochs_);
  std::array<Guess, kBatchKeys> guesses;
  for (size_t i = 0; i < keys.size(); ++i) {
    guesses[i].run = RunOf(keys[i]);
    if (guesses[i].run == nullptr) continue;
    guesses[i].position = guesses[i].run->map.PositionOf(keys[i]);
    __builtin_prefetch(guesses[i].run->cells + guesses[i].position.cell);
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    Guess& guess = guesses[i];
    if (guess.run == nullptr) continue;
    guess.ReadCells();
    // The keys around the guess lie on two cache lines or three.
    __builtin_prefetch(guess.run->keys + guess.window());
    __builtin_prefetch(guess.run->keys + guess.window() + kScanKeyCount - 1);
    __builtin_prefetch(guess.run->refs + guess.rank);
  }
  size_t found = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (guesses[i].run == nullptr) continue;
    const RefWord* const word = Locate(guesses[i], keys[i]);
    if (word == nullptr) continue;
    refs[i] = word->Load();
    ++found;
  }
  return found;
}

}  // namespace lab
