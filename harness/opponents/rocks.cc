#include "harness/opponents/rocks.h"

#include <rocksdb/filter_policy.h>
#include <rocksdb/slice_transform.h>
#include <rocksdb/sst_file_writer.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "engine_race/base/key.h"
#include "harness/opponents/lsm_cursor.h"
#include "harness/opponents/rocks_database.h"

namespace engine_race::harness {
namespace {

using rocksdb::Slice;

constexpr size_t kBlockBytes = 4096;
constexpr size_t kMiB = size_t{1} << 20;

// Lookups of existing keys in data that fits into memory. There are no filters, which would only
// cost time, and no statistics. The tables hold their indexes themselves instead of looking them up
// in the cache. Data blocks have 4 KiB, with the hash index that finds a key without a binary
// search. In a plain table a hash of the key's first bytes leads to the record in the mapped file.
class Points final : public RocksPoints {
 public:
  Points(const L1Records& records, RocksForm form) : records_(records), form_(form) {
    read_options_.verify_checksums = false;
    // So that it holds everything in spite of the blocks' overhead.
    const size_t bytes = std::max<size_t>(256 * kMiB, 3 * records.byte_count());
    if (form == RocksForm::kLru) cache_ = rocksdb::NewLRUCache(bytes);
    if (form == RocksForm::kHyperClock) {
      cache_ = rocksdb::HyperClockCacheOptions(bytes, kBlockBytes).MakeSharedCache();
    }
  }

  // Fills the new database.
  Status Open(const std::string& dir) {
    constexpr uint32_t kBatchRecords = 1000;
    rocksdb::Options options = Options();
    // Filled in order.
    options.memtable_factory = std::make_shared<rocksdb::VectorRepFactory>();
    options.allow_concurrent_memtable_write = false;
    ENGINE_RACE_RETURN_IF_ERROR(database_.Open(options, dir));
    char key[kMaxKeyBytes];
    char payload[kMaxPayloadBytes];
    const TableShape& shape = records_.shape;
    ENGINE_RACE_RETURN_IF_ERROR(database_.Write(
        records_.record_count(), kBatchRecords, [&](uint64_t i, rocksdb::WriteBatch* batch) {
          const uint64_t word = records_.WordAt(0, i);
          records_.FillKey(word, key);
          records_.FillPayload(word, payload);
          batch->Put(Slice(key, shape.key_bytes), Slice(payload, shape.payload_bytes));
        }));
    ENGINE_RACE_RETURN_IF_ERROR(database_.Settle(Options(), dir));
    // Reads everything once, into the cache or the page cache. Hashed tables have no order to scan
    // in.
    if (form_ == RocksForm::kPlain) return WarmByGets();
    rocksdb::ReadOptions in_order;
    in_order.total_order_seek = true;
    const std::unique_ptr<rocksdb::Iterator> iterator(database_.db()->NewIterator(in_order));
    return database_.ReadAll(iterator.get(), records_.record_count());
  }

  MakeL1Answer Gets() const override {
    return [this]() -> L1Answer {
      // Kept between lookups, so that it allocates nothing: the value stays in the block that it
      // pins.
      const auto value = std::make_shared<rocksdb::PinnableSlice>();
      return [this, value](const L1Chunk& chunk, uint64_t* sum) {
        for (uint32_t i = 0; i < L1Lookups::kChunk; ++i) {
          const char* const key = chunk.keys + size_t{i} * records_.shape.key_bytes;
          ENGINE_RACE_RETURN_IF_ERROR(Get(key, value.get()));
          *sum += PayloadWord(value->data());
        }
        return Status::Ok();
      };
    };
  }

  nlohmann::json Describe() const override {
    nlohmann::json json = database_.Describe(cache_.get());
    json.update(
        {{"records", records_.record_count()},
         {"compression", "none"},
         {"column_families", "one, with the records of all tables; one file, fully compacted"},
         {"filters", "none: every key is there"},
         {"read", "Get into a PinnableSlice that is kept; verify_checksums off"}});
    if (form_ == RocksForm::kPlain) {
      json["form"] = "plain table, mapped, hash of the first 8 bytes of a key, ratio 0.75";
      return json;
    }
    json["form"] = form_ == RocksForm::kLru ? "block-based, LRU cache" : "block-based, HyperClock";
    json["block_bytes"] = kBlockBytes;
    json["data_block_index"] = "binary and hash";
    json["indexes"] = "held by the open tables, beside the cache";
    return json;
  }

 private:
  rocksdb::Options Options() const {
    rocksdb::Options options = RocksOptions();
    FillFirst(256 * kMiB, &options);
    // Larger than all data, so that there is one table and no search for it.
    options.target_file_size_base = std::max<uint64_t>(1024 * kMiB, 2 * records_.byte_count());
    if (form_ != RocksForm::kPlain) {
      rocksdb::BlockBasedTableOptions table = RocksTable(cache_);
      table.block_size = kBlockBytes;
      table.cache_index_and_filter_blocks = false;
      table.data_block_index_type = rocksdb::BlockBasedTableOptions::kDataBlockBinaryAndHash;
      options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
      return options;
    }
    // Two keys hardly ever share this many bytes.
    constexpr size_t kPrefixBytes = 8;
    rocksdb::PlainTableOptions table;
    table.user_key_len = records_.shape.key_bytes;
    table.bloom_bits_per_key = 0;
    table.hash_table_ratio = 0.75;
    options.allow_mmap_reads = true;
    options.prefix_extractor.reset(rocksdb::NewFixedPrefixTransform(kPrefixBytes));
    options.table_factory.reset(rocksdb::NewPlainTableFactory(table));
    return options;
  }

  Status Get(const char* key, rocksdb::PinnableSlice* value) const {
    value->Reset();
    return FromLsm("RocksDB, get",
                   database_.db()->Get(read_options_, database_.db()->DefaultColumnFamily(),
                                       Slice(key, records_.shape.key_bytes), value));
  }

  Status WarmByGets() const {
    constexpr uint64_t kStep = 16;
    char key[kMaxKeyBytes];
    rocksdb::PinnableSlice value;
    for (uint64_t i = 0; i < records_.record_count(); i += kStep) {
      records_.FillKey(records_.WordAt(0, i), key);
      ENGINE_RACE_RETURN_IF_ERROR(Get(key, &value));
    }
    return Status::Ok();
  }

  const L1Records records_;
  const RocksForm form_;
  rocksdb::ReadOptions read_options_;
  std::shared_ptr<rocksdb::Cache> cache_;
  RocksDatabase database_;
};

// Short ranges over data that fits into memory: one sorted run, a block cache larger than all data,
// indexes in memory beside it. Block and restart sizes, the index (binary search) and the data
// blocks are the library's defaults. There are no filters: an iterator does not use them.
class Ranges final : public RocksRanges {
 public:
  // Fills the new database.
  Status Open(const std::string& dir, std::span<const uint64_t> keys) {
    // Several tables of the last level, as a compaction would leave them.
    constexpr uint64_t kKeysPerTable = 4000000;
    rocksdb::BlockBasedTableOptions table = RocksTable(cache_);
    table.cache_index_and_filter_blocks = false;
    rocksdb::Options options = RocksOptions();
    options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    key_count_ = keys.size();
    ENGINE_RACE_RETURN_IF_ERROR(database_.Open(options, dir));
    std::vector<std::string> tables;
    for (uint64_t begin = 0; begin < keys.size(); begin += kKeysPerTable) {
      tables.push_back(dir + "/fill-" + std::to_string(tables.size()) + ".sst");
      const uint64_t count = std::min<uint64_t>(kKeysPerTable, keys.size() - begin);
      ENGINE_RACE_RETURN_IF_ERROR(WriteTable(options, tables.back(), keys.subspan(begin, count)));
    }
    rocksdb::IngestExternalFileOptions ingest;
    ingest.move_files = true;
    ENGINE_RACE_RETURN_IF_ERROR(
        FromLsm("RocksDB, ingest", database_.db()->IngestExternalFile(tables, ingest)));
    ENGINE_RACE_RETURN_IF_ERROR(database_.Compact());
    iterator_.reset(database_.db()->NewIterator(rocksdb::ReadOptions()));
    // Everything comes into the cache.
    return database_.ReadAll(iterator_.get(), key_count_);
  }

  QueryRun Run(uint64_t seed, double seconds) override {
    bool ok = true;
    const QueryRun run = RunQueries(seed, seconds, [&](const RangeStarts& starts) {
      ok &= iterator_->Refresh().ok();
      uint64_t sum = 0;
      for (const uint64_t start : starts) sum += SumRange<Slice>(iterator_.get(), start);
      return sum;
    });
    return ok && iterator_->status().ok() ? run : QueryRun();
  }

  nlohmann::json Describe() const override {
    nlohmann::json json = database_.Describe(cache_.get());
    json.update({{"records", key_count_}, {"compression", "none"}});
    return json;
  }

 private:
  static Status WriteTable(const rocksdb::Options& options, const std::string& path,
                           std::span<const uint64_t> keys) {
    rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), options);
    ENGINE_RACE_RETURN_IF_ERROR(FromLsm("RocksDB, table", writer.Open(path)));
    for (const uint64_t key : keys) {
      const KeyBytes bytes(key);
      ENGINE_RACE_RETURN_IF_ERROR(
          FromLsm("RocksDB, put", writer.Put(KeySlice<Slice>(bytes), KeySlice<Slice>(bytes))));
    }
    return FromLsm("RocksDB, table", writer.Finish());
  }

  // One thread needs only one shard of the cache, but the default is what users run.
  const std::shared_ptr<rocksdb::Cache> cache_ = rocksdb::NewLRUCache(3072 * kMiB);
  RocksDatabase database_;
  // Released before the database is closed.
  std::unique_ptr<rocksdb::Iterator> iterator_;
  uint64_t key_count_ = 0;
};

// Values in blob files or in the tables. Index, filters and data blocks are read through the cache.
// Blocks have 4 KiB, or 16 KiB with values in them.
class Records final : public RocksRecords {
 public:
  explicit Records(const RocksRecordsShape& shape)
      : value_bytes_(shape.value_bytes),
        caches_values_(shape.caches_values),
        values_in_tables_(shape.values_in_tables),
        cache_(rocksdb::NewLRUCache(shape.cache_bytes)) {}

  // Fills the new database.
  Status Open(const std::string& dir, const RocksRecordsShape& shape) {
    constexpr uint32_t kBatchRecords = 256;
    const rocksdb::Options options = Options();
    ENGINE_RACE_RETURN_IF_ERROR(database_.Open(options, dir));
    std::string value(shape.value_bytes, '\0');
    ENGINE_RACE_RETURN_IF_ERROR(database_.Write(shape.record_count, kBatchRecords,
                                                [&](uint64_t i, rocksdb::WriteBatch* batch) {
                                                  const uint64_t key = shape.key_at(i);
                                                  shape.fill(key, value.data());
                                                  batch->Put(KeySlice<Slice>(KeyBytes(key)), value);
                                                }));
    // Moves keys and references only: values stay in their blob files.
    return database_.Settle(options, dir);
  }

  Status Get(uint64_t key, std::string* value) override {
    return FromLsm("RocksDB, get", database_.db()->Get(rocksdb::ReadOptions(),
                                                       KeySlice<Slice>(KeyBytes(key)), value));
  }

  std::unique_ptr<KvCursor> NewCursor() override {
    return NewLsmCursor<rocksdb::Iterator, Slice>("RocksDB", database_.db(), rocksdb::ReadOptions(),
                                                  value_bytes_);
  }

  nlohmann::json Describe() const override {
    nlohmann::json json = database_.Describe(cache_.get());
    json.update({{"values", values_in_tables_ ? "in tables, blocks of 16 KiB, no compression"
                                              : "blob files, no compression, no garbage"},
                 {"values_cached", caches_values_ || values_in_tables_},
                 {"reads", "direct, checksums verified"},
                 {"tables", "one level, fully compacted, blocks of 4 KiB, binary and hash"},
                 {"index", "two levels, in the cache, its top pinned"},
                 {"filters", "Bloom, 10 bits a key, partitioned, in the cache"}});
    return json;
  }

 private:
  rocksdb::Options Options() const {
    constexpr double kFilterBitsPerKey = 10;
    rocksdb::BlockBasedTableOptions table = RocksTable(cache_);
    table.block_size = values_in_tables_ ? 4 * kBlockBytes : kBlockBytes;
    table.metadata_block_size = kBlockBytes;
    table.index_type = rocksdb::BlockBasedTableOptions::kTwoLevelIndexSearch;
    table.partition_filters = true;
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(kFilterBitsPerKey, false));
    table.cache_index_and_filter_blocks = true;
    table.cache_index_and_filter_blocks_with_high_priority = true;
    table.pin_top_level_index_and_filter = true;
    table.data_block_index_type = rocksdb::BlockBasedTableOptions::kDataBlockBinaryAndHash;
    rocksdb::Options options = RocksBlobOptions();
    options.enable_blob_files = !values_in_tables_;
    if (caches_values_) options.blob_cache = cache_;
    FillFirst(128 * kMiB, &options);
    options.blob_file_size = 256 * kMiB;
    options.enable_blob_garbage_collection = false;
    options.max_background_jobs = 4;
    options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    return options;
  }

  const uint32_t value_bytes_;
  const bool caches_values_;
  const bool values_in_tables_;
  const std::shared_ptr<rocksdb::Cache> cache_;
  RocksDatabase database_;
};

}  // namespace

Status MakeRocksPoints(const std::string& dir, const L1Records& records, RocksForm form,
                       std::unique_ptr<RocksPoints>* points) {
  return OpenInto(points, std::make_unique<Points>(records, form), dir);
}

Status MakeRocksRanges(const std::string& dir, std::span<const uint64_t> keys,
                       std::unique_ptr<RocksRanges>* ranges) {
  return OpenInto(ranges, std::make_unique<Ranges>(), dir, keys);
}

Status MakeRocksRecords(const std::string& dir, const RocksRecordsShape& shape,
                        std::unique_ptr<RocksRecords>* made) {
  return OpenInto(made, std::make_unique<Records>(shape), dir, shape);
}

}  // namespace engine_race::harness
