#include "test/power/write_history.h"

#include <algorithm>
#include <bit>
#include <set>

namespace engine_race::test {
namespace {

constexpr uint32_t kThreadShift = 32;

void ApplyTo(uint64_t key, uint64_t version, Contents* contents) {
  if (version == 0) {
    contents->erase(key);
  } else {
    (*contents)[key] = version;
  }
}

}  // namespace

uint64_t LaneNames::KeyOf(uint32_t bucket, uint32_t thread, uint64_t number) const {
  const auto bits = static_cast<uint32_t>(std::countr_zero(bucket_count));
  const uint64_t high = bits == 0 ? 0 : uint64_t{bucket} << (64 - bits);
  return high | uint64_t{thread} << kThreadShift | number;
}

uint32_t LaneNames::LaneOf(uint64_t key) const {
  const auto bits = static_cast<uint32_t>(std::countr_zero(bucket_count));
  const auto bucket = static_cast<uint32_t>(bits == 0 ? 0 : key >> (64 - bits));
  return bucket * kThreadCount + static_cast<uint32_t>(key >> kThreadShift) % kThreadCount;
}

size_t WriteHistory::Begin(uint64_t key, uint64_t version, uint64_t batch) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<Write>& writes = lanes_[names_.LaneOf(key)].writes;
  writes.push_back({key, version, batch, tick_++});
  return writes.size() - 1;
}

void WriteHistory::Acknowledge(uint64_t key, size_t number, bool durable) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Lane& lane = lanes_[names_.LaneOf(key)];
  lane.writes[number].end_tick = tick_++;
  lane.acknowledged = number + 1;
  if (durable) lane.durable = number + 1;
}

std::vector<size_t> WriteHistory::Acknowledged() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<size_t> counts;
  for (const Lane& lane : lanes_) counts.push_back(lane.acknowledged);
  return counts;
}

void WriteHistory::MarkDurable(const std::vector<size_t>& acknowledged) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (size_t i = 0; i < lanes_.size(); ++i) {
    lanes_[i].durable = std::max(lanes_[i].durable, acknowledged[i]);
  }
}

std::vector<size_t> WriteHistory::Durable() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<size_t> counts;
  for (const Lane& lane : lanes_) counts.push_back(lane.durable);
  return counts;
}

std::vector<size_t> WriteHistory::Begun() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<size_t> counts;
  for (const Lane& lane : lanes_) counts.push_back(lane.writes.size());
  return counts;
}

Contents WriteHistory::Whole() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  Contents whole;
  for (const Lane& lane : lanes_) {
    whole.insert(lane.base.begin(), lane.base.end());
    for (const Write& write : lane.writes) ApplyTo(write.key, write.version, &whole);
  }
  return whole;
}

uint64_t WriteHistory::RecordCount(uint32_t bucket) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  uint64_t count = 0;
  for (uint32_t i = 0; i < LaneNames::kThreadCount; ++i) {
    const Lane& lane = lanes_[bucket * LaneNames::kThreadCount + i];
    count += lane.most_base_records + lane.writes.size();
  }
  return count;
}

// Which numbers of writes, from `from` to `to`, leave what was seen.
bool WriteHistory::FindFit(const Lane& lane, size_t from, size_t to, const Contents& seen,
                           Fit* fit) {
  Contents now = lane.base;
  bool found = false;
  for (size_t count = 0; count <= to; ++count) {
    if (count > 0) ApplyTo(lane.writes[count - 1].key, lane.writes[count - 1].version, &now);
    if (count < from || now != seen) continue;
    if (!found) fit->least = count;
    fit->most = count;
    found = true;
  }
  return found;
}

// Whether every write that is surely missing was still under way, or not begun, when those that
// surely survived began.
bool WriteHistory::OrderHolds(uint32_t bucket, const LossBounds& bounds,
                              const std::vector<Fit>& fits) const {
  uint64_t last_survivor_began = 0;
  uint64_t first_missing_ended = ~uint64_t{0};
  for (uint32_t i = 0; i < LaneNames::kThreadCount; ++i) {
    const uint32_t index = bucket * LaneNames::kThreadCount + i;
    const std::vector<Write>& writes = lanes_[index].writes;
    const Fit& fit = fits[index];
    if (fit.least > 0) {
      last_survivor_began = std::max(last_survivor_began, writes[fit.least - 1].begin_tick);
    }
    if (fit.most < bounds.begun[index]) {
      first_missing_ended = std::min(first_missing_ended, writes[fit.most].end_tick);
    }
  }
  return last_survivor_began < first_missing_ended;
}

// A batch of which some write surely survived and another is surely missing. 0: there is none.
uint64_t WriteHistory::TornBatch(const LossBounds& bounds, const std::vector<Fit>& fits) const {
  std::set<uint64_t> survived;
  std::set<uint64_t> missing;
  for (size_t i = 0; i < lanes_.size(); ++i) {
    for (size_t n = 0; n < bounds.begun[i]; ++n) {
      const uint64_t batch = lanes_[i].writes[n].batch;
      if (batch == 0) continue;
      if (n < fits[i].least) survived.insert(batch);
      if (n >= fits[i].most) missing.insert(batch);
    }
  }
  for (const uint64_t batch : survived) {
    if (missing.contains(batch)) return batch;
  }
  return 0;
}

std::string WriteHistory::Describe(uint32_t index, const LossBounds& bounds,
                                   const Contents& seen) const {
  constexpr uint64_t kShown = 40;
  const Lane& lane = lanes_[index];
  const auto text = [](uint64_t key, uint64_t version) {
    return " " + std::to_string(key & 0xffffffff) + ":" + std::to_string(version);
  };
  std::string line = "bucket " + std::to_string(index / LaneNames::kThreadCount) + " thread " +
                     std::to_string(index % LaneNames::kThreadCount) + ": " +
                     std::to_string(lane.most_base_records) + " records before, " +
                     std::to_string(bounds.durable[index]) + " to " +
                     std::to_string(bounds.begun[index]) + " writes may be there\n  before:";
  for (const auto& [key, version] : lane.base) line += text(key, version);
  const size_t first = bounds.begun[index] - std::min(bounds.begun[index], kShown);
  line += "\n  writes from " + std::to_string(first) + ":";
  for (size_t i = first; i < bounds.begun[index]; ++i) {
    line += text(lane.writes[i].key, lane.writes[i].version);
  }
  line += "\n  seen:";
  for (const auto& [key, version] : seen) line += text(key, version);
  return line + "\n";
}

WriteHistory::Outcome WriteHistory::Judge(const LossBounds& bounds, const Contents& seen,
                                          WriteHistory* next) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  Outcome outcome;
  std::vector<Contents> seen_in(lanes_.size());
  for (const auto& [key, version] : seen) seen_in[names_.LaneOf(key)].emplace(key, version);
  std::vector<Fit> fits(lanes_.size());
  for (uint32_t i = 0; i < lanes_.size(); ++i) {
    if (!FindFit(lanes_[i], bounds.durable[i], bounds.begun[i], seen_in[i], &fits[i])) {
      outcome.complaint += "no prefix leaves this: " + Describe(i, bounds, seen_in[i]);
    }
  }
  if (!outcome.complaint.empty()) return outcome;
  for (uint32_t bucket = 0; bucket < names_.bucket_count; ++bucket) {
    if (OrderHolds(bucket, bounds, fits)) continue;
    outcome.complaint += "a write survived that began after a lost one was acknowledged:\n";
    for (uint32_t i = 0; i < LaneNames::kThreadCount; ++i) {
      const uint32_t index = bucket * LaneNames::kThreadCount + i;
      outcome.complaint += Describe(index, bounds, seen_in[index]);
    }
    return outcome;
  }
  if (TornBatch(bounds, fits) != 0) {
    outcome.complaint += "a part of a batch survived:\n";
    for (uint32_t i = 0; i < lanes_.size(); ++i) {
      outcome.complaint += Describe(i, bounds, seen_in[i]);
    }
    return outcome;
  }
  outcome.good = true;
  for (uint32_t i = 0; i < lanes_.size(); ++i) {
    const Fit& fit = fits[i];
    Lane& after = next->lanes_[i];
    after.least_base_records = lanes_[i].least_base_records + fit.least;
    after.most_base_records = lanes_[i].most_base_records + fit.most;
    outcome.least_records += after.least_base_records;
    outcome.most_records += after.most_base_records;
    outcome.lost_writes += bounds.begun[i] - fit.most;
    after.base = std::move(seen_in[i]);
  }
  return outcome;
}

}  // namespace engine_race::test
