// Space that is set aside for what must go on while the disk is full.
//
// Without any space nothing can be freed: a deletion is a record, and live records are moved before
// their rows are freed. So each directory of a store that holds logs has a small file of
// reserved space. On a full disk it is given up piece by piece. Recovery, deletions, moved records
// and Sync use it, and so do the files that say what the logs hold. Other writes are refused until
// all of it is taken back, so that they do not use it up.
//
// The file holds no data, and is made again where it is missing. A store goes without where the
// file system cannot reserve space.
//
// Thread safety: every call from any thread. Its lock is taken last.
#ifndef ENGINE_RACE_LOG_SPACE_RESERVE_H_
#define ENGINE_RACE_LOG_SPACE_RESERVE_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>

#include "engine_race/base/function_ref.h"
#include "engine_race/base/options.h"
#include "engine_race/base/round_up.h"
#include "engine_race/base/status.h"
#include "engine_race/io/file.h"
#include "engine_race/log/geometry.h"
#include "engine_race/log/store_files.h"

namespace engine_race {

class SpaceReserve {
 public:
  // In each directory, where 16 groups of values fit. Stores with larger groups have a multiple of
  // this and of the sizes below.
  static constexpr uint64_t kBytes = uint64_t{2} << 20;
  static constexpr uint64_t kPieceBytes = kBytes / 8;
  // So much a write must leave of each file; for Write and GiveUp. Sync leaves half to deletions.
  // Deletions and moved values leave a quarter to entries: without entries nothing is durable, and
  // no bucket can be cleaned. Entries of appended records leave an eighth to `key_rows`, which
  // notes freed slots.
  static constexpr uint64_t kLeftBySync = 4 * kPieceBytes;
  static constexpr uint64_t kLeftByValues = 2 * kPieceBytes;
  static constexpr uint64_t kLeftByEntries = kPieceBytes;

  // Works on both, which outlive it.
  SpaceReserve(const StoreFiles& files, const Options& options)
      : files_(files), options_(options) {}

  // Before recovery writes anything: counts what an earlier opening has left, and takes no space.
  void Adopt() noexcept;
  // Once, when recovery has what it needs: makes the files, or what is missing of them. Where the
  // disk has no room for that, values are refused only once a write has found the disk full.
  void Prepare() noexcept;

  // Calls `write` again while it answers kFull and a piece can be given up.
  Status Write(FunctionRef<Status()> write, uint64_t left_bytes = 0);
  // For a write that found the disk full: gives up a piece. False: no more than `left_bytes` are
  // left, or no file could be cut.
  bool GiveUp(uint64_t left_bytes = 0) noexcept { return GiveUpAfter(generation_, left_bytes); }
  // Whether writes of values are refused, until TakeBack.
  bool is_given_up() const {
    // Relaxed: a hint. TakeBack looks under the lock.
    return is_given_up_.load(std::memory_order_relaxed);
  }
  // Whether values may be written to this file of the logs now; takes space back if it must. kFull
  // while less than kLeftByValues is left: that is for entries and `key_rows`, in whose file system
  // the file lies. Recovery writes all that it must. Whether users may write says is_given_up.
  Status CheckForValues(const io::File& file);
  // Takes back what is missing, or the pieces of it for which the disk has room. False: not all is
  // back, and values stay refused. After another failure writes may be tried: there may be room for
  // them. A disk that has refused is asked again only with `has_released`, when space was given
  // back to it, or after a while.
  bool TakeBack(bool has_released = false) noexcept;

 private:
  // How many times kBytes.
  uint64_t scale() const {
    constexpr uint64_t kGroups = 16;
    const uint64_t wanted = kGroups * files_.identity.geometry.value_group_bytes;
    return std::max<uint64_t>(RoundUp(wanted, kBytes) / kBytes, 1);
  }
  uint64_t whole_bytes() const { return kBytes * scale(); }
  uint64_t piece_bytes() const { return kPieceBytes * scale(); }
  bool GiveUpAfter(uint64_t generation, uint64_t left_bytes) noexcept;
  // *bytes: the largest size in whole pieces that each file may have, so that a piece stays free
  // for writes under way. kFull where there is none.
  Status SizeWithRoom(uint64_t* bytes) const;
  // Reserves `bytes` of each file. kFull: all have what they had before.
  Status Fill(uint64_t bytes);
  bool Shrink(uint64_t bytes, bool durably) noexcept;
  void Tell(LogLevel level, const char* what) const noexcept;

  const StoreFiles& files_;
  const Options& options_;
  // Relaxed everywhere: hints, which change under the lock.
  std::atomic<bool> is_given_up_{false};
  // A part is missing that the file system may have later.
  std::atomic<bool> is_short_{false};
  // Changes with the size, so that two threads that find the disk full give up one piece.
  std::atomic<uint64_t> generation_{0};
  std::mutex mutex_;
  uint64_t left_bytes_ = 0;   // of each file
  bool is_prepared_ = false;  // recovery has what it needs
  uint64_t asks_after_ns_ = 0;
  bool has_told_ = false;
};

// kCorruption: anything but a regular file has the name of the reserve.
Status CheckReserve(const StoreFiles& files);

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_SPACE_RESERVE_H_
