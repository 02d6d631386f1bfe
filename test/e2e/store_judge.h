// Knows the writes to a store, and judges the answers of a damaged copy of it.
//
// A bucket's records count as a sequence. Of a damaged store all of them must be there, or those up
// to a cut where the case allows one. It does for an unsynced tail after power loss, and for counts
// put back to an older state. Every answer rules out cuts. A bucket that no cut explains has given
// wrong bytes.
//
// Not thread-safe. Without googletest, so that a fuzzer can use it.
#ifndef TEST_E2E_STORE_JUDGE_H_
#define TEST_E2E_STORE_JUDGE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/log/geometry.h"
#include "engine_race/store.h"

namespace engine_race::test {

class StoreTruth {
 public:
  struct Version {
    uint64_t slot = 0;
    uint64_t version = 0;  // 0: a delete
  };
  struct BucketHistory {
    uint64_t record_count = 0;
    std::map<uint64_t, std::vector<Version>> keys;
  };

  explicit StoreTruth(const Geometry& geometry)
      : geometry_(geometry), buckets_(geometry.bucket_count) {}

  void Append(uint64_t key, uint64_t version) {
    BucketHistory& bucket = buckets_[geometry_.BucketOf(key)];
    bucket.keys[key].push_back({bucket.record_count++, version});
  }

  const Geometry& geometry() const { return geometry_; }
  const BucketHistory& bucket(uint32_t index) const { return buckets_[index]; }

 private:
  Geometry geometry_;
  std::vector<BucketHistory> buckets_;
};

class StoreJudge {
 public:
  // Every record must be there, or its absence explained by kCorruption. Keeps `truth`.
  explicit StoreJudge(const StoreTruth& truth);

  // The bucket may have been cut after `lowest` records or more, before what WriteSome wrote.
  void AllowCutsFrom(uint32_t bucket, uint64_t lowest);
  // Each write to the bucket may be there or not, as long as no bytes are wrong.
  void AllowAnyVersion(uint32_t bucket) { buckets_[bucket].any = true; }
  // Nothing of the bucket may be answered but kCorruption: its counts or rows fail their check.
  void ExpectUnreadable(uint32_t bucket) { buckets_[bucket].unreadable = true; }
  // The bucket is not damaged: it has no reason for an error.
  void ExpectSound(uint32_t bucket) { buckets_[bucket].sound = true; }

  // Compares every key by Read and by one Range.
  void Examine(Store* store);
  // Writes `version` of a few keys; from then on they must read so.
  void WriteSome(Store* store, uint64_t version, uint64_t seed);

  // The first thing that was wrong; empty: nothing.
  const std::string& complaint() const { return complaint_; }
  uint64_t right_count() const { return right_count_; }
  uint64_t error_count() const { return error_count_; }

 private:
  struct BucketView {
    std::vector<uint64_t> possible_cuts;  // counts of first records that may be there
    bool unreadable = false;
    bool sound = false;
    bool any = false;
  };

  void OnRead(uint64_t key, const Status& status, std::string_view value);
  void OnVersion(uint64_t key, uint64_t version);
  uint64_t VersionAt(uint64_t key, uint64_t cut) const;
  void OnRefusal(uint64_t key, const Status& status);
  void Range(Store* store);
  void Complain(uint64_t key, const std::string& what);
  const StoreTruth::BucketHistory& HistoryOf(uint64_t key) const {
    return truth_.bucket(truth_.geometry().BucketOf(key));
  }

  const StoreTruth& truth_;
  std::vector<BucketView> buckets_;
  std::vector<uint64_t> keys_;  // ascending: those written, and some that never were
  // By WriteSome: the version, 0 for a delete; nothing when it was refused and may be there or not.
  std::map<uint64_t, std::optional<uint64_t>> written_;
  std::string complaint_;
  uint64_t right_count_ = 0;
  uint64_t error_count_ = 0;
};

}  // namespace engine_race::test

#endif  // TEST_E2E_STORE_JUDGE_H_
