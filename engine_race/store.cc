#include "engine_race/store.h"

#include <memory>
#include <optional>
#include <utility>

#include "engine_race/base/fork_mark.h"
#include "engine_race/base/guarded.h"
#include "engine_race/base/key.h"
#include "engine_race/base/memory.h"
#include "engine_race/base/value_sink.h"
#include "engine_race/io/backend_probe.h"
#include "engine_race/log/bucket_log.h"
#include "engine_race/readers.h"
#include "engine_race/scan/bounds.h"

namespace engine_race {

struct Store::Impl {
  explicit Impl(const Options& o) : options(o) {}

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

  Status Append(std::string_view key, const char* value) {
    ENGINE_RACE_RETURN_IF_ERROR(CheckProcess());
    ENGINE_RACE_RETURN_IF_ERROR(CheckKeyOf(log->geometry().keys(), key));
    const uint64_t number = DecodeKey(key.data());
    ENGINE_RACE_RETURN_IF_ERROR(Guarded([&] { return log->Append(number, value); }));
    readers->MakeRoomForIndex();
    return Status::Ok();
  }

  Status Read(std::string_view key, ValueSink value) {
    ENGINE_RACE_RETURN_IF_ERROR(CheckKeyOf(log->geometry().keys(), key));
    if (!value.is_set()) return Status::InvalidArgument("the value to read into is null");
    Readers::Set* available = nullptr;
    ENGINE_RACE_RETURN_IF_ERROR(EnsureReaders(&available));
    return available->points->Read(DecodeKey(key.data()), value);
  }

  Status MultiRead(std::span<const std::string_view> keys, std::span<std::string> values,
                   std::span<Status> statuses) {
    if (values.size() < keys.size() || statuses.size() < keys.size()) {
      return Status::InvalidArgument("MultiRead: " + std::to_string(keys.size()) + " keys for " +
                                     std::to_string(values.size()) + " values and " +
                                     std::to_string(statuses.size()) + " statuses");
    }
    Readers::Set* available = nullptr;
    ENGINE_RACE_RETURN_IF_ERROR(EnsureReaders(&available));
    available->pool->MultiRead(keys, values.first(keys.size()), statuses.first(keys.size()));
    return Status::Ok();
  }

  Status MultiReadInto(std::span<const uint64_t> keys, char* values, std::span<Code> codes) {
    if (codes.size() < keys.size()) {
      return Status::InvalidArgument("MultiReadInto: " + std::to_string(keys.size()) +
                                     " keys for " + std::to_string(codes.size()) + " codes");
    }
    if (values == nullptr && !keys.empty()) {
      return Status::InvalidArgument("the values to read into are null");
    }
    Readers::Set* available = nullptr;
    ENGINE_RACE_RETURN_IF_ERROR(EnsureReaders(&available));
    available->pool->MultiRead(keys, values, codes.first(keys.size()));
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

  // Null: of the latest state.
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
    ENGINE_RACE_RETURN_IF_ERROR(EnsureReaders(&available));
    ENGINE_RACE_RETURN_IF_ERROR(available->iterators->CheckSnapshot(snapshot));
    alignas(kIoAlignment) char buffer[kValueBytes];
    ENGINE_RACE_RETURN_IF_ERROR(
        available->points->ReadAt(DecodeKey(key.data()), snapshot.view().version, buffer));
    value.Put(buffer);
    return Status::Ok();
  }

  // Every failure but an absent key goes through the log callback as well.
  Status Report(Status status) const {
    if (!status.ok() && status.code() != Code::kNotFound) [[unlikely]] {
      Log(options.log, LogLevel::kError, status.ToString());
    }
    return status;
  }

  const Options options;
  ForkMark fork_mark;
  std::unique_ptr<BucketLog> log;
  // Made once the log is open. Last: the log tells the readers of appends, and they read from it.
  std::optional<Readers> readers;
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
    made->impl_->readers.emplace(made->impl_->options, made->impl_->log.get());
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

Status Store::ReadInto(uint64_t key, char* value) {
  const KeyBytes bytes(key);
  return impl_->Report(Guarded([&] { return impl_->Read(bytes.view(), ValueSink(value)); }));
}

Status Store::MultiReadInto(std::span<const uint64_t> keys, char* values, std::span<Code> codes) {
  return impl_->Report(Guarded([&] { return impl_->MultiReadInto(keys, values, codes); }));
}

Status Store::ReadAsync(std::string_view key, std::string* value, ReadDoneFn done) {
  return impl_->Report(Guarded([&] { return impl_->ReadAsync(key, value, std::move(done)); }));
}

Status Store::ReadAsyncInto(uint64_t key, char* value, ReadDoneFn done) {
  const KeyBytes bytes(key);
  return impl_->Report(
      Guarded([&] { return impl_->ReadAsync(bytes.view(), ValueSink(value), std::move(done)); }));
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

Status Store::ReadInto(const Snapshot& snapshot, uint64_t key, char* value) {
  const KeyBytes bytes(key);
  return impl_->Report(
      Guarded([&] { return impl_->Read(snapshot, bytes.view(), ValueSink(value)); }));
}

Status Store::Range(const Snapshot& snapshot, std::string_view lower, std::string_view upper,
                    const VisitFn& visit) {
  return impl_->Report(impl_->Range(&snapshot, lower, upper, visit));
}

Status Store::Sync() {
  const Status synced = impl_->Report(Guarded([&] {
    ENGINE_RACE_RETURN_IF_ERROR(impl_->CheckProcess());
    return impl_->log->Sync();
  }));
  if (synced.ok()) impl_->readers->SaveIndexAfterSync();
  return synced;
}

StoreStats Store::Stats() const {
  StoreStats stats;
  const Geometry& geometry = impl_->log->geometry();
  stats.record_count = impl_->log->RecordCount();
  for (uint32_t bucket = 0; bucket < geometry.bucket_count; ++bucket) {
    stats.synced_record_count += impl_->log->SyncedWatermark(bucket);
  }
  stats.flush_count = impl_->log->flush_count();
  stats.durable_write_count = impl_->log->durable_write_count();
  stats.log_memory_bytes = impl_->log->memory_bytes();
  stats.io_backend = io::BackendName(impl_->options.io_backend);
  stats.write_backend = "psync";
  stats.staging_mapped = impl_->log->staging_mapped();
  stats.path_count = impl_->log->path_count();
  impl_->readers->AddTo(&stats);
  stats.memory_budget_bytes = impl_->options.memory_budget_bytes;
  stats.bucket_count = geometry.bucket_count;
  stats.key_range = geometry.keys();
  stats.bucket_capacity_records = geometry.bucket_capacity_records;
  return stats;
}

}  // namespace engine_race
