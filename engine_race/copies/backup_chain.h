// A backup with its parents, opened to be read: what was live at its moment, and each value from
// the newest backup that holds it.
//
// The newest backup lists every live key. A value that it does not hold was not written since its
// parent's cut, so the parent lists the key as well, and so on.
//
// Thread safety: Open by one thread; WalkBucket of different buckets by any number of threads.
// Owner of the open files. Invariant: every backup of the chain is of one store.
#ifndef ENGINE_RACE_COPIES_BACKUP_CHAIN_H_
#define ENGINE_RACE_COPIES_BACKUP_CHAIN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine_race/base/function_ref.h"
#include "engine_race/base/status.h"
#include "engine_race/copies/backup_manifest.h"
#include "engine_race/copies/backup_piece.h"

namespace engine_race {

class BackupChain {
 public:
  // Opens the backup in `dir` and its parents. A parent lies where its child says, or in the same
  // directory as its child under the name that it had. kNotFound when there is no backup in `dir`,
  // kInvalidArgument when a parent is missing or another backup, kCorruption, kNotSupported.
  Status Open(const std::string& dir);

  // Of the newest backup. All of the chain have values of its size.
  const BackupIdentity& newest() const { return backups_.front()->identity; }
  uint64_t size_bytes() const { return newest().manifest.data_bytes; }

  // Calls visit(key, value) for each record of the bucket, in order of key, and ends with its first
  // failure. Everything is compared with its checksum: kCorruption.
  using RecordVisitFn = FunctionRef<Status(uint64_t key, const char* value)>;
  Status WalkBucket(uint32_t bucket, RecordVisitFn visit) const;

 private:
  struct Backup {
    BackupIdentity identity;
    std::string name;  // of the file of pieces, for messages
    io::File data;
    std::vector<std::vector<PiecePlace>> pieces;  // by bucket
  };

  static Status OpenOne(const std::string& dir, Backup* backup);
  static Status FindPieces(Backup* backup);
  Status OpenParent(const std::string& dir, const Backup& child, std::unique_ptr<Backup>* parent);
  Status FindValue(uint64_t key, std::vector<PieceWalk>* walks, const char** value) const;

  // The newest first.
  std::vector<std::unique_ptr<Backup>> backups_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_COPIES_BACKUP_CHAIN_H_
