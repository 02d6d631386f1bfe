#include "harness/opponents/rocks_database.h"

#include <rocksdb/version.h>

#include "harness/opponents/lsm_cursor.h"
#include "harness/system/child_process.h"

namespace engine_race::harness {

std::string RocksVersion() {
  return std::to_string(ROCKSDB_MAJOR) + "." + std::to_string(ROCKSDB_MINOR) + "." +
         std::to_string(ROCKSDB_PATCH);
}

rocksdb::Options RocksOptions() {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.compression = rocksdb::kNoCompression;
  options.bottommost_compression = rocksdb::kNoCompression;
  options.max_open_files = -1;
  return options;
}

rocksdb::Options RocksBlobOptions() {
  rocksdb::Options options = RocksOptions();
  options.enable_blob_files = true;
  options.min_blob_size = 0;
  options.blob_compression_type = rocksdb::kNoCompression;
  options.use_direct_reads = true;
  options.use_direct_io_for_flush_and_compaction = true;
  return options;
}

rocksdb::BlockBasedTableOptions RocksTable(const std::shared_ptr<rocksdb::Cache>& cache) {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = cache;
  table.format_version = 5;
  return table;
}

void FillFirst(size_t write_buffer_bytes, rocksdb::Options* options) {
  options->disable_auto_compactions = true;
  options->write_buffer_size = write_buffer_bytes;
  options->max_write_buffer_number = 4;
  options->level0_slowdown_writes_trigger = options->level0_stop_writes_trigger = 100000;
}

RocksDatabase::~RocksDatabase() {
  if (db_ != nullptr) db_->Close();
}

Status RocksDatabase::Open(const rocksdb::Options& options, const std::string& dir) {
  rocksdb::DB* db = nullptr;
  ENGINE_RACE_RETURN_IF_ERROR(FromLsm("RocksDB, open", rocksdb::DB::Open(options, dir, &db)));
  db_.reset(db);
  return Status::Ok();
}

Status RocksDatabase::Close() {
  const Status status = FromLsm("RocksDB, close", db_->Close());
  db_.reset();
  return status;
}

Status RocksDatabase::Write(uint64_t record_count, uint32_t batch_records,
                            const std::function<void(uint64_t i, rocksdb::WriteBatch*)>& put) {
  rocksdb::WriteOptions options;
  options.disableWAL = true;
  rocksdb::WriteBatch batch;
  for (uint64_t i = 0; i < record_count; ++i) {
    put(i, &batch);
    if (batch.Count() < batch_records && i + 1 < record_count) continue;
    ENGINE_RACE_RETURN_IF_ERROR(FromLsm("RocksDB, write", db_->Write(options, &batch)));
    batch.Clear();
    if (Interrupted()) return InterruptedStatus();
  }
  return Status::Ok();
}

Status RocksDatabase::Compact() {
  return FromLsm("RocksDB, compaction",
                 db_->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr));
}

Status RocksDatabase::Settle(const rocksdb::Options& options, const std::string& dir) {
  ENGINE_RACE_RETURN_IF_ERROR(FromLsm("RocksDB, flush", db_->Flush(rocksdb::FlushOptions())));
  ENGINE_RACE_RETURN_IF_ERROR(Compact());
  ENGINE_RACE_RETURN_IF_ERROR(Close());
  return Open(options, dir);
}

Status RocksDatabase::ReadAll(rocksdb::Iterator* iterator, uint64_t record_count) const {
  uint64_t count = 0;
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) ++count;
  ENGINE_RACE_RETURN_IF_ERROR(FromLsm("RocksDB, scan", iterator->status()));
  return count == record_count ? Status::Ok() : Status::Corruption("RocksDB lacks records");
}

nlohmann::json RocksDatabase::Describe(const rocksdb::Cache* cache) const {
  uint64_t table_bytes = 0;
  db_->GetIntProperty("rocksdb.total-sst-files-size", &table_bytes);
  nlohmann::json json = {{"version", RocksVersion()}, {"table_bytes", table_bytes}};
  if (cache == nullptr) return json;
  json["block_cache_bytes"] = cache->GetCapacity();
  json["block_cache_bytes_used"] = cache->GetUsage();
  return json;
}

}  // namespace engine_race::harness
