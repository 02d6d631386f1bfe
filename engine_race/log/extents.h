// The extent table of a raw block device: it maps the extents of buckets to those of the device.
//
// A path's part of a bucket's value log is cut into logical extents, numbered from 0. Each gets a
// physical extent of the device when it is first written to, in ascending order, and keeps it for
// good. The table is a file in the store's directory. An entry is written before the first value
// that relies on it, through the page cache, so it outlives the process. Flush makes it outlive the
// machine.
//
// Thread safety: Find by any thread at any time, lock-free; FindOrAllocate and Flush by any thread
// once Create or Load has returned. Owner of its file; not movable.
#ifndef ENGINE_RACE_LOG_EXTENTS_H_
#define ENGINE_RACE_LOG_EXTENTS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/io/file.h"
#include "engine_race/log/device_format.h"
#include "engine_race/log/device_header.h"

namespace engine_race {

// The table's file of a path: "manifest_extents_00".
std::string ExtentTableName(uint32_t path_index);

class ExtentTable {
 public:
  ExtentTable() = default;
  ExtentTable(const ExtentTable&) = delete;
  ExtentTable& operator=(const ExtentTable&) = delete;

  // Makes an empty table in the store's directory, flushed. Replaces a table that may be there.
  Status Create(int dir_fd, const DeviceIdentity& identity, mode_t file_mode);

  // Opens the file and reads identity(), which is to be compared with the device before Load takes
  // memory for as many extents as it says. kCorruption for a missing, foreign or short table.
  Status Open(int dir_fd, uint32_t path_index, uint64_t store_id, bool read_only);
  // Reads the entries. kCorruption for a damaged table: entries that had been synced and are not
  // valid, or two of one logical extent. Other invalid entries are what a power loss left of the
  // last ones, and count as not given out.
  Status Load();

  // Where on the device a logical extent begins; false when it was never given out.
  bool Find(uint32_t bucket, uint32_t logical_extent, uint64_t* device_offset) const;

  // Find, that gives out the next extent of the device when there is none yet. kFull when the
  // device has no more, or the file system no room for the entry.
  Status FindOrAllocate(uint32_t bucket, uint32_t logical_extent, uint64_t* device_offset);

  // Returns when every extent given out before the call outlives power loss. After a failure every
  // later call fails until the table is opened again.
  Status Flush();

  const DeviceIdentity& identity() const { return identity_; }
  uint64_t memory_bytes() const { return word_count_ * sizeof(std::atomic<uint64_t>); }
  // How many extents have been given out. Any thread.
  uint64_t given_count() const {
    // Relaxed: a statistic.
    return given_count_.load(std::memory_order_relaxed);
  }

 private:
  uint64_t CheckOf(uint32_t bucket, uint32_t logical_extent, uint64_t physical_extent) const;
  uint64_t CheckOfMark(uint64_t count) const;
  Status AllocateWords();
  uint64_t FirstWordOf(uint64_t key) const;
  bool FindWord(uint64_t key, uint64_t* physical_extent) const;
  void Insert(uint64_t key, uint64_t physical_extent);
  Status ReadMark(uint64_t* synced_watermark) const;
  Status ReadEntries(std::vector<format::ExtentEntry>* entries) const;
  Status TakeEntries(const std::vector<format::ExtentEntry>& entries, uint64_t synced_watermark);
  Status WriteEntry(uint32_t bucket, uint32_t logical_extent, uint64_t physical_extent);

  DeviceIdentity identity_;
  io::File file_;
  bool read_only_ = false;

  // A hash table with linear probing, twice as large as the device has extents, so it never grows.
  // Words are only ever added. So a reader that meets a zero has seen every word of its key. A word
  // holds bucket, logical extent, and physical extent plus one, from the top bit down.
  std::unique_ptr<std::atomic<uint64_t>[]> words_;
  uint64_t word_count_ = 0;  // a power of two
  std::atomic<uint64_t> given_count_{0};

  std::mutex mutex_;  // guards what follows, and insertion
  std::vector<bool> given_;
  uint64_t next_ = 0;  // all physical extents below have been given out
  bool unsynced_ = false;

  std::mutex flush_mutex_;  // one flush at a time; taken before mutex_
  Status flush_failure_;    // under flush_mutex_
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_EXTENTS_H_
