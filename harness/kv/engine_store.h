// This engine behind the benchmarks' interface of stores.
//
// Stateless; the stores that it opens are as thread-safe as KvStore says.
#ifndef HARNESS_KV_ENGINE_STORE_H_
#define HARNESS_KV_ENGINE_STORE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine_race/base/options.h"
#include "engine_race/store.h"
#include "harness/kv/kv_store.h"

namespace engine_race::harness {

// The kind "engine_race". Its stores are opened with `options`, and with the memory budget of
// KvOptions where that is not 0.
KvStoreKind EngineStoreKind(const Options& options);
// With QuietOptions.
KvStoreKind EngineStoreKind();

// How many records were written to each bucket of the closed store in `dir`, overwritten ones and
// tombstones included. Stateless; a status of the store that could not be read.
Status EngineBucketFill(const std::string& dir, std::vector<uint64_t>* counts);

}  // namespace engine_race::harness

#endif  // HARNESS_KV_ENGINE_STORE_H_
