// Which record each call of a benchmark takes: pure functions of seed, benchmark, thread and call.
//
// Nothing is stored, so a run's writes can be computed again. AckedCounter is thread-safe; the
// others are immutable.
#ifndef HARNESS_BENCH_DRAWS_H_
#define HARNESS_BENCH_DRAWS_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "engine_race/base/function_ref.h"
#include "harness/bench/benchmark.h"
#include "harness/data/key_source.h"
#include "harness/data/mix.h"

namespace engine_race::harness {

// The random words of one thread of a run.
class WordStream {
 public:
  WordStream(const BenchConfig& config, uint32_t thread);
  uint64_t At(uint64_t index) const { return MixAt(seed_, index); }

 private:
  uint64_t seed_;
};

// How a benchmark that writes goes over the records.
enum class WriteOrder {
  kSequential,  // the threads take turns
  kUnique,      // each record once, in random order
  kRandom,      // drawn anew for each call, so records repeat
};

class WriteDraw {
 public:
  WriteDraw(const BenchConfig& config, WriteOrder order, uint32_t thread)
      : config_(config), order_(order), thread_(thread), words_(config, thread) {}

  // The number of the record that this call writes. With kRandom any call will do, else it must be
  // below ShareOf.
  uint64_t NumberAt(uint64_t call) const;

 private:
  const BenchConfig& config_;
  const WriteOrder order_;
  const uint32_t thread_;
  const WordStream words_;
};

// Whether a call writes in a benchmark outside of YCSB that mixes reads and writes. As in db_bench,
// the first calls of each hundred read and the last `write_percent` of them write.
inline bool CallWrites(uint32_t write_percent, uint64_t call) {
  return call % 100 >= 100 - write_percent;
}

// How many of `total` calls are those of this thread.
inline uint64_t ShareOf(uint64_t total, uint32_t thread, uint32_t thread_count) {
  return total / thread_count + (thread < total % thread_count ? 1 : 0);
}

// The records of YCSB that exist: those that were inserted, and all before them.
class AckedCounter {
 public:
  // At most `window` inserts are under way at once, the slowest one included.
  explicit AckedCounter(uint64_t count, uint64_t window = 1 << 16)
      : next_(count), acked_(count), done_(window) {}

  // The number of a record to insert. Waits for a slow insert that is a whole window behind.
  // Nothing when `goes_on` ends the wait.
  std::optional<uint64_t> Claim(FunctionRef<bool()> goes_on);
  // The record is in the store.
  void Ack(uint64_t number);
  // All records below this number are in the store.
  uint64_t count() const {
    // Acquire: pairs with the release in Ack, so that a read finds the records.
    return acked_.load(std::memory_order_acquire);
  }

 private:
  std::atomic<uint64_t> next_;
  std::atomic<uint64_t> acked_;
  std::mutex mutex_;
  std::vector<bool> done_;  // by number modulo the window; under the mutex
};

// Draws records of YCSB.
class YcsbDraw {
 public:
  // As in YCSB's CoreWorkload, a scattered Zipf draw is over `num` records and twice the expected
  // inserts. It is over 10 * num records at most. A record that does not exist yet is drawn again.
  YcsbDraw(Distribution distribution, uint64_t num, uint64_t expected_inserts = 0)
      : distribution_(distribution),
        scattered_(DrawShape::kZipfian, num + std::min(2 * expected_inserts, 9 * num)),
        ranks_(num) {}

  // The record that the random `word` selects of `count`, which is at least `num`.
  uint64_t NumberFrom(uint64_t word, uint64_t count) const;

 private:
  const Distribution distribution_;
  const RecordDraw scattered_;
  const ZipfRanks ranks_;
};

}  // namespace engine_race::harness

#endif  // HARNESS_BENCH_DRAWS_H_
