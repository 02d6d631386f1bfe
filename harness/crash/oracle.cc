#include "harness/crash/oracle.h"
#include "harness/data/mix.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace engine_race::crash {
namespace {

constexpr uint64_t Pack(uint32_t key_index, uint32_t version) {
  return (uint64_t{key_index} + 1) << 32 | version;
}

void RaiseTo(std::atomic<uint32_t>& value, uint32_t at_least) {
  uint32_t seen = value.load();
  while (seen < at_least && !value.compare_exchange_weak(seen, at_least)) {
  }
}

}  // namespace

Oracle::Oracle(uint32_t max_key_count, uint32_t max_thread_count)
    : states_(max_key_count),
      threads_(max_thread_count),
      keys_(max_key_count),
      by_rank_(max_key_count) {}

void Oracle::Reset(const Shape& shape) {
  key_count_ = shape.key_count;
  delete_permille_ = shape.delete_permille;
  salt_ = shape.seed;
  for (uint32_t i = 0; i < key_count_; ++i) {
    KeyState& state = states_[i];
    state.started.store(0);
    state.floor.store(0);
    state.observed.store(0);
    state.base = 0;
    state.settled = kAbsent;
    keys_[i] = KeyAt(shape, i);
  }
  uint32_t* ranks = by_rank_.data();
  std::iota(ranks, ranks + key_count_, 0);
  std::sort(ranks, ranks + key_count_, [&](uint32_t a, uint32_t b) { return keys_[a] < keys_[b]; });
  for (uint32_t rank = 1; rank < key_count_; ++rank) {
    if (keys_[ranks[rank]] == keys_[ranks[rank - 1]]) {
      throw std::logic_error("two keys of one shape are the same");
    }
  }
  for (size_t t = 0; t < threads_.size(); ++t) threads_[t].acknowledged.store(0);
  StartCycle();
}

void Oracle::StartCycle() {
  for (size_t t = 0; t < threads_.size(); ++t) threads_[t].running.store(0);
}

bool Oracle::Settle() {
  for (uint32_t i = 0; i < key_count_; ++i) {
    if (states_[i].observed.load() == 0) return false;
  }
  for (uint32_t i = 0; i < key_count_; ++i) {
    KeyState& state = states_[i];
    state.settled = state.observed.load() - 1;
    state.base = state.started.load();
    state.floor.store(state.base);
    state.observed.store(0);
  }
  return true;
}

// All accesses are sequentially consistent. Each writer stores `running` before it draws its
// version. So a writer that draws a later version must see that `running`, or that it has ended.
Ticket Oracle::Begin(uint32_t thread, uint32_t key_index) {
  KeyState& state = states_[key_index];
  threads_[thread].running.store(Pack(key_index, state.started.load() + 1));
  Ticket ticket{key_index, state.started.fetch_add(1) + 1, 0};
  ticket.floor = ticket.version;
  for (uint32_t t = 0; t < threads_.size(); ++t) {
    if (t == thread) continue;
    const uint64_t running = threads_[t].running.load();
    if (running >> 32 == Pack(key_index, 0) >> 32) {
      ticket.floor = std::min(ticket.floor, static_cast<uint32_t>(running));
    }
  }
  return ticket;
}

void Oracle::End(uint32_t thread, const Ticket& ticket) {
  RaiseTo(states_[ticket.key_index].floor, ticket.floor);
  threads_[thread].running.store(0);
  threads_[thread].acknowledged.fetch_add(1);
}

bool Oracle::IsDelete(uint32_t key_index, uint32_t version) const {
  return harness::Mix64(salt_ + keys_[key_index] * 31 + version) % 1000 < delete_permille_;
}

bool Oracle::Allows(uint32_t key_index, uint32_t floor, uint32_t version) const {
  const KeyState& state = states_[key_index];
  if (floor <= state.base && version == state.settled) return true;
  const uint32_t first = std::max(floor, state.base + 1);
  const uint32_t last = state.started.load();
  if (version != kAbsent) {
    return version >= first && version <= last && !IsDelete(key_index, version);
  }
  for (uint32_t v = first; v <= last; ++v) {
    if (IsDelete(key_index, v)) return true;
  }
  return false;
}

bool Oracle::Observe(uint32_t key_index, uint32_t version, uint32_t* earlier) {
  uint32_t seen = 0;
  if (states_[key_index].observed.compare_exchange_strong(seen, version + 1)) return true;
  *earlier = seen - 1;
  return seen == version + 1;
}

std::string Oracle::Describe(uint32_t key_index, uint32_t floor) const {
  const KeyState& state = states_[key_index];
  const uint32_t first = std::max(floor, state.base + 1);
  const uint32_t last = state.started.load();
  std::string text;
  if (floor <= state.base) {
    text = state.settled == kAbsent ? "nothing" : "version " + std::to_string(state.settled);
    text += " as last verified";
  }
  if (first > last) return text;
  if (!text.empty()) text += ", or ";
  text += "a version in " + std::to_string(first) + ".." + std::to_string(last);
  std::string deletes;
  for (uint32_t v = first; v <= last && deletes.size() < 40; ++v) {
    if (IsDelete(key_index, v)) deletes += " " + std::to_string(v);
  }
  return text + (deletes.empty() ? " (no deletes)" : " (deletes:" + deletes + ")");
}

uint64_t Oracle::AcknowledgedCount() const {
  uint64_t sum = 0;
  for (size_t t = 0; t < threads_.size(); ++t) sum += threads_[t].acknowledged.load();
  return sum;
}

}  // namespace engine_race::crash
