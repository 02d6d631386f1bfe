// One scan as the coordinator sees it.
//
// Owned by the scanning thread; all members but those marked are guarded by the coordinator's
// mutex.
#ifndef ENGINE_RACE_SCAN_SCANNER_H_
#define ENGINE_RACE_SCAN_SCANNER_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>

#include "engine_race/scan/chunk.h"

namespace engine_race {

struct Scanner {
  Scanner(uint64_t first_key, uint64_t last_key, uint64_t begin_ticket)
      : last(last_key), begin(begin_ticket), pos(first_key), frontier(first_key) {}

  const uint64_t last;
  const uint64_t begin;  // chunks cut at an earlier ticket may lack writes that this scan must see

  // The key that it wants next, after its chunk if it has one.
  uint64_t pos;
  // It wants nothing after its chunk.
  bool finishing = false;
  Chunk* chunk = nullptr;  // pinned
  ScanClock::time_point taken_time;

  // Chunks that serve it are in memory or on their way for all keys in [pos, frontier), or, when
  // `covered`, up to its last key. Kept by the coordinator while attached.
  uint64_t frontier;
  bool covered = false;

  bool attached = false;
  // It waits for the coordinator, which clears this with a chunk given or none.
  bool waiting = false;
  uint64_t wait_number = 0;
  std::condition_variable answered;

  // Set by the coordinator: leave the chunk, it is not waited for any more. Read by the scanning
  // thread without the mutex.
  std::atomic<bool> detached{false};
};

}  // namespace engine_race

#endif  // ENGINE_RACE_SCAN_SCANNER_H_
