#include "engine_race/base/options.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <string>

#include "engine_race/base/memory_limit.h"
#include "engine_race/base/value_layout.h"

namespace engine_race {
namespace {

Status CheckRange(const char* field, uint64_t value, uint64_t low, uint64_t high) {
  if (value >= low && value <= high) return Status::Ok();
  return Status::InvalidArgument(std::string(field) + " is " + std::to_string(value) +
                                 ", not from " + std::to_string(low) + " to " +
                                 std::to_string(high));
}

Status CheckPowerOfTwo(const char* field, uint64_t value, uint64_t low, uint64_t high) {
  if (!std::has_single_bit(value)) {
    return Status::InvalidArgument(std::string(field) + " is " + std::to_string(value) +
                                   ", not a power of two");
  }
  return CheckRange(field, value, low, high);
}

Status CheckPaths(const Options& options) {
  ENGINE_RACE_RETURN_IF_ERROR(
      CheckRange("the number of paths", options.paths.size(), 0, kMaxPathCount));
  for (const std::string& path : options.paths) {
    if (path.empty()) return Status::InvalidArgument("one of the paths is empty");
  }
  return Status::Ok();
}

Status CheckNuma(const NumaOptions& numa) {
  switch (numa.mode) {
    case NumaMode::kNone:
      return numa.nodes.empty() ? Status::Ok()
                                : Status::InvalidArgument("numa names nodes, but its mode is none");
    case NumaMode::kInterleave:
      return Status::Ok();
    case NumaMode::kBind:
      return numa.nodes.empty() ? Status::InvalidArgument("numa binds to nodes, but names none")
                                : Status::Ok();
    default:
      return Status::InvalidArgument("numa.mode has the unknown value " +
                                     std::to_string(static_cast<int>(numa.mode)));
  }
}

Status CheckMode(const char* field, uint32_t mode, uint32_t least) {
  if ((mode & least) == least && mode <= 0777) return Status::Ok();
  // In octal. A stream would bring the standard library's locales into every program.
  char words[80];
  std::snprintf(words, sizeof(words), " is 0%o, not from 0%o to 0777", mode, least);
  return Status::InvalidArgument(field + std::string(words));
}

}  // namespace

Status ValidateOptions(const Options& options) {
  // A writer that recovers must see what the device has. After a failed flush the page cache may
  // have more.
  if (options.page_cache && !options.read_only) {
    return Status::InvalidArgument("page_cache is for stores that are opened with read_only");
  }
  if (options.follow && options.page_cache) {
    return Status::InvalidArgument(
        "follow reads logs around the page cache, as the writer writes them: not with page_cache");
  }
  if (options.follow && !options.verify_checksums) {
    return Status::InvalidArgument("follow needs verify_checksums");
  }
  if (options.value_bytes != 0) {
    ENGINE_RACE_RETURN_IF_ERROR(
        CheckRange("value_bytes", options.value_bytes, kMinValueBytes, kMaxValueBytes));
  }
  ENGINE_RACE_RETURN_IF_ERROR(
      CheckPowerOfTwo("bucket_count", options.bucket_count, 1, kMaxBucketCount));
  ENGINE_RACE_RETURN_IF_ERROR(CheckPowerOfTwo("file_count", options.file_count, 1, kMaxFileCount));
  if (options.file_count > options.bucket_count) {
    return Status::InvalidArgument("file_count is above bucket_count");
  }
  ENGINE_RACE_RETURN_IF_ERROR(CheckPowerOfTwo("value_group_bytes", options.value_group_bytes,
                                              kMinGroupBytes, kMaxValueGroupBytes));
  ENGINE_RACE_RETURN_IF_ERROR(CheckPowerOfTwo("key_group_bytes", options.key_group_bytes,
                                              kMinGroupBytes, kMaxKeyGroupBytes));
  const uint32_t value_bytes = options.value_bytes == 0 ? kValueBytes : options.value_bytes;
  const uint64_t group_records = std::max<uint64_t>(
      ValueLayout(value_bytes).GroupRecords(options.value_group_bytes, kMaxGroupRecords),
      options.key_group_bytes / kKeyEntryBytes);
  ENGINE_RACE_RETURN_IF_ERROR(CheckPowerOfTwo("bucket_capacity_records",
                                              options.bucket_capacity_records, group_records,
                                              kMaxBucketRecords));
  // The most that the parts of a budget may have.
  uint64_t most_bytes = kMaxMemoryBudgetBytes;
  if (options.memory_budget_bytes != kAutoBytes) {
    ENGINE_RACE_RETURN_IF_ERROR(CheckRange("memory_budget_bytes", options.memory_budget_bytes,
                                           LeastMemoryBudgetBytes(value_bytes), most_bytes));
    most_bytes = options.memory_budget_bytes;
  }
  if (options.hot_value_bytes != kAutoBytes) {
    ENGINE_RACE_RETURN_IF_ERROR(
        CheckRange("hot_value_bytes", options.hot_value_bytes, 0, most_bytes));
  }
  if (options.index_memory_bytes != kAutoBytes) {
    ENGINE_RACE_RETURN_IF_ERROR(
        CheckRange("index_memory_bytes", options.index_memory_bytes, 0, most_bytes));
  }
  ENGINE_RACE_RETURN_IF_ERROR(
      CheckRange("journal_bytes", options.journal_bytes, kMinJournalBytes, kMaxJournalBytes));
  if (options.journal_bytes % kJournalStepBytes != 0) {
    return Status::InvalidArgument("journal_bytes is not a multiple of 2 MiB");
  }
  if (options.reclaim != Reclaim::kOff && options.reclaim != Reclaim::kBackground) {
    return Status::InvalidArgument("reclaim is no way of reclaiming");
  }
  ENGINE_RACE_RETURN_IF_ERROR(
      CheckRange("reclaim_dead_percent", options.reclaim_dead_percent, 1, 99));
  ENGINE_RACE_RETURN_IF_ERROR(CheckPaths(options));
  if (options.key_range && options.key_range->empty()) {
    return Status::InvalidArgument("key_range has no keys: its first one is above its last one");
  }
  ENGINE_RACE_RETURN_IF_ERROR(CheckNuma(options.numa));
  ENGINE_RACE_RETURN_IF_ERROR(CheckMode("directory_mode", options.directory_mode, 0700));
  ENGINE_RACE_RETURN_IF_ERROR(CheckMode("file_mode", options.file_mode, 0600));
  if (options.staging_mode != StagingMode::kAuto && options.staging_mode != StagingMode::kWritten) {
    return Status::InvalidArgument("staging_mode is no staging mode");
  }
  if (options.stats_interval_ms != 0) {
    ENGINE_RACE_RETURN_IF_ERROR(CheckRange("stats_interval_ms", options.stats_interval_ms,
                                           kMinStatsIntervalMs, kMaxStatsIntervalMs));
  }
  ENGINE_RACE_RETURN_IF_ERROR(CheckRange("worker_count", options.worker_count, 0, kMaxWorkerCount));
  ENGINE_RACE_RETURN_IF_ERROR(
      CheckRange("tasks_per_worker", options.tasks_per_worker, 1, kMaxTasksPerWorker));
  ENGINE_RACE_RETURN_IF_ERROR(
      CheckRange("async_read_limit", options.async_read_limit, 0, kMaxAsyncReadLimit));
  switch (options.io_backend) {
    case IoBackend::kAuto:
    case IoBackend::kPsync:
    case IoBackend::kLibaio:
    case IoBackend::kIoUring:
      break;
    default:
      return Status::InvalidArgument("io_backend is " +
                                     std::to_string(static_cast<int>(options.io_backend)) +
                                     ", which is no back end");
  }
  return CheckRange("build_thread_count", options.build_thread_count, 0, kMaxBuildThreadCount);
}

uint64_t LeastMemoryBudgetBytes(uint32_t value_bytes) {
  constexpr uint64_t kLeastValues = 64;
  return std::max(kMinMemoryBudgetBytes, kLeastValues * value_bytes);
}

uint64_t DefaultMemoryBudgetBytes(uint64_t usable_bytes, bool read_only) {
  return std::clamp(usable_bytes / (read_only ? 16 : 4), kMinMemoryBudgetBytes,
                    kMaxMemoryBudgetBytes);
}

Options EffectiveOptions(Options options) {
  options.read_only = options.read_only || options.follow;
  if (options.memory_budget_bytes == kAutoBytes) {
    const uint64_t budget_bytes = DefaultMemoryBudgetBytes(MemoryLimit(), options.read_only);
    options.memory_budget_bytes = budget_bytes;
    for (uint64_t* part_bytes : {&options.hot_value_bytes, &options.index_memory_bytes}) {
      if (*part_bytes != kAutoBytes) *part_bytes = std::min(*part_bytes, budget_bytes);
    }
  }
  if (options.page_cache) {
    options.io_uring_iopoll = false;
    if (options.hot_value_bytes == kAutoBytes) options.hot_value_bytes = 0;
  }
  if (!options.read_only) return options;
  options.create_if_missing = false;
  options.index_close_bytes = 0;
  options.index_sync_bytes = 0;
  options.index_idle_ms = 0;
  options.reclaim = Reclaim::kOff;
  options.stats_interval_ms = 0;
  options.sync_mode = SyncMode::kNone;
  options.sync_on_close = false;
  return options;
}

}  // namespace engine_race
