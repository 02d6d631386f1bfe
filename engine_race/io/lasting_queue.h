// A read queue that outlasts its back end. All of the engine's reads that are kept in flight go
// through one.
//
// Its users never see a queue that fails, only a read that fails by itself. When the queue of a
// back end fails, the reads in flight are done again by pread, one after another. The next reads
// get a queue of the best back end that has not failed for good: see failed_backends.h.
//
// The kernel may write into the buffer of a read in flight until that read has ended, however the
// queue's calls are answered. The end is known from the memory that the kernel shares with the
// queue, or from the ring's own end. So the failed queue is destroyed before any read is done
// again, and its destructor waits for the ends of all. No buffer is handed back earlier.
//
// One thread at a time, as every ReadQueue.
#ifndef ENGINE_RACE_IO_LASTING_QUEUE_H_
#define ENGINE_RACE_IO_LASTING_QUEUE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "engine_race/io/failed_backends.h"
#include "engine_race/io/read_queue.h"

namespace engine_race::io {

class LastingQueue final : public ReadQueue {
 public:
  // options.backend is the one to begin with, unless it has failed for good. `failed` outlives the
  // queue. Fails when not even a psync queue can be made.
  static Status Create(const ReadQueueOptions& options, FailedBackends* failed,
                       std::unique_ptr<ReadQueue>* queue);

  // Fails only for more requests than there is room for.
  Status Submit(std::span<const ReadRequest> requests, size_t* started) override;
  // Fails only without memory for completions: not when there is room for all reads in flight.
  Status Wait(uint32_t min_count, std::vector<ReadCompletion>* completions) override;
  const char* name() const override;

 private:
  LastingQueue(const ReadQueueOptions& options, FailedBackends* failed);
  Status MakeQueue();
  void Finish(uint32_t slot, const ReadCompletion& completion);
  // Waits for the end of the failed queue's reads, and does them again.
  void ReadAgain();

  struct Slot {
    ReadRequest request;
    bool is_used = false;
  };

  ReadQueueOptions options_;
  const std::vector<std::span<char>> buffers_;
  const std::vector<int> files_;
  FailedBackends& failed_;
  // Reads in flight, by the tag that the back end's queue gets.
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
  std::vector<ReadRequest> requests_;
  std::vector<ReadCompletion> done_;
  std::vector<ReadCompletion> ready_;
  // Not Ok: the back end's queue has failed and is to be replaced.
  Status failure_;
  IoBackend backend_ = IoBackend::kAuto;  // of queue_
  bool has_read_ = false;
  std::unique_ptr<ReadQueue> queue_;
};

}  // namespace engine_race::io

#endif  // ENGINE_RACE_IO_LASTING_QUEUE_H_
