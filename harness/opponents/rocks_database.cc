#include "harness/opponents/rocks_database.h"

#include <rocksdb/version.h>

#include "harness/system/child_process.h"

namespace harness {

using engine_race::Status;

Status FromRocks(const std::string& what, const rocksdb::Status& status) {
  return status.ok() ? Status::Ok()
                     : Status::IOError("RocksDB, " + what + ": " + status.ToString());
}

std::string RocksVersion() {
  return std::to_string(ROCKSDB_MAJOR) + "." + std::to_string(ROCKSDB_MINOR) + "." +
         std::to_string(ROCKSDB_PATCH);
}

rocksdb::Options RocksReadOptions() {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.compression = rocksdb::kNoCompression;
  options.bottommost_compression = rocksdb::kNoCompression;
  options.max_open_files = -1;
  return options;
}

RocksDatabase::~RocksDatabase() {
  if (db_ != nullptr) db_->Close();
}

Status RocksDatabase::Open(const rocksdb::Options& options, const std::string& dir) {
  rocksdb::DB* db = nullptr;
  ENGINE_RACE_RETURN_IF_ERROR(FromRocks("open", rocksdb::DB::Open(options, dir, &db)));
  db_.reset(db);
  return Status::Ok();
}

Status RocksDatabase::Write(uint64_t record_count, uint32_t batch_records,
                            const std::function<void(uint64_t i, rocksdb::WriteBatch*)>& put) {
  rocksdb::WriteOptions options;
  options.disableWAL = true;
  rocksdb::WriteBatch batch;
  for (uint64_t i = 0; i < record_count; ++i) {
    put(i, &batch);
    if (batch.Count() < batch_records && i + 1 < record_count) continue;
    ENGINE_RACE_RETURN_IF_ERROR(FromRocks("write", db_->Write(options, &batch)));
    batch.Clear();
    if (Interrupted()) return InterruptedStatus();
  }
  return Status::Ok();
}

Status RocksDatabase::Compact() {
  return FromRocks("compaction",
                   db_->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr));
}

Status RocksDatabase::Settle(const rocksdb::Options& options, const std::string& dir) {
  ENGINE_RACE_RETURN_IF_ERROR(FromRocks("flush", db_->Flush(rocksdb::FlushOptions())));
  ENGINE_RACE_RETURN_IF_ERROR(Compact());
  ENGINE_RACE_RETURN_IF_ERROR(FromRocks("close", db_->Close()));
  db_.reset();
  return Open(options, dir);
}

Status RocksDatabase::ReadAll(rocksdb::Iterator* iterator, uint64_t record_count) const {
  uint64_t count = 0;
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) ++count;
  ENGINE_RACE_RETURN_IF_ERROR(FromRocks("scan", iterator->status()));
  return count == record_count ? Status::Ok() : Status::Corruption("RocksDB lacks records");
}

uint64_t RocksDatabase::TableBytes() const {
  uint64_t bytes = 0;
  db_->GetIntProperty("rocksdb.total-sst-files-size", &bytes);
  return bytes;
}

}  // namespace harness
