#include "engine_race/scan/scan_planner.h"

#include <algorithm>
#include <limits>

#include "engine_race/base/assert.h"

namespace engine_race {

namespace {

// A chunk takes at most this part of a convoy's share of the memory before it is doubled, and this
// part of all memory then. Chunks read ahead take at most that part of a share.
constexpr uint32_t kChunksOfShare = 4;
constexpr uint32_t kDoubledChunks = 2;
constexpr uint32_t kAheadsOfShare = 2;

bool IsInOrder(std::span<const ScanView> scans) {
  return std::is_sorted(scans.begin(), scans.end(),
                        [](const ScanView& a, const ScanView& b) { return a.pos < b.pos; });
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
};

uint32_t ShareBuffers(const ScanSituation& situation) {
  return situation.limit_buffers / std::max(1u, CountConvoys(situation));
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
    const ChunkMap& chunks = situation.chunks;
    const auto ahead = static_cast<uint32_t>(chunks.BuffersBetween(
        chunks.FirstEndingFrom(scan.pos), chunks.FirstBeginningFrom(scan.frontier)));
    if (ahead > max_ahead_buffers || (found && ahead >= load->ahead_buffers)) continue;
    found = true;
    load->key = scan.frontier;
    load->last = scan.last;
    load->begin = scan.begin;
    load->ahead_buffers = ahead;
  }
  return found;
}

// Divides the chunks from the first scan on. FindGap and FindUnwanted set the rest of a reach.
void FindReaches(const ScanSituation& situation) {
  const ChunkMap& chunks = situation.chunks;
  std::vector<ScanReach>& reaches = *situation.reaches;
  reaches.clear();
  Convoy convoy;
  ChunkMap::Iterator convoy_begin = chunks.end();
  uint64_t wanted_last = 0;
  for (const ScanView& scan : situation.scans) {
    const ChunkMap::Iterator begin = chunks.FirstEndingFrom(scan.pos);
    if (convoy.Add(scan)) convoy_begin = begin;
    wanted_last = std::max(wanted_last, scan.last);
    // Scans before the same chunk share a reach. The last of them knows what all of them want.
    if (!reaches.empty() && reaches.back().begin == begin) reaches.pop_back();
    if (!reaches.empty()) reaches.back().end = begin;
    reaches.push_back({begin, begin, begin, chunks.end(), convoy_begin, convoy.end,
                       convoy.at_end_of_keys, wanted_last});
  }
}

// The first chunk of the reach that begins at `key` or after it, or its end.
ChunkMap::Iterator FirstInReach(const ChunkMap& chunks, const ScanReach& reach, uint64_t key) {
  return std::clamp(chunks.FirstBeginningFrom(key), reach.begin, reach.end);
}

void FindUnwanted(const ChunkMap& chunks, ScanReach* reach) {
  const bool wants_all = reach->wanted_last == std::numeric_limits<uint64_t>::max();
  reach->unwanted = wants_all ? reach->end : FirstInReach(chunks, *reach, reach->wanted_last + 1);
}

// After FindUnwanted.
void FindGap(const ChunkMap& chunks, ScanReach* reach) {
  reach->gap = reach->is_way_to_last_key
                   ? reach->unwanted
                   : std::min(FirstInReach(chunks, *reach, reach->way_end), reach->unwanted);
}

const ChunkMap::Entry& LastOnTheWay(const ScanReach& reach) {
  ChunkMap::Iterator last = reach.gap;
  return *--last;
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
  ENGINE_RACE_ASSERT(IsInOrder(situation.scans));
  *load = NextLoad();
  const uint32_t max_ahead = ShareBuffers(situation) / kAheadsOfShare;
  if (!ChooseWaiting(situation.scans, load) && !ChooseAhead(situation, max_ahead, load)) {
    return false;
  }
  JoinAll(situation, load);
  ENGINE_RACE_ASSERT(load->key <= load->last && load->max_buffers > 0);
  return true;
}

void ForEachVictim(const ScanSituation& situation, FunctionRef<bool(const Victim&)> visit) {
  ENGINE_RACE_ASSERT(IsInOrder(situation.scans));
  const ChunkMap& chunks = situation.chunks;
  std::vector<ScanReach>& reaches = *situation.reaches;
  FindReaches(situation);
  // False once the visitor has had enough.
  const auto visit_backward = [&](const ChunkMap::Iterator& begin, ChunkMap::Iterator at,
                                  Victim::Kind kind) {
    while (at != begin) {
      --at;
      if (at->chunk->pins == 0 && !visit({at->chunk, kind, at->first_key})) return false;
    }
    return true;
  };
  // The bounds of a reach are looked up once they are needed: most visitors have enough before.
  for (size_t i = reaches.size(); i > 0; --i) {
    ScanReach& reach = reaches[i - 1];
    FindUnwanted(chunks, &reach);
    if (!visit_backward(reach.unwanted, reach.end, Victim::kUnwanted)) return;
  }
  const ChunkMap::Iterator first = reaches.empty() ? chunks.end() : reaches.front().begin;
  if (!visit_backward(chunks.begin(), first, Victim::kUnwanted)) return;
  for (size_t i = reaches.size(); i > 0; --i) {
    ScanReach& reach = reaches[i - 1];
    FindGap(chunks, &reach);
    if (!visit_backward(reach.gap, reach.unwanted, Victim::kBehindGap)) return;
  }
  for (ScanReach& reach : reaches) {
    reach.distance = chunks.BuffersBetween(reach.begin, reach.gap);
    reach.convoy_buffers = chunks.BuffersBetween(reach.convoy_begin, reach.gap);
    if (reach.gap != reach.begin) reach.distance -= LastOnTheWay(reach).buffer_count;
  }
  const uint32_t share = ShareBuffers(situation);
  const auto farthest = [&](Victim::Kind kind) {
    ScanReach* found = nullptr;
    for (ScanReach& reach : reaches) {
      if (reach.gap == reach.begin) continue;
      if (kind == Victim::kFar && reach.convoy_buffers <= share) continue;
      if (found == nullptr || reach.distance > found->distance) found = &reach;
    }
    return found;
  };
  for (const Victim::Kind kind : {Victim::kFar, Victim::kNear}) {
    while (ScanReach* const reach = farthest(kind)) {
      const Victim victim = {LastOnTheWay(*reach).chunk, kind, reach->distance};
      reach->convoy_buffers -= LastOnTheWay(*reach).buffer_count;
      --reach->gap;
      if (reach->gap != reach->begin) reach->distance -= LastOnTheWay(*reach).buffer_count;
      if (victim.chunk->pins == 0 && !visit(victim)) return;
    }
  }
}

bool ChooseVictims(const ScanSituation& situation, const NextLoad& load, uint64_t missing_buffers,
                   size_t least_count, std::vector<Victim>* victims) {
  victims->clear();
  uint64_t gained = 0;
  const auto is_enough = [&] {
    return gained >= missing_buffers && victims->size() >= least_count;
  };
  if (is_enough()) return true;
  ForEachVictim(situation, [&](const Victim& victim) {
    if (victim.kind == Victim::kNear && !load.insists) return false;
    if (victim.kind == Victim::kFar && !load.waited_for && victim.distance <= load.ahead_buffers) {
      return false;
    }
    gained += victim.chunk->buffers.size();
    victims->push_back(victim);
    return !is_enough();
  });
  const bool enough = is_enough();
  if (!enough) victims->clear();
  return enough;
}

}  // namespace engine_race
