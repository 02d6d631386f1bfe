#include "harness/race/open_store.h"

#include "harness/load/store_basics.h"

namespace harness {

std::unique_ptr<engine_race::Store> OpenStore(const RaceConfig& config, Failures* failures) {
  engine_race::Options options = QuietOptions();
  options.memory_budget_bytes = config.memory_budget_bytes;
  if (!config.key_range.HasAllKeys()) options.key_range = config.key_range;
  options.numa = config.numa;
  if (config.value_group_bytes != 0) options.value_group_bytes = config.value_group_bytes;
  if (!config.writes_index) {
    options.index_close_bytes = 0;
    options.index_sync_bytes = 0;
    options.index_idle_ms = 0;
  }
  std::unique_ptr<engine_race::Store> store;
  const engine_race::Status status = engine_race::Store::Open(options, config.dir, &store);
  if (status.ok()) return store;
  failures->Note("open: " + status.ToString());
  return nullptr;
}

}  // namespace harness
