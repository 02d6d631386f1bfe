// The format of intents: what commits a batch of several buckets. docs/format.md says it in words.
//
// Constants and plain data only; the codec is in batch_intents.cc.
#ifndef ENGINE_RACE_LOG_BATCH_FORMAT_H_
#define ENGINE_RACE_LOG_BATCH_FORMAT_H_

#include <cstdint>

namespace engine_race::format {

// Which counts a batch is to move. The commit word is stored last, and cleared when all counts have
// moved.
struct BatchIntent {
  // 0: none. Else the Hash64 of the entries, its lowest bit set. Its seed is entry_count plus a
  // hash of store id and page cache. For a large batch it is entry_count plus a hash of the store
  // id.
  uint64_t commit;
  uint32_t entry_count;
  uint32_t reserved0;     // zero
  uint64_t reserved1[6];  // zero
};
static_assert(sizeof(BatchIntent) == 64);
struct BatchIntentEntry {
  uint64_t record_count;  // of the bucket, with the records of the batch
  uint32_t bucket;
  uint32_t reserved;  // zero
};
static_assert(sizeof(BatchIntentEntry) == 16);
// Where the entries of an intent begin.
inline constexpr uint64_t kBatchEntriesOffset = 4096;

// Intents of batches whose records are all staged. They count only in the page cache that they
// name: nothing relies on a flush of them.
inline constexpr uint32_t kBatchIntents = 8;
inline constexpr uint32_t kBatchIntentEntries = 4096;
inline constexpr uint64_t kBatchIntentBytes =
    kBatchEntriesOffset + uint64_t{kBatchIntentEntries} * sizeof(BatchIntentEntry);

// Behind them, the intent of a large batch: its records are in the logs, durably, before it is
// stored and flushed. It may have an entry for each bucket of the store.
inline constexpr uint32_t kLargeIntent = kBatchIntents;

}  // namespace engine_race::format

#endif  // ENGINE_RACE_LOG_BATCH_FORMAT_H_
