// Where all attached scans are, which chunks are in memory and how many buffers are lent. Evicts
// chunks when memory is short.
//
// Belongs to the coordinator and is guarded by its mutex.
// Owner of the cache; scanners belong to their threads.
// Invariant: chunks that serve a scanner cover its keys from its position to its frontier.
#ifndef ENGINE_RACE_SCAN_SCAN_BOARD_H_
#define ENGINE_RACE_SCAN_SCAN_BOARD_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine_race/base/assert.h"
#include "engine_race/scan/chunk_cache.h"
#include "engine_race/scan/scan_planner.h"
#include "engine_race/scan/scanner.h"

namespace engine_race {

class ScanBoard {
 public:
  explicit ScanBoard(const BufferLayout& layout) : cache_(layout) {}

  // Makes room for as many victims as the cache may hold chunks. std::bad_alloc.
  void ReserveVictims() { victims_.reserve(cache_.max_chunks()); }

  // False when memory for it is refused.
  bool Attach(Scanner* scanner);
  void Detach(Scanner* scanner);
  std::span<Scanner* const> scanners() const { return scanners_; }

  // The planner's choice of the next load. Scans that have waited longest, up to wait number
  // `passed_over`, cannot be served now and do not count as waiting.
  bool ChooseLoad(uint64_t passed_over, NextLoad* load);
  // Whether chunks can be evicted for `load` so that `buffer_count` buffers are free, where
  // `free_buffers` are.
  bool CanMakeRoom(const NextLoad& load, uint32_t buffer_count, uint32_t free_buffers);
  // Evicts them. False, with all still there, when that does not suffice.
  bool MakeRoom(const NextLoad& load, uint32_t buffer_count, uint32_t free_buffers);
  // Evicts chunks until the cache is within its limit, as far as scans allow.
  void FitLimit();
  // Makes scans leave those chunks that are larger than their share, and takes back all doublings.
  void RecallLarge();
  // Takes a chunk out of the cache.
  void Remove(Chunk* chunk);

  // Buffers lent to scans that read for themselves. The scans on the board share the others.
  uint32_t lent_count() const { return lent_count_; }
  void CountLent(uint32_t count) { lent_count_ += count; }
  void CountReturned(uint32_t count) {
    ENGINE_RACE_ASSERT(count <= lent_count_);
    lent_count_ -= count;
  }

  static bool Serves(const Chunk& chunk, const Scanner& scanner) {
    return !chunk.doomed && chunk.cut >= scanner.begin;
  }

  ChunkCache& cache() { return cache_; }
  const ChunkCache& cache() const { return cache_; }

 private:
  ScanSituation Look(uint64_t passed_over = 0);
  void AdvanceFrontier(Scanner* scanner);

  ChunkCache cache_;
  uint32_t lent_count_ = 0;
  std::vector<Scanner*> scanners_;
  // The planner's views, its memory and its answer, with room for all scans and chunks.
  std::vector<ScanView> scan_views_;
  std::vector<ScanReach> reaches_;
  std::vector<Victim> victims_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_SCAN_SCAN_BOARD_H_
