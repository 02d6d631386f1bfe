#include "harness/opponents/rocks.h"

#include <rocksdb/cache.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "harness/load/store_basics.h"
#include "harness/opponents/rocks_database.h"

namespace harness {
namespace {

using engine_race::Status;

constexpr size_t kBlockBytes = 4096;
constexpr size_t kValueBytes = 4096;
constexpr double kFilterBitsPerKey = 10;
constexpr uint32_t kBatchRecords = 256;

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
  rocksdb::Options options = RocksReadOptions();
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

  Status Fill(const std::string& dir, const RocksRecordsShape& shape) {
    const rocksdb::Options options = OptionsOf(cache_);
    ENGINE_RACE_RETURN_IF_ERROR(database_.Open(options, dir));
    std::string value(kValueBytes, '\0');
    ENGINE_RACE_RETURN_IF_ERROR(database_.Write(shape.record_count, kBatchRecords,
                                                [&](uint64_t i, rocksdb::WriteBatch* batch) {
                                                  const uint64_t key = shape.key_at(i);
                                                  shape.fill(key, value.data());
                                                  batch->Put(KeyBytesOf(key), value);
                                                }));
    // Moves keys and references only: values stay in their blob files.
    return database_.Settle(options, dir);
  }

  Status Get(uint64_t key, std::string* value) override {
    return FromRocks("get", database_.db()->Get(rocksdb::ReadOptions(), KeyBytesOf(key), value));
  }

  nlohmann::json Describe() const override {
    return {{"version", RocksVersion()},
            {"values", "blob files, no compression, no garbage"},
            {"reads", "direct, checksums verified"},
            {"tables", "one level, fully compacted, blocks of 4 KiB, binary and hash"},
            {"index", "two levels, in the cache, its top pinned"},
            {"filters", "Bloom, 10 bits a key, partitioned, in the cache"},
            {"block_cache_bytes", cache_->GetCapacity()},
            {"block_cache_bytes_used", cache_->GetUsage()}};
  }

 private:
  const std::shared_ptr<rocksdb::Cache> cache_;
  RocksDatabase database_;
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
