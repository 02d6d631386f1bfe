#include "harness/claims/scan_ranges.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "engine_race/log/geometry.h"
#include "harness/load/fill_keys.h"
#include "harness/load/store_runs.h"
#include "harness/measure/timed.h"

namespace harness {

using engine_race::Iterator;
using engine_race::IteratorOptions;
using engine_race::Options;
using engine_race::Snapshot;
using engine_race::Status;
using engine_race::Store;

namespace {

constexpr char kKeptRange[] = "range, kept iterator, ns";
constexpr char kEachRange[] = "range, iterator for each, cache off, ns";
constexpr char kKeptBesideCached[] = "range, kept iterator, beside the cache, ns";
constexpr char kCachedRange[] = "range, iterator for each, cache on, ns";
constexpr char kCachedSetup[] = "iterator set up, cache on, ns";
constexpr char kRefreshLatest[] = "refresh to the latest, ns";
constexpr char kRefreshSnapshot[] = "refresh to the same snapshot, ns";
constexpr char kLatestRange[] = "range, kept iterator at the latest, ns";
constexpr char kRocksRange[] = "range, RocksDB, ns";

uint64_t SumRanges(Iterator* iterator, const RangeStarts& starts) {
  uint64_t sum = 0;
  for (const uint64_t start : starts) sum += SumRange<std::string_view>(iterator, start);
  return sum;
}

// Answers a query with the kept iterator, which it refreshes to the query's snapshot.
Status AnswerKept(Store* store, Iterator* kept, const RangeStarts& starts, uint64_t* sum) {
  Snapshot snapshot;
  ENGINE_RACE_RETURN_IF_ERROR(store->GetSnapshot(&snapshot));
  ENGINE_RACE_RETURN_IF_ERROR(kept->Refresh(snapshot));
  *sum = SumRanges(kept, starts);
  return Status::Ok();
}

// Answers a query with a new iterator for each of its ranges.
Status AnswerWithOneForEach(Store* store, const RangeStarts& starts, uint64_t* sum) {
  Snapshot snapshot;
  ENGINE_RACE_RETURN_IF_ERROR(store->GetSnapshot(&snapshot));
  IteratorOptions options;
  options.snapshot = &snapshot;
  *sum = 0;
  for (const uint64_t start : starts) {
    Iterator iterator;
    ENGINE_RACE_RETURN_IF_ERROR(store->NewIterator(options, &iterator));
    *sum += SumRange<std::string_view>(&iterator, start);
    iterator.Release();
  }
  return Status::Ok();
}

// Makes calls for `seconds` and gives the nanoseconds of one.
template <typename Call>
Status NsPerCall(double seconds, const Call& call, double* ns) {
  constexpr uint64_t kCallsPerLook = 1000;
  TimedPoint point;
  ENGINE_RACE_RETURN_IF_ERROR(RunTimed(
      1, seconds,
      [&](uint32_t, TimedThread* self) {
        self->Start();
        do {
          for (uint64_t i = 0; i < kCallsPerLook; ++i) ENGINE_RACE_RETURN_IF_ERROR(call());
          self->tally.request_count += kCallsPerLook;
        } while (self->Running());
        return Status::Ok();
      },
      &point));
  *ns = point.seconds * 1e9 / static_cast<double>(point.request_count);
  return Status::Ok();
}

}  // namespace

ScanRanges::~ScanRanges() {
  kept_.Release();
  store_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(store_dir(), ignored);
  std::filesystem::remove_all(rocks_dir(), ignored);
}

Status ScanRanges::Prepare() {
  return FillKeyLogs(QuietOptions(), store_dir(), shape_.key_count, shape_.seed);
}

Status ScanRanges::Open(bool cache_iterators) {
  kept_.Release();
  store_.reset();
  Options options = QuietOptions();
  options.cache_iterators = cache_iterators;
  ENGINE_RACE_RETURN_IF_ERROR(Store::Open(options, store_dir(), &store_));
  // Also builds the index.
  return store_->NewIterator({}, &kept_);
}

// The keys that FillKeyLogs makes, in order.
std::vector<uint64_t> ScanRanges::AllKeys() const {
  const engine_race::Geometry geometry = engine_race::GeometryFrom(Options());
  const std::vector<uint64_t> counts =
      FilledCounts(geometry.bucket_count, shape_.key_count, shape_.seed);
  std::vector<uint64_t> keys;
  keys.reserve(shape_.key_count);
  for (uint32_t bucket = 0; bucket < geometry.bucket_count; ++bucket) {
    const auto begin = static_cast<std::ptrdiff_t>(keys.size());
    for (uint64_t i = 0; i < counts[bucket]; ++i) {
      keys.push_back(FilledKey(geometry, bucket, i, shape_.seed));
    }
    std::sort(keys.begin() + begin, keys.end());
  }
  return keys;
}

Status ScanRanges::Rounds(const std::vector<Turn>& runs) {
  round_ = 0;
  has_key_sum_ = false;
  return AlternatingRounds(shape_.round_count, runs, [this](uint32_t round) {
    round_ = round + 1;
    has_key_sum_ = false;
  });
}

Status ScanRanges::Noted(const std::string& name, const QueryRun& run, const Status& status) {
  ENGINE_RACE_RETURN_IF_ERROR(status);
  if (has_key_sum_ && run.key_sum != key_sum_) return Status::Corruption(name + ": other keys");
  key_sum_ = run.key_sum;
  has_key_sum_ = true;
  rounds_.Note(name, run.ns_per_range());
  return Status::Ok();
}

template <typename Answer>
Status ScanRanges::Queries(const std::string& name, const Answer& answer) {
  Status status;
  const QueryRun run = RunQueries(round_seed(), shape_.seconds, [&](const RangeStarts& starts) {
    uint64_t sum = 0;
    Status answered = answer(starts, &sum);
    if (!answered.ok()) status = std::move(answered);
    return sum;
  });
  return Noted(name, run, status);
}

Status ScanRanges::Kept(const std::string& name) {
  return Queries(name, [this](const RangeStarts& starts, uint64_t* sum) {
    return AnswerKept(store_.get(), &kept_, starts, sum);
  });
}

Status ScanRanges::OneForEach(const std::string& name) {
  return Queries(name, [this](const RangeStarts& starts, uint64_t* sum) {
    return AnswerWithOneForEach(store_.get(), starts, sum);
  });
}

Status ScanRanges::KeptAtLatest(const std::string& name) {
  return Queries(name, [this](const RangeStarts& starts, uint64_t* sum) {
    ENGINE_RACE_RETURN_IF_ERROR(kept_.Refresh());
    *sum = SumRanges(&kept_, starts);
    return Status::Ok();
  });
}

template <typename Call>
Status ScanRanges::NsNoted(const std::string& name, const Call& call) {
  double ns = 0;
  ENGINE_RACE_RETURN_IF_ERROR(NsPerCall(shape_.seconds / 2, call, &ns));
  rounds_.Note(name, ns);
  return Status::Ok();
}

Status ScanRanges::SetUp(const std::string& name) {
  Snapshot snapshot;
  ENGINE_RACE_RETURN_IF_ERROR(store_->GetSnapshot(&snapshot));
  IteratorOptions options;
  options.snapshot = &snapshot;
  return NsNoted(name, [&] {
    Iterator iterator;
    Status made = store_->NewIterator(options, &iterator);
    iterator.Release();
    return made;
  });
}

Status ScanRanges::RefreshToLatest(const std::string& name) {
  return NsNoted(name, [this] { return kept_.Refresh(); });
}

Status ScanRanges::RefreshToSnapshot(const std::string& name) {
  Snapshot snapshot;
  ENGINE_RACE_RETURN_IF_ERROR(store_->GetSnapshot(&snapshot));
  return NsNoted(name, [&] { return kept_.Refresh(snapshot); });
}

Status ScanRanges::CompareIterators() {
  ENGINE_RACE_RETURN_IF_ERROR(Open(/*cache_iterators=*/false));
  ENGINE_RACE_RETURN_IF_ERROR(
      Rounds({[this] { return Kept(kKeptRange); }, [this] { return OneForEach(kEachRange); },
              [this] { return SetUp(kSetup); }, [this] { return RefreshToLatest(kRefreshLatest); },
              [this] { return RefreshToSnapshot(kRefreshSnapshot); }}));
  const size_t count = rounds_.rounds(kKeptRange).size();
  for (size_t i = 0; i < count; ++i) {
    rounds_.Note(kRangesGain, rounds_.rounds(kEachRange)[i] / rounds_.rounds(kKeptRange)[i]);
    rounds_.Note(kRefresh,
                 std::max(rounds_.rounds(kRefreshLatest)[i], rounds_.rounds(kRefreshSnapshot)[i]));
  }
  ENGINE_RACE_RETURN_IF_ERROR(Open(/*cache_iterators=*/true));
  return Rounds({[this] { return Kept(kKeptBesideCached); },
                 [this] { return OneForEach(kCachedRange); },
                 [this] { return SetUp(kCachedSetup); }});
}

Status ScanRanges::CompareRocks(const MakeRocksFn& make) {
  std::unique_ptr<RocksRanges> rocks;
  ENGINE_RACE_RETURN_IF_ERROR(make(rocks_dir(), AllKeys(), &rocks));
  ENGINE_RACE_RETURN_IF_ERROR(Open(/*cache_iterators=*/true));
  ENGINE_RACE_RETURN_IF_ERROR(Rounds(
      {[this] { return KeptAtLatest(kLatestRange); },
       [&] {
         const QueryRun run = rocks->Run(round_seed(), shape_.seconds);
         return Noted(kRocksRange, run,
                      run.query_count > 0 ? Status::Ok() : Status::IOError("RocksDB: a query"));
       }}));
  for (size_t i = 0; i < rounds_.rounds(kRocksRange).size(); ++i) {
    rounds_.Note(kVsRocks, rounds_.rounds(kRocksRange)[i] / rounds_.rounds(kLatestRange)[i]);
  }
  rocks_ = rocks->Describe();
  return Status::Ok();
}

}  // namespace harness
