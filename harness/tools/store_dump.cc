#include "harness/tools/store_command.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <vector>

#include "engine_race/base/key.h"
#include "engine_race/l1/index_root.h"
#include "engine_race/log/page_cache.h"
#include "engine_race/log/staging.h"
#include "engine_race/log/store_files.h"
#include "harness/measure/table.h"

namespace engine_race::harness {
namespace {

using l1::IndexRoot;

std::string Count(uint64_t count) { return std::to_string(count); }

void PrintManifest(const StoreFiles& files) {
  const StoreIdentity& identity = files.identity;
  const Geometry& geometry = identity.geometry;
  std::printf("store id          %016" PRIx64 "\n", identity.store_id);
  std::printf("format version    %u\n", format::kFormatVersion);
  std::printf("buckets           %u, of at most %" PRIu64 " records\n", geometry.bucket_count,
              geometry.bucket_capacity_records);
  std::printf("keys              %s\n", ToString(geometry.keys()).c_str());
  std::printf("files             %u of keys, and as many value files or devices\n",
              files.slots.file_count());
  for (size_t i = 0; i < identity.paths.size(); ++i) {
    std::printf("path %-12zu %s: %s\n", i, identity.paths[i].c_str(),
                files.slots.Describe(files.slots.paths()[i]).c_str());
  }
  std::printf("values            %u bytes each", geometry.value_bytes());
  if (geometry.slot_bytes() != geometry.value_bytes()) {
    std::printf(", in %u", geometry.slot_bytes());
  }
  std::printf("\n");
  std::printf("groups            %u bytes of values, %u bytes of keys\n",
              geometry.value_group_bytes, geometry.key_group_bytes);
}

void PrintTotals(const StoreFiles& files, const std::vector<BucketState>& states) {
  const uint32_t page_cache_id = PageCacheId(files);
  uint64_t record_count = 0;
  uint64_t synced_total = 0;
  uint64_t staged_count = 0;
  uint64_t damaged_count = 0;
  uint64_t doubtful_count = 0;
  for (const BucketState& state : states) {
    if (state.damaged) {
      ++damaged_count;
      continue;
    }
    record_count += state.record_count;
    synced_total += state.synced_watermark;
    staged_count += state.record_count - std::min(state.logged_value_watermark, state.record_count);
    if (state.page_cache_id != page_cache_id) ++doubtful_count;
  }
  std::printf("records           %" PRIu64 ", overwritten ones and tombstones included\n",
              record_count);
  std::printf("synced            %" PRIu64 "\n", synced_total);
  std::printf("staged            %" PRIu64 " values\n", staged_count);
  if (damaged_count > 0) std::printf("DAMAGED           %" PRIu64 " buckets\n", damaged_count);
  if (doubtful_count > 0) {
    std::printf("doubtful          %" PRIu64
                " buckets: written before the last mount or boot, or a flush failed; the next "
                "opening verifies what is not synced\n",
                doubtful_count);
  }
}

// Prints fill and skew of the readable buckets.
void PrintFill(const std::vector<BucketState>& states) {
  std::vector<uint64_t> fills;
  for (const BucketState& state : states) {
    if (!state.damaged) fills.push_back(state.record_count);
  }
  if (fills.empty()) return;
  std::sort(fills.begin(), fills.end());
  const double total = std::accumulate(fills.begin(), fills.end(), 0.0);
  const double mean = total / static_cast<double>(fills.size());
  double squares = 0;
  for (const uint64_t fill : fills) squares += std::pow(static_cast<double>(fill) - mean, 2);
  const size_t top = std::max<size_t>(fills.size() / 100, 1);
  const double top_sum =
      std::accumulate(fills.end() - static_cast<std::ptrdiff_t>(top), fills.end(), 0.0);
  const auto quantile = [&fills](double q) {
    return fills[static_cast<size_t>(q * static_cast<double>(fills.size() - 1))];
  };
  std::printf("records a bucket  min %" PRIu64 ", median %" PRIu64 ", 99%% %" PRIu64
              ", max %" PRIu64 ", mean %.1f, deviation %.1f\n",
              fills.front(), quantile(0.5), quantile(0.99), fills.back(), mean,
              std::sqrt(squares / static_cast<double>(fills.size())));
  std::printf("empty buckets     %td\n",
              std::upper_bound(fills.begin(), fills.end(), uint64_t{0}) - fills.begin());
  if (total > 0) {
    std::printf(
        "skew              the fullest holds %.2f times the mean; the fullest %zu hold %.1f%%\n",
        static_cast<double>(fills.back()) / mean, top, 100 * top_sum / total);
  }
}

// How much of the store the index on disk covers, as its root says.
void PrintIndex(const Status& loaded, const IndexRoot& root,
                const std::vector<BucketState>& states) {
  if (!loaded.ok()) {
    const bool is_missing = loaded.code() == Code::kNotFound;
    std::printf("index on disk    %s\n", is_missing ? "none" : loaded.ToString().c_str());
    return;
  }
  uint64_t covered_count = 0;
  uint64_t bucket_count = 0;
  uint64_t key_count = 0;
  uint64_t bytes = 0;
  for (size_t bucket = 0; bucket < states.size(); ++bucket) {
    covered_count += root.coverages[bucket].record_count;
    bucket_count += root.coverages[bucket].record_count > 0;
  }
  for (const auto& extent : root.extents) {
    key_count += extent.record_count;
    bytes += format::IndexExtentBytesOf(extent.record_count);
  }
  std::printf("index on disk    %zu extents, %" PRIu64 " keys, %" PRIu64 " bytes\n",
              root.extents.size(), key_count, bytes);
  std::printf("                 covers %" PRIu64 " records of %" PRIu64 " buckets\n", covered_count,
              bucket_count);
}

void PrintBuckets(const std::vector<BucketState>& states, const IndexRoot& root) {
  Table table({"bucket", "records", "synced", "values in log", "keys in log", "extents",
               "keys in them", "covered"});
  for (uint32_t bucket = 0; bucket < states.size(); ++bucket) {
    const BucketState& state = states[bucket];
    if (state.damaged) {
      table.AddRow({Count(bucket), "damaged", "", "", "", "", "", ""});
      continue;
    }
    if (state.record_count == 0) continue;
    const bool has_root = !root.coverages.empty();
    uint64_t key_count = 0;
    uint64_t extent_count = 0;
    for (const auto& extent : root.ExtentsOf(bucket)) {
      key_count += extent.record_count;
      ++extent_count;
    }
    table.AddRow({Count(bucket), Count(state.record_count), Count(state.synced_watermark),
                  Count(state.LoggedValueCount()), Count(state.LoggedKeyCount()),
                  Count(extent_count), Count(key_count),
                  Count(has_root ? root.coverages[bucket].record_count : 0)});
  }
  std::printf("\n%s", table.ToString().c_str());
}

}  // namespace

int RunDump(const std::string& dir, bool every_bucket) {
  StoreFiles files;
  if (const Status status = OpenStoreFilesToRead(dir, &files, CommandOptions()); !status.ok()) {
    return Refuse("dump", dir, status);
  }
  std::vector<BucketState> states;
  if (const Status status = Staging(files).ReadCounts(&states); !status.ok()) {
    return Refuse("dump", dir, status);
  }
  PrintManifest(files);
  PrintTotals(files, states);
  PrintFill(states);
  IndexRoot root;
  const Status loaded = l1::LoadIndexRoot(files.directory.get(), files.identity.ids(),
                                          files.identity.geometry.bucket_count, &root);
  PrintIndex(loaded, root, states);
  if (every_bucket) PrintBuckets(states, root);
  return 0;
}

}  // namespace engine_race::harness
