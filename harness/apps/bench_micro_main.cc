// Micro-benchmarks of the parts of every call, by one thread unless the name says otherwise.
//
// The store lies in /dev/shm, so that its figures show the engine and not the device.
#include <benchmark/benchmark.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "engine_race/base/checksum.h"
#include "engine_race/base/cpu_features.h"
#include "engine_race/base/key.h"
#include "engine_race/base/lower_bound.h"
#include "engine_race/base/memory.h"
#include "engine_race/l1/key_block.h"
#include "engine_race/log/entry_codec.h"
#include "engine_race/log/slot_table.h"
#include "engine_race/store.h"
#include "harness/data/key_source.h"
#include "harness/data/mix.h"
#include "harness/data/value_maker.h"
#include "harness/system/command_line.h"
#include "harness/system/exit_codes.h"
#include "include/polar_string.h"

namespace harness {
namespace {

namespace format = engine_race::format;
namespace l1 = engine_race::l1;

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
  uint64_t sequence = 0;
  for (auto _ : state) {
    record.key = Mix64(record.key + 1);
    benchmark::DoNotOptimize(engine_race::SlotTable::EncodeAppended(codec, record, ++sequence));
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()));
}
BENCHMARK(EncodeEntry);

void DecodeEntry(benchmark::State& state) {
  const engine_race::EntryCodec codec(1, 2);
  std::vector<format::KeyEntry> entries;
  for (uint32_t slot = 0; slot < kKeyCount; ++slot) {
    engine_race::KeyRecord record;
    record.key = Mix64(slot);
    entries.push_back(engine_race::SlotTable::EncodeAppended(codec, record, slot));
  }
  uint32_t slot = 0;
  for (auto _ : state) {
    engine_race::KeyRecord record;
    if (!engine_race::SlotTable::DecodeAppended(codec, entries[slot], slot, &record)) {
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

// Full blocks of records, in order of key, that together are far larger than the caches.
class ColdBlocks {
 public:
  static constexpr uint64_t kBlockCount = 1 << 16;
  static constexpr uint32_t kRecords = format::kIndexBlockRecords;

  static const ColdBlocks& Get() {
    static const ColdBlocks blocks;
    return blocks;
  }
  // Begins with the block's number and goes on at random.
  static uint64_t KeyOf(uint64_t block, uint64_t number) {
    return block << 48 | Mix64(block + number * kBlockCount) >> 16;
  }
  const char* At(uint64_t block) const { return region_.data() + block * format::kIndexBlockBytes; }
  bool valid() const { return region_.data() != nullptr; }

 private:
  ColdBlocks() {
    const size_t bytes = kBlockCount * format::kIndexBlockBytes;
    if (!engine_race::Region::Allocate(bytes, true, &region_).ok()) return;
    std::vector<uint64_t> keys(kRecords);
    for (uint64_t i = 0; i < kBlockCount; ++i) {
      for (uint32_t j = 0; j < kRecords; ++j) keys[j] = KeyOf(i, j);
      std::sort(keys.begin(), keys.end());
      auto* const block = reinterpret_cast<format::IndexRecordBlock*>(const_cast<char*>(At(i)));
      block->header = {0, kRecords, 1};
      std::copy(keys.begin(), keys.end(), block->keys);
      std::copy(keys.begin(), keys.end(), block->words);
    }
  }

  engine_race::Region region_;
};

// The bounds of the keys of the key's block, as the level above would tell.
l1::KeyBounds BoundsHere(uint64_t key) {
  constexpr uint64_t kRest = (uint64_t{1} << 48) - 1;
  return {key & ~kRest, key | kRest};
}

// Finds a key that is there and loads its word. Each search waits for the one before it.
template <typename Rank>
void SearchBlocks(benchmark::State& state, Rank rank) {
  const ColdBlocks& blocks = ColdBlocks::Get();
  if (!blocks.valid()) return state.SkipWithError("no memory");
  uint64_t found = 0;
  uint64_t draw = 0;
  for (auto _ : state) {
    const uint64_t block = Mix64(++draw ^ (found & 1)) % ColdBlocks::kBlockCount;
    const uint64_t key = ColdBlocks::KeyOf(block, draw % ColdBlocks::kRecords);
    const l1::RecordBlock records(blocks.At(block));
    found = records.words()[rank(records, key)];
    if (found != key) return state.SkipWithError("not found");
  }
}

// The engine's own, with the bounds that the block has and with those that its fences have.
void FindInBlock(benchmark::State& state) {
  SearchBlocks(state, [](const auto& b, uint64_t key) { return b.Find(key, b.bounds()); });
}
BENCHMARK(FindInBlock);

void FindInBlockBetween(benchmark::State& state) {
  SearchBlocks(state, [](const l1::RecordBlock& block, uint64_t key) {
    return block.Find(key, BoundsHere(key));
  });
}
BENCHMARK(FindInBlockBetween);

void BlockBinary(benchmark::State& state) {
  SearchBlocks(state, [](const l1::RecordBlock& block, uint64_t key) {
    return engine_race::LowerBound(block.keys(), block.count(), key);
  });
}
BENCHMARK(BlockBinary);

template <uint32_t kWindowKeys>
void BlockWindow(benchmark::State& state) {
  SearchBlocks(state, [](const l1::RecordBlock& block, uint64_t key) {
    const l1::KeyBounds bounds = BoundsHere(key);
    const uint32_t guess = l1::GuessRank(bounds.first, bounds.last, key, ColdBlocks::kRecords);
    return l1::RankNear<kWindowKeys>(block.keys(), block.count(), guess, key);
  });
}
BENCHMARK_TEMPLATE(BlockWindow, 12);
BENCHMARK_TEMPLATE(BlockWindow, 32);

#ifdef __x86_64__
// Compares every key of the block, so that no line waits for another. The keys of a block here lie
// on one side of 2^63.
__attribute__((target("avx2"))) uint32_t CountAllAvx2(const uint64_t* keys, uint64_t key) {
  const __m256i wanted = _mm256_set1_epi64x(static_cast<int64_t>(key));
  __m256i below = _mm256_setzero_si256();
  // The last register has the first word too, which is taken back.
  for (uint32_t i = 0; i < ColdBlocks::kRecords; i += 4) {
    const __m256i some = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(keys + i));
    below = _mm256_sub_epi64(below, _mm256_cmpgt_epi64(wanted, some));
  }
  alignas(32) uint64_t counts[4];
  _mm256_store_si256(reinterpret_cast<__m256i*>(counts), below);
  const uint32_t extra =
      static_cast<int64_t>(keys[ColdBlocks::kRecords]) < static_cast<int64_t>(key);
  return static_cast<uint32_t>(counts[0] + counts[1] + counts[2] + counts[3]) - extra;
}

__attribute__((target("avx512f"))) uint32_t CountAllAvx512(const uint64_t* keys, uint64_t key) {
  const __m512i wanted = _mm512_set1_epi64(static_cast<int64_t>(key));
  uint32_t below = 0;
  for (uint32_t i = 0; i < ColdBlocks::kRecords; i += 8) {
    const __m512i some = _mm512_loadu_si512(keys + i);
    below += static_cast<uint32_t>(__builtin_popcount(_mm512_cmplt_epu64_mask(some, wanted)));
  }
  return below - (keys[ColdBlocks::kRecords] < key);
}

template <uint32_t (*kCount)(const uint64_t*, uint64_t)>
void BlockCountAll(benchmark::State& state) {
  SearchBlocks(
      state, [](const l1::RecordBlock& block, uint64_t key) { return kCount(block.keys(), key); });
}
#endif

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

void RegisterKernels() {
  for (const engine_race::ValueHashKernel* kernel = engine_race::ValueHashKernels();
       kernel->name != nullptr; ++kernel) {
    if (kernel->hash == nullptr) continue;
    benchmark::RegisterBenchmark(
        (std::string("HashValue/") + kernel->name).c_str(),
        [kernel](benchmark::State& state) { HashOneValue(state, *kernel); });
  }
#ifdef __x86_64__
  const engine_race::CpuFeatures cpu = engine_race::RunningCpuFeatures();
  using benchmark::RegisterBenchmark;
  if (cpu.avx2) RegisterBenchmark("BlockCountAll/avx2", BlockCountAll<CountAllAvx2>);
  if (cpu.avx512f) RegisterBenchmark("BlockCountAll/avx512", BlockCountAll<CountAllAvx512>);
#endif
}

}  // namespace
}  // namespace harness

int main(int argc, char** argv) {
  if (harness::PrintedVersion("bench_micro", argc, argv)) return 0;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return harness::kExitRefused;
  harness::RegisterKernels();
  benchmark::RunSpecifiedBenchmarks();
}
