// The format of batches that are being written: intents, and the file of a large batch.
// docs/format.md says it in words.
//
// Constants and plain data only; the codecs are in batch_intents.cc and large_batch_file.cc.
#ifndef ENGINE_RACE_LOG_BATCH_FORMAT_H_
#define ENGINE_RACE_LOG_BATCH_FORMAT_H_

#include <cstdint>

namespace engine_race::format {

// Intents of batches, in slots of their own: which counts a batch is to move. The commit word is
// stored last, when all records of the batch are staged, and cleared when all counts have moved. An
// intent counts only in the page cache that it names: nothing of it is ever flushed.
struct BatchIntent {
  // 0: none. Else the Hash64 of the entries, its lowest bit set; its seed is a hash of store id,
  // page cache and entry_count.
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
inline constexpr uint32_t kBatchIntents = 8;
inline constexpr uint32_t kBatchIntentEntries = 4096;
inline constexpr uint64_t kBatchIntentBytes =
    4096 + uint64_t{kBatchIntentEntries} * sizeof(BatchIntentEntry);

// A large batch: this header and behind it a BatchIntentEntry for each bucket, in ascending order.
// Then the entries, from the next multiple of kIoAlignment on, and from the next multiple on the
// values of the puts, in order. Header and counts are written last, when the rest is durable, and
// so are all records that the buckets had before. While they are there, no other record was
// written to the buckets.
inline constexpr uint64_t kLargeBatchMagic = 0x4843544142454741;  // "AGEBATCH" as bytes
struct LargeBatchHeader {
  uint64_t magic;
  uint64_t store_id;
  uint64_t entry_count;
  uint64_t bucket_count;
  // Hash64 of the counts, seeded with the Hash64 of the entries. The seed of the latter is the
  // Hash64 of the fields above, seeded with the magic.
  uint64_t checksum;
  uint64_t reserved[3];  // zero
};
static_assert(sizeof(LargeBatchHeader) == 64);
struct LargeBatchEntry {
  uint64_t key;
  uint64_t value_hash;  // Hash64 of the value, seed 0
  uint64_t deletion;    // 1: the entry has no value
};
static_assert(sizeof(LargeBatchEntry) == 24);

}  // namespace engine_race::format

#endif  // ENGINE_RACE_LOG_BATCH_FORMAT_H_
