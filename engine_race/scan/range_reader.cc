#include "engine_race/scan/range_reader.h"

#include <algorithm>

#include "engine_race/base/assert.h"
#include "engine_race/base/guarded.h"
#include "engine_race/scan/chunk.h"
#include "engine_race/scan/chunk_reader.h"
#include "engine_race/scan/coordinator.h"
#include "engine_race/scan/scan_context.h"
#include "engine_race/scan/window_pool.h"

namespace engine_race {

namespace {

// A scan of about this much or less reads for itself, if memory for it is free. With small values
// it has no more than kMostShortRecords.
constexpr uint32_t kShortBytes = 1024 * 1024;
constexpr uint32_t kLeastShortRecords = 4;
constexpr uint32_t kMostShortRecords = 256;
uint32_t ShortRecords(const BufferLayout& layout) {
  return std::clamp(kShortBytes / layout.slot_bytes(), kLeastShortRecords, kMostShortRecords);
}
// The only scan that shares chunks reads its first records for itself, so that a visitor that
// ends it soon waits for no chunk. The first reading has one record, each later one so many times
// as many.
constexpr uint32_t kFirstReadingsGrowth = 4;

// How the buffer budget is divided.
constexpr uint64_t kMinBudgetBytes = 8 * 1024 * 1024;
constexpr uint64_t kWindowFraction = 32;
constexpr uint64_t kMaxWindows = 64;

uint64_t WindowCount(uint64_t budget_bytes, const BufferLayout& layout) {
  // Iterators take at most half of them.
  return std::clamp<uint64_t>(budget_bytes / kWindowFraction / layout.buffer_bytes(), 2,
                              kMaxWindows);
}

// The state of one Scan. Its destructor releases everything, however the scan ends.
class Session {
 public:
  Session(ScanContext* context, Coordinator* coordinator, WindowPool* window_pool,
          uint64_t first_key, uint64_t last_key, uint64_t begin)
      : context_(context),
        coordinator_(coordinator),
        own_(context, window_pool),
        scanner_(first_key, last_key, begin),
        visited_(context) {}
  ~Session() {
    if (!shared_) return;
    coordinator_->Leave(&scanner_);
    // Relaxed: a hint.
    context_->shared_scan_count.fetch_sub(1, std::memory_order_relaxed);
  }

  Status ScanShared(const RecordFn& visit);
  // In readings of `record_count`.
  Status ScanAlone(const RecordFn& visit, uint32_t record_count);
  // Takes memory for a reading of `record_count`, if it is free.
  Status Reserve(uint32_t record_count, bool* has_room);

 private:
  // Each visits some records and moves pos_ behind them, or sets done_.
  Status VisitChunk(Chunk* chunk, const RecordFn& visit);
  Status VisitOwn(const RecordFn& visit, uint32_t max_records);

  // All up to this key has been visited.
  void MoveTo(uint64_t key) {
    ENGINE_RACE_ASSERT(key >= pos_);
    done_ = key >= scanner_.last;
    pos_ = done_ ? key : key + 1;
  }

  ScanContext* const context_;
  Coordinator* const coordinator_;
  const uint32_t value_bytes_ = context_->layout.value_bytes();
  const uint32_t window_records_ = context_->layout.window_records();
  ChunkReader own_;
  Scanner scanner_;
  VisitCounter visited_;
  uint64_t pos_ = scanner_.pos;
  bool shared_ = false;
  bool done_ = false;
};

Status Session::ScanAlone(const RecordFn& visit, uint32_t record_count) {
  while (!done_) ENGINE_RACE_RETURN_IF_ERROR(VisitOwn(visit, record_count));
  return Status::Ok();
}

Status Session::Reserve(uint32_t record_count, bool* has_room) {
  uint32_t reserved_count = 0;
  ENGINE_RACE_RETURN_IF_ERROR(own_.Reserve(record_count, /*may_allocate=*/false, &reserved_count));
  *has_room = reserved_count == record_count;
  return Status::Ok();
}

Status Session::ScanShared(const RecordFn& visit) {
  shared_ = true;
  // Relaxed: a hint.
  const bool is_only_shared =
      context_->shared_scan_count.fetch_add(1, std::memory_order_relaxed) == 0;
  if (is_only_shared && !coordinator_->Holds(pos_)) {
    for (uint32_t count = 1; !done_ && count <= window_records_; count *= kFirstReadingsGrowth) {
      ENGINE_RACE_RETURN_IF_ERROR(VisitOwn(visit, count));
    }
  }
  own_.GiveBack();
  // Chunks begin where the scan does, so that another pass finds them there.
  for (uint64_t wanted = scanner_.pos; !done_;) {
    Chunk* chunk = coordinator_->Next(&scanner_, wanted);
    if (chunk != nullptr && chunk->last_key < pos_) {
      wanted = chunk->last_key + 1;
      continue;
    }
    ENGINE_RACE_RETURN_IF_ERROR(chunk != nullptr ? VisitChunk(chunk, visit)
                                                 : VisitOwn(visit, window_records_));
    wanted = pos_;
  }
  return Status::Ok();
}

Status Session::VisitChunk(Chunk* chunk, const RecordFn& visit) {
  chunk->WaitUntilReady();
  if (chunk->stale()) [[unlikely]] {
    coordinator_->Condemn(&scanner_);
    return VisitOwn(visit, window_records_);
  }
  const uint64_t last = scanner_.last;
  const uint32_t end = last >= chunk->last_key ? static_cast<uint32_t>(chunk->entries.size())
                                               : chunk->LowerBound(last + 1);
  bool recalled = false;
  const uint32_t at = chunk->VisitEntries(
      *context_, chunk->LowerBound(pos_), end, [&](uint64_t key, const char* value) {
        visited_.CountOne();
        VisitRecord(key, value, value_bytes_, visit);
        // Relaxed: to be seen some time; what goes with it is under the coordinator's mutex.
        recalled = chunk->recalled.load(std::memory_order_relaxed);
        return !recalled;
      });
  if (at < end) [[unlikely]] {
    pos_ = chunk->entries[at].key;
    if (recalled) return Status::Ok();
    coordinator_->Condemn(&scanner_);
    return chunk->stale() ? VisitOwn(visit, window_records_) : chunk->ErrorOf(*context_, at);
  }
  if (!chunk->collect_status.ok() && chunk->error_key <= last) return chunk->collect_status;
  MoveTo(chunk->last_key);
  return Status::Ok();
}

Status Session::VisitOwn(const RecordFn& visit, uint32_t max_records) {
  ENGINE_RACE_RETURN_IF_ERROR(own_.Read(pos_, scanner_.last, kLatestVersion, max_records));
  ENGINE_RACE_RETURN_IF_ERROR(own_.VisitAll([&](uint64_t key, const char* value) {
    visited_.CountOne();
    VisitRecord(key, value, value_bytes_, visit);
  }));
  done_ = own_.complete();
  pos_ = own_.next_key();
  return Status::Ok();
}

}  // namespace

struct RangeReader::Impl {
  Impl(const BucketLog& log, const Index& index, const Options& options, uint64_t budget_bytes,
       const RangeTuning& tuning, MemoryShare* share, ValueFrames* frames)
      : context(log, index, options, tuning, frames),
        coordinator(&context, budget_bytes - WindowBytes(budget_bytes, log.geometry().layout),
                    share),
        window_pool(&context, &coordinator,
                    static_cast<uint32_t>(WindowCount(budget_bytes, context.layout))) {}

  // How many records there are about, or short_records + 1 if there are more than short_records.
  uint32_t EstimateCount(uint64_t first_key, uint64_t last_key) const;

  ScanContext context;
  const uint32_t short_records = ShortRecords(context.layout);
  Coordinator coordinator;
  WindowPool window_pool;
};

uint32_t RangeReader::Impl::EstimateCount(uint64_t first_key, uint64_t last_key) const {
  const Geometry& geometry = context.log.geometry();
  const uint32_t last_bucket = geometry.BucketOf(last_key);
  uint64_t count = 0;
  const Index& index = context.index;
  for (uint32_t bucket = index.NextHeld(geometry.BucketOf(first_key)); bucket <= last_bucket;
       bucket = index.NextHeld(bucket + 1)) {
    count += index.EstimateCount(bucket, std::max(first_key, geometry.FirstKeyOf(bucket)),
                                 std::min(last_key, geometry.LastKeyOf(bucket)));
    if (count > short_records) return short_records + 1;
  }
  return static_cast<uint32_t>(count);
}

RangeReader::RangeReader(const BucketLog& log, const Index& index, const Options& options,
                         uint64_t buffer_budget_bytes, const RangeTuning& tuning,
                         MemoryShare* share, ValueFrames* frames)
    : impl_(std::make_unique<Impl>(log, index, options,
                                   std::max(buffer_budget_bytes, kMinBudgetBytes), tuning, share,
                                   frames)) {}

RangeReader::~RangeReader() = default;

uint64_t RangeReader::WindowBytes(uint64_t buffer_budget_bytes, const ValueLayout& values) {
  const BufferLayout layout(values);
  return WindowCount(buffer_budget_bytes, layout) * layout.buffer_bytes();
}

uint64_t RangeReader::UseCount() const noexcept { return impl_->coordinator.use_count(); }

void RangeReader::ShrinkTo(uint64_t bytes) noexcept { impl_->coordinator.ShrinkTo(bytes); }

Status RangeReader::Scan(uint64_t first_key, uint64_t last_key, const RecordFn& visit) {
  if (first_key > last_key) return Status::Ok();
  const uint64_t begin = ++impl_->context.ticket;
  Session session(&impl_->context, &impl_->coordinator, &impl_->window_pool, first_key, last_key,
                  begin);
  const uint32_t count = impl_->EstimateCount(first_key, last_key);
  // One window is enough, or some records more than the estimate take another reading.
  const uint32_t window_records = impl_->context.layout.window_records();
  bool is_alone = count <= window_records;
  if (!is_alone && count <= impl_->short_records) {
    ENGINE_RACE_RETURN_IF_ERROR(Guarded([&] { return session.Reserve(count, &is_alone); }));
  }
  if (!is_alone) is_alone = !impl_->coordinator.Start();
  return is_alone ? session.ScanAlone(visit, std::max(count, window_records))
                  : session.ScanShared(visit);
}

ScanContext* RangeReader::context() { return &impl_->context; }

WindowPool* RangeReader::window_pool() { return &impl_->window_pool; }

uint64_t RangeReader::memory_bytes() const {
  return impl_->window_pool.memory_bytes() + impl_->coordinator.memory_bytes();
}

uint64_t RangeReader::read_bytes() const { return impl_->context.read_bytes.load(); }

uint64_t RangeReader::visited_count() const {
  // Relaxed: a statistic.
  return impl_->context.visited_count.load(std::memory_order_relaxed);
}

uint64_t RangeReader::longest_wait_chunks() const {
  return impl_->coordinator.longest_wait_chunks();
}

}  // namespace engine_race
