#include "harness/opponents/rocks_records.h"

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/version.h>
#include <rocksdb/write_batch.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "harness/load/store_basics.h"
#include "harness/system/child_process.h"

namespace harness {
namespace {

using engine_race::Status;

constexpr size_t kBlockBytes = 4096;
constexpr size_t kValueBytes = 4096;
constexpr double kFilterBitsPerKey = 10;
constexpr uint32_t kBatchRecords = 256;

Status FromRocks(const std::string& what, const rocksdb::Status& status) {
  return status.ok() ? Status::Ok()
                     : Status::IOError("RocksDB, " + what + ": " + status.ToString());
}

// Index, filters and references to values are read through the cache, in blocks of 4 KiB.
rocksdb::BlockBasedTableOptions TableOptions(const std::shared_ptr<rocksdb::Cache>& cache) {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = cache;
  table.block_size = kBlockBytes;
  table.metadata_block_size = kBlockBytes;
  table.index_type = rocksdb::BlockBasedTableOptions::kTwoLevelIndexSearch;
  table.partition_filters = true;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(kFilterBitsPerKey, false));
  table.cache_index_and_filter_blocks = true;
  table.cache_index_and_filter_blocks_with_high_priority = true;
  table.pin_top_level_index_and_filter = true;
  table.format_version = 5;
  table.data_block_index_type = rocksdb::BlockBasedTableOptions::kDataBlockBinaryAndHash;
  return table;
}

rocksdb::Options OptionsOf(const std::shared_ptr<rocksdb::Cache>& cache) {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.compression = rocksdb::kNoCompression;
  options.bottommost_compression = rocksdb::kNoCompression;
  options.max_open_files = -1;
  options.enable_blob_files = true;
  options.min_blob_size = 0;
  options.blob_file_size = uint64_t{256} << 20;
  options.blob_compression_type = rocksdb::kNoCompression;
  options.enable_blob_garbage_collection = false;
  options.use_direct_reads = true;
  options.use_direct_io_for_flush_and_compaction = true;
  // Filled once: no log, and no compaction until all records are written.
  options.disable_auto_compactions = true;
  options.write_buffer_size = size_t{128} << 20;
  options.max_write_buffer_number = 4;
  options.max_background_jobs = 4;
  options.level0_slowdown_writes_trigger = options.level0_stop_writes_trigger = 100000;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(TableOptions(cache)));
  return options;
}

class BuiltRocksRecords : public RocksRecords {
 public:
  explicit BuiltRocksRecords(uint64_t cache_bytes) : cache_(rocksdb::NewLRUCache(cache_bytes)) {}
  ~BuiltRocksRecords() override {
    if (db_ != nullptr) db_->Close();
  }

  Status Fill(const std::string& dir, const RocksRecordsShape& shape) {
    const rocksdb::Options options = OptionsOf(cache_);
    ENGINE_RACE_RETURN_IF_ERROR(Open(options, dir));
    ENGINE_RACE_RETURN_IF_ERROR(WriteAll(shape));
    ENGINE_RACE_RETURN_IF_ERROR(FromRocks("flush", db_->Flush(rocksdb::FlushOptions())));
    // Moves keys and references only: values stay in their blob files.
    ENGINE_RACE_RETURN_IF_ERROR(FromRocks(
        "compaction", db_->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr)));
    // Reopened, it has no write buffers.
    ENGINE_RACE_RETURN_IF_ERROR(FromRocks("close", db_->Close()));
    db_.reset();
    return Open(options, dir);
  }

  Status Get(uint64_t key, std::string* value) override {
    return FromRocks("get", db_->Get(rocksdb::ReadOptions(), KeyBytesOf(key), value));
  }

  nlohmann::json Describe() const override {
    return {{"version", std::to_string(ROCKSDB_MAJOR) + "." + std::to_string(ROCKSDB_MINOR) + "." +
                            std::to_string(ROCKSDB_PATCH)},
            {"values", "blob files, no compression, no garbage"},
            {"reads", "direct, checksums verified"},
            {"tables", "one level, fully compacted, blocks of 4 KiB, binary and hash"},
            {"index", "two levels, in the cache, its top pinned"},
            {"filters", "Bloom, 10 bits a key, partitioned, in the cache"},
            {"block_cache_bytes", cache_->GetCapacity()},
            {"block_cache_bytes_used", cache_->GetUsage()}};
  }

 private:
  Status Open(const rocksdb::Options& options, const std::string& dir) {
    rocksdb::DB* db = nullptr;
    ENGINE_RACE_RETURN_IF_ERROR(FromRocks("open", rocksdb::DB::Open(options, dir, &db)));
    db_.reset(db);
    return Status::Ok();
  }

  Status WriteAll(const RocksRecordsShape& shape) {
    rocksdb::WriteOptions options;
    options.disableWAL = true;
    rocksdb::WriteBatch batch;
    std::string value(kValueBytes, '\0');
    for (uint64_t i = 0; i < shape.record_count; ++i) {
      const uint64_t key = shape.key_at(i);
      shape.fill(key, value.data());
      batch.Put(KeyBytesOf(key), value);
      if (batch.Count() < kBatchRecords && i + 1 < shape.record_count) continue;
      ENGINE_RACE_RETURN_IF_ERROR(FromRocks("write", db_->Write(options, &batch)));
      batch.Clear();
      if (Interrupted()) return Status(engine_race::Code::kIncomplete, "interrupted");
    }
    return Status::Ok();
  }

  const std::shared_ptr<rocksdb::Cache> cache_;
  std::unique_ptr<rocksdb::DB> db_;
};

Status Make(const std::string& dir, const RocksRecordsShape& shape,
            std::unique_ptr<RocksRecords>* made) {
  auto records = std::make_unique<BuiltRocksRecords>(shape.cache_bytes);
  ENGINE_RACE_RETURN_IF_ERROR(records->Fill(dir, shape));
  *made = std::move(records);
  return Status::Ok();
}

}  // namespace

MakeRocksRecordsFn RocksRecordsMaker() { return Make; }

}  // namespace harness
