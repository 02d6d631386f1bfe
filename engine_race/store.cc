#include "engine_race/store.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include "engine_race/base/guarded.h"
#include "engine_race/base/key.h"
#include "engine_race/base/memory.h"
#include "engine_race/hot/value_frames.h"
#include "engine_race/index/index.h"
#include "engine_race/io/backend_probe.h"
#include "engine_race/log/bucket_log.h"
#include "engine_race/memory_budget.h"
#include "engine_race/memory_shares.h"
#include "engine_race/scan/iterator_pool.h"
#include "engine_race/scan/key_range.h"
#include "engine_race/scan/range_reader.h"
#include "engine_race/task/point_reader.h"
#include "engine_race/task/read_pool.h"

namespace engine_race {

struct Store::Impl {
  // What the first read or range makes; in this order, for each works with those before it.
  struct Readers {
    Options options;  // with the back end that reads
    std::unique_ptr<Index> index;
    std::unique_ptr<MemoryBudget> budget;
    std::unique_ptr<MemoryShares> shares;
    std::unique_ptr<l1::ValueFrames> frames;  // null: no value is kept in memory
    std::unique_ptr<RangeReader> ranges;      // made by the first range
    std::unique_ptr<PointReader> points;
    std::unique_ptr<ReadPool> pool;
    std::unique_ptr<IteratorPool> iterators;
  };

  explicit Impl(const Options& o) : options(o) {}

  // The options of whatever reads: what works wherever values lie takes the place of what was asked
  // for.
  Status ChooseBackend(Options* reading) const {
    return log->VisitProbeFiles([reading](const io::File& file) {
      io::ReadBackend chosen;
      ENGINE_RACE_RETURN_IF_ERROR(io::ProbeReadBackend(*reading, file, &chosen));
      reading->io_backend = chosen.backend;
      reading->io_uring_iopoll = chosen.iopoll;
      reading->io_uring_sqpoll = chosen.sqpoll;
      return Status::Ok();
    });
  }

  // The readers are told of appends and read from the log: they go first.
  ~Impl() {
    readers.reset();
    log.reset();
  }

  void FinishReads() {
    if (readers != nullptr) readers->pool->Close();
  }

  // Builds the readers once; after a failure the next call tries again.
  Status EnsureReaders(Readers** out) {
    // Acquire pairs with the release below: the readers are whole.
    *out = ready.load(std::memory_order_acquire);
    if (*out != nullptr) [[likely]] {
      return Status::Ok();
    }
    const std::lock_guard<std::mutex> lock(build_mutex);
    if (readers == nullptr) {
      auto built = std::make_unique<Readers>();
      built->options = options;
      ENGINE_RACE_RETURN_IF_ERROR(ChooseBackend(&built->options));
      ENGINE_RACE_RETURN_IF_ERROR(Index::Build(log.get(), built->options, &built->index));
      built->budget = std::make_unique<MemoryBudget>(built->options, *log, *built->index);
      const MemoryBudget* const budget = built->budget.get();
      built->shares = std::make_unique<MemoryShares>([budget] { return budget->RestBytes(); },
                                                     options.hot_value_bytes);
      MakeFrames(built.get());
      l1::ValueFrames* const frames = built->frames.get();
      built->points =
          std::make_unique<PointReader>(*log, *built->index, frames, options.verify_checksums);
      built->pool =
          std::make_unique<ReadPool>(*built->points, built->options, ValueFileDescriptors());
      built->iterators = std::make_unique<IteratorPool>(*log, *built->index, frames, built->options,
                                                        built->budget->iterator_window_bytes());
      readers = std::move(built);
      // Release pairs with the acquire above.
      ready.store(readers.get(), std::memory_order_release);
    }
    *out = readers.get();
    return Status::Ok();
  }

  // Without them everything works, from the log.
  void MakeFrames(Readers* built) const {
    MemoryShare* const share = built->shares->hot_values();
    const Status made =
        l1::ValueFrames::Create(built->index.get(), share->LimitBytes(), share, &built->frames);
    if (made.ok()) {
      built->shares->SetHotValueUser(built->frames.get());
    } else {
      Log(options.log, LogLevel::kWarning, "no value is kept in memory: " + made.ToString());
    }
  }

  // EnsureReaders, and the reader of ranges over the latest state, which the first range makes.
  Status EnsureRanges(RangeReader** out) {
    // Acquire pairs with the release below.
    *out = ranges.load(std::memory_order_acquire);
    if (*out != nullptr) [[likely]] {
      return Status::Ok();
    }
    Readers* available = nullptr;
    ENGINE_RACE_RETURN_IF_ERROR(EnsureReaders(&available));
    const std::lock_guard<std::mutex> lock(build_mutex);
    if (available->ranges == nullptr) {
      const MemoryBudget& budget = *available->budget;
      const uint64_t bytes = std::max(budget.RestBytes(), MemoryShares::kLeastRangeBytes) +
                             budget.range_window_bytes();
      available->ranges =
          std::make_unique<RangeReader>(*log, *available->index, available->options, bytes,
                                        RangeTuning(), available->shares->ranges());
      available->shares->SetRangeUser(available->ranges.get());
      // Release pairs with the acquire above.
      ranges.store(available->ranges.get(), std::memory_order_release);
    }
    *out = available->ranges.get();
    return Status::Ok();
  }

  std::vector<int> ValueFileDescriptors() const {
    std::vector<int> descriptors;
    for (uint32_t i = 0; i < log->values().file_count(); ++i) {
      descriptors.push_back(log->values().file(i).fd());
    }
    return descriptors;
  }

  Status Append(std::string_view key, const char* value) {
    ENGINE_RACE_RETURN_IF_ERROR(CheckKey(key));
    const uint64_t number = DecodeKey(key.data());
    ENGINE_RACE_RETURN_IF_ERROR(Guarded([&] { return log->Append(number, value); }));
    // Acquire pairs with the release in EnsureReaders.
    const Readers* const made = ready.load(std::memory_order_acquire);
    // The index has grown, which is once in many writes: others make room for it.
    if (made != nullptr && made->shares->RestHasChanged()) [[unlikely]] {
      made->shares->Settle();
    }
    return Status::Ok();
  }

  Status Read(std::string_view key_bytes, std::string* value) {
    ENGINE_RACE_RETURN_IF_ERROR(CheckKey(key_bytes));
    if (value == nullptr) return Status::InvalidArgument("the value to read into is null");
    Readers* available = nullptr;
    ENGINE_RACE_RETURN_IF_ERROR(EnsureReaders(&available));
    return available->points->Read(DecodeKey(key_bytes.data()), value);
  }

  Status MultiRead(std::span<const std::string_view> keys, std::span<std::string> values,
                   std::span<Status> statuses) {
    if (values.size() < keys.size() || statuses.size() < keys.size()) {
      return Status::InvalidArgument("MultiRead: " + std::to_string(keys.size()) + " keys for " +
                                     std::to_string(values.size()) + " values and " +
                                     std::to_string(statuses.size()) + " statuses");
    }
    Readers* available = nullptr;
    ENGINE_RACE_RETURN_IF_ERROR(EnsureReaders(&available));
    available->pool->MultiRead(keys, values.first(keys.size()), statuses.first(keys.size()));
    return Status::Ok();
  }

  Status ReadAsync(std::string_view key, std::string* value, ReadDoneFn done) {
    ENGINE_RACE_RETURN_IF_ERROR(CheckKey(key));
    if (value == nullptr) return Status::InvalidArgument("the value to read into is null");
    if (!done) return Status::InvalidArgument("the function to call when it is read is empty");
    Readers* available = nullptr;
    ENGINE_RACE_RETURN_IF_ERROR(EnsureReaders(&available));
    auto read = std::make_unique<PostedRead>();
    read->key = DecodeKey(key.data());
    read->value = value;
    read->done = std::move(done);
    return available->pool->Post(std::move(read));
  }

  // Null: of the latest state.
  Status Range(const Snapshot* snapshot, std::string_view lower, std::string_view upper,
               const VisitFn& visit) {
    if (!visit) return Status::InvalidArgument("the visit function is empty");
    KeyRange range;
    Readers* available = nullptr;
    RangeReader* shared = nullptr;
    ENGINE_RACE_RETURN_IF_ERROR(Guarded([&] {
      ENGINE_RACE_RETURN_IF_ERROR(ParseBounds(lower, upper, &range));
      return snapshot == nullptr ? EnsureRanges(&shared) : EnsureReaders(&available);
    }));
    // Not guarded: what the visitor throws is the caller's.
    return snapshot == nullptr ? shared->Scan(range.first, range.last, visit)
                               : available->iterators->Scan(*snapshot, range, visit);
  }

  Status GetSnapshot(Snapshot* snapshot) {
    if (snapshot == nullptr) return Status::InvalidArgument("the snapshot to take is null");
    Readers* available = nullptr;
    ENGINE_RACE_RETURN_IF_ERROR(EnsureReaders(&available));
    ViewRegistry::View view;
    ENGINE_RACE_RETURN_IF_ERROR(available->index->views().Take(&view));
    *snapshot = Snapshot(view);
    return Status::Ok();
  }

  Status NewIterator(const IteratorOptions& iterator_options, Iterator* iterator) {
    if (iterator == nullptr) return Status::InvalidArgument("the iterator to make is null");
    Readers* available = nullptr;
    ENGINE_RACE_RETURN_IF_ERROR(EnsureReaders(&available));
    return available->iterators->New(iterator_options, iterator);
  }

  Status Read(const Snapshot& snapshot, std::string_view key, std::string* value) {
    ENGINE_RACE_RETURN_IF_ERROR(CheckKey(key));
    if (value == nullptr) return Status::InvalidArgument("the value to read into is null");
    Readers* available = nullptr;
    ENGINE_RACE_RETURN_IF_ERROR(EnsureReaders(&available));
    ENGINE_RACE_RETURN_IF_ERROR(available->iterators->CheckSnapshot(snapshot));
    alignas(kIoAlignment) char buffer[kValueBytes];
    ENGINE_RACE_RETURN_IF_ERROR(
        available->points->ReadAt(DecodeKey(key.data()), snapshot.view().epoch, buffer));
    value->assign(buffer, kValueBytes);
    return Status::Ok();
  }

  void AddReaders(const Readers& made, StoreStats* stats) const;

  // Every failure but an absent key goes through the log callback as well.
  Status Report(Status status) const {
    if (!status.ok() && status.code() != Code::kNotFound) [[unlikely]] {
      Log(options.log, LogLevel::kError, status.ToString());
    }
    return status;
  }

  const Options options;
  std::unique_ptr<BucketLog> log;
  std::mutex build_mutex;
  std::unique_ptr<Readers> readers;  // under build_mutex until `ready` is set
  std::atomic<Readers*> ready{nullptr};
  std::atomic<RangeReader*> ranges{nullptr};
};

Store::Store() = default;

// Callbacks of reads may call the store until the last callback has returned.
Store::~Store() {
  if (impl_ != nullptr) impl_->FinishReads();
}

Status Store::Open(const Options& options, const std::string& dir, std::unique_ptr<Store>* store) {
  if (store == nullptr) return Status::InvalidArgument("the store to open into is null");
  const Status opened = Guarded([&] {
    ENGINE_RACE_RETURN_IF_ERROR(ValidateOptions(options));
    std::unique_ptr<Store> made(new Store);
    made->impl_ = std::make_unique<Impl>(options);
    ENGINE_RACE_RETURN_IF_ERROR(BucketLog::Open(options, dir, &made->impl_->log));
    *store = std::move(made);
    return Status::Ok();
  });
  if (!opened.ok()) Log(options.log, LogLevel::kError, "open " + dir + ": " + opened.ToString());
  return opened;
}

Status Store::Write(std::string_view key, std::string_view value) {
  if (value.size() != kValueBytes || value.data() == nullptr) [[unlikely]] {
    return impl_->Report(Status::InvalidArgument("a value has " + std::to_string(kValueBytes) +
                                                 " bytes, not " + std::to_string(value.size())));
  }
  return impl_->Report(impl_->Append(key, value.data()));
}

Status Store::Delete(std::string_view key) { return impl_->Report(impl_->Append(key, nullptr)); }

Status Store::Read(std::string_view key, std::string* value) {
  return impl_->Report(Guarded([&] { return impl_->Read(key, value); }));
}

Status Store::MultiRead(std::span<const std::string_view> keys, std::span<std::string> values,
                        std::span<Status> statuses) {
  return impl_->Report(Guarded([&] { return impl_->MultiRead(keys, values, statuses); }));
}

Status Store::ReadAsync(std::string_view key, std::string* value, ReadDoneFn done) {
  return impl_->Report(Guarded([&] { return impl_->ReadAsync(key, value, std::move(done)); }));
}

Status Store::Range(std::string_view lower, std::string_view upper, const VisitFn& visit) {
  return impl_->Report(impl_->Range(nullptr, lower, upper, visit));
}

Status Store::GetSnapshot(Snapshot* snapshot) {
  return impl_->Report(Guarded([&] { return impl_->GetSnapshot(snapshot); }));
}

Status Store::NewIterator(const IteratorOptions& options, Iterator* iterator) {
  return impl_->Report(Guarded([&] { return impl_->NewIterator(options, iterator); }));
}

Status Store::Read(const Snapshot& snapshot, std::string_view key, std::string* value) {
  return impl_->Report(Guarded([&] { return impl_->Read(snapshot, key, value); }));
}

Status Store::Range(const Snapshot& snapshot, std::string_view lower, std::string_view upper,
                    const VisitFn& visit) {
  return impl_->Report(impl_->Range(&snapshot, lower, upper, visit));
}

Status Store::Sync() {
  return impl_->Report(Guarded([&] { return impl_->log->Sync(); }));
}

namespace {

void AddFrames(const l1::ValueFrames& frames, StoreStats* stats) {
  const l1::ValueFrameStats own = frames.Stats();
  stats->frame_memory_bytes = own.memory_bytes;
  stats->frame_limit_bytes = own.limit_bytes;
  stats->frame_hit_count = own.hit_count;
  stats->frame_miss_count = own.miss_count;
  stats->frame_admission_count = own.admission_count;
  stats->frame_eviction_count = own.eviction_count;
}

}  // namespace

void Store::Impl::AddReaders(const Readers& made, StoreStats* stats) const {
  // Together, so that what one user has given to another is not counted twice.
  const std::unique_lock<std::mutex> held = made.shares->HoldBookings();
  stats->index_memory_bytes = made.index->memory_bytes();
  // Acquire pairs with the release in EnsureRanges.
  if (const RangeReader* const shared = ranges.load(std::memory_order_acquire)) {
    stats->range_memory_bytes = shared->memory_bytes();
  }
  if (made.frames != nullptr) AddFrames(*made.frames, stats);
  stats->task_memory_bytes = made.pool->memory_bytes();
  stats->iterator_memory_bytes = made.iterators->memory_bytes();
  const ViewRegistry::Census views = made.index->views().TakeCensus();
  stats->view_count = views.count;
  stats->view_pinned_bytes = made.index->pinned_bytes();
  stats->oldest_view_age_ms = views.oldest_age_ms;
  stats->io_backend = io::BackendName(made.options.io_backend);
}

StoreStats Store::Stats() const {
  StoreStats stats;
  const Geometry& geometry = impl_->log->geometry();
  for (uint32_t bucket = 0; bucket < geometry.bucket_count; ++bucket) {
    stats.record_count += impl_->log->RecordCount(bucket);
  }
  for (uint32_t bucket = 0; bucket < geometry.bucket_count; ++bucket) {
    stats.synced_record_count += impl_->log->SyncedCount(bucket);
  }
  stats.flush_count = impl_->log->flush_count();
  stats.durable_write_count = impl_->log->durable_write_count();
  stats.log_memory_bytes = impl_->log->memory_bytes();
  stats.io_backend = io::BackendName(impl_->options.io_backend);
  stats.write_backend = "psync";
  stats.staging_mapped = impl_->log->staging_mapped();
  stats.path_count = impl_->log->path_count();
  // Acquire pairs with the release in EnsureReaders.
  if (const Impl::Readers* readers = impl_->ready.load(std::memory_order_acquire)) {
    impl_->AddReaders(*readers, &stats);
  }
  stats.memory_budget_bytes = impl_->options.memory_budget_bytes;
  stats.bucket_count = geometry.bucket_count;
  stats.bucket_capacity_records = geometry.bucket_capacity_records;
  return stats;
}

}  // namespace engine_race
