#include "harness/claims/scan_values.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

#include "engine_race/base/key.h"
#include "engine_race/base/memory.h"
#include "harness/data/mix.h"
#include "harness/measure/median.h"
#include "harness/system/disk.h"
#include "harness/system/process_stats.h"

namespace engine_race::harness {

namespace {

constexpr uint64_t kShortRecords = 10;
constexpr uint32_t kWarmPasses = 4;
constexpr uint32_t kPrefetches[] = {1, 10, 64};
constexpr uint64_t kWalkLengths[] = {1, 10, 100, 10000};
// RocksDB with its values in its tables.
constexpr char kShortRangeTables[] = "short range, values, RocksDB's tables, ranges a second";
constexpr char kShortWalkTables[] = "short iterator, values, RocksDB's tables, ranges a second";
constexpr char kColdRangeTables[] = "short range, cold, RocksDB's tables, ranges a second";

// Thrown by a visitor that has what it wants.
struct FirstFound {};

// Touches memory of this size and frees it, so that a virtual machine has its pages before the
// measurement. Its host takes up to 13 us for a page, ten times what its own kernel takes.
Status TouchMemory(uint64_t size_bytes) {
  Region memory;
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(size_bytes, /*huge_pages=*/true, &memory));
  std::memset(memory.data(), 1, size_bytes);
  return Status::Ok();
}

std::string PrefetchFigure(const std::string& how, uint64_t length) {
  return "walks of " + std::to_string(length) + ", " + how + ", a second";
}

}  // namespace

ScanValues::ScanValues(const ScanShape& shape, const Options& options, ClaimRounds* rounds)
    : shape_(shape),
      rounds_(*rounds),
      store_shape_{.dir = shape.dir + "/values-store",
                   .cache_dir = shape.dir,
                   .record_count = shape.key_count,
                   .seed = shape.seed},
      options_(options),
      values_(shape.seed) {}

Status ScanValues::Prepare() {
  constexpr uint32_t kWriters = 4;
  StoreRuns runs(store_shape_);
  ENGINE_RACE_RETURN_IF_ERROR(runs.Fill(options_, kWriters));
  keys_.resize(shape_.key_count);
  for (uint64_t i = 0; i < keys_.size(); ++i) keys_[i] = runs.KeyAt(i);
  std::sort(keys_.begin(), keys_.end());
  return Status::Ok();
}

Status ScanValues::Open() {
  store_.reset();
  DropPageCache(store_shape_.dir);
  ENGINE_RACE_RETURN_IF_ERROR(Store::Open(options_, store_shape_.dir, &store_));
  Iterator builds_index;
  return store_->NewIterator({}, &builds_index);
}

Status ScanValues::WarmFrames() {
  std::vector<char> value(kValueSize);
  for (uint32_t pass = 0; pass < kWarmPasses; ++pass) {
    for (const uint64_t key : keys_) {
      ENGINE_RACE_RETURN_IF_ERROR(store_->ReadInto(key, value.data()));
    }
  }
  return Status::Ok();
}

Status ScanValues::IsRight(uint64_t place, std::string_view key, std::string_view value) const {
  uint64_t version = 0;
  if (place < keys_.size() && key.size() == sizeof(uint64_t) &&
      DecodeKey(key.data()) == keys_[place] && value.size() == kValueSize &&
      values_.CheckEnds(keys_[place], value.data(), &version)) {
    return Status::Ok();
  }
  return Status::Corruption("a scan has a wrong record");
}

// Of the first of `length` records.
uint64_t ScanValues::DrawPlace(uint64_t length) {
  return AsBelow(MixAt(shape_.seed, drawn_++), keys_.size() - length);
}

template <typename Walk>
Status ScanValues::Walks(const std::string& name, uint64_t length, const Walk& walk) {
  double us = 0;
  ENGINE_RACE_RETURN_IF_ERROR(TimeCalls(
      shape_.seconds, [&](uint64_t) { return walk(DrawPlace(length)); }, &us));
  rounds_.Note(name, 1e6 / us);
  return Status::Ok();
}

Status ScanValues::RangeOnce(uint64_t place) {
  const KeyBytes lower(keys_[place]);
  const KeyBytes upper(keys_[place + kShortRecords]);
  Status right;
  uint64_t at = place;
  ENGINE_RACE_RETURN_IF_ERROR(
      store_->Range(lower.view(), upper.view(), [&](std::string_view key, std::string_view value) {
        if (right.ok()) right = IsRight(at++, key, value);
      }));
  if (right.ok() && at != place + kShortRecords) return Status::Corruption("a range lacks records");
  return right;
}

Status ScanValues::IterateOnce(Iterator* iterator, uint64_t place, uint64_t length) const {
  iterator->Seek(KeyBytes(keys_[place]).view());
  for (uint64_t i = 0; i < length; ++i) {
    if (i > 0) iterator->Next();
    const std::string_view value = iterator->value();
    ENGINE_RACE_RETURN_IF_ERROR(iterator->status());
    ENGINE_RACE_RETURN_IF_ERROR(IsRight(place + i, iterator->key(), value));
  }
  return Status::Ok();
}

Status ScanValues::CursorOnce(KvCursor* cursor, uint64_t place) const {
  cursor->Seek(keys_[place]);
  for (uint64_t i = 0; i < kShortRecords; ++i) {
    if (i > 0) cursor->Next();
    const char* const value = cursor->Valid() ? cursor->Value() : nullptr;
    if (value == nullptr) return Status::Corruption("RocksDB lacks a record");
    const KeyBytes key(cursor->Key());
    ENGINE_RACE_RETURN_IF_ERROR(IsRight(place + i, key.view(), {value, kValueSize}));
  }
  return Status::Ok();
}

Status ScanValues::OurRanges(const char* name) {
  return Walks(name, kShortRecords, [this](uint64_t place) { return RangeOnce(place); });
}

// A cursor is at the state as of its making.
Status ScanValues::TheirRanges(const char* name, RocksRecords* records) {
  return Walks(name, kShortRecords,
               [&](uint64_t place) { return CursorOnce(records->NewCursor().get(), place); });
}

Status ScanValues::MakeOpponents(const MakeRocksRecordsFn& make, bool warm, Opponents* made,
                                 nlohmann::json* settings) {
  const KeySource keys = store_shape_.keys();
  RocksRecordsShape shape;
  shape.record_count = shape_.key_count;
  // All values and the blocks' overhead; else as much as the engine may take for everything.
  shape.cache_bytes = warm ? 3 * shape_.key_count * kValueSize : options_.memory_budget_bytes;
  shape.key_at = [&](uint64_t i) { return keys.KeyAt(i); };
  shape.fill = [this](uint64_t key, char* value) { values_.Fill(key, 1, value); };
  shape.caches_values = warm;
  ENGINE_RACE_RETURN_IF_ERROR(make(shape_.dir + "/rocksdb-blobs", shape, &made->blobs));
  shape.values_in_tables = true;
  ENGINE_RACE_RETURN_IF_ERROR(make(shape_.dir + "/rocksdb-tables", shape, &made->tables));
  *settings = {{"blobs", made->blobs->Describe()}, {"tables", made->tables->Describe()}};
  return Status::Ok();
}

Status ScanValues::CompareWarm(const MakeRocksRecordsFn& make, nlohmann::json* settings) {
  Opponents rocks;
  ENGINE_RACE_RETURN_IF_ERROR(MakeOpponents(make, /*warm=*/true, &rocks, settings));
  ENGINE_RACE_RETURN_IF_ERROR(Open());
  ENGINE_RACE_RETURN_IF_ERROR(WarmFrames());
  Iterator iterator;
  ENGINE_RACE_RETURN_IF_ERROR(store_->NewIterator({}, &iterator));
  const std::unique_ptr<KvCursor> blobs = rocks.blobs->NewCursor();
  const std::unique_ptr<KvCursor> tables = rocks.tables->NewCursor();
  for (KvCursor* const cursor : {blobs.get(), tables.get()}) {
    for (uint64_t place = 0; place + kShortRecords <= keys_.size(); place += kShortRecords) {
      ENGINE_RACE_RETURN_IF_ERROR(CursorOnce(cursor, place));
    }
  }
  const auto our_walks = [&] {
    return Walks(kShortWalk, kShortRecords, [&, this](uint64_t place) {
      return IterateOnce(&iterator, place, kShortRecords);
    });
  };
  const auto their_walks = [&](const char* name, KvCursor* cursor) {
    return Walks(name, kShortRecords,
                 [&, this](uint64_t place) { return CursorOnce(cursor, place); });
  };
  return rounds_.Run({.count = shape_.round_count, .warms_up = true},
                     {[&] { return OurRanges(kShortRange); },
                      [&] { return TheirRanges(kShortRangeRocks, rocks.blobs.get()); },
                      [&] { return TheirRanges(kShortRangeTables, rocks.tables.get()); }, our_walks,
                      [&] { return their_walks(kShortWalkRocks, blobs.get()); },
                      [&] { return their_walks(kShortWalkTables, tables.get()); }},
                     {{"short range, over RocksDB's tables", kShortRange, kShortRangeTables}});
}

Status ScanValues::CompareCold(const MakeRocksRecordsFn& make, nlohmann::json* settings) {
  Opponents rocks;
  ENGINE_RACE_RETURN_IF_ERROR(MakeOpponents(make, /*warm=*/false, &rocks, settings));
  const auto ours = [&] {
    ENGINE_RACE_RETURN_IF_ERROR(Open());
    return OurRanges(kColdRange);
  };
  // RocksDB has read its indexes and filters once the first round is over.
  return rounds_.Run({.count = shape_.round_count, .warms_up = true},
                     {ours, [&] { return TheirRanges(kColdRangeRocks, rocks.blobs.get()); },
                      [&] { return TheirRanges(kColdRangeTables, rocks.tables.get()); }},
                     {{"short range, cold, over RocksDB's tables", kColdRange, kColdRangeTables}});
}

Status ScanValues::FirstRecord(double* us) {
  const uint64_t place = DrawPlace(1);
  const KeyBytes lower(keys_[place]);
  Status right = Status::Corruption("a range has no first record");
  const uint64_t begin_ns = NowNs();
  try {
    ENGINE_RACE_RETURN_IF_ERROR(
        store_->Range(lower.view(), {}, [&](std::string_view key, std::string_view value) {
          right = IsRight(place, key, value);
          throw FirstFound();
        }));
  } catch (const FirstFound&) {
    *us = SecondsSince(begin_ns) * 1e6;
  }
  return right;
}

Status ScanValues::FirstRecords(bool warm) {
  if (warm) {
    ENGINE_RACE_RETURN_IF_ERROR(Open());
    ENGINE_RACE_RETURN_IF_ERROR(WarmFrames());
  }
  const auto turn = [&] {
    if (!warm) ENGINE_RACE_RETURN_IF_ERROR(Open());
    std::vector<double> all_us;
    const uint64_t begin_ns = NowNs();
    do {
      ENGINE_RACE_RETURN_IF_ERROR(FirstRecord(&all_us.emplace_back()));
    } while (SecondsSince(begin_ns) < shape_.seconds);
    rounds_.Note(warm ? kFirstWarm : kFirstCold, MedianOf(all_us));
    return Status::Ok();
  };
  return rounds_.Run({shape_.round_count}, {turn});
}

Status ScanValues::Prefetch(const std::string& how, uint32_t prefetch_records, uint64_t length,
                            bool keeps) {
  ENGINE_RACE_RETURN_IF_ERROR(Open());
  IteratorOptions options;
  options.prefetch_records = prefetch_records;
  Iterator iterator;
  ENGINE_RACE_RETURN_IF_ERROR(store_->NewIterator(options, &iterator));
  return Walks(PrefetchFigure(how, length), length, [&, this](uint64_t place) {
    if (!keeps) ENGINE_RACE_RETURN_IF_ERROR(store_->NewIterator(options, &iterator));
    return IterateOnce(&iterator, place, length);
  });
}

Status ScanValues::Prefetches() {
  double worst = std::numeric_limits<double>::max();
  for (const uint64_t wanted : kWalkLengths) {
    const uint64_t length = std::min(wanted, keys_.size() / 2);
    std::vector<Turn> turns = {
        [&] { return Prefetch("default", 0, length, true); },
        [&] { return Prefetch("default, an iterator for each", 0, length, false); }};
    std::vector<RoundRatio> ratios;
    for (const uint32_t prefetch : kPrefetches) {
      const std::string how = std::to_string(prefetch) + " at once";
      turns.emplace_back([=, this] { return Prefetch(how, prefetch, length, true); });
      ratios.push_back({"walks of " + std::to_string(length) + ", default over " + how,
                        PrefetchFigure("default", length), PrefetchFigure(how, length)});
    }
    ENGINE_RACE_RETURN_IF_ERROR(rounds_.Run({shape_.round_count}, turns, ratios));
    for (const RoundRatio& ratio : ratios) worst = std::min(worst, rounds_.Median(ratio.name));
  }
  rounds_.Settle(kPrefetchDefault, worst);
  return Status::Ok();
}

template <typename Walk>
Status ScanValues::Whole(const char* name, const Walk& walk) {
  uint64_t place = 0;
  Status right;
  const uint64_t begin_ns = NowNs();
  ENGINE_RACE_RETURN_IF_ERROR(walk([&](std::string_view key, std::string_view value) {
    if (right.ok()) right = IsRight(place++, key, value);
  }));
  const double seconds = SecondsSince(begin_ns);
  ENGINE_RACE_RETURN_IF_ERROR(right);
  if (place != keys_.size()) return Status::Corruption("a scan lacks records");
  rounds_.Note(name, static_cast<double>(place * kValueSize) / seconds * 1e-6);
  return Status::Ok();
}

Status ScanValues::WalkIterator(const VisitFn& visit) {
  Iterator iterator;
  ENGINE_RACE_RETURN_IF_ERROR(store_->NewIterator({}, &iterator));
  for (iterator.SeekToFirst(); iterator.Valid(); iterator.Next()) {
    const std::string_view value = iterator.value();
    if (iterator.Valid()) visit(iterator.key(), value);
  }
  return iterator.status();
}

Status ScanValues::WholeWalks() {
  const auto cold = [this](const char* name, const auto& walk) {
    ENGINE_RACE_RETURN_IF_ERROR(Open());
    return Whole(name, walk);
  };
  const auto live = [&](const auto& visit) { return store_->Range({}, {}, visit); };
  const auto at_snapshot = [&](const auto& visit) {
    Snapshot snapshot;
    ENGINE_RACE_RETURN_IF_ERROR(store_->GetSnapshot(&snapshot));
    return store_->Range(snapshot, {}, {}, visit);
  };
  const auto iterate = [&](const auto& visit) { return WalkIterator(visit); };
  return rounds_.Run({shape_.round_count}, {[&] { return cold(kLiveScan, live); },
                                            [&] { return cold(kSnapshotScan, at_snapshot); },
                                            [&] { return cold(kIteratorWalk, iterate); }});
}

Status ScanValues::InMemory(uint64_t key_count) {
  ENGINE_RACE_RETURN_IF_ERROR(RepeatedWalks());
  return HotReads(key_count);
}

Status ScanValues::RepeatedWalks() {
  const auto iterate = [&](const auto& visit) { return WalkIterator(visit); };
  return rounds_.Run({shape_.round_count}, {[&] {
                       store_.reset();
                       ENGINE_RACE_RETURN_IF_ERROR(TouchMemory(2 * shape_.key_count * kValueSize));
                       ENGINE_RACE_RETURN_IF_ERROR(Open());
                       ENGINE_RACE_RETURN_IF_ERROR(Whole(kFirstWalk, iterate));
                       return Whole(kSecondWalk, iterate);
                     }});
}

Status ScanValues::HotReads(uint64_t key_count) {
  const uint64_t count = std::min<uint64_t>(key_count, keys_.size());
  // Spread over all keys.
  const uint64_t step = keys_.size() / count;
  std::vector<char> value(kValueSize);
  const auto read = [&](bool at_snapshot) {
    ENGINE_RACE_RETURN_IF_ERROR(Open());
    Snapshot snapshot;
    if (at_snapshot) ENGINE_RACE_RETURN_IF_ERROR(store_->GetSnapshot(&snapshot));
    const auto read_place = [&](uint64_t place) {
      const uint64_t key = keys_[place / step * step];
      ENGINE_RACE_RETURN_IF_ERROR(at_snapshot ? store_->ReadInto(snapshot, key, value.data())
                                              : store_->ReadInto(key, value.data()));
      return IsRight(place / step * step, KeyBytes(key).view(), {value.data(), kValueSize});
    };
    for (uint64_t i = 0; i < kWarmPasses * count; ++i) {
      ENGINE_RACE_RETURN_IF_ERROR(read_place(i % count * step));
    }
    return Walks(at_snapshot ? kSnapshotHotReads : kLiveHotReads, 1, read_place);
  };
  return rounds_.Run({shape_.round_count},
                     {[&] { return read(false); }, [&] { return read(true); }});
}

}  // namespace engine_race::harness
