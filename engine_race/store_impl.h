// The parts of an open store, and the steps that its calls share. For engine_race/store.cc and
// engine_race/store_space.cc alone.
//
// Thread safety: that of the calls of Store. Owner of all parts.
#ifndef ENGINE_RACE_STORE_IMPL_H_
#define ENGINE_RACE_STORE_IMPL_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "engine_race/base/clock.h"
#include "engine_race/base/fork_mark.h"
#include "engine_race/base/guarded.h"
#include "engine_race/base/key.h"
#include "engine_race/base/op_stats.h"
#include "engine_race/base/options.h"
#include "engine_race/base/progress.h"
#include "engine_race/base/shared_progress.h"
#include "engine_race/base/status.h"
#include "engine_race/base/value_sink.h"
#include "engine_race/base/write_batch.h"
#include "engine_race/log/bucket_log.h"
#include "engine_race/readers.h"
#include "engine_race/reclaim/reclaimer.h"
#include "engine_race/scan/bounds.h"
#include "engine_race/stats_publisher.h"
#include "engine_race/store.h"
#include "engine_race/store_writer.h"

namespace engine_race {

struct Store::Impl {
  explicit Impl(const Options& o) : options(o), stats(o.latency_stats), began_ns(MonotonicNs()) {}

  // A forked child has neither the threads of the store nor a right to its files, which its parent
  // may have closed meanwhile.
  Status CheckProcess() const { return fork_mark.CheckProcess(); }

  // Whether a view keeps all that it shows where it is, as a copy of the store needs it.
  Status CheckKeepsStill() const {
    if (!options.follow) return Status::Ok();
    return Status(Code::kNotSupported, "a store that follows a writer cannot be copied");
  }

  uint32_t value_bytes() const { return log->geometry().value_bytes(); }

  // With the log: the options need not have told how large its values are.
  Status CheckBudget(bool is_given) {
    const uint32_t value_bytes = log->geometry().value_bytes();
    const uint64_t least_bytes = LeastMemoryBudgetBytes(value_bytes);
    if (options.memory_budget_bytes >= least_bytes) return Status::Ok();
    if (is_given) {
      return Status::InvalidArgument("memory_budget_bytes is " +
                                     std::to_string(options.memory_budget_bytes) +
                                     ", but a store with values of " + std::to_string(value_bytes) +
                                     " bytes needs at least " + std::to_string(least_bytes));
    }
    options.memory_budget_bytes = least_bytes;
    return Status::Ok();
  }

  Status EnsureReaders(Readers::Set** available) {
    ENGINE_RACE_RETURN_IF_ERROR(CheckProcess());
    return readers->Ensure(available);
  }
  Status EnsureIndex(Index** index) {
    Readers::Set* available = nullptr;
    ENGINE_RACE_RETURN_IF_ERROR(EnsureReaders(&available));
    *index = available->index.get();
    return Status::Ok();
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
    return writer->Append(number, value);
  }

  Status WriteBatchOf(const WriteBatch& batch) {
    ENGINE_RACE_RETURN_IF_ERROR(CheckProcess());
    if (batch.value_bytes() != value_bytes()) {
      return Status::InvalidArgument(
          "a batch for values of " + std::to_string(batch.value_bytes()) +
          " bytes: those of the store have " + std::to_string(value_bytes()));
    }
    ENGINE_RACE_RETURN_IF_ERROR(writer->Write(batch));
    stats.CountBatch(batch.put_count(), batch.size() - batch.put_count());
    return Status::Ok();
  }

  Status Read(std::string_view key, ValueSink value) {
    ENGINE_RACE_RETURN_IF_ERROR(CheckKeyOf(log->geometry().keys(), key));
    if (!value.is_set()) return Status::InvalidArgument("the value to read into is null");
    Readers::Set* available = nullptr;
    ENGINE_RACE_RETURN_IF_ERROR(CheckProcess());
    // A read of one key needs one bucket of the index and does not wait for the others.
    const uint64_t decoded = DecodeKey(key.data());
    ENGINE_RACE_RETURN_IF_ERROR(readers->EnsureForRead(decoded, &available));
    const LatencyTimer timer(stats.reads);
    return available->points->Read(decoded, value);
  }

  // Reads `key_count` keys by read(begin, end), in pieces if the caller follows the progress.
  // *read_count: how many keys were read before the caller cancelled.
  template <typename ReadFn>
  static Status ReadInPieces(const Readers::Set& available, const Snapshot* snapshot,
                             size_t key_count, const ProgressFn& on_progress, size_t* read_count,
                             const ReadFn& read) {
    // Reads that are in flight drain at the end of each piece. It is so large that this costs
    // little.
    constexpr size_t kPieceKeys = 4096;
    const size_t piece = on_progress ? kPieceKeys : std::max<size_t>(key_count, 1);
    Snapshot held;
    if (snapshot != nullptr && on_progress) {
      // A view of its own: the caller's function may release the caller's.
      ViewRegistry::View view;
      ENGINE_RACE_RETURN_IF_ERROR(available.index->views().TakeAt(snapshot->view().version, &view));
      held = Snapshot(view);
    }
    SharedProgress progress(on_progress, key_count);
    for (size_t begin = 0; begin < key_count; begin = *read_count) {
      *read_count = std::min(begin + piece, key_count);
      read(begin, *read_count);
      ENGINE_RACE_RETURN_IF_ERROR(progress.Add(*read_count - begin));
    }
    return Status::Ok();
  }

  // Here and below, a null snapshot stands for the latest state.
  Status MultiRead(const Snapshot* snapshot, std::span<const std::string_view> keys,
                   std::span<std::string> values, std::span<Status> statuses,
                   const ProgressFn& on_progress) {
    if (values.size() < keys.size() || statuses.size() < keys.size()) {
      return Status::InvalidArgument("MultiRead: " + std::to_string(keys.size()) + " keys for " +
                                     std::to_string(values.size()) + " values and " +
                                     std::to_string(statuses.size()) + " statuses");
    }
    Readers::Set* available = nullptr;
    uint64_t version = 0;
    ENGINE_RACE_RETURN_IF_ERROR(EnsureReaders(snapshot, &available, &version));
    const LatencyTimer timer(stats.multi_reads);
    size_t read_count = 0;
    const auto read_piece = [&](size_t begin, size_t end) {
      const size_t count = end - begin;
      available->pool->MultiRead(keys.subspan(begin, count), values.subspan(begin, count),
                                 statuses.subspan(begin, count), version);
    };
    Status read =
        ReadInPieces(*available, snapshot, keys.size(), on_progress, &read_count, read_piece);
    for (size_t i = read_count; i < keys.size(); ++i) statuses[i] = read;
    stats.CountKeys(read_count, [statuses](size_t i) { return statuses[i].code(); });
    return read;
  }

  Status MultiReadInto(const Snapshot* snapshot, std::span<const uint64_t> keys, char* values,
                       std::span<Code> codes, const ProgressFn& on_progress) {
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
    const LatencyTimer timer(stats.multi_reads);
    size_t read_count = 0;
    const auto read_piece = [&](size_t begin, size_t end) {
      const size_t count = end - begin;
      available->pool->MultiRead(keys.subspan(begin, count), values + begin * value_bytes(),
                                 codes.subspan(begin, count), version);
    };
    Status read =
        ReadInPieces(*available, snapshot, keys.size(), on_progress, &read_count, read_piece);
    for (size_t i = read_count; i < keys.size(); ++i) codes[i] = read.code();
    stats.CountKeys(read_count, [codes](size_t i) { return codes[i]; });
    return read;
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
    ENGINE_RACE_RETURN_IF_ERROR(Guarded([&] {
      ENGINE_RACE_RETURN_IF_ERROR(ParseBounds(lower, upper, log->geometry().keys(), &range));
      ENGINE_RACE_RETURN_IF_ERROR(CheckProcess());
      return readers->Ensure(&available);
    }));
    const LatencyTimer timer(stats.ranges);
    // Not guarded: what the visitor throws is the caller's.
    return snapshot == nullptr ? available->ranges->Scan(range.first, range.last, visit)
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
    return available->points->Read(DecodeKey(key.data()), value, version);
  }

  Status Sync() {
    ENGINE_RACE_RETURN_IF_ERROR(CheckProcess());
    const LatencyTimer timer(stats.syncs);
    return log->Sync();
  }

  // Runs a call that copies, compacts or refreshes the store. No counter counts its success.
  template <typename CallFn>
  Status RunUncounted(const CallFn& call) {
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
  // A forked child reports nothing: a thread of its parent may have held a lock of the callback.
  // The call answers even if there is no memory for the message.
  __attribute__((noinline)) void Report(const Status& status) const noexcept {
    if (fork_mark.InChild()) return;
    // Ordinary answers, not failures of the store.
    if (status.code() == Code::kNotFound || status.code() == Code::kBusy) return;
    static_cast<void>(Guarded([&] {
      Log(options.log, LogLevel::kError, status.ToString());
      return Status::Ok();
    }));
  }

  Options options;
  ForkMark fork_mark;
  OpStats stats;
  const uint64_t began_ns;  // of MonotonicNs
  std::unique_ptr<BucketLog> log;
  // Made once the log is open. They end before it: it tells them of appends, and they read from it.
  std::optional<Readers> readers;
  // It writes to the log, which tells the readers. So it ends before both.
  std::optional<Reclaimer> reclaimer;
  std::optional<StoreWriter> writer;
  // Null: the store offers its stats to no other process.
  std::unique_ptr<StatsPublisher> publisher;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_STORE_IMPL_H_
