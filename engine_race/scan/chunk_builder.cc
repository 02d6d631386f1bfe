#include "engine_race/scan/chunk_builder.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "engine_race/base/assert.h"
#include "engine_race/base/round_up.h"

namespace engine_race {

namespace {

// Smaller buckets are put together up to this much, as long as that is a quarter of what a chunk
// may hold. Waking a scan for each chunk takes as long as hundreds of visits.
constexpr uint64_t kGoodBytes = 4 * 1024 * 1024;
constexpr uint64_t kMinBytes = 1024 * 1024;
constexpr uint64_t kGoodRecords = 64 * 1024;
// A piece of a bucket too large to be held whole.
constexpr uint64_t kMaxPieceBytes = 64 * 1024 * 1024;
// A piece where each value is a long read by itself, so that a larger one is not read faster. It is
// ready sooner, and the next ones find its memory again.
constexpr uint64_t kLongValueBytes = 128 * 1024;
constexpr uint64_t kLongValuesPieceBytes = 16 * 1024 * 1024;

// Staged values of a bucket. Fewer are read one by one as fast.
constexpr size_t kFetchedTogether = 4;

// Gaps that are read along take no more than the values.
constexpr uint64_t kMaxGapFactor = 2;

}  // namespace

uint64_t ChunkBuilder::EstimatePositions(uint32_t bucket, uint64_t record_count) const {
  const BufferLayout& layout = context_->layout;
  const uint64_t alone = record_count * layout.read_positions();
  if (layout.read_positions() == layout.slot_positions()) return alone;
  // Blocks of several values are read once. Some room is lost where a buffer ends.
  const uint64_t all = layout.PositionsIn(layout.SlotOffset(context_->log.SlotEnd(bucket)));
  return std::min(alone, RoundUp(all, layout.block_positions()) +
                             all / layout.buffer_positions() * layout.read_positions());
}

ChunkBuilder::Outline ChunkBuilder::Plan(const Request& request) const {
  const Geometry& geometry = context_->log.geometry();
  uint32_t bucket = geometry.BucketOf(request.key);
  const uint64_t bucket_first = geometry.FirstKeyOf(bucket);
  const uint64_t bucket_last = geometry.LastKeyOf(bucket);
  const uint64_t end = std::min(request.last_wanted, request.high);
  const BufferLayout& layout = context_->layout;
  const uint32_t max_positions = request.max_buffers * layout.buffer_positions();
  const uint64_t in_bucket = context_->index.EstimateCount(bucket, bucket_first, bucket_last);
  const uint64_t bucket_positions = EstimatePositions(bucket, in_bucket);
  Outline outline;
  outline.first_key = request.key;
  outline.last_key = std::min(bucket_last, end);
  outline.max_records = layout.MostRecords(max_positions);
  outline.max_positions = max_positions;
  uint64_t count = context_->index.EstimateCount(bucket, request.key, outline.last_key);
  uint64_t positions = EstimatePositions(bucket, count);
  // A long value is a read by itself, and no gap is read along.
  const bool has_long_values = layout.value_bytes() >= kLongValueBytes;
  const uint32_t gap_factor = has_long_values ? 1 : kMaxGapFactor;
  const uint64_t piece_positions = std::min<uint64_t>(
      max_positions / gap_factor,
      layout.PositionsIn(has_long_values ? kLongValuesPieceBytes : kMaxPieceBytes));
  // An estimate may be short by a little.
  const uint64_t whole_positions =
      has_long_values ? piece_positions : max_positions - max_positions / 16;
  if ((has_long_values ? positions : bucket_positions) > whole_positions) {
    outline.max_records = std::max(layout.MostRecords(piece_positions), 1U);
    outline.max_positions = static_cast<uint32_t>(gap_factor * piece_positions);
    outline.buffer_count = layout.BuffersFor(outline.max_positions);
    return outline;
  }
  const bool alone = request.low <= bucket_first && request.high >= bucket_last;
  if (alone && count >= in_bucket / 2 && bucket_positions <= whole_positions) {
    count = in_bucket;
    positions = bucket_positions;
    outline.first_key = bucket_first;
    outline.last_key = bucket_last;
  }
  const uint64_t good_positions = std::min<uint64_t>(
      max_positions, std::clamp<uint64_t>(max_positions / 4, layout.PositionsIn(kMinBytes),
                                          layout.PositionsIn(kGoodBytes)));
  while (outline.last_key < end) {
    bucket = context_->index.NextHeld(bucket + 1);
    if (bucket > geometry.BucketOf(end)) {
      outline.last_key = end;
      break;
    }
    const uint64_t first_key = geometry.FirstKeyOf(bucket);
    const uint64_t last_key = std::min(geometry.LastKeyOf(bucket), end);
    const uint64_t more = context_->index.EstimateCount(bucket, first_key, last_key);
    const uint64_t more_positions = EstimatePositions(bucket, more);
    if (positions + more_positions > good_positions || count + more > kGoodRecords) break;
    count += more;
    positions += more_positions;
    outline.last_key = last_key;
  }
  outline.max_positions =
      static_cast<uint32_t>(std::min<uint64_t>(max_positions, kMaxGapFactor * positions));
  outline.buffer_count = layout.BuffersFor(positions);
  return outline;
}

bool ChunkBuilder::CollectBucket(uint32_t bucket, uint64_t first_key, uint64_t last_key,
                                 size_t max_records, Chunk* chunk) {
  const size_t before = chunk->entries.size();
  chunk->segments.push_back({bucket, static_cast<uint32_t>(before),
                             context_->log.ReuseCount(bucket), context_->log.RecordCount(bucket)});
  bool complete = false;
  const Status status =
      context_->index.Collect(bucket, first_key, last_key, max_records, &chunk->entries, &complete,
                              chunk->version, slices());
  if (!status.ok()) {
    chunk->entries.resize(before);
    chunk->collect_status = status;
    chunk->error_key = first_key;
    chunk->last_key = last_key;
    return false;
  }
  if (chunk->entries.size() == before) chunk->segments.pop_back();
  chunk->last_key = complete ? last_key : chunk->entries.back().key;
  return complete;
}

void ChunkBuilder::Collect(uint64_t last_key, uint32_t max_records, Chunk* chunk) {
  const Geometry& geometry = context_->log.geometry();
  const uint32_t last_bucket = geometry.BucketOf(last_key);
  uint64_t first_key = chunk->first_key;
  while (true) {
    const uint32_t bucket = context_->index.NextHeld(geometry.BucketOf(first_key));
    if (bucket > last_bucket) {
      chunk->last_key = last_key;
      return;
    }
    first_key = std::max(first_key, geometry.FirstKeyOf(bucket));
    const uint64_t last_in_bucket = std::min(last_key, geometry.LastKeyOf(bucket));
    if (!CollectBucket(bucket, first_key, last_in_bucket, max_records, chunk)) return;
    if (last_in_bucket == last_key || chunk->entries.size() >= max_records) return;
    first_key = last_in_bucket + 1;
  }
}

void ChunkBuilder::Build(const Request& request, const Outline& outline, Chunk* chunk) {
  ENGINE_RACE_ASSERT(request.low <= outline.first_key && outline.last_key <= request.high);
  ENGINE_RACE_ASSERT(outline.first_key <= request.key && request.key <= outline.last_key);
  chunk->first_key = outline.first_key;
  // Before the index is asked, so that its answer holds all that was acknowledged before this
  // ticket.
  chunk->cut = context_->ticket.load();
  Collect(outline.last_key, outline.max_records, chunk);
  const uint32_t max_positions = request.max_buffers * context_->layout.buffer_positions();
  do {
    if (chunk->last_key < request.key) {
      // The bucket was larger than estimated and the collection ended too early.
      chunk->first_key = request.key;
      chunk->entries.clear();
      chunk->segments.clear();
      Collect(outline.last_key, outline.max_records, chunk);
    }
    PlanReads(outline.max_positions, chunk);
  } while (CutToFit(max_positions, Keep::kFirst, chunk));
  ENGINE_RACE_ASSERT(chunk->first_key <= request.key && request.key <= chunk->last_key);
}

void ChunkBuilder::PlanReads(uint32_t max_positions, Chunk* chunk) {
  size_t left = chunk->entries.size();
  for (size_t i = 0; i < chunk->segments.size(); ++i) {
    const uint32_t bucket = chunk->segments[i].bucket;
    const std::span<const IndexEntry> entries = chunk->EntriesOf(i);
    // Entries that are not planned yet keep their room.
    left -= entries.size();
    const size_t staged_count = planner_.Add(bucket, entries, context_->log.Logged(bucket),
                                             max_positions, left, &chunk->plan);
    if (staged_count >= kFetchedTogether)
      context_->log.reader().PrefetchStagedValues(bucket, staged_count);
  }
}

bool ChunkBuilder::CutToFit(uint32_t max_positions, Keep keep, Chunk* chunk) const {
  const uint64_t planned = chunk->plan.position_count;
  if (planned <= max_positions) return false;
  const uint64_t count = chunk->entries.size();
  // As many as fit in any case, or a few less than the plan has. Fewer records share fewer blocks.
  const uint64_t fewer = std::min(count * max_positions / planned, count - count / 8 - 1);
  const auto left =
      static_cast<uint32_t>(std::max<uint64_t>(fewer, context_->layout.SureRecords(max_positions)));
  ENGINE_RACE_ASSERT(0 < left && left < count);
  chunk->plan.Clear();
  if (keep == Keep::kFirst) {
    chunk->KeepFirst(left);
  } else {
    chunk->KeepLast(left);
  }
  return true;
}

void ChunkBuilder::ReadAhead(uint64_t first_key, uint64_t last_key) noexcept {
  if (ahead_ != nullptr) context_->index.ReadAhead(first_key, last_key, &ahead_->runs);
}

bool ChunkBuilder::StillTrue(const Chunk& chunk) {
  const Geometry& geometry = context_->log.geometry();
  const Index& index = context_->index;
  const uint32_t last_bucket = geometry.BucketOf(chunk.last_key);
  size_t segment = 0;
  // Also buckets that were empty when the chunk was built.
  for (uint32_t bucket = index.NextHeld(geometry.BucketOf(chunk.first_key)); bucket <= last_bucket;
       bucket = index.NextHeld(bucket + 1)) {
    std::span<const IndexEntry> entries;
    if (segment < chunk.segments.size() && chunk.segments[segment].bucket == bucket) {
      const uint64_t known_count = chunk.segments[segment].record_count;
      entries = chunk.EntriesOf(segment);
      ++segment;
      // The index has each record before RecordCount shows it. Another process may write what this
      // one does not count. A record that was moved has its value in the chunk.
      if (context_->log.RecordCount(bucket) == known_count && !context_->log.follows()) continue;
    }
    const uint64_t first_key = std::max(chunk.first_key, geometry.FirstKeyOf(bucket));
    const uint64_t last_key = std::min(chunk.last_key, geometry.LastKeyOf(bucket));
    bool complete = false;
    again_.clear();
    const Status status = index.Collect(bucket, first_key, last_key, entries.size() + 1, &again_,
                                        &complete, kLatestVersion, slices());
    static_assert(sizeof(IndexEntry) == 16, "no padding that could differ");
    if (!status.ok() || again_.size() != entries.size() ||
        (!entries.empty() &&
         std::memcmp(again_.data(), entries.data(), entries.size_bytes()) != 0)) {
      return false;
    }
  }
  return segment == chunk.segments.size();
}

}  // namespace engine_race
