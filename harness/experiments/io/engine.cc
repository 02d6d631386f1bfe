// The experiments with reads and writes of the engine: 1 (paths), 6 (tasks and switches), 7
// (threads), 8 (growing data) and 9 (ablation).
#include <algorithm>
#include <string>
#include <utility>

#include "engine_race/base/options.h"
#include "harness/experiments/io/lab.h"
#include "harness/measure/progress.h"
#include "harness/system/child_process.h"

namespace engine_race::harness {
namespace {

constexpr uint32_t kCallers = 2;
constexpr uint32_t kMaxThreads = 64;
constexpr uint32_t kMaxTasks = 256;
// The size of growing data over the budget, times ten.
constexpr uint32_t kTenths[] = {5, 10, 20, 50, 100};

Experiment ByTasks(const IoLab& lab) {
  Experiment experiment =
      lab.Begin(6, "tasks per worker", "How many reads should one worker keep in flight?",
                "a key of MultiRead, 1024 to a call, from one thread",
                {.x = "tasks_per_worker", .series = {}});
  const auto store = lab.OpenStore(0, {}, &experiment);
  if (store == nullptr) return experiment;
  store->options()->worker_count = 1;
  for (const uint32_t task_count : lab.Powers(1, kMaxTasks)) {
    if (Interrupted()) break;
    store->options()->tasks_per_worker = task_count;
    ResultRow row = {{"tasks_per_worker", task_count}};
    if (!lab.Check(store->Open(), row, &experiment)) continue;
    row["backend"] = store->stats().io_backend;
    lab.Measure(&experiment, row,
                [&](TimedPoint* point) { return store->MultiReads(1, lab.seconds(), point); });
    if (Interrupted()) break;
    experiment.rows.back()["task_memory_bytes"] = store->stats().task_memory_bytes;
  }
  return experiment;
}

struct SwitchKind {
  const char* name;
  Status (*measure)(const SwitchLoad&, SwitchCost*);
  // False for threads, which always come in pairs.
  bool takes_task_count;
};
constexpr SwitchKind kSwitchKinds[] = {
    {"C++20 coroutine", CoroutineSwitches, true},
    {"C++20 coroutine, a nested call each turn", NestedCoroutineSwitches, true},
    {"Boost.Context, 16 KiB stacks", BoostContextSwitches, true},
    {"thread, futex", FutexSwitches, false},
    {"thread, eventfd", EventFdSwitches, false}};

Experiment SwitchCosts(const IoLab& lab) {
  Experiment experiment =
      lab.Begin(6, "cost of a switch", "What does it cost to go from one task to the next?",
                "from one task running to the next one running",
                {"bar", "kind", {"tasks"}, {"switch_ns", "create_ns", "resident_bytes"}});
  experiment.medium = "cpu";
  experiment.notes.emplace_back(
      "medians of CPU time, all on one CPU; create: making, running, freeing one");
  experiment.notes.emplace_back("a thread has a stack in the kernel too, not counted here");
  for (const SwitchKind& kind : kSwitchKinds) {
    for (const uint32_t task_count : {2u, kMaxTasks, 16 * kMaxTasks}) {
      if (Interrupted() || (!kind.takes_task_count && task_count > 2)) break;
      const StatusLine line(std::string("6. cost of a switch: ") + kind.name + " ...");
      SwitchLoad load;
      load.task_count = task_count;
      load.seconds = lab.seconds() / 2;
      if (lab.config().smoke) load.round_count = 3;
      ResultRow row = {{"kind", kind.name}, {"tasks", task_count}};
      SwitchCost cost;
      if (!lab.Check(kind.measure(load, &cost), row, &experiment)) continue;
      row["switch_ns"] = cost.switch_ns;
      if (cost.switch_cycles > 0) row["switch_cycles"] = cost.switch_cycles;
      row["create_ns"] = cost.create_ns;
      row["reserved_bytes"] = cost.reserved_bytes;
      row["resident_bytes"] = cost.resident_bytes;
      experiment.rows.push_back(std::move(row));
    }
  }
  return experiment;
}

}  // namespace

Experiments EngineScaling(const IoLab& lab) {
  Experiment reads =
      lab.Begin(1, "scaling over paths, MultiRead", "Does the engine use the paths that it has?",
                "a key, 1024 to a call, from 2 threads", {.x = "path_count", .series = {}});
  Experiment mixes = lab.Begin(1, "scaling over paths, engine mixes",
                               "What does the log do to the reads beside it?",
                               "a Read or a Write of one key", kMixPlot);
  lab.NoteStandIns(&reads);
  lab.NoteStandIns(&mixes);
  for (const uint32_t count : lab.PathCounts()) {
    if (Interrupted()) break;
    const auto store = lab.OpenStore(count, {{"path_count", count}}, &reads);
    if (store == nullptr) continue;
    lab.Measure(
        &reads, {{"path_count", count}, {"backend", store->stats().io_backend}},
        [&](TimedPoint* point) { return store->MultiReads(kCallers, lab.seconds(), point); });
    for (const uint32_t percent : kWritePercents) {
      lab.Measure(&mixes,
                  {{"path_count", count}, {"write_percent", percent}, {"threads", kMixThreads}},
                  [&](TimedPoint* point) {
                    return store->Mix(kMixThreads, percent, lab.seconds(), point);
                  });
    }
  }
  return {std::move(reads), std::move(mixes)};
}

Experiments TasksPerWorker(const IoLab& lab) {
  Experiments tables = {ByTasks(lab)};
  // Involves no device, so one medium is enough.
  if (lab.space().medium() == "disk") tables.push_back(SwitchCosts(lab));
  return tables;
}

Experiments ThreadsOverCores(const IoLab& lab) {
  Experiment experiment =
      lab.Begin(7, "threads over cores", "How many blocking threads do a few workers replace?",
                "a key read and verified", {.x = "threads", .series = {"call"}});
  const auto store = lab.OpenStore(0, {{"call", "Open"}}, &experiment);
  if (store == nullptr) return {experiment};
  experiment.notes.push_back("MultiRead through " + store->stats().io_backend +
                             ", 1024 keys a call");
  for (const bool batched : {false, true}) {
    for (const uint32_t threads : lab.Powers(1, batched ? kCallers : kMaxThreads)) {
      lab.Measure(&experiment, {{"call", batched ? "MultiRead" : "Read"}, {"threads", threads}},
                  [&](TimedPoint* point) {
                    return batched ? store->MultiReads(threads, lab.seconds(), point)
                                   : store->Mix(threads, 0, lab.seconds(), point);
                  });
    }
  }
  return {experiment};
}

Experiments GrowingData(const IoLab& lab) {
  Experiment experiment =
      lab.Begin(8, "growing data", "What is left when the data no longer fits into memory?",
                "a record read or visited",
                {"line", "data_over_budget", {"call"}, {"requests_per_second", "mb_per_second"}});
  // The largest store has ten budgets of values.
  const uint64_t budget_bytes =
      std::max(kMinMemoryBudgetBytes, lab.config().record_count * kValueSize / 10);
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

// Measures the same device through the index, with every value verified.
void AblateEngine(const IoLab& lab, Experiment* experiment) {
  const auto store = lab.OpenStore(0, {{"step", "the engine"}}, experiment);
  if (store == nullptr) return;
  lab.Measure(experiment, {{"step", "the engine: Read, 64 threads"}},
              [&](TimedPoint* point) { return store->Mix(kMaxThreads, 0, lab.seconds(), point); });
  lab.Measure(experiment,
              {{"step", "the engine: MultiRead, 1 thread, " + store->stats().io_backend}},
              [&](TimedPoint* point) { return store->MultiReads(1, lab.seconds(), point); });
}

}  // namespace engine_race::harness
