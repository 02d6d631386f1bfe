#include "harness/claims/scan_seeks.h"

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine_race/base/key.h"
#include "engine_race/store.h"
#include "harness/data/mix.h"
#include "harness/data/value_maker.h"
#include "harness/load/fill_keys.h"
#include "harness/load/store_basics.h"
#include "harness/system/process_stats.h"

namespace engine_race::harness {
namespace {

constexpr char kSparseRange[] = "range over few keys, 1024 buckets, us";
constexpr char kSparseRangeWide[] = "range over few keys, 65536 buckets, us";
constexpr char kFirstSeek[] = "first seek after deletes, us";
constexpr char kWalkBack[] = "walk over a paged index backwards, Mkeys/s";
constexpr char kWalkOn[] = "walk over a paged index, Mkeys/s";

// Calls `call` for `seconds` and gives the microseconds of one.
template <typename Call>
Status Time(double seconds, const Call& call, double* us) {
  uint64_t count = 0;
  const uint64_t begin_ns = NowNs();
  do {
    ENGINE_RACE_RETURN_IF_ERROR(call(count++));
  } while (SecondsSince(begin_ns) < seconds);
  *us = SecondsSince(begin_ns) * 1e6 / static_cast<double>(count);
  return Status::Ok();
}

// Whether a walk over `count` keys whose sum is `sum` has found all.
Status IsAll(const std::vector<uint64_t>& keys, uint64_t count, uint64_t sum) {
  uint64_t wanted = 0;
  for (const uint64_t key : keys) wanted += key;
  if (count == keys.size() && sum == wanted) return Status::Ok();
  return Status::Corruption("a walk has found other keys");
}

}  // namespace

Status CompareSparseSeeks(const ScanShape& shape, ClaimRounds* rounds) {
  constexpr uint32_t kBucketCounts[] = {1024, kMaxBucketCount};
  std::unique_ptr<Store> stores[2];
  Iterator iterators[2];
  std::vector<Turn> turns;
  const std::vector<char> value(kValueSize);
  for (uint32_t i = 0; i < 2; ++i) {
    Options options = QuietOptions();
    options.bucket_count = kBucketCounts[i];
    ENGINE_RACE_RETURN_IF_ERROR(Store::Open(
        options, shape.dir + "/sparse-" + std::to_string(options.bucket_count), &stores[i]));
    for (uint64_t key = 0; key < shape.key_count; ++key) {
      ENGINE_RACE_RETURN_IF_ERROR(
          stores[i]->Write(KeyBytes(MixAt(shape.seed, key)).view(), {value.data(), value.size()}));
    }
    ENGINE_RACE_RETURN_IF_ERROR(stores[i]->NewIterator({}, &iterators[i]));
    turns.emplace_back([&, i] {
      const auto seek = [&](uint64_t number) {
        iterators[i].Seek(KeyBytes(MixAt(~shape.seed, number)).view());
        return iterators[i].status();
      };
      const auto range = [&](uint64_t) {
        uint64_t count = 0;
        const Status status =
            stores[i]->Range("", "", [&](std::string_view, std::string_view) { ++count; });
        if (!status.ok() || count == shape.key_count) return status;
        return Status::Corruption("a range has found other keys");
      };
      double us = 0;
      ENGINE_RACE_RETURN_IF_ERROR(Time(shape.seconds, seek, &us));
      rounds->Note(i == 0 ? kSparseSeek : kSparseSeekWide, us);
      ENGINE_RACE_RETURN_IF_ERROR(Time(shape.seconds, range, &us));
      rounds->Note(i == 0 ? kSparseRange : kSparseRangeWide, us);
      return Status::Ok();
    });
  }
  return rounds->Run(
      {shape.round_count}, turns,
      {{"range over few keys, growth over buckets", kSparseRangeWide, kSparseRange}});
}

Status SeekAfterDeletes(const ScanShape& shape, ClaimRounds* rounds) {
  const Options options = QuietOptions();
  const std::string dir = shape.dir + "/deletes";
  ENGINE_RACE_RETURN_IF_ERROR(FillKeyLogs(options, dir, shape.key_count, shape.seed));
  const std::vector<uint64_t> keys = FilledKeys(GeometryFrom(options), shape.key_count, shape.seed);
  std::unique_ptr<Store> store;
  ENGINE_RACE_RETURN_IF_ERROR(Store::Open(options, dir, &store));
  Iterator builds_index;
  ENGINE_RACE_RETURN_IF_ERROR(store->NewIterator({}, &builds_index));
  builds_index.Release();
  for (size_t i = 0; i < keys.size() / 2; ++i) {
    ENGINE_RACE_RETURN_IF_ERROR(store->Delete(KeyBytes(keys[i]).view()));
  }
  const auto seek = [&](uint64_t) {
    Iterator iterator;
    ENGINE_RACE_RETURN_IF_ERROR(store->NewIterator({}, &iterator));
    iterator.SeekToFirst();
    ENGINE_RACE_RETURN_IF_ERROR(iterator.status());
    if (iterator.Valid() && DecodeKey(iterator.key().data()) == keys[keys.size() / 2]) {
      return Status::Ok();
    }
    return Status::Corruption("a seek has found another key");
  };
  double us = 0;
  ENGINE_RACE_RETURN_IF_ERROR(Time(0, seek, &us));
  rounds->Note(kFirstSeek, us);
  // The seeks have what they step over merged meanwhile.
  ENGINE_RACE_RETURN_IF_ERROR(Time(shape.seconds, seek, &us));
  return rounds->Run({shape.round_count}, {[&] {
                       ENGINE_RACE_RETURN_IF_ERROR(Time(shape.seconds, seek, &us));
                       rounds->Note(kSeekAfterDeletes, us);
                       return Status::Ok();
                     }});
}

Status WalkPagedKeys(const ScanShape& shape, ClaimRounds* rounds) {
  Options options = QuietOptions();
  options.index_memory_bytes = 0;
  const std::string dir = shape.dir + "/paged-keys";
  ENGINE_RACE_RETURN_IF_ERROR(FillKeyLogs(options, dir, shape.key_count, shape.seed));
  const std::vector<uint64_t> keys = FilledKeys(GeometryFrom(options), shape.key_count, shape.seed);
  std::unique_ptr<Store> store;
  ENGINE_RACE_RETURN_IF_ERROR(Store::Open(options, dir, &store));
  Iterator iterator;
  ENGINE_RACE_RETURN_IF_ERROR(store->NewIterator({}, &iterator));
  const auto walk = [&](bool backwards) {
    uint64_t count = 0;
    uint64_t sum = 0;
    const uint64_t begin_ns = NowNs();
    if (backwards) {
      for (iterator.SeekToLast(); iterator.Valid(); iterator.Prev(), ++count) {
        sum += DecodeKey(iterator.key().data());
      }
    } else {
      for (iterator.SeekToFirst(); iterator.Valid(); iterator.Next(), ++count) {
        sum += DecodeKey(iterator.key().data());
      }
    }
    const double mkeys = static_cast<double>(count) / 1e6 / SecondsSince(begin_ns);
    rounds->Note(backwards ? kWalkBack : kWalkOn, mkeys);
    ENGINE_RACE_RETURN_IF_ERROR(iterator.status());
    return IsAll(keys, count, sum);
  };
  ENGINE_RACE_RETURN_IF_ERROR(
      rounds->Run({shape.round_count}, {[&] { return walk(false); }, [&] { return walk(true); }}));
  rounds->Settle(kPagedKeyWalk, std::min(rounds->Median(kWalkOn), rounds->Median(kWalkBack)));
  return Status::Ok();
}

}  // namespace engine_race::harness
