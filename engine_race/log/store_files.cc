#include "engine_race/log/store_files.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "engine_race/log/descriptors.h"
#include "engine_race/log/format.h"
#include "engine_race/log/staging.h"
#include "engine_race/log/value_paths.h"

namespace engine_race {
namespace {

std::string NumberedName(const char* prefix, uint32_t number) {
  const std::string digits = std::to_string(number);
  return prefix + std::string(digits.size() < 2 ? 1 : 0, '0') + digits;
}

// A file of the store with the size that the geometry gives it. Logs and staging are sparse: their
// size is all the space they may ever use.
struct PlannedFile {
  int dir_fd;
  std::string name;
  // What errors call it.
  std::string title;
  uint64_t size_bytes;
  io::Caching caching;
  io::File* file;
};

Status OpenPlanned(const PlannedFile& planned, io::Access access) {
  const Status opened =
      io::File::Open(planned.dir_fd, planned.name, access, planned.caching, planned.file);
  if (!opened.ok() && planned.title != planned.name) {
    return Status(opened.code(), planned.title + ": " + opened.message());
  }
  planned.file->set_name(planned.title);
  return opened;
}

// Where the value files of a path lie.
int DirectoryOf(const StoreFiles& files, const ValuePath& path) {
  return path.name.empty() ? files.directory.get() : path.directory.get();
}

std::vector<PlannedFile> PlanFiles(StoreFiles* files) {
  const Geometry& geometry = files->identity.geometry;
  const int dir_fd = files->directory.get();
  std::vector<PlannedFile> plan;
  const auto add = [&](const std::string& name, uint64_t size_bytes, io::Caching caching,
                       io::File* file) {
    plan.push_back({dir_fd, name, name, size_bytes, caching, file});
  };
  files->key_files.resize(geometry.file_count);
  for (uint32_t i = 0; i < geometry.file_count; ++i) {
    add(NumberedName(format::kKeyFilePrefix, i), geometry.key_file_bytes(), io::Caching::kDirect,
        &files->key_files[i]);
  }
  for (const ValuePath& path : files->values.paths()) {
    if (path.units != nullptr) continue;
    for (uint32_t i = 0; i < geometry.file_count; ++i) {
      const std::string name = NumberedName(format::kValueFilePrefix, i);
      plan.push_back({DirectoryOf(*files, path), name,
                      path.name.empty() ? name : name + " of " + path.name,
                      geometry.value_file_bytes(), io::Caching::kDirect,
                      files->values.mutable_file(path.first_file + i)});
    }
  }
  add(format::kStagingCountsName, geometry.staging_counts_bytes(), io::Caching::kBuffered,
      &files->counts);
  add(format::kStagingKeysName, geometry.staging_keys_bytes(), io::Caching::kBuffered,
      &files->staged_keys);
  add(format::kStagingValuesName, geometry.staging_values_bytes(), io::Caching::kBuffered,
      &files->staged_values);
  return plan;
}

// Halves the bucket capacity until the file system of a path takes a whole value file in one file.
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

// Whether a directory without a manifest holds records all the same, or other remains of a store.
// An interrupted creation leaves only holes and counts of zero behind.
Status HoldsRecords(int dir_fd, const std::string& dir, bool* holds, bool* remains) {
  *holds = false;
  *remains = false;
  std::vector<std::string> names;
  ENGINE_RACE_RETURN_IF_ERROR(sys::ListDirectory(dir, &names));
  for (const std::string& name : names) {
    if (!IsLogOrStaging(name)) continue;
    uint64_t bytes = 0;
    ENGINE_RACE_RETURN_IF_ERROR(sys::AllocatedBytes(dir_fd, name, &bytes));
    if (bytes != 0) *holds = true;
    *remains = true;
  }
  if (*holds || std::find(names.begin(), names.end(), format::kStagingCountsName) == names.end()) {
    return Status::Ok();
  }
  *remains = true;
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

Status RefuseRecords(const std::string& dir) {
  return Status::Corruption("the manifest is missing, but there are records in " + dir);
}

// Where the values of a store without paths lie.
std::vector<ValuePath> OwnDirectory() {
  std::vector<ValuePath> paths;
  paths.emplace_back();
  return paths;
}

// The id of a new store. An interrupted creation may have marked paths with its own already: it is
// gone on with.
Status ChooseStoreId(int dir_fd, StoreIdentity* identity, bool* interrupted) {
  StoreIdentity draft;
  *interrupted = !identity->paths.empty() && ReadManifestDraft(dir_fd, &draft).ok();
  identity->store_id = draft.store_id;
  return *interrupted ? Status::Ok() : sys::RandomWord(&identity->store_id);
}

// Finds out what the new store will be, and refuses what may not be overwritten.
Status PlanStore(const Options& options, const std::string& dir, StoreFiles* files,
                 std::vector<ValuePath>* paths) {
  const int dir_fd = files->directory.get();
  StoreIdentity& identity = files->identity;
  bool holds_records = false;
  bool remains = false;
  ENGINE_RACE_RETURN_IF_ERROR(HoldsRecords(dir_fd, dir, &holds_records, &remains));
  if (holds_records) return RefuseRecords(dir);
  identity.geometry = GeometryFrom(options);
  ENGINE_RACE_RETURN_IF_ERROR(AbsoluteNames(options.paths, &identity.paths));
  ENGINE_RACE_RETURN_IF_ERROR(CheckPathNames(identity.paths));
  bool interrupted = false;
  ENGINE_RACE_RETURN_IF_ERROR(ChooseStoreId(dir_fd, &identity, &interrupted));
  if (identity.paths.empty()) {
    *paths = OwnDirectory();
    return Status::Ok();
  }
  bool foreign = false;
  const Status made = MakeValuePaths(dir_fd, identity, options.overwrite_devices, paths, &foreign);
  if (foreign && remains && !interrupted) {
    return Status::Corruption("the manifest is missing, but there are files of a store in " + dir +
                              ", and " + made.message() + " or to this one");
  }
  ENGINE_RACE_RETURN_IF_ERROR(made);
  for (const ValuePath& path : *paths) {
    if (!path.directory.valid()) continue;
    ENGINE_RACE_RETURN_IF_ERROR(
        HoldsRecords(path.directory.get(), path.name, &holds_records, &remains));
    if (holds_records) return RefuseRecords(path.name);
  }
  return Status::Ok();
}

using FillFn = std::function<Status(const StoreFiles& files)>;

Status CreateStore(const Options& options, const std::string& dir, const FillFn& fill,
                   StoreFiles* files) {
  const int dir_fd = files->directory.get();
  if (!options.create_if_missing) return Status::NotFound();
  // The directory is open.
  ENGINE_RACE_RETURN_IF_ERROR(
      CheckDescriptors(GeometryFrom(options), options.paths, /*open_count=*/1));
  std::vector<ValuePath> paths;
  ENGINE_RACE_RETURN_IF_ERROR(PlanStore(options, dir, files, &paths));
  const StoreIdentity& identity = files->identity;
  for (const ValuePath& path : paths) {
    if (path.device.file.valid()) continue;
    ENGINE_RACE_RETURN_IF_ERROR(
        ProbeCapacity(options, DirectoryOf(*files, path), &files->identity.geometry));
  }
  ENGINE_RACE_RETURN_IF_ERROR(CheckDevices(identity, paths));
  const bool striped = !identity.paths.empty();
  if (striped) {
    ENGINE_RACE_RETURN_IF_ERROR(WriteManifestDraft(dir_fd, identity));
    ENGINE_RACE_RETURN_IF_ERROR(WritePathMarkers(dir_fd, identity, &paths));
  }
  files->values.Init(identity.geometry, std::move(paths));
  const std::vector<PlannedFile> plan = PlanFiles(files);
  for (const PlannedFile& planned : plan) {
    ENGINE_RACE_RETURN_IF_ERROR(OpenPlanned(planned, io::Access::kCreate));
    // What an interrupted creation with another geometry left is only a hole.
    ENGINE_RACE_RETURN_IF_ERROR(planned.file->Truncate(0));
    ENGINE_RACE_RETURN_IF_ERROR(planned.file->Truncate(planned.size_bytes));
  }
  ENGINE_RACE_RETURN_IF_ERROR(fill(*files));
  // After all are made: one journal commit then serves them all.
  for (const PlannedFile& planned : plan) ENGINE_RACE_RETURN_IF_ERROR(planned.file->Sync());
  for (const ValuePath& path : files->values.paths()) {
    if (path.directory.valid()) ENGINE_RACE_RETURN_IF_ERROR(sys::Fsync(path.directory.get()));
  }
  ENGINE_RACE_RETURN_IF_ERROR(sys::Fsync(dir_fd));
  return striped ? CommitManifestDraft(dir_fd) : WriteManifest(dir_fd, identity);
}

// *moved when the names of the paths are no longer those in the manifest.
Status OpenExisting(const std::vector<std::string>& given_paths, io::Access access,
                    StoreFiles* files, bool* moved) {
  ENGINE_RACE_RETURN_IF_ERROR(CheckDescriptors(
      files->identity.geometry, given_paths.empty() ? files->identity.paths : given_paths,
      /*open_count=*/1));
  std::vector<ValuePath> paths;
  ENGINE_RACE_RETURN_IF_ERROR(OpenValuePaths(files->directory.get(), given_paths,
                                             access == io::Access::kRead, &files->identity, &paths,
                                             moved));
  if (paths.empty()) paths = OwnDirectory();
  files->values.Init(files->identity.geometry, std::move(paths));
  for (const PlannedFile& planned : PlanFiles(files)) {
    bool exists = false;
    ENGINE_RACE_RETURN_IF_ERROR(sys::Exists(planned.dir_fd, planned.name, &exists));
    if (!exists) return Status::Corruption(planned.title + " is missing");
    ENGINE_RACE_RETURN_IF_ERROR(OpenPlanned(planned, access));
    uint64_t size_bytes = 0;
    ENGINE_RACE_RETURN_IF_ERROR(planned.file->Size(&size_bytes));
    if (size_bytes < planned.size_bytes) {
      return Status::Corruption(planned.title + " is truncated to " + std::to_string(size_bytes) +
                                " bytes");
    }
  }
  return Status::Ok();
}

}  // namespace

Status OpenStoreFiles(const Options& options, const std::string& dir, StoreFiles* files) {
  bool exists = false;
  ENGINE_RACE_RETURN_IF_ERROR(sys::Exists(AT_FDCWD, dir, &exists));
  if (!exists) {
    if (!options.create_if_missing) return Status::NotFound();
    // Before anything is made.
    ENGINE_RACE_RETURN_IF_ERROR(
        CheckDescriptors(GeometryFrom(options), options.paths, /*open_count=*/0));
  }
  ENGINE_RACE_RETURN_IF_ERROR(
      sys::OpenDirectory(dir, options.create_if_missing, &files->directory));
  ENGINE_RACE_RETURN_IF_ERROR(sys::LockExclusive(files->directory.get()));
  const Status found = ReadManifest(files->directory.get(), &files->identity);
  if (found.code() == Code::kNotFound) {
    ENGINE_RACE_RETURN_IF_ERROR(CreateStore(options, dir, WriteEmptyCounts, files));
  } else {
    ENGINE_RACE_RETURN_IF_ERROR(found);
    bool moved = false;
    ENGINE_RACE_RETURN_IF_ERROR(OpenExisting(options.paths, io::Access::kReadWrite, files, &moved));
    if (moved) ENGINE_RACE_RETURN_IF_ERROR(WriteManifest(files->directory.get(), files->identity));
  }
  for (const ValuePath& path : files->values.paths()) {
    if (files->values.file(path.first_file).direct()) continue;
    Log(options.log, LogLevel::kWarning,
        (path.name.empty() ? dir : path.name) +
            ": the file system refuses O_DIRECT, the logs go through the page cache");
  }
  return Status::Ok();
}

Status MakeFilledStore(const Options& options, const std::string& dir, const FillFn& fill) {
  StoreFiles files;
  ENGINE_RACE_RETURN_IF_ERROR(sys::OpenDirectory(dir, /*create=*/true, &files.directory));
  ENGINE_RACE_RETURN_IF_ERROR(sys::LockExclusive(files.directory.get()));
  std::vector<std::string> names;
  ENGINE_RACE_RETURN_IF_ERROR(sys::ListDirectory(dir, &names));
  // The root of a file system has this of its own.
  std::erase(names, "lost+found");
  if (!names.empty()) return Status::InvalidArgument(dir + " is not empty: " + names.front());
  return CreateStore(options, dir, fill, &files);
}

Status VisitProbeFiles(const StoreFiles& files,
                       const std::function<Status(const io::File& file)>& visit) {
  const auto visit_named = [&visit](int dir_fd, const char* name) {
    io::File file;
    ENGINE_RACE_RETURN_IF_ERROR(
        io::File::Open(dir_fd, name, io::Access::kRead, io::Caching::kDirect, &file));
    return visit(file);
  };
  for (const ValuePath& path : files.values.paths()) {
    if (path.units != nullptr) {
      ENGINE_RACE_RETURN_IF_ERROR(visit(files.values.file(path.first_file)));
    } else if (path.directory.valid()) {
      ENGINE_RACE_RETURN_IF_ERROR(visit_named(path.directory.get(), format::kMarkerName));
    }
  }
  return visit_named(files.directory.get(), format::kManifestName);
}

Status OpenStoreFilesToRead(const std::string& dir, StoreFiles* files,
                            const std::vector<std::string>& paths) {
  bool exists = false;
  ENGINE_RACE_RETURN_IF_ERROR(sys::Exists(AT_FDCWD, dir, &exists));
  if (!exists) return Status::NotFound();
  ENGINE_RACE_RETURN_IF_ERROR(sys::OpenDirectory(dir, /*create=*/false, &files->directory));
  ENGINE_RACE_RETURN_IF_ERROR(sys::LockExclusive(files->directory.get()));
  ENGINE_RACE_RETURN_IF_ERROR(ReadManifest(files->directory.get(), &files->identity));
  bool moved = false;
  return OpenExisting(paths, io::Access::kRead, files, &moved);
}

}  // namespace engine_race
