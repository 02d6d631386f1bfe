// The lock of a directory that a store keeps files in: its own, and each of its paths.
//
// It is an open-file-description lock of the whole of `manifest_lock`, which is never renamed. A
// writer names its process in the file, for the messages of those that it keeps out, and empties it
// at its end. Beside that only the patience of readers depends on the text. The destructor drops
// the lock, in the process that took it. Children that were forked meanwhile have descriptors of
// the same opening: they can neither keep the lock longer nor drop it. When the process dies first,
// the kernel drops the lock with the last of these descriptors. Other opens of the file in the same
// process neither share nor end it.
//
// Owner of its descriptors; movable.
// Thread safety: none, one thread at a time. Invariant: a lock file that this lock has made and
// that was never settled is removed with it.
#ifndef ENGINE_RACE_LOG_DIRECTORY_LOCK_H_
#define ENGINE_RACE_LOG_DIRECTORY_LOCK_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string_view>

#include "engine_race/base/status.h"
#include "engine_race/base/sys.h"
#include "engine_race/io/file.h"

namespace engine_race {

class DirectoryLock {
 public:
  DirectoryLock() = default;
  DirectoryLock(DirectoryLock&&) noexcept = default;
  DirectoryLock& operator=(DirectoryLock&& other) noexcept;
  // Drops the lock. Removes the lock file first, if this lock has made it and was never settled.
  ~DirectoryLock();

  // Why a lock to write is taken. Those who want to read wait for the end of a recovery.
  enum class Purpose { kWriting, kRecovery };
  // Nobody else may have the directory locked. The lock file is made where it is missing, with
  // `file_mode`. kIOError when the lock is held, and a message that says by whom, as far as known.
  // kNotSupported where no such lock can be had.
  static Status TakeToWrite(int dir_fd, mode_t file_mode, DirectoryLock* lock,
                            Purpose purpose = Purpose::kWriting);
  // For a store that only reads, beside others that do. Waits while another process has the lock
  // for a recovery, up to kPatience. kNotFound where there is no lock file: it is not made.
  static Status TakeToRead(int dir_fd, DirectoryLock* lock);
  static constexpr std::chrono::seconds kPatience{60};
  static constexpr std::chrono::milliseconds kRetryInterval{10};

  // A store is there: the lock file stays.
  void Settle() { made_in_.Reset(); }

  // For one that reads beside a writer: opens the file, and takes no lock. kNotFound where there is
  // none.
  static Status Watch(int dir_fd, DirectoryLock* lock);
  // Of the writer: it has recovered the store, and readers may follow. `opening_id`, not 0, names
  // this opening of the store. A failure is no matter to the writer, but nobody can follow it.
  Status NoteComplete(uint64_t opening_id);
  // The text of a watched file says how far a writer is: none has the lock, one opens the store, or
  // one has opened it. kInterrupted: the last one has ended while it opened the store.
  enum class Writer { kNone, kOpening, kComplete, kInterrupted };
  struct Sight {
    Writer writer = Writer::kNone;
    // Of the last writer that has opened the store and named itself; 0: it has closed it.
    uint64_t opening_id = 0;
    // When the file was changed last: each writer changes it.
    uint64_t changed_ns = 0;

    friend bool operator==(const Sight&, const Sight&) = default;
  };
  Status Look(Sight* sight) const;
  // Whether the directory still has the file.
  Status IsThere(int dir_fd, bool* same) const;

 private:
  bool TakenHere() const;
  Status NameOwner(std::string_view mark, uint64_t opening_id);

  io::File file_;
  // The process that took the lock.
  pid_t owner_ = 0;
  // Whether the file may name this process.
  bool is_named_ = false;
  // The directory, if this lock has made the file there and is to remove it.
  UniqueFd made_in_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_DIRECTORY_LOCK_H_
