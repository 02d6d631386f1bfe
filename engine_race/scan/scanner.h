// One scan as the coordinator sees it.
//
// Owned by the scanning thread; all members are guarded by the coordinator's mutex.
// Invariants: its chunk is pinned; it has a chunk, waits, or has neither, and never both.
#ifndef ENGINE_RACE_SCAN_SCANNER_H_
#define ENGINE_RACE_SCAN_SCANNER_H_

#include <chrono>
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

  // As in ScanView; kept by the coordinator while attached.
  uint64_t frontier;
  bool covered = false;

  bool attached = false;
  // It waits for the coordinator, which clears this with a chunk given or none.
  bool waiting = false;
  uint64_t wait_number = 0;
  // How many chunks had been loaded when it began to wait.
  uint64_t wait_load_count = 0;
  // Since there was no memory for it but what lies before scans behind it: when it will insist.
  // Epoch when it does not wait for that.
  std::chrono::steady_clock::time_point insist_time;
  // It has waited for others long enough; until there is memory for it without that.
  bool insists = false;
  // How often its chunks have been doubled, as in ScanView.
  uint32_t doublings = 0;
  std::condition_variable answered;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_SCAN_SCANNER_H_
