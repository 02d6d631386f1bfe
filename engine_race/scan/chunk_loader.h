// Keeps the reads of several chunks in flight: what is added first is read first.
//
// One thread at a time. Its destructor waits for what is in flight.
// Owner of its read queue; chunks belong to others. Invariant: each chunk added is handed out once,
// with no read of it in flight.
#ifndef ENGINE_RACE_SCAN_CHUNK_LOADER_H_
#define ENGINE_RACE_SCAN_CHUNK_LOADER_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "engine_race/base/buffer_pool.h"
#include "engine_race/io/read_queue.h"
#include "engine_race/scan/chunk.h"
#include "engine_race/scan/scan_context.h"

namespace engine_race {

class ChunkLoader {
 public:
  // `fresh`: the pool in which all its chunks lie. Its memory is populated before it is first read
  // into. Null: it is not.
  explicit ChunkLoader(ScanContext* context, const BufferPool* fresh = nullptr)
      : context_(context), fresh_(fresh) {}

  // Whether first touches of memory have taken little of the time that reading took so far.
  bool fresh_memory_is_cheap() const {
    return touch_time_ * 100 <= busy_time_ * context_->tuning.touch_time_percent;
  }

  // Makes the queue, when there is none yet.
  Status Start();

  // Reads a placed chunk by blocking reads. Marks failed ones in it.
  static void ReadBlocking(ScanContext* context, Chunk* chunk);

  // Takes on a placed chunk that has reads. std::bad_alloc leaves things as they were.
  void Add(Chunk* chunk);

  // Gives up the chunk's reads that are not in flight. It is loaded once the others have ended,
  // with values missing.
  void Drop(Chunk* chunk);

  // Submits what fits.
  void Submit();
  // Takes in finished reads, waiting for some unless `poll`. Chunks whose last read has finished,
  // failed ones too, are appended to *loaded.
  void Reap(bool poll, std::vector<Chunk*>* loaded);

  bool reading() const { return queue_ != nullptr && queue_->in_flight() > 0; }
  bool busy() const { return reading() || !backlog_.empty(); }
  // Whether more can be planned without keeping anything from being read soon.
  bool hungry() const { return backlog_reads_ < kBacklogReads; }

 private:
  // Sequential reads of a buffer each fill the device by their bytes, scattered reads by their
  // count.
  static constexpr uint32_t kDepth = 128;
  static constexpr uint64_t kMaxBytesInFlight = 16 * 1024 * 1024;
  static constexpr uint32_t kBacklogReads = kDepth;
  // Memory is touched a huge page at a time.
  static constexpr uint64_t kTouchBytes = 2 * 1024 * 1024;

  using Clock = std::chrono::steady_clock;

  struct Backlog {
    Chunk* chunk = nullptr;
    uint32_t next_read = 0;
  };
  struct InFlight {
    Chunk* chunk = nullptr;
    uint32_t read = 0;
    uint32_t size_bytes = 0;
  };

  // Makes sure that the memory for a read of so many bytes is populated. False when that would take
  // longer than one Submit should, because `touched` says that this Submit has populated memory
  // already.
  bool Touch(const PlannedRead& read, uint64_t size_bytes, bool* touched);
  void Finish(const io::ReadCompletion& completion, std::vector<Chunk*>* loaded);

  ScanContext* const context_;
  const BufferPool* const fresh_;
  std::deque<Backlog> backlog_;
  uint64_t backlog_reads_ = 0;
  uint64_t bytes_in_flight_ = 0;
  std::vector<bool> touched_;  // one for each kTouchBytes of `fresh`
  Clock::time_point last_time_;
  Clock::duration touch_time_{};
  Clock::duration busy_time_{};
  InFlight in_flight_[kDepth];
  std::vector<uint32_t> free_ids_;
  std::vector<io::ReadRequest> requests_;
  std::vector<io::ReadCompletion> completions_;
  // Last member: it is destroyed first and waits for the reads.
  std::unique_ptr<io::ReadQueue> queue_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_SCAN_CHUNK_LOADER_H_
