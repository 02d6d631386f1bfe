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
  // True when no further bucket may be started before one was finished.
  bool full() const { return used_ == slots_.size(); }
  bool empty() const { return used_ == 0; }
  // Cuts the bucket and starts reading its key log. Fails only as a whole build does.
  Status Start(uint32_t bucket);
  // Waits for the oldest bucket. *raw is valid until Finish; when the bucket's own log could not be
  // read *failure says why, and there is no *raw.
  Status Next(uint32_t* bucket, RawBucket* raw, Status* failure);
  // Frees the oldest bucket's place.
  void Finish();

 private:
  struct Slot {
    uint32_t bucket = 0;
    BucketCut cut;
    Region buffer;
    uint32_t pending_reads = 0;
    // Entries before this one were read; less than cut.logged_key_watermark when the file ends
    // early.
    uint64_t readable_count = 0;
    Status failure;
  };

  Slot& oldest() { return slots_[oldest_]; }
  Status Submit(uint32_t slot_index);
  Status Reap(uint32_t min_count);

  BuildContext* const context_;
  std::vector<Slot> slots_;
  size_t oldest_ = 0;
  size_t used_ = 0;
  std::vector<io::ReadCompletion> completions_;
  // After the buffers: its destructor waits for reads into them.
  std::unique_ptr<io::ReadQueue> queue_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_BUCKET_READER_H_
