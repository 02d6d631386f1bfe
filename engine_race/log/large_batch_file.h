// The file of a large batch: all of its records, and the counts that commit it.
//
// Save writes everything but the header, durably. Commit writes the header together with the count
// of records that each bucket is to have, and flushes. From then on an opening finishes the batch.
// Remove empties the file, durably, before it removes the name. So an opening that finds no file
// owes it nothing, and an old batch never comes back.
//
// One thread. Owner of the open file.
#ifndef ENGINE_RACE_LOG_LARGE_BATCH_FILE_H_
#define ENGINE_RACE_LOG_LARGE_BATCH_FILE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/base/write_batch.h"
#include "engine_race/io/file.h"
#include "engine_race/log/batch_format.h"
#include "engine_race/log/batch_plan.h"
#include "engine_race/log/store_files.h"

namespace engine_race {

class LargeBatchFile {
 public:
  // Keeps a reference to `files`.
  explicit LargeBatchFile(const StoreFiles& files) : files_(files) {}

  // Makes all but the header of a batch of `bucket_count` buckets durable. The file gets its space,
  // and `spare_bytes` more, before anything is written: kFull. Only a file system that cannot
  // reserve space may refuse the file later.
  Status Save(std::span<const WriteBatch::Record> records, uint64_t bucket_count,
              uint64_t spare_bytes, mode_t file_mode);
  Status GiveBackSpare() { return file_.Truncate(size_bytes_); }
  // After Save. kFull: the batch is not committed. *may_be_committed: an opening may find it so,
  // also after any other failure.
  Status Commit(std::span<const format::BatchIntentEntry> counts, bool* may_be_committed);
  // Empties the file, durably, and removes it.
  Status Remove();
  // Remove for a batch that was not committed, which counts for nothing in any case.
  void Discard() noexcept;

  // Reads what an earlier opening has left. exists() is false where there is no file. *committed:
  // there is a whole batch.
  Status Read(io::Access access, bool* committed);
  bool exists() const { return file_.valid(); }
  uint64_t entry_count() const { return entries_.size(); }
  // Of a committed batch: its records. Values were durable before the header, so one that fails its
  // checksum is damage: kCorruption.
  Status ReadRecords(WriteBatch* batch) const;
  // Of a committed batch: takes out of a part the records that its bucket, of `record_count`
  // records, has. A bucket may have more than the count it was to have. It was written to after the
  // batch then: the batch is an old one, and all of it is there.
  Status LeaveOutAppended(uint64_t record_count, BatchPart* part) const;

 private:
  uint64_t EntriesOffset() const;
  uint64_t ValuesOffset() const;
  uint64_t ChecksumOf(const format::LargeBatchHeader& header) const;

  const StoreFiles& files_;
  io::File file_;
  uint64_t size_bytes_ = 0;  // without the spare ones
  std::vector<format::LargeBatchEntry> entries_;
  std::vector<format::BatchIntentEntry> counts_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_LARGE_BATCH_FILE_H_
