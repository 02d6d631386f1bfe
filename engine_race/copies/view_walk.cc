#include "engine_race/copies/view_walk.h"

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "engine_race/base/assert.h"
#include "engine_race/base/memory.h"
#include "engine_race/base/parallel.h"
#include "engine_race/base/shared_progress.h"
#include "engine_race/copies/value_hashes.h"
#include "engine_race/log/parallel_work.h"
#include "engine_race/scan/chunk.h"
#include "engine_race/scan/chunk_builder.h"
#include "engine_race/scan/chunk_loader.h"
#include "engine_race/scan/scan_context.h"

namespace engine_race {
namespace {

// More threads than CPUs: each waits for its reads and writes.
constexpr uint32_t kThreads = 8;
constexpr uint64_t kMinBatchBytes = 256 * 1024;
constexpr uint64_t kMaxBatchRecords = 16 * 1024;
// Of the memory for values, one part is for them, and the others for gaps that reads take along.
constexpr uint32_t kMemoryParts = 2;
// Values in memory, of all threads together.
constexpr uint64_t kMaxMemoryBytes = uint64_t{64} << 20;
constexpr uint64_t kMemoryFraction = 16;  // of the store's budget, at most

// What the threads of a walk share.
struct SharedWalk {
  SharedWalk(const BucketLog& log, const Index& index, const Options& options, uint64_t the_version,
             const ProgressFn& on_progress)
      : context(log, index, options),
        version(the_version),
        progress(on_progress, log.RecordCount()) {
    const uint64_t memory_bytes =
        std::min(kMaxMemoryBytes, options.memory_budget_bytes / kMemoryFraction);
    const uint64_t fitting_bytes = memory_bytes / kThreads / kMemoryParts;
    const BufferLayout& layout = context.layout;
    batch_records = static_cast<uint32_t>(std::clamp<uint64_t>(
        std::max(fitting_bytes, kMinBatchBytes) / layout.slot_bytes(), 1, kMaxBatchRecords));
    // For at least one value. A batch of small values that lie far apart is cut.
    max_positions = static_cast<uint32_t>(layout.PositionsIn(
        kMemoryParts * std::max<uint64_t>({fitting_bytes, kMinBatchBytes, layout.read_bytes()})));
  }

  ScanContext context;
  const uint64_t version;
  uint32_t batch_records = 0;
  // The values of a batch take no more.
  uint32_t max_positions = 0;
  std::atomic<bool> failed{false};
  SharedProgress progress;
};

class BucketWalker {
 public:
  BucketWalker(SharedWalk* shared, ViewSink* sink)
      : shared_(*shared),
        log_(shared->context.log),
        sink_(*sink),
        builder_(&shared->context),
        hashes_(log_) {}

  Status Init() {
    const BufferLayout& layout = shared_.context.layout;
    const uint32_t buffer_count = layout.BuffersFor(shared_.max_positions);
    for (uint32_t i = 0; i < buffer_count; ++i) buffers_.push_back(i);
    entries_.reserve(shared_.batch_records);
    ENGINE_RACE_RETURN_IF_ERROR(hashes_.Init());
    return Region::Allocate(uint64_t{buffer_count} * layout.buffer_bytes(), false, &values_);
  }

  Status Walk(uint32_t bucket) {
    const KeyRange keys = log_.geometry().KeysOf(bucket);
    uint64_t next_key = keys.first;
    bool has_begun = false;
    for (bool complete = keys.empty(); !complete;) {
      // Another thread's failure is the one to tell.
      if (shared_.failed.load()) return Status::Ok();
      entries_.clear();
      ENGINE_RACE_RETURN_IF_ERROR(shared_.context.index.Collect(bucket, next_key, keys.last,
                                                                shared_.batch_records, &entries_,
                                                                &complete, shared_.version));
      // From here on the index has the bucket: the view shows no row that comes later.
      if (!std::exchange(has_begun, true)) ENGINE_RACE_RETURN_IF_ERROR(hashes_.Begin(bucket));
      ENGINE_RACE_RETURN_IF_ERROR(TakeBatch(bucket, &complete));
      if (!complete) {
        ENGINE_RACE_ASSERT(!entries_.empty());
        complete = entries_.back().key == keys.last;
        next_key = entries_.back().key + 1;
      }
    }
    return sink_.Finish(bucket);
  }

 private:
  // Takes the first of entries_ if the values of all do not fit. Then the bucket is not *complete.
  Status TakeBatch(uint32_t bucket, bool* complete) {
    wanted_.Recycle();
    wanted_.version = shared_.version;
    wanted_.entries = entries_;
    ENGINE_RACE_RETURN_IF_ERROR(hashes_.Read(sink_.FirstWanted(bucket), &wanted_.entries));
    wanted_.segments.push_back({bucket});
    builder_.PlanReads(shared_.max_positions, &wanted_);
    while (builder_.CutToFit(shared_.max_positions, ChunkBuilder::Keep::kFirst, &wanted_)) {
      *complete = false;
      while (entries_.back().key > wanted_.last_key) entries_.pop_back();
      builder_.PlanReads(shared_.max_positions, &wanted_);
    }
    wanted_.Place(shared_.context.layout, values_.data(), buffers_, /*verify=*/false);
    ChunkLoader::ReadBlocking(&shared_.context, &wanted_);
    wanted_.SetReady();
    uint32_t next_wanted = 0;
    for (const IndexEntry& entry : entries_) {
      const char* value = nullptr;
      uint64_t value_hash = 0;
      if (next_wanted < wanted_.entries.size() && wanted_.entries[next_wanted].key == entry.key) {
        value_hash = hashes_.hashes()[next_wanted];
        ENGINE_RACE_RETURN_IF_ERROR(Value(bucket, next_wanted++, value_hash, &value));
      }
      ENGINE_RACE_RETURN_IF_ERROR(sink_.Take(bucket, entry.key, value, value_hash));
    }
    return shared_.progress.Add(entries_.size());
  }

  // Always compared with its whole hash: a copy of damage would pass for a good record.
  Status Value(uint32_t bucket, uint32_t entry, uint64_t value_hash, const char** value) {
    wanted_.Prepare(shared_.context, entry);
    *value = wanted_.Value(entry);
    if (*value == nullptr) return wanted_.ErrorOf(shared_.context, entry);
    return HashValue(*value, shared_.context.layout.value_bytes()) == value_hash
               ? Status::Ok()
               : log_.reader().CorruptValue(bucket, wanted_.entries[entry].ref.slot());
  }

  SharedWalk& shared_;
  const BucketLog& log_;
  ViewSink& sink_;
  ChunkBuilder builder_;
  ValueHashes hashes_;
  std::vector<IndexEntry> entries_;
  Chunk wanted_;  // those of the entries whose values are wanted
  Region values_;
  std::vector<uint32_t> buffers_;  // of values_
};

}  // namespace

Status WalkView(const BucketLog& log, const Index& index, const Options& options, uint64_t version,
                const ProgressFn& on_progress, const MakeViewSinkFn& make_sink, bool* is_stale) {
  *is_stale = false;
  ENGINE_RACE_RETURN_IF_ERROR(log.CheckNoFailure());
  SharedWalk shared(log, index, options, version, on_progress);
  NumberQueue buckets(log.geometry().bucket_count);
  const uint32_t thread_count = std::min(kThreads, log.geometry().bucket_count);
  const auto work = [&](uint32_t) {
    std::unique_ptr<ViewSink> sink;
    Status walked = make_sink(&sink);
    if (walked.ok()) {
      BucketWalker walker(&shared, sink.get());
      walked = walker.Init();
      for (uint32_t bucket = 0; walked.ok() && buckets.Take(&bucket);) {
        walked = walker.Walk(bucket);
      }
    }
    if (!walked.ok()) shared.failed.store(true);
    return walked;
  };
  const Status walked = RunParallel("er-copy", thread_count, work, &shared.progress);
  *is_stale = walked.code() == Code::kIOError && index.HidesFrom(version);
  return walked.ok() ? log.CheckNoFailure() : walked;
}

}  // namespace engine_race
