// The measured claims about sizes of values: each size beside the device, its disk space, and small
// and large values beside RocksDB.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/bench/benchmark.h"
#include "harness/claims/bench.h"
#include "harness/claims/benches.h"
#include "harness/claims/race_meter.h"
#include "harness/data/mix.h"
#include "harness/kv/kv_store.h"
#include "harness/load/store_runs.h"
#include "harness/opponents/peers.h"
#include "harness/race/runner.h"
#include "harness/system/disk.h"

namespace engine_race::harness {
namespace {

constexpr char kSmallReads[] = "512 bytes, engine, MultiRead, records a second";
constexpr char kSmallReadsRocks[] = "512 bytes, RocksDB, MultiGet, records a second";
constexpr char kLargeWrites[] = "256 KiB, engine, fill and Sync, MB/s";
constexpr char kLargeWritesRocks[] = "256 KiB, RocksDB, fill and Sync, MB/s";
constexpr char kManyCallers[] = ", many callers";
constexpr uint32_t kSmallBytes = 512;
constexpr uint32_t kLargeBytes = 256 * 1024;
constexpr uint32_t kKeysPerCall = 1024;
// The bytes of the records over the memory of a store.
constexpr uint64_t kDataPerMemory = 4;

// A size, and the names of its part and its claims.
struct SizeClaims {
  explicit SizeClaims(uint32_t bytes)
      : value_bytes(bytes),
        suffix("_" + std::to_string(bytes)),
        part("size-" + std::to_string(bytes)),
        write(kWriteRatio + suffix),
        read(kReadRatio + suffix),
        range(kRangeRatio + suffix),
        space("space" + suffix) {}

  uint32_t value_bytes;
  std::string suffix, part, write, read, range, space;
};

// A store beside RocksDB, and the figures of its reads and writes.
struct Contender {
  KvStoreKind kind;
  std::string reads, writes;
  std::unique_ptr<KvStore> store = {};
  uint64_t turn_count = 0;  // selects the records that are drawn
};

class SizesBench final : public Bench {
 public:
  SizesBench() : Bench("sizes", "values of 128 bytes to 1 MiB: the device, disk space, RocksDB") {
    // One visitor that counts, as fio's reader does.
    race_.range_thread_count = 1;
    race_.checks_ranged_values = false;
    Set({"", &race_.thread_count, 4, "--threads"});
    Set({"range_threads", &race_.range_thread_count, kSame, "--range-threads", "that range"});
    Set({"", &race_.seed, kSame, "--seed", "", true});
    Set({"memory_budget_bytes", &race_.memory_budget_bytes, kSame, "--memory-limit", "of a race"});
    race_.memory_budget_bytes = uint64_t{1} << 30;
    for (const uint32_t bytes : {128, 512, 1536, 3072, 4096, 16384, 65536, 262144, 1048576}) {
      sizes_.emplace_back(bytes);
    }
  }

 private:
  std::vector<BenchPart> Parts() override {
    std::vector<BenchPart> parts;
    for (const SizeClaims& size : sizes_) {
      const bool is_small = size.value_bytes < kValueSize;
      parts.push_back({size.part.c_str(),
                       {{size.write.c_str(), is_small ? "" : ">= 0.85",
                         "bytes written over fio's best, in blocks of 128 KiB or a larger value"},
                        {size.read.c_str(), is_small ? ">= 0.85" : ">= 0.93",
                         "reads over fio's of a value, rounded up to 4 KiB"},
                        {size.range.c_str(), ">= 0.85",
                         "bytes of a Range by one thread, opening included, over fio's best"},
                        {size.space.c_str(), size.value_bytes <= 128 ? "<= 1.35" : "<= 1.10",
                         "disk space after a fill and Sync over keys and values"}},
                       [this, &size] { return MeasureSize(size); },
                       DiskBytes(size)});
    }
    const std::string no_rocks = Peers().empty() ? kNoRocks : "";
    parts.push_back({"small-rocksdb",
                     {{"small_vs_rocksdb", ">= 3",
                       "calls of 1024 keys by one thread, RocksDB without log and checksums",
                       kSmallReads, kSmallReadsRocks}},
                     By(&SizesBench::CompareReads),
                     {4 * StoreBytes(small_bytes_ / kSmallBytes, kSmallBytes), false, no_rocks}});
    parts.push_back(
        {"large-rocksdb",
         {{"large_vs_rocksdb_writes", ">= 3", "a new store, beside RocksDB with blob files",
           kLargeWrites, kLargeWritesRocks}},
         By(&SizesBench::CompareWrites),
         {3 * StoreBytes(large_bytes_ / kLargeBytes, kLargeBytes), false, no_rocks}});
    return parts;
  }

  RaceConfig RaceOf(const SizeClaims& size) const {
    RaceConfig race = race_;
    race.value_bytes = size.value_bytes;
    const uint64_t record_count = std::min(data_bytes_ / size.value_bytes, most_records_());
    race.records_per_thread = std::max<uint64_t>(record_count / race.thread_count, 1);
    race.reads_per_thread = std::min(reads_per_thread_(), race.records_per_thread);
    return race;
  }
  uint64_t SpaceRecordCount(const SizeClaims& size) const {
    return std::max<uint64_t>(space_bytes_ / size.value_bytes, 1);
  }
  // The store of a race has fio's files beside it.
  uint64_t DiskBytes(const SizeClaims& size) const {
    return std::max(2 * StoreBytes(RaceOf(size).record_count(), size.value_bytes),
                    StoreBytes(SpaceRecordCount(size), size.value_bytes));
  }

  Status MeasureSize(const SizeClaims& size) {
    std::set<std::string> ratios;
    for (const char* ratio : {kWriteRatio, kReadRatio, kRangeRatio}) {
      if (Wants(ratio + size.suffix)) ratios.insert(ratio);
    }
    // Of the same runs. It is no claim: the memory has part of the records by then.
    if (ratios.contains(kRangeRatio)) ratios.insert(kRangePass2);
    if (!ratios.empty()) {
      const RaceConfig race = RaceOf(size);
      RaceMeter meter(is_smoke(), &rounds_);
      ENGINE_RACE_RETURN_IF_ERROR(meter.Prepare(dir() + "/race"));
      const Status raced = rounds_.Run(
          {round_count_}, {[&] { return meter.BesideDevice(race, ratios, size.suffix); }});
      more_json_["races"][size.part] = {{"config", race}, {"phases", meter.phases()}};
      ENGINE_RACE_RETURN_IF_ERROR(raced);
    }
    return Wants(size.space) ? MeasureSpace(size) : Status::Ok();
  }

  // The disk space of a store after a fill and Sync over the bytes of its keys and values.
  Status MeasureSpace(const SizeClaims& size) {
    const KeySource keys(KeyShape::kUniform, SpaceRecordCount(size), race_.seed);
    const ValueMaker values(race_.seed, size.value_bytes);
    Options options = QuietOptions();
    options.value_bytes = size.value_bytes;
    const std::string store_dir = dir() + "/space";
    std::unique_ptr<Store> store;
    ENGINE_RACE_RETURN_IF_ERROR(Store::Open(options, store_dir, &store));
    TimedPoint filled;
    ENGINE_RACE_RETURN_IF_ERROR(
        WriteRecords(PutInto(store.get()), keys, values, race_.thread_count, &filled));
    ENGINE_RACE_RETURN_IF_ERROR(store->Sync());
    rounds_.Note(size.space,
                 static_cast<double>(AllocatedBytes(store_dir)) /
                     static_cast<double>(keys.record_count() * RecordBytes(size.value_bytes)));
    return Status::Ok();
  }

  // Reads by single callers and by many. Both stores stay open, and their caches warm.
  Status CompareReads() {
    KvOptions options = OptionsOf(kSmallBytes, small_bytes_);
    options.lacks_log_and_checksums = true;
    std::vector<Contender> contenders = Contenders();
    std::vector<Turn> turns;
    for (Contender& contender : contenders) {
      ENGINE_RACE_RETURN_IF_ERROR(Fill(options, &contender));
      const Status compacted = contender.store->Compact();
      if (compacted.code() != Code::kNotSupported) ENGINE_RACE_RETURN_IF_ERROR(compacted);
      notes_["small_vs_rocksdb"][contender.kind.name] = contender.store->Describe();
      turns.emplace_back([&] { return ReadTurn(options, 1, contender.reads, &contender); });
      turns.emplace_back([&] {
        return ReadTurn(options, caller_count_, contender.reads + kManyCallers, &contender);
      });
    }
    const std::string many = kManyCallers;
    ENGINE_RACE_RETURN_IF_ERROR(rounds_.Run(
        {.count = round_count_, .warms_up = !is_smoke()}, turns,
        {{"512 bytes, engine over RocksDB" + many, kSmallReads + many, kSmallReadsRocks + many}}));
    for (Contender& contender : contenders) ENGINE_RACE_RETURN_IF_ERROR(contender.store->Close());
    return Status::Ok();
  }

  // Each turn fills a new store.
  Status CompareWrites() {
    const KvOptions options = OptionsOf(kLargeBytes, large_bytes_);
    std::vector<Contender> contenders = Contenders();
    std::vector<Turn> turns;
    turns.reserve(contenders.size());
    for (Contender& contender : contenders) {
      turns.emplace_back([&] {
        const Status filled = Fill(options, &contender);
        if (contender.store == nullptr) return filled;
        notes_["large_vs_rocksdb_writes"][contender.kind.name] = contender.store->Describe();
        const Status closed = contender.store->Close();
        contender.store.reset();
        std::filesystem::remove_all(DirOf(contender));
        // The next turn does not pay for it.
        SyncFileSystem(dir());
        return filled.ok() ? closed : filled;
      });
    }
    return rounds_.Run({round_count_}, turns);
  }

  std::vector<Contender> Contenders() {
    std::vector<Contender> contenders;
    contenders.push_back({EngineStoreKind(), kSmallReads, kLargeWrites});
    contenders.push_back({Peers().front(), kSmallReadsRocks, kLargeWritesRocks});
    return contenders;
  }

  std::string DirOf(const Contender& contender) const { return dir() + "/" + contender.kind.name; }

  KvOptions OptionsOf(uint32_t value_bytes, uint64_t data_bytes) const {
    return {.dir = {},
            .memory_budget_bytes = std::max(data_bytes / kDataPerMemory, kMinMemoryBudgetBytes),
            .thread_count = race_.thread_count,
            .record_count = data_bytes / RecordBytes(value_bytes),
            .value_bytes = value_bytes};
  }

  BenchConfig ConfigOf(const char* benchmark, const KvOptions& options) const {
    BenchConfig config;
    config.benchmark = benchmark;
    config.num = options.record_count;
    config.thread_count = options.thread_count;
    config.value_bytes = options.value_bytes;
    config.seed = race_.seed;
    config.key_layout = KeyLayout::kSpread;
    config.batch_size = kKeysPerCall;
    return config;
  }

  // Opens a new store, which stays open. Notes the megabytes a second until all is durable.
  Status Fill(KvOptions options, Contender* contender) {
    options.dir = DirOf(*contender);
    ENGINE_RACE_RETURN_IF_ERROR(contender->kind.open(options, &contender->store));
    const uint64_t began_ns = NowNs();
    BenchResult filled;
    ENGINE_RACE_RETURN_IF_ERROR(
        RunBenchmark(ConfigOf("filluniquerandom", options), contender->store.get(), &filled));
    ENGINE_RACE_RETURN_IF_ERROR(contender->store->Sync());
    const std::string figure = options.value_bytes == kLargeBytes
                                   ? contender->writes
                                   : contender->kind.name + ", fill, MB/s";
    rounds_.Note(figure, static_cast<double>(filled.written_bytes) * 1e-6 / SecondsSince(began_ns));
    return Status::Ok();
  }

  Status ReadTurn(const KvOptions& options, uint32_t thread_count, const std::string& figure,
                  Contender* contender) {
    BenchConfig config = ConfigOf("multireadrandom", options);
    config.thread_count = thread_count;
    config.duration_seconds = seconds_;
    // Other records in each turn. Both sides read the same ones.
    config.seed = MixAt(race_.seed, contender->turn_count++);
    BenchResult read;
    ENGINE_RACE_RETURN_IF_ERROR(RunBenchmark(config, contender->store.get(), &read));
    if (read.found_count != read.lookup_count) return Status::Corruption("a record is missing");
    rounds_.Note(figure, read.OperationsPerSecond());
    return Status::Ok();
  }

  std::vector<SizeClaims> sizes_;
  RaceConfig race_;
  Count32 round_count_{this, "rounds", 3, 1, "--rounds"};
  Count data_bytes_{this, "data_bytes", uint64_t{4} << 30, 16 << 20, "--data-bytes", "of a race"};
  Count most_records_{this, "most_records", 6400000, 4000, "--most-num", "records of a race"};
  Count reads_per_thread_{this, "reads_per_thread", 20000, 100, "--reads", "of each thread"};
  Count space_bytes_{this,     "space_bytes",   uint64_t{8} << 30,
                     16 << 20, "--space-bytes", "of values, where disk space is measured"};
  Count small_bytes_{this,    "small_bytes",   uint64_t{2} << 30,
                     8 << 20, "--small-bytes", "of a store of 512-byte values"};
  Count large_bytes_{this,     "large_bytes",   uint64_t{4} << 30,
                     32 << 20, "--large-bytes", "of a store of 256-KiB values"};
  Count32 caller_count_{this, "callers", 16, 2};
  Real seconds_{this, "seconds", 5, 0.02, "--seconds", "of each turn of reads"};
};

}  // namespace

std::unique_ptr<Bench> MakeSizesBench() { return std::make_unique<SizesBench>(); }

}  // namespace engine_race::harness
