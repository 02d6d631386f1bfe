#include "harness/experiments/io/store.h"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "engine_race/base/key.h"
#include "harness/data/mix.h"
#include "harness/load/store_basics.h"
#include "harness/measure/timed.h"
#include "harness/system/page_cache.h"
#include "harness/system/process_stats.h"

namespace harness {
namespace {

namespace fs = std::filesystem;
using engine_race::Status;

constexpr uint32_t kFillThreads = 16;
constexpr uint64_t kRecordsPerBucket = 1024;
constexpr uint32_t kMaxBuckets = 1024;
constexpr uint32_t kMaxFiles = 32;

}  // namespace

IoStore::IoStore(const IoSpace& space, uint64_t record_count, uint32_t path_count)
    : dir_(space.dir() + "/store"), record_count_(record_count), options_(QuietOptions()) {
  // A bucket's last group of values is still staged, in memory. With many groups in a bucket that
  // is a small part.
  const uint64_t wanted = std::bit_floor(std::max<uint64_t>(record_count / kRecordsPerBucket, 1));
  options_.bucket_count = static_cast<uint32_t>(std::min<uint64_t>(wanted, kMaxBuckets));
  options_.file_count = std::min(options_.bucket_count, kMaxFiles);
  for (uint32_t i = 0; i < path_count; ++i) {
    options_.paths.push_back(space.paths()[i] + "/values");
  }
}

IoStore::~IoStore() {
  Close();
  RemoveFiles();
}

void IoStore::RemoveFiles() {
  std::error_code ignored;
  fs::remove_all(dir_, ignored);
  for (const std::string& path : options_.paths) fs::remove_all(path, ignored);
}

uint64_t IoStore::KeyAt(uint64_t index) const { return MixAt(1, index); }

Status IoStore::Fill(TimedPoint* point) {
  Close();
  RemoveFiles();
  ENGINE_RACE_RETURN_IF_ERROR(engine_race::Store::Open(options_, dir_, &store_));
  const Status filled = RunTimed(
      kFillThreads, kNoLimitSeconds,
      [this](uint32_t thread, TimedThread* self) {
        std::string value(kValueSize, '\0');
        self->Start();
        for (uint64_t i = thread; i < record_count_ && self->Running(); i += kFillThreads) {
          values_.Fill(KeyAt(i), 1, value.data());
          ENGINE_RACE_RETURN_IF_ERROR(store_->Write(KeyBytesOf(KeyAt(i)), value));
          ++self->tally.request_count;
          self->tally.byte_count += kValueSize;
        }
        return Status::Ok();
      },
      point);
  // Writes that the file system still has to make must not fall into the next measurement.
  if (filled.ok()) ENGINE_RACE_RETURN_IF_ERROR(store_->Sync());
  Close();
  DropPageCache(dir_);
  return filled;
}

Status IoStore::Open() {
  Close();
  ENGINE_RACE_RETURN_IF_ERROR(engine_race::Store::Open(options_, dir_, &store_));
  std::string value;
  return store_->Read(KeyBytesOf(KeyAt(0)), &value);
}

Status IoStore::CheckValue(uint64_t key, const std::string& value) const {
  uint64_t version = 0;
  if (value.size() == kValueSize && values_.CheckEnds(key, value.data(), &version)) {
    return Status::Ok();
  }
  return Status::Corruption("a value is not its key's");
}

Status IoStore::MultiReadThread(uint32_t thread, TimedThread* self) {
  std::vector<uint64_t> words(kKeysPerCall);
  std::vector<std::string> keys(kKeysPerCall, std::string(engine_race::kKeyBytes, '\0'));
  std::vector<std::string> values(kKeysPerCall, std::string(kValueSize, '\0'));
  std::vector<Status> statuses(kKeysPerCall);
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  uint64_t count = 0;
  self->Start();
  while (self->Running()) {
    for (uint32_t i = 0; i < kKeysPerCall; ++i) {
      words[i] = KeyAt(AsBelow(MixAt(thread + 2, count++), record_count_));
      engine_race::EncodeKey(words[i], keys[i].data());
    }
    ENGINE_RACE_RETURN_IF_ERROR(store_->MultiRead(views, values, statuses));
    for (uint32_t i = 0; i < kKeysPerCall; ++i) {
      ENGINE_RACE_RETURN_IF_ERROR(Status(statuses[i]));
      ENGINE_RACE_RETURN_IF_ERROR(CheckValue(words[i], values[i]));
    }
    self->tally.request_count += kKeysPerCall;
    self->tally.byte_count += kKeysPerCall * kValueSize;
  }
  return Status::Ok();
}

Status IoStore::MultiReads(uint32_t thread_count, double seconds, TimedPoint* point) {
  return RunTimed(
      thread_count, seconds,
      [this](uint32_t thread, TimedThread* self) { return MultiReadThread(thread, self); }, point);
}

Status IoStore::MixThread(uint32_t thread, uint32_t write_percent, TimedThread* self) {
  std::string key(engine_race::kKeyBytes, '\0');
  std::string found;
  std::string value(kValueSize, '\0');
  self->Start();
  for (uint64_t i = 0; self->Running(); ++i) {
    const uint64_t word = KeyAt(AsBelow(MixAt(thread + 100, i), record_count_));
    const bool is_write = AsBelow(MixAt(thread + 10000, i), 100) < write_percent;
    engine_race::EncodeKey(word, key.data());
    if (is_write) {
      // Relaxed: a count that orders nothing.
      if (writes_left_.fetch_sub(1, std::memory_order_relaxed) <= 0) break;
      values_.Fill(word, i + 2, value.data());
    }
    const uint64_t begin_ns = NowNs();
    if (is_write) {
      ENGINE_RACE_RETURN_IF_ERROR(store_->Write(key, value));
    } else {
      ENGINE_RACE_RETURN_IF_ERROR(store_->Read(key, &found));
    }
    (is_write ? self->tally.write_latency : self->tally.latency).Add(NowNs() - begin_ns);
    ++self->tally.request_count;
    self->tally.byte_count += kValueSize;
    if (!is_write) ENGINE_RACE_RETURN_IF_ERROR(CheckValue(word, found));
  }
  return Status::Ok();
}

Status IoStore::Mix(uint32_t thread_count, uint32_t write_percent, double seconds,
                    TimedPoint* point) {
  writes_left_ = static_cast<int64_t>(record_count_);
  return RunTimed(
      thread_count, seconds,
      [this, write_percent](uint32_t thread, TimedThread* self) {
        return MixThread(thread, write_percent, self);
      },
      point);
}

Status IoStore::Ranges(double seconds, TimedPoint* point) {
  return RunTimed(
      1, seconds,
      [this](uint32_t, TimedThread* self) {
        self->Start();
        // At least once: half a range is not a measurement.
        do {
          uint64_t visited = 0;
          ENGINE_RACE_RETURN_IF_ERROR(
              store_->Range("", "", [&visited](std::string_view, std::string_view) { ++visited; }));
          if (visited != record_count_) return Status::Corruption("a range missed records");
          self->tally.request_count += visited;
          self->tally.byte_count += visited * kValueSize;
        } while (self->Running());
        return Status::Ok();
      },
      point);
}

}  // namespace harness
