// The index files of one store: places for extents, which are written once each and never changed.
//
// An extent lies in a place. Places are given back and used again. Every block of an extent carries
// a checksum that is seeded with the store, the generation of the extent, its place and the block's
// number. So readers need no pin. After the place was used again, a reader of the earlier extent
// finds blocks that are not whole.
//
// Thread-safe but for Open and Reserve. Threads that write at once mostly write into different
// files. The directory's descriptor must stay open as long as the store. Errors name the file.
#ifndef ENGINE_RACE_L1_EXTENT_STORE_H_
#define ENGINE_RACE_L1_EXTENT_STORE_H_

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/io/file.h"
#include "engine_race/l1/extent_id.h"
#include "engine_race/l1/extent_image.h"
#include "engine_race/log/format.h"

namespace engine_race::l1 {

class ExtentStore {
 public:
  // Touches no file. A file is made, with `file_mode`, by the first Write that needs it.
  // kIOError when the system gives no random number, kOutOfMemory.
  static Status Open(int dir_fd, uint64_t store_id, mode_t file_mode, bool writable,
                     std::unique_ptr<ExtentStore>* store);

  bool writable() const { return writable_; }

  // To be called once, before Write, Locate and ReadBlocks, with all extents that the root names,
  // or none. The root obeys all that IndexRoot promises. A failure reserves nothing, and may be
  // followed by a call with none. kCorruption: a place does not lie in its file, or a file is
  // missing. kIOError, kOutOfMemory.
  Status Reserve(std::span<const format::IndexExtent> extents);
  // After Reserve, once: gives back the space in the files of a writable store that no extent has.
  // It waits for the device, and a read of an extent need not wait for it.
  void DropUnnamed() noexcept;

  // Takes the lowest free place and a new generation, seals every block of the finished image and
  // writes it. The extent is durable after the next Sync. kFull where the disk, the quota or
  // RLIMIT_FSIZE has no room; kIOError, kCorruption (the file is not a regular one), kOutOfMemory.
  // After a failure the place is free again.
  Status Write(ExtentImage* image, ExtentId* id);
  // Gives a place back and its space on the device: nobody names the extent any more, the durable
  // root included. Where the file system cannot punch, the space waits for the place's next extent.
  void Free(const ExtentId& id) noexcept;

  // Where a block lies, for a read of format::kIndexBlockBytes.
  struct Location {
    const io::File* file;  // lives as long as the store
    uint64_t offset;
  };
  // Of an extent that was reserved or written, freed or not.
  Location Locate(const ExtentId& id, uint32_t block) const;
  // Whether `data`, of format::kIndexBlockBytes, is that block of that extent. Block 0 has the
  // fences. The count of a whole block is at least 1 and never leads beyond the block.
  bool IsWhole(const ExtentId& id, uint32_t block, const char* data) const;
  // Reads neighbouring blocks of one extent into memory aligned to kIoAlignment, and checks each.
  // Waits for the device. kCorruption names the file, the place and the block; kIOError.
  Status ReadBlocks(const ExtentId& id, uint32_t first_block, uint32_t block_count,
                    char* data) const;
  // Makes all extents written so far durable, and the names of their files. After a failed flush
  // the system may take for clean what never reached the device. So the next call first writes the
  // extents again that the failed one was to make durable.
  Status Sync();

  // Bytes of extents that are reserved or written, and not freed.
  uint64_t used_bytes() const { return used_bytes_.load(std::memory_order_relaxed); }
  // Bytes of extents that this object has written.
  uint64_t written_bytes() const { return written_bytes_.load(std::memory_order_relaxed); }

 private:
  struct IndexFile {
    // Opened under mutex_, before anybody has the id of an extent in it, and then never again.
    io::File file;
    bool unsynced = false;      // under mutex_
    bool flush_failed = false;  // under sync_mutex_: the last one
  };
  // kSyncing: written before the flush that is under way. If that fails it is kUnsynced again.
  enum class PlaceState : uint8_t { kSynced, kUnsynced, kSyncing };
  struct Place {
    uint16_t block_count = 0;  // of its extent, with that of the fences; 0: free
    PlaceState state = PlaceState::kSynced;
  };

  ExtentStore(int dir_fd, uint64_t store_id, mode_t file_mode, bool writable, uint64_t generation);
  // Under mutex_.
  Status OpenFile(uint32_t number, io::Access access);
  Status ReserveLocked(std::span<const format::IndexExtent> extents);
  Status DropUnnamedOf(uint32_t number);
  void Occupy(uint32_t place, uint32_t block_count);

  Status TakePlace(uint32_t block_count, uint32_t* place);
  Status WriteOnce(ExtentImage* image, ExtentId* id);
  Status ReadOnce(const ExtentId& id, uint32_t first_block, uint32_t block_count, char* data) const;
  // Both under sync_mutex_. WriteAgain reads the unsynced extents of a file and writes them.
  Status WriteAgain(uint32_t number);
  Status SyncFile(uint32_t number);
  // Changes the state of the extents of a file that are in the state `from`.
  void ChangeStates(uint32_t number, PlaceState from, PlaceState to) noexcept;
  // Lets the next search begin behind a place that could not be written. Under mutex_.
  void SkipPlace(uint32_t place, const Status& why) noexcept;
  void GiveBack(uint32_t place, uint32_t block_count) noexcept;

  const int dir_fd_;
  const uint64_t store_id_;
  const mode_t file_mode_;
  const bool writable_;
  std::array<IndexFile, format::kIndexFileCount> files_;
  std::mutex sync_mutex_;  // of Sync, taken before mutex_
  std::mutex mutex_;
  std::vector<Place> places_;    // under mutex_
  uint32_t lowest_free_ = 0;     // under mutex_: where the search for a free place begins
  bool unsynced_names_ = false;  // under mutex_
  std::atomic<uint64_t> next_generation_;
  // Counters that others only look at: relaxed.
  std::atomic<uint64_t> used_bytes_{0};
  std::atomic<uint64_t> written_bytes_{0};
};

}  // namespace engine_race::l1

#endif  // ENGINE_RACE_L1_EXTENT_STORE_H_
