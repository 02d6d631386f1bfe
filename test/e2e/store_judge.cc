#include "test/e2e/store_judge.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "test/test_util.h"

namespace engine_race::test {
namespace {

constexpr uint32_t kWrittenCount = 6;

}  // namespace

StoreJudge::StoreJudge(const StoreTruth& truth) : truth_(truth) {
  const Geometry& geometry = truth.geometry();
  std::set<uint64_t> keys;
  for (uint32_t b = 0; b < geometry.bucket_count; ++b) {
    const StoreTruth::BucketHistory& history = truth.bucket(b);
    buckets_.push_back({{history.record_count}, false, false, false});
    for (const auto& [key, versions] : history.keys) keys.insert(key);
    keys.insert(geometry.FirstKeyOf(b) + 0x123456789);
    keys.insert(geometry.LastKeyOf(b) - 0x123456789);
  }
  keys_.assign(keys.begin(), keys.end());
}

void StoreJudge::AllowCutsFrom(uint32_t bucket, uint64_t lowest) {
  std::vector<uint64_t>& cuts = buckets_[bucket].possible_cuts;
  cuts.resize(truth_.bucket(bucket).record_count - std::min(lowest, cuts.front()) + 1);
  std::iota(cuts.begin(), cuts.end(), truth_.bucket(bucket).record_count + 1 - cuts.size());
  for (auto& [key, version] : written_) {
    if (truth_.geometry().BucketOf(key) == bucket) version = std::nullopt;
  }
}

void StoreJudge::Complain(uint64_t key, const std::string& what) {
  if (complaint_.empty()) {
    complaint_ = "key " + std::to_string(key) + " of bucket " +
                 std::to_string(truth_.geometry().BucketOf(key)) + ": " + what;
  }
}

void StoreJudge::OnRefusal(uint64_t key, const Status& status) {
  ++error_count_;
  if (status.code() != Code::kCorruption && status.code() != Code::kIOError) {
    Complain(key, "an odd answer: " + status.ToString());
  }
  if (buckets_[truth_.geometry().BucketOf(key)].sound) {
    Complain(key, "an undamaged bucket answers " + status.ToString());
  }
}

// The store says that `key` has this version; 0: that it is not there.
void StoreJudge::OnVersion(uint64_t key, uint64_t version) {
  ++right_count_;
  BucketView& view = buckets_[truth_.geometry().BucketOf(key)];
  if (view.unreadable) return Complain(key, "damaged counts or rows were trusted");
  if (view.any) return;
  if (const auto written = written_.find(key); written != written_.end()) {
    if (!written->second || version == *written->second) return;
    return Complain(key, "version " + std::to_string(version) + " after " +
                             std::to_string(*written->second) + " was written");
  }
  std::vector<uint64_t>& cuts = view.possible_cuts;
  std::erase_if(cuts, [&](uint64_t cut) { return VersionAt(key, cut) != version; });
  if (cuts.empty()) {
    Complain(key, version == 0 ? "not found; it should be there"
                               : "version " + std::to_string(version) + " should not be there");
  }
}

// What the key reads as when only the first `cut` records of its bucket are there.
uint64_t StoreJudge::VersionAt(uint64_t key, uint64_t cut) const {
  const auto& histories = HistoryOf(key).keys;
  const auto history = histories.find(key);
  if (history == histories.end()) return 0;
  const auto next = std::lower_bound(
      history->second.begin(), history->second.end(), cut,
      [](const StoreTruth::Version& record, uint64_t bound) { return record.slot < bound; });
  return next == history->second.begin() ? 0 : std::prev(next)->version;
}

void StoreJudge::OnRead(uint64_t key, const Status& status, std::string_view value) {
  if (status.code() == Code::kNotFound) return OnVersion(key, 0);
  if (!status.ok()) return OnRefusal(key, status);
  uint64_t version = 0;
  if (!ParseValue(key, value, &version)) return Complain(key, "wrong bytes");
  OnVersion(key, version);
}

void StoreJudge::Range(Store* store) {
  auto next = keys_.begin();
  std::vector<uint64_t> skipped;
  const Status status = store->Range({}, {}, [&](std::string_view key, std::string_view value) {
    const uint64_t number = DecodeKey(key.data());
    for (; next != keys_.end() && *next < number; ++next) skipped.push_back(*next);
    if (next == keys_.end() || *next != number) {
      return Complain(number, "a phantom in the range, or the range does not ascend");
    }
    ++next;
    OnRead(number, Status::Ok(), value);
  });
  if (!status.ok()) {
    ++error_count_;
    const bool all_sound = std::all_of(buckets_.begin(), buckets_.end(),
                                       [](const BucketView& view) { return view.sound; });
    if (all_sound || (status.code() != Code::kCorruption && status.code() != Code::kIOError)) {
      Complain(0, "Range: " + status.ToString());
    }
    return;
  }
  skipped.insert(skipped.end(), next, keys_.end());
  for (const uint64_t key : skipped) OnVersion(key, 0);
}

void StoreJudge::Examine(Store* store) {
  std::string value;
  for (const uint64_t key : keys_) {
    const Status status = store->Read(KeyOf(key), &value);
    OnRead(key, status, value);
  }
  Range(store);
}

void StoreJudge::WriteSome(Store* store, uint64_t version, uint64_t seed) {
  std::string value;
  for (uint32_t i = 0; i < kWrittenCount; ++i) {
    const uint64_t key = keys_[(seed * 0x9e3779b97f4a7c15 + i * 0xd1b54a32d192ed03) % keys_.size()];
    const bool is_delete = i == kWrittenCount - 1;
    const Status status =
        is_delete ? store->Delete(KeyOf(key)) : store->Write(KeyOf(key), ValueOf(key, version));
    if (!status.ok()) {
      if (status.code() != Code::kFull) OnRefusal(key, status);
      written_[key] = std::nullopt;
      continue;
    }
    written_[key] = is_delete ? 0 : version;
    const Status read = store->Read(KeyOf(key), &value);
    const bool there =
        is_delete ? read.code() == Code::kNotFound : read.ok() && value == ValueOf(key, version);
    if (!there) Complain(key, "just written, and not read back: " + read.ToString());
  }
}

}  // namespace engine_race::test
