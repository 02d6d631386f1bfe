#include "test/power/power_phase.h"

#include <algorithm>

#include "engine_race/base/value_layout.h"
#include "test/power/write_history.h"

namespace engine_race::test {
namespace {

template <typename T, size_t kCount>
T OneOf(Random* random, const T (&choices)[kCount]) {
  return choices[Below(random, kCount)];
}

// Few keys in all lanes of a bucket, so that they fit into one of its rows.
constexpr uint64_t kMaxReusedKeys = 32;

}  // namespace

Options DrawPowerGeometry(Life life, Random* random) {
  Options geometry;
  constexpr uint32_t kBucketCounts[] = {1, 1, 2, 4, 8};
  constexpr uint32_t kGroups[] = {1, 2, 2, 4, 8};
  geometry.bucket_count = OneOf(random, kBucketCounts);
  geometry.file_count = geometry.bucket_count >= 2 ? 1 + Below(random, 2) : 1;
  geometry.value_group_bytes = OneOf(random, kGroups) * kValueBytes;
  // Some share blocks, and some are several.
  constexpr uint32_t kSizes[] = {24, 100, 512, 1536, 5000, 16384};
  if (Chance(random, 0.4)) geometry.value_bytes = OneOf(random, kSizes);
  // Some buckets fill up to their end.
  const bool is_small = !ValueLayout(geometry.value_bytes).is_aligned() || Chance(random, 0.8);
  const uint32_t group_records = is_small ? 256 : 128;
  geometry.key_group_bytes = group_records * static_cast<uint32_t>(kKeyEntryBytes);
  geometry.bucket_capacity_records = Chance(random, 0.3) ? group_records : 2048;
  geometry.memory_budget_bytes = kMinMemoryBudgetBytes;
  geometry.build_thread_count = 1;
  geometry.io_backend = IoBackend::kPsync;
  geometry.journal_bytes = kMinJournalBytes;
  if (life == Life::kReuse) {
    geometry.bucket_count = 1 + static_cast<uint32_t>(Below(random, 2));
    geometry.file_count = 1;
    geometry.key_group_bytes = 256 * kKeyEntryBytes;
    geometry.bucket_capacity_records = Chance(random, 0.5) ? 4 * 256 : 8 * 256;
  } else {
    // Regions fill up to their end, and those with rows are full before.
    geometry.reclaim = Reclaim::kOff;
  }
  return geometry;
}

PowerPhase DrawPowerPhase(Life life, Random* random) {
  PowerPhase phase;
  if (Chance(random, 0.15)) {
    phase.thread_count = 2 + static_cast<uint32_t>(Below(random, LaneNames::kThreadCount - 1));
  }
  // A group of keys takes 128 or 256 records of one bucket; most phases are shorter.
  const double length = static_cast<double>(Below(random, 100));
  if (length < 60) {
    phase.write_count = 1 + Below(random, 30);
  } else if (length < 92) {
    phase.write_count = 30 + Below(random, 100);
  } else {
    phase.write_count = 250 + Below(random, 400);
  }
  if (life == Life::kReuse && length < 50) phase.write_count = 400 + Below(random, 1200);
  phase.write_count = (phase.write_count + phase.thread_count - 1) / phase.thread_count;
  phase.key_count = uint64_t{1} << (2 + Below(random, 8));
  constexpr double kSyncChances[] = {0, 0, 0.02, 0.1, 0.3};
  phase.sync_chance = OneOf(random, kSyncChances);
  phase.reopen_chance = Chance(random, 0.3) ? 0.03 : 0;
  constexpr double kDeleteChances[] = {0, 0, 0.15, 0.15, 0.7};
  phase.delete_chance = OneOf(random, kDeleteChances);
  phase.failing_flush = Chance(random, 0.06) ? 1 + Below(random, 12) : 0;
  phase.look_chance = Chance(random, 0.5) ? 0.1 : 0.5;
  constexpr double kBatchChances[] = {0, 0.05, 0.3};
  phase.batch_chance = OneOf(random, kBatchChances);
  if (life == Life::kReuse) {
    phase.key_count = std::min(phase.key_count, kMaxReusedKeys);
    constexpr double kCompactChances[] = {0, 0.01, 0.05};
    phase.compact_chance = OneOf(random, kCompactChances);
    phase.look_chance = 0.05;
  }
  return phase;
}

Options DrawPowerOptions(const Options& geometry, const PowerPhase& phase, Random* random) {
  Options options = geometry;
  constexpr SyncMode kModes[] = {SyncMode::kNone,  SyncMode::kNone,  SyncMode::kNone,
                                 SyncMode::kNone,  SyncMode::kNone,  SyncMode::kNone,
                                 SyncMode::kGroup, SyncMode::kGroup, SyncMode::kEveryWrite};
  options.sync_mode = OneOf(random, kModes);
  // Batches of several records.
  if (phase.thread_count > 1 && Chance(random, 0.4)) options.sync_mode = SyncMode::kGroup;
  options.sync_on_close = Chance(random, 0.2);
  if (Chance(random, 0.3)) options.staging_mode = StagingMode::kWritten;
  // The index lies on disk, however small it is.
  if (Chance(random, 0.4)) options.index_memory_bytes = 0;
  // A journal of another size is made anew.
  if (Chance(random, 0.15)) options.journal_bytes = kMinJournalBytes + kJournalStepBytes;
  return options;
}

}  // namespace engine_race::test
