// The pieces of a backup: written bucket by bucket in order of key, and walked again.
//
// Thread safety: a writer or a walk belongs to one thread; any number of them work on one file. The
// caller owns the file and PieceTotals.
#ifndef ENGINE_RACE_COPIES_BACKUP_PIECE_H_
#define ENGINE_RACE_COPIES_BACKUP_PIECE_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "engine_race/base/memory.h"
#include "engine_race/base/status.h"
#include "engine_race/copies/backup_format.h"
#include "engine_race/io/file.h"

namespace engine_race {

// Of all pieces of a file. Relaxed counters: they are read when all writers are done.
struct PieceTotals {
  std::atomic<uint64_t> next_offset{0};
  std::atomic<uint64_t> record_count{0};
  std::atomic<uint64_t> value_count{0};
  std::atomic<uint64_t> piece_count{0};
  std::atomic<uint64_t> checksum_sum{0};
};

class PieceWriter {
 public:
  PieceWriter(const io::File& file, uint64_t backup_id, uint32_t value_bytes, PieceTotals* totals)
      : file_(file),
        backup_id_(backup_id),
        value_bytes_(value_bytes),
        most_values_(format::BackupPieceValues(value_bytes)),
        totals_(*totals) {}

  Status Init();
  // The next live key of the bucket, ascending; `value` is null if it is not in this backup.
  // `value_hash` is the HashValue of it.
  Status Add(uint32_t bucket, uint64_t key, const char* value, uint64_t value_hash);
  // Ends a bucket. Buckets without records have no piece.
  Status Finish(uint32_t bucket);

 private:
  Status Write(uint32_t bucket, bool is_last);

  const io::File& file_;
  const uint64_t backup_id_;
  const uint32_t value_bytes_;
  const uint32_t most_values_;
  PieceTotals& totals_;
  std::vector<uint64_t> keys_;
  std::vector<bool> is_here_;
  std::vector<uint64_t> hashes_;
  std::vector<char> encoded_;
  // Room for header and list, then the values. The head ends where the values begin.
  Region buffer_;
  uint64_t values_begin_ = 0;  // there
  uint32_t number_ = 0;
};

// Where a piece lies.
struct PiecePlace {
  uint64_t offset = 0;
  uint64_t size_bytes = 0;
  uint64_t values_offset = 0;
};

// Reads the header at `offset`, checking what can be checked without the list. Messages name
// `name`.
Status ReadPieceHeader(const io::File& file, const std::string& name, uint64_t backup_id,
                       uint32_t value_bytes, uint64_t offset, format::BackupPiece* header,
                       PiecePlace* place);

// Walks the listed keys of one bucket, in order.
class PieceWalk {
 public:
  // All of these outlive the walk; `name` is for messages.
  PieceWalk(const io::File& file, const std::string& name, uint64_t backup_id, uint32_t value_bytes,
            const std::vector<PiecePlace>& places)
      : file_(file),
        name_(name),
        backup_id_(backup_id),
        value_bytes_(value_bytes),
        places_(places) {}

  // Moves to the next key. *done: there is none.
  Status Next(bool* done);
  // Moves on to the first key that is not below `key`.
  Status Seek(uint64_t key, bool* done);

  uint64_t key() const { return keys_[at_]; }
  bool has_value() const { return is_here_[at_]; }
  // The value of the key at hand, compared with its hash, good until the next move. Only with
  // has_value.
  Status Value(const char** value);

 private:
  Status Load();
  Status Decode(const char* list, const format::BackupPiece& header);
  Status Damaged(const char* why) const;

  const io::File& file_;
  const std::string& name_;
  const uint64_t backup_id_;
  const uint32_t value_bytes_;
  const std::vector<PiecePlace>& places_;
  size_t next_place_ = 0;
  uint64_t values_offset_ = 0;
  bool has_stand_ = false;
  uint64_t last_key_ = 0;
  bool has_last_key_ = false;
  // Of the piece at hand.
  std::vector<uint64_t> keys_;
  std::vector<bool> is_here_;
  std::vector<uint64_t> hashes_;
  size_t at_ = 0;
  size_t value_index_ = 0;  // of the key at hand among the values
  Region list_;
  Region values_;
  // The values in memory, and where they begin there.
  size_t window_begin_ = 0;
  size_t window_end_ = 0;
  uint32_t window_skip_bytes_ = 0;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_COPIES_BACKUP_PIECE_H_
