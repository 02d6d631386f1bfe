// The writes to a store, and the states that a power loss may leave of them.
//
// Writes to one bucket by one thread form a lane: one key belongs to one lane, and the order within
// a lane is known. After a power loss each lane must hold a prefix of its writes, which includes
// all durable ones. In a bucket, if a write is missing, every write that began after it was
// acknowledged must be missing too. So with one thread a bucket holds a prefix of its writes. A
// batch is there as a whole or not at all.
//
// Thread-safe, but the writes of a lane come one after the other.
#ifndef TEST_POWER_WRITE_HISTORY_H_
#define TEST_POWER_WRITE_HISTORY_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace engine_race::test {

// Keys with their versions. Versions are unique to a write.
using Contents = std::map<uint64_t, uint64_t>;

// Names keys so that each tells its lane.
struct LaneNames {
  uint32_t bucket_count = 1;
  static constexpr uint32_t kThreadCount = 4;

  uint32_t lane_count() const { return bucket_count * kThreadCount; }
  uint64_t KeyOf(uint32_t bucket, uint32_t thread, uint64_t number) const;
  uint32_t LaneOf(uint64_t key) const;
};

// The state of all lanes at one moment, as far as a power loss then is concerned.
struct LossBounds {
  std::vector<size_t> durable;  // writes of each lane that must survive
  std::vector<size_t> begun;    // and those that may
};

class WriteHistory {
 public:
  explicit WriteHistory(LaneNames names) : names_(names), lanes_(names.lane_count()) {}

  const LaneNames& names() const { return names_; }

  // A write (version 0: a deletion) is about to be made. Returns its number in its lane. Writes of
  // one batch, unless that is 0, survive a power loss together or not at all.
  size_t Begin(uint64_t key, uint64_t version, uint64_t batch = 0);
  // It was acknowledged; `durable`: as outliving a power loss.
  void Acknowledge(uint64_t key, size_t number, bool durable);

  // The writes that are acknowledged now, and the note that all of them are durable.
  std::vector<size_t> Acknowledged() const;
  void MarkDurable(const std::vector<size_t>& acknowledged);

  // The lower bounds are taken before a crash state is made, the upper ones after it.
  std::vector<size_t> Durable() const;
  std::vector<size_t> Begun() const;

  // The content of the store with nothing lost. No write may be under way.
  Contents Whole() const;
  // Writes to a bucket at most, those before this history included.
  uint64_t RecordCount(uint32_t bucket) const;

  struct Outcome {
    bool good = false;
    std::string complaint;
    // The fewest and the most writes of all lanes that leave what was seen.
    uint64_t least_records = 0;
    uint64_t most_records = 0;
    uint64_t lost_writes = 0;
  };
  // Judges what was found after a loss within `bounds`. When it is good, *next goes on from it:
  // all of it counts as durable.
  Outcome Judge(const LossBounds& bounds, const Contents& seen, WriteHistory* next) const;

 private:
  struct Write {
    uint64_t key;
    uint64_t version;
    uint64_t batch;
    uint64_t begin_tick;
    uint64_t end_tick = ~uint64_t{0};
  };
  struct Lane {
    Contents base;
    // Records before `writes`: more than one number when some of them left no trace.
    uint64_t least_base_records = 0;
    uint64_t most_base_records = 0;
    std::vector<Write> writes;
    size_t acknowledged = 0;
    size_t durable = 0;
  };
  struct Fit {
    size_t least;
    size_t most;
  };

  static bool FindFit(const Lane& lane, size_t from, size_t to, const Contents& seen, Fit* fit);
  std::string Describe(uint32_t lane, const LossBounds& bounds, const Contents& seen) const;
  uint64_t TornBatch(const LossBounds& bounds, const std::vector<Fit>& fits) const;
  bool OrderHolds(uint32_t bucket, const LossBounds& bounds, const std::vector<Fit>& fits) const;

  const LaneNames names_;
  mutable std::mutex mutex_;
  uint64_t tick_ = 0;
  std::vector<Lane> lanes_;
};

}  // namespace engine_race::test

#endif  // TEST_POWER_WRITE_HISTORY_H_
