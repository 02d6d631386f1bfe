#include "engine_race/scan/scan_planner.h"

#include <algorithm>

#include "engine_race/base/assert.h"

namespace engine_race {

namespace {

// A chunk takes at most this part of a convoy's share of the memory before it is doubled, and this
// part of all memory then. Chunks read ahead take at most that part of a share.
constexpr uint32_t kChunksOfShare = 4;
constexpr uint32_t kDoubledChunks = 2;
constexpr uint32_t kAheadsOfShare = 2;

// The order that the situation promises: scans by position, chunks by key and apart from one
// another.
bool IsInOrder(const ScanSituation& situation) {
  const bool scans_in_order =
      std::is_sorted(situation.scans.begin(), situation.scans.end(),
                     [](const ScanView& a, const ScanView& b) { return a.pos < b.pos; });
  const bool chunks_apart = std::adjacent_find(situation.chunks.begin(), situation.chunks.end(),
                                               [](const ChunkView& a, const ChunkView& b) {
                                                 return a.last_key >= b.first_key;
                                               }) == situation.chunks.end();
  return scans_in_order && chunks_apart;
}

// A convoy: the scans so far between which all is loaded.
struct Convoy {
  bool empty = true;
  // All is loaded up to here.
  uint64_t end = 0;
  bool at_end_of_keys = false;

  // Takes in the next scan; true when it begins another convoy.
  bool Add(const ScanView& scan) {
    const bool begins = empty || (!at_end_of_keys && scan.pos > end);
    if (begins) *this = {false, scan.pos, false};
    const uint64_t reach = scan.covered ? scan.last + 1 : scan.frontier;
    at_end_of_keys = at_end_of_keys || (scan.covered && reach == 0);
    end = std::max(end, reach);
    return begins;
  }
  bool Holds(const ChunkView& chunk) const {
    return !empty && (at_end_of_keys || chunk.first_key < end);
  }
};

uint32_t ShareBuffers(const ScanSituation& situation) {
  return situation.limit_buffers / std::max(1u, CountConvoys(situation));
}

// The buffers of the chunks in [first_key, end_key).
uint32_t BuffersBetween(std::span<const ChunkView> chunks, uint64_t first_key, uint64_t end_key) {
  auto at =
      std::lower_bound(chunks.begin(), chunks.end(), first_key,
                       [](const ChunkView& chunk, uint64_t key) { return chunk.last_key < key; });
  uint32_t count = 0;
  for (; at != chunks.end() && at->first_key < end_key; ++at) count += at->buffer_count;
  return count;
}

// Extends the load to all that the scans want which lack its key.
void JoinAll(const ScanSituation& situation, NextLoad* load) {
  uint32_t doublings = 0;
  for (const ScanView& scan : situation.scans) {
    if (scan.covered || scan.frontier != load->key) continue;
    load->last = std::max(load->last, scan.last);
    load->begin = std::max(load->begin, scan.begin);
    doublings = std::max(doublings, scan.doublings);
  }
  const uint64_t chunk_buffers = ChunkBuffers(situation);
  const uint64_t most_buffers =
      std::max<uint64_t>(chunk_buffers, situation.limit_buffers / kDoubledChunks);
  load->max_buffers = static_cast<uint32_t>(std::min(chunk_buffers << doublings, most_buffers));
}

// Loads for the scan that has waited longest.
bool ChooseWaiting(std::span<const ScanView> scans, NextLoad* load) {
  const ScanView* first = nullptr;
  for (const ScanView& scan : scans) {
    if (scan.wait_number == 0) continue;
    if (first == nullptr || scan.wait_number < first->wait_number) first = &scan;
  }
  if (first == nullptr) return false;
  load->waited_for = true;
  load->wait_number = first->wait_number;
  load->insists = first->insists;
  load->key = first->pos;
  load->last = first->last;
  load->begin = first->begin;
  return true;
}

// Loads for the scan that will reach the end of its chunks soonest.
bool ChooseAhead(const ScanSituation& situation, uint32_t max_ahead_buffers, NextLoad* load) {
  bool found = false;
  const auto& scans = situation.scans;
  for (size_t i = 0; i < scans.size(); ++i) {
    const ScanView& scan = scans[i];
    if (scan.covered) continue;
    // A later one that lacks the same is nearer to it.
    if (i + 1 < scans.size() && !scans[i + 1].covered && scans[i + 1].frontier == scan.frontier) {
      continue;
    }
    const uint32_t ahead = BuffersBetween(situation.chunks, scan.pos, scan.frontier);
    if (ahead > max_ahead_buffers || (found && ahead >= load->ahead_buffers)) continue;
    found = true;
    load->key = scan.frontier;
    load->last = scan.last;
    load->begin = scan.begin;
    load->ahead_buffers = ahead;
  }
  return found;
}

}  // namespace

uint32_t CountConvoys(const ScanSituation& situation) {
  Convoy convoy;
  uint32_t count = 0;
  for (const ScanView& scan : situation.scans) count += convoy.Add(scan) ? 1 : 0;
  return count;
}

uint32_t ChunkBuffers(const ScanSituation& situation) {
  return std::max(1u, ShareBuffers(situation) / kChunksOfShare);
}

bool ChooseLoad(const ScanSituation& situation, NextLoad* load) {
  ENGINE_RACE_ASSERT(IsInOrder(situation));
  *load = NextLoad();
  const uint32_t max_ahead = ShareBuffers(situation) / kAheadsOfShare;
  if (!ChooseWaiting(situation.scans, load) && !ChooseAhead(situation, max_ahead, load)) {
    return false;
  }
  JoinAll(situation, load);
  ENGINE_RACE_ASSERT(load->key <= load->last && load->max_buffers > 0);
  return true;
}

void RankVictims(const ScanSituation& situation, std::vector<Victim>* victims) {
  ENGINE_RACE_ASSERT(IsInOrder(situation));
  victims->clear();
  const uint32_t share = ShareBuffers(situation);
  size_t next_scan = 0;
  uint64_t wanted_last = 0;
  Convoy convoy;
  uint64_t convoy_buffers = 0;
  uint64_t distance = 0;  // from the scan before the chunk, in buffers
  for (uint32_t i = 0; i < situation.chunks.size(); ++i) {
    const ChunkView& chunk = situation.chunks[i];
    for (; next_scan < situation.scans.size(); ++next_scan) {
      const ScanView& scan = situation.scans[next_scan];
      if (scan.pos > chunk.last_key) break;
      wanted_last = std::max(wanted_last, scan.last);
      if (convoy.Add(scan)) convoy_buffers = 0;
      distance = 0;
    }
    const bool on_the_way = convoy.Holds(chunk);
    if (on_the_way) convoy_buffers += chunk.buffer_count;
    if (!chunk.held) {
      if (next_scan == 0 || chunk.first_key > wanted_last) {
        victims->push_back({i, Victim::kUnwanted, chunk.first_key});
      } else if (!on_the_way) {
        victims->push_back({i, Victim::kBehindGap, chunk.first_key});
      } else {
        victims->push_back({i, convoy_buffers <= share ? Victim::kNear : Victim::kFar, distance});
      }
    }
    distance += chunk.buffer_count;
  }
  std::sort(victims->begin(), victims->end(), [](const Victim& a, const Victim& b) {
    return a.kind != b.kind ? a.kind > b.kind : a.distance > b.distance;
  });
}

bool ChooseVictims(const ScanSituation& situation, const NextLoad& load, uint64_t missing_buffers,
                   size_t least_count, std::vector<Victim>* victims) {
  RankVictims(situation, victims);
  uint64_t gained = 0;
  size_t count = 0;
  for (const Victim& victim : *victims) {
    if (gained >= missing_buffers && count >= least_count) break;
    if (victim.kind == Victim::kNear && !load.insists) break;
    if (victim.kind == Victim::kFar && !load.waited_for && victim.distance <= load.ahead_buffers) {
      break;
    }
    ENGINE_RACE_ASSERT(!situation.chunks[victim.chunk].held);
    gained += situation.chunks[victim.chunk].buffer_count;
    ++count;
  }
  const bool enough = gained >= missing_buffers && count >= least_count;
  victims->resize(enough ? count : 0);
  return enough;
}

}  // namespace engine_race
