// The blocks of an index's extents, all in memory, reached and searched in other ways than the
// engine does. The blocks are those that the engine has written, and so are their formats.
//
// A lookup takes the steps of the engine's: from the bucket to the extent, to its block of fences,
// to a block of records. It needs no epoch and no lock of a bucket, because nothing is ever written
// or evicted.
//
// Thread-safe once loaded. Owns the blocks.
#ifndef HARNESS_LAB_EXTENT_BLOCKS_H_
#define HARNESS_LAB_EXTENT_BLOCKS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine_race/base/memory.h"
#include "engine_race/base/status.h"
#include "engine_race/l1/index_root.h"
#include "engine_race/l1/key_search.h"
#include "engine_race/log/bucket_log.h"
#include "engine_race/log/format.h"
#include "harness/lab/block_cache.h"
#include "harness/lab/node_search.h"

namespace engine_race::lab {

class ExtentBlocks {
 public:
  // Reads every block of the extents that the durable root of the log's store names. An index may
  // be open beside it, but no thread may write extents meanwhile. kNotFound without a root.
  static Status Load(const BucketLog& log, std::unique_ptr<ExtentBlocks>* blocks);

  // Each call looks up all keys and adds their slots to *slot_sum. kNotFound when one is not there.

  // Blocks by pointer, the engine's searches.
  Status FindByPointer(std::span<const uint64_t> keys, uint64_t* slot_sum) const;
  // Blocks through the cache, the engine's searches.
  Status FindInCache(std::span<const uint64_t> keys, uint64_t* slot_sum) const;
  // Blocks by pointer, binary searches.
  Status FindByHalving(std::span<const uint64_t> keys, uint64_t* slot_sum) const;
  // Blocks by pointer, each searched through the words of a tree beside it.
  Status FindByNodes(NodeSearchFn search, std::span<const uint64_t> keys, uint64_t* slot_sum) const;

  // Of fences and of records.
  uint64_t block_count() const { return memory_.size() / format::kIndexBlockBytes; }

 private:
  struct Extent {
    l1::KeyBounds keys;
    // Of its fences in memory_. The other blocks follow.
    uint64_t first_block;
  };

  ExtentBlocks() = default;
  Status Read(const BucketLog& log, const l1::IndexRoot& root);
  Status FillCache();
  Status MakeNodes();

  // The only extent that can hold the key; null if its bucket has none.
  const Extent* ExtentOf(uint64_t key) const;
  const char* BlockAt(uint64_t block) const {
    return memory_.data() + block * format::kIndexBlockBytes;
  }
  template <typename FindWord>
  Status FindAll(std::span<const uint64_t> keys, const FindWord& find_word,
                 uint64_t* slot_sum) const;
  template <typename LastNotAbove>
  Status FindBySearch(std::span<const uint64_t> keys, const LastNotAbove& last_not_above,
                      uint64_t* slot_sum) const;

  Geometry geometry_;
  // Those of bucket b are extents_[bucket_begins_[b]] to extents_[bucket_begins_[b + 1]].
  std::vector<uint32_t> bucket_begins_;
  std::vector<Extent> extents_;  // in order of their keys
  Region memory_;
  Region node_memory_;  // NodeWords for each block
  std::unique_ptr<BlockCache> cache_;
};

}  // namespace engine_race::lab

#endif  // HARNESS_LAB_EXTENT_BLOCKS_H_
