#include "harness/claims/index_billion.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "engine_race/index/index.h"
#include "engine_race/l1/frame_cache.h"
#include "engine_race/log/bucket_log.h"
#include "engine_race/memory_budget.h"
#include "engine_race/store.h"
#include "harness/claims/index_child.h"
#include "harness/claims/index_files.h"
#include "harness/data/mix.h"
#include "harness/load/fill_keys.h"
#include "harness/load/index_keys.h"
#include "harness/load/store_basics.h"
#include "harness/measure/timed.h"
#include "harness/system/fio_runner.h"
#include "harness/system/page_cache.h"
#include "harness/system/process_stats.h"

namespace harness {
namespace {

using engine_race::BucketLog;
using engine_race::Code;
using engine_race::Index;
using engine_race::Options;
using engine_race::Status;
using engine_race::Store;

Options OptionsFrom(const nlohmann::json& order) {
  Options options = QuietOptions();
  options.bucket_count = order.at("bucket_count");
  options.file_count = std::min(options.file_count, options.bucket_count);
  options.memory_budget_bytes = order.at("memory_budget_bytes");
  return options;
}

// Counts the lookups of present and absent keys that `is_right` accepts, in many threads.
template <typename IsRight>
Status CountRight(const nlohmann::json& order, const IndexKeys& keys, const IsRight& is_right,
                  nlohmann::json* answer) {
  const uint32_t threads = order.at("threads");
  const uint64_t count = order.at("lookups");
  const uint64_t seed = order.at("seed");
  TimedPoint point;
  ENGINE_RACE_RETURN_IF_ERROR(RunTimed(
      threads, kNoLimitSeconds,
      [&](uint32_t thread, TimedThread* self) {
        self->Start();
        for (uint64_t i = thread; i < count && self->Running(); i += threads) {
          const uint64_t word = MixAt(seed + 7, i);
          const bool present = is_right(keys.Present(word), true);
          const bool absent = is_right({keys.AbsentKey(word), 0, 0}, false);
          self->tally.request_count += static_cast<uint64_t>(present) + uint64_t{absent};
        }
        return Status::Ok();
      },
      &point));
  (*answer)["right"] = point.request_count;
  (*answer)["lookups"] = 2 * count;
  (*answer)["lookup_seconds"] = point.seconds;
  return Status::Ok();
}

// The slot of `key`, by the index alone.
Status FindSlot(const Index& index, uint64_t key, uint32_t* slot) {
  engine_race::ValueRef ref;
  ENGINE_RACE_RETURN_IF_ERROR(index.Find(key, &ref));
  *slot = ref.slot();
  return Status::Ok();
}

Status RunChildren(const IndexBenchRun& run, double device_bytes_per_second) {
  const IndexBenchConfig& config = run.config;
  const nlohmann::json order = {{"store_dir", run.store_dir()},
                                {"bucket_count", config.bucket_count},
                                {"memory_budget_bytes", config.memory_budget_bytes},
                                {"key_count", config.billion_key_count},
                                {"seed", config.seed},
                                {"lookups", config.billion_lookup_count},
                                {"threads", config.reader_count}};
  double rss_mib = 0;
  double right = 0;
  double lookups = 0;
  for (const char* kind : {kBillionReadsKind, kBillionSlotsKind}) {
    DropPageCache(run.store_dir());
    nlohmann::json answer;
    ENGINE_RACE_RETURN_IF_ERROR(RunOwnChild(kind, order, &answer));
    (*run.about)["billion"][kind] = answer;
    rss_mib = std::max(rss_mib, answer.at("peak_rss_bytes").get<double>() / (1 << 20));
    right += answer.at("right").get<double>();
    lookups += answer.at("lookups").get<double>();
    if (kind != kBillionReadsKind) continue;
    const double build_seconds = answer.at("open_seconds");
    const double key_log_bytes = static_cast<double>(config.billion_key_count) * 16;
    run.rounds->Note("billion keys: build_s", build_seconds);
    if (device_bytes_per_second > 0) {
      run.rounds->NoteRatio(kBillionBuild, build_seconds, key_log_bytes / device_bytes_per_second);
    }
  }
  run.rounds->Note(kBillionRss, rss_mib);
  run.rounds->Note(kBillionRight, right / lookups);
  run.rounds->Note("billion keys: index_disk_bytes_per_key",
                   static_cast<double>(IndexDiskBytes(run.store_dir())) /
                       static_cast<double>(config.billion_key_count));
  return Status::Ok();
}

}  // namespace

Status MeasureBillion(const IndexBenchRun& run) {
  const IndexBenchConfig& config = run.config;
  FioRunner fio(config.dir);
  const FioResult device = fio.BestScan(config.device_read_bytes);
  fio.RemoveFile();
  if (!device.ok) run.Complain(std::string(kBillionBuild) + ": " + device.error);
  ENGINE_RACE_RETURN_IF_ERROR(FillKeyLogs(FilledStoreOptions(config), run.store_dir(),
                                          config.billion_key_count, config.seed));
  return RunChildren(run, device.ok ? device.bytes_per_second : 0);
}

Status RunBillionReads(const nlohmann::json& order, nlohmann::json* answer) {
  const Options options = OptionsFrom(order);
  const IndexKeys keys(options, order.at("key_count"), order.at("seed"));
  std::string value;
  std::unique_ptr<Store> store;
  const uint64_t began_ns = NowNs();
  ENGINE_RACE_RETURN_IF_ERROR(Store::Open(options, order.at("store_dir"), &store));
  ENGINE_RACE_RETURN_IF_ERROR(store->Read(KeyBytesOf(keys.PresentKey(0)), &value));
  (*answer)["open_seconds"] = SecondsSince(began_ns);
  const auto is_right = [&](const IndexKeys::Place& place, bool is_present) {
    std::string found;
    const Status status = store->Read(KeyBytesOf(place.key), &found);
    return is_present ? status.ok() : status.code() == Code::kNotFound;
  };
  ENGINE_RACE_RETURN_IF_ERROR(CountRight(order, keys, is_right, answer));
  store.reset();
  (*answer)["peak_rss_bytes"] = PeakRssBytes();
  return Status::Ok();
}

Status RunBillionSlots(const nlohmann::json& order, nlohmann::json* answer) {
  const Options options = OptionsFrom(order);
  const IndexKeys keys(options, order.at("key_count"), order.at("seed"));
  std::unique_ptr<BucketLog> log;
  std::optional<engine_race::MemoryBudget> budget;
  std::unique_ptr<engine_race::l1::FrameCache> frames;
  std::unique_ptr<Index> index;
  const uint64_t began_ns = NowNs();
  ENGINE_RACE_RETURN_IF_ERROR(BucketLog::Open(options, order.at("store_dir"), &log));
  // The memory that a store would divide among the index and the frames of its blocks.
  budget.emplace(options, *log);
  ENGINE_RACE_RETURN_IF_ERROR(engine_race::l1::FrameCache::Create(
      budget->RestBytes() - budget->IndexLimitBytes(), nullptr, &frames));
  ENGINE_RACE_RETURN_IF_ERROR(Index::Build(log.get(), options, &index, frames.get(),
                                           [&budget] { return budget->IndexLimitBytes(); }));
  (*answer)["open_seconds"] = SecondsSince(began_ns);
  const auto is_right = [&](const IndexKeys::Place& place, bool is_present) {
    uint32_t slot = 0;
    const Status status = FindSlot(*index, place.key, &slot);
    return is_present ? status.ok() && slot == place.slot : status.code() == Code::kNotFound;
  };
  ENGINE_RACE_RETURN_IF_ERROR(CountRight(order, keys, is_right, answer));
  (*answer)["peak_rss_bytes"] = PeakRssBytes();
  return Status::Ok();
}

}  // namespace harness
