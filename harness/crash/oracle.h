// The crash trial's knowledge of its store: the keys, and which versions of each key may be found.
//
// It lies in memory that the parent owns and shares with the processes that it kills, so it
// outlives them. A writer announces a version before it calls the engine (Begin) and notes it once
// the engine has acknowledged it (End). Versions of a key count upwards from 1. Key and version
// alone decide whether a version is a Write or a Delete.
//
// Threads may write the same key at once. The engine may choose which of two overlapping writes
// wins. So a version is ruled out only when a write that began after it had ended is acknowledged.
// Begin finds the oldest version of its key that may still be running, and End raises the key's
// floor to that version.
//
// Thread safety: every call from any thread or process, except Reset, StartCycle and Settle, which
// the parent makes while no child lives.
#ifndef HARNESS_CRASH_ORACLE_H_
#define HARNESS_CRASH_ORACLE_H_

#include <atomic>
#include <cstdint>
#include <random>
#include <string>

#include "engine_race/base/options.h"
#include "harness/crash/shared.h"

namespace engine_race::crash {

// The shape of one trial store: its keys, how writers pick them, and its geometry.
//
// Everything follows from a seed. Plain values.

using Rng = std::mt19937_64;

// Uniform in [low, high].
uint64_t Uniform(Rng& rng, uint64_t low, uint64_t high);
// In [low, high], each power of two as likely as the next; low > 0.
uint64_t LogUniform(Rng& rng, uint64_t low, uint64_t high);
// True with this probability.
bool Chance(Rng& rng, double probability);

enum class KeyChoice { kUniform, kSkewed, kBoth };
enum class GeometryChoice { kTiny, kMixed };
// Of the index: paged in every opening, or in some.
enum class IndexChoice { kPaged, kMixed };

struct Shape {
  uint64_t seed = 0;
  uint32_t key_count = 0;
  // Most keys share one 16-bit prefix, and a few are written very often.
  bool skewed = false;
  // With `skewed`: the crowded prefix is 0 and its keys are 0, 1, 2...
  bool sequential = false;
  uint32_t hot_key_count = 0;
  uint32_t delete_permille = 0;
  IndexChoice index = IndexChoice::kMixed;
  // Only the geometry; DrawOptions chooses the rest anew for each opening.
  Options geometry;

  std::string ToString() const;
};

Shape MakeShape(Rng& rng, KeyChoice keys, GeometryChoice geometry, IndexChoice index,
                uint32_t max_key_count);

// Key number `index` of the shape.
uint64_t KeyAt(const Shape& shape, uint32_t index);

// Draws the key that a writer writes next.
uint32_t PickKey(const Shape& shape, Rng& rng);

// The shape's geometry with tuning drawn for one opening: budget, backend, verification, syncs, and
// whether the index is paged.
Options DrawOptions(const Shape& shape, Rng& rng);

// The version that stands for "no value", as of a key that was never written.
inline constexpr uint32_t kAbsent = 0;

// A write that has begun and not yet ended.
struct Ticket {
  uint32_t key_index = 0;
  uint32_t version = 0;
  // Versions below this had ended before this one began.
  uint32_t floor = 0;
};

class Oracle {
 public:
  Oracle(uint32_t max_key_count, uint32_t max_thread_count);

  // Forgets everything: a new, empty store with these keys.
  void Reset(const Shape& shape);
  // Forgets the running writes: the process that made them is gone.
  void StartCycle();
  // Takes the versions that the verification observed as the state of the store from now on. False
  // when a key was not observed.
  [[nodiscard]] bool Settle();

  uint32_t key_count() const { return key_count_; }
  uint64_t key(uint32_t index) const { return keys_[index]; }
  // The keys in ascending order.
  uint32_t IndexOfRank(uint32_t rank) const { return by_rank_[rank]; }

  Ticket Begin(uint32_t thread, uint32_t key_index);
  void End(uint32_t thread, const Ticket& ticket);
  bool IsDelete(uint32_t key_index, uint32_t version) const;

  // The floor of a key now; taken before a read and given to Allows after it.
  uint32_t Floor(uint32_t key_index) const { return states_[key_index].floor.load(); }
  // True when a read that began at `floor` and has just ended may have found `version`, which may
  // be kAbsent.
  bool Allows(uint32_t key_index, uint32_t floor, uint32_t version) const;
  // Notes what a verification found. False when an earlier one found something else.
  [[nodiscard]] bool Observe(uint32_t key_index, uint32_t version, uint32_t* earlier);
  // The versions that Allows would accept, for reports: "absent or a version in 17..20".
  std::string Describe(uint32_t key_index, uint32_t floor) const;

  uint64_t AcknowledgedCount() const;
  // Values, unlike keys, differ between stores with the same keys.
  uint64_t salt() const { return salt_; }

 private:
  struct KeyState {
    std::atomic<uint32_t> started;   // highest version announced
    std::atomic<uint32_t> floor;     // lowest version announced since `base` that may be found
    std::atomic<uint32_t> observed;  // version found since the last Settle, plus 1; 0: not yet
    uint32_t base;                   // `started` at the last Settle
    uint32_t settled;                // the version found at that Settle
  };
  struct alignas(64) ThreadState {
    std::atomic<uint64_t> running;  // key index + 1 in the high half, oldest possible version below
    std::atomic<uint64_t> acknowledged;
  };
  static_assert(std::atomic<uint64_t>::is_always_lock_free, "shared between processes");

  SharedArray<KeyState> states_;
  SharedArray<ThreadState> threads_;
  SharedArray<uint64_t> keys_;
  SharedArray<uint32_t> by_rank_;
  uint32_t key_count_ = 0;
  uint32_t delete_permille_ = 0;
  uint64_t salt_ = 0;
};

}  // namespace engine_race::crash

#endif  // HARNESS_CRASH_ORACLE_H_
