#include "engine_race/copies/copies.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "engine_race/copies/backup_manifest.h"
#include "engine_race/copies/backup_piece.h"
#include "engine_race/copies/view_walk.h"
#include "engine_race/log/store_creation.h"
#include "engine_race/scan/snapshot.h"

namespace engine_race {
namespace {

// Lists what a view shows, with the values of records from the parent's cut on.
class BackupSink final : public ViewSink {
 public:
  // `since` is the parent's cut, or empty.
  BackupSink(const io::File& file, const BackupIdentity& identity,
             const std::vector<uint64_t>& since, PieceTotals* totals)
      : writer_(file, identity.manifest.backup_id, identity.geometry.value_bytes(), totals),
        since_(since) {}

  Status Init() { return writer_.Init(); }

  uint64_t FirstWanted(uint32_t bucket) const override {
    return since_.empty() ? 0 : since_[bucket];
  }
  Status Take(uint32_t bucket, uint64_t key, const char* value, uint64_t value_hash) override {
    return writer_.Add(bucket, key, value, value_hash);
  }
  Status Finish(uint32_t bucket) override { return writer_.Finish(bucket); }

 private:
  PieceWriter writer_;
  const std::vector<uint64_t>& since_;
};

// Opens and locks a directory with nothing in it but what an interrupted backup has left, which
// goes.
Status LockForBackup(const Options& options, const std::string& dir, UniqueFd* directory,
                     DirectoryLock* lock) {
  ENGINE_RACE_RETURN_IF_ERROR(
      sys::OpenDirectory(dir, /*create=*/true, directory, options.directory_mode));
  const int dir_fd = directory->get();
  ENGINE_RACE_RETURN_IF_ERROR(sys::RefuseAmongDevices(dir, dir_fd));
  ENGINE_RACE_RETURN_IF_ERROR(DirectoryLock::TakeToWrite(dir_fd, options.file_mode, lock));
  ENGINE_RACE_RETURN_IF_ERROR(RemoveUnfinishedBackup(dir_fd));
  // The first name of an unfinished backup; it is replaced before it is used.
  return RefuseOtherFiles(dir_fd, dir,
                          [](const std::string& name) { return name == format::kBackupTempName; });
}

Status DescribeStore(const BucketLog& log, BackupIdentity* identity) {
  identity->SetGeometry(log.geometry());
  format::BackupManifest& manifest = identity->manifest;
  manifest.chain_length = 1;
  manifest.store_id = log.store_id();
  while (manifest.backup_id == 0) {
    ENGINE_RACE_RETURN_IF_ERROR(sys::RandomWord(&manifest.backup_id));
  }
  return Status::Ok();
}

// Reads the parent and names it in the manifest. *since is its cut.
//
// The store has noted the parent, so it has all records that the parent has. One that was put back
// to an older state has not: its sequence numbers below the cut may be of other records by now.
Status NameParent(const BucketLog& log, const std::string& parent_dir, BackupIdentity* identity,
                  std::vector<uint64_t>* since) {
  UniqueFd directory;
  const Status found = sys::OpenDirectory(parent_dir, /*create=*/false, &directory);
  if (found.code() == Code::kNotFound) {
    return Status::InvalidArgument(parent_dir + ": there is no backup to go on from");
  }
  ENGINE_RACE_RETURN_IF_ERROR(found);
  BackupIdentity parent;
  const Status read = ReadBackupManifest(directory.get(), parent_dir, &parent);
  if (read.code() == Code::kNotFound) {
    return read.Reworded(Code::kInvalidArgument, read.message());
  }
  ENGINE_RACE_RETURN_IF_ERROR(read);
  format::BackupManifest& manifest = identity->manifest;
  if (parent.manifest.store_id != manifest.store_id || parent.cut.size() != manifest.bucket_count ||
      parent.geometry.layout != identity->geometry.layout) {
    return Status::InvalidArgument(parent_dir + " is a backup of another store");
  }
  if (!log.HasNoted(parent.manifest.backup_id)) {
    return Status::InvalidArgument(
        parent_dir + " is no backup that the store can go on from: make a full one. Either the " +
        "store was put back to a state before it, or it is older than the last " +
        std::to_string(format::kNotedBackupCount) + " backups");
  }
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(parent_dir, error);
  if (error) return Status::FromErrno(parent_dir, error.value(), parent_dir);
  // A trailing slash would hide the last name.
  std::string name = absolute.lexically_normal().string();
  while (name.size() > 1 && name.back() == '/') name.pop_back();
  if (name.size() >= format::kBackupParentNameBytes) {
    return Status::InvalidArgument(name + ": the name is too long for a backup's manifest");
  }
  std::memcpy(manifest.parent_name, name.data(), name.size());
  manifest.parent_id = parent.manifest.backup_id;
  manifest.parent_checksum = parent.manifest.checksum;
  manifest.chain_length = parent.manifest.chain_length + 1;
  *since = std::move(parent.cut);
  return Status::Ok();
}

// The cut comes first: a record that the view does not show lies behind it. So the next backup,
// which takes all records from the cut on, misses none. Then all records that the view shows are
// made durable, or a power loss could give their numbers to others.
Status WritePieces(const Options& options, BucketLog* log, EnsureIndexFn ensure_index,
                   const BackupOptions& how, const std::vector<uint64_t>& since,
                   const io::File& data, BackupIdentity* identity, bool* is_stale) {
  Index* index = nullptr;
  ENGINE_RACE_RETURN_IF_ERROR(ensure_index(&index));
  ENGINE_RACE_RETURN_IF_ERROR(log->TakeCut(&identity->cut));
  ViewRegistry::View view;
  ENGINE_RACE_RETURN_IF_ERROR(index->views().Take(&view));
  const Snapshot pinned(view);
  if (!options.read_only) ENGINE_RACE_RETURN_IF_ERROR(log->Sync());
  format::BackupManifest& manifest = identity->manifest;
  PieceTotals totals;
  const auto make_sink = [&](std::unique_ptr<ViewSink>* sink) {
    auto made = std::make_unique<BackupSink>(data, *identity, since, &totals);
    ENGINE_RACE_RETURN_IF_ERROR(made->Init());
    *sink = std::move(made);
    return Status::Ok();
  };
  ENGINE_RACE_RETURN_IF_ERROR(
      WalkView(*log, *index, options, view.version, how.on_progress, make_sink, is_stale));
  manifest.record_count = totals.record_count.load();
  manifest.value_count = totals.value_count.load();
  manifest.piece_count = totals.piece_count.load();
  manifest.data_bytes = totals.next_offset.load();
  manifest.piece_checksum_sum = totals.checksum_sum.load();
  return data.Sync();
}

// Notes the backup, whose records are synced, before it is whole. A full disk may have no room for
// a note: later backups then cannot go on from this one. Nor can they where the store is only read.
Status NoteIn(BucketLog* log, const Options& options, const std::string& dir,
              const format::BackupManifest& manifest) {
  if (options.read_only) return Status::Ok();
  Status noted = log->NoteBackup(manifest.backup_id, manifest.parent_id);
  if (noted.code() != Code::kFull) return noted;
  Log(options.log, LogLevel::kWarning,
      "no later backup can go on from " + dir +
          ", because the store has no room for a note of it: " + noted.message());
  return Status::Ok();
}

Status FillBackup(const Options& options, BucketLog* log, EnsureIndexFn ensure_index,
                  const std::string& dir, const BackupOptions& how, int dir_fd,
                  BackupIdentity* identity, bool* is_stale) {
  ENGINE_RACE_RETURN_IF_ERROR(DescribeStore(*log, identity));
  std::vector<uint64_t> since;
  if (!how.since.empty()) {
    ENGINE_RACE_RETURN_IF_ERROR(NameParent(*log, how.since, identity, &since));
  }
  identity->cut.assign(identity->manifest.bucket_count, 0);
  ENGINE_RACE_RETURN_IF_ERROR(WriteBackupUnfinished(dir_fd, identity, options.file_mode));
  io::File data;
  ENGINE_RACE_RETURN_IF_ERROR(io::File::Open(dir_fd, format::kBackupDataName, io::Access::kReplace,
                                             io::Caching::kDirect, &data, options.file_mode));
  ENGINE_RACE_RETURN_IF_ERROR(
      WritePieces(options, log, ensure_index, how, since, data, identity, is_stale));
  ENGINE_RACE_RETURN_IF_ERROR(NoteIn(log, options, dir, identity->manifest));
  ENGINE_RACE_RETURN_IF_ERROR(sys::SyncNameOf(dir, dir_fd));
  return CommitBackup(dir_fd, identity, options.file_mode);
}

}  // namespace

Status MakeBackup(const Options& options, BucketLog* log, EnsureIndexFn ensure_index,
                  const std::string& dir, const BackupOptions& how, BackupReport* report) {
  UniqueFd directory;
  DirectoryLock lock;
  ENGINE_RACE_RETURN_IF_ERROR(LockForBackup(options, dir, &directory, &lock));
  BackupIdentity identity;
  ENGINE_RACE_RETURN_IF_ERROR(WithFreshViews([&](bool* is_stale) {
    identity = BackupIdentity();
    Status made =
        FillBackup(options, log, ensure_index, dir, how, directory.get(), &identity, is_stale);
    // The first failure is the one to tell. What stays all the same is no backup.
    if (!made.ok()) static_cast<void>(RemoveUnfinishedBackup(directory.get()).ok());
    return made;
  }));
  identity.Describe(report);
  return Status::Ok();
}

}  // namespace engine_race
