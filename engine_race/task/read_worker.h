// A worker: one ring, one scheduler and the buffers of the reads that it keeps in flight. Whoever
// holds a worker runs it, a caller of MultiRead for its own keys or a thread of the pool.
//
// One thread at a time.
#ifndef ENGINE_RACE_TASK_READ_WORKER_H_
#define ENGINE_RACE_TASK_READ_WORKER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "engine_race/base/buffer_pool.h"
#include "engine_race/base/options.h"
#include "engine_race/task/point_reader.h"
#include "engine_race/task/read_job.h"
#include "engine_race/task/scheduler.h"

namespace engine_race {

class ReadWorker {
 public:
  // `files` are told to the kernel ahead; they and the reader outlive the worker.
  ReadWorker(const PointReader& reader, const Options& options, std::span<const int> files)
      : reader_(reader), options_(options), files_(files), backend_(options.io_backend) {}

  // Reads what the source gives until it has nothing more and everything is answered; true then.
  // False when the source has handed the worker over: the next to run it goes on with the reads in
  // flight. What the ring needs is made by the first call; where that is refused, reads are done
  // one after another. When a ring fails, its reads are done once more, one after another, and
  // another ring takes its place for what the source gives then: one of the next best back end,
  // for good, after kMaxFailedRings in a row that brought no read at all.
  bool Run(ReadSource* source) noexcept;

  // Any thread, relaxed: a statistic.
  uint64_t memory_bytes() const { return memory_bytes_.load(std::memory_order_relaxed); }

 private:
  static constexpr uint32_t kMaxFailedRings = 3;
  // So many hot values one task delivers in a row.
  static constexpr uint32_t kMaxHotRow = 32;

  static Task ReadMany(Scheduler& scheduler, ReadWorker& worker, ReadJob job);
  static Task EvictSome(Scheduler& scheduler, l1::ValueFrames& frames);
  void EvictAhead() noexcept;
  Status Prepare();
  enum class Outcome { kDone, kHandedOver, kRingFailed };
  Outcome RunTasks() noexcept;
  void NoteFailedRing() noexcept;
  Status Begin(const ReadJob& job, PointReader::Place* place, char* buffer) const noexcept;
  Status End(const ReadJob& job, const PointReader::Place& place,
             const io::ReadCompletion& completion, char* buffer) const noexcept;
  void RunBlocking() noexcept;

  const PointReader& reader_;
  const Options& options_;
  const std::span<const int> files_;
  // Of the next ring.
  IoBackend backend_;
  uint32_t failed_ring_count_ = 0;  // in a row, none of which brought a read
  // Of whoever runs the worker.
  ReadSource* source_ = nullptr;
  BufferPool buffers_;  // one for each task that reads
  // After the buffers: its queue waits for reads into them.
  std::unique_ptr<Scheduler> scheduler_;
  std::atomic<uint64_t> memory_bytes_{0};
};

}  // namespace engine_race

#endif  // ENGINE_RACE_TASK_READ_WORKER_H_
