#include "harness/claims/visit_floor.h"

#include <pthread.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <limits>
#include <random>
#include <string_view>

#include "engine_race/base/key.h"
#include "harness/data/range_visitor.h"
#include "harness/measure/workers.h"
#include "harness/system/machine.h"
#include "harness/system/process_stats.h"

namespace harness {

using engine_race::Status;

namespace {

constexpr uint32_t kMaxAhead = 16;
constexpr size_t kLineBytes = 64;

// Values are aligned to pages, so their first and last lines fall into few sets of a cache. A cache
// of 1 MiB in 16 ways keeps those lines of 256 values. Larger chunks wake threads less often.
constexpr VisitLoopShape kShapes[] = {{0, 8},    {256, 8},  {512, 8}, {1024, 6},
                                      {1024, 8}, {2048, 8}, {4096, 8}};

// A barrier of all threads. Not std::barrier, which spins before it sleeps, because CPU time is
// measured here.
class Gate {
 public:
  explicit Gate(uint32_t thread_count) { pthread_barrier_init(&barrier_, nullptr, thread_count); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate() { pthread_barrier_destroy(&barrier_); }

  void Wait() { pthread_barrier_wait(&barrier_); }

 private:
  pthread_barrier_t barrier_;
};

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
  ENGINE_RACE_RETURN_IF_ERROR(
      engine_race::Region::Allocate(count * kValueSize, /*huge_pages=*/true, &memory_));
  std::vector<uint64_t> places(count);
  for (uint64_t i = 0; i < count; ++i) places[i] = i;
  std::shuffle(places.begin(), places.end(), std::mt19937_64(1));
  records_.resize(count + kMaxAhead);
  Failures failures;
  RunWorkers(thread_count_, &failures, [&](uint32_t thread) {
    for (uint64_t i = thread; i < count; i += thread_count_) {
      const uint64_t key = keys_.KeyAt(i);
      char* value = memory_.data() + places[i] * kValueSize;
      values_.Fill(key, i, value);
      records_[i] = {key, value};
    }
  });
  std::sort(records_.begin(), records_.end() - kMaxAhead,
            [](const Record& a, const Record& b) { return a.key < b.key; });
  std::fill(records_.end() - kMaxAhead, records_.end(), records_[0]);
  return Status::Ok();
}

template <typename Visit>
void VisitFloor::WalkChunk(uint64_t begin, uint64_t end, uint32_t ahead, const Visit& visit) const {
  const Record* const last = records_.data() + end;
  for (const Record* record = records_.data() + begin; record < last; ++record) {
    if (ahead != 0) {
      __builtin_prefetch(record[ahead].value);
      __builtin_prefetch(record[ahead].value + kValueSize - kLineBytes);
    }
    char key_bytes[sizeof(uint64_t)];
    engine_race::EncodeKey(record->key, key_bytes);
    visit(std::string_view(key_bytes, sizeof(key_bytes)),
          std::string_view(record->value, kValueSize));
  }
}

template <typename Visit, typename Gate>
void VisitFloor::Walk(const VisitLoopShape& shape, const Visit& visit, Gate* gate,
                      Failures* failures) const {
  const uint64_t count = keys_.record_count();
  const uint64_t step = shape.chunk_records == 0 ? count : shape.chunk_records;
  for (uint64_t begin = 0; begin < count; begin += step) {
    if (shape.chunk_records != 0) gate->Wait();
    try {
      if (!failures->any()) {
        WalkChunk(begin, std::min(count, begin + step), shape.records_ahead, visit);
      }
    } catch (const std::exception& error) {
      failures->Note(error.what());
    }
  }
}

template <typename Gate>
void VisitFloor::Pass(const VisitLoopShape& shape, LoopVisitors visitors, uint32_t thread,
                      Gate* gate, Failures* failures) const {
  const bool ends_alone = visitors == LoopVisitors::kInlinedEnds;
  RangeVisitor visitor(keys_, values_,
                       ends_alone ? RangeChecks::kEnds : ChecksOf(thread, 0, thread_count_));
  const auto visit = [&visitor](std::string_view key, std::string_view value) {
    visitor.Visit(key, value);
  };
  if (visitors == LoopVisitors::kRace) {
    const std::function<void(std::string_view, std::string_view)> function = visit;
    // Hides the called function from the compiler.
    asm volatile("" : : "r"(&function) : "memory");
    Walk(shape, function, gate, failures);
  } else {
    Walk(shape, visit, gate, failures);
  }
  if (visitor.count() != keys_.record_count()) failures->Note("bare loop: missed some");
}

double VisitFloor::Run(const VisitLoopShape& shape, LoopVisitors visitors) {
  Gate gate(thread_count_);
  Failures failures;
  const double began_cpu_s = CpuSeconds();
  RunWorkers(thread_count_, &failures,
             [&](uint32_t thread) { Pass(shape, visitors, thread, &gate, &failures); });
  const double cpu_ns = (CpuSeconds() - began_cpu_s) * 1e9;
  if (failures.any()) {
    if (failure_.empty()) failure_ = failures.first();
    return 0;
  }
  return cpu_ns / static_cast<double>(keys_.record_count()) / thread_count_;
}

void VisitFloor::FindBest() {
  constexpr uint32_t kTries = 3;
  double best_ns = std::numeric_limits<double>::max();
  for (uint32_t i = 0; i < kTries; ++i) {
    for (const VisitLoopShape& shape : kShapes) {
      const double ns = Run(shape, LoopVisitors::kRace);
      if (!failure_.empty()) return;
      if (ns >= best_ns) continue;
      best_ns = ns;
      best_ = shape;
    }
  }
}

}  // namespace harness
