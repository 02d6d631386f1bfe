// A database of RocksDB: how all opponents open it, and how those fill it that are only read.
//
// Compiled only where the library is.
#ifndef HARNESS_OPPONENTS_ROCKS_DATABASE_H_
#define HARNESS_OPPONENTS_ROCKS_DATABASE_H_

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "engine_race/base/status.h"

namespace engine_race::harness {

// "7.8.3"
std::string RocksVersion();

// The usual choices: a new database if there is none, no compression, every table open.
rocksdb::Options RocksOptions();
// With values in blob files, read and written with direct I/O.
rocksdb::Options RocksBlobOptions();
// A table whose blocks are read through `cache`.
rocksdb::BlockBasedTableOptions RocksTable(const std::shared_ptr<rocksdb::Cache>& cache);
// For a database that is filled once: no compaction and no stalls until all records are written.
void FillFirst(size_t write_buffer_bytes, rocksdb::Options* options);

class RocksDatabase {
 public:
  ~RocksDatabase();

  Status Open(const rocksdb::Options& options, const std::string& dir);
  Status Close();
  // Writes this many records, without a log. `put` puts one into the batch.
  Status Write(uint64_t record_count, uint32_t batch_records,
               const std::function<void(uint64_t i, rocksdb::WriteBatch*)>& put);
  // Leaves one sorted run.
  Status Compact();
  // Flushes and compacts everything, and opens the database anew, without write buffers.
  Status Settle(const rocksdb::Options& options, const std::string& dir);
  // Reads all records once, in order. kCorruption if there are not that many.
  Status ReadAll(rocksdb::Iterator* iterator, uint64_t record_count) const;
  // Version, size of the tables, and what `cache` holds; null: there is none.
  nlohmann::json Describe(const rocksdb::Cache* cache) const;

  rocksdb::DB* db() const { return db_.get(); }

 private:
  std::unique_ptr<rocksdb::DB> db_;
};

}  // namespace engine_race::harness

#endif  // HARNESS_OPPONENTS_ROCKS_DATABASE_H_
