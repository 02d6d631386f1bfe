#include "engine_race/copies/backup_chain.h"

#include <filesystem>
#include <utility>

#include "engine_race/base/sys.h"

namespace engine_race {
namespace {

std::string IdText(uint64_t id) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text(16, '0');
  for (size_t i = 0; i < text.size(); ++i) text[i] = kDigits[id >> (60 - 4 * i) & 15];
  return text;
}

}  // namespace

Status BackupChain::OpenOne(const std::string& dir, Backup* backup) {
  UniqueFd directory;
  const Status found = sys::OpenDirectory(dir, /*create=*/false, &directory);
  if (found.code() == Code::kNotFound) return Status(Code::kNotFound, dir + " is missing");
  ENGINE_RACE_RETURN_IF_ERROR(found);
  ENGINE_RACE_RETURN_IF_ERROR(ReadBackupManifest(directory.get(), dir, &backup->identity));
  backup->name = dir + "/" + format::kBackupDataName;
  bool exists = false;
  ENGINE_RACE_RETURN_IF_ERROR(sys::Exists(directory.get(), format::kBackupDataName, &exists));
  if (!exists) return Status::Corruption(backup->name + " is missing");
  return io::File::Open(directory.get(), format::kBackupDataName, io::Access::kRead,
                        io::Caching::kDirect, &backup->data);
}

// Walks the headers of all pieces.
Status BackupChain::FindPieces(Backup* backup) {
  const format::BackupManifest& manifest = backup->identity.manifest;
  const auto damaged = [&](const std::string& why) {
    return Status::Corruption(backup->name + ": " + why);
  };
  uint64_t size_bytes = 0;
  ENGINE_RACE_RETURN_IF_ERROR(backup->data.Size(&size_bytes));
  if (size_bytes != manifest.data_bytes) {
    return damaged("it has " + std::to_string(size_bytes) + " bytes, not " +
                   std::to_string(manifest.data_bytes));
  }
  backup->pieces.assign(manifest.bucket_count, {});
  std::vector<bool> is_whole(manifest.bucket_count, true);
  uint64_t piece_count = 0;
  uint64_t checksum_sum = 0;
  for (uint64_t offset = 0; offset < size_bytes;) {
    format::BackupPiece header;
    PiecePlace place;
    ENGINE_RACE_RETURN_IF_ERROR(ReadPieceHeader(backup->data, backup->name, manifest.backup_id,
                                                backup->identity.geometry.value_bytes(), offset,
                                                &header, &place));
    const uint64_t end = offset + place.size_bytes;
    if (end > size_bytes || header.bucket >= manifest.bucket_count ||
        header.number != backup->pieces[header.bucket].size() ||
        (header.number != 0 && is_whole[header.bucket])) {
      return damaged("the piece at " + std::to_string(offset) + " does not belong there");
    }
    is_whole[header.bucket] = header.is_last != 0;
    backup->pieces[header.bucket].push_back(place);
    checksum_sum += header.checksum;
    ++piece_count;
    offset = end;
  }
  for (uint32_t bucket = 0; bucket < manifest.bucket_count; ++bucket) {
    if (!is_whole[bucket]) return damaged("bucket " + std::to_string(bucket) + " has no end");
  }
  if (piece_count != manifest.piece_count || checksum_sum != manifest.piece_checksum_sum) {
    return damaged("its pieces are not those that the manifest counts");
  }
  return Status::Ok();
}

Status BackupChain::OpenParent(const std::string& dir, const Backup& child,
                               std::unique_ptr<Backup>* parent) {
  const format::BackupManifest& manifest = child.identity.manifest;
  const std::filesystem::path named = child.identity.parent_name();
  const std::filesystem::path beside =
      std::filesystem::path(dir).lexically_normal() / ".." / named.filename();
  Status first = Status::Ok();
  for (const std::filesystem::path& place : {named, beside}) {
    auto found = std::make_unique<Backup>();
    Status opened = OpenOne(place.string(), found.get());
    if (opened.code() == Code::kNotFound) {
      opened = opened.Reworded(Code::kInvalidArgument,
                               dir + " goes on from backup " + IdText(manifest.parent_id) +
                                   ", which is missing: " + opened.message());
    } else if (opened.ok() &&
               (found->identity.manifest.backup_id != manifest.parent_id ||
                found->identity.manifest.checksum != manifest.parent_checksum ||
                found->identity.manifest.store_id != manifest.store_id ||
                found->identity.cut.size() != child.identity.cut.size() ||
                found->identity.geometry.layout != child.identity.geometry.layout ||
                found->identity.manifest.chain_length + 1 != manifest.chain_length)) {
      opened = Status::InvalidArgument(dir + " goes on from backup " + IdText(manifest.parent_id) +
                                       ", but in " + place.string() + " lies backup " +
                                       IdText(found->identity.manifest.backup_id));
    }
    if (opened.ok()) {
      *parent = std::move(found);
      return Status::Ok();
    }
    if (first.ok()) first = std::move(opened);
  }
  return first;
}

Status BackupChain::Open(const std::string& dir) {
  backups_.clear();
  auto newest = std::make_unique<Backup>();
  ENGINE_RACE_RETURN_IF_ERROR(OpenOne(dir, newest.get()));
  ENGINE_RACE_RETURN_IF_ERROR(FindPieces(newest.get()));
  std::string child_dir = dir;
  backups_.push_back(std::move(newest));
  while (backups_.back()->identity.manifest.parent_id != 0) {
    // Ends: the length of the chain falls with each parent.
    if (backups_.back()->identity.manifest.chain_length <= 1) {
      return Status::Corruption(child_dir + ": the first backup of its chain names a parent");
    }
    std::unique_ptr<Backup> parent;
    ENGINE_RACE_RETURN_IF_ERROR(OpenParent(child_dir, *backups_.back(), &parent));
    ENGINE_RACE_RETURN_IF_ERROR(FindPieces(parent.get()));
    child_dir = std::filesystem::path(parent->name).parent_path().string();
    backups_.push_back(std::move(parent));
  }
  return Status::Ok();
}

// Of a key that the newest backup lists without its value.
Status BackupChain::FindValue(uint64_t key, std::vector<PieceWalk>* walks,
                              const char** value) const {
  for (size_t i = 1; i < walks->size(); ++i) {
    PieceWalk& walk = (*walks)[i];
    bool done = false;
    ENGINE_RACE_RETURN_IF_ERROR(walk.Seek(key, &done));
    if (done || walk.key() != key) {
      return Status::Corruption(backups_[i]->name +
                                ": it does not list a key that a later backup "
                                "took over from it");
    }
    if (walk.has_value()) return walk.Value(value);
  }
  return Status::Corruption(backups_.back()->name + ": a key has no value in any backup");
}

Status BackupChain::WalkBucket(uint32_t bucket, RecordVisitFn visit) const {
  std::vector<PieceWalk> walks;
  walks.reserve(backups_.size());
  for (const std::unique_ptr<Backup>& backup : backups_) {
    walks.emplace_back(backup->data, backup->name, backup->identity.manifest.backup_id,
                       newest().geometry.value_bytes(), backup->pieces[bucket]);
  }
  PieceWalk& listed = walks.front();
  bool done = false;
  ENGINE_RACE_RETURN_IF_ERROR(listed.Next(&done));
  while (!done) {
    const char* value = nullptr;
    if (!newest().geometry.IsIn(bucket, listed.key())) {
      return Status::Corruption(backups_.front()->name + ": a key is not of its bucket");
    }
    ENGINE_RACE_RETURN_IF_ERROR(listed.has_value() ? listed.Value(&value)
                                                   : FindValue(listed.key(), &walks, &value));
    ENGINE_RACE_RETURN_IF_ERROR(visit(listed.key(), value));
    ENGINE_RACE_RETURN_IF_ERROR(listed.Next(&done));
  }
  return Status::Ok();
}

}  // namespace engine_race
