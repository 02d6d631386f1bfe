#include "harness/numa/race_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace engine_race::harness {
namespace {

InstanceResult ResultOf(double cpu_seconds, std::optional<double> code_local,
                        std::optional<double> heap_local) {
  InstanceResult result;
  InstancePhase& phase = result.phases.emplace_back();
  phase.name = "read";
  phase.seconds = 2;
  phase.cpu_seconds = cpu_seconds;
  ProcessMemory& placement = phase.placement.emplace();
  placement.kinds[static_cast<size_t>(MemoryKind::kCode)].local_share = code_local;
  placement.kinds[static_cast<size_t>(MemoryKind::kHeap)].local_share = heap_local;
  return result;
}

TEST(RaceReportTest, LeastShareIsOfWhatIsKnown) {
  std::vector<InstanceResult> results = {ResultOf(1, 0.5, 1.0), ResultOf(3, 0.25, std::nullopt)};
  EXPECT_EQ(LeastLocalShare(results, MemoryKind::kCode), 0.25);
  EXPECT_EQ(LeastLocalShare(results, MemoryKind::kHeap), 1.0);
  EXPECT_FALSE(LeastLocalShare(results, MemoryKind::kStacks).has_value());
  // A phase without a placement may have had anything.
  results[0].phases[0].placement.reset();
  EXPECT_FALSE(LeastLocalShare(results, MemoryKind::kCode).has_value());
}

TEST(RaceReportTest, ShowsTheHeapAndEachInstancesShareOfTheCpuTime) {
  const std::vector<InstanceResult> results = {ResultOf(1, 0.5, 0.125), ResultOf(3, 0.25, 1.0)};
  const nlohmann::json json = RaceJson(results, TextMode::kCopies, {}, "");
  EXPECT_EQ(json["heap_local"], 0.125);
  EXPECT_EQ(json["instances"][0]["phases"][0]["cpu_share"], 0.25);
  EXPECT_EQ(json["instances"][1]["phases"][0]["cpu_share"], 0.75);
  const std::string text = RaceText(results);
  for (const char* word : {"CPU of all %", "heap local %", "25.0", "75.0", "12.50"}) {
    EXPECT_NE(text.find(word), std::string::npos) << word << "\n" << text;
  }
}

}  // namespace
}  // namespace engine_race::harness
