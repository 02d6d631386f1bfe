// This engine behind the benchmarks' interface of stores.
//
// Stateless; the stores that it opens are as thread-safe as KvStore says.
#ifndef HARNESS_KV_ENGINE_STORE_H_
#define HARNESS_KV_ENGINE_STORE_H_

#include <string>

#include "engine_race/base/options.h"
#include "engine_race/store.h"
#include "harness/kv/kv_store.h"

namespace harness {

// The kind "engine_race". Its stores are opened with `options`, and with the memory budget of
// KvOptions where that is not 0.
KvStoreKind EngineStoreKind(const engine_race::Options& options);
// With QuietOptions.
KvStoreKind EngineStoreKind();

// The counters as lines "name  value".
std::string EngineStatsText(const engine_race::StoreStats& stats);

}  // namespace harness

#endif  // HARNESS_KV_ENGINE_STORE_H_
