// Experiments 7 and 8: threads against tasks, and data that outgrows the memory budget.
#include <algorithm>
#include <string>

#include "engine_race/base/options.h"
#include "harness/experiments/io/lab.h"
#include "harness/system/child_process.h"

namespace harness {
namespace {

constexpr uint32_t kMaxThreads = 64;
constexpr uint32_t kCallers = 2;

// The size of the data over the budget, times ten.
constexpr uint32_t kTenths[] = {5, 10, 20, 50, 100};

}  // namespace

Experiments ThreadsOverCores(const IoLab& lab) {
  Experiment experiment =
      lab.Begin(7, "threads over cores", "How many blocking threads do a few workers replace?",
                "a key read and verified");
  experiment.plot = {"line", "threads", {"call"}, {"requests_per_second", "cpu_ns_per_request"}};
  IoStore store(lab.space(), lab.config().record_count, 0);
  TimedPoint filling;
  if (!lab.Check(store.Fill(&filling), {{"call", "Write"}}, &experiment)) return {experiment};
  if (!lab.Check(store.Open(), {{"call", "Open"}}, &experiment)) return {experiment};
  experiment.notes.push_back("MultiRead through " + store.stats().io_backend +
                             ", 1024 keys a call");
  for (const uint32_t thread_count : lab.Powers(1, kMaxThreads)) {
    lab.Measure(&experiment, {{"call", "Read"}, {"threads", thread_count}}, [&](TimedPoint* point) {
      return store.Mix(thread_count, 0, lab.seconds(), point);
    });
  }
  for (const uint32_t thread_count : lab.Powers(1, kCallers)) {
    lab.Measure(
        &experiment, {{"call", "MultiRead"}, {"threads", thread_count}},
        [&](TimedPoint* point) { return store.MultiReads(thread_count, lab.seconds(), point); });
  }
  return {experiment};
}

Experiments GrowingData(const IoLab& lab) {
  Experiment experiment =
      lab.Begin(8, "growing data", "What is left when the data no longer fits into memory?",
                "a record read or visited");
  experiment.plot = {
      "line", "data_over_budget", {"call"}, {"requests_per_second", "mb_per_second"}};
  // The largest store has ten budgets of values.
  const uint64_t budget_bytes =
      std::max(engine_race::kMinMemoryBudgetBytes, lab.config().record_count * kValueSize / 10);
  experiment.notes.push_back("memory budget: " + ByteText(budget_bytes));
  for (const uint32_t tenths : kTenths) {
    if (Interrupted() || (lab.config().smoke && tenths > kTenths[0])) break;
    const uint64_t record_count = budget_bytes / kValueSize * tenths / 10;
    IoStore store(lab.space(), record_count, 0);
    store.options()->memory_budget_bytes = budget_bytes;
    const auto row = [&](const char* call) {
      return ResultRow{{"data_over_budget", tenths / 10.0},
                       {"data_bytes", record_count * kValueSize},
                       {"call", call}};
    };
    lab.Measure(&experiment, row("Write"), [&](TimedPoint* point) { return store.Fill(point); });
    if (Interrupted() || !lab.Check(store.Open(), row("Open"), &experiment)) continue;
    lab.Measure(&experiment, row("MultiRead"), [&](TimedPoint* point) {
      return store.MultiReads(kCallers, lab.seconds(), point);
    });
    lab.Measure(&experiment, row("Range"),
                [&](TimedPoint* point) { return store.Ranges(lab.seconds(), point); });
  }
  return {experiment};
}

}  // namespace harness
