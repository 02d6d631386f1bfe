// LevelDB, tuned as leveldb/options.h and its doc/index.md advise.
#include <leveldb/cache.h>
#include <leveldb/db.h>
#include <leveldb/filter_policy.h>
#include <leveldb/options.h>
#include <leveldb/write_batch.h>
#include <sys/resource.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/opponents/lsm_cursor.h"
#include "harness/opponents/peers.h"

namespace engine_race::harness {
namespace {

using leveldb::Slice;

constexpr char kName[] = "LevelDB";
constexpr int kFilterBitsPerKey = 10;
constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kMaxWriteBufferBytes = 64 * kMiB;
constexpr uint64_t kFileBytes = 16 * kMiB;

// Descriptors that are left to LevelDB's logs and to this program.
constexpr uint64_t kOtherFiles = 64;
// LevelDB's own bounds for its option.
constexpr uint64_t kLeastOpenFiles = 74;
constexpr uint64_t kMostOpenFiles = 50000;

// How many files LevelDB may keep open: this process's RLIMIT_NOFILE less kOtherFiles, within
// LevelDB's bounds.
uint64_t AllowedFiles() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return kMostOpenFiles;
  }
  const uint64_t left = limit.rlim_cur > kOtherFiles ? limit.rlim_cur - kOtherFiles : 0;
  return std::clamp(left, kLeastOpenFiles, kMostOpenFiles);
}

// Twice the files of the records: a compaction writes new ones before it removes the old ones.
int MaxOpenFiles(const KvOptions& kv) {
  constexpr uint64_t kDefault = 1000;
  const uint64_t file_count = kv.record_count / (kFileBytes / (kKeyBytes + kv.value_bytes)) + 1;
  return static_cast<int>(std::min(std::max(2 * file_count, kDefault), AllowedFiles()));
}

// Most tables are mapped, so that the page cache has their blocks. The rest comes through this.
uint64_t CacheBytes(uint64_t budget_bytes) { return budget_bytes / 8; }

class LevelKv final : public KvStore {
 public:
  explicit LevelKv(const KvOptions& kv)
      : KvStore(kv.value_bytes),
        cache_bytes_(CacheBytes(kv.memory_budget_bytes)),
        cache_(leveldb::NewLRUCache(cache_bytes_)),
        filter_(leveldb::NewBloomFilterPolicy(kFilterBitsPerKey)) {}

  Status Open(const KvOptions& kv) {
    options_.create_if_missing = true;
    options_.compression = leveldb::kNoCompression;
    options_.block_cache = cache_.get();
    options_.filter_policy = filter_.get();
    options_.write_buffer_size =
        std::clamp<uint64_t>(kv.memory_budget_bytes / 16, kMiB, kMaxWriteBufferBytes);
    options_.max_file_size = kFileBytes;
    options_.max_open_files = MaxOpenFiles(kv);
    leveldb::DB* db = nullptr;
    const leveldb::Status opened = leveldb::DB::Open(options_, kv.dir, &db);
    db_.reset(db);
    return FromLsm(kName, opened);
  }

  Status Put(uint64_t key, const char* value) override {
    return FromLsm(kName, db_->Put(write_options_, KeySlice<Slice>(KeyBytes(key)),
                                   Slice(value, value_bytes())));
  }
  Status Delete(uint64_t key) override {
    return FromLsm(kName, db_->Delete(write_options_, KeySlice<Slice>(KeyBytes(key))));
  }
  Status Get(uint64_t key, char* value) override {
    std::string found;
    const leveldb::Status status = db_->Get(read_options_, KeySlice<Slice>(KeyBytes(key)), &found);
    return status.ok() ? CopyValue(kName, found, value_bytes(), value) : FromLsm(kName, status);
  }
  Status ScanAll(VisitFn visit) override {
    leveldb::ReadOptions options;
    options.fill_cache = false;
    return Walk(CursorWith(options).get(), visit);
  }
  Status NewCursor(std::unique_ptr<KvCursor>* cursor) override {
    *cursor = CursorWith(read_options_);
    return Status::Ok();
  }
  // A synchronous write flushes the log, and with it all writes before.
  Status Sync() override {
    leveldb::WriteOptions options;
    options.sync = true;
    leveldb::WriteBatch nothing;
    return FromLsm(kName, db_->Write(options, &nothing));
  }
  Status Close() override {
    db_.reset();
    return Status::Ok();
  }

  nlohmann::json Describe() const override {
    return {
        {"version",
         std::to_string(leveldb::kMajorVersion) + "." + std::to_string(leveldb::kMinorVersion)},
        {"kill -9",
         "loses no acknowledged write: each goes to the log in the page cache before it "
         "returns (leveldb/options.h, WriteOptions::sync)"},
        {"power loss", "loses what was written since the last Sync"},
        {"compression", Why("none", "the values are random bytes")},
        {"write_buffer_size",
         Why(options_.write_buffer_size,
             "larger values help bulk loads, two are held at once: leveldb/options.h")},
        {"max_file_size",
         Why(options_.max_file_size, "a large database is filled: leveldb/options.h")},
        {"max_open_files",
         Why(options_.max_open_files,
             "all files of the records stay open, if RLIMIT_NOFILE allows it: leveldb/options.h")},
        {"block_size", Why(options_.block_size, "the default: a block has one value")},
        {"block_cache_bytes",
         Why(cache_bytes_, "tables are mapped and read from the page cache, which the cap counts")},
        {"filter_policy", Why("Bloom, 10 bits a key", "doc/index.md, Filters")},
        {"scan_fill_cache", Why(false, "bulk reads: doc/index.md, Cache")}};
  }

 private:
  std::unique_ptr<KvCursor> CursorWith(const leveldb::ReadOptions& options) const {
    return NewLsmCursor<leveldb::Iterator, Slice>(kName, db_.get(), options, value_bytes());
  }

  // Cache and filter outlive the database.
  const uint64_t cache_bytes_;
  const std::unique_ptr<leveldb::Cache> cache_;
  const std::unique_ptr<const leveldb::FilterPolicy> filter_;
  leveldb::Options options_;
  const leveldb::ReadOptions read_options_;
  const leveldb::WriteOptions write_options_;
  std::unique_ptr<leveldb::DB> db_;
};

}  // namespace

Status OpenLevelDb(const KvOptions& options, std::unique_ptr<KvStore>* store) {
  return OpenInto(store, std::make_unique<LevelKv>(options), options);
}

}  // namespace engine_race::harness
