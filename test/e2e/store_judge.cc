#include "test/e2e/store_judge.h"

#include <algorithm>
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
    buckets_.push_back({std::vector<bool>(history.record_count + 1, false), false, false});
    buckets_.back().possible_cuts.back() = true;
    for (const auto& [key, versions] : history.keys) keys.insert(key);
    keys.insert(geometry.FirstKeyOf(b) + 0x123456789);
    keys.insert(geometry.LastKeyOf(b) - 0x123456789);
  }
  keys_.assign(keys.begin(), keys.end());
}

void StoreJudge::AllowCutsFrom(uint32_t bucket, uint64_t lowest) {
  std::vector<bool>& cuts = buckets_[bucket].possible_cuts;
  std::fill(cuts.begin() + static_cast<int64_t>(std::min<uint64_t>(lowest, cuts.size())),
            cuts.end(), true);
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
  if (view.unreadable) return Complain(key, "damaged counts were trusted");
  if (const auto written = written_.find(key); written != written_.end()) {
    if (!written->second || version == *written->second) return;
    return Complain(key, "version " + std::to_string(version) + " after " +
                             std::to_string(*written->second) + " was written");
  }
  const auto& histories = HistoryOf(key).keys;
  const auto history = histories.find(key);
  std::vector<bool> agreeing(view.possible_cuts.size(), false);
  uint64_t current = 0;
  uint64_t cut = 0;
  const auto mark_until = [&](uint64_t end) {
    for (; cut < end; ++cut) agreeing[cut] = current == version && view.possible_cuts[cut];
  };
  if (history != histories.end()) {
    for (const StoreTruth::Version& record : history->second) {
      mark_until(record.slot + 1);
      current = record.version;
    }
  }
  mark_until(agreeing.size());
  view.possible_cuts = agreeing;
  if (std::find(agreeing.begin(), agreeing.end(), true) == agreeing.end()) {
    Complain(key, version == 0 ? "not found; it should be there"
                               : "version " + std::to_string(version) + " should not be there");
  }
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
