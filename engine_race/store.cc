#include "engine_race/store.h"

#include <memory>
#include <optional>
#include <utility>

#include "engine_race/backup.h"
#include "engine_race/base/clock.h"
#include "engine_race/base/fork_mark.h"
#include "engine_race/base/guarded.h"
#include "engine_race/base/key.h"
#include "engine_race/base/op_stats.h"
#include "engine_race/base/value_sink.h"
#include "engine_race/checkpoint.h"
#include "engine_race/io/backend_probe.h"
#include "engine_race/log/bucket_log.h"
#include "engine_race/readers.h"
#include "engine_race/scan/bounds.h"
#include "engine_race/stats_fields.h"
#include "engine_race/stats_publisher.h"

namespace engine_race {

struct Store::Impl {
  explicit Impl(const Options& o) : options(o), stats(o.latency_stats), began_ns(MonotonicNs()) {}

  // A forked child has neither the threads of the store nor a right to its files, which its parent
  // may have closed meanwhile.
  Status CheckProcess() const {
    if (fork_mark.InChild()) [[unlikely]] {
      return Status::InvalidArgument("a forked child cannot use the store of its parent");
    }
    return Status::Ok();
  }

  Status EnsureReaders(Readers::Set** available) {
    ENGINE_RACE_RETURN_IF_ERROR(CheckProcess());
    return readers->Ensure(available);
  }
  // Also gives the version that a snapshot shows; null: that of the latest state.
  Status EnsureReaders(const Snapshot* snapshot, Readers::Set** available, uint64_t* version) {
    ENGINE_RACE_RETURN_IF_ERROR(EnsureReaders(available));
    *version = snapshot == nullptr ? kLatestVersion : snapshot->view().version;
    return snapshot == nullptr ? Status::Ok() : (*available)->iterators->CheckSnapshot(*snapshot);
  }

  Status Append(std::string_view key, const char* value) {
    ENGINE_RACE_RETURN_IF_ERROR(CheckProcess());
    ENGINE_RACE_RETURN_IF_ERROR(CheckKeyOf(log->geometry().keys(), key));
    const uint64_t number = DecodeKey(key.data());
    const LatencyTimer timer(stats.writes);
    ENGINE_RACE_RETURN_IF_ERROR(Guarded([&] { return log->Append(number, value); }));
    readers->MakeRoomForIndex();
    return Status::Ok();
  }

  Status WriteBatchOf(const WriteBatch& batch) {
    ENGINE_RACE_RETURN_IF_ERROR(CheckProcess());
    const KeyRange& keys = log->geometry().keys();
    if (!keys.HasAllKeys()) {
      for (const WriteBatch::Record& record : batch.records()) {
        ENGINE_RACE_RETURN_IF_ERROR(CheckKeyOf(keys, KeyBytes(record.key).view()));
      }
    }
    ENGINE_RACE_RETURN_IF_ERROR(log->Write(batch));
    readers->MakeRoomForIndex();
    stats.CountBatch(batch.put_count(), batch.size() - batch.put_count());
    return Status::Ok();
  }

  Status Read(std::string_view key, ValueSink value) {
    ENGINE_RACE_RETURN_IF_ERROR(CheckKeyOf(log->geometry().keys(), key));
    if (!value.is_set()) return Status::InvalidArgument("the value to read into is null");
    Readers::Set* available = nullptr;
    ENGINE_RACE_RETURN_IF_ERROR(CheckProcess());
    // A read of one key needs one bucket of the index and does not wait for the others.
    ENGINE_RACE_RETURN_IF_ERROR(readers->EnsureForRead(&available));
    const LatencyTimer timer(stats.reads);
    return available->points->Read(DecodeKey(key.data()), value);
  }

  // Here and below, a null snapshot stands for the latest state.
  Status MultiRead(const Snapshot* snapshot, std::span<const std::string_view> keys,
                   std::span<std::string> values, std::span<Status> statuses) {
    if (values.size() < keys.size() || statuses.size() < keys.size()) {
      return Status::InvalidArgument("MultiRead: " + std::to_string(keys.size()) + " keys for " +
                                     std::to_string(values.size()) + " values and " +
                                     std::to_string(statuses.size()) + " statuses");
    }
    Readers::Set* available = nullptr;
    uint64_t version = 0;
    ENGINE_RACE_RETURN_IF_ERROR(EnsureReaders(snapshot, &available, &version));
    {
      const LatencyTimer timer(stats.multi_reads);
      available->pool->MultiRead(keys, values.first(keys.size()), statuses.first(keys.size()),
                                 version);
    }
    stats.CountKeys(keys.size(), [statuses](size_t i) { return statuses[i].code(); });
    return Status::Ok();
  }

  Status MultiReadInto(const Snapshot* snapshot, std::span<const uint64_t> keys, char* values,
                       std::span<Code> codes) {
    if (codes.size() < keys.size()) {
      return Status::InvalidArgument("MultiReadInto: " + std::to_string(keys.size()) +
                                     " keys for " + std::to_string(codes.size()) + " codes");
    }
    if (values == nullptr && !keys.empty()) {
      return Status::InvalidArgument("the values to read into are null");
    }
    Readers::Set* available = nullptr;
    uint64_t version = 0;
    ENGINE_RACE_RETURN_IF_ERROR(EnsureReaders(snapshot, &available, &version));
    {
      const LatencyTimer timer(stats.multi_reads);
      available->pool->MultiRead(keys, values, codes.first(keys.size()), version);
    }
    stats.CountKeys(keys.size(), [codes](size_t i) { return codes[i]; });
    return Status::Ok();
  }

  Status ReadAsync(std::string_view key, ValueSink value, ReadDoneFn done) {
    ENGINE_RACE_RETURN_IF_ERROR(CheckKeyOf(log->geometry().keys(), key));
    if (!value.is_set()) return Status::InvalidArgument("the value to read into is null");
    if (!done) return Status::InvalidArgument("the function to call when it is read is empty");
    Readers::Set* available = nullptr;
    ENGINE_RACE_RETURN_IF_ERROR(EnsureReaders(&available));
    auto read = std::make_unique<PostedRead>();
    read->key = DecodeKey(key.data());
    read->value = value;
    read->done = std::move(done);
    return available->pool->Post(std::move(read));
  }

  Status Range(const Snapshot* snapshot, std::string_view lower, std::string_view upper,
               const VisitFn& visit) {
    if (!visit) return Status::InvalidArgument("the visit function is empty");
    KeyRange range;
    Readers::Set* available = nullptr;
    RangeReader* shared = nullptr;
    ENGINE_RACE_RETURN_IF_ERROR(Guarded([&] {
      ENGINE_RACE_RETURN_IF_ERROR(ParseBounds(lower, upper, log->geometry().keys(), &range));
      ENGINE_RACE_RETURN_IF_ERROR(CheckProcess());
      return snapshot == nullptr ? readers->EnsureRanges(&shared) : readers->Ensure(&available);
    }));
    const LatencyTimer timer(stats.ranges);
    // Not guarded: what the visitor throws is the caller's.
    return snapshot == nullptr ? shared->Scan(range.first, range.last, visit)
                               : available->iterators->Scan(*snapshot, range, visit);
  }

  Status GetSnapshot(Snapshot* snapshot) {
    if (snapshot == nullptr) return Status::InvalidArgument("the snapshot to take is null");
    Readers::Set* available = nullptr;
    ENGINE_RACE_RETURN_IF_ERROR(EnsureReaders(&available));
    ViewRegistry::View view;
    ENGINE_RACE_RETURN_IF_ERROR(available->index->views().Take(&view));
    *snapshot = Snapshot(view);
    return Status::Ok();
  }

  Status NewIterator(const IteratorOptions& iterator_options, Iterator* iterator) {
    if (iterator == nullptr) return Status::InvalidArgument("the iterator to make is null");
    Readers::Set* available = nullptr;
    ENGINE_RACE_RETURN_IF_ERROR(EnsureReaders(&available));
    return available->iterators->New(iterator_options, iterator);
  }

  Status Read(const Snapshot& snapshot, std::string_view key, ValueSink value) {
    ENGINE_RACE_RETURN_IF_ERROR(CheckKeyOf(log->geometry().keys(), key));
    if (!value.is_set()) return Status::InvalidArgument("the value to read into is null");
    Readers::Set* available = nullptr;
    uint64_t version = 0;
    ENGINE_RACE_RETURN_IF_ERROR(EnsureReaders(&snapshot, &available, &version));
    const LatencyTimer timer(stats.reads);
    return available->points->ReadAt(DecodeKey(key.data()), version, value);
  }

  Status Sync() {
    ENGINE_RACE_RETURN_IF_ERROR(CheckProcess());
    const LatencyTimer timer(stats.syncs);
    return log->Sync();
  }

  // Runs a call that copies the store.
  template <typename CallFn>
  Status RunCopy(const CallFn& call) {
    const Status checked = CheckProcess();
    return FinishStart(checked.ok() ? Guarded(call) : checked);
  }

  // Runs a call, turns what it throws into a status, and counts it.
  template <typename CallFn>
  Status Run(OpCounter counter, const CallFn& call) {
    return Finish(counter, Guarded(call));
  }
  // The end of every call: counts it. Every failure but an absent key goes through the log callback
  // as well.
  Status Finish(OpCounter counter, Status status) {
    if (status.ok()) [[likely]] {
      stats.counters.Add(counter);
    } else {
      stats.Count(counter, status.code());
      Report(status);
    }
    return status;
  }
  // Of a call that only starts something: its success is counted when that ends.
  Status FinishStart(Status status) {
    if (!status.ok()) [[unlikely]] {
      return Fail(std::move(status));
    }
    return status;
  }
  // Counts a failure and reports it.
  Status Fail(Status status) {
    stats.counters.AddError(status.code());
    Report(status);
    return status;
  }
  __attribute__((noinline)) void Report(const Status& status) const {
    if (status.code() == Code::kNotFound) return;
    Log(options.log, LogLevel::kError, status.ToString());
  }

  const Options options;
  ForkMark fork_mark;
  OpStats stats;
  const uint64_t began_ns;  // of MonotonicNs
  std::unique_ptr<BucketLog> log;
  // Made once the log is open. Last: the log tells the readers of appends, and they read from it.
  std::optional<Readers> readers;
  // Null: the store offers its stats to no other process.
  std::unique_ptr<StatsPublisher> publisher;
};

Store::Store() = default;

// Callbacks of reads may call the store until the last callback has returned.
Store::~Store() {
  if (impl_ == nullptr) return;
  // Of a child the memory alone ends, with its process: threads that would have to be waited for
  // are not there, and the files are the parent's.
  if (impl_->fork_mark.InChild()) {
    static_cast<void>(impl_.release());
    return;
  }
  impl_->publisher.reset();  // It asks for stats.
  if (impl_->readers) impl_->readers->Finish();
}

Status Store::Open(const Options& options, const std::string& dir, std::unique_ptr<Store>* store) {
  if (store == nullptr) return Status::InvalidArgument("the store to open into is null");
  const Status opened = Guarded([&] {
    ENGINE_RACE_RETURN_IF_ERROR(ValidateOptions(options));
    std::unique_ptr<Store> made(new Store);
    made->impl_ = std::make_unique<Impl>(options);
    ENGINE_RACE_RETURN_IF_ERROR(ForkMark::Make(&made->impl_->fork_mark));
    ENGINE_RACE_RETURN_IF_ERROR(BucketLog::Open(options, dir, &made->impl_->log));
    Impl& impl = *made->impl_;
    impl.readers.emplace(impl.options, impl.log.get(), &impl.stats);
    if (options.stats_interval_ms != 0) {
      const Store* const offered = made.get();
      impl.publisher = StatsPublisher::Start(impl.options, impl.log->directory_fd(), [offered] {
        return PublishedStats{offered->Stats(), offered->Latencies()};
      });
    }
    *store = std::move(made);
    return Status::Ok();
  });
  if (!opened.ok()) Log(options.log, LogLevel::kError, "open " + dir + ": " + opened.ToString());
  return opened;
}

Status Store::Write(std::string_view key, std::string_view value) {
  if (value.size() != kValueBytes || value.data() == nullptr) [[unlikely]] {
    return impl_->Fail(Status::InvalidArgument("a value has " + std::to_string(kValueBytes) +
                                               " bytes, not " + std::to_string(value.size())));
  }
  return impl_->Finish(OpCounter::kWrites, impl_->Append(key, value.data()));
}

Status Store::Delete(std::string_view key) {
  return impl_->Finish(OpCounter::kDeletes, impl_->Append(key, nullptr));
}

Status Store::Write(const WriteBatch& batch) {
  Status status = Guarded([&] { return impl_->WriteBatchOf(batch); });
  return status.ok() ? std::move(status) : impl_->Fail(std::move(status));
}

Status Store::Read(std::string_view key, std::string* value) {
  return impl_->Run(OpCounter::kReadsFound, [&] { return impl_->Read(key, value); });
}

Status Store::MultiRead(std::span<const std::string_view> keys, std::span<std::string> values,
                        std::span<Status> statuses) {
  return impl_->Run(OpCounter::kMultiReads,
                    [&] { return impl_->MultiRead(nullptr, keys, values, statuses); });
}

Status Store::ReadInto(uint64_t key, char* value) {
  return impl_->Run(OpCounter::kReadsFound,
                    [&] { return impl_->Read(KeyBytes(key).view(), ValueSink(value)); });
}

Status Store::MultiReadInto(std::span<const uint64_t> keys, char* values, std::span<Code> codes) {
  return impl_->Run(OpCounter::kMultiReads,
                    [&] { return impl_->MultiReadInto(nullptr, keys, values, codes); });
}

Status Store::ReadAsync(std::string_view key, std::string* value, ReadDoneFn done) {
  return impl_->FinishStart(Guarded([&] { return impl_->ReadAsync(key, value, std::move(done)); }));
}

Status Store::ReadAsyncInto(uint64_t key, char* value, ReadDoneFn done) {
  return impl_->FinishStart(Guarded(
      [&] { return impl_->ReadAsync(KeyBytes(key).view(), ValueSink(value), std::move(done)); }));
}

Status Store::Range(std::string_view lower, std::string_view upper, const VisitFn& visit) {
  return impl_->Finish(OpCounter::kRanges, impl_->Range(nullptr, lower, upper, visit));
}

Status Store::GetSnapshot(Snapshot* snapshot) {
  return impl_->Run(OpCounter::kSnapshots, [&] { return impl_->GetSnapshot(snapshot); });
}

Status Store::NewIterator(const IteratorOptions& options, Iterator* iterator) {
  return impl_->Run(OpCounter::kIterators, [&] { return impl_->NewIterator(options, iterator); });
}

Status Store::Read(const Snapshot& snapshot, std::string_view key, std::string* value) {
  return impl_->Run(OpCounter::kReadsFound, [&] { return impl_->Read(snapshot, key, value); });
}

Status Store::ReadInto(const Snapshot& snapshot, uint64_t key, char* value) {
  return impl_->Run(OpCounter::kReadsFound,
                    [&] { return impl_->Read(snapshot, KeyBytes(key).view(), ValueSink(value)); });
}

Status Store::MultiRead(const Snapshot& snapshot, std::span<const std::string_view> keys,
                        std::span<std::string> values, std::span<Status> statuses) {
  return impl_->Run(OpCounter::kMultiReads,
                    [&] { return impl_->MultiRead(&snapshot, keys, values, statuses); });
}

Status Store::MultiReadInto(const Snapshot& snapshot, std::span<const uint64_t> keys, char* values,
                            std::span<Code> codes) {
  return impl_->Run(OpCounter::kMultiReads,
                    [&] { return impl_->MultiReadInto(&snapshot, keys, values, codes); });
}

Status Store::Range(const Snapshot& snapshot, std::string_view lower, std::string_view upper,
                    const VisitFn& visit) {
  return impl_->Finish(OpCounter::kRanges, impl_->Range(&snapshot, lower, upper, visit));
}

Status Store::Sync() {
  const Status synced = impl_->Run(OpCounter::kSyncs, [&] { return impl_->Sync(); });
  if (synced.ok()) impl_->readers->SaveIndexAfterSync();
  return synced;
}

Status Store::Checkpoint(const std::string& dir, const CheckpointOptions& how) {
  Impl& impl = *impl_;
  return impl.RunCopy(
      [&] { return MakeCheckpoint(impl.options, impl.log.get(), &*impl.readers, dir, how); });
}

Status Store::Backup(const std::string& dir, const BackupOptions& how, BackupReport* report) {
  Impl& impl = *impl_;
  return impl.RunCopy(
      [&] { return MakeBackup(impl.options, impl.log.get(), &*impl.readers, dir, how, report); });
}

StoreStats Store::Stats() const {
  StoreStats stats;
  SetLogFigures(*impl_->log, &stats);
  stats.io_backend = io::BackendName(impl_->options.io_backend);
  stats.write_backend = "psync";
  impl_->readers->AddTo(&stats);
  stats.memory_budget_bytes = impl_->options.memory_budget_bytes;
  SetCounts(impl_->stats.counters, &stats);
  SetProcessFigures(&stats);
  stats.uptime_us = (MonotonicNs() - impl_->began_ns) / 1000;
  return stats;
}

StoreLatencies Store::Latencies() const {
  StoreLatencies latencies;
  latencies.measured = impl_->options.latency_stats;
  SetLatencies(impl_->stats, *impl_->log, &latencies);
  return latencies;
}

}  // namespace engine_race
