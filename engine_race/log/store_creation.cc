#include "engine_race/log/store_creation.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "engine_race/log/bucket_state.h"
#include "engine_race/log/descriptors.h"
#include "engine_race/log/format.h"
#include "engine_race/log/path_marker.h"
#include "engine_race/log/planned_files.h"
#include "engine_race/log/space_reserve.h"
#include "engine_race/log/staging.h"
#include "engine_race/log/value_paths.h"

namespace engine_race {
namespace {

// The files of an index are no records: they are made from the logs, and are worth nothing without.
bool IsLogOrStaging(const std::string& name) {
  if (name.starts_with(format::kIndexFilePrefix)) return false;
  return name.starts_with(format::kKeyFilePrefix) || name.starts_with(format::kValueFilePrefix) ||
         name == format::kStagingKeysName || name == format::kStagingValuesName ||
         name == format::kJournalName;
}

// Whether a directory without a manifest holds records all the same, or other remains of a store.
// An interrupted creation leaves only holes and counts of zero behind.
Status HoldsRecords(int dir_fd, bool* holds, bool* remains) {
  *holds = false;
  *remains = false;
  std::vector<std::string> names;
  ENGINE_RACE_RETURN_IF_ERROR(sys::ListDirectory(dir_fd, &names));
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

// All files of a store have such names.
bool IsNameOfAStore(const std::string& name) {
  for (const char* const prefix :
       {format::kManifestName, format::kKeyFilePrefix, format::kValueFilePrefix, "staging_"}) {
    if (name.starts_with(prefix)) return true;
  }
  return false;
}

// Names in the directory `dir` that lead to other places of the store. All names are absolute.
std::vector<std::string> NamesOnTheWay(const std::string& dir,
                                       const std::vector<std::string>& places) {
  std::vector<std::string> names;
  const std::string above = dir + "/";
  for (const std::string& place : places) {
    if (!place.starts_with(above)) continue;
    names.push_back(place.substr(above.size(), place.find('/', above.size()) - above.size()));
  }
  return names;
}

// A new store makes dozens of files, which nobody finds again among others.
Status RefuseForeignFiles(const Options& options, int dir_fd, const std::string& dir,
                          const std::vector<std::string>& places) {
  if (options.create_among_files) return Status::Ok();
  std::vector<std::string> absolute;
  ENGINE_RACE_RETURN_IF_ERROR(AbsoluteNames({dir}, &absolute));
  const std::vector<std::string> on_the_way = NamesOnTheWay(absolute.front(), places);
  const Status refused = RefuseOtherFiles(dir_fd, dir, [&](const std::string& name) {
    return IsNameOfAStore(name) ||
           std::find(on_the_way.begin(), on_the_way.end(), name) != on_the_way.end();
  });
  if (refused.ok()) return refused;
  return refused.Reworded(refused.code(), refused.message() +
                                              "; a new store takes an empty or missing directory, "
                                              "unless create_among_files is set");
}

Status RefuseRecords(const std::string& dir) {
  return Status::Corruption("the manifest is missing, but there are records in " + dir);
}

// The id of a new store. An interrupted creation may have marked paths with its id already: that id
// is used again.
Status ChooseStoreId(int dir_fd, StoreIdentity* identity, bool* interrupted) {
  StoreIdentity draft;
  *interrupted = ReadManifest(dir_fd, &draft, format::kManifestDraftName).ok();
  identity->store_id = draft.store_id;
  return *interrupted ? Status::Ok() : sys::RandomWord(&identity->store_id);
}

// A path of a store whose directory is elsewhere holds that store's values: no other one is made
// among them. The paths of an interrupted creation may be marked already.
Status RefuseOthersPath(int dir_fd, const std::string& dir, const StoreIdentity& identity) {
  format::PathMarker marker;
  const Status read = ReadPathMarker(dir_fd, &marker);
  if (read.code() == Code::kNotFound) return Status::Ok();
  if (!read.ok()) return read.Prefixed(dir + ": ");
  if (marker.store_id == identity.store_id) return Status::Ok();
  return Status::InvalidArgument(dir + " holds no store of its own: it is path " +
                                 std::to_string(marker.path_index) + " of another one");
}

// Finds out what the new store will be, and refuses what may not be overwritten.
Status PlanStore(const Options& options, const std::string& dir, StoreFiles* files,
                 std::vector<ValuePath>* paths) {
  const int dir_fd = files->directory.get();
  StoreIdentity& identity = files->identity;
  bool unfinished = false;
  ENGINE_RACE_RETURN_IF_ERROR(sys::Exists(dir_fd, format::kManifestUnfinishedName, &unfinished));
  if (unfinished) {
    return Status::Corruption("a checkpoint or a restored store in " + dir +
                              " was never finished: make it anew, or remove what is there");
  }
  bool holds_records = false;
  bool remains = false;
  ENGINE_RACE_RETURN_IF_ERROR(HoldsRecords(dir_fd, &holds_records, &remains));
  if (holds_records) return RefuseRecords(dir);
  ENGINE_RACE_RETURN_IF_ERROR(sys::RefuseAmongDevices(dir, dir_fd));
  identity.geometry = GeometryFrom(options);
  ENGINE_RACE_RETURN_IF_ERROR(AbsoluteNames(options.paths, &identity.paths));
  ENGINE_RACE_RETURN_IF_ERROR(CheckPathNames(identity));
  bool interrupted = false;
  ENGINE_RACE_RETURN_IF_ERROR(ChooseStoreId(dir_fd, &identity, &interrupted));
  ENGINE_RACE_RETURN_IF_ERROR(RefuseOthersPath(dir_fd, dir, identity));
  std::vector<std::string> places;
  ENGINE_RACE_RETURN_IF_ERROR(AbsoluteNames({dir}, &places));
  places.insert(places.end(), identity.paths.begin(), identity.paths.end());
  ENGINE_RACE_RETURN_IF_ERROR(RefuseForeignFiles(options, dir_fd, dir, places));
  if (identity.paths.empty()) {
    *paths = OwnDirectory();
    return Status::Ok();
  }
  bool foreign = false;
  const Status made = MakeValuePaths(dir_fd, identity, options, paths, &foreign);
  if (foreign && remains && !interrupted) {
    return Status::Corruption("the manifest is missing, but there are files of a store in " + dir +
                              ", and " + made.message() + " or to this one");
  }
  ENGINE_RACE_RETURN_IF_ERROR(made);
  for (const ValuePath& path : *paths) {
    if (!path.directory.valid()) continue;
    ENGINE_RACE_RETURN_IF_ERROR(HoldsRecords(path.directory.get(), &holds_records, &remains));
    if (holds_records) return RefuseRecords(path.name);
    ENGINE_RACE_RETURN_IF_ERROR(
        RefuseForeignFiles(options, path.directory.get(), path.name, places));
  }
  return Status::Ok();
}

}  // namespace

Status WriteNewCounts(const StoreFiles& files, const std::vector<uint64_t>& record_counts,
                      uint32_t page_cache_id) {
  const Geometry& geometry = files.identity.geometry;
  std::vector<char> bytes(geometry.staging_counts_bytes());
  BucketState state;
  state.page_cache_id = page_cache_id;
  for (uint32_t bucket = 0; bucket < geometry.bucket_count; ++bucket) {
    state.SetLogged(geometry, record_counts[bucket]);
    const format::BucketCounts line = EncodeCounts(files.identity.seed_id(), bucket, state);
    std::memcpy(bytes.data() + bucket * sizeof(line), &line, sizeof(line));
  }
  return files.counts.Write(bytes.data(), bytes.size(), 0);
}

Status RefuseOtherFiles(int dir_fd, const std::string& dir,
                        FunctionRef<bool(const std::string& name)> expected) {
  std::vector<std::string> names;
  ENGINE_RACE_RETURN_IF_ERROR(sys::ListDirectory(dir_fd, &names));
  for (const std::string& name : names) {
    if (name == "lost+found" || name == format::kLockName || expected(name)) continue;
    return Status::InvalidArgument(dir + " is not empty: " + name).At(dir);
  }
  return Status::Ok();
}

Status RemoveUnfinished(int dir_fd) {
  bool exists = false;
  ENGINE_RACE_RETURN_IF_ERROR(sys::Exists(dir_fd, format::kManifestUnfinishedName, &exists));
  if (!exists) return Status::Ok();
  std::vector<std::string> names;
  ENGINE_RACE_RETURN_IF_ERROR(sys::ListDirectory(dir_fd, &names));
  for (const std::string& name : names) {
    if (!IsLogOrStaging(name) && name != format::kStagingCountsName &&
        name != format::kManifestTempName && name != format::kReserveName &&
        name != format::kSegmentTableName) {
      continue;
    }
    ENGINE_RACE_RETURN_IF_ERROR(sys::Unlink(dir_fd, name));
  }
  ENGINE_RACE_RETURN_IF_ERROR(sys::Fsync(dir_fd));
  // Last: while it is there, nothing takes the other files for a store's.
  ENGINE_RACE_RETURN_IF_ERROR(sys::Unlink(dir_fd, format::kManifestUnfinishedName));
  return sys::Fsync(dir_fd);
}

Status CreateStore(const Options& options, const std::string& dir, Publishing publishing,
                   const FillFn& fill, StoreFiles* files) {
  const int dir_fd = files->directory.get();
  if (!options.create_if_missing) return Status::NotFound();
  ENGINE_RACE_RETURN_IF_ERROR(
      CheckDescriptors(GeometryFrom(options), options.paths, kOpenWhenMade));
  std::vector<ValuePath> paths;
  ENGINE_RACE_RETURN_IF_ERROR(PlanStore(options, dir, files, &paths));
  const StoreIdentity& identity = files->identity;
  const bool unfinished = publishing == Publishing::kFromUnfinished;
  const bool striped = !identity.paths.empty();
  const char* const draft = unfinished ? format::kManifestUnfinishedName
                            : striped  ? format::kManifestDraftName
                                       : nullptr;
  // Before any other file: RemoveUnfinished removes files only beside kManifestUnfinishedName.
  if (draft != nullptr) {
    ENGINE_RACE_RETURN_IF_ERROR(WriteManifest(dir_fd, identity, options.file_mode, draft));
  }
  if (striped) {
    ENGINE_RACE_RETURN_IF_ERROR(WritePathMarkers(identity, options.file_mode, paths));
  }
  files->slots.Init(identity.geometry, dir_fd, std::move(paths));
  const std::vector<PlannedFile> plan = PlanFiles(files);
  for (const PlannedFile& planned : plan) {
    // Any file that an interrupted creation left is only a hole.
    ENGINE_RACE_RETURN_IF_ERROR(OpenPlanned(planned, io::Access::kReplace, options.file_mode));
    ENGINE_RACE_RETURN_IF_ERROR(planned.file->Truncate(planned.size_bytes));
  }
  uint64_t damaged_count = 0;
  ENGINE_RACE_RETURN_IF_ERROR(files->slots.Load(identity.seed_id(), &damaged_count));
  ENGINE_RACE_RETURN_IF_ERROR(fill(files));
  // The opening of a store that has no room for it asks for it again.
  SpaceReserve(*files, options).Prepare();
  // After all are made, so that one commit of the file system's journal serves them all.
  for (const PlannedFile& planned : plan) ENGINE_RACE_RETURN_IF_ERROR(planned.file->Sync());
  for (const ValuePath& path : files->slots.paths()) {
    if (path.directory.valid()) ENGINE_RACE_RETURN_IF_ERROR(sys::Fsync(path.directory.get()));
  }
  ENGINE_RACE_RETURN_IF_ERROR(sys::Fsync(dir_fd));
  // The directory may be new itself.
  ENGINE_RACE_RETURN_IF_ERROR(sys::SyncNameOf(dir, dir_fd));
  // The content may have changed the ids.
  if (unfinished) {
    ENGINE_RACE_RETURN_IF_ERROR(WriteManifest(dir_fd, identity, options.file_mode, draft));
  }
  return draft != nullptr ? CommitManifest(dir_fd, draft)
                          : WriteManifest(dir_fd, identity, options.file_mode);
}

}  // namespace engine_race
