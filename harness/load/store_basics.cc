#include "harness/load/store_basics.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "engine_race/base/value_layout.h"
#include "engine_race/log/format.h"
#include "engine_race/log/segment_format.h"
#include "engine_race/stats_file.h"

namespace engine_race::harness {

namespace {

// As NumberedName writes them: two to four digits.
bool IsFileNumber(std::string_view text) {
  return text.size() >= 2 && text.size() <= 4 &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

Options QuietOptions() {
  Options options;
  // So that figures from machines with different memory compare.
  options.memory_budget_bytes = uint64_t{2} << 30;
  // Programs keep notes of a run beside its store.
  options.create_among_files = true;
  options.log = [](LogLevel level, std::string_view message) {
    if (level == LogLevel::kInfo) return;
    std::fprintf(stderr, "engine: %.*s\n", static_cast<int>(message.size()), message.data());
  };
  return options;
}

Status AwaitIndex(Store* store) {
  Snapshot needs_all_records;
  return store->GetSnapshot(&needs_all_records);
}

Status OpenWithIndex(const Options& options, const std::string& dir,
                     std::unique_ptr<Store>* store) {
  ENGINE_RACE_RETURN_IF_ERROR(Store::Open(options, dir, store));
  return AwaitIndex(store->get());
}

uint64_t StoreBytes(uint64_t record_count, uint32_t value_bytes) {
  constexpr uint64_t kStagingBytes = uint64_t{512} << 20;
  return record_count * (ValueLayout(value_bytes).slot_bytes() + kKeyEntryBytes) + kStagingBytes;
}

uint64_t RaceBytes(uint64_t record_count, bool has_write, bool has_mixed, uint32_t value_bytes) {
  // A mixed phase overwrites about half as many records as there are, and what it overwrites keeps
  // its place. Chance decides how many, so all of them are counted.
  const uint64_t mixed_bytes = has_mixed ? record_count * value_bytes : 0;
  return (has_write ? StoreBytes(record_count, value_bytes) : 0) + mixed_bytes;
}

bool IsStoreFile(const std::string& name) {
  constexpr auto kNames = std::to_array<std::string_view>({
      format::kManifestName,
      format::kManifestTempName,
      format::kManifestDraftName,
      format::kManifestUnfinishedName,
      format::kRowsName,
      format::kSegmentTableName,
      format::kMarkerName,
      format::kMarkerTempName,
      format::kLockName,
      format::kStagingCountsName,
      format::kStagingKeysName,
      format::kStagingValuesName,
      format::kJournalName,
      format::kBatchesName,
      format::kReserveName,
      format::kIndexRootName,
      format::kIndexRootTempName,
      kStatsFileName,
      kStatsTempName,
  });
  constexpr auto kPrefixes = std::to_array<std::string_view>(
      {format::kKeyFilePrefix, format::kValueFilePrefix, format::kIndexFilePrefix});
  if (std::find(kNames.begin(), kNames.end(), name) != kNames.end()) return true;
  return std::any_of(kPrefixes.begin(), kPrefixes.end(), [&](std::string_view prefix) {
    return name.starts_with(prefix) && IsFileNumber(std::string_view(name).substr(prefix.size()));
  });
}

void RemoveFiles(const std::string& dir, bool (*has_name)(const std::string& name)) {
  namespace fs = std::filesystem;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(dir, error)) {
    if (entry.is_regular_file(error) && has_name(entry.path().filename().string())) {
      fs::remove(entry.path(), error);
    }
  }
  sync();
}

std::optional<NumaOptions> ParseNuma(std::string_view text) {
  const std::string_view mode = text.substr(0, text.find(':'));
  NumaOptions numa;
  numa.mode = mode == "bind"         ? NumaMode::kBind
              : mode == "interleave" ? NumaMode::kInterleave
                                     : NumaMode::kNone;
  if (numa.mode == NumaMode::kNone) return text == "none" ? std::optional(numa) : std::nullopt;
  // Without nodes memory can be spread over all of them, but bound to none.
  if (mode.size() == text.size()) {
    return numa.mode == NumaMode::kInterleave ? std::optional(numa) : std::nullopt;
  }
  if (!numa::ParseList(text.substr(mode.size() + 1), numa::kMaxNodeCount, &numa.nodes) ||
      numa.nodes.empty()) {
    return std::nullopt;
  }
  return numa;
}

std::string ParseNumaFlag(std::string_view text, const numa::Topology& topology,
                          NumaOptions* numa) {
  const std::string flag = "--numa " + std::string(text) + ": ";
  const std::optional<NumaOptions> parsed = ParseNuma(text);
  if (!parsed) return flag + "give none, interleave, interleave:NODES or bind:NODES";
  for (const uint32_t node : parsed->nodes) {
    // Where the kernel shows no nodes, they may be there all the same.
    if (topology.from_kernel && topology.Find(node) == nullptr) {
      return flag + "there is no node " + std::to_string(node);
    }
  }
  *numa = *parsed;
  return {};
}

}  // namespace engine_race::harness
