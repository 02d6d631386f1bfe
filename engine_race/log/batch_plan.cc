#include "engine_race/log/batch_plan.h"

#include <algorithm>

namespace engine_race {

void BatchPlan::Fill(const Geometry& geometry, std::span<const WriteBatch::Record> records) {
  constexpr uint32_t kBucketShift = 32;
  records_ = records;
  order_.clear();
  parts_.clear();
  order_.reserve(records.size());
  for (size_t i = 0; i < records.size(); ++i) {
    order_.push_back(uint64_t{geometry.BucketOf(records[i].key)} << kBucketShift | i);
  }
  std::sort(order_.begin(), order_.end());
  for (uint32_t item = 0; item < order_.size(); ++item) {
    const auto bucket = static_cast<uint32_t>(order_[item] >> kBucketShift);
    if (parts_.empty() || parts_.back().bucket != bucket) {
      parts_.emplace_back();
      parts_.back().bucket = bucket;
      parts_.back().begin = item;
    }
    parts_.back().end = item + 1;
  }
  for (const BatchPart& part : parts_) {
    if (part.size() > kMaxUnsortedRecords) SortByKey(part);
  }
}

void BatchPlan::SortByKey(const BatchPart& part) {
  // In one bucket these words are in the order of the records.
  std::sort(order_.begin() + part.begin, order_.begin() + part.end, [this](uint64_t a, uint64_t b) {
    const uint64_t key_a = records_[static_cast<uint32_t>(a)].key;
    const uint64_t key_b = records_[static_cast<uint32_t>(b)].key;
    return key_a != key_b ? key_a < key_b : a < b;
  });
}

KeyRecord BatchPlan::RecordOf(const BatchPart& part, uint32_t item) const {
  const WriteBatch::Record& entry = record(item);
  KeyRecord made;
  made.key = entry.key;
  made.sequence = part.SequenceOf(item);
  made.tombstone = entry.value == nullptr;
  made.value_hash = made.tombstone ? 0 : entry.value_hash;
  return made;
}

void BatchPlan::FillCounts(std::vector<format::BatchIntentEntry>* counts) const {
  counts->clear();
  counts->reserve(parts_.size());
  for (const BatchPart& part : parts_) counts->push_back({part.end_sequence(), part.bucket, 0});
}

}  // namespace engine_race
