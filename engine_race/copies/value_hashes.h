// The whole hashes of values that a view shows, from their key entries. The index has 28 bits of
// them, so a copy that was checked with these alone could seal another value with a good hash. The
// entries also say which records were appended since an earlier copy.
//
// Thread safety: one thread. The caller pins the view from before the first Begin until after the
// last Read, so every slot of its records keeps its entry.
#ifndef ENGINE_RACE_COPIES_VALUE_HASHES_H_
#define ENGINE_RACE_COPIES_VALUE_HASHES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "engine_race/base/memory.h"
#include "engine_race/base/status.h"
#include "engine_race/index/index.h"
#include "engine_race/log/bucket_log.h"

namespace engine_race {

class ValueHashes {
 public:
  explicit ValueHashes(const BucketLog& log) : log_(log) {}

  Status Init();
  // Begins with a bucket, which the index has read.
  Status Begin(uint32_t bucket);
  // Leaves out of *records those with sequence numbers below `first`. hashes()[i] becomes the hash
  // of the value of the i-th that is left. kCorruption when an entry is damaged, or does not agree
  // with the index.
  Status Read(uint64_t first, std::vector<IndexEntry>* records);
  const std::vector<uint64_t>& hashes() const { return hashes_; }

 private:
  // Whether the rows say that the record in the slot has a lower sequence number.
  bool IsKnownBelow(uint64_t first, uint64_t slot) const;
  Status Load(size_t begin, std::span<const IndexEntry> records);
  Status EntryOf(size_t number, std::span<const IndexEntry> records, format::KeyEntry* entry);

  const BucketLog& log_;
  uint32_t bucket_ = 0;
  BucketCut cut_;
  std::vector<uint32_t> by_slot_;  // indices of records
  std::vector<bool> left_;
  std::vector<uint64_t> hashes_;
  // Entries of slots [loaded_begin_, loaded_end_).
  Region entries_;
  uint64_t loaded_begin_ = 0;
  uint64_t loaded_end_ = 0;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_COPIES_VALUE_HASHES_H_
