// Decides what the next shared chunk holds, asks the index for it and plans its reads. Scans for
// themselves and the walks of copies use single steps.
//
// Belongs to one thread. The coordinator calls it without its mutex.
#ifndef ENGINE_RACE_SCAN_CHUNK_BUILDER_H_
#define ENGINE_RACE_SCAN_CHUNK_BUILDER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "engine_race/index/run_slices.h"
#include "engine_race/index/runs_ahead.h"
#include "engine_race/scan/chunk.h"
#include "engine_race/scan/load_plan.h"
#include "engine_race/scan/scan_context.h"

namespace engine_race {

class ChunkBuilder {
 public:
  explicit ChunkBuilder(ScanContext* context) : context_(context), planner_(context->layout) {}
  // Reads paged runs of the index ahead of the chunks, into so much memory.
  ChunkBuilder(ScanContext* context, uint32_t runs_ahead_bytes)
      : context_(context),
        planner_(context->layout),
        ahead_(std::make_unique<Ahead>(runs_ahead_bytes, context->options.io_backend,
                                       context->log.failed_backends())) {}

  struct Request {
    // The chunk must hold this key,
    uint64_t key = 0;
    // need not go beyond this one,
    uint64_t last_wanted = 0;
    // and must stay in [low, high], where no other chunk is.
    uint64_t low = 0;
    uint64_t high = 0;
    // The memory for it.
    uint32_t max_buffers = 0;
  };

  // The intended content of a chunk.
  struct Outline {
    uint64_t first_key = 0;
    uint64_t last_key = 0;
    uint32_t max_records = 0;
    // Gaps between slots are read along only up to so many.
    uint32_t max_positions = 0;
    // About how many buffers it will take.
    uint32_t buffer_count = 0;
  };

  // Asks the index only how much there is.
  Outline Plan(const Request& request) const;

  // Fills an empty chunk of the latest state; its buffers are not taken yet. std::bad_alloc leaves
  // it recyclable.
  void Build(const Request& request, const Outline& outline, Chunk* chunk);

  // Collects the first records with keys in [chunk->first_key, last_key] at chunk->version, at most
  // `max_records`. Sets chunk->last_key. An error of the index goes to collect_status.
  // std::bad_alloc.
  void Collect(uint64_t last_key, uint32_t max_records, Chunk* chunk);
  // Plans the reads of all values without a position, with gaps up to `max_positions` in all.
  void PlanReads(uint32_t max_positions, Chunk* chunk);
  // Of small values, only the plan says how many fit. If it takes more than `max_positions`, drops
  // the plan and the last records, or the first ones, and returns true. The rest is to be planned
  // again, until the values fit. There is room for one value.
  enum class Keep { kFirst, kLast };
  bool CutToFit(uint32_t max_positions, Keep keep, Chunk* chunk) const;

  // Has the index begin to read what the chunks of these keys will be built from.
  void ReadAhead(uint64_t first_key, uint64_t last_key) noexcept;

  uint64_t memory_bytes() const { return ahead_ == nullptr ? 0 : ahead_->runs.memory_bytes(); }

  // Asks the index again; true when it answers as it did for `chunk`.
  bool StillTrue(const Chunk& chunk);

 private:
  struct Ahead {
    Ahead(uint32_t memory_bytes, IoBackend backend, io::FailedBackends* failed)
        : runs(memory_bytes, backend, failed) {}
    RunsAhead runs;
    RunSlices slices{&runs};
  };

  RunSlices* slices() const { return ahead_ == nullptr ? nullptr : &ahead_->slices; }
  // Collects [first_key, last_key] of `bucket`; false when the chunk ends before last_key.
  bool CollectBucket(uint32_t bucket, uint64_t first_key, uint64_t last_key, size_t max_records,
                     Chunk* chunk);
  // About how many positions the values of so many records of a bucket take.
  uint64_t EstimatePositions(uint32_t bucket, uint64_t record_count) const;

  ScanContext* const context_;
  LoadPlanner planner_;
  const std::unique_ptr<Ahead> ahead_;  // may be null
  std::vector<IndexEntry> again_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_SCAN_CHUNK_BUILDER_H_
