// The disk format: every magic number, size, offset and width. docs/format.md says it in words.
//
// Constants and plain data only; the codecs over them are in entry_codec.h and manifest.h.
#ifndef ENGINE_RACE_LOG_FORMAT_H_
#define ENGINE_RACE_LOG_FORMAT_H_

#include <cstddef>
#include <cstdint>

#include "engine_race/base/memory.h"
#include "engine_race/base/options.h"

namespace engine_race::format {

// Files. Numbered names carry two to four decimal digits, counted from 0: "key_00".
inline constexpr char kManifestName[] = "manifest";
inline constexpr char kManifestTempName[] = "manifest.new";
// Of a striped store: the manifest to be, there while the store is being made.
inline constexpr char kManifestDraftName[] = "manifest.draft";
// Of a checkpoint or a restored store: the manifest to be, there while its content is written.
inline constexpr char kManifestUnfinishedName[] = "manifest.unfinished";
// In each directory that a striped store keeps values in: whose it is.
inline constexpr char kMarkerName[] = "manifest_path";
inline constexpr char kMarkerTempName[] = "manifest_path.new";
// In each directory of a store: empty; its lock is the directory's.
inline constexpr char kLockName[] = "manifest_lock";
inline constexpr char kKeyFilePrefix[] = "key_";
inline constexpr char kValueFilePrefix[] = "value_";
inline constexpr char kStagingCountsName[] = "staging_counts";
inline constexpr char kStagingKeysName[] = "staging_keys";
inline constexpr char kStagingValuesName[] = "staging_values";
// Tells what the rows of slots hold. Only in stores in which reclaim has freed slots.
inline constexpr char kRowsName[] = "key_rows";
// Only in stores that have been opened in a durable sync mode.
inline constexpr char kJournalName[] = "staging_journal";
// Only in stores that a batch was written to: intents.
inline constexpr char kBatchesName[] = "staging_batches";
// In each directory that holds logs: reserved space, and no data.
inline constexpr char kReserveName[] = "staging_reserve";

// Manifest.
inline constexpr uint64_t kManifestMagic = 0x3145434152474e45;  // "ENGRACE1" as bytes
// Of manifests and of markers. It is never 3 to 9: builds that were not released wrote those at the
// same place. Their stores are refused.
inline constexpr uint32_t kFormatVersion = 1;
inline constexpr uint32_t kFirstUnreleasedVersion = 3;
inline constexpr uint32_t kLastUnreleasedVersion = 9;
inline constexpr uint32_t kManifestBytes = 4096;

struct Manifest {
  uint64_t magic;
  uint32_t format_version;
  uint16_t key_bytes;
  // Of a key entry. Zero in builds before the first release, whose entries were smaller.
  uint16_t entry_bytes;
  uint32_t value_bytes;
  uint32_t bucket_count;
  uint32_t file_count;
  uint32_t value_group_bytes;
  uint32_t key_group_bytes;
  uint32_t value_places;
  uint64_t bucket_capacity_records;
  uint64_t store_id;
  // Hash64 of all bytes before it, seed kManifestMagic.
  uint64_t checksum;
};
static_assert(sizeof(Manifest) == 64);
static_assert(offsetof(Manifest, value_bytes) == 16);
static_assert(offsetof(Manifest, bucket_capacity_records) == 40);
static_assert(offsetof(Manifest, checksum) == 56);

// The rest of the manifest's page: the store's keys, and where its values lie.
inline constexpr uint32_t kNotedBackupCount = 16;
// Builds before the first release wrote 1 to 4, with other rows.
inline constexpr uint32_t kRowForm = 5;
inline constexpr uint32_t kPathNamesBytes = 3856;
struct ManifestPaths {
  // Those of a row. Builds before the first release had other numbers here.
  uint64_t segment_records;
  // 0: the values lie in the store's own directory.
  uint32_t path_count;
  // kRowForm: the store has a file of rows. 0: it has none.
  uint32_t row_form;
  // Seeds the checks of key entries, counts and rows. The store id, or the seed of a clone's
  // source.
  uint64_t seed_id;
  // The store's keys.
  uint64_t first_key;
  uint64_t last_key;
  // The ids of backups that were made of this store. Those that were used last come first; 0: none.
  uint64_t noted_backups[kNotedBackupCount];
  // Absolute, each ended by a zero byte, one after the other; zeros after the last.
  char names[kPathNamesBytes];
  // Hash64 of all bytes of this part before it, seeded with the store id.
  uint64_t checksum;
};
static_assert(sizeof(Manifest) + sizeof(ManifestPaths) == kManifestBytes);
static_assert(offsetof(ManifestPaths, names) == 168);
static_assert(offsetof(ManifestPaths, checksum) == 4024);
static_assert(kMaxPathCount * 2 <= kPathNamesBytes);

// Marker of a path.
inline constexpr uint64_t kMarkerMagic = 0x4854415045434152;  // "RACEPATH" as bytes
struct PathMarker {
  uint64_t magic;
  uint32_t format_version;
  uint32_t path_index;
  uint32_t path_count;
  uint32_t reserved;  // zero
  uint64_t store_id;
  // Hash64 of all bytes before it, seed kMarkerMagic.
  uint64_t checksum;
};
static_assert(sizeof(PathMarker) == 40);
static_assert(offsetof(PathMarker, checksum) == 32);

// A bucket that takes a million writes a second uses its sequence numbers up in almost nine years.
inline constexpr uint32_t kSequenceBits = 48;
inline constexpr uint64_t kSequenceMask = (uint64_t{1} << kSequenceBits) - 1;

// Key entry: four little-endian words.
struct KeyEntry {
  uint64_t sequence() const { return word & kSequenceMask; }
  bool tombstone() const { return (word >> kSequenceBits & 1) != 0; }
  bool in_large_batch() const { return (word >> (kSequenceBits + 1) & 1) != 0; }

  uint64_t key;
  // From the low bits up: sequence number, a bit for a tombstone, a bit for a record of a large
  // batch, zeros.
  uint64_t word;
  uint64_t value_hash;  // Hash64 of the value, seed 0; zero for a tombstone
  uint64_t check;       // a hash of the words above, with store, bucket and position

  friend bool operator==(const KeyEntry&, const KeyEntry&) = default;
};
using engine_race::kKeyEntryBytes;
static_assert(sizeof(KeyEntry) == kKeyEntryBytes);
static_assert(512 % kKeyEntryBytes == 0, "no entry lies in two sectors");
inline constexpr uint32_t kEntryWordBits = kSequenceBits + 2;
// An entry that no record has: Decode refuses its bits. Its number is the highest.
inline constexpr KeyEntry kNoRecord = {0, ~uint64_t{0}, 0, 0};
// Entries in a page of a key file, the unit of aligned reads and writes.
inline constexpr uint64_t kPageEntries = kIoAlignment / kKeyEntryBytes;

// The index keeps this many bits of a value's hash, the highest ones.
inline constexpr uint32_t kChecksumBits = 28;
inline constexpr uint64_t kChecksumMask = (uint64_t{1} << kChecksumBits) - 1;

inline constexpr uint32_t kSlotBits = 31;
static_assert(kMaxBucketRecords == uint64_t{1} << kSlotBits);

// Counts: one line of words a bucket, each replaced by one aligned 8-byte store. A word holds its
// payload in its low bits and a hash above it. The payload has 32 bits. A count of 2^32 or more has
// only its low bits here: the rows of its bucket tell the others.
inline constexpr uint32_t kCountBits = 32;
inline constexpr uint64_t kCountMask = (uint64_t{1} << kCountBits) - 1;
static_assert((uint64_t{1} << kCountBits) > kMaxBucketRecords);
struct BucketCounts {
  uint64_t records;        // acknowledged, staged ones included
  uint64_t logged_values;  // watermark: values below it are in the value log
  uint64_t logged_keys;    // watermark: entries below it are in the key log
  uint64_t value_places;   // where the staged groups of values lie
  uint64_t key_places;     // where the staged groups of entries lie
  uint64_t synced;         // watermark: records below it are in the logs, durable
  uint64_t page_cache;     // PageCacheId() under which the other words are the truth; 0: none
  uint64_t clean_at;       // reclaim cleans the bucket at this count; a hint, 0: not known
};
static_assert(sizeof(BucketCounts) == 64, "a cache line, so that buckets do not share one");
enum class WordKind : uint32_t {
  kRecords = 0,
  kLoggedValues = 1,
  kLoggedKeys = 2,
  kValuePlaces = 3,
  kKeyPlaces = 4,
  kSynced = 5,
  kPageCache = 6,
  kCleanAt = 7,
};
inline constexpr auto kWordKindEnd = static_cast<WordKind>(8);
inline constexpr uint32_t kPageCacheBits = 32;

// Staging: a group of a bucket is staged in one of its places. The places word names it, with 4
// bits for group g at position g % 8. A bucket usually needs only its first two places. It uses the
// others when it is written to faster than its log takes the groups.
inline constexpr uint32_t kPlaceBits = 4;
inline constexpr uint32_t kMaxPlaces = 8;
inline constexpr uint32_t kPlacesWordBits = kPlaceBits * kMaxPlaces;
inline constexpr uint32_t kBasePlaces = 2;
inline constexpr uint32_t kValuePlaces = 8;
inline constexpr uint32_t kKeyPlaces = 2;
static_assert(kValuePlaces <= kMaxPlaces && kKeyPlaces <= kMaxPlaces);
static_assert(kBasePlaces <= kKeyPlaces && kBasePlaces >= 2,
              "a bucket takes records while one of its groups is written");

// Rows: what the slots of a bucket hold, once slots have been used again. The slots of a bucket
// are cut into rows: as many slots as the larger group has. The file begins with a head for each
// bucket. The rows follow, in the order of their segments' entries in the table.
inline constexpr uint32_t kMaxRowRecords = kMaxGroupRecords;
inline constexpr uint32_t kBirthBits = 50;
inline constexpr uint32_t kSealBits = 48;
enum class RowKind : uint64_t {
  kFree = 0,
  kUsed = 1,
  kMoving = 2,  // holds moved records, which may not be durable
};
// Images of a row are numbered from 1. One that was written half begins with another word than it
// ends with, and counts for nothing.
inline constexpr uint32_t kImageNumberBits = 40;
inline constexpr uint32_t kRowKindBits = 2;
struct RowImage {
  uint64_t begin;   // from the low bits up: the image's number, check
  uint64_t number;  // the first sequence number of the run
  uint64_t path[kMaxRowRecords / 64];
  uint64_t held[kMaxRowRecords / 64];
  uint64_t birth;  // from the low bits up: kind, birth
  uint64_t horizon;
  uint64_t seal;
  uint64_t moved_at;
  uint64_t hash;  // of the fields above
  uint64_t end;   // as `begin`
};
static_assert(sizeof(RowImage) == 128);
// The image with the higher number counts, and the other one is written next. A place that its
// bucket has given back has vacant images: see RowCodec. A row that the head reaches has two
// images, its own or vacant ones.
struct RowImages {
  RowImage images[2];
};
static_assert(512 % sizeof(RowImages) == 0, "no row lies in two sectors");
// Of each bucket. 16 aligned bytes, so that no disk tears one.
struct RowsHead {
  uint64_t row_end;  // no row from this one on has a place and counts; with a check of both words
  uint64_t births;   // at least so many
};
// The row end of a bucket that has no rows: no slot of it was used again, and slots are sequence
// numbers.
inline constexpr uint64_t kNoRows = (uint64_t{1} << 32) - 1;

// Commit journal: two halves of batches. A batch is one block of header and then its values, in the
// order of its descriptors, and zeros up to a whole block. A tombstone has no value. The batches of
// a half follow one another from its start, numbered from 0, under the generation of the half's
// first batch.
inline constexpr uint64_t kJournalMagic = 0x52554f4a45434152;  // "RACEJOUR" as bytes
inline constexpr uint32_t kJournalHalves = 2;
inline constexpr uint32_t kJournalBlockBytes = 4096;

struct JournalHeader {
  uint64_t magic;
  uint64_t store_id;
  // Random, another one each time that a half is begun anew.
  uint64_t generation;
  uint32_t batch_number;
  uint32_t record_count;
  // Of the records of one WriteBatch, which count only together: a random id, how many journal
  // batches they take, and which of them this is. Zero for records that count singly.
  uint64_t chain_id;
  uint32_t chain_length;
  uint32_t chain_index;
  uint64_t seed_id;
  // Hash64 of the block, this field taken as zero, seed kJournalMagic.
  uint64_t checksum;
};
static_assert(sizeof(JournalHeader) == 64);

struct JournalDescriptor {
  KeyEntry entry;
  uint32_t bucket;
  uint32_t reserved;  // zero
};
static_assert(sizeof(JournalDescriptor) == 40);
inline constexpr uint32_t kJournalBatchRecords =
    (kJournalBlockBytes - sizeof(JournalHeader)) / sizeof(JournalDescriptor);
static_assert(kJournalBlockBytes + kMaxValueBytes <= kMinJournalBytes / kJournalHalves,
              "a batch of one record fits a half");

// The index on disk: extents of blocks, and a root that names them. All of it can be made again
// from the key logs, and nothing acknowledged depends on it. A root holds a header, the coverage of
// each bucket, and the extents, bucket by bucket in order of key. It is zero up to a whole page.
inline constexpr char kIndexRootName[] = "key_index_root";
inline constexpr char kIndexRootTempName[] = "key_index_root.new";
// Numbered like the other files: "key_index_00".
inline constexpr char kIndexFilePrefix[] = "key_index_";
inline constexpr uint32_t kIndexFileCount = 4;
inline constexpr uint64_t kIndexRootMagic = 0x544f4f5245434152;  // "RACEROOT" as bytes
inline constexpr uint32_t kIndexRootVersion = 2;

struct IndexRootHeader {
  uint64_t magic;
  uint32_t root_version;
  uint32_t bucket_count;
  uint64_t store_id;
  // Random, another one for each root that is written.
  uint64_t root_id;
  uint32_t extent_count;
  uint32_t file_count;
  uint64_t seed_id;
  uint64_t reserved;  // zero
  // Hash64 of the extents. Its seed is the Hash64 of the header's fields above, seeded with
  // kIndexRootMagic. The coverage is left out: recovery may void a part of it in place.
  uint64_t checksum;
};
static_assert(sizeof(IndexRootHeader) == 64);

// Which records of a bucket its extents stand for, when the root was made. The bucket had
// `end_count` records then, and its rows `end_births` births. The extents have no later record.
// Together with the records from `record_count` on and with the rows that were born after `births`
// they had the newest record of each key. `last_check` is the check of the key entry of the
// record before `end_count`. `check` is a hash of root, bucket, and the other fields. All zero: the
// bucket is not covered.
struct IndexCoverage {
  uint64_t record_count;
  uint64_t births;
  uint64_t end_count;
  uint64_t end_births;
  uint64_t last_check;
  uint64_t check;
};
static_assert(sizeof(IndexCoverage) == 48);

// One extent: the keys of one part, ascending, tombstones left out. A word that leads to a row that
// was born after `births`, or to a slot that holds nothing, stands for no record.
struct IndexExtent {
  uint64_t first_key;
  uint64_t last_key;
  uint64_t generation;
  uint32_t place;
  uint32_t record_count;
  uint32_t bucket;
  uint32_t reserved;  // zero
  uint64_t births;
};
static_assert(sizeof(IndexExtent) == 48);

// An extent lies in file `place % kIndexFileCount`, at kIndexExtentBytes * (place /
// kIndexFileCount). Its first block has the first keys of the other blocks. Those hold the records,
// in order.
inline constexpr uint32_t kIndexExtentBytes = 2 * 1024 * 1024;
inline constexpr uint32_t kIndexBlockBytes = 4096;
inline constexpr uint32_t kIndexExtentBlocks = kIndexExtentBytes / kIndexBlockBytes;

// Seed of a block's checksum: store id, generation, place and the block's number in its extent.
struct IndexBlockHeader {
  uint64_t checksum;      // Hash64 of the block behind this field
  uint32_t record_count;  // of the first block: how many blocks hold records
  uint32_t block_number;
};
static_assert(sizeof(IndexBlockHeader) == 16);
inline constexpr uint32_t kIndexBlockRecords =
    (kIndexBlockBytes - sizeof(IndexBlockHeader)) / (2 * sizeof(uint64_t));
inline constexpr uint32_t kIndexFences = kIndexExtentBlocks - 2;
static_assert(sizeof(IndexBlockHeader) + kIndexFences * sizeof(uint64_t) == kIndexBlockBytes);

// A block of records: `keys` ascending, and beside each key its word: slot, value checksum.
struct IndexRecordBlock {
  IndexBlockHeader header;
  uint64_t keys[kIndexBlockRecords];
  uint64_t words[kIndexBlockRecords];
};
static_assert(sizeof(IndexRecordBlock) == kIndexBlockBytes);
// The first block of an extent: the first key of each block of records.
struct IndexFenceBlock {
  IndexBlockHeader header;
  uint64_t first_keys[kIndexFences];
};
static_assert(sizeof(IndexFenceBlock) == kIndexBlockBytes);
inline constexpr uint32_t kIndexExtentRecords = kIndexFences * kIndexBlockRecords;
// Blocks needed for `record_count` records.
inline constexpr uint32_t IndexBlocksOf(uint64_t record_count) {
  return static_cast<uint32_t>((record_count + kIndexBlockRecords - 1) / kIndexBlockRecords);
}
// The bytes of their extent, with its block of fences.
inline constexpr uint64_t IndexExtentBytesOf(uint64_t record_count) {
  return (uint64_t{IndexBlocksOf(record_count)} + 1) * kIndexBlockBytes;
}

}  // namespace engine_race::format

#endif  // ENGINE_RACE_LOG_FORMAT_H_
