#include "harness/claims/visit_cost.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <limits>
#include <random>
#include <string_view>

#include "engine_race/base/key.h"
#include "harness/data/value_maker.h"
#include "harness/load/bare_loops.h"
#include "harness/load/contest_phases.h"
#include "harness/load/l1_lookups.h"
#include "harness/load/store_basics.h"
#include "harness/load/store_runs.h"
#include "harness/measure/progress.h"
#include "harness/system/process_stats.h"

namespace engine_race::harness {

namespace {

constexpr uint32_t kMaxAhead = 16;
constexpr size_t kLineBytes = 64;

// Values are aligned to pages, so their first and last lines fall into few sets of a cache. A cache
// of 1 MiB in 16 ways keeps those lines of 256 values. Larger chunks wake threads less often.
constexpr VisitLoopShape kShapes[] = {{0, 8},    {256, 8},  {512, 8}, {1024, 6},
                                      {1024, 8}, {2048, 8}, {4096, 8}};

}  // namespace

std::string VisitLoopShape::ToString() const {
  const std::string ahead = std::to_string(records_ahead) + " ahead";
  if (chunk_records == 0) return "no chunks, " + ahead;
  return "chunks of " + std::to_string(chunk_records) + ", " + ahead;
}

Status VisitFloor::Prepare() {
  const uint64_t count = keys_.record_count();
  if (FreeMemoryBytes() < count * kValueSize + count * sizeof(Record) * 2) {
    return Status::OutOfMemory("no room for " + std::to_string(count) + " values in memory");
  }
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(count * kValueSize, /*huge_pages=*/true, &memory_));
  std::vector<uint64_t> places(count);
  for (uint64_t i = 0; i < count; ++i) places[i] = i;
  std::shuffle(places.begin(), places.end(), std::mt19937_64(1));
  records_.resize(count + kMaxAhead);
  ENGINE_RACE_RETURN_IF_ERROR(ForEachOnThreads(static_cast<uint32_t>(count), [&](uint32_t i) {
    const uint64_t key = keys_.KeyAt(i);
    char* value = memory_.data() + places[i] * kValueSize;
    values_.Fill(key, i, value);
    records_[i] = {key, value};
    return Status::Ok();
  }));
  std::sort(records_.begin(), records_.end() - kMaxAhead,
            [](const Record& a, const Record& b) { return a.key < b.key; });
  std::fill(records_.end() - kMaxAhead, records_.end(), records_[0]);
  return Status::Ok();
}

template <typename Visit>
Status VisitFloor::Walk(const VisitLoopShape& shape, const Visit& visit,
                        pthread_barrier_t* gate) const {
  Status status;
  const uint64_t count = keys_.record_count();
  const uint64_t step = shape.chunk_records == 0 ? count : shape.chunk_records;
  for (uint64_t begin = 0; begin < count; begin += step) {
    if (shape.chunk_records != 0) pthread_barrier_wait(gate);
    if (!status.ok()) continue;
    try {
      const Record* const end = records_.data() + std::min(count, begin + step);
      for (const Record* record = records_.data() + begin; record < end; ++record) {
        if (shape.records_ahead != 0) {
          const char* const ahead = record[shape.records_ahead].value;
          __builtin_prefetch(ahead);
          __builtin_prefetch(ahead + kValueSize - kLineBytes);
        }
        visit(KeyBytes(record->key).view(), std::string_view(record->value, kValueSize));
      }
    } catch (const std::exception& error) {
      status = Status::Corruption(error.what());
    }
  }
  return status;
}

Status VisitFloor::Pass(const VisitLoopShape& shape, LoopVisitors visitors, uint32_t thread,
                        pthread_barrier_t* gate) const {
  const bool ends_alone = visitors == LoopVisitors::kInlinedEnds;
  RangeVisitor visitor(keys_, values_,
                       ends_alone ? RangeChecks::kEnds : ChecksOf(thread, 0, thread_count_));
  const auto visit = [&visitor](std::string_view key, std::string_view value) {
    visitor.Visit(key, value);
  };
  Status status;
  if (visitors == LoopVisitors::kRace) {
    const std::function<void(std::string_view, std::string_view)> function = visit;
    // Hides the called function from the compiler.
    asm volatile("" : : "r"(&function) : "memory");
    status = Walk(shape, function, gate);
  } else {
    status = Walk(shape, visit, gate);
  }
  const bool missed_some = status.ok() && visitor.count() != keys_.record_count();
  return missed_some ? Status::Corruption("bare loop: missed some") : status;
}

Status VisitFloor::Run(const VisitLoopShape& shape, LoopVisitors visitors, double* ns) {
  // Not std::barrier, which spins before it sleeps, because CPU time is measured here.
  pthread_barrier_t gate;
  pthread_barrier_init(&gate, nullptr, thread_count_);
  const double began_cpu_s = CpuSeconds();
  const Status status =
      RunTimed(thread_count_, kNoLimitSeconds, [&](uint32_t thread, TimedThread* self) {
        self->Start();
        return Pass(shape, visitors, thread, &gate);
      });
  const double cpu_ns = (CpuSeconds() - began_cpu_s) * 1e9;
  pthread_barrier_destroy(&gate);
  *ns = cpu_ns / static_cast<double>(keys_.record_count()) / thread_count_;
  return status;
}

Status VisitFloor::FindBest() {
  constexpr uint32_t kTries = 3;
  double best_ns = std::numeric_limits<double>::max();
  for (uint32_t i = 0; i < kTries; ++i) {
    for (const VisitLoopShape& shape : kShapes) {
      double ns = 0;
      ENGINE_RACE_RETURN_IF_ERROR(Run(shape, LoopVisitors::kRace, &ns));
      if (ns >= best_ns) continue;
      best_ns = ns;
      best_ = shape;
    }
  }
  return Status::Ok();
}

RaceConfig WithRaceMemory(RaceConfig race) {
  // Staging and index, and three eighths of the values.
  constexpr uint64_t kOtherBytes = 288 * 1024 * 1024;
  race.memory_budget_bytes = kOtherBytes + race.record_count() * kValueSize * 3 / 8;
  return race;
}

Status VisitedStore::Write() {
  const PhaseResult written = RunPhase(Phase::kWrite, race_);
  return written.ok ? Status::Ok() : Status::IOError(written.error);
}

Status VisitedStore::Open() {
  ENGINE_RACE_RETURN_IF_ERROR(OpenStore(race_, &store_));
  return AwaitIndex(store_.get());
}

Status VisitedStore::OverwriteTenth() {
  // One in this many records; their order is not that of keys.
  constexpr uint64_t kStep = 10;
  return WriteRecords(PutInto(store_.get()), keys_, values_, race_.thread_count, nullptr, kStep);
}

Status VisitedStore::Visit(VisitPasses* passes) {
  const uint32_t threads = race_.thread_count;
  Progress progress("visits", record_count() * threads * kRangePasses, kValueSize, threads);
  ContestPhases ranges({.thread_count = threads}, keys_, values_, EngineCalls(store_.get()),
                       &progress);
  const double visits = static_cast<double>(record_count()) * threads;
  double cpu_s = CpuSeconds();
  uint64_t pass_ns = NowNs();
  const auto note_pass = [&](uint32_t pass) {
    const double now_s = CpuSeconds();
    (*passes)[pass] = {SecondsSince(pass_ns), (now_s - cpu_s) * 1e9 / visits};
    cpu_s = now_s;
    pass_ns = NowNs();
  };
  return ranges.Range(summary_, /*checks_values=*/true, note_pass, /*point=*/nullptr);
}

double VisitedStore::KeptFraction() const {
  const double value_bytes = static_cast<double>(record_count()) * kValueSize;
  return std::min(1.0, static_cast<double>(store_->Stats().range_memory_bytes) / value_bytes);
}

Status VisitCost::Prepare() {
  ENGINE_RACE_RETURN_IF_ERROR(visited_.Write());
  ENGINE_RACE_RETURN_IF_ERROR(floor_.Prepare());
  return floor_.FindBest();
}

Status VisitCost::Round(VisitCosts* costs) {
  VisitPasses passes;
  ENGINE_RACE_RETURN_IF_ERROR(visited_.Open());
  ENGINE_RACE_RETURN_IF_ERROR(visited_.Visit(&passes));
  const double kept_fraction = visited_.KeptFraction();
  visited_.Close();
  costs->visit_ns = {passes[0].cpu_ns, passes[1].cpu_ns};
  TimedPoint run;
  ENGINE_RACE_RETURN_IF_ERROR(ReadFiles(visited_.race().dir, kValueFilePrefix, &run));
  // All values of a small store are staged.
  const uint64_t value_count = std::max<uint64_t>(run.byte_count / kValueSize, 1);
  const double all_ns =
      run.cpu_seconds * 1e9 / static_cast<double>(value_count) / visited_.race().thread_count;
  costs->reads_ns = {all_ns, all_ns * (1 - kept_fraction)};
  ENGINE_RACE_RETURN_IF_ERROR(floor_.RunBest(LoopVisitors::kRace, &costs->floor_ns));
  ENGINE_RACE_RETURN_IF_ERROR(floor_.RunBest(LoopVisitors::kInlinedRace, &costs->inlined_floor_ns));
  return floor_.RunBest(LoopVisitors::kInlinedEnds, &costs->ends_floor_ns);
}

}  // namespace engine_race::harness
