// Makes the iterators of a store, and keeps the memory of released ones for the next.
//
// Thread-safe. Outlived by its iterators, which then delete themselves.
#ifndef ENGINE_RACE_SCAN_ITERATOR_POOL_H_
#define ENGINE_RACE_SCAN_ITERATOR_POOL_H_

#include <cstdint>
#include <memory>

#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "engine_race/index/index.h"
#include "engine_race/log/bucket_log.h"
#include "engine_race/scan/iterator.h"

namespace engine_race {

class IteratorPool {
 public:
  IteratorPool(const BucketLog& log, const Index& index, const Options& options);
  ~IteratorPool();

  // kInvalidArgument for bounds of another size and a snapshot of another store; kOutOfMemory.
  Status New(const IteratorOptions& options, Iterator* iterator);

  // Of the iterators that wait to be used again.
  uint64_t memory_bytes() const;

 private:
  const BucketLog& log_;
  const Index& index_;
  const Options options_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_SCAN_ITERATOR_POOL_H_
