// The thread that loads chunks for all scans that pass over the store together.
//
// It knows where every attached scan is and which chunks are in memory. It asks the planner what to
// load and what to evict, and keeps the device busy with that. A scan in front waits a moment for
// those that fell behind and then insists. Scans that are in their chunks may hold all memory. Then
// each scan that waits is told at once to read some records for itself and to ask again. So no
// visitor, whatever it does, stops another scan. It lends buffers to scans that read for
// themselves.
//
// Thread safety: every call, from any thread; a scanner's from its own.
// Owner of its thread, of the board and of the memory for chunks, lent buffers included.
// Invariant: a scanner that waits is answered, with a chunk or none, whatever other visitors do.
#ifndef ENGINE_RACE_SCAN_COORDINATOR_H_
#define ENGINE_RACE_SCAN_COORDINATOR_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "engine_race/scan/chunk_builder.h"
#include "engine_race/scan/chunk_loader.h"
#include "engine_race/scan/scan_board.h"
#include "engine_race/scan/scan_context.h"
#include "engine_race/scan/scan_planner.h"
#include "engine_race/scan/scan_waits.h"
#include "engine_race/scan/scanner.h"

namespace engine_race {

class Coordinator {
 public:
  // At most `budget_bytes` for chunks, booked from `share`, which may be null: then all of it.
  Coordinator(ScanContext* context, uint64_t budget_bytes, MemoryShare* share);
  // No scanner is left.
  ~Coordinator();

  // Starts the thread, if it does not run yet. False when it cannot: the scan then reads for
  // itself, and the next one tries again.
  bool Start();

  // Whether a chunk with `pos` is in memory, or is being read.
  bool Holds(uint64_t pos) const;
  // Lets go of the scanner's chunk and gives it the one that holds `pos`, pinned, perhaps still
  // being read. Null: read some records for yourself, then ask again.
  Chunk* Next(Scanner* scanner, uint64_t pos);
  // The scanner's chunk has bad records: later scans load it anew.
  void Condemn(Scanner* scanner);
  // The scan is over.
  void Leave(Scanner* scanner);

  // Lends up to `count` buffers to one scan: their numbers in *buffers, which is empty before.
  // Buffer i lies at base() + i * BufferLayout::buffer_bytes(). Evicts chunks that no scan comes to
  // soon. Keeps a quarter of the memory. Lends none if memory is short or refused.
  void Lend(uint32_t count, std::vector<uint32_t>* buffers) noexcept;
  // Takes back all but the first `keep_count`. Gives no memory to the system.
  void TakeBack(uint32_t keep_count, std::vector<uint32_t>* buffers) noexcept;
  // Null before the first Lend or Start.
  char* base() const { return board_.cache().pool().base(); }

  uint64_t memory_bytes() const { return board_.cache().memory_bytes() + builder_.memory_bytes(); }
  // How often a scan was given a chunk.
  uint64_t use_count() const { return use_count_.load(std::memory_order_relaxed); }
  // The most chunks that were loaded while a scan waited for an answer: never more than
  // ScanWaits::kChunks and one for each scan.
  uint64_t longest_wait_chunks() const { return waits_.longest_wait_chunks(); }
  // Gives chunks up, if it can, until no more than `bytes` are booked.
  void ShrinkTo(uint64_t bytes);

 private:
  using Clock = ScanWaits::Clock;
  // kLater: nothing for this one yet, but perhaps for scans that wait behind it.
  enum class Step { kNothing, kLater, kMore };

  Status Prepare();
  void Run();
  void Publish();

  // The rest is called and left with the mutex held; those given the lock drop it meanwhile.

  Status AllocateBuffers();
  // Gives back memory that the share does not allow any more, as far as scans let it.
  void FitShare();
  Step PlanNext(std::unique_lock<std::mutex>* lock);
  Step Revalidate(const NextLoad& load, Chunk* chunk, std::unique_lock<std::mutex>* lock);
  Step LoadChunk(const NextLoad& load, std::unique_lock<std::mutex>* lock);
  Chunk* BuildChunk(const ChunkBuilder::Request& request, const ChunkBuilder::Outline& outline,
                    std::unique_lock<std::mutex>* lock);
  bool PlaceChunk(Chunk* chunk, uint32_t buffer_count);
  // Makes sure that `buffer_count` buffers are free for `load`.
  // Clears *patient when others had to give more than they would.
  bool MakeRoom(const NextLoad& load, uint32_t buffer_count, std::unique_lock<std::mutex>* lock,
                bool* patient);
  Step HandleShortage(const NextLoad& load, uint32_t buffer_count);
  Step GiveUp(const NextLoad& load);
  // Every scan that waits reads for itself.
  void RefuseAll();
  void Answer(Scanner* scanner);
  void Deliver(Chunk* chunk);
  void Give(Scanner* scanner, Chunk* chunk);
  void LetGo(Scanner* scanner);
  void Wake();

  ScanContext* const context_;
  const uint64_t budget_bytes_;
  MemoryShare* const share_;

  mutable std::mutex mutex_;
  std::condition_variable work_;
  bool is_started_ = false;
  bool has_failed_ = false;  // the last call of Start
  bool stop_ = false;
  bool asleep_ = false;
  // Something has changed since the thread began to plan, which drops the mutex at times.
  bool woken_ = false;
  // The chunk that found no buffers lately, by its key, and how many it takes.
  uint64_t unplaced_key_ = 0;
  uint32_t unplaced_buffers_ = 0;
  // Written under the mutex.
  std::atomic<uint64_t> use_count_{0};
  ScanWaits waits_;
  ScanBoard board_;

  // The thread's own.
  std::vector<Chunk*> loaded_;
  ChunkBuilder builder_;
  ChunkLoader loader_;
  std::thread thread_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_SCAN_COORDINATOR_H_
