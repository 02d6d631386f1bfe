// The thread that loads chunks for all scans that pass over the store together.
//
// It knows where every attached scan is and which chunks stand before it. First it loads what a
// scan waits for, then it reads ahead of the scan that has least before it. When memory is short it
// waits for scans to move on; a scan that does not, for much longer than such a chunk usually takes
// to visit, is detached: it finds that out when its visitor returns, leaves the chunk, and reads
// for itself until it is back at the usual pace. When nobody attached could free memory, the scans
// that wait are told to read for themselves at once. So no visitor, whatever it does, stops
// another scan.
//
// Thread safety: every call, from any thread; a scanner's from its own.
#ifndef ENGINE_RACE_SCAN_COORDINATOR_H_
#define ENGINE_RACE_SCAN_COORDINATOR_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "engine_race/scan/chunk_builder.h"
#include "engine_race/scan/chunk_cache.h"
#include "engine_race/scan/chunk_loader.h"
#include "engine_race/scan/scan_context.h"
#include "engine_race/scan/scanner.h"

namespace engine_race {

class Coordinator {
 public:
  // At most `budget_bytes` for chunks, booked from `share`, which may be null: then all of it.
  Coordinator(ScanContext* context, uint64_t budget_bytes, MemoryShare* share);
  // No scanner is left.
  ~Coordinator();

  // Starts the thread, if it does not run yet. False when it cannot: then scans read for
  // themselves.
  bool Start();

  // Lets go of the scanner's chunk and gives it the one that holds scanner->pos, pinned, perhaps
  // still being read. Null: read some records for yourself, then ask again. `visited` says how
  // many records of the last chunk were visited, for the measure of pace.
  Chunk* Next(Scanner* scanner, uint32_t visited);
  // Lets go of the scanner's chunk before its end: `pos` is the next key.
  void StepOut(Scanner* scanner, uint64_t pos);
  // The scanner, reading for itself, has reached `pos` at this pace.
  void MovedAlone(Scanner* scanner, uint64_t pos, ScanClock::duration taken, uint32_t records);
  // Lets go of the scanner's chunk because it has bad records: later scans load it anew.
  void Condemn(Scanner* scanner);
  // The scan is over.
  void Leave(Scanner* scanner);

  uint64_t memory_bytes() const { return cache_.memory_bytes(); }
  // How often a scan was given a chunk.
  uint64_t use_count() const { return use_count_.load(std::memory_order_relaxed); }
  // Gives chunks up, if it can, until no more than `bytes` are booked.
  void ShrinkTo(uint64_t bytes);

 private:
  // A scan is slow that takes this many times as long for its records as is usual.
  static constexpr double kPatienceVisits = 4;

  // What to load next.
  struct Candidate {
    uint64_t key = 0;
    uint64_t last = 0;
    uint64_t begin = 0;
    uint32_t ahead_blocks = 0;
    bool waiting = false;
  };
  enum class Step { kNothing, kMore };

  void Run();
  void Publish(std::span<Chunk* const> loaded);

  // Called and left with the mutex held; those given the lock drop it meanwhile.
  Step PlanNext(std::unique_lock<std::mutex>* lock);
  bool Choose(Candidate* candidate);
  bool ChooseWaiting(Candidate* candidate);
  bool ChooseAhead(Candidate* candidate);
  void AdvanceFrontier(Scanner* scanner);
  Step Revalidate(const Candidate& candidate, Chunk* chunk, std::unique_lock<std::mutex>* lock);
  Step BuildPlanned(const Candidate& candidate, std::unique_lock<std::mutex>* lock);
  Step LoadPlanned(const Candidate& candidate, std::unique_lock<std::mutex>* lock);
  ChunkCache::Need NeedOf(const Candidate& candidate);
  bool WantBlocks(const ChunkCache::Need& need, std::unique_lock<std::mutex>* lock);
  void DropPlanned();
  Step HandleShortage(const Candidate& candidate);
  void Deliver(Chunk* chunk);
  void Give(Scanner* scanner, Chunk* chunk);
  void Refuse(uint64_t key);
  ScanClock::duration Patience(const Scanner& scanner) const;

  // The rest is called with the mutex held.
  bool Serves(const Chunk& chunk, const Scanner& scanner) const {
    return !chunk.doomed && chunk.cut >= scanner.begin;
  }
  bool Attach(Scanner* scanner);
  void Unlist(Scanner* scanner);
  void MeasurePace(const Scanner& scanner, uint32_t visited);
  void LetGo(Scanner* scanner);
  void Wake();

  ScanContext* const context_;
  const uint64_t budget_bytes_;
  MemoryShare* const share_;

  mutable std::mutex mutex_;
  std::condition_variable work_;
  bool started_ = false;
  bool usable_ = false;
  bool stop_ = false;
  bool asleep_ = false;
  // Something has changed since the thread began to plan, which drops the mutex at times.
  bool woken_ = false;
  uint64_t wait_count_ = 0;
  std::vector<Scanner*> attached_;
  double usual_ns_per_record_ = 100;
  std::atomic<uint64_t> use_count_{0};
  ChunkCache cache_;
  // Planned but without memory yet; not in the cache's map.
  Chunk* planned_ = nullptr;
  uint32_t planned_available_ = 0;
  // Since when a scan has waited for memory that others hold; epoch when none does.
  ScanClock::time_point short_since_;
  ScanClock::time_point wake_time_;

  // The thread's own.
  struct Ahead {
    uint64_t frontier;
    uint64_t pos;
    uint64_t last;
    uint64_t begin;
  };
  std::vector<Ahead> ahead_;
  std::vector<Chunk*> loaded_;
  ChunkBuilder builder_;
  ChunkLoader loader_;
  std::thread thread_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_SCAN_COORDINATOR_H_
