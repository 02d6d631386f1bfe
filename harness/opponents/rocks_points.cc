#include "harness/opponents/rocks.h"

#include <rocksdb/cache.h>
#include <rocksdb/slice_transform.h>
#include <rocksdb/table.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "harness/opponents/rocks_database.h"

namespace harness {
namespace {

using engine_race::Status;

constexpr size_t kBlockBytes = 4096;
// The bytes of a key that a plain table hashes; two keys hardly ever share this many.
constexpr size_t kPrefixBytes = 8;
// The least cache, so that it holds everything in spite of the blocks' overhead.
constexpr size_t kMinCacheBytes = size_t{256} << 20;
constexpr uint32_t kBatchRecords = 1000;

std::shared_ptr<rocksdb::Cache> CacheOf(const L1Records& records, RocksForm form) {
  const size_t bytes = std::max<size_t>(kMinCacheBytes, 3 * records.byte_count());
  if (form == RocksForm::kLru) return rocksdb::NewLRUCache(bytes);
  return rocksdb::HyperClockCacheOptions(bytes, kBlockBytes).MakeSharedCache();
}

// Options for lookups of existing keys in data that fits into memory. There are no filters, which
// would only cost time, and no statistics. The tables hold their indexes themselves instead of
// looking them up in the cache. Every table stays open. Data blocks have 4 KiB, with the hash index
// that finds a key without a binary search.
rocksdb::BlockBasedTableOptions BlockOptionsOf(const std::shared_ptr<rocksdb::Cache>& cache) {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = cache;
  table.block_size = kBlockBytes;
  table.cache_index_and_filter_blocks = false;
  table.format_version = 5;
  table.data_block_index_type = rocksdb::BlockBasedTableOptions::kDataBlockBinaryAndHash;
  return table;
}

// A hash of the keys' first bytes leads to the record in the mapped file.
rocksdb::PlainTableOptions PlainOptionsOf(const L1Records& records) {
  rocksdb::PlainTableOptions table;
  table.user_key_len = records.shape.key_bytes;
  table.bloom_bits_per_key = 0;
  table.hash_table_ratio = 0.75;
  return table;
}

rocksdb::Options OptionsOf(const L1Records& records, RocksForm form,
                           const std::shared_ptr<rocksdb::Cache>& cache) {
  rocksdb::Options options = RocksReadOptions();
  // Filled once, in order: no log, and no compaction until all records are written.
  options.disable_auto_compactions = true;
  options.write_buffer_size = size_t{256} << 20;
  options.max_write_buffer_number = 4;
  options.memtable_factory = std::make_shared<rocksdb::VectorRepFactory>();
  options.allow_concurrent_memtable_write = false;
  // Larger than all data, so that there is one table and no search for it.
  options.target_file_size_base = std::max<uint64_t>(uint64_t{1} << 30, 2 * records.byte_count());
  options.level0_slowdown_writes_trigger = options.level0_stop_writes_trigger = 1000;
  if (form == RocksForm::kPlain) {
    options.allow_mmap_reads = true;
    options.prefix_extractor.reset(rocksdb::NewFixedPrefixTransform(kPrefixBytes));
    options.table_factory.reset(rocksdb::NewPlainTableFactory(PlainOptionsOf(records)));
  } else {
    options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(BlockOptionsOf(cache)));
  }
  return options;
}

class BuiltRocksPoints : public RocksPoints {
 public:
  BuiltRocksPoints(const L1Records& records, RocksForm form) : records_(records), form_(form) {}

  Status Fill(const std::string& dir) {
    if (form_ != RocksForm::kPlain) cache_ = CacheOf(records_, form_);
    rocksdb::Options options = OptionsOf(records_, form_, cache_);
    ENGINE_RACE_RETURN_IF_ERROR(database_.Open(options, dir));
    char key[kMaxKeyBytes];
    char payload[kMaxPayloadBytes];
    const TableShape& shape = records_.shape;
    ENGINE_RACE_RETURN_IF_ERROR(database_.Write(
        records_.record_count(), kBatchRecords, [&](uint64_t i, rocksdb::WriteBatch* batch) {
          const uint64_t word = records_.WordAt(0, i);
          records_.FillKey(word, key);
          records_.FillPayload(word, payload);
          batch->Put(rocksdb::Slice(key, shape.key_bytes),
                     rocksdb::Slice(payload, shape.payload_bytes));
        }));
    // Reads have the usual memtable.
    options.memtable_factory = std::make_shared<rocksdb::SkipListFactory>();
    options.allow_concurrent_memtable_write = true;
    ENGINE_RACE_RETURN_IF_ERROR(database_.Settle(options, dir));
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
      return [this, value, options = ReadOptions()](const L1Chunk& chunk, uint64_t* sum) {
        for (uint32_t i = 0; i < L1Lookups::kChunk; ++i) {
          const rocksdb::Slice key(chunk.keys + size_t{i} * records_.shape.key_bytes,
                                   records_.shape.key_bytes);
          value->Reset();
          const rocksdb::Status got =
              database_.db()->Get(options, database_.db()->DefaultColumnFamily(), key, value.get());
          if (!got.ok()) return FromRocks("get", got);
          *sum += PayloadWord(value->data());
        }
        return Status::Ok();
      };
    };
  }

  nlohmann::json Describe() const override {
    nlohmann::json json = {
        {"version", RocksVersion()},
        {"records", records_.record_count()},
        {"table_bytes", database_.TableBytes()},
        {"compression", "none"},
        {"column_families", "one, with the records of all tables; one file, fully compacted"},
        {"filters", "none: every key is there"},
        {"read", "Get into a PinnableSlice that is kept; verify_checksums off"}};
    if (form_ == RocksForm::kPlain) {
      json["form"] = "plain table, mapped, hash of the first 8 bytes of a key, ratio 0.75";
      return json;
    }
    json["form"] = form_ == RocksForm::kLru ? "block-based, LRU cache" : "block-based, HyperClock";
    json["block_bytes"] = kBlockBytes;
    json["data_block_index"] = "binary and hash";
    json["indexes"] = "held by the open tables, beside the cache";
    json["block_cache_bytes"] = cache_->GetCapacity();
    json["block_cache_bytes_used"] = cache_->GetUsage();
    return json;
  }

 private:
  static rocksdb::ReadOptions ReadOptions() {
    rocksdb::ReadOptions options;
    options.verify_checksums = false;
    return options;
  }

  Status WarmByGets() {
    constexpr uint64_t kStep = 16;
    char key[kMaxKeyBytes];
    rocksdb::PinnableSlice value;
    for (uint64_t i = 0; i < records_.record_count(); i += kStep) {
      records_.FillKey(records_.WordAt(0, i), key);
      value.Reset();
      ENGINE_RACE_RETURN_IF_ERROR(FromRocks(
          "get", database_.db()->Get(ReadOptions(), database_.db()->DefaultColumnFamily(),
                                     rocksdb::Slice(key, records_.shape.key_bytes), &value)));
    }
    return Status::Ok();
  }

  const L1Records records_;
  const RocksForm form_;
  std::shared_ptr<rocksdb::Cache> cache_;
  RocksDatabase database_;
};

Status Make(const std::string& dir, const L1Records& records, RocksForm form,
            std::unique_ptr<RocksPoints>* points) {
  auto made = std::make_unique<BuiltRocksPoints>(records, form);
  ENGINE_RACE_RETURN_IF_ERROR(made->Fill(dir));
  *points = std::move(made);
  return Status::Ok();
}

}  // namespace

MakeRocksPointsFn RocksPointsMaker() { return Make; }

}  // namespace harness
