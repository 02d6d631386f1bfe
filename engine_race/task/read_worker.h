// A worker: a ring, a scheduler, and the buffers of the reads that it keeps in flight. A caller of
// MultiRead runs a worker for its own keys, or a thread of the pool runs it.
//
// One thread at a time.
#ifndef ENGINE_RACE_TASK_READ_WORKER_H_
#define ENGINE_RACE_TASK_READ_WORKER_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "engine_race/base/buffer_pool.h"
#include "engine_race/base/options.h"
#include "engine_race/base/value_layout.h"
#include "engine_race/log/format.h"
#include "engine_race/task/point_reader.h"
#include "engine_race/task/read_job.h"
#include "engine_race/task/scheduler.h"

namespace engine_race {

class ReadWorker {
 public:
  // `files` are registered with the kernel. They and the reader must outlive the worker.
  ReadWorker(const PointReader& reader, const Options& options, std::span<const int> files)
      : reader_(reader),
        options_(options),
        task_count_(TaskCount(options, reader.layout())),
        files_(files) {}

  // Options::worker_count, or the number that stands for 0 there. Fewer where values are so large
  // that each worker could not read a few at a time.
  static uint32_t WorkerCount(const Options& options, const ValueLayout& layout);
  // Reads of values of that layout that a worker keeps in flight at most. As the options say, or
  // fewer where their buffers would take too much.
  static uint32_t TaskCount(const Options& options, const ValueLayout& layout);
  // Of each of their buffers.
  static uint32_t BufferBytes(const ValueLayout& layout) {
    return std::max(layout.read_bytes(), uint32_t{format::kIndexBlockBytes});
  }

  // Reads the jobs of the source. True when the source has no more and all are answered. False when
  // the source has handed the worker over: the next thread that runs it goes on with the reads in
  // flight.
  //
  // The first call makes the ring. If the system refuses it, reads are done one after another.
  bool Run(ReadSource* source) noexcept;

  // Any thread. Relaxed: a statistic.
  uint64_t memory_bytes() const { return memory_bytes_.load(std::memory_order_relaxed); }

 private:
  // The buffers of a worker take no more than this, and those of all workers no more than that part
  // of the budget. But they may take as much as buffers for blocks of the index would, and a worker
  // has enough for so many tasks.
  static constexpr uint64_t kMaxBufferBytes = uint64_t{16} << 20;
  static constexpr uint64_t kBudgetFraction = 16;
  static constexpr uint32_t kLeastTasks = 4;
  // The most hot values in a row that one task delivers.
  static constexpr uint32_t kMaxHotRow = 32;

  static Task ReadMany(Scheduler& scheduler, ReadWorker& worker, ReadJob job);
  static Task EvictSome(Scheduler& scheduler, l1::FrameCache& frames);
  void EvictAhead(l1::FrameCache* frames) noexcept;
  Status Prepare();
  bool RunTasks() noexcept;
  Status Begin(const ReadJob& job, PointReader::Found* found, BlockLookup* lookup,
               char* buffer) const noexcept;
  Status Accept(const ReadJob& job, const io::ReadCompletion& completion, char* buffer,
                BlockLookup* lookup) const noexcept;
  Status End(const ReadJob& job, const PointReader::Found& found,
             const io::ReadCompletion& completion, char* buffer) const noexcept;
  void RunBlocking() noexcept;

  const PointReader& reader_;
  const Options& options_;
  const uint32_t task_count_;
  const std::span<const int> files_;
  // The source of the thread that runs the worker.
  ReadSource* source_ = nullptr;
  BufferPool buffers_;  // one for each task that reads
  // Declared after the buffers: its queue waits for reads into them.
  std::unique_ptr<Scheduler> scheduler_;
  std::atomic<uint64_t> memory_bytes_{0};
};

}  // namespace engine_race

#endif  // ENGINE_RACE_TASK_READ_WORKER_H_
