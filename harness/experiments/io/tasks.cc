// Experiment 6: the best number of tasks for a worker, and the cost of a switch between tasks.
#include <string>

#include "harness/experiments/io/lab.h"
#include "harness/experiments/io/switch.h"
#include "harness/measure/progress.h"
#include "harness/system/child_process.h"

namespace harness {
namespace {

constexpr uint32_t kMaxTasks = 256;

Experiment ByTasks(const IoLab& lab) {
  Experiment experiment =
      lab.Begin(6, "tasks per worker", "How many reads should one worker keep in flight?",
                "a key of MultiRead, 1024 to a call, from one thread");
  experiment.plot.x = "tasks_per_worker";
  IoStore store(lab.space(), lab.config().record_count, 0);
  TimedPoint filling;
  if (!lab.Check(store.Fill(&filling), {}, &experiment)) return experiment;
  store.options()->worker_count = 1;
  for (const uint32_t task_count : lab.Powers(1, kMaxTasks)) {
    if (Interrupted()) break;
    store.options()->tasks_per_worker = task_count;
    ResultRow row = {{"tasks_per_worker", task_count}};
    if (!lab.Check(store.Open(), row, &experiment)) continue;
    row["backend"] = store.stats().io_backend;
    lab.Measure(&experiment, row,
                [&](TimedPoint* point) { return store.MultiReads(1, lab.seconds(), point); });
    if (Interrupted()) break;
    experiment.rows.back()["task_memory_bytes"] = store.stats().task_memory_bytes;
  }
  return experiment;
}

struct SwitchKind {
  const char* name;
  engine_race::Status (*measure)(const SwitchLoad&, SwitchCost*);
  // False for threads, which always come in pairs.
  bool takes_task_count;
};
constexpr SwitchKind kSwitchKinds[] = {
    {"C++20 coroutine", CoroutineSwitches, true},
    {"C++20 coroutine, a nested call each turn", NestedCoroutineSwitches, true},
    {"Boost.Context, 16 KiB stacks", BoostContextSwitches, true},
    {"thread, futex", FutexSwitches, false},
    {"thread, eventfd", EventFdSwitches, false}};

void AddSwitchRow(const IoLab& lab, const SwitchKind& kind, uint32_t task_count,
                  Experiment* experiment) {
  SwitchLoad load;
  load.task_count = task_count;
  load.seconds = lab.seconds() / 2;
  if (lab.config().smoke) load.round_count = 3;
  ResultRow row = {{"kind", kind.name}, {"tasks", task_count}};
  SwitchCost cost;
  if (!lab.Check(kind.measure(load, &cost), row, experiment)) return;
  row["switch_ns"] = cost.switch_ns;
  if (cost.switch_cycles > 0) row["switch_cycles"] = cost.switch_cycles;
  row["create_ns"] = cost.create_ns;
  row["reserved_bytes"] = cost.reserved_bytes;
  row["resident_bytes"] = cost.resident_bytes;
  experiment->rows.push_back(std::move(row));
}

Experiment SwitchCosts(const IoLab& lab) {
  Experiment experiment =
      lab.Begin(6, "cost of a switch", "What does it cost to go from one task to the next?",
                "from one task running to the next one running");
  experiment.medium = "cpu";
  experiment.plot = {"bar", "kind", {"tasks"}, {"switch_ns", "create_ns", "resident_bytes"}};
  experiment.notes.emplace_back(
      "medians of CPU time, all on one CPU; create: making, running, freeing one");
  experiment.notes.emplace_back("a thread has a stack in the kernel too, not counted here");
  for (const SwitchKind& kind : kSwitchKinds) {
    for (const uint32_t task_count : {2u, kMaxTasks, 16 * kMaxTasks}) {
      if (Interrupted() || (!kind.takes_task_count && task_count > 2)) break;
      const StatusLine line(std::string("6. cost of a switch: ") + kind.name + " ...");
      AddSwitchRow(lab, kind, task_count, &experiment);
    }
  }
  return experiment;
}

}  // namespace

Experiments TasksPerWorker(const IoLab& lab) {
  Experiments tables = {ByTasks(lab)};
  // Involves no device, so one medium is enough.
  if (lab.space().medium() == "disk") tables.push_back(SwitchCosts(lab));
  return tables;
}

}  // namespace harness
