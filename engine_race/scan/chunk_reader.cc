#include "engine_race/scan/chunk_reader.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "engine_race/base/assert.h"
#include "engine_race/base/guarded.h"
#include "engine_race/log/follower.h"

namespace engine_race {

namespace {

// Fewer reads than this are not worth a queue.
constexpr size_t kMinOverlapped = 4;

}  // namespace

void ChunkReader::Clear() { at_hand_->chunk.Recycle(); }

void ChunkReader::GiveBack() {
  DropAhead();
  Clear();
  // After Abandon the pool is gone, and no window is held.
  if (!at_hand_->windows.buffers.empty()) pool_->GiveWindows(&at_hand_->windows);
}

void ChunkReader::Abandon() {
  Clear();
  ahead_->chunk.Recycle();
  has_ahead_ = false;
  ahead_loader_ = nullptr;
  for (Reading& reading : readings_) reading.windows = Windows();
}

uint64_t ChunkReader::memory_bytes() const {
  uint64_t bytes = 0;
  for (const Reading& reading : readings_) {
    bytes += reading.chunk.memory_bytes() - sizeof(Chunk) +
             reading.windows.buffers.capacity() * sizeof(uint32_t);
  }
  return bytes;
}

Status ChunkReader::Read(uint64_t first_key, uint64_t last_key, uint64_t version,
                         uint32_t max_records, ChunkBuilder::Keep keep) {
  ENGINE_RACE_ASSERT(max_records > 0);
  try {
    if (ahead_->chunk.first_key == first_key && TakeAhead(first_key, last_key, version)) {
      return Status::Ok();
    }
    for (int i = 0; i < Follower::kReadTries || !context_->log.follows(); ++i) {
      Clear();
      uint32_t record_count = 0;
      ENGINE_RACE_RETURN_IF_ERROR(Reserve(max_records, /*may_allocate=*/true, &record_count));
      Build(first_key, last_key, version, record_count, keep, at_hand_);
      Load(&at_hand_->chunk);
      if (!at_hand_->chunk.stale()) return Status::Ok();
      // A shorter reading takes less time, so fewer slots are used again meanwhile.
      max_records = std::max(max_records / 4, 1U);
    }
    Clear();
    return BucketLog::Outrun();
  } catch (const std::bad_alloc&) {
    return Status::OutOfMemory("scan window");
  }
}

Status ChunkReader::Reserve(Reading* reading, uint32_t max_records, bool may_allocate,
                            uint32_t* record_count) {
  const BufferLayout& layout = context_->layout;
  ENGINE_RACE_RETURN_IF_ERROR(
      pool_->TakeWindows(layout.PositionsFor(max_records), may_allocate, &reading->windows));
  *record_count = std::min(max_records, layout.RecordsIn(reading->windows.position_count));
  return Status::Ok();
}

void ChunkReader::Build(uint64_t first_key, uint64_t last_key, uint64_t version,
                        uint32_t record_count, ChunkBuilder::Keep keep, Reading* reading) {
  Chunk& chunk = reading->chunk;
  Windows& windows = reading->windows;
  chunk.version = version;
  chunk.first_key = first_key;
  reading->last_key = last_key;
  chunk.entries.reserve(record_count);
  builder_.Collect(last_key, record_count, &chunk);
  if (record_count > context_->layout.window_records() && chunk.last_key < last_key) {
    EndAtBucket(record_count, &chunk);
  }
  do {
    TakeHot(reading);
    builder_.PlanReads(windows.position_count, &chunk);
  } while (builder_.CutToFit(windows.position_count, keep, &chunk));
  chunk.Place(context_->layout, windows.base, windows.buffers, context_->options.verify_checksums,
              &filler_);
  // Gives back the windows that gaps did not need.
  pool_->TrimWindows(chunk.plan.position_count, &windows);
}

// The slots of a few keys lie all over their bucket. So a bucket that does not fit is left to the
// next chunk, unless this one would be less than half full then.
void ChunkReader::EndAtBucket(uint32_t record_count, Chunk* chunk) {
  if (chunk->segments.empty()) return;
  const Segment last = chunk->segments.back();
  const Geometry& geometry = context_->log.geometry();
  if (!chunk->collect_status.ok() || chunk->last_key >= geometry.LastKeyOf(last.bucket) ||
      last.first_entry < record_count / 2) {
    return;
  }
  chunk->entries.resize(last.first_entry);
  chunk->segments.pop_back();
  chunk->last_key = geometry.FirstKeyOf(last.bucket) - 1;
}

void ChunkReader::TakeHot(Reading* reading) {
  if (context_->frames == nullptr) return;
  const BufferLayout& layout = context_->layout;
  Chunk& chunk = reading->chunk;
  LoadPlan& plan = chunk.plan;
  plan.positions.resize(chunk.entries.size(), kNoPosition);
  context_->frames->TakeHot(chunk.entries, chunk.version, [&](size_t entry, const char* value) {
    const uint32_t position = plan.TakeSlot(layout);
    std::memcpy(reading->windows.At(layout, position), value, layout.value_bytes());
    plan.positions[entry] = position | kVerifiedPosition;
  });
}

void ChunkReader::Load(Chunk* chunk) {
  ChunkLoader* const loader =
      chunk->reads_left < kMinOverlapped ? nullptr : pool_->TakeLoader(/*ahead=*/false);
  if (loader != nullptr && BeginReads(loader, chunk)) {
    FinishReads(loader, chunk);
  } else {
    ChunkLoader::ReadBlocking(context_, chunk);
  }
  if (loader != nullptr) pool_->GiveLoader(loader);
  MakeReady(chunk);
}

void ChunkReader::MakeReady(Chunk* chunk) {
  chunk->NoteReuse(*context_);
  chunk->SetReady();
  if (chunk->version != kLatestVersion && !context_->log.follows()) return;
  // No view keeps these slots from being used again: the values are copied and verified at once.
  for (uint32_t i = 0; i < chunk->entries.size() && !chunk->stale(); i += chunk->batch_records()) {
    chunk->Prepare(*context_, i);
  }
}

bool ChunkReader::BeginReads(ChunkLoader* loader, Chunk* chunk) noexcept {
  const Status status = Guarded([&] {
    // Now, so that nothing is thrown while reads are in flight.
    loaded_.reserve(1);
    loader->Add(chunk);
    return Status::Ok();
  });
  if (status.ok()) loader->Submit();
  return status.ok();
}

void ChunkReader::FinishReads(ChunkLoader* loader, Chunk* chunk) {
  while (chunk->reads_left > 0) {
    loader->Submit();
    loader->Reap(/*poll=*/false, &loaded_);
  }
  loaded_.clear();
}

void ChunkReader::KeepReading() {
  if (ahead_loader_ == nullptr) return;
  ahead_loader_->Reap(/*poll=*/true, &loaded_);
  loaded_.clear();
  ahead_loader_->Submit();
  if (ahead_->chunk.reads_left == 0) pool_->GiveLoader(std::exchange(ahead_loader_, nullptr));
}

void ChunkReader::ReadAhead(uint32_t max_records) noexcept {
  ENGINE_RACE_ASSERT(at_hand_->chunk.version != kLatestVersion);
  if (has_ahead_ || complete() || !at_hand_->chunk.collect_status.ok()) return;
  ahead_loader_ = pool_->TakeLoader(/*ahead=*/true);
  if (ahead_loader_ == nullptr) return;
  Chunk& chunk = ahead_->chunk;
  chunk.Recycle();
  (void)Guarded([&] {
    uint32_t record_count = 0;
    ENGINE_RACE_RETURN_IF_ERROR(
        Reserve(ahead_, max_records, /*may_allocate=*/false, &record_count));
    if (record_count < context_->layout.window_records()) return Status::Ok();
    Build(next_key(), at_hand_->last_key, at_hand_->chunk.version, record_count,
          ChunkBuilder::Keep::kFirst, ahead_);
    has_ahead_ = chunk.reads_left == 0 || BeginReads(ahead_loader_, &chunk);
    return Status::Ok();
  });
  if (!has_ahead_) pool_->GiveWindows(&ahead_->windows);
  if (!has_ahead_ || chunk.reads_left == 0) {
    pool_->GiveLoader(std::exchange(ahead_loader_, nullptr));
  }
}

void ChunkReader::EndAhead() {
  if (ahead_loader_ != nullptr) {
    FinishReads(ahead_loader_, &ahead_->chunk);
    pool_->GiveLoader(std::exchange(ahead_loader_, nullptr));
  }
  has_ahead_ = false;
}

void ChunkReader::DropAhead() {
  if (ahead_loader_ != nullptr) ahead_loader_->Drop(&ahead_->chunk);
  EndAhead();
  if (!ahead_->windows.buffers.empty()) pool_->GiveWindows(&ahead_->windows);
}

bool ChunkReader::TakeAhead(uint64_t key, uint64_t last_key, uint64_t version) {
  if (!has_ahead_) return false;
  const Chunk& chunk = ahead_->chunk;
  if (key < chunk.first_key || key > chunk.last_key || ahead_->last_key != last_key ||
      chunk.version != version) {
    DropAhead();
    return false;
  }
  EndAhead();
  // What failed is tried again by a reading of its own.
  if (chunk.read_failed || !chunk.collect_status.ok()) return false;
  std::swap(at_hand_, ahead_);
  MakeReady(&at_hand_->chunk);
  return !at_hand_->chunk.stale();
}

bool ChunkReader::Find(uint64_t key, uint32_t* entry) const {
  const Chunk& chunk = at_hand_->chunk;
  *entry = chunk.LowerBound(key);
  return *entry < chunk.entries.size() && chunk.entries[*entry].key == key;
}

Status ChunkReader::Value(uint32_t entry, const char** value) {
  Chunk& chunk = at_hand_->chunk;
  ENGINE_RACE_ASSERT(entry < record_count());
  chunk.Prepare(*context_, entry);
  *value = chunk.Value(entry);
  if (entry % chunk.batch_records() == 0) KeepReading();
  return *value != nullptr ? Status::Ok() : chunk.ErrorOf(*context_, entry);
}

}  // namespace engine_race
