// Experiment 10: the best stripe unit of the value logs.
#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "engine_race/base/options.h"
#include "harness/experiments/io/lab.h"
#include "harness/measure/progress.h"
#include "harness/system/child_process.h"

namespace harness {
namespace {

using engine_race::Status;

constexpr uint32_t kPathCount = 2;
constexpr uint32_t kMinUnitBytes = 128 << 10;
constexpr uint32_t kMaxUnitBytes = 8 << 20;
constexpr uint32_t kRounds = 5;

constexpr std::array<const char*, 3> kPhases = {"write", "range", "MultiRead"};
// By phase.
using UnitPoints = std::array<std::vector<TimedPoint>, kPhases.size()>;

// Writes a store and reads it by MultiRead and by ranges: a point for each phase.
Status MeasureUnit(const IoLab& lab, uint32_t unit_bytes, UnitPoints* points) {
  const StatusLine line("10. stripe unit, " + lab.space().medium() + ": " + ByteText(unit_bytes) +
                        " ...");
  IoStore store(lab.space(), lab.config().record_count, kPathCount);
  store.options()->stripe_unit_bytes = unit_bytes;
  // Ranges would come from memory if all of the data fitted.
  store.options()->memory_budget_bytes =
      std::max(engine_race::kMinMemoryBudgetBytes, lab.config().record_count * kValueSize / 8);
  std::array<TimedPoint, kPhases.size()> taken;
  ENGINE_RACE_RETURN_IF_ERROR(store.Fill(&taken[0]));
  ENGINE_RACE_RETURN_IF_ERROR(store.Open());
  ENGINE_RACE_RETURN_IF_ERROR(store.Ranges(lab.seconds(), &taken[1]));
  ENGINE_RACE_RETURN_IF_ERROR(store.MultiReads(1, lab.seconds(), &taken[2]));
  for (size_t phase = 0; phase < kPhases.size(); ++phase) {
    (*points)[phase].push_back(std::move(taken[phase]));
  }
  return Status::Ok();
}

}  // namespace

Experiments StripeUnits(const IoLab& lab) {
  Experiment experiment = lab.Begin(
      10, "stripe unit", "How much of a log should lie on one path before the next has its turn?",
      "a record, over 2 paths");
  experiment.plot = {
      "line", "stripe_unit_bytes", {"phase"}, {"mb_per_second", "cpu_ns_per_request"}};
  lab.NoteStandIns(&experiment);
  if (lab.space().paths().size() < kPathCount) {
    lab.Check(Status::NotSupported("there is only one path"), {}, &experiment);
    return {experiment};
  }
  const uint32_t round_count = lab.config().smoke ? 1 : kRounds;
  experiment.notes.push_back("medians of " + std::to_string(round_count) +
                             " rounds, each over all units");
  std::map<uint32_t, UnitPoints> points;
  // The loop of rounds is the outer one: a device that slows down with time then does so for every
  // unit.
  for (uint32_t round = 0; round < round_count; ++round) {
    for (const uint32_t unit_bytes : lab.Powers(kMinUnitBytes, kMaxUnitBytes)) {
      if (Interrupted()) break;
      const ResultRow row = {{"stripe_unit_bytes", unit_bytes}};
      if (!lab.Check(MeasureUnit(lab, unit_bytes, &points[unit_bytes]), row, &experiment)) break;
    }
  }
  for (size_t phase = 0; phase < kPhases.size(); ++phase) {
    for (const auto& [unit_bytes, taken] : points) {
      if (taken[phase].empty()) continue;
      ResultRow row = {{"phase", kPhases[phase]}, {"stripe_unit_bytes", unit_bytes}};
      AddPoint(MedianPoint(taken[phase]), &row);
      experiment.rows.push_back(std::move(row));
    }
  }
  return {experiment};
}

}  // namespace harness
