#include "harness/claims/scan_seeks.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "engine_race/log/geometry.h"
#include "harness/load/fill_keys.h"
#include "harness/load/store_basics.h"
#include "harness/measure/timed.h"

namespace engine_race::harness {

Status ScanRanges::Prepare() {
  return FillKeyLogs(QuietOptions(), shape_.dir + "/keys-store", shape_.key_count, shape_.seed);
}

Status ScanRanges::Open(bool cache_iterators) {
  kept_.Release();
  store_.reset();
  Options options = QuietOptions();
  options.cache_iterators = cache_iterators;
  ENGINE_RACE_RETURN_IF_ERROR(Store::Open(options, shape_.dir + "/keys-store", &store_));
  // Also builds the index.
  return store_->NewIterator({}, &kept_);
}

Status ScanRanges::Noted(const std::string& name, uint64_t seed, const QueryRun& run) {
  if (run.query_count == 0) return Status::IOError(name + ": a query failed");
  if (key_sums_.try_emplace(seed, run.key_sum).first->second != run.key_sum) {
    return Status::Corruption(name + ": other keys");
  }
  rounds_.Note(name, run.ns_per_range());
  return Status::Ok();
}

template <typename Answer>
Status ScanRanges::Queries(const std::string& name, const Answer& answer) {
  Status status;
  const uint64_t seed = NextSeed(name);
  const QueryRun run = RunQueries(seed, shape_.seconds, [&](const RangeStarts& starts) {
    uint64_t sum = 0;
    Status answered = answer(starts, &sum);
    if (!answered.ok()) status = std::move(answered);
    return sum;
  });
  ENGINE_RACE_RETURN_IF_ERROR(status);
  return Noted(name, seed, run);
}

Status ScanRanges::Kept(const std::string& name, bool at_snapshots) {
  return Queries(name, [&](const RangeStarts& starts, uint64_t* sum) {
    Snapshot snapshot;
    if (at_snapshots) ENGINE_RACE_RETURN_IF_ERROR(store_->GetSnapshot(&snapshot));
    ENGINE_RACE_RETURN_IF_ERROR(at_snapshots ? kept_.Refresh(snapshot) : kept_.Refresh());
    for (const uint64_t start : starts) *sum += SumRange<std::string_view>(&kept_, start);
    return Status::Ok();
  });
}

Status ScanRanges::OneForEach(const std::string& name) {
  return Queries(name, [this](const RangeStarts& starts, uint64_t* sum) {
    Snapshot snapshot;
    ENGINE_RACE_RETURN_IF_ERROR(store_->GetSnapshot(&snapshot));
    IteratorOptions options;
    options.snapshot = &snapshot;
    for (const uint64_t start : starts) {
      Iterator iterator;
      ENGINE_RACE_RETURN_IF_ERROR(store_->NewIterator(options, &iterator));
      *sum += SumRange<std::string_view>(&iterator, start);
      iterator.Release();
    }
    return Status::Ok();
  });
}

template <typename Call>
Status ScanRanges::Calls(const std::string& name, const Call& call, double* ns) {
  constexpr uint64_t kCallsPerLook = 1000;
  TimedPoint point;
  ENGINE_RACE_RETURN_IF_ERROR(RunTimed(
      1, shape_.seconds / 2,
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
  rounds_.Note(name, *ns);
  return Status::Ok();
}

Status ScanRanges::SetUp(const std::string& name) {
  Snapshot snapshot;
  ENGINE_RACE_RETURN_IF_ERROR(store_->GetSnapshot(&snapshot));
  IteratorOptions options;
  options.snapshot = &snapshot;
  const auto set_up = [&] {
    Iterator iterator;
    Status made = store_->NewIterator(options, &iterator);
    iterator.Release();
    return made;
  };
  double unused = 0;
  return Calls(name, set_up, &unused);
}

Status ScanRanges::Refresh() {
  double latest_ns = 0;
  ENGINE_RACE_RETURN_IF_ERROR(Calls(
      "refresh to the latest, ns", [this] { return kept_.Refresh(); }, &latest_ns));
  Snapshot snapshot;
  ENGINE_RACE_RETURN_IF_ERROR(store_->GetSnapshot(&snapshot));
  double snapshot_ns = 0;
  ENGINE_RACE_RETURN_IF_ERROR(Calls(
      "refresh to the same snapshot, ns", [&] { return kept_.Refresh(snapshot); }, &snapshot_ns));
  rounds_.Note(kRefresh, std::max(latest_ns, snapshot_ns));
  return Status::Ok();
}

Status ScanRanges::CompareIterators() {
  ENGINE_RACE_RETURN_IF_ERROR(Open(/*cache_iterators=*/false));
  ENGINE_RACE_RETURN_IF_ERROR(
      rounds_.Run({shape_.round_count},
                  {[this] { return Kept(kKeptRange); }, [this] { return OneForEach(kEachRange); },
                   [this] { return SetUp(kSetup); }, [this] { return Refresh(); }}));
  ENGINE_RACE_RETURN_IF_ERROR(Open(/*cache_iterators=*/true));
  return rounds_.Run({shape_.round_count},
                     {[this] { return Kept("range, kept iterator, beside the cache, ns"); },
                      [this] { return OneForEach("range, iterator for each, cache on, ns"); },
                      [this] { return SetUp("iterator set up, cache on, ns"); }});
}

Status ScanRanges::CompareRocks(const MakeRocksFn& make, nlohmann::json* settings) {
  std::unique_ptr<RocksRanges> rocks;
  ENGINE_RACE_RETURN_IF_ERROR(
      make(shape_.dir + "/rocksdb",
           FilledKeys(GeometryFrom(Options()), shape_.key_count, shape_.seed), &rocks));
  ENGINE_RACE_RETURN_IF_ERROR(Open(/*cache_iterators=*/true));
  const auto run_rocks = [&] {
    const uint64_t seed = NextSeed(kRocksRange);
    return Noted(kRocksRange, seed, rocks->Run(seed, shape_.seconds));
  };
  ENGINE_RACE_RETURN_IF_ERROR(
      rounds_.Run({shape_.round_count},
                  {[this] { return Kept(kLatestRange, /*at_snapshots=*/false); }, run_rocks}));
  *settings = rocks->Describe();
  return Status::Ok();
}

}  // namespace engine_race::harness
