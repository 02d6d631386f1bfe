// Reads the logs of a store from end to end and compares everything with its checksums, changing
// nothing.
//
// Thread safety: each call runs threads of its own over files that the caller owns. Sinks belong to
// the thread that made them.
#ifndef ENGINE_RACE_COPIES_VERIFY_H_
#define ENGINE_RACE_COPIES_VERIFY_H_

#include <functional>
#include <memory>

#include "engine_race/base/progress.h"
#include "engine_race/base/status.h"
#include "engine_race/base/verify_report.h"
#include "engine_race/log/entry_codec.h"
#include "engine_race/log/slot_table.h"
#include "engine_race/log/store_files.h"

namespace engine_race {

// A bucket as the next opening will find it.
struct VerifiedBucket {
  uint64_t held_count = 0;    // records
  uint64_t record_count = 0;  // records that it has had
  const SlotTable& table;
};

// The slot of a record for which the next opening finds one.
inline constexpr uint32_t kNoSlot = ~uint32_t{0};

// Takes records as they are verified. One thread.
class RecordSink {
 public:
  virtual ~RecordSink() = default;
  // A good record of a bucket. Of two records of a key the newer one comes later. `value` is null
  // for a tombstone, and valid during the call. No call comes any more once something bad has been
  // found.
  virtual Status Take(uint32_t bucket, const KeyRecord& record, const char* value) = 0;
  // All records of the bucket have been taken, unless something bad was found.
  virtual Status Finish(uint32_t bucket, const VerifiedBucket& verified) = 0;
};
// Makes a sink for the thread that calls it.
using MakeSinkFn = std::function<Status(std::unique_ptr<RecordSink>* sink)>;

// VerifyStore of a store that is open for reading, without its index. Hands good records to sinks,
// one a thread; a sink's failure ends it. `make_sink` may be empty. The first call of `on_progress`
// says that 0 records are done; the last one says that all are, if the whole store could be read.
Status VerifyFiles(const StoreFiles& files, VerifyReport* report, const BadRecordFn& on_bad,
                   const MakeSinkFn& make_sink, const ProgressFn& on_progress = {});

}  // namespace engine_race

#endif  // ENGINE_RACE_COPIES_VERIFY_H_
