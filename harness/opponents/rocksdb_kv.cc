// RocksDB with direct I/O, tuned as its wiki and its script of blob benchmarks advise. Values below
// a block of a table lie in the tables, larger ones in blob files.
#include <rocksdb/filter_policy.h>
#include <rocksdb/write_buffer_manager.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "harness/opponents/lsm_cursor.h"
#include "harness/opponents/peers.h"
#include "harness/opponents/rocks_database.h"

namespace engine_race::harness {
namespace {

using rocksdb::Slice;

constexpr char kName[] = "RocksDB";
constexpr double kFilterBitsPerKey = 10;
constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr int kWriteBufferCount = 4;
constexpr size_t kScanReadaheadBytes = 2 * kMiB;

// The cache gets nearly all of the memory, since direct reads leave nothing in the page cache.
// Write buffers take their memory from the cache, at most a third of the budget, and give it back
// when they are flushed. The rest is left to open tables and iterators.
constexpr double kCacheShare = 0.85;
uint64_t CacheBytes(uint64_t budget_bytes) {
  return static_cast<uint64_t>(kCacheShare * static_cast<double>(budget_bytes));
}
// Blobs in write-ahead logs and in write buffers take space that garbage collection cannot give
// back yet. So the buffers of a store that gives back space are at most a small part of its data.
constexpr uint64_t kSmallWriteBufferBytes = 64 * kMiB;
constexpr uint64_t kBuffersPerData = 128;
uint64_t WriteBufferBytes(const KvOptions& kv) {
  const uint64_t bytes = std::max<uint64_t>(kv.memory_budget_bytes / 3 / kWriteBufferCount, kMiB);
  if (!kv.gives_back_space) return bytes;
  const uint64_t data_bytes = kv.record_count * kv.value_bytes;
  return std::clamp(data_bytes / kBuffersPerData, kMiB, std::min(bytes, kSmallWriteBufferBytes));
}

// Values of this size and above lie in blob files.
constexpr uint32_t kLeastBlobBytes = 4096;
bool HasBlobs(const KvOptions& kv) { return kv.value_bytes >= kLeastBlobBytes; }
// Of a key with its value or its reference to a blob, in a table.
uint64_t TableBytesPerKey(const KvOptions& kv) { return 32 + (HasBlobs(kv) ? 0 : kv.value_bytes); }

rocksdb::BlockBasedTableOptions TableOptions(const std::shared_ptr<rocksdb::Cache>& cache) {
  rocksdb::BlockBasedTableOptions table = RocksTable(cache);
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(kFilterBitsPerKey, false));
  table.cache_index_and_filter_blocks = true;
  table.pin_l0_filter_and_index_blocks_in_cache = true;
  return table;
}

// Blobs are collected when a compaction visits their keys. With one level for all keys each
// compaction of level 0 visits all of them. It then empties the oldest blob files, so that these
// can be removed at once. The threshold starts such compactions as well. docs/space.md has the
// trials behind the numbers.
constexpr double kBlobAgeCutoff = 0.15;
constexpr double kBlobForceThreshold = 0.5;
constexpr uint32_t kSubcompactionCount = 4;
void GiveBackSpace(const KvOptions& kv, rocksdb::Options* options) {
  options->blob_garbage_collection_age_cutoff = kBlobAgeCutoff;
  options->blob_garbage_collection_force_threshold = kBlobForceThreshold;
  options->max_bytes_for_level_base =
      std::max(options->max_bytes_for_level_base, 4 * kv.record_count * TableBytesPerKey(kv));
  options->max_subcompactions = kSubcompactionCount;
}

rocksdb::Options OptionsOf(const KvOptions& kv, const std::shared_ptr<rocksdb::Cache>& cache,
                           bool is_new) {
  rocksdb::Options options = RocksBlobOptions();
  options.enable_blob_files = HasBlobs(kv);
  options.blob_cache = cache;
  options.enable_blob_garbage_collection = !is_new;
  options.write_buffer_size = WriteBufferBytes(kv);
  options.max_write_buffer_number = kWriteBufferCount;
  options.write_buffer_manager = std::make_shared<rocksdb::WriteBufferManager>(
      kWriteBufferCount * options.write_buffer_size, cache);
  options.blob_file_size = options.write_buffer_size;
  options.target_file_size_base =
      HasBlobs(kv) ? options.write_buffer_size * TableBytesPerKey(kv) / kv.value_bytes
                   : options.write_buffer_size;
  options.max_bytes_for_level_base = 8 * options.target_file_size_base;
  if (kv.gives_back_space) GiveBackSpace(kv, &options);
  options.compaction_readahead_size = 2 * kMiB;
  options.blob_compaction_readahead_size = 2 * kMiB;
  options.bytes_per_sync = kMiB;
  options.max_background_jobs = 6;
  options.level_compaction_dynamic_level_bytes = true;
  options.compaction_pri = rocksdb::kMinOverlappingRatio;
  options.enable_pipelined_write = true;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(TableOptions(cache)));
  return options;
}

class RocksKv final : public KvStore {
 public:
  explicit RocksKv(const KvOptions& kv)
      : KvStore(kv.value_bytes),
        options_(OptionsOf(kv, rocksdb::NewLRUCache(CacheBytes(kv.memory_budget_bytes)),
                           /*is_new=*/!std::filesystem::exists(kv.dir + "/CURRENT"))) {
    write_options_.disableWAL = kv.lacks_log_and_checksums;
    read_options_.verify_checksums = !kv.lacks_log_and_checksums;
  }

  Status Open(const KvOptions& kv) {
    ENGINE_RACE_RETURN_IF_ERROR(database_.Open(options_, kv.dir));
    db_ = database_.db();
    return Status::Ok();
  }

  Status Put(uint64_t key, const char* value) override {
    return FromLsm(kName, db_->Put(write_options_, KeySlice<Slice>(KeyBytes(key)),
                                   Slice(value, value_bytes())));
  }
  Status Delete(uint64_t key) override {
    return FromLsm(kName, db_->Delete(write_options_, KeySlice<Slice>(KeyBytes(key))));
  }
  Status Get(uint64_t key, char* value) override {
    rocksdb::PinnableSlice pinned;
    const rocksdb::Status status = db_->Get(read_options_, db_->DefaultColumnFamily(),
                                            KeySlice<Slice>(KeyBytes(key)), &pinned);
    return status.ok() ? CopyValue(kName, pinned, value_bytes(), value) : FromLsm(kName, status);
  }
  Status MultiGet(std::span<const uint64_t> keys, char* values, std::span<Code> codes) override {
    if (codes.size() < keys.size()) return TooFewCodes();
    std::vector<KeyBytes> bytes(keys.begin(), keys.end());
    std::vector<Slice> slices;
    slices.reserve(keys.size());
    for (const KeyBytes& key : bytes) slices.push_back(KeySlice<Slice>(key));
    std::vector<rocksdb::PinnableSlice> pinned(keys.size());
    std::vector<rocksdb::Status> statuses(keys.size());
    db_->MultiGet(read_options_, db_->DefaultColumnFamily(), slices.size(), slices.data(),
                  pinned.data(), statuses.data());
    for (size_t i = 0; i < keys.size(); ++i) {
      char* const value = values + i * value_bytes();
      const Status status = statuses[i].ok() ? CopyValue(kName, pinned[i], value_bytes(), value)
                                             : FromLsm(kName, statuses[i]);
      codes[i] = status.code();
    }
    return Status::Ok();
  }
  Status ScanAll(VisitFn visit) override {
    rocksdb::ReadOptions options = read_options_;
    // The other threads walk over the same values.
    options.fill_cache = true;
    options.readahead_size = kScanReadaheadBytes;
    return Walk(CursorWith(options).get(), visit);
  }
  Status NewCursor(std::unique_ptr<KvCursor>* cursor) override {
    *cursor = CursorWith(read_options_);
    return Status::Ok();
  }
  Status Sync() override {
    if (!write_options_.disableWAL) return FromLsm(kName, db_->SyncWAL());
    return FromLsm(kName, db_->Flush(rocksdb::FlushOptions()));
  }
  // Blobs stay in their files.
  Status Compact() override { return database_.Compact(); }
  Status Close() override { return database_.Close(); }

  nlohmann::json Describe() const override {
    return {
        {"version", RocksVersion()},
        {"kill -9", write_options_.disableWAL
                        ? "loses what no flush has written: there is no write-ahead log"
                        : "loses no acknowledged write: the write-ahead log is on, and each write "
                          "goes to the page cache before it returns (rocksdb/options.h, "
                          "WriteOptions::sync)"},
        {"power loss", "loses what was written since the last Sync"},
        {"verify_checksums", read_options_.verify_checksums},
        {"enable_blob_files",
         Why(options_.enable_blob_files, "for values from 4096 bytes on: wiki/BlobDB")},
        {"enable_blob_garbage_collection",
         Why(options_.enable_blob_garbage_collection,
             "off for the first fill, on afterwards: tools/run_blob_bench.sh")},
        {"blob_garbage_collection_age_cutoff",
         Why(options_.blob_garbage_collection_age_cutoff,
             "0.25 unless a store gives back space; the trade of writes for space: "
             "wiki/BlobDB, include/rocksdb/advanced_options.h")},
        {"blob_garbage_collection_force_threshold",
         Why(options_.blob_garbage_collection_force_threshold,
             "1 unless a store gives back space: include/rocksdb/advanced_options.h")},
        {"max_subcompactions",
         Why(options_.max_subcompactions,
             "1 unless a store gives back space: collecting reads blobs one by one")},
        {"compression", Why("none", "the values are random bytes")},
        {"write_buffer_size",
         Why(options_.write_buffer_size,
             "a quarter of a third of the memory: wiki/Setup-Options-and-Basic-Tuning; a "
             "128th of the data, at most 64 MiB, for a store that gives back space")},
        {"max_write_buffer_number", Why(options_.max_write_buffer_number, "the other quarters")},
        {"blob_file_size",
         Why(options_.blob_file_size, "as a write buffer: tools/run_blob_bench.sh")},
        {"target_file_size_base",
         Why(options_.target_file_size_base,
             "32 bytes for each value of a write buffer, and the value if it is no blob: "
             "tools/run_blob_bench.sh")},
        {"max_bytes_for_level_base", Why(options_.max_bytes_for_level_base,
                                         "8 target files: tools/run_blob_bench.sh; four times the "
                                         "keys for a store that gives back space")},
        {"block_cache_bytes",
         Why(options_.blob_cache->GetCapacity(),
             "85% of the memory, as direct reads have no other cache: wiki/Block-Cache; blobs and "
             "write buffers share it")},
        {"write_buffer_manager_bytes",
         Why(options_.write_buffer_manager->buffer_size(),
             "a third of the memory, charged to the cache: wiki/Write-Buffer-Manager")},
        {"use_direct_reads", Why(true, "the store caches for itself: wiki/Direct-IO")},
        {"use_direct_io_for_flush_and_compaction", Why(true, "wiki/Direct-IO")},
        {"compaction_readahead_size",
         Why(options_.compaction_readahead_size, "direct reads have no other: wiki/Direct-IO")},
        {"bytes_per_sync", Why(options_.bytes_per_sync, "wiki/Setup-Options-and-Basic-Tuning")},
        {"max_background_jobs",
         Why(options_.max_background_jobs, "wiki/Setup-Options-and-Basic-Tuning")},
        {"filter_policy", Why("Bloom, 10 bits a key", "wiki/RocksDB-Bloom-Filter")},
        {"enable_pipelined_write", Why(true, "many writers with a log: wiki/Pipelined-Write")},
        {"scan_fill_cache", Why(true, "the threads of a scan share what one of them has read")},
        {"scan_readahead_size",
         Why(kScanReadaheadBytes,
             "of the tables, which have the keys: wiki/Iterator; values in blob files are read one "
             "by one")}};
  }

 private:
  std::unique_ptr<KvCursor> CursorWith(const rocksdb::ReadOptions& options) const {
    return NewLsmCursor<rocksdb::Iterator, Slice>(kName, db_, options, value_bytes());
  }

  RocksDatabase database_;
  rocksdb::DB* db_ = nullptr;  // of the open database
  const rocksdb::Options options_;
  rocksdb::ReadOptions read_options_;
  rocksdb::WriteOptions write_options_;
};

}  // namespace

Status OpenRocksDb(const KvOptions& options, std::unique_ptr<KvStore>* store) {
  return OpenInto(store, std::make_unique<RocksKv>(options), options);
}

}  // namespace engine_race::harness
