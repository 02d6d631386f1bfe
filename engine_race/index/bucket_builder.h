// Builds one bucket of the index after another from its key log, with memory that it keeps for the
// next one.
//
// Thread safety: one thread at a time. Once a call has failed, a builder can only be destroyed.
#ifndef ENGINE_RACE_INDEX_BUCKET_BUILDER_H_
#define ENGINE_RACE_INDEX_BUCKET_BUILDER_H_

#include <cstdint>

#include "engine_race/base/status.h"
#include "engine_race/index/bucket_reader.h"
#include "engine_race/index/build.h"
#include "engine_race/index/part_builder.h"
#include "engine_race/index/part_memory.h"
#include "engine_race/l1/extent_image.h"

namespace engine_race {

class BucketBuilder {
 public:
  // `context` outlives it. `record_count`: about how many records its buckets have in all.
  BucketBuilder(BuildContext* context, uint64_t record_count);
  // To be called once, before all others. kOutOfMemory.
  Status Init() { return reader_.Init(); }

  // Reads of the next buckets are in flight while the oldest one is built: see BucketReader.
  bool full() const { return reader_.full(); }
  bool empty() const { return reader_.empty(); }
  Status Start(uint32_t bucket) { return reader_.Start(bucket); }
  // Builds and installs the oldest bucket. *failure: its own log cannot be read.
  Status BuildOldest(uint32_t* bucket, Status* failure);

  // Start and BuildOldest of one bucket, while no other is started.
  Status Build(uint32_t bucket);

 private:
  BuildContext* const context_;
  SlabAllocator slabs_;
  PartBuilder parts_;
  BucketReader reader_;
  l1::ExtentImage image_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_BUCKET_BUILDER_H_
