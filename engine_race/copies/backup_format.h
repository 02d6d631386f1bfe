// The format of a backup: every magic number, size and field. docs/format.md says it in words.
//
// Constants and plain data only; the codecs are in backup_manifest.h and backup_piece.h.
#ifndef ENGINE_RACE_COPIES_BACKUP_FORMAT_H_
#define ENGINE_RACE_COPIES_BACKUP_FORMAT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine_race/base/options.h"

namespace engine_race::format {

inline constexpr char kBackupManifestName[] = "manifest_backup";
// The manifest to be, while the backup is made.
inline constexpr char kBackupUnfinishedName[] = "manifest_backup.unfinished";
inline constexpr char kBackupTempName[] = "manifest_backup.new";
inline constexpr char kBackupDataName[] = "value_backup";

inline constexpr uint64_t kBackupMagic = 0x50554b4245434152;  // "RACEBKUP" as bytes
// Of a backup of values of kValueBytes. It does not say their size.
inline constexpr uint32_t kBackupVersion = 1;
// Of other sizes.
inline constexpr uint32_t kSizedBackupVersion = 2;
inline constexpr uint32_t kBackupParentNameBytes = 3952;

// A page of the manifest; behind it stands the cut: one word for each bucket, the sequence number
// below which the backup has all records. Zeros follow up to a whole page.
struct BackupManifest {
  uint64_t magic;
  uint32_t backup_version;
  // The geometry of the store.
  uint32_t bucket_count;
  uint32_t file_count;
  uint32_t value_group_bytes;
  uint32_t key_group_bytes;
  // Backups that a restore needs: 1 for a full one.
  uint32_t chain_length;
  uint64_t bucket_capacity_records;
  uint64_t first_key;
  uint64_t last_key;
  uint64_t store_id;
  uint64_t backup_id;  // random
  // Of the earlier backup that this one goes on from: its id, and the checksum of its manifest,
  // which stands for its cut. 0: none.
  uint64_t parent_id;
  uint64_t parent_checksum;
  uint64_t record_count;  // live records
  uint64_t value_count;   // of them, those with values here
  uint64_t piece_count;
  uint64_t data_bytes;  // of the file of pieces
  // The sum of the checksums of all pieces.
  uint64_t piece_checksum_sum;
  char parent_name[kBackupParentNameBytes];  // absolute; zeros behind it
  uint32_t value_bytes;                      // zero in version 1
  uint32_t reserved;                         // zero
  // Hash64 of the page before it. Its seed is the Hash64 of the cut, seeded with kBackupMagic.
  uint64_t checksum;
};
static_assert(sizeof(BackupManifest) == 4096);
static_assert(offsetof(BackupManifest, checksum) == 4088);

// A piece lists neighbouring live keys of one bucket, and has the values of some of them. Behind
// its header stands a bit for each record, which says whether its value is here. Then come the
// keys, each as its distance from the one before, in groups of seven bits. Then comes the XXH3-64
// of each value that is here. Zeros fill the page. These values follow without gaps, and zeros fill
// their last page.
inline constexpr uint64_t kBackupPieceMagic = 0x4345495045434152;  // "RACEPIEC" as bytes
inline constexpr uint32_t kBackupPieceRecords = 8192;
// Values of a piece, at most: about 1 MiB of them.
inline constexpr uint32_t BackupPieceValues(uint32_t value_bytes) {
  constexpr uint32_t kWantedBytes = 1024 * 1024;
  return std::clamp(kWantedBytes / value_bytes, 1U, kBackupPieceRecords);
}
static_assert(BackupPieceValues(kValueBytes) == 256);
struct BackupPiece {
  uint64_t magic;
  uint64_t backup_id;
  uint32_t bucket;
  // Of the pieces of its bucket, from 0, in order of key.
  uint32_t number;
  uint32_t record_count;
  uint32_t value_count;
  uint32_t list_bytes;  // behind the header
  uint32_t is_last;     // 1: of its bucket
  uint64_t first_key;
  uint64_t reserved;  // zero
  // Hash64 of header and list with this field zero, seeded with the backup id.
  uint64_t checksum;
};
static_assert(sizeof(BackupPiece) == 64);
inline constexpr uint32_t kMaxVarintBytes = 10;
// Of the list of a piece, at most.
inline constexpr uint32_t BackupListBytes(uint32_t value_bytes) {
  return kBackupPieceRecords / 8 + kBackupPieceRecords * kMaxVarintBytes +
         BackupPieceValues(value_bytes) * static_cast<uint32_t>(sizeof(uint64_t));
}

}  // namespace engine_race::format

#endif  // ENGINE_RACE_COPIES_BACKUP_FORMAT_H_
