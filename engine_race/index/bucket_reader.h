// Reads whole key logs, several buckets ahead of the thread that sorts them.
//
// One thread. Owns the buffers that it hands out.
#ifndef ENGINE_RACE_INDEX_BUCKET_READER_H_
#define ENGINE_RACE_INDEX_BUCKET_READER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine_race/base/memory.h"
#include "engine_race/base/status.h"
#include "engine_race/index/build.h"
#include "engine_race/index/part_builder.h"
#include "engine_race/io/read_queue.h"

namespace engine_race {

class BucketReader {
 public:
  explicit BucketReader(BuildContext* context) : context_(context) {}

  Status Init();
  // True when a bucket must be finished before another one may be started.
  bool full() const { return used_ == pending_.size(); }
  bool empty() const { return used_ == 0; }
  // Cuts the bucket and starts to read its key log. Fails only when the whole build must fail.
  Status Start(uint32_t bucket);
  // Waits for the oldest bucket. *raw is valid until Finish. If the log of this bucket could not be
  // read, *failure says why, and *raw is not set.
  Status Next(uint32_t* bucket, RawBucket* raw, Status* failure);
  // Ends the use of the oldest bucket's buffer.
  void Finish();

 private:
  struct Pending {
    uint32_t bucket = 0;
    BucketCut cut;
    Region buffer;
    uint32_t pending_reads = 0;
    // Entries before this one were read. Less than cut.logged_slot_end() when the file ends early.
    uint64_t readable_count = 0;
    Status failure;
  };

  Pending& oldest() { return pending_[oldest_]; }
  uint64_t PieceSlots() const { return context_->limits().piece_bytes / format::kKeyEntryBytes; }
  Status Submit(uint32_t index);
  Status Reap(uint32_t min_count);

  BuildContext* const context_;
  std::vector<Pending> pending_;
  size_t oldest_ = 0;
  size_t used_ = 0;
  std::vector<io::ReadCompletion> completions_;
  // Declared after the buffers: its destructor waits for reads into them.
  std::unique_ptr<io::ReadQueue> queue_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_BUCKET_READER_H_
