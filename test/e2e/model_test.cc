// Random operations on tiny stores, every result compared with a simple model.
//
// MODEL_SEED makes one store anew, the number that a failure prints.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine_race/log/geometry.h"
#include "test/e2e/engine_fixture.h"
#include "test/e2e/model_keys.h"
#include "test/e2e/model_options.h"
#include "test/sweep.h"

namespace engine_race::test {
namespace {

// One store beside its model.
class ModelRun {
 public:
  explicit ModelRun(uint64_t seed)
      : rng_(seed), geometry_options_(RandomGeometry(rng_)), pool_(GeometryOf(), rng_) {
    bucket_counts_.resize(geometry_options_.bucket_count);
    delete_share_ = rng_() % 3 * 100;
    Reopen();
  }

  void Run(uint64_t op_count) {
    for (uint64_t i = 0; i < op_count && !::testing::Test::HasFatalFailure(); ++i) Step();
    Reopen();
    Range("", "");
  }

 private:
  Geometry GeometryOf() const { return GeometryFrom(geometry_options_); }

  void Reopen() {
    store_.reset();
    // A store keeps its own geometry: the later openings ask for another.
    Options options = exists_ ? Options() : geometry_options_;
    options.value_bytes = rng_() % 2 == 0 && exists_ ? 0 : geometry_options_.value_bytes;
    if (exists_ && rng_() % 2 == 0) options.key_range = GeometryOf().keys();
    exists_ = true;
    options = RandomTuning(options, rng_);
    options.reclaim = rng_() % 2 == 0 ? Reclaim::kOff : Reclaim::kBackground;
    reclaims_ = options.reclaim != Reclaim::kOff;
    ever_reclaimed_ |= reclaims_;
    store_ = OpenStore(dir_.path(), options);
    ASSERT_NE(store_, nullptr);
  }

  void Step() {
    const uint64_t draw = rng_() % 10000;
    if (draw < 100) {
      WriteABatch();
    } else if (draw < 4000) {
      Append(/*is_delete=*/rng_() % 1000 < delete_share_);
    } else if (draw < 9850) {
      Read();
    } else if (draw < 9950) {
      Range(pool_.Bound(rng_), pool_.Bound(rng_));
    } else if (draw < 9960) {
      Range("", "");
    } else if (draw < 9970) {
      Sync();
    } else if (draw < 9995) {
      EXPECT_EQ(store_->Stats().record_count, record_count_);
    } else {
      Reopen();
    }
  }

  void Append(bool is_delete) {
    const uint64_t key = pool_.Pick(rng_);
    FillValue(key, ++version_, value_.data(), value_.size());
    const Status status =
        is_delete ? store_->Delete(KeyOf(key)) : store_->Write(KeyOf(key), value_);
    if (!GeometryOf().keys().Contains(key)) {
      ASSERT_EQ(status.code(), Code::kInvalidArgument) << status.ToString();
      return;
    }
    const uint32_t bucket = GeometryOf().BucketOf(key);
    ExpectAnswer({{bucket, 1}}, status);
    if (!status.ok()) return;
    written_keys_[bucket].insert(key);
    CountAppends(bucket, 1);
    ++record_count_;
    if (is_delete) {
      model_.erase(key);
    } else {
      model_[key] = version_;
    }
  }

  void CountAppends(uint32_t bucket, uint64_t count) {
    bucket_counts_[bucket] += count;
    const bool has_no_free_row = bucket_counts_[bucket] + GeometryOf().row_records() >
                                 geometry_options_.bucket_capacity_records;
    if (!reclaims_ && has_no_free_row) filled_buckets_.insert(bucket);
  }

  // Whether the store has answered rightly to writes of `more` records, by bucket.
  void ExpectAnswer(const std::map<uint32_t, uint64_t>& more, const Status& status) {
    const uint64_t capacity = geometry_options_.bucket_capacity_records;
    const uint64_t row_records = GeometryOf().row_records();
    bool is_full = false;
    bool may_be_full = !reclaims_;
    bool may_be_refused = false;
    for (const auto& [bucket, count] : more) {
      is_full = is_full || bucket_counts_[bucket] + count > capacity;
      // Large batches of few keys may not take the last row.
      may_be_refused = may_be_refused || (reclaims_ && count > row_records &&
                                          bucket_counts_[bucket] + count + row_records > capacity);
      // One row is for movers, one for the tail, and one may be won in part. A bucket that was
      // filled without reclaim has no row for movers.
      may_be_full = may_be_full || filled_buckets_.count(bucket) != 0 ||
                    written_keys_[bucket].size() + count + 3 * row_records > capacity;
    }
    // Moved records may lie where the next ones would be appended.
    if (!is_full && !may_be_refused && !(ever_reclaimed_ && may_be_full)) {
      ASSERT_TRUE(status.ok()) << status.ToString();
    } else if (!ever_reclaimed_) {
      ASSERT_EQ(status.code(), Code::kFull) << status.ToString();
    } else if (!status.ok()) {
      ASSERT_EQ(status.code(), Code::kFull) << status.ToString();
      ASSERT_TRUE(may_be_full || may_be_refused) << status.ToString();
    }
  }

  // Refused as a whole when one of its keys or of its buckets is.
  void WriteABatch() {
    batch_.Clear();
    bool is_outside = false;
    std::map<uint64_t, uint64_t> newest;
    std::map<uint32_t, uint64_t> more;
    const uint64_t size = rng_() % 50 == 0 ? 600 : rng_() % 40;
    for (uint64_t i = 0; i < size; ++i) {
      const uint64_t key = pool_.Pick(rng_);
      const bool is_delete = rng_() % 1000 < delete_share_;
      FillValue(key, ++version_, value_.data(), value_.size());
      const Status put = is_delete ? batch_.Delete(KeyOf(key)) : batch_.Put(KeyOf(key), value_);
      ASSERT_TRUE(put.ok()) << put.ToString();
      newest[key] = is_delete ? 0 : version_;
      if (GeometryOf().keys().Contains(key)) {
        ++more[GeometryOf().BucketOf(key)];
      } else {
        is_outside = true;
      }
    }
    const Status status = store_->Write(batch_);
    if (is_outside) {
      ASSERT_EQ(status.code(), Code::kInvalidArgument) << status.ToString();
      return;
    }
    ExpectAnswer(more, status);
    if (!status.ok()) return;
    for (const auto& [bucket, count] : more) CountAppends(bucket, count);
    record_count_ += size;
    for (const auto& [key, version] : newest) {
      written_keys_[GeometryOf().BucketOf(key)].insert(key);
      model_[key] = version;
      if (version == 0) model_.erase(key);
    }
  }

  void Read() {
    const uint64_t key = rng_() % 50 == 0 ? rng_() : pool_.Pick(rng_);
    const Status status = store_->Read(KeyOf(key), &read_);
    if (!GeometryOf().keys().Contains(key)) {
      ASSERT_EQ(status.code(), Code::kInvalidArgument) << status.ToString();
      return;
    }
    const auto found = model_.find(key);
    if (found == model_.end()) {
      ASSERT_EQ(status.code(), Code::kNotFound) << "key " << key << ": " << status.ToString();
      return;
    }
    ASSERT_TRUE(status.ok()) << "key " << key << ": " << status.ToString();
    ASSERT_TRUE(read_ == ValueOf(key, found->second, value_.size())) << "key " << key;
  }

  void Range(const std::string& lower, const std::string& upper) {
    auto next = lower.empty() ? model_.begin() : model_.lower_bound(DecodeKey(lower.data()));
    auto end = upper.empty() ? model_.end() : model_.lower_bound(DecodeKey(upper.data()));
    if (!lower.empty() && !upper.empty() && lower >= upper) next = end;
    uint64_t wrong_count = 0;
    const Status status =
        store_->Range(lower, upper, [&](std::string_view key, std::string_view value) {
          const bool right = next != end && key == KeyOf(next->first) &&
                             value == ValueOf(next->first, next->second, value_.size());
          wrong_count += !right;
          if (next != end) ++next;
        });
    ASSERT_TRUE(status.ok()) << status.ToString();
    ASSERT_EQ(wrong_count, 0u);
    ASSERT_EQ(next, end) << "the range ended early";
  }

  void Sync() {
    const Status status = store_->Sync();
    ASSERT_TRUE(status.ok()) << status.ToString();
    ASSERT_EQ(store_->Stats().synced_record_count, record_count_);
  }

  Rng rng_;
  const Options geometry_options_;
  const KeyPool pool_;
  TempDir dir_{FastParent()};
  uint64_t delete_share_ = 0;
  bool exists_ = false;
  std::unique_ptr<Store> store_;
  std::map<uint64_t, uint64_t> model_;
  std::vector<uint64_t> bucket_counts_;
  std::set<uint32_t> filled_buckets_;
  std::map<uint32_t, std::set<uint64_t>> written_keys_;
  // Whether this opening reclaims, and whether any one did.
  bool reclaims_ = false;
  bool ever_reclaimed_ = false;
  uint64_t record_count_ = 0;
  uint64_t version_ = 0;
  std::string value_ = std::string(geometry_options_.value_bytes, '\0');
  std::string read_;
  WriteBatch batch_{geometry_options_.value_bytes};
};

TEST(ModelTest, RandomOperationsOnTinyStores) {
  constexpr uint64_t kOpsEach = 20000;
  const uint64_t store_count =
      PartOf(kAddressSanitized ? 4'000'000 : Sized(1'000'000, 200'000), Sized(4, 8)) / kOpsEach;
  const char* const replayed = std::getenv("MODEL_SEED");
  if (replayed != nullptr) {
    ModelRun(std::strtoull(replayed, nullptr, 0)).Run(kOpsEach);
    return;
  }
  const uint64_t seed = SweepSeed();
  for (uint64_t i = 0; i < store_count; ++i) {
    SCOPED_TRACE("MODEL_SEED=" + std::to_string(seed + i));
    ModelRun(seed + i).Run(kOpsEach);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace engine_race::test
