// The options of the stores that are compared with a model.
//
// One thread for each generator.
#ifndef TEST_E2E_MODEL_OPTIONS_H_
#define TEST_E2E_MODEL_OPTIONS_H_

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "engine_race/base/options.h"
#include "test/e2e/model_keys.h"

namespace engine_race::test {

inline Options RandomGeometry(Rng& rng) {
  Options options;
  constexpr uint32_t kSizes[] = {8, 24, 100, 128, 512, 1000, 1536, 3072, 5000, 8192, 16384, 65536};
  if (rng() % 2 == 0) options.value_bytes = kSizes[rng() % std::size(kSizes)];
  options.bucket_count = 1u << rng() % 4;
  options.file_count = std::min<uint32_t>(options.bucket_count, 1u << rng() % 4);
  options.value_group_bytes = 4096u << rng() % 4;
  options.key_group_bytes = 4096u << rng() % 2;
  // Small ones fill up: refusals are part of the model.
  options.bucket_capacity_records = uint64_t{1} << (9 + rng() % 6);
  options.key_range = RandomKeys(rng);
  return options;
}

// Tuning, which every opening draws anew.
inline Options RandomTuning(Options options, Rng& rng) {
  options.memory_budget_bytes = uint64_t{16} << 20;
  options.build_thread_count = 1 + rng() % 2;
  options.io_backend = rng() % 8 != 0 ? IoBackend::kPsync : IoBackend::kAuto;
  options.verify_checksums = rng() % 4 != 0;
  options.sync_mode = rng() % 8 == 0   ? SyncMode::kEveryWrite
                      : rng() % 8 == 0 ? SyncMode::kGroup
                                       : SyncMode::kNone;
  options.sync_on_close = rng() % 4 == 0;
  options.journal_bytes = kMinJournalBytes;
  if (rng() % 4 == 0) options.staging_mode = StagingMode::kWritten;
  return options;
}

}  // namespace engine_race::test

#endif  // TEST_E2E_MODEL_OPTIONS_H_
