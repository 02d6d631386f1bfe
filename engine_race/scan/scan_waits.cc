#include "engine_race/scan/scan_waits.h"

#include "engine_race/base/assert.h"

namespace engine_race {

void ScanWaits::Begin(Scanner* scanner) {
  ENGINE_RACE_ASSERT(!scanner->waiting && scanner->insist_time == Clock::time_point());
  scanner->waiting = true;
  scanner->wait_number = ++wait_count_;
  scanner->wait_load_count = load_count_;
}

void ScanWaits::End(Scanner* scanner) {
  ENGINE_RACE_ASSERT(scanner->waiting);
  scanner->waiting = false;
  scanner->insist_time = Clock::time_point();
  const uint64_t wait_chunks = ChunksWaited(*scanner);
  if (wait_chunks > longest_wait_chunks()) {
    longest_wait_chunks_.store(wait_chunks, std::memory_order_relaxed);  // under the mutex
  }
}

bool ScanWaits::IsPatienceOver(Scanners scanners, uint64_t key, Clock::time_point now) {
  for (Scanner* scanner : scanners) {
    if (!scanner->waiting || scanner->pos != key) continue;
    if (scanner->insist_time == Clock::time_point()) scanner->insist_time = now + kTime;
    if (now >= scanner->insist_time || ChunksWaited(*scanner) >= kChunks) return true;
  }
  return false;
}

void ScanWaits::InsistAll(Scanners scanners) {
  for (Scanner* scanner : scanners) {
    scanner->insists = scanner->insists || scanner->waiting;
    scanner->insist_time = Clock::time_point();
  }
}

ScanWaits::Clock::time_point ScanWaits::NextInsistTime(Scanners scanners) const {
  Clock::time_point next;
  for (const Scanner* scanner : scanners) {
    if (scanner->insist_time == Clock::time_point()) continue;
    if (next == Clock::time_point() || scanner->insist_time < next) next = scanner->insist_time;
  }
  return next;
}

uint64_t ScanWaits::ChunksWaited(const Scanner& scanner) const {
  ENGINE_RACE_ASSERT(scanner.wait_load_count <= load_count_);
  return load_count_ - scanner.wait_load_count;
}

}  // namespace engine_race
