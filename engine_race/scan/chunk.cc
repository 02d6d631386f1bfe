#include "engine_race/scan/chunk.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <new>

#include "engine_race/base/assert.h"
#include "engine_race/base/guarded.h"

namespace engine_race {

namespace {

// The bytes of a batch, at most: a visitor may wait for a whole one.
constexpr uint32_t kBatchBytes = 64 * 1024;

// How far ahead of its own batch a visitor looks for another one to check.
constexpr uint32_t kHelpBatches = 64;

// How many bytes of values are fetched ahead of the one that is checked: checking so many takes
// longer than fetching them. Of a longer value the first so many are fetched.
constexpr uint32_t kMostFetchedBytes = 4096;

// Inline, so that the compiler unrolls it for a constant.
[[gnu::always_inline]] inline void FetchLines(const char* begin, uint32_t bytes) {
  constexpr uint32_t kLineBytes = 64;
#pragma GCC unroll 16
  for (uint32_t at = 0; at < bytes; at += kLineBytes) __builtin_prefetch(begin + at);
  // An effect that GCC knows of, see FetchEnds.
  asm volatile("");
}

// Which values are read from the log, a bit for each. The others are in memory anyway.
uint64_t FromLog(std::span<const uint32_t> positions) {
  ENGINE_RACE_ASSERT(positions.size() <= 64);
  uint64_t records = 0;
  for (size_t i = 0; i < positions.size(); ++i) {
    if ((positions[i] & kPositionFlags) == 0) records |= uint64_t{1} << i;
  }
  return records;
}

}  // namespace

void Chunk::Recycle() {
  ENGINE_RACE_ASSERT(pins == 0 && !cached && buffers.empty());
  first_key = last_key = error_key = cut = 0;
  version = kLatestVersion;
  entries.clear();
  segments.clear();
  plan.Clear();
  collect_status = Status::Ok();
  pins = reads_left = batch_count_ = 0;
  cached = doomed = read_failed = needs_preparing_ = verify_ = false;
  read_status_ = Status::Ok();
  // Relaxed: nobody else knows the chunk now; the mutex shows it to them later.
  recalled.store(false, std::memory_order_relaxed);
  stale_.store(false, std::memory_order_relaxed);
  state_.store(0, std::memory_order_relaxed);
}

void Chunk::KeepFirst(uint32_t count) {
  ENGINE_RACE_ASSERT(0 < count && count <= entries.size());
  entries.resize(count);
  last_key = entries.back().key;
  while (segments.back().first_entry >= count) segments.pop_back();
  // An error of the index lies behind the last key.
  collect_status = Status::Ok();
  error_key = 0;
}

void Chunk::KeepLast(uint32_t count) {
  ENGINE_RACE_ASSERT(0 < count && count <= entries.size());
  const auto dropped_count = static_cast<uint32_t>(entries.size()) - count;
  entries.erase(entries.begin(), entries.begin() + dropped_count);
  first_key = entries.front().key;
  const auto kept = std::find_if(segments.rbegin(), segments.rend(), [&](const Segment& segment) {
    return segment.first_entry <= dropped_count;
  });
  segments.erase(segments.begin(), std::prev(kept.base()));
  for (Segment& segment : segments) {
    segment.first_entry -= std::min(segment.first_entry, dropped_count);
  }
}

void Chunk::Place(const BufferLayout& layout, char* base, std::span<const uint32_t> in_buffers,
                  bool verify, FrameFiller* filler) {
  ENGINE_RACE_ASSERT(plan.positions.size() == entries.size());
  ENGINE_RACE_ASSERT(layout.BuffersFor(plan.position_count) <= in_buffers.size());
  layout_ = layout;
  base_ = base;
  verify_ = verify;
  const bool may_admit = filler != nullptr && filler->MayAdmit();
  filler_ = nullptr;
  needs_preparing_ = false;
  for (uint32_t& position : plan.positions) {
    const uint32_t flags = position & kPositionFlags;
    position = layout.PositionIn(in_buffers, position & ~kPositionFlags) | flags;
    const bool is_unverified = verify && (flags & kVerifiedPosition) == 0;
    needs_preparing_ = needs_preparing_ || is_unverified || (flags & kStagedPosition) != 0;
    if (may_admit && flags == 0) filler_ = filler;
  }
  needs_preparing_ = needs_preparing_ || filler_ != nullptr;
  if (!needs_preparing_) {
    for (uint32_t& position : plan.positions) position &= ~kPositionFlags;
  }
  for (PlannedRead& read : plan.reads) {
    read.first_position = layout.PositionIn(in_buffers, read.first_position);
  }
  reads_left = static_cast<uint32_t>(plan.reads.size());
  const uint32_t fitting_count = std::clamp(kBatchBytes / layout.value_bytes(), 1U, kBatchRecords);
  batch_shift_ = static_cast<uint32_t>(std::bit_width(fitting_count)) - 1;
  batch_count_ = (static_cast<uint32_t>(entries.size()) + batch_records() - 1) >> batch_shift_;
  if (batch_count_ > batch_capacity_) {
    batch_capacity_ = 0;
    batches_ = std::make_unique<std::atomic<uint32_t>[]>(batch_count_);
    batch_capacity_ = batch_count_;
  }
  // Relaxed: as in Recycle.
  for (uint32_t i = 0; i < batch_count_; ++i) {
    batches_[i].store(kUntouched, std::memory_order_relaxed);
  }
}

uint32_t Chunk::LowerBound(uint64_t key) const {
  const auto at =
      std::lower_bound(entries.begin(), entries.end(), key,
                       [](const IndexEntry& entry, uint64_t bound) { return entry.key < bound; });
  return static_cast<uint32_t>(at - entries.begin());
}

const Segment& Chunk::SegmentOfEntry(uint32_t entry) const {
  const auto after = std::upper_bound(
      segments.begin(), segments.end(), entry,
      [](uint32_t bound, const Segment& segment) { return bound < segment.first_entry; });
  return *std::prev(after);
}

Status Chunk::ErrorOf(const ScanContext& context, uint32_t entry) {
  if (plan.positions[entry] == kCorruptPosition) {
    return context.log.reader().CorruptValue(SegmentOfEntry(entry).bucket,
                                             entries[entry].ref.slot());
  }
  std::lock_guard lock(error_mutex_);
  return read_status_;
}

std::span<const IndexEntry> Chunk::EntriesOf(size_t segment) const {
  const uint32_t first = segments[segment].first_entry;
  const size_t after =
      segment + 1 < segments.size() ? segments[segment + 1].first_entry : entries.size();
  return std::span(entries).subspan(first, after - first);
}

void Chunk::WaitUntilReady() const {
  // Acquire: with the store in SetReady, shows the values and the marks of failed reads.
  state_.wait(0, std::memory_order_acquire);
}

void Chunk::SetReady() {
  ENGINE_RACE_ASSERT(reads_left == 0 && !ready());
  // Not a mere release: notify_all looks whether anybody waits, which must come after the store.
  state_.store(1);
  state_.notify_all();
}

void Chunk::Prepare(const ScanContext& context, uint32_t entry) {
  ENGINE_RACE_ASSERT(ready() && entry < entries.size());
  if (!needs_preparing_) return;
  const uint32_t batch = entry >> batch_shift_;
  std::atomic<uint32_t>& state = batches_[batch];
  // Acquire, here and below: with the store at the end of TryPrepare.
  if (state.load(std::memory_order_acquire) == kPrepared) [[likely]]
    return;
  if (TryPrepare(context, batch)) return;
  const uint32_t end = std::min(batch_count_, batch + kHelpBatches);
  for (uint32_t other = batch + 1; other < end; ++other) {
    if (state.load(std::memory_order_acquire) == kPrepared) return;
    TryPrepare(context, other);
  }
  state.wait(kInWork, std::memory_order_acquire);
}

bool Chunk::TryPrepare(const ScanContext& context, uint32_t batch) {
  ENGINE_RACE_ASSERT(batch < batch_count_);
  uint32_t expected = kUntouched;
  // Relaxed: the winner needs nothing from others but what SetReady showed it.
  if (batches_[batch].load(std::memory_order_relaxed) != kUntouched ||
      !batches_[batch].compare_exchange_strong(expected, kInWork, std::memory_order_relaxed)) {
    return false;
  }
  const uint32_t begin = batch << batch_shift_;
  const uint32_t end = std::min(begin + batch_records(), static_cast<uint32_t>(entries.size()));
  const uint32_t ahead = std::max(kMostFetchedBytes / layout_.value_bytes(), 1U);
  for (uint32_t i = begin + 1; i < std::min(begin + ahead, end); ++i) Prefetch(i);
  const uint64_t from_log =
      filler_ == nullptr ? 0 : FromLog(std::span(plan.positions).subspan(begin, end - begin));
  for (uint32_t i = begin; i < end; ++i) {
    if (i + ahead < end) Prefetch(i + ahead);
    // Visitors would wait in vain for a batch that is left in work.
    try {
      PrepareEntry(context, i);
    } catch (...) {
      plan.positions[i] = kUnreadablePosition;
      NoteReadError(Status(Code::kOutOfMemory, {}));
    }
  }
  if (from_log != 0) AdmitToFrames(begin, from_log);
  // As in SetReady.
  batches_[batch].store(kPrepared);
  batches_[batch].notify_all();
  return true;
}

void Chunk::AdmitToFrames(uint32_t begin, uint64_t records) {
  if (!filler_->Begin()) return;
  for (; records != 0; records &= records - 1) {
    const uint32_t entry = begin + static_cast<uint32_t>(std::countr_zero(records));
    const char* const value = Value(entry);
    if (value != nullptr) filler_->Admit(entries[entry].key, entries[entry].ref, value);
  }
  filler_->End();
}

// Neighbours by key lie anywhere, and the processor prefetches by itself only within a page. So
// each value is fetched while those before it are checked.
void Chunk::Prefetch(uint32_t entry) const {
  if (plan.positions[entry] >= kVerifiedPosition) return;
  const char* value = Value(entry);
  if (layout_.value_bytes() >= kMostFetchedBytes) {
    FetchLines(value, kMostFetchedBytes);
  } else {
    FetchLines(value, layout_.value_bytes());
  }
}

inline bool Chunk::Matches(uint32_t entry) const {
  return ValueMatches(Value(entry), layout_.value_bytes(), entries[entry].ref.value_checksum());
}

void Chunk::PrepareEntry(const ScanContext& context, uint32_t entry) {
  // Values that are neither staged nor hot need no segment. For a small value PrepareSlowly's other
  // checks would take as long as its checksum.
  if (plan.positions[entry] < kVerifiedPosition && (!verify_ || Matches(entry))) [[likely]] {
    return;
  }
  PrepareSlowly(context, entry);
}

void Chunk::PrepareSlowly(const ScanContext& context, uint32_t entry) {
  uint32_t& position = plan.positions[entry];
  if (position >= kCorruptPosition) return;
  if ((position & kVerifiedPosition) != 0) {
    position &= ~kVerifiedPosition;
    return;
  }
  const Segment& segment = SegmentOfEntry(entry);
  const uint32_t bucket = segment.bucket;
  if ((position & kStagedPosition) != 0) {
    const uint32_t at = position & ~kStagedPosition;
    const Status status = context.log.reader().ReadValue(bucket, entries[entry].ref.slot(),
                                                         base_ + layout_.OffsetOf(at));
    position = status.ok() ? at : kUnreadablePosition;
    // A slot that was used again may not even be there any more.
    const uint64_t slot = entries[entry].ref.slot();
    Status failure;
    if (IsStale(context, segment, version, {&slot, 1}, &failure)) {
      if (failure.ok()) stale_.store(true, std::memory_order_relaxed);
      if (!failure.ok()) NoteReadError(failure);
      position = kUnreadablePosition;
      return;
    }
    if (!status.ok()) {
      NoteReadError(status);
      return;
    }
  }
  if (!verify_ || Matches(entry)) return;
  const Status status = context.log.reader().CorruptValue(bucket, entries[entry].ref.slot());
  position = kCorruptPosition;
  Log(context.options.log, LogLevel::kError, status.message());
}

void Chunk::NoteReuse(const ScanContext& context) {
  std::vector<uint64_t> slots;
  for (size_t i = 0; i < segments.size(); ++i) {
    const size_t begin = segments[i].first_entry;
    const size_t end = i + 1 < segments.size() ? segments[i + 1].first_entry : entries.size();
    // Only the log of a store that follows a writer looks at them.
    const Status listed = Guarded([&] {
      slots.clear();
      for (size_t at = begin; context.log.follows() && at < end; ++at) {
        slots.push_back(entries[at].ref.slot());
      }
      std::sort(slots.begin(), slots.end());
      return Status::Ok();
    });
    Status failure;
    if (listed.ok() && !IsStale(context, segments[i], version, slots, &failure)) continue;
    if (failure.ok()) {
      stale_.store(true, std::memory_order_relaxed);
    } else {
      FailEntries(begin, end, failure);
    }
  }
}

// Before SetReady.
void Chunk::FailEntries(size_t begin, size_t end, const Status& status) {
  read_failed = true;
  NoteReadError(status);
  for (size_t at = begin; at < end; ++at) plan.positions[at] = kUnreadablePosition;
}

void Chunk::NoteReadError(const Status& status) {
  std::lock_guard lock(error_mutex_);
  if (!read_status_.ok()) return;
  try {
    read_status_ = status;
  } catch (const std::bad_alloc&) {
    read_status_ = Status(status.code(), {});
  }
}

void Chunk::FailRead(const PlannedRead& read, uint64_t read_bytes, const Status& status) {
  ENGINE_RACE_ASSERT(!ready() && !status.ok());
  const Blocks blocks = read.BlocksOf(layout_.slot_bytes());
  const uint64_t value_bytes = read_bytes - std::min<uint64_t>(read_bytes, blocks.skip_bytes);
  const uint64_t first_bad = value_bytes / layout_.slot_bytes();
  if (first_bad >= read.slot_count) return;
  read_failed = true;
  NoteReadError(status);
  const uint64_t first_position = read.first_position + layout_.PositionsIn(blocks.skip_bytes);
  const uint64_t begin = first_position + first_bad * layout_.slot_positions();
  const uint64_t end = first_position + uint64_t{read.slot_count} * layout_.slot_positions();
  for (uint32_t& position : plan.positions) {
    if (position >= begin && position < end) position = kUnreadablePosition;
  }
}

uint64_t Chunk::memory_bytes() const {
  return sizeof(Chunk) + entries.capacity() * sizeof(IndexEntry) +
         segments.capacity() * sizeof(Segment) + plan.positions.capacity() * sizeof(uint32_t) +
         plan.reads.capacity() * sizeof(PlannedRead) + buffers.capacity() * sizeof(uint32_t) +
         batch_capacity_ * sizeof(uint32_t);
}

}  // namespace engine_race
