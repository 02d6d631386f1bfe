#include "harness/claims/scan_seeks.h"

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine_race/base/key.h"
#include "engine_race/scan/scan_board.h"
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
      ENGINE_RACE_RETURN_IF_ERROR(TimeCalls(shape.seconds, seek, &us));
      rounds->Note(i == 0 ? kSparseSeek : kSparseSeekWide, us);
      ENGINE_RACE_RETURN_IF_ERROR(TimeCalls(shape.seconds, range, &us));
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
  ENGINE_RACE_RETURN_IF_ERROR(TimeCalls(0, seek, &us));
  rounds->Note(kFirstSeek, us);
  // The seeks have what they step over merged meanwhile.
  ENGINE_RACE_RETURN_IF_ERROR(TimeCalls(shape.seconds, seek, &us));
  return rounds->Run({shape.round_count}, {[&] {
                       ENGINE_RACE_RETURN_IF_ERROR(TimeCalls(shape.seconds, seek, &us));
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

namespace {

constexpr char kBoardCostFew[] = "a load on a board of a 64th of the chunks, us";
constexpr char kBoardCostAlone[] = "a load on a board of 64k chunks for one scan, us";
constexpr uint64_t kChunkKeys = 1000;

// Chunk i covers the keys [1000 i, 1000 i + 999]. The keys fill twice as many chunks as the board
// holds.
class FullBoard {
 public:
  Status Init(uint32_t chunk_count, uint32_t scan_count) {
    end_key_ = 2 * chunk_count * kChunkKeys;
    ENGINE_RACE_RETURN_IF_ERROR(board_.cache().Allocate(chunk_count, nullptr, Placement()));
    board_.ReserveVictims();
    for (uint32_t i = 0; i < chunk_count; ++i) {
      ENGINE_RACE_RETURN_IF_ERROR(Add(2 * i * kChunkKeys));
    }
    for (uint32_t i = 0; i < scan_count; ++i) {
      scanners_.push_back(std::make_unique<Scanner>(0, end_key_ - 1, 0));
      scanners_.back()->pos = end_key_ / scan_count * i;
      if (!board_.Attach(scanners_.back().get())) return Status::OutOfMemory("the board's scans");
    }
    return Status::Ok();
  }
  // Makes `load_count` loads. Before each it moves the next scan on by a chunk.
  Status Load(uint32_t load_count) {
    for (uint32_t loaded_count = 0; loaded_count < load_count;) {
      Scanner* const scanner = scanners_[turn_++ % scanners_.size()].get();
      MoveOn(scanner);
      NextLoad load;
      if (!board_.ChooseLoad(/*passed_over=*/0, &load)) continue;
      const uint64_t key = load.key / kChunkKeys * kChunkKeys;
      const uint32_t free_count = board_.cache().pool().free_count();
      if (!board_.MakeRoom(load, 1, free_count)) {
        load.insists = true;
        if (!board_.MakeRoom(load, 1, free_count)) return Status::OutOfMemory("room for a chunk");
      }
      ENGINE_RACE_RETURN_IF_ERROR(Add(key));
      for (const auto& waiting : scanners_) {
        if (board_.cache().Find(waiting->pos) != nullptr) waiting->waiting = false;
      }
      ++loaded_count;
    }
    return Status::Ok();
  }

 private:
  // At the end of the keys a scan begins again.
  void MoveOn(Scanner* scanner) {
    scanner->pos += kChunkKeys;
    if (scanner->pos >= end_key_) {
      scanner->waiting = false;
      board_.Detach(scanner);
      scanner->pos = 0;
      scanner->covered = false;
      static_cast<void>(board_.Attach(scanner));  // there is room for it
    }
    scanner->waiting = board_.cache().Find(scanner->pos) == nullptr;
    if (scanner->waiting) scanner->wait_number = ++wait_count_;
  }
  Status Add(uint64_t first_key) {
    Chunk* const chunk = board_.cache().NewChunk();
    chunk->first_key = first_key;
    chunk->last_key = first_key + kChunkKeys - 1;
    if (!board_.cache().TakeBuffers(1, &chunk->buffers)) return Status::OutOfMemory("a buffer");
    board_.cache().Insert(chunk);
    return Status::Ok();
  }

  uint64_t end_key_ = 0;
  uint64_t wait_count_ = 0;
  uint64_t turn_ = 0;
  std::vector<std::unique_ptr<Scanner>> scanners_;
  ScanBoard board_{BufferLayout()};
};

}  // namespace

Status MeasureBoardCost(const BoardCostShape& shape, ClaimRounds* rounds) {
  struct Side {
    const char* name;
    uint32_t chunk_count;
    uint32_t scan_count;
  };
  const Side sides[] = {{kBoardCost, shape.chunk_count, shape.scan_count},
                        {kBoardCostFew, shape.chunk_count / 64, shape.scan_count},
                        {kBoardCostAlone, shape.chunk_count, 1}};
  std::vector<std::unique_ptr<FullBoard>> boards;
  std::vector<Turn> turns;
  for (const Side& side : sides) {
    boards.push_back(std::make_unique<FullBoard>());
    FullBoard* const board = boards.back().get();
    ENGINE_RACE_RETURN_IF_ERROR(board->Init(side.chunk_count, side.scan_count));
    turns.emplace_back([&shape, rounds, board, side] {
      const uint64_t begin_ns = NowNs();
      ENGINE_RACE_RETURN_IF_ERROR(board->Load(shape.load_count));
      rounds->Note(side.name, SecondsSince(begin_ns) * 1e6 / shape.load_count);
      return Status::Ok();
    });
  }
  return rounds->Run({shape.round_count}, turns);
}

}  // namespace engine_race::harness
