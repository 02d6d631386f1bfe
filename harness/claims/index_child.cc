#include "harness/claims/index_child.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "engine_race/store.h"
#include "harness/claims/index_bench_config.h"
#include "harness/claims/index_billion.h"
#include "harness/claims/index_load.h"
#include "harness/load/index_keys.h"
#include "harness/load/store_basics.h"
#include "harness/measure/alternating_rounds.h"
#include "harness/system/child_process.h"
#include "harness/system/page_cache.h"
#include "harness/system/process_stats.h"

namespace harness {
namespace {

using engine_race::Options;
using engine_race::Status;
using engine_race::Store;

constexpr char kFlag[] = "--index-child";
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

Status RunKill(const nlohmann::json& order) {
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

Status RunKind(const std::string& kind, const nlohmann::json& order, nlohmann::json* answer) {
  if (kind == kOpenKind) return RunOpen(order, answer);
  if (kind == kKillKind) return RunKill(order);
  if (kind == kBillionReadsKind) return RunBillionReads(order, answer);
  if (kind == kBillionSlotsKind) return RunBillionSlots(order, answer);
  return Status::InvalidArgument("no child is named " + kind);
}

ChildResult Start(const std::string& kind, const nlohmann::json& order) {
  return RunChild({SelfPath(), kFlag, kind, order.dump()});
}

Status Failure(const std::string& kind, const ChildResult& child) {
  if (Interrupted()) return InterruptedStatus();
  return Status::IOError("child " + kind + ": " + child.error + child.output + ", code " +
                         std::to_string(child.exit_code));
}

}  // namespace

Status RunIndexChild(const std::string& kind, const nlohmann::json& order, nlohmann::json* answer) {
  const ChildResult child = Start(kind, order);
  *answer = nlohmann::json::parse(child.output, nullptr, /*allow_exceptions=*/false);
  const bool is_answer = child.started && child.exit_code == 0 && answer->is_object();
  return is_answer ? Status::Ok() : Failure(kind, child);
}

Status RunKilledIndexChild(const std::string& kind, const nlohmann::json& order) {
  const ChildResult child = Start(kind, order);
  return child.started && child.exit_code == 128 + SIGKILL ? Status::Ok() : Failure(kind, child);
}

std::optional<int> IndexChildMain(int argc, char** argv) {
  if (argc != 4 || std::string(argv[1]) != kFlag) return std::nullopt;
  nlohmann::json answer = nlohmann::json::object();
  try {
    const Status status = RunKind(argv[2], nlohmann::json::parse(argv[3]), &answer);
    std::printf("%s\n", status.ok() ? answer.dump().c_str() : status.ToString().c_str());
    return status.ok() ? 0 : 1;
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
}

Status OpenInChild(const OpenOrder& order, OpenAnswer* answer) {
  DropPageCache(order.store_dir);
  nlohmann::json json;
  ENGINE_RACE_RETURN_IF_ERROR(RunIndexChild(kOpenKind,
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
  return RunKilledIndexChild(kKillKind, {{"store_dir", order.store_dir},
                                         {"bucket_count", order.bucket_count},
                                         {"key_count", order.key_count},
                                         {"seed", order.seed},
                                         {"write_count", order.write_count},
                                         {"first_new", order.first_new},
                                         {"writer_count", order.writer_count}});
}

}  // namespace harness
