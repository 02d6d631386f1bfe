// The small life of a store that the sweeps lead through every fault. It has fixed writes over
// several groups of several buckets, overwrites, deletes, syncs and reopenings. A model has the
// content that must be there afterwards.
//
// Not thread-safe.
#ifndef TEST_FAULTS_SCENARIO_H_
#define TEST_FAULTS_SCENARIO_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine_race/store.h"

namespace engine_race::test {

struct Step {
  enum class Kind : uint8_t { kOpen, kWrite, kDelete, kSync, kRead, kRange, kClose };
  Kind kind = Kind::kOpen;
  uint64_t key = 0;
  uint64_t version = 0;  // kWrite: of the value; unlike every other step's
};

enum class Reads : bool { kWithout, kWith };

// Four buckets of two files, groups of four values. Group commits, when `sync_mode` asks for them,
// have the smallest journal. Reads are blocking ones: the kernel takes its time, tens of
// milliseconds, to end a libaio context, and every run has several.
Options ScenarioOptions(SyncMode sync_mode);
// Of values in a sweep: the default size, or one of values that share blocks.
uint32_t SweptValueBytes();

// Those options with the values striped over two paths inside the store's directory `dir`.
Options StripedIn(const std::string& dir, Options options);

enum class Life : uint8_t {
  kShort,   // some groups of values in each bucket
  kMedium,  // and one bucket that fills a group of keys
  kLong,    // and enough for the smallest journal to use its first half again
};

// Begins with kOpen and ends with kClose.
std::vector<Step> MakeScenario(Reads reads, Life life);

// Version by key; a key that is not there is absent.
using Contents = std::map<uint64_t, uint64_t>;

// The content after the first `step_count` steps, when all of them succeed. Of bucket `bucket`
// alone unless that is kAllBuckets.
inline constexpr uint32_t kAllBuckets = ~uint32_t{0};
Contents ContentsAfter(const std::vector<Step>& steps, size_t step_count,
                       uint32_t bucket = kAllBuckets);
uint32_t ScenarioBucketOf(uint64_t key);

// Everything that Range visits. Every byte is compared, and Read must agree about every key of
// `steps`. *problem names differences, and a status that is not Ok.
Contents ReadContents(Store* store, const std::vector<Step>& steps, std::string* problem);

// Contents of which some are not certain: a write that failed may have happened.
class Model {
 public:
  // A write or delete (version 0) was answered.
  void Answered(uint64_t key, uint64_t version, bool acknowledged);
  // 0: absent.
  bool Allows(uint64_t key, uint64_t version) const;
  // Empty when `contents` are allowed, otherwise what is wrong with them.
  std::string Check(const Contents& contents) const;
  // From now on exactly these are there.
  void Settle(const Contents& contents);

 private:
  std::map<uint64_t, std::set<uint64_t>> versions_;
};

// One line for a report.
std::string ToString(const Contents& contents);

}  // namespace engine_race::test

#endif  // TEST_FAULTS_SCENARIO_H_
