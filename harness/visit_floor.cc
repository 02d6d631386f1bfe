#include "harness/visit_floor.h"

#include <pthread.h>

#include <algorithm>
#include <limits>
#include <random>

#include "engine_race/base/key.h"
#include "harness/machine.h"
#include "harness/process_stats.h"
#include "harness/race_workers.h"
#include "harness/range_visitor.h"

namespace harness {

using engine_race::Status;

namespace {

constexpr uint32_t kMaxAhead = 16;
constexpr size_t kLineBytes = 64;

constexpr VisitLoopShape kShapes[] = {{0, 6},    {256, 6},  {1024, 6},  {2048, 6},
                                      {4096, 6}, {8192, 6}, {16384, 6}, {4096, 12}};

// Where all threads wait for each other. Not std::barrier, which spins before it sleeps: that costs
// the CPU time that is measured here.
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

void VisitFloor::Walk(const VisitLoopShape& shape, uint32_t thread, void* gate) const {
  RangeVisitor visitor(keys_, values_, ChecksOf(thread, 0, thread_count_));
  const uint64_t count = keys_.record_count();
  const uint64_t step = shape.chunk_records == 0 ? count : shape.chunk_records;
  const uint32_t ahead = shape.records_ahead;
  for (uint64_t begin = 0; begin < count; begin += step) {
    if (shape.chunk_records != 0) static_cast<Gate*>(gate)->Wait();
    const Record* const end = &records_[0] + std::min(count, begin + step);
    for (const Record* record = &records_[begin]; record < end; ++record) {
      if (ahead != 0) {
        __builtin_prefetch(record[ahead].value);
        __builtin_prefetch(record[ahead].value + kValueSize - kLineBytes);
      }
      char key_bytes[sizeof(uint64_t)];
      engine_race::EncodeKey(record->key, key_bytes);
      visitor.Visit({key_bytes, sizeof(key_bytes)}, {record->value, kValueSize});
    }
  }
}

double VisitFloor::Run(const VisitLoopShape& shape) {
  Gate gate(thread_count_);
  Failures failures;
  const double began_cpu_s = CpuSeconds();
  RunWorkers(thread_count_, &failures, [&](uint32_t thread) { Walk(shape, thread, &gate); });
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
      const double ns = Run(shape);
      if (!failure_.empty()) return;
      if (ns >= best_ns) continue;
      best_ns = ns;
      best_ = shape;
    }
  }
}

}  // namespace harness
