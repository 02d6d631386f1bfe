#include "engine_race/scan/chunk_builder.h"

#include <algorithm>
#include <cstring>

namespace engine_race {

namespace {

// Smaller buckets are put together up to so many records, as long as memory holds sixteen such
// chunks: to wake a scan for each chunk takes as long as hundreds of visits.
constexpr uint32_t kGoodRecords = 1024;
constexpr uint32_t kMinRecords = 256;
// A piece of a bucket too large to be held whole.
constexpr uint32_t kMaxPieceRecords = 64 * 1024 * 1024 / kValueBytes;

}  // namespace

ChunkBuilder::Piece ChunkBuilder::ChoosePiece(const Request& request) const {
  const Geometry& geometry = context_->log.geometry();
  const uint32_t bucket = geometry.BucketOf(request.key);
  const uint64_t bucket_first = geometry.FirstKeyOf(bucket);
  const uint64_t bucket_last = geometry.LastKeyOf(bucket);
  const uint32_t available = request.available_blocks * ChunkCache::kBlockPlaces;
  const uint32_t whole_places = std::max(available / 2, ChunkCache::kBlockPlaces);
  const uint64_t in_bucket = context_->index.EstimateCount(bucket, bucket_first, bucket_last);
  Piece piece;
  piece.first_key = request.key;
  piece.last_key = std::min({bucket_last, request.last_wanted, request.high});
  // An estimate may be short by a little.
  if (in_bucket <= whole_places - whole_places / 16) {
    piece.max_records = piece.max_places = whole_places;
    const bool alone = request.low <= bucket_first && request.high >= bucket_last;
    const uint64_t wanted = context_->index.EstimateCount(bucket, piece.first_key, piece.last_key);
    if (alone && wanted >= in_bucket / 2) {
      piece.first_key = bucket_first;
      piece.last_key = bucket_last;
    }
    return piece;
  }
  piece.max_records = std::clamp(available / 8, kMinRecords, kMaxPieceRecords);
  piece.max_records = std::min(piece.max_records, whole_places);
  piece.max_places = std::min(2 * piece.max_records, whole_places);
  return piece;
}

bool ChunkBuilder::CollectBucket(uint32_t bucket, uint64_t first_key, uint64_t last_key,
                                 size_t max_entries, Chunk* chunk) {
  const size_t before = chunk->entries.size();
  chunk->segments.push_back({bucket, static_cast<uint32_t>(before)});
  bool complete = false;
  const Status status =
      context_->index.Collect(bucket, first_key, last_key, max_entries, &chunk->entries, &complete);
  if (!status.ok()) {
    chunk->entries.resize(before);
    chunk->collect_status = status;
    chunk->error_key = first_key;
    chunk->last_key = last_key;
    return false;
  }
  chunk->last_key = complete ? last_key : chunk->entries.back().key;
  return complete;
}

void ChunkBuilder::Build(const Request& request, Chunk* chunk) {
  const Geometry& geometry = context_->log.geometry();
  Piece piece = ChoosePiece(request);
  uint32_t bucket = geometry.BucketOf(request.key);
  chunk->first_key = piece.first_key;
  // Before the index is asked: all that was acknowledged before this ticket will be in.
  chunk->cut = context_->ticket.load();
  bool complete = CollectBucket(bucket, piece.first_key, piece.last_key, piece.max_records, chunk);
  if (chunk->last_key < request.key) {
    // The bucket was larger than estimated and the collection ended too early.
    piece.first_key = chunk->first_key = request.key;
    chunk->entries.clear();
    chunk->segments.clear();
    complete = CollectBucket(bucket, piece.first_key, piece.last_key, piece.max_records, chunk);
  }
  const uint64_t end = std::min(request.last_wanted, request.high);
  const uint32_t good_records = std::clamp(request.available_blocks * ChunkCache::kBlockPlaces / 16,
                                           kMinRecords, kGoodRecords);
  while (complete && chunk->last_key < end) {
    ++bucket;
    const uint64_t first_key = geometry.FirstKeyOf(bucket);
    const uint64_t last_key = std::min(geometry.LastKeyOf(bucket), end);
    const uint64_t more = context_->index.EstimateCount(bucket, first_key, last_key);
    if (more + chunk->entries.size() > good_records) break;
    const size_t max_entries = std::min(2 * good_records, piece.max_records);
    if (chunk->entries.size() >= max_entries) break;
    complete = CollectBucket(bucket, first_key, last_key, max_entries, chunk);
  }
  for (size_t i = 0; i < chunk->segments.size(); ++i) {
    const uint32_t first = chunk->segments[i].first_entry;
    const uint32_t after = i + 1 < chunk->segments.size()
                               ? chunk->segments[i + 1].first_entry
                               : static_cast<uint32_t>(chunk->entries.size());
    // What is not planned yet keeps its room.
    const uint32_t taken =
        chunk->plan.place_count + static_cast<uint32_t>(chunk->entries.size()) - first;
    const uint32_t spare = piece.max_places > taken ? piece.max_places - taken : 0;
    const uint32_t of_bucket = chunk->segments[i].bucket;
    planner_.Add(of_bucket, std::span(chunk->entries).subspan(first, after - first),
                 context_->log.FlushedValueCount(of_bucket), spare, &chunk->plan);
  }
}

bool ChunkBuilder::StillTrue(const Chunk& chunk) {
  const Geometry& geometry = context_->log.geometry();
  again_.clear();
  const size_t count = chunk.entries.size();
  for (const Segment& segment : chunk.segments) {
    const uint64_t first_key = std::max(chunk.first_key, geometry.FirstKeyOf(segment.bucket));
    const uint64_t last_key = std::min(chunk.last_key, geometry.LastKeyOf(segment.bucket));
    bool complete = false;
    const Status status =
        context_->index.Collect(segment.bucket, first_key, last_key, count + 1, &again_, &complete);
    if (!status.ok() || !complete || again_.size() > count) return false;
  }
  static_assert(sizeof(IndexEntry) == 16, "no padding that could differ");
  return again_.size() == count && (count == 0 || std::memcmp(again_.data(), chunk.entries.data(),
                                                              count * sizeof(IndexEntry)) == 0);
}

}  // namespace engine_race
