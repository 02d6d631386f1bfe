// The content of a commit journal when its store is opened.
//
// Immutable once read; thread-safe then.
#ifndef ENGINE_RACE_LOG_JOURNAL_REPLAY_H_
#define ENGINE_RACE_LOG_JOURNAL_REPLAY_H_

#include <cstdint>
#include <span>
#include <vector>

#include "engine_race/base/memory.h"
#include "engine_race/base/status.h"
#include "engine_race/io/file.h"
#include "engine_race/log/file_part.h"
#include "engine_race/log/format.h"
#include "engine_race/log/store_ids.h"

namespace engine_race {

class JournalReplay {
 public:
  struct Record {
    format::JournalDescriptor descriptor;
    uint64_t value_offset = 0;  // in the journal
  };

  // Reads the headers of every batch, up to the first one in each half that fails its check. A
  // missing journal is an empty one. Values are not looked at, but for those of chains: a chain
  // counts only as a whole.
  Status Read(int dir_fd, const StoreIds& ids, uint32_t value_bytes);

  // The record with that sequence number, or null.
  const Record* Find(uint32_t bucket, uint64_t sequence) const;
  // Those of one bucket, in order of sequence number.
  std::span<const Record> RecordsOf(uint32_t bucket) const;
  // One more than the highest sequence number that the journal holds of the bucket; 0 for none.
  uint64_t EndSequence(uint32_t bucket) const {
    const std::span<const Record> records = RecordsOf(bucket);
    return records.empty() ? 0 : records.back().descriptor.entry.sequence() + 1;
  }
  // `buffer` takes the bytes of a value. Aligned to kIoAlignment, it saves a copy.
  Status ReadValue(const Record& record, char* buffer) const {
    return ReadWholePart(file_, buffer, value_bytes_, record.value_offset);
  }

  // Makes what an earlier journal holds unreadable, durably. Nothing to do for a missing one.
  static Status Erase(int dir_fd);

 private:
  Status ReadHalf(const StoreIds& ids, uint64_t begin_offset, uint64_t end_offset,
                  const Region& window);
  Status VerifyValues(uint64_t seed_id, size_t first, bool* whole) const;

  io::File file_;
  uint32_t value_bytes_ = 0;
  std::vector<Record> records_;  // by bucket and sequence number
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_JOURNAL_REPLAY_H_
