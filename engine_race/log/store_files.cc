#include "engine_race/log/store_files.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "engine_race/log/format.h"
#include "engine_race/log/staging.h"

namespace engine_race {
namespace {

std::string NumberedName(const char* prefix, uint32_t number) {
  const std::string digits = std::to_string(number);
  return prefix + std::string(digits.size() < 2 ? 1 : 0, '0') + digits;
}

// A file of the store with the size that the geometry gives it. Logs and staging are sparse: their
// size is all the space they may ever use.
struct PlannedFile {
  std::string name;
  uint64_t size_bytes;
  io::Caching caching;
  io::File* file;
};

std::vector<PlannedFile> PlanFiles(StoreFiles* files) {
  const Geometry& geometry = files->identity.geometry;
  files->key_files.resize(geometry.file_count);
  files->value_files.resize(geometry.file_count);
  std::vector<PlannedFile> plan;
  for (uint32_t i = 0; i < geometry.file_count; ++i) {
    plan.push_back({NumberedName(format::kKeyFilePrefix, i), geometry.key_file_bytes(),
                    io::Caching::kDirect, &files->key_files[i]});
    plan.push_back({NumberedName(format::kValueFilePrefix, i), geometry.value_file_bytes(),
                    io::Caching::kDirect, &files->value_files[i]});
  }
  plan.push_back({format::kStagingCountsName, geometry.staging_counts_bytes(),
                  io::Caching::kBuffered, &files->counts});
  plan.push_back({format::kStagingKeysName, geometry.staging_keys_bytes(), io::Caching::kBuffered,
                  &files->staged_keys});
  plan.push_back({format::kStagingValuesName, geometry.staging_values_bytes(),
                  io::Caching::kBuffered, &files->staged_values});
  return plan;
}

// Halves the bucket capacity until the file system takes a whole value file in one file.
Status ProbeCapacity(const Options& options, int dir_fd, Geometry* geometry) {
  io::File probe;
  ENGINE_RACE_RETURN_IF_ERROR(io::File::Open(dir_fd, NumberedName(format::kValueFilePrefix, 0),
                                             io::Access::kCreate, io::Caching::kBuffered, &probe));
  const uint64_t asked = geometry->bucket_capacity_records;
  // The process's own limit is no property of the file system: it must not shape the store.
  ENGINE_RACE_RETURN_IF_ERROR(sys::CheckFileSizeLimit(geometry->value_file_bytes()));
  while (true) {
    const Status status = probe.Truncate(geometry->value_file_bytes());
    if (status.ok()) break;
    // Only a size that the file system refuses (EFBIG) says anything about it.
    if (status.code() != Code::kFull) return status;
    geometry->bucket_capacity_records /= 2;
    if (!CheckGeometry(*geometry).ok()) return status;
  }
  if (geometry->bucket_capacity_records != asked) {
    Log(options.log, LogLevel::kWarning,
        "the file system's largest file leaves a bucket room for " +
            std::to_string(geometry->bucket_capacity_records) + " records, not " +
            std::to_string(asked));
  }
  return Status::Ok();
}

bool IsLogOrStaging(const std::string& name) {
  return name.starts_with(format::kKeyFilePrefix) || name.starts_with(format::kValueFilePrefix) ||
         name == format::kStagingKeysName || name == format::kStagingValuesName ||
         name == format::kJournalName;
}

// Whether a directory without a manifest holds records all the same. An interrupted creation
// leaves only holes and counts of zero behind.
Status HoldsRecords(int dir_fd, const std::string& dir, bool* holds) {
  *holds = false;
  std::vector<std::string> names;
  ENGINE_RACE_RETURN_IF_ERROR(sys::ListDirectory(dir, &names));
  for (const std::string& name : names) {
    if (!IsLogOrStaging(name)) continue;
    uint64_t bytes = 0;
    ENGINE_RACE_RETURN_IF_ERROR(sys::AllocatedBytes(dir_fd, name, &bytes));
    if (bytes != 0) *holds = true;
  }
  if (*holds || std::find(names.begin(), names.end(), format::kStagingCountsName) == names.end()) {
    return Status::Ok();
  }
  io::File counts;
  ENGINE_RACE_RETURN_IF_ERROR(io::File::Open(dir_fd, format::kStagingCountsName, io::Access::kRead,
                                             io::Caching::kBuffered, &counts));
  std::array<format::BucketCounts, 1024> lines;
  for (uint64_t offset = 0;;) {
    size_t read_bytes = 0;
    lines.fill({});
    ENGINE_RACE_RETURN_IF_ERROR(counts.ReadSome(lines.data(), sizeof(lines), offset, &read_bytes));
    if (read_bytes == 0) return Status::Ok();
    if (std::any_of(lines.begin(), lines.end(), [](const format::BucketCounts& line) {
          return (line.records & ((uint64_t{1} << format::kCountBits) - 1)) != 0;
        })) {
      *holds = true;
      return Status::Ok();
    }
    offset += read_bytes;
  }
}

// Every bucket is empty, and that is the truth in this boot of the machine.
Status WriteEmptyCounts(const StoreFiles& files) {
  const Geometry& geometry = files.identity.geometry;
  std::vector<char> bytes(geometry.staging_counts_bytes());
  BucketState empty;
  empty.boot_id = sys::BootId();
  for (uint32_t bucket = 0; bucket < geometry.bucket_count; ++bucket) {
    const format::BucketCounts line = EncodeCounts(files.identity.store_id, bucket, empty);
    std::memcpy(bytes.data() + bucket * sizeof(line), &line, sizeof(line));
  }
  return files.counts.Write(bytes.data(), bytes.size(), 0);
}

Status CreateStore(const Options& options, const std::string& dir, StoreFiles* files) {
  const int dir_fd = files->directory.get();
  if (!options.create_if_missing) return Status::NotFound();
  bool holds_records = false;
  ENGINE_RACE_RETURN_IF_ERROR(HoldsRecords(dir_fd, dir, &holds_records));
  if (holds_records) {
    return Status::Corruption("the manifest is missing, but there are records in " + dir);
  }
  Geometry& geometry = files->identity.geometry;
  geometry = GeometryFrom(options);
  ENGINE_RACE_RETURN_IF_ERROR(ProbeCapacity(options, dir_fd, &geometry));
  ENGINE_RACE_RETURN_IF_ERROR(sys::RandomWord(&files->identity.store_id));
  const std::vector<PlannedFile> plan = PlanFiles(files);
  for (const PlannedFile& planned : plan) {
    ENGINE_RACE_RETURN_IF_ERROR(
        io::File::Open(dir_fd, planned.name, io::Access::kCreate, planned.caching, planned.file));
    // What an interrupted creation with another geometry left is only a hole.
    ENGINE_RACE_RETURN_IF_ERROR(planned.file->Truncate(0));
    ENGINE_RACE_RETURN_IF_ERROR(planned.file->Truncate(planned.size_bytes));
  }
  ENGINE_RACE_RETURN_IF_ERROR(WriteEmptyCounts(*files));
  // After all are made: one journal commit then serves them all.
  for (const PlannedFile& planned : plan) ENGINE_RACE_RETURN_IF_ERROR(planned.file->Sync());
  ENGINE_RACE_RETURN_IF_ERROR(sys::Fsync(dir_fd));
  return WriteManifest(dir_fd, files->identity);
}

Status OpenExisting(io::Access access, StoreFiles* files) {
  for (const PlannedFile& planned : PlanFiles(files)) {
    const int dir_fd = files->directory.get();
    bool exists = false;
    ENGINE_RACE_RETURN_IF_ERROR(sys::Exists(dir_fd, planned.name, &exists));
    if (!exists) return Status::Corruption(planned.name + " is missing");
    ENGINE_RACE_RETURN_IF_ERROR(
        io::File::Open(dir_fd, planned.name, access, planned.caching, planned.file));
    uint64_t size_bytes = 0;
    ENGINE_RACE_RETURN_IF_ERROR(planned.file->Size(&size_bytes));
    if (size_bytes < planned.size_bytes) {
      return Status::Corruption(planned.name + " is truncated to " + std::to_string(size_bytes) +
                                " bytes");
    }
  }
  return Status::Ok();
}

}  // namespace

Status OpenStoreFiles(const Options& options, const std::string& dir, StoreFiles* files) {
  if (!options.create_if_missing) {
    bool exists = false;
    ENGINE_RACE_RETURN_IF_ERROR(sys::Exists(AT_FDCWD, dir, &exists));
    if (!exists) return Status::NotFound();
  }
  ENGINE_RACE_RETURN_IF_ERROR(
      sys::OpenDirectory(dir, options.create_if_missing, &files->directory));
  ENGINE_RACE_RETURN_IF_ERROR(sys::LockExclusive(files->directory.get()));
  const Status found = ReadManifest(files->directory.get(), &files->identity);
  if (found.code() == Code::kNotFound) {
    ENGINE_RACE_RETURN_IF_ERROR(CreateStore(options, dir, files));
  } else {
    ENGINE_RACE_RETURN_IF_ERROR(found);
    ENGINE_RACE_RETURN_IF_ERROR(OpenExisting(io::Access::kReadWrite, files));
  }
  if (!files->value_files.front().direct()) {
    Log(options.log, LogLevel::kWarning,
        dir + ": the file system refuses O_DIRECT, the logs go through the page cache");
  }
  return Status::Ok();
}

Status OpenStoreFilesToRead(const std::string& dir, StoreFiles* files) {
  bool exists = false;
  ENGINE_RACE_RETURN_IF_ERROR(sys::Exists(AT_FDCWD, dir, &exists));
  if (!exists) return Status::NotFound();
  ENGINE_RACE_RETURN_IF_ERROR(sys::OpenDirectory(dir, /*create=*/false, &files->directory));
  ENGINE_RACE_RETURN_IF_ERROR(sys::LockExclusive(files->directory.get()));
  ENGINE_RACE_RETURN_IF_ERROR(ReadManifest(files->directory.get(), &files->identity));
  return OpenExisting(io::Access::kRead, files);
}

}  // namespace engine_race
