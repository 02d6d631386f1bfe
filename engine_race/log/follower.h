// Follows the writer of a store: takes over what another process has written since.
//
// The writer knows nothing of its followers. They read its counts, its rows and the table of
// segments through the page cache, and take no lock. Each of these is read until two readings
// agree, so that they are those of one moment. From the counts a follower knows which records there
// are. It reads their entries and tells the listener of them, as the writer tells its own.
//
// A key entry checks itself, with its sequence number. So no entry is taken that another record has
// left in a staging place or a slot. A row is written before the first of its slots is used again.
// So it tells whether a slot still holds its record. Readers of values ask that after each read.
//
// The buckets stand still between two calls, but for those whose slots a reader finds used again.
// A bucket is reset if its records were moved, or if some of the new ones are not there any more.
// Then its listener is detached, and has to cut the bucket anew. The listener hears of that before
// the bucket changes, so that no reader takes an old slot for one of the new rows.
//
// Each opening for writing has a number. A store with another one than before may have been
// recovered, so all buckets are reset then.
//
// Thread safety: every call from any thread once the log is open. Works on a LogContext, which
// outlives it.
#ifndef ENGINE_RACE_LOG_FOLLOWER_H_
#define ENGINE_RACE_LOG_FOLLOWER_H_

#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/log/append_listener.h"
#include "engine_race/log/bucket_state.h"
#include "engine_race/log/directory_lock.h"
#include "engine_race/log/log_context.h"

namespace engine_race {

struct RawRows;

class Follower {
 public:
  // Tries before a caller gets kIOError. The writer waits for no reader, so what was read may have
  // changed before it is used. A bucket that has changed during so many readings is written without
  // a pause. A value or a chunk is read faster, and gets more tries.
  static constexpr int kBucketTries = 100;
  static constexpr int kReadTries = 1000;

  // `dir` is the absolute name of the store's directory, for a look whether it still is there.
  Follower(LogContext* context, std::string dir)
      : context_(*context),
        dir_(std::move(dir)),
        lines_(context->buckets.size()),
        placed_ends_(context->buckets.size()),
        placed_births_(context->buckets.size()) {}

  // The opening, while no other thread knows the log. `sight` is what the lock said before the
  // files were opened. kBusy: a writer has come, gone or recovered the store since, or does so now.
  // AdoptWritten takes over what a writer that has the store open has written. kIncomplete: the
  // counts are in doubt, after a failed flush.
  Status AdoptWritten();
  Status End(const DirectoryLock::Sight& sight);

  // Takes over all that was written before the call. *reset: buckets whose listener was detached.
  // Waits while a writer opens the store, for DirectoryLock::kPatience at most. kIOError: the store
  // was removed or replaced, that writer takes longer, or the rows of a bucket changed at each
  // reading. kIncomplete: the store needs a recovery, or its counts are in doubt. kCorruption:
  // those of a bucket are damaged.
  Status Refresh(std::vector<uint32_t>* reset);

  // Whether one of the slots may hold another record than when the bucket's ReuseCount was
  // `reuse_count`. If so, the bucket is brought up to date. *failure: why it could not be. The
  // slots ascend.
  bool IsReused(uint32_t bucket, std::span<const uint64_t> slots, uint64_t reuse_count,
                Status* failure);
  // For a build that has found damaged entries. kBusy: the bucket has changed since it was cut.
  Status ConfirmDamage(uint32_t bucket);

 private:
  // The state of a bucket at one moment.
  struct Sample {
    format::BucketCounts line{};
    BucketState state;
    bool has_table = false;  // false: the bucket's own table still counts
    const SlotTable& TableOr(const SlotTable& own) const { return has_table ? state.table : own; }
  };
  // How Update goes about it: as cheaply as it can, with the bucket's rows, or with a reset.
  enum class How { kCounts, kRows, kReset };

  // All below are called under mutex_.
  Status RefreshLocked(std::vector<uint32_t>* reset);
  Status UpdateAll(bool anew, std::vector<uint32_t>* reset);
  // *detached: whether the listener was.
  Status Update(uint32_t bucket, How how, bool* detached);
  // The hint to reclaim is none of a follower's business.
  static bool SayTheSame(const format::BucketCounts& a, const format::BucketCounts& b);
  static bool IsOtherState(const Bucket& bucket, const Sample& sample);
  static bool HasManyNew(const Bucket& bucket, const Sample& sample);
  Status LoadSegments(uint32_t bucket, const Sample& sample);
  Status TakeSample(uint32_t bucket, bool with_rows, Sample* sample);
  Status SampleCounts(uint32_t bucket, Sample* sample, bool* is_good);
  Status SampleRows(uint32_t bucket, bool reloads, Sample* sample, RawRows* rows, bool* agrees);
  bool DecodeSample(uint32_t bucket, const RawRows& rows, Sample* sample) const;
  Status CheckPageCache(const BucketState& state) const;
  Status ReadLine(uint32_t bucket, format::BucketCounts* line) const;
  bool IsSound(const BucketState& state) const;
  // Reads the records from number `begin` on. *all: each is there.
  Status ReadRecords(uint32_t bucket, const Sample& sample, uint64_t begin,
                     std::vector<KeyRecord>* records, bool* all) const;
  Status Adopt(uint32_t bucket, Sample* sample, std::span<const KeyRecord> records, bool resets,
               bool* detached);
  // Under the lock of the bucket.
  static void Detach(uint32_t number, Bucket* bucket);
  Status Tell(uint32_t bucket, AppendListener* listener, std::span<const KeyRecord> records);
  Status LookForRows();

  // These take no lock, or that of a bucket.
  bool IsGivenUp(uint32_t bucket, std::span<const uint64_t> slots);
  bool IsRowGivenUp(uint32_t bucket, uint32_t row, std::span<const uint64_t> slots);
  bool HasRowsNow(uint32_t bucket);
  Status CheckThere() const;

  LogContext& context_;
  const std::string dir_;
  std::mutex mutex_;  // one call that changes buckets at a time; before the lock of a bucket
  // The lines of counts that the buckets were taken from.
  std::vector<format::BucketCounts> lines_;
  // Of each bucket without rows: the segments of all slots below it are known to have places. Of
  // others: the births of the head when the places were read last.
  std::vector<uint64_t> placed_ends_;
  std::vector<uint64_t> placed_births_;
  // The sight of the lock when the last writer was seen, or by the opening.
  DirectoryLock::Sight opened_at_;
  uint32_t page_cache_id_ = 0;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_FOLLOWER_H_
