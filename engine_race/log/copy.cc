#include "engine_race/log/copy.h"

#include <algorithm>
#include <bitset>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "engine_race/base/memory.h"
#include "engine_race/log/entry_codec.h"
#include "engine_race/log/logged_state.h"
#include "engine_race/log/staging.h"
#include "engine_race/log/store_files.h"
#include "engine_race/log/verify.h"

namespace engine_race {
namespace {

// How many records are written together: the entries of one key page, and their values.
constexpr uint64_t kPieceRecords = kIoAlignment / sizeof(format::KeyEntry);

// Writes the records of one bucket after another into the logs of the copy.
class LogWriter final : public RecordSink {
 public:
  // `record_counts` gets the number of records of each bucket that is finished.
  LogWriter(const StoreFiles& files, std::vector<uint64_t>* record_counts)
      : files_(files), geometry_(files.identity.geometry), record_counts_(record_counts) {}

  Status Init() {
    ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(kIoAlignment, false, &keys_));
    return Region::Allocate(kPieceRecords * kValueBytes, false, &values_);
  }

  Status Take(uint32_t bucket, const KeyRecord& record, const char* value) override {
    if (record.slot >= geometry_.bucket_capacity_records) {
      return Status::Full("bucket " + std::to_string(bucket) + " has more records than the " +
                          std::to_string(geometry_.bucket_capacity_records) +
                          " that the copy's file system leaves it room for");
    }
    const uint64_t index = record.slot % kPieceRecords;
    const format::KeyEntry entry = EntryCodec(files_.identity.seed_id(), bucket).Encode(record);
    std::memcpy(keys_.data() + index * sizeof(entry), &entry, sizeof(entry));
    has_value_[index] = value != nullptr;
    if (value != nullptr) std::memcpy(values_.data() + index * kValueBytes, value, kValueBytes);
    return index + 1 == kPieceRecords ? WritePiece(bucket, record.slot + 1) : Status::Ok();
  }

  Status Finish(uint32_t bucket, uint64_t record_count) override {
    if (record_count % kPieceRecords != 0) {
      ENGINE_RACE_RETURN_IF_ERROR(WritePiece(bucket, record_count));
    }
    (*record_counts_)[bucket] = record_count;
    return Status::Ok();
  }

 private:
  // Writes the piece whose last slot is end - 1.
  Status WritePiece(uint32_t bucket, uint64_t end) {
    const uint64_t begin = (end - 1) / kPieceRecords * kPieceRecords;
    const uint64_t key_bytes = (end - begin) * sizeof(format::KeyEntry);
    std::memset(keys_.data() + key_bytes, 0, kIoAlignment - key_bytes);
    ENGINE_RACE_RETURN_IF_ERROR(files_.KeyFile(bucket).Write(keys_.data(), kIoAlignment,
                                                             geometry_.KeyOffset(bucket, begin)));
    // Tombstones leave holes.
    for (uint64_t slot = begin; slot < end; ++slot) {
      if (!has_value_[slot - begin]) continue;
      uint64_t run_end = slot + 1;
      while (run_end < end && has_value_[run_end - begin]) ++run_end;
      ENGINE_RACE_RETURN_IF_ERROR(WriteValues(bucket, begin, slot, run_end));
      slot = run_end;
    }
    return Status::Ok();
  }

  // Slots [slot, end) of the piece that begins with `begin`.
  Status WriteValues(uint32_t bucket, uint64_t begin, uint64_t slot, uint64_t end) {
    while (slot < end) {
      ValueLocation location;
      ENGINE_RACE_RETURN_IF_ERROR(files_.values.LocateToWrite(bucket, slot, &location));
      const uint64_t count = std::min<uint64_t>(location.slot_count, end - slot);
      ENGINE_RACE_RETURN_IF_ERROR(location.file->Write(
          values_.data() + (slot - begin) * kValueBytes, count * kValueBytes, location.offset));
      slot += count;
    }
    return Status::Ok();
  }

  const StoreFiles& files_;
  const Geometry& geometry_;
  std::vector<uint64_t>* const record_counts_;
  Region keys_;
  Region values_;
  std::bitset<kPieceRecords> has_value_;
};

// Every record is in the logs. The counts name no page cache, so the first opening trusts only the
// synced watermarks.
Status WriteCounts(const StoreFiles& files, const std::vector<uint64_t>& record_counts) {
  const Geometry& geometry = files.identity.geometry;
  const Staging staging(files);
  for (uint32_t bucket = 0; bucket < geometry.bucket_count; ++bucket) {
    ENGINE_RACE_RETURN_IF_ERROR(staging.WriteLine(
        bucket, LoggedState(geometry, record_counts[bucket], /*page_cache_id=*/0)));
  }
  return Status::Ok();
}

// MakeFilledStore syncs the files of directories; the devices are left to its caller.
Status SyncDevices(const ValueFiles& values) {
  for (const ValuePath& path : values.paths()) {
    if (path.units != nullptr) ENGINE_RACE_RETURN_IF_ERROR(values.file(path.first_file).Sync());
  }
  return values.FlushMaps();
}

Options WithGeometryOf(const Geometry& geometry, const Options& options) {
  Options copied = options;
  copied.bucket_count = geometry.bucket_count;
  copied.file_count = geometry.file_count;
  copied.bucket_capacity_records = geometry.bucket_capacity_records;
  copied.value_group_bytes = geometry.value_group_bytes;
  copied.key_group_bytes = geometry.key_group_bytes;
  copied.key_range = geometry.keys();
  copied.create_if_missing = true;
  return copied;
}

}  // namespace

Status CopyStore(const Options& options, const std::string& from, const std::string& to,
                 VerifyReport* report, const BadRecordFn& on_bad,
                 const VerifyProgressFn& on_progress) {
  StoreFiles source;
  ENGINE_RACE_RETURN_IF_ERROR(OpenStoreFilesToRead(from, &source, {}, options.key_range));
  const Options copied = WithGeometryOf(source.identity.geometry, options);
  ENGINE_RACE_RETURN_IF_ERROR(ValidateOptions(copied));
  return MakeFilledStore(copied, to, [&](const StoreFiles& copy) {
    std::vector<uint64_t> record_counts(copy.identity.geometry.bucket_count);
    const auto make_writer = [&](std::unique_ptr<RecordSink>* sink) {
      auto writer = std::make_unique<LogWriter>(copy, &record_counts);
      ENGINE_RACE_RETURN_IF_ERROR(writer->Init());
      *sink = std::move(writer);
      return Status::Ok();
    };
    ENGINE_RACE_RETURN_IF_ERROR(VerifyFiles(source, report, on_bad, make_writer, on_progress));
    ENGINE_RACE_RETURN_IF_ERROR(WriteCounts(copy, record_counts));
    return SyncDevices(copy.values);
  });
}

}  // namespace engine_race
