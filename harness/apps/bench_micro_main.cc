// Micro-benchmarks of the parts of every call, by one thread unless the name says otherwise.
//
// The store lies in /dev/shm, so that its figures show the engine and not the device.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "engine_race/base/checksum.h"
#include "engine_race/base/key.h"
#include "engine_race/base/lower_bound.h"
#include "engine_race/log/entry_codec.h"
#include "engine_race/store.h"
#include "harness/data/key_source.h"
#include "harness/data/mix.h"
#include "harness/data/value_maker.h"
#include "include/polar_string.h"

namespace harness {
namespace {

constexpr uint64_t kKeyCount = 1 << 16;
constexpr uint64_t kStoreRecords = 1 << 15;
constexpr char kMemoryDir[] = "/dev/shm";

void HashOneValue(benchmark::State& state, const engine_race::ValueHashKernel& kernel) {
  alignas(64) char value[kValueSize];
  ValueMaker(1).Fill(1, 1, value);
  for (auto _ : state) benchmark::DoNotOptimize(kernel.hash(value));
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
  const engine_race::EntryCodec codec(1, 2);
  engine_race::KeyRecord record;
  for (auto _ : state) {
    record.key = Mix64(record.key + 1);
    record.sequence = ++record.slot;
    benchmark::DoNotOptimize(codec.Encode(record));
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()));
}
BENCHMARK(EncodeEntry);

void DecodeEntry(benchmark::State& state) {
  const engine_race::EntryCodec codec(1, 2);
  std::vector<engine_race::format::KeyEntry> entries;
  for (uint32_t slot = 0; slot < kKeyCount; ++slot) {
    engine_race::KeyRecord record;
    record.key = Mix64(slot);
    record.slot = slot;
    record.sequence = slot;
    entries.push_back(codec.Encode(record));
  }
  uint32_t slot = 0;
  for (auto _ : state) {
    engine_race::KeyRecord record;
    if (!codec.Decode(entries[slot], slot, kKeyCount, &record)) {
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
  for (uint64_t i = 0; i < kKeyCount; ++i) engine_race::EncodeKey(Mix64(i), &keys[i * 8]);
  uint64_t i = 0;
  for (auto _ : state) {
    const polar_race::PolarString a(&keys[i * 8], 8);
    i = (i + 1) % kKeyCount;
    const polar_race::PolarString b(&keys[i * 8], 8);
    benchmark::DoNotOptimize(a.compare(b));
  }
}
BENCHMARK(ComparePolarStrings);

std::vector<uint64_t> SortedKeys() {
  std::vector<uint64_t> keys;
  for (uint64_t i = 0; i < kKeyCount; ++i) keys.push_back(Mix64(i));
  std::sort(keys.begin(), keys.end());
  return keys;
}

// Each search waits for the one before it, as a lookup waits for its caller.
template <typename Search>
void SearchKeys(benchmark::State& state, Search search) {
  const std::vector<uint64_t> keys = SortedKeys();
  uint64_t found = 0;
  uint64_t i = 0;
  for (auto _ : state) {
    found = search(keys, Mix64((++i ^ (found & 1)) % kKeyCount));
    benchmark::DoNotOptimize(found);
  }
}

void BranchlessLowerBound(benchmark::State& state) {
  SearchKeys(state, [](const std::vector<uint64_t>& keys, uint64_t key) {
    return engine_race::LowerBound(keys.data(), keys.size(), key);
  });
}
BENCHMARK(BranchlessLowerBound);

void StandardLowerBound(benchmark::State& state) {
  SearchKeys(state, [](const std::vector<uint64_t>& keys, uint64_t key) {
    return std::lower_bound(keys.begin(), keys.end(), key) - keys.begin();
  });
}
BENCHMARK(StandardLowerBound);

// A store in memory that lives as long as the object.
class MemoryStore {
 public:
  // store() is null when /dev/shm is missing or too full.
  MemoryStore() {
    std::string dir = std::string(kMemoryDir) + "/bench_micro.XXXXXX";
    if (access(kMemoryDir, W_OK) != 0 || mkdtemp(dir.data()) == nullptr) return;
    dir_ = dir;
    engine_race::Options options;
    options.bucket_count = 64;
    if (!engine_race::Store::Open(options, dir_, &store_).ok()) store_.reset();
  }
  MemoryStore(const MemoryStore&) = delete;
  MemoryStore& operator=(const MemoryStore&) = delete;
  ~MemoryStore() {
    store_.reset();
    std::error_code error;
    if (!dir_.empty()) std::filesystem::remove_all(dir_, error);
  }

  engine_race::Store* store() const { return store_.get(); }

  bool Write(uint64_t index) {
    const uint64_t key = keys_.KeyAt(index % kStoreRecords);
    char key_bytes[sizeof(key)];
    engine_race::EncodeKey(key, key_bytes);
    return store_->Write({key_bytes, sizeof(key)}, {value_, sizeof(value_)}).ok();
  }

  bool Read(uint64_t index, std::string* value) {
    const uint64_t key = keys_.KeyAt(index % kStoreRecords);
    char key_bytes[sizeof(key)];
    engine_race::EncodeKey(key, key_bytes);
    return store_->Read({key_bytes, sizeof(key)}, value).ok();
  }

  bool WriteAll() {
    bool ok = true;
    for (uint64_t i = 0; i < kStoreRecords && ok; ++i) ok = Write(i);
    return ok;
  }

 private:
  std::string dir_;
  std::unique_ptr<engine_race::Store> store_;
  const KeySource keys_{KeyShape::kUniform, kStoreRecords, 1};
  alignas(64) char value_[kValueSize] = {};
};

// Makes a fixed number of writes, because each takes space.
void StoreWrite(benchmark::State& state) {
  MemoryStore memory;
  if (memory.store() == nullptr) return state.SkipWithError("no store in /dev/shm");
  uint64_t i = 0;
  for (auto _ : state) {
    if (!memory.Write(i++)) {
      state.SkipWithError("write failed");
      break;
    }
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * kValueSize));
}
BENCHMARK(StoreWrite)->Iterations(kStoreRecords);

void StoreRead(benchmark::State& state) {
  MemoryStore memory;
  std::string value;
  if (memory.store() == nullptr || !memory.WriteAll() || !memory.Read(0, &value)) {
    return state.SkipWithError("no store in /dev/shm");
  }
  uint64_t i = 0;
  for (auto _ : state) {
    if (!memory.Read(Mix64(++i), &value)) {
      state.SkipWithError("read failed");
      break;
    }
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * kValueSize));
}
BENCHMARK(StoreRead);

void StoreRange(benchmark::State& state) {
  MemoryStore memory;
  if (memory.store() == nullptr || !memory.WriteAll()) {
    return state.SkipWithError("no store in /dev/shm");
  }
  uint64_t visited = 0;
  for (auto _ : state) {
    const engine_race::Status status =
        memory.store()->Range({}, {}, [&](std::string_view, std::string_view) { ++visited; });
    if (!status.ok()) {
      state.SkipWithError("range failed");
      break;
    }
  }
  state.SetBytesProcessed(static_cast<int64_t>(visited * kValueSize));
}
BENCHMARK(StoreRange);

void RegisterHashKernels() {
  for (const engine_race::ValueHashKernel* kernel = engine_race::ValueHashKernels();
       kernel->name != nullptr; ++kernel) {
    if (kernel->hash == nullptr) continue;
    benchmark::RegisterBenchmark(
        (std::string("HashValue/") + kernel->name).c_str(),
        [kernel](benchmark::State& state) { HashOneValue(state, *kernel); });
  }
}

}  // namespace
}  // namespace harness

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  harness::RegisterHashKernels();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
