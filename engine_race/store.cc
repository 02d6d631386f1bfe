#include "engine_race/store.h"

#include <memory>
#include <utility>

#include "engine_race/base/guarded.h"
#include "engine_race/copies/copies.h"
#include "engine_race/stats_publisher.h"
#include "engine_race/store_impl.h"

namespace engine_race {
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
  if (impl_->reclaimer) impl_->reclaimer->Stop();
  if (impl_->readers) impl_->readers->Finish();
}

Status Store::Open(const Options& options, const std::string& dir, std::unique_ptr<Store>* store) {
  if (store == nullptr) return Status::InvalidArgument("the store to open into is null");
  const Status opened = Guarded([&] {
    ENGINE_RACE_RETURN_IF_ERROR(ValidateOptions(options));
    std::unique_ptr<Store> made(new Store);
    made->impl_ = std::make_unique<Impl>(EffectiveOptions(options));
    Impl& impl = *made->impl_;
    ENGINE_RACE_RETURN_IF_ERROR(ForkMark::Make(&impl.fork_mark));
    Status found = BucketLog::Open(impl.options, dir, &impl.log);
    const bool is_bare = found.code() == Code::kNotFound && found.message().empty();
    if (is_bare) found = Status(Code::kNotFound, "there is no store");
    ENGINE_RACE_RETURN_IF_ERROR(found);
    ENGINE_RACE_RETURN_IF_ERROR(
        impl.CheckBudget(/*is_given=*/options.memory_budget_bytes != kAutoBytes));
    impl.readers.emplace(impl.options, impl.log.get(), &impl.stats);
    impl.reclaimer.emplace(impl.options, impl.log.get());
    impl.writer.emplace(impl.options, impl.log.get(), &*impl.readers, &*impl.reclaimer);
    ENGINE_RACE_RETURN_IF_ERROR(impl.reclaimer->Start());
    if (impl.options.stats_interval_ms != 0) {
      const Store* const offered = made.get();
      impl.publisher = StatsPublisher::Start(impl.options, impl.log->directory_fd(), [offered] {
        return PublishedStats{offered->Stats(), offered->Latencies()};
      });
    }
    *store = std::move(made);
    return Status::Ok();
  });
  if (!opened.ok()) Log(options.log, LogLevel::kError, "open " + dir + ": " + opened.ToString());
  return opened.ok() ? Status::Ok() : opened.At(dir);
}

uint32_t Store::value_bytes() const { return impl_->value_bytes(); }

Status Store::Write(std::string_view key, std::string_view value) {
  return impl_->Run(OpCounter::kWrites, [&] {
    if (value.size() != value_bytes() || value.data() == nullptr) [[unlikely]] {
      return Status::InvalidArgument("a value has " + std::to_string(value_bytes()) +
                                     " bytes, not " + std::to_string(value.size()));
    }
    return impl_->Append(key, value.data());
  });
}

Status Store::Delete(std::string_view key) {
  return impl_->Run(OpCounter::kDeletes, [&] { return impl_->Append(key, nullptr); });
}

Status Store::Write(const WriteBatch& batch) {
  Status status = Guarded([&] { return impl_->WriteBatchOf(batch); });
  return status.ok() ? std::move(status) : impl_->Fail(std::move(status));
}

Status Store::Read(std::string_view key, std::string* value) {
  return impl_->Run(OpCounter::kReadsFound, [&] { return impl_->Read(key, value); });
}

Status Store::MultiRead(std::span<const std::string_view> keys, std::span<std::string> values,
                        std::span<Status> statuses, const ProgressFn& on_progress) {
  return impl_->Run(OpCounter::kMultiReads,
                    [&] { return impl_->MultiRead(nullptr, keys, values, statuses, on_progress); });
}

Status Store::ReadInto(uint64_t key, char* value) {
  return impl_->Run(OpCounter::kReadsFound,
                    [&] { return impl_->Read(KeyBytes(key).view(), ValueSink(value)); });
}

Status Store::MultiReadInto(std::span<const uint64_t> keys, char* values, std::span<Code> codes,
                            const ProgressFn& on_progress) {
  return impl_->Run(OpCounter::kMultiReads, [&] {
    return impl_->MultiReadInto(nullptr, keys, values, codes, on_progress);
  });
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
                        std::span<std::string> values, std::span<Status> statuses,
                        const ProgressFn& on_progress) {
  return impl_->Run(OpCounter::kMultiReads, [&] {
    return impl_->MultiRead(&snapshot, keys, values, statuses, on_progress);
  });
}

Status Store::MultiReadInto(const Snapshot& snapshot, std::span<const uint64_t> keys, char* values,
                            std::span<Code> codes, const ProgressFn& on_progress) {
  return impl_->Run(OpCounter::kMultiReads, [&] {
    return impl_->MultiReadInto(&snapshot, keys, values, codes, on_progress);
  });
}

Status Store::Range(const Snapshot& snapshot, std::string_view lower, std::string_view upper,
                    const VisitFn& visit) {
  return impl_->Finish(OpCounter::kRanges, impl_->Range(&snapshot, lower, upper, visit));
}

Status Store::Refresh() {
  return impl_->RunUncounted([this] { return impl_->readers->Refresh(); });
}

Status Store::Sync() {
  const Status synced = impl_->Run(OpCounter::kSyncs, [&] { return impl_->Sync(); });
  if (synced.ok()) impl_->readers->SaveIndexAfterSync();
  return synced;
}

Status Store::Checkpoint(const std::string& dir, const CheckpointOptions& how) {
  Impl& impl = *impl_;
  const auto ensure_index = [&impl](Index** index) { return impl.EnsureIndex(index); };
  return impl.RunUncounted([&] {
    ENGINE_RACE_RETURN_IF_ERROR(impl.CheckKeepsStill());
    return MakeCheckpoint(impl.options, impl.log.get(), ensure_index, dir, how);
  });
}

Status Store::Backup(const std::string& dir, const BackupOptions& how, BackupReport* report) {
  Impl& impl = *impl_;
  const auto ensure_index = [&impl](Index** index) { return impl.EnsureIndex(index); };
  return impl.RunUncounted([&] {
    ENGINE_RACE_RETURN_IF_ERROR(impl.CheckKeepsStill());
    return MakeBackup(impl.options, impl.log.get(), ensure_index, dir, how, report);
  });
}

}  // namespace engine_race
