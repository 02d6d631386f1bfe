#include "engine_race/scan/scan_board.h"

#include <algorithm>
#include <new>

#include "engine_race/base/assert.h"

namespace engine_race {

bool ScanBoard::Attach(Scanner* scanner) {
  ENGINE_RACE_ASSERT(!scanner->attached);
  try {
    const size_t count = scanners_.size() + 1;
    if (scan_views_.capacity() < count) scan_views_.reserve(2 * count);
    if (reaches_.capacity() < count) reaches_.reserve(2 * count);
    scanners_.push_back(scanner);
  } catch (const std::bad_alloc&) {
    return false;
  }
  scanner->attached = true;
  scanner->frontier = scanner->pos;
  return true;
}

void ScanBoard::Detach(Scanner* scanner) {
  ENGINE_RACE_ASSERT(scanner->attached && !scanner->waiting && scanner->chunk == nullptr);
  *std::find(scanners_.begin(), scanners_.end(), scanner) = scanners_.back();
  scanners_.pop_back();
  scanner->attached = false;
}

// All as it is now.
ScanSituation ScanBoard::Look(uint64_t passed_over) {
  scan_views_.clear();
  for (Scanner* scanner : scanners_) {
    if (scanner->finishing) continue;
    AdvanceFrontier(scanner);
    const bool waits = scanner->waiting && scanner->wait_number > passed_over;
    scan_views_.push_back({scanner->pos, scanner->last, scanner->begin, scanner->frontier,
                           scanner->covered, waits ? scanner->wait_number : 0, scanner->insists,
                           scanner->doublings});
  }
  std::sort(scan_views_.begin(), scan_views_.end(),
            [](const ScanView& a, const ScanView& b) { return a.pos < b.pos; });
  const uint32_t limit = cache_.pool().limit();
  return {scan_views_, cache_.chunks(), limit - std::min(limit, lent_count_), &reaches_};
}

// A chunk that failed counts as loaded until a scan comes to it and waits. Then it is loaded again.
void ScanBoard::AdvanceFrontier(Scanner* scanner) {
  if (scanner->covered) return;
  scanner->frontier = std::max(scanner->frontier, scanner->pos);
  while (const Chunk* chunk = cache_.Find(scanner->frontier)) {
    if (!chunk->doomed && !Serves(*chunk, *scanner)) return;
    if (chunk->last_key >= scanner->last) {
      scanner->covered = true;
      return;
    }
    scanner->frontier = chunk->last_key + 1;
  }
}

bool ScanBoard::ChooseLoad(uint64_t passed_over, NextLoad* load) {
  return engine_race::ChooseLoad(Look(passed_over), load);
}

bool ScanBoard::CanMakeRoom(const NextLoad& load, uint32_t buffer_count, uint32_t free_buffers) {
  victims_.clear();
  const uint32_t missing_buffers = buffer_count > free_buffers ? buffer_count - free_buffers : 0;
  if (missing_buffers == 0 && !cache_.full()) return true;
  return ChooseVictims(Look(), load, missing_buffers, cache_.full() ? 1 : 0, &victims_);
}

bool ScanBoard::MakeRoom(const NextLoad& load, uint32_t buffer_count, uint32_t free_buffers) {
  if (!CanMakeRoom(load, buffer_count, free_buffers)) return false;
  for (const Victim& victim : victims_) Remove(victim.chunk);
  return true;
}

void ScanBoard::FitLimit() {
  while (!cache_.FitLimit()) {
    const BufferPool& pool = cache_.pool();
    const uint64_t excess_count = pool.touched_count() - pool.limit();
    uint64_t freed_count = 0;
    victims_.clear();
    ForEachVictim(Look(), [&](const Victim& victim) {
      victims_.push_back(victim);
      freed_count += victim.chunk->buffers.size();
      return freed_count < excess_count;
    });
    if (victims_.empty()) return;
    for (const Victim& victim : victims_) Remove(victim.chunk);
  }
}

void ScanBoard::RecallLarge() {
  for (Scanner* scanner : scanners_) scanner->doublings = 0;
  const uint32_t max_buffers = ChunkBuffers(Look());
  const ChunkMap& chunks = cache_.chunks();
  for (auto at = chunks.begin(); at != chunks.end();) {
    Chunk* const chunk = at->chunk;
    if (chunk->pins == 0 || chunk->reads_left > 0 || chunk->buffers.size() <= max_buffers) {
      ++at;
      continue;
    }
    // Relaxed: to be seen some time.
    chunk->recalled.store(true, std::memory_order_relaxed);
    Remove(chunk);
    at = chunks.FirstEndingFrom(chunk->last_key);
  }
}

void ScanBoard::Remove(Chunk* chunk) {
  for (Scanner* scanner : scanners_) {
    if (scanner->finishing || scanner->pos > chunk->last_key) continue;
    if (scanner->covered ? chunk->first_key <= scanner->last
                         : chunk->first_key < scanner->frontier) {
      scanner->covered = false;
      scanner->frontier = std::max(scanner->pos, chunk->first_key);
    }
  }
  cache_.Remove(chunk);
}

}  // namespace engine_race
