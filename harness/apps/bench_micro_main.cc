// Micro-benchmarks of the parts of every call, by one thread. bin/claims measures whole calls.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "engine_race/base/checksum.h"
#include "engine_race/base/key.h"
#include "engine_race/log/entry_codec.h"
#include "engine_race/log/slot_table.h"
#include "harness/data/mix.h"
#include "harness/data/value_maker.h"
#include "harness/system/command_line.h"
#include "harness/system/exit_codes.h"
#include "include/polar_string.h"

namespace engine_race::harness {
namespace {

constexpr uint64_t kKeyCount = 1 << 16;

void HashOneValue(benchmark::State& state, const ValueHashKernel& kernel) {
  alignas(64) char value[kValueSize];
  ValueMaker(1).Fill(1, 1, value);
  for (auto _ : state) benchmark::DoNotOptimize(kernel.hash(value, kValueSize));
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * kValueSize));
}

void FillValue(benchmark::State& state) {
  alignas(64) char value[kValueSize];
  const ValueMaker maker(1);
  uint64_t key = 0;
  for (auto _ : state) {
    maker.Fill(++key, 1, value);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * kValueSize));
}
BENCHMARK(FillValue);

void CheckValue(benchmark::State& state) {
  alignas(64) char value[kValueSize];
  const ValueMaker maker(1);
  maker.Fill(1, 1, value);
  uint64_t version = 0;
  for (auto _ : state) benchmark::DoNotOptimize(maker.CheckAll(1, value, &version));
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * kValueSize));
}
BENCHMARK(CheckValue);

void EncodeEntry(benchmark::State& state) {
  const EntryCodec codec(1, 2);
  KeyRecord record;
  uint64_t sequence = 0;
  for (auto _ : state) {
    record.key = Mix64(record.key + 1);
    benchmark::DoNotOptimize(SlotTable::EncodeAppended(codec, record, ++sequence));
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()));
}
BENCHMARK(EncodeEntry);

void DecodeEntry(benchmark::State& state) {
  const EntryCodec codec(1, 2);
  std::vector<format::KeyEntry> entries;
  for (uint32_t slot = 0; slot < kKeyCount; ++slot) {
    KeyRecord record;
    record.key = Mix64(slot);
    entries.push_back(SlotTable::EncodeAppended(codec, record, slot));
  }
  uint32_t slot = 0;
  for (auto _ : state) {
    KeyRecord record;
    if (!SlotTable::DecodeAppended(codec, entries[slot], slot, &record)) {
      state.SkipWithError("damaged");
      break;
    }
    benchmark::DoNotOptimize(record);
    slot = (slot + 1) % kKeyCount;
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()));
}
BENCHMARK(DecodeEntry);

void ComparePolarStrings(benchmark::State& state) {
  std::vector<char> keys(kKeyCount * sizeof(uint64_t));
  for (uint64_t i = 0; i < kKeyCount; ++i) EncodeKey(Mix64(i), &keys[i * 8]);
  uint64_t i = 0;
  for (auto _ : state) {
    const polar_race::PolarString a(&keys[i * 8], 8);
    i = (i + 1) % kKeyCount;
    const polar_race::PolarString b(&keys[i * 8], 8);
    benchmark::DoNotOptimize(a.compare(b));
  }
}
BENCHMARK(ComparePolarStrings);

void RegisterKernels() {
  for (const ValueHashKernel* kernel = ValueHashKernels(); kernel->name != nullptr; ++kernel) {
    if (kernel->hash == nullptr) continue;
    benchmark::RegisterBenchmark(
        (std::string("HashValue/") + kernel->name).c_str(),
        [kernel](benchmark::State& state) { HashOneValue(state, *kernel); });
  }
}

int Main(int argc, char** argv) {
  if (PrintedVersion("bench_micro", argc, argv)) return 0;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return kExitRefused;
  RegisterKernels();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace
}  // namespace engine_race::harness

int main(int argc, char** argv) { return engine_race::harness::Main(argc, argv); }
