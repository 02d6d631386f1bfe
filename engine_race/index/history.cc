#include "engine_race/index/history.h"

#include <algorithm>
#include <array>
#include <utility>

#include "engine_race/base/assert.h"

namespace engine_race {
namespace {

// The median is estimated from a sample of this many records.
constexpr size_t kSampleCount = 64;

bool IsInOrder(const UndoRecord& before, const UndoRecord& after) {
  return before.key < after.key ||
         (before.key == after.key && before.superseded_at <= after.superseded_at);
}

bool AreInOrder(const std::vector<UndoRecord>& records) {
  const auto is_not = [](const UndoRecord& a, const UndoRecord& b) { return !IsInOrder(a, b); };
  return std::adjacent_find(records.begin(), records.end(), is_not) == records.end();
}

}  // namespace

History::History(std::vector<UndoRecord> records) : records_(std::move(records)) {
  ENGINE_RACE_ASSERT(!records_.empty());
  ENGINE_RACE_ASSERT(AreInOrder(records_));
  for (const UndoRecord& record : records_)
    end_version_ = std::max(end_version_, record.superseded_at);
  std::array<uint64_t, kSampleCount> sample = {};
  const size_t count = std::min(records_.size(), kSampleCount);
  for (size_t i = 0; i < count; ++i) {
    sample[i] = records_[i * records_.size() / count].superseded_at;
  }
  const auto middle = sample.begin() + static_cast<ptrdiff_t>(count / 2);
  std::nth_element(sample.begin(), middle, sample.begin() + static_cast<ptrdiff_t>(count));
  sweep_version_ = *middle;
}

size_t History::Rank(uint64_t key) const {
  const auto found =
      std::lower_bound(records_.begin(), records_.end(), key,
                       [](const UndoRecord& record, uint64_t bound) { return record.key < bound; });
  return static_cast<size_t>(found - records_.begin());
}

bool History::Find(uint64_t key, uint64_t version, ValueRef* ref) const {
  if (version >= end_version_) return false;
  for (size_t i = Rank(key); i < records_.size() && records_[i].key == key; ++i) {
    if (records_[i].superseded_at <= version) continue;
    *ref = records_[i].ref;
    return true;
  }
  return false;
}

std::shared_ptr<const History> History::Sweep(const std::shared_ptr<const History>& history,
                                              const LiveVersions& live) {
  if (live.empty()) return nullptr;
  const auto visit = [&](const auto& keep) {
    UndoFilter filter(live);
    const std::span<const UndoRecord> records = history->records_;
    for (size_t i = 0; i < records.size();) {
      const uint64_t key = records[i].key;
      filter.BeginKey();
      for (; i < records.size() && records[i].key == key; ++i) filter.Add(records[i], keep);
      filter.EndKey([] { return false; }, keep);
    }
  };
  size_t count = 0;
  visit([&count](const UndoRecord&) { ++count; });
  if (count == history->records_.size()) return history;
  if (count == 0) return nullptr;
  std::vector<UndoRecord> kept;
  kept.reserve(count);
  visit([&kept](const UndoRecord& record) { kept.push_back(record); });
  return std::make_shared<const History>(std::move(kept));
}

}  // namespace engine_race
