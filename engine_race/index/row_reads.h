// Reads of several rows of a bucket's key log at once, so that an opening waits for them once.
//
// One thread at a time. Owner of its memory and its queue. Both are made by the first Read that
// needs them.
#ifndef ENGINE_RACE_INDEX_ROW_READS_H_
#define ENGINE_RACE_INDEX_ROW_READS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine_race/base/memory.h"
#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "engine_race/io/failed_backends.h"
#include "engine_race/io/read_queue.h"
#include "engine_race/log/format.h"
#include "engine_race/log/slot_files.h"

namespace engine_race {

class RowReads {
 public:
  // The most rows of one Read.
  static constexpr size_t kMaxRows = 16;

  // `failed` outlives this.
  RowReads(IoBackend backend, io::FailedBackends* failed) : backend_(backend), failed_(failed) {}

  // Reads the entries of these rows, unverified. `rows` ascends, and each row has `row_records`
  // slots. Slots that were never written read as zeros or as anything older. Fails with
  // kOutOfMemory, or as the read of a row has failed.
  Status Read(const SlotFiles& slots, uint32_t bucket, uint32_t row_records,
              std::span<const uint32_t> rows);
  // The entries of the row with that place in `rows`, good until the next Read.
  const format::KeyEntry* RowAt(size_t place) const {
    return reinterpret_cast<const format::KeyEntry*>(memory_.data() + place * row_bytes_);
  }

 private:
  // Neighbouring rows.
  struct Run {
    size_t place = 0;  // in `rows`
    uint64_t slot = 0;
    uint64_t slot_count = 0;
  };

  bool MakeRequests(const SlotFiles& slots, uint32_t bucket);
  Status Prepare();
  bool ReadAtOnce();

  const IoBackend backend_;
  io::FailedBackends* const failed_;
  uint64_t row_bytes_ = 0;
  Region memory_;
  std::vector<Run> runs_;
  std::vector<io::ReadRequest> requests_;  // the tag of each is its number
  std::vector<io::ReadCompletion> completions_;
  // Last member: it is destroyed first and waits for the reads.
  std::unique_ptr<io::ReadQueue> queue_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_ROW_READS_H_
