#include "engine_race/log/space_reserve.h"

#include <algorithm>
#include <string>
#include <utility>

#include "engine_race/base/clock.h"
#include "engine_race/base/file_system.h"
#include "engine_race/base/guarded.h"
#include "engine_race/base/round_up.h"
#include "engine_race/base/sys.h"
#include "engine_race/io/file.h"

namespace engine_race {
namespace {

// Others may give up and take back pieces all the while that a write finds the disk full.
constexpr uint32_t kMaxTries = 64;
// Each refused value would ask a disk again that seems to have room and refuses, by a quota for
// instance.
constexpr uint64_t kAskAgainNs = uint64_t{1000} * 1000 * 1000;

// Calls `visit` with each directory that holds logs: that of the store, and those of its paths.
Status VisitDirectories(const StoreFiles& files, FunctionRef<Status(int dir_fd)> visit) {
  ENGINE_RACE_RETURN_IF_ERROR(visit(files.directory.get()));
  for (const ValuePath& path : files.slots.paths()) {
    if (path.directory.valid()) ENGINE_RACE_RETURN_IF_ERROR(visit(path.directory.get()));
  }
  return Status::Ok();
}

// *own: cutting the file off would give all of its space back, and harm nobody. Not so a file with
// another name, one that a snapshot or a copy shares, or one that is larger than any reserve.
Status IsOwn(const io::File& file, uint64_t most_bytes, bool* own) {
  bool regular = false;
  uint64_t link_count = 0;
  uint64_t size_bytes = 0;
  ENGINE_RACE_RETURN_IF_ERROR(sys::RegularFile(file.fd(), &regular, &link_count));
  ENGINE_RACE_RETURN_IF_ERROR(file.Size(&size_bytes));
  *own = regular && link_count == 1 && size_bytes <= most_bytes && !sys::SharesBlocks(file.fd());
  return Status::Ok();
}

}  // namespace

void SpaceReserve::Adopt() noexcept {
  uint64_t found_bytes = whole_bytes();
  const Status looked = Guarded([&] {
    return VisitDirectories(files_, [&](int dir_fd) {
      io::File file;
      ENGINE_RACE_RETURN_IF_ERROR(io::File::Open(dir_fd, format::kReserveName, io::Access::kRead,
                                                 io::Caching::kBuffered, &file));
      bool own = false;
      uint64_t bytes = 0;
      ENGINE_RACE_RETURN_IF_ERROR(IsOwn(file, whole_bytes(), &own));
      ENGINE_RACE_RETURN_IF_ERROR(sys::AllocatedBytes(dir_fd, format::kReserveName, &bytes));
      found_bytes = std::min(found_bytes, own ? bytes : 0);
      return Status::Ok();
    });
  });
  if (!looked.ok() && looked.code() != Code::kNotFound) {
    Tell(LogLevel::kWarning, "the reserve of space cannot be looked at: recovery goes without it");
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  left_bytes_ = looked.ok() ? found_bytes / piece_bytes() * piece_bytes() : 0;
  is_short_ = left_bytes_ != whole_bytes();
}

void SpaceReserve::Prepare() noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  is_prepared_ = true;
  if (left_bytes_ == whole_bytes() && !is_short_) return;
  const Status filled = Guarded([&] { return Fill(whole_bytes()); });
  const bool is_full = filled.code() == Code::kFull;
  // The recovery may have found the disk full.
  if (!is_full) is_given_up_ = false;
  if (filled.ok()) return;
  Tell(LogLevel::kWarning, is_full ? "the disk has no room for the whole reserve of space"
                                   : "no space is set aside for deletions on a full disk");
}

Status SpaceReserve::SizeWithRoom(uint64_t* bytes) const {
  *bytes = whole_bytes();
  return VisitDirectories(files_, [&](int dir_fd) {
    uint64_t free_bytes = 0;
    ENGINE_RACE_RETURN_IF_ERROR(sys::FreeBytes(dir_fd, &free_bytes));
    if (free_bytes < piece_bytes()) return Status::Full("no room for the reserve");
    const uint64_t usable_bytes = free_bytes - piece_bytes();
    const uint64_t missing_bytes = whole_bytes() - left_bytes_;
    *bytes = std::min(*bytes, left_bytes_ + std::min(usable_bytes, missing_bytes) / piece_bytes() *
                                                piece_bytes());
    return Status::Ok();
  });
}

Status SpaceReserve::Fill(uint64_t bytes) {
  const auto fill = [this, bytes](int dir_fd) {
    io::File file;
    const auto open = [&] {
      return io::File::Open(dir_fd, format::kReserveName, io::Access::kCreate,
                            io::Caching::kBuffered, &file, options_.file_mode);
    };
    ENGINE_RACE_RETURN_IF_ERROR(open());
    bool own = false;
    ENGINE_RACE_RETURN_IF_ERROR(IsOwn(file, whole_bytes(), &own));
    if (!own) {
      ENGINE_RACE_RETURN_IF_ERROR(sys::Unlink(dir_fd, format::kReserveName));
      ENGINE_RACE_RETURN_IF_ERROR(open());
    }
    bool supported = false;
    ENGINE_RACE_RETURN_IF_ERROR(file.Reserve(/*keep_size=*/false, 0, bytes, &supported));
    return supported ? Status::Ok() : Status::NotSupported("the file system cannot reserve space");
  };
  // A process with such a limit may well have room for its logs.
  Status filled = sys::CheckFileSizeLimit(whole_bytes()).ok()
                      ? VisitDirectories(files_, fill)
                      : Status::NotSupported("files may not grow to the size of the reserve");
  if (filled.ok()) {
    left_bytes_ = bytes;
    generation_.fetch_add(1);
  } else {
    // A file system may have reserved a part before it refused.
    Shrink(left_bytes_, /*durably=*/false);
  }
  is_short_ = filled.ok() ? bytes != whole_bytes() : filled.code() != Code::kNotSupported;
  return filled;
}

// Leaves at most `bytes` of each file. Whether that has cut any of them.
bool SpaceReserve::Shrink(uint64_t bytes, bool durably) noexcept {
  bool has_cut = false;
  const auto cut = [&](int dir_fd) {
    io::File file;
    bool own = false;
    uint64_t size_bytes = 0;
    ENGINE_RACE_RETURN_IF_ERROR(io::File::Open(dir_fd, format::kReserveName, io::Access::kReadWrite,
                                               io::Caching::kBuffered, &file));
    ENGINE_RACE_RETURN_IF_ERROR(IsOwn(file, whole_bytes(), &own));
    ENGINE_RACE_RETURN_IF_ERROR(file.Size(&size_bytes));
    if (!own || size_bytes <= bytes) return Status::Ok();
    ENGINE_RACE_RETURN_IF_ERROR(file.Truncate(bytes));
    has_cut = true;
    return durably ? file.Sync() : Status::Ok();
  };
  static_cast<void>(Guarded([&] {
    return VisitDirectories(files_, [&](int dir_fd) {
      // A failure there keeps no other file from being cut.
      static_cast<void>(Guarded([&] { return cut(dir_fd); }));
      return Status::Ok();
    });
  }));
  return has_cut;
}

Status SpaceReserve::Write(FunctionRef<Status()> write, uint64_t left_bytes) {
  uint64_t generation = generation_;
  Status written = write();
  for (uint32_t i = 0; i < kMaxTries && written.code() == Code::kFull; ++i) {
    if (!GiveUpAfter(generation, left_bytes)) break;
    generation = generation_;
    written = Guarded(write);
  }
  return written;
}

// After a call that began with this generation and found the disk full. True: it may find room now.
bool SpaceReserve::GiveUpAfter(uint64_t generation, uint64_t left_bytes) noexcept {
  std::unique_lock<std::mutex> lock(mutex_);
  // Another thread has given up a piece meanwhile, or has found room for all of them.
  if (generation != generation_) return true;
  // There is no reserve here, and there will be none.
  if (left_bytes_ == 0 && !is_short_) return false;
  // Values are refused from here on, also where nothing is left to give up.
  is_given_up_ = is_short_ = true;
  if (left_bytes_ <= left_bytes * scale()) return false;
  // Some file systems give the blocks out again only once they are durably free. Where no file
  // could be cut, for want of a descriptor for instance, a later call may.
  if (!Shrink(left_bytes_ - piece_bytes(), /*durably=*/true)) return false;
  left_bytes_ -= piece_bytes();
  generation_.fetch_add(1);
  const bool tells = !std::exchange(has_told_, true);
  lock.unlock();
  if (tells) {
    Tell(LogLevel::kWarning,
         "the disk is full: the reserve of space is given up for deletions and moves");
  }
  return true;
}

Status SpaceReserve::CheckForValues(const io::File& file) {
  const auto leaves_enough = [this] {
    const std::lock_guard<std::mutex> lock(mutex_);
    return !is_prepared_ || left_bytes_ >= kLeftByValues * scale();
  };
  if (!is_given_up() || leaves_enough() || TakeBack() || leaves_enough()) return Status::Ok();
  dev_t values_on = 0;
  dev_t entries_on = 0;
  ENGINE_RACE_RETURN_IF_ERROR(sys::DeviceOf(file.fd(), &values_on));
  ENGINE_RACE_RETURN_IF_ERROR(sys::DeviceOf(files_.directory.get(), &entries_on));
  return values_on != entries_on ? Status::Ok()
                                 : Status::Full("the rest of the reserve is for entries");
}

bool SpaceReserve::TakeBack(bool has_released) noexcept {
  if (!is_short_.load(std::memory_order_relaxed)) return true;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!is_short_) return true;
  if (!has_released && MonotonicNs() < asks_after_ns_) return !is_given_up_;
  const Status filled = Guarded([this] {
    uint64_t bytes = 0;
    ENGINE_RACE_RETURN_IF_ERROR(SizeWithRoom(&bytes));
    // The whole of it may be there: a disk was full, and no file could be cut.
    if (bytes == left_bytes_ && bytes != whole_bytes())
      return Status::Full("no room for the reserve");
    Status asked = Fill(bytes);
    // A quota may leave less than what the file system has.
    while (asked.code() == Code::kFull && bytes > left_bytes_ + piece_bytes()) {
      bytes = left_bytes_ + RoundUp((bytes - left_bytes_) / 2, piece_bytes());
      asked = Fill(bytes);
    }
    if (asked.code() == Code::kFull) asks_after_ns_ = MonotonicNs() + kAskAgainNs;
    return asked.ok() && bytes != whole_bytes() ? Status::Full("no room for all of the reserve")
                                                : asked;
  });
  // What freed slots have left may not suffice, though no write has found the disk full.
  if (filled.code() != Code::kFull) is_given_up_ = false;
  return !is_given_up_;
}

void SpaceReserve::Tell(LogLevel level, const char* what) const noexcept {
  static_cast<void>(Guarded([&] {
    Log(options_.log, level, what);
    return Status::Ok();
  }));
}

Status CheckReserve(const StoreFiles& files) {
  return VisitDirectories(files, [](int dir_fd) {
    bool exists = false;
    ENGINE_RACE_RETURN_IF_ERROR(sys::Exists(dir_fd, format::kReserveName, &exists));
    io::File file;
    return exists ? io::File::Open(dir_fd, format::kReserveName, io::Access::kRead,
                                   io::Caching::kBuffered, &file)
                  : Status::Ok();
  });
}

}  // namespace engine_race
