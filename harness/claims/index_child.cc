#include "harness/claims/index_child.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "engine_race/store.h"
#include "harness/claims/index_bench_config.h"
#include "harness/claims/index_billion.h"
#include "harness/claims/index_load.h"
#include "harness/load/index_keys.h"
#include "harness/load/store_basics.h"
#include "harness/system/page_cache.h"
#include "harness/system/process_stats.h"

namespace harness {
namespace {

using engine_race::Options;
using engine_race::Status;
using engine_race::Store;

constexpr char kOpenKind[] = "open";
constexpr char kKillKind[] = "kill";

Status RunOpen(const nlohmann::json& order, nlohmann::json* answer) {
  Options options = QuietOptions();
  options.memory_budget_bytes = order.at("memory_budget_bytes");
  options.index_close_bytes = kAnyIndexBytes;
  // Only closing writes: the answer must not depend on how long the child lives.
  options.index_idle_ms = 0;
  const std::string first_key = KeyBytesOf(order.at("first_key"));
  std::string value;
  std::unique_ptr<Store> store;
  const uint64_t began_ns = NowNs();
  ENGINE_RACE_RETURN_IF_ERROR(Store::Open(options, order.at("store_dir"), &store));
  ENGINE_RACE_RETURN_IF_ERROR(store->Read(first_key, &value));
  (*answer)["seconds"] = SecondsSince(began_ns);
  for (const uint64_t key : order.at("more_keys")) {
    ENGINE_RACE_RETURN_IF_ERROR(store->Read(KeyBytesOf(key), &value));
  }
  store.reset();
  (*answer)["peak_rss_bytes"] = PeakRssBytes();
  return Status::Ok();
}

Status RunKill(const nlohmann::json& order, nlohmann::json* /*answer*/) {
  Options options = QuietOptions();
  // The records stay past the root.
  options.index_idle_ms = 0;
  options.index_sync_bytes = 0;
  options.bucket_count = order.at("bucket_count");
  options.file_count = std::min(options.file_count, options.bucket_count);
  const IndexKeys keys(options, order.at("key_count"), order.at("seed"));
  std::unique_ptr<Store> store;
  std::string value;
  ENGINE_RACE_RETURN_IF_ERROR(Store::Open(options, order.at("store_dir"), &store));
  ENGINE_RACE_RETURN_IF_ERROR(store->Read(KeyBytesOf(keys.PresentKey(0)), &value));
  IndexLoad load;
  load.writer_count = order.at("writer_count");
  load.write_count = order.at("write_count");
  load.first_new = order.at("first_new");
  load.seed = order.at("seed");
  IndexLoadResult unused;
  ENGINE_RACE_RETURN_IF_ERROR(RunIndexLoad(store.get(), keys, load, &unused));
  kill(getpid(), SIGKILL);
  return Status::IOError("a child outlived SIGKILL");
}

}  // namespace

ChildWorks IndexWorks() {
  return {{kOpenKind, RunOpen},
          {kKillKind, RunKill},
          {kBillionReadsKind, RunBillionReads},
          {kBillionSlotsKind, RunBillionSlots}};
}

Status OpenInChild(const OpenOrder& order, OpenAnswer* answer) {
  DropPageCache(order.store_dir);
  nlohmann::json json;
  ENGINE_RACE_RETURN_IF_ERROR(RunOwnChild(kOpenKind,
                                          {{"store_dir", order.store_dir},
                                           {"memory_budget_bytes", order.memory_budget_bytes},
                                           {"first_key", order.first_key},
                                           {"more_keys", order.more_keys}},
                                          &json));
  answer->seconds = json.at("seconds");
  answer->peak_rss_bytes = json.at("peak_rss_bytes");
  return Status::Ok();
}

Status KillInChild(const KillOrder& order) {
  return RunKilledChild(kKillKind, {{"store_dir", order.store_dir},
                                    {"bucket_count", order.bucket_count},
                                    {"key_count", order.key_count},
                                    {"seed", order.seed},
                                    {"write_count", order.write_count},
                                    {"first_new", order.first_new},
                                    {"writer_count", order.writer_count}});
}

}  // namespace harness
