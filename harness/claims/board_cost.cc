#include "harness/claims/board_cost.h"

#include <memory>
#include <vector>

#include "engine_race/scan/scan_board.h"
#include "harness/system/process_stats.h"

namespace engine_race::harness {
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
