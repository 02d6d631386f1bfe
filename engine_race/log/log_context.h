// The state that the classes of one open bucket log share: options, files, staging, buckets, the
// write latch.
//
// Owned by BucketLog; it outlives the classes that work on it and never moves.
// Thread safety: that of each member. A bucket's plain fields are guarded by its mutex.
#ifndef ENGINE_RACE_LOG_LOG_CONTEXT_H_
#define ENGINE_RACE_LOG_LOG_CONTEXT_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "engine_race/base/latency_recorder.h"
#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "engine_race/log/append_listener.h"
#include "engine_race/log/batch_gate.h"
#include "engine_race/log/bucket.h"
#include "engine_race/log/entry_codec.h"
#include "engine_race/log/geometry.h"
#include "engine_race/log/log_cut.h"
#include "engine_race/log/space_reserve.h"
#include "engine_race/log/staging.h"
#include "engine_race/log/store_files.h"
#include "engine_race/log/write_latch.h"
#include "engine_race/numa/store_placement.h"

namespace engine_race {

struct LogContext {
  // The buckets are empty until Recovery has run.
  LogContext(const Options& the_options, StoreFiles the_files,
             const numa::StorePlacement& the_placement);
  LogContext(const LogContext&) = delete;
  LogContext& operator=(const LogContext&) = delete;

  const Geometry& geometry() const { return files.identity.geometry; }
  StoreIds ids() const { return files.identity.ids(); }
  EntryCodec codec(uint32_t bucket) const { return EntryCodec(files.identity.seed_id(), bucket); }

  // kCorruption: what every call answers for a bucket whose counts failed their check at Open.
  Status DamagedCounts(uint32_t bucket) const;

  const Options options;
  // Changed by recovery alone, but for what manifest_mutex guards. Before everything that refers
  // into it.
  StoreFiles files;
  const numa::StorePlacement placement;
  SpaceReserve reserve;
  Staging staging;
  std::vector<Bucket> buckets;
  // Held while the manifest is written anew. Guards whether there are rows, and the backups that
  // are noted.
  mutable std::mutex manifest_mutex;
  // Whether files.rows is valid. It is made while the store is open, under manifest_mutex.
  std::atomic<bool> has_row_file{false};
  CutCounter cuts;
  WriteLatch latch;
  BatchGate batches;
  // Null without background reclaim. Set while no thread appends.
  std::atomic<KeyGroupListener*> key_group_listener{nullptr};
  // Held while blocks of entries or values are read, changed and written.
  std::mutex& block_mutex_of(uint32_t bucket) {
    return block_mutexes[bucket % block_mutexes.size()];
  }
  std::array<std::mutex, 64> block_mutexes;
  // How long writes of full groups and flushes took, where Options::latency_stats asks for it.
  LatencyRecorder group_writes;
  LatencyRecorder flushes;
  // Written to the logs. In a cache line of its own, because writers change it and everybody reads
  // the members above. Relaxed: a statistic.
  alignas(64) std::atomic<uint64_t> written_bytes{0};
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_LOG_CONTEXT_H_
