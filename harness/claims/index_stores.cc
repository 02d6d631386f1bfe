#include "harness/claims/index_stores.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "engine_race/base/key.h"
#include "engine_race/index/index.h"
#include "engine_race/l1/frame_cache.h"
#include "engine_race/log/bucket_log.h"
#include "engine_race/log/format.h"
#include "engine_race/memory_budget.h"
#include "harness/data/mix.h"
#include "harness/data/value_maker.h"
#include "harness/load/store_basics.h"
#include "harness/measure/timed.h"
#include "harness/system/disk.h"
#include "harness/system/process_stats.h"

namespace engine_race::harness {

namespace fs = std::filesystem;

namespace {

// What a store takes beside its index, as a first guess.
constexpr uint64_t kGuessedRestBytes = uint64_t{64} << 20;
// A budget is divided, so a step may give the index less than was added.
constexpr int kMaxSteps = 12;
// The records written before a kill that are read again.
constexpr uint64_t kKilledReads = 16;

// The key of write `number`: an even one adds a record.
uint64_t LoadKeyAt(const IndexKeys& keys, const IndexLoad& load, uint64_t number) {
  return number % 2 == 0 ? keys.New(load.first_new + number / 2)
                         : keys.PresentKey(MixAt(load.seed, number));
}

// Reads what the store held before the load, until `writers_left` is 0.
Status ReadBeside(Store* store, const IndexKeys& keys, uint64_t stream,
                  const std::atomic<uint32_t>& writers_left, TimedThread* self) {
  std::string value;
  uint64_t* const count = &self->tally.request_count;
  for (; writers_left.load() > 0 && self->Running(); ++*count) {
    const uint64_t key = keys.PresentKey(MixAt(stream, *count));
    ENGINE_RACE_RETURN_IF_ERROR(store->Read(KeyBytes(key).view(), &value));
  }
  return Status::Ok();
}

Status WriteShare(Store* store, const IndexKeys& keys, const IndexLoad& load, uint32_t writer,
                  TimedThread* self) {
  const ValueMaker values(load.seed);
  std::string value(kValueSize, '\0');
  for (uint64_t i = writer; i < load.write_count && self->Running(); i += load.writer_count) {
    const uint64_t key = LoadKeyAt(keys, load, i);
    values.Fill(key, i, value.data());
    const uint64_t began_ns = NowNs();
    ENGINE_RACE_RETURN_IF_ERROR(store->Write(KeyBytes(key).view(), value));
    self->tally.write_latency.Add(NowNs() - began_ns);
  }
  return Status::Ok();
}

}  // namespace

void RemoveIndexRoot(const std::string& store_dir) {
  std::error_code ignored;
  fs::remove(fs::path(store_dir) / format::kIndexRootName, ignored);
}

uint64_t IndexDiskBytes(const std::string& store_dir) {
  return AllocatedBytes(store_dir, format::kIndexFilePrefix);
}

uint64_t IndexBlockBytes(uint64_t key_count) {
  return uint64_t{format::IndexBlocksOf(key_count)} * format::kIndexBlockBytes;
}

uint64_t FittingRecords(uint64_t asked, uint64_t free_bytes) {
  const uint64_t usable = free_bytes / 10 * 9;
  const uint64_t fixed = StoreBytes(0);
  if (usable <= fixed) return 0;
  return std::min(asked, (usable - fixed) / (StoreBytes(1) - fixed + kIndexBytesPerRecord));
}

bool IndexBudget::Has(uint64_t wanted_bytes) const {
  const uint64_t distance =
      index_bytes > wanted_bytes ? index_bytes - wanted_bytes : wanted_bytes - index_bytes;
  return distance <= wanted_bytes / 10;
}

Status FindIndexBudget(uint64_t wanted_bytes, const IndexBytesFn& bytes_under, IndexBudget* found) {
  constexpr uint64_t kLeast = kMinMemoryBudgetBytes;
  uint64_t budget_bytes = std::max(kLeast, wanted_bytes + kGuessedRestBytes);
  for (int step = 0; step < kMaxSteps; ++step) {
    found->budget_bytes = budget_bytes;
    ENGINE_RACE_RETURN_IF_ERROR(bytes_under(budget_bytes, &found->index_bytes));
    // Without any bytes the store does not divide its budget this way.
    if (found->Has(wanted_bytes) || found->index_bytes == 0) break;
    const uint64_t excess =
        found->index_bytes > wanted_bytes ? found->index_bytes - wanted_bytes : 0;
    const uint64_t missing =
        wanted_bytes > found->index_bytes ? wanted_bytes - found->index_bytes : 0;
    if (excess > 0 && budget_bytes == kLeast) break;
    budget_bytes = std::max(kLeast, budget_bytes + missing - std::min(budget_bytes, excess));
  }
  return Status::Ok();
}

Status RunIndexLoad(Store* store, const IndexKeys& keys, const IndexLoad& load,
                    IndexLoadResult* result) {
  std::atomic<uint32_t> writers_left{load.writer_count};
  TimedPoint point;
  ENGINE_RACE_RETURN_IF_ERROR(RunTimed(
      load.writer_count + load.reader_count, kNoLimitSeconds,
      [&](uint32_t thread, TimedThread* self) {
        self->Start();
        if (thread >= load.writer_count) {
          return ReadBeside(store, keys, MixAt(load.seed + 1, thread), writers_left, self);
        }
        const Status status = WriteShare(store, keys, load, thread, self);
        --writers_left;
        return status;
      },
      &point));
  *result = {point.seconds, point.request_count, point.write_latency};
  return Status::Ok();
}

FilledStore::FilledStore(std::string dir, const Options& options, uint64_t key_count,
                         const IndexLoad& load)
    : dir_(std::move(dir)),
      options_(options),
      seed_(load.seed),
      keys_(options, key_count, load.seed),
      load_(load) {}

Status FilledStore::Fill() {
  ENGINE_RACE_RETURN_IF_ERROR(FillKeyLogs(options_, dir_, keys_.key_count(), seed_));
  nlohmann::json unused;
  return Reopen(&unused);
}

Status FilledStore::Rebuild(nlohmann::json* cost) {
  RemoveIndexRoot(dir_);
  return OpenInChild(/*builds=*/true, cost);
}

Status FilledStore::OpenInChild(bool builds, nlohmann::json* cost) {
  DropPageCache(dir_);
  ENGINE_RACE_RETURN_IF_ERROR(RunOwnChild(kOpenWork,
                                          {{"store_dir", dir_},
                                           {"builds", builds},
                                           {"first_key", keys_.PresentKey(Mix64(++open_count_))},
                                           {"more_keys", written_keys_}},
                                          cost));
  written_keys_.clear();
  return Status::Ok();
}

Status FilledStore::KillWriter(uint64_t write_count) {
  load_.write_count = write_count;
  load_.reader_count = 0;
  ENGINE_RACE_RETURN_IF_ERROR(RunKilledChild(kKillWork, {{"store_dir", dir_},
                                                         {"bucket_count", options_.bucket_count},
                                                         {"key_count", keys_.key_count()},
                                                         {"seed", seed_},
                                                         {"load", load_}}));
  const uint64_t added = load_.new_key_count();
  for (uint64_t i = 0; i < kKilledReads; ++i) {
    written_keys_.push_back(keys_.New(load_.first_new + added * i / kKilledReads));
  }
  load_.first_new += added;
  return Status::Ok();
}

Status FilledStore::Open(const Options& options, std::unique_ptr<Store>* store) const {
  return OpenWithIndex(options, dir_, store);
}

Status FilledStore::Load(Store* store, uint64_t write_count, uint32_t reader_count,
                         IndexLoadResult* result) {
  load_.write_count = write_count;
  load_.reader_count = reader_count;
  ENGINE_RACE_RETURN_IF_ERROR(RunIndexLoad(store, keys_, load_, result));
  load_.first_new += load_.new_key_count();
  ++load_.seed;
  return Status::Ok();
}

double FilledStore::DiskBytesPerKey() const {
  return static_cast<double>(IndexDiskBytes(dir_)) /
         static_cast<double>(keys_.key_count() + load_.first_new);
}

namespace {

Options OptionsFrom(const nlohmann::json& order) {
  Options options = QuietOptions();
  if (order.contains("bucket_count")) {
    options.bucket_count = order.at("bucket_count");
    options.file_count = std::min(options.file_count, options.bucket_count);
  }
  if (order.contains("memory_budget_bytes")) {
    options.memory_budget_bytes = order.at("memory_budget_bytes");
  }
  return options;
}

IndexKeys KeysFrom(const nlohmann::json& order) {
  return IndexKeys(OptionsFrom(order), order.at("key_count"), order.at("seed"));
}

// Opens a store until a first read has returned, or, if the order is to build, until its index has
// every record.
Status OpenAndRead(const Options& options, const nlohmann::json& order, uint64_t key,
                   std::unique_ptr<Store>* store, nlohmann::json* answer) {
  std::string value;
  const std::filesystem::path store_dir(order.at("store_dir").get<std::string>());
  // The store cannot help how deep it lies: the folders above it are looked up before.
  std::error_code ignored;
  static_cast<void>(std::filesystem::exists(store_dir.parent_path() / "no such name", ignored));
  const uint64_t waits_before = ThreadWaitCount();
  const uint64_t began_ns = NowNs();
  ENGINE_RACE_RETURN_IF_ERROR(order.value("builds", false)
                                  ? OpenWithIndex(options, order.at("store_dir"), store)
                                  : Store::Open(options, order.at("store_dir"), store));
  ENGINE_RACE_RETURN_IF_ERROR((*store)->Read(KeyBytes(key).view(), &value));
  (*answer)["seconds"] = SecondsSince(began_ns);
  (*answer)["wait_count"] = ThreadWaitCount() - waits_before;
  return Status::Ok();
}

Status RunOpen(const nlohmann::json& order, nlohmann::json* answer) {
  Options options = OptionsFrom(order);
  // Closing writes all of the index. The answer must not depend on how long the child lives.
  options.index_idle_ms = 0;
  options.index_close_bytes = kAnyIndexBytes;
  std::unique_ptr<Store> store;
  ENGINE_RACE_RETURN_IF_ERROR(OpenAndRead(options, order, order.at("first_key"), &store, answer));
  std::string value;
  for (const uint64_t key : order.at("more_keys")) {
    ENGINE_RACE_RETURN_IF_ERROR(store->Read(KeyBytes(key).view(), &value));
  }
  store.reset();
  (*answer)["peak_rss_bytes"] = PeakRssBytes();
  return Status::Ok();
}

Status RunKill(const nlohmann::json& order, nlohmann::json* answer) {
  Options options = OptionsFrom(order);
  // The records stay past the root.
  options.index_idle_ms = 0;
  options.index_sync_bytes = 0;
  const IndexKeys keys = KeysFrom(order);
  std::unique_ptr<Store> store;
  ENGINE_RACE_RETURN_IF_ERROR(OpenAndRead(options, order, keys.PresentKey(0), &store, answer));
  IndexLoadResult unused;
  ENGINE_RACE_RETURN_IF_ERROR(RunIndexLoad(store.get(), keys, order.at("load"), &unused));
  kill(getpid(), SIGKILL);
  return Status::IOError("a child outlived SIGKILL");
}

// Counts the lookups of present and absent keys that `is_right` accepts, in many threads.
template <typename IsRight>
Status CountRight(const nlohmann::json& order, const IndexKeys& keys, const IsRight& is_right,
                  nlohmann::json* answer) {
  const uint32_t threads = order.at("threads");
  const uint64_t count = order.at("lookups");
  const uint64_t seed = order.at("seed");
  TimedPoint point;
  ENGINE_RACE_RETURN_IF_ERROR(RunTimed(
      threads, kNoLimitSeconds,
      [&](uint32_t thread, TimedThread* self) {
        self->Start();
        for (uint64_t i = thread; i < count && self->Running(); i += threads) {
          const uint64_t word = MixAt(seed + 7, i);
          const bool present = is_right(keys.Present(word), true);
          const bool absent = is_right({keys.AbsentKey(word), 0, 0}, false);
          self->tally.request_count += static_cast<uint64_t>(present) + uint64_t{absent};
        }
        return Status::Ok();
      },
      &point));
  (*answer)["right"] = point.request_count;
  (*answer)["lookups"] = 2 * count;
  (*answer)["lookup_seconds"] = point.seconds;
  return Status::Ok();
}

Status RunBillionReads(const nlohmann::json& order, nlohmann::json* answer) {
  const IndexKeys keys = KeysFrom(order);
  std::unique_ptr<Store> store;
  ENGINE_RACE_RETURN_IF_ERROR(
      OpenAndRead(OptionsFrom(order), order, keys.PresentKey(0), &store, answer));
  const auto is_right = [&](const IndexKeys::Place& place, bool is_present) {
    std::string found;
    const Status status = store->Read(KeyBytes(place.key).view(), &found);
    return is_present ? status.ok() : status.code() == Code::kNotFound;
  };
  ENGINE_RACE_RETURN_IF_ERROR(CountRight(order, keys, is_right, answer));
  store.reset();
  (*answer)["peak_rss_bytes"] = PeakRssBytes();
  return Status::Ok();
}

Status RunBillionSlots(const nlohmann::json& order, nlohmann::json* answer) {
  const Options options = OptionsFrom(order);
  const IndexKeys keys = KeysFrom(order);
  std::unique_ptr<BucketLog> log;
  std::optional<MemoryBudget> budget;
  std::unique_ptr<l1::FrameCache> frames;
  std::unique_ptr<Index> index;
  const uint64_t began_ns = NowNs();
  ENGINE_RACE_RETURN_IF_ERROR(BucketLog::Open(options, order.at("store_dir"), &log));
  // The memory that a store would divide among the index and the frames of its blocks.
  budget.emplace(options, *log);
  ENGINE_RACE_RETURN_IF_ERROR(
      l1::FrameCache::Create(budget->RestBytes() - budget->IndexLimitBytes(), nullptr, &frames));
  ENGINE_RACE_RETURN_IF_ERROR(Index::Build(log.get(), options, &index, frames.get(),
                                           [&budget] { return budget->IndexLimitBytes(); }));
  (*answer)["seconds"] = SecondsSince(began_ns);
  const auto is_right = [&](const IndexKeys::Place& place, bool is_present) {
    ValueRef ref;
    const Status status = index->Find(place.key, &ref);
    return is_present ? status.ok() && ref.slot() == place.slot : status.code() == Code::kNotFound;
  };
  ENGINE_RACE_RETURN_IF_ERROR(CountRight(order, keys, is_right, answer));
  (*answer)["peak_rss_bytes"] = PeakRssBytes();
  return Status::Ok();
}

}  // namespace

ChildWorks IndexWorks() {
  return {{kOpenWork, RunOpen},
          {kKillWork, RunKill},
          {kBillionReadsWork, RunBillionReads},
          {kBillionSlotsWork, RunBillionSlots}};
}

}  // namespace engine_race::harness
