// Helpers of the tests of the stats file.
#ifndef ENGINE_RACE_TEST_E2E_STATS_FILE_HELPERS_H_
#define ENGINE_RACE_TEST_E2E_STATS_FILE_HELPERS_H_

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

#include "engine_race/stats_fields.h"
#include "engine_race/stats_file.h"
#include "test/e2e/engine_fixture.h"

namespace engine_race::test {

inline Options OfferingOptions() {
  Options options = TinyOptions();
  options.stats_interval_ms = kMinStatsIntervalMs;
  return options;
}

inline Code CodeOfOpening(const std::string& dir) {
  StatsReader reader;
  return StatsReader::Open(dir, &reader).code();
}

inline std::string ContentOf(const std::string& path) {
  std::ostringstream content;
  content << std::ifstream(path, std::ios::binary).rdbuf();
  return content.str();
}

inline PublishedStats NumberedPublishedStats() {
  PublishedStats published;
  uint64_t number = 50;
  for (const StatsField& field : StatsFields()) {
    if (field.set != nullptr) field.set(++number, &published.stats);
  }
  published.stats.staging_mapped = false;
  for (uint64_t& count : published.stats.error_counts) count = ++number;
  published.stats.key_range = {7, 9};
  published.stats.io_backend = "libaio";
  published.stats.write_backend = "psync";
  published.sequence = 11;
  published.interval_ms = 12;
  published.process_id = 13;
  published.taken_at_ms = 14;
  published.latencies.measured = true;
  for (LatencyHistogram& histogram : published.latencies.kinds) {
    for (uint64_t i = 0; i < 60; ++i) histogram.Add((++number << (i % 50)) + i);
  }
  return published;
}

}  // namespace engine_race::test

#endif  // ENGINE_RACE_TEST_E2E_STATS_FILE_HELPERS_H_
