#include "harness/tools/store_compact.h"

#include <chrono>
#include <cstdio>
#include <memory>

#include "engine_race/store.h"
#include "harness/system/exit_codes.h"

namespace engine_race::harness {
namespace {

double Megabytes(uint64_t bytes) { return static_cast<double>(bytes) / 1e6; }

int Refuse(const std::string& dir, const Status& status) {
  std::fprintf(stderr, "store compact: %s: %s\n", dir.c_str(),
               status.code() == Code::kNotFound ? "there is no store" : status.ToString().c_str());
  return status.code() == Code::kCorruption ? kExitFailure : kExitRefused;
}

}  // namespace

int RunCompact(const std::string& dir) {
  const auto began = std::chrono::steady_clock::now();
  Options options;
  options.create_if_missing = false;
  options.index_close_bytes = 0;
  options.reclaim = Reclaim::kOff;
  std::unique_ptr<Store> store;
  if (const Status opened = Store::Open(options, dir, &store); !opened.ok()) {
    return Refuse(dir, opened);
  }
  const Status compacted = store->Compact();
  const StoreStats stats = store->Stats();
  store.reset();
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  std::printf("%.1f MB freed in %.1f s, %.1f MB written again; %.1f MB are live, %.1f MB dead\n",
              Megabytes(stats.reclaim_freed_bytes), seconds, Megabytes(stats.reclaim_moved_bytes),
              Megabytes(stats.live_bytes), Megabytes(stats.dead_bytes));
  return compacted.ok() ? kExitDone : Refuse(dir, compacted);
}

}  // namespace engine_race::harness
