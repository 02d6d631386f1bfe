#include "harness/opponents/rocks.h"

#include <rocksdb/cache.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/table.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "harness/opponents/rocks_database.h"

namespace harness {
namespace {

using engine_race::Status;

constexpr size_t kCacheBytes = size_t{3} << 30;
// Several tables of the last level, as a compaction would leave them.
constexpr uint64_t kKeysPerTable = 4000000;

// The usual choices for data that fits into memory: no compression, one sorted run, a block cache
// larger than all data, indexes in memory beside it, every table open. Block and restart sizes, the
// index (binary search) and the data blocks are the library's defaults. There are no filters: an
// iterator does not use them.
rocksdb::Options OptionsOf(const std::shared_ptr<rocksdb::Cache>& cache) {
  rocksdb::Options options = RocksReadOptions();
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = cache;
  table.cache_index_and_filter_blocks = false;
  table.format_version = 5;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

class BuiltRocksRanges : public RocksRanges {
 public:
  Status Fill(const std::string& dir, std::span<const uint64_t> keys) {
    // One thread needs only one shard of the cache, but the default is what users run.
    cache_ = rocksdb::NewLRUCache(kCacheBytes);
    options_ = OptionsOf(cache_);
    key_count_ = keys.size();
    ENGINE_RACE_RETURN_IF_ERROR(database_.Open(options_, dir));
    std::vector<std::string> tables;
    for (uint64_t begin = 0; begin < keys.size(); begin += kKeysPerTable) {
      tables.push_back(dir + "/fill-" + std::to_string(tables.size()) + ".sst");
      const uint64_t count = std::min<uint64_t>(kKeysPerTable, keys.size() - begin);
      ENGINE_RACE_RETURN_IF_ERROR(WriteTable(tables.back(), keys.subspan(begin, count)));
    }
    rocksdb::IngestExternalFileOptions ingest;
    ingest.move_files = true;
    ENGINE_RACE_RETURN_IF_ERROR(
        FromRocks("ingest", database_.db()->IngestExternalFile(tables, ingest)));
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
      for (const uint64_t start : starts) sum += SumRange<rocksdb::Slice>(iterator_.get(), start);
      return sum;
    });
    return ok && iterator_->status().ok() ? run : QueryRun();
  }

  nlohmann::json Describe() const override {
    return {{"version", RocksVersion()},
            {"records", key_count_},
            {"table_bytes", database_.TableBytes()},
            {"block_cache_bytes_used", cache_->GetUsage()},
            {"block_cache_bytes", kCacheBytes},
            {"compression", "none"}};
  }

 private:
  Status WriteTable(const std::string& path, std::span<const uint64_t> keys) const {
    rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), options_);
    ENGINE_RACE_RETURN_IF_ERROR(FromRocks("table", writer.Open(path)));
    char bytes[engine_race::kKeyBytes];
    for (const uint64_t key : keys) {
      engine_race::EncodeKey(key, bytes);
      const rocksdb::Slice slice(bytes, sizeof(bytes));
      ENGINE_RACE_RETURN_IF_ERROR(FromRocks("put", writer.Put(slice, slice)));
    }
    return FromRocks("table", writer.Finish());
  }

  std::shared_ptr<rocksdb::Cache> cache_;
  rocksdb::Options options_;
  RocksDatabase database_;
  // Released before the database is closed.
  std::unique_ptr<rocksdb::Iterator> iterator_;
  uint64_t key_count_ = 0;
};

Status Make(const std::string& dir, std::span<const uint64_t> keys,
            std::unique_ptr<RocksRanges>* ranges) {
  auto made = std::make_unique<BuiltRocksRanges>();
  ENGINE_RACE_RETURN_IF_ERROR(made->Fill(dir, keys));
  *ranges = std::move(made);
  return Status::Ok();
}

}  // namespace

MakeRocksFn RocksMaker() { return Make; }

}  // namespace harness
