// The table of segments: which places of the logs belong to which bucket.
//
// A segment is a row of slots of a bucket. It gets a place in a key file when it is first written
// to. With that comes one in the value file or device beside it. A bucket that grows gets several
// neighbouring places at once. Entries are written through the page cache before anything is
// written to their places, so they outlive the process. Flush makes them outlive the machine.
//
// The place of a row that holds nothing can be given back: GiveBack, Flush, and then Free. Other
// rows get it only when the flush has made its new entry durable. So no power loss leaves two
// entries of one row, or an entry of one bucket where another has rows.
//
// Thread safety: Find, SegmentEnd and given_count by any thread at any time, lock-free. Calls that
// give places or take them back, and Flush, by any thread once Load has returned. Owner of the
// lists of places; not movable.
#ifndef ENGINE_RACE_LOG_SEGMENT_TABLE_H_
#define ENGINE_RACE_LOG_SEGMENT_TABLE_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "engine_race/base/function_ref.h"
#include "engine_race/base/status.h"
#include "engine_race/io/file.h"
#include "engine_race/log/geometry.h"
#include "engine_race/log/segment_format.h"
#include "engine_race/log/segment_lists.h"

namespace engine_race {

class SegmentTable {
 public:
  // Files of one path: `first_file` and those behind it. Each has at most `capacity` places.
  struct Path {
    uint32_t first_file = 0;
    uint32_t file_count = 0;
    uint64_t capacity = 0;
  };
  // Whether a file has room for its first `place_count` segments. Called under the table's mutex.
  using HasRoomFn = FunctionRef<bool(uint32_t file, uint64_t place_count)>;
  // Free space of a path, by its number. Asked where there are several, without the mutex.
  using FreeBytesFn = FunctionRef<uint64_t(size_t path)>;
  // Makes that room. It may wait for writes to the file: it is called without the mutex.
  using GrowFn = FunctionRef<Status(uint32_t file, uint64_t place_count)>;
  // Makes a place ready, by the number of its entry, before it has one. Without the mutex.
  using PrepareFn = FunctionRef<Status(uint64_t number)>;

  SegmentTable(const Geometry& geometry, uint64_t seed_id, std::vector<Path> paths);
  SegmentTable(const SegmentTable&) = delete;
  SegmentTable& operator=(const SegmentTable&) = delete;
  ~SegmentTable();

  // Reads the entries from `file`, which outlives the table. *damaged_count: entries that fail
  // their check, and belong to no bucket. kCorruption for two entries of one segment, but
  // `beside_writer`, who may have moved it meanwhile. kOutOfMemory.
  Status Load(const io::File& file, uint64_t* damaged_count, bool beside_writer = false);
  // Whether Load has found zeros in front of other entries of a file. Places are given from the
  // lowest one on, so they were lost, unless a power loss has kept them from the disk.
  bool lacks_entries() const { return lacks_entries_; }
  // After Load: reads the places of one bucket anew, where another process gives them. Calls
  // open(file) before a place in that file can be found. An entry that fails its check may be in
  // the middle of its write. Not beside Give.
  using OpenFn = FunctionRef<Status(uint32_t file)>;
  Status Reload(uint32_t bucket, OpenFn open);

  // False: the segment has no place.
  bool Find(uint32_t bucket, uint64_t index, SegmentPlace* place) const {
    return lists_.Find(bucket, index, place);
  }
  // No segment of the bucket from this one on has a place.
  uint64_t SegmentEnd(uint32_t bucket) const { return lists_.end(bucket); }
  // Of its entry in the table. Rows lie in the order of these numbers.
  uint64_t NumberOf(const SegmentPlace& place) const {
    const uint64_t page = uint64_t{place.place} / kPage * file_count_ + place.file;
    return page * kPage + place.place % kPage;
  }

  // Gives the segment a place, unless it has one, and maybe the next segments of the bucket, too.
  // kFull when the devices have no more places, or the file system no room for the entries. After
  // another failure of the file every later call fails.
  // With `prepare` this segment alone gets one, and a place that Free has not freed is prepared.
  Status Give(uint32_t bucket, uint64_t index, FreeBytesFn free_bytes_of, HasRoomFn has_room,
              GrowFn grow, const PrepareFn* prepare = nullptr);
  // Takes its place from a segment. It is given to another one only after Free. kFull changes
  // nothing. After another failure of the file every later call fails.
  Status GiveBack(uint32_t bucket, uint64_t index, SegmentPlace* place);
  // After a Flush that began after GiveBack.
  void Free(const SegmentPlace& place) noexcept;
  // Gives all free places of the file before `place_end` to no bucket, for good: they may hold
  // segments whose entries are lost. After a failure they are not given by this table alone.
  Status SetAside(uint32_t file, uint64_t place_end);
  // Whether a place is given. Not beside Give.
  bool IsGiven(uint32_t file, uint64_t place) const {
    return place < states_[file].size() && states_[file][place] == State::kGiven;
  }

  // Writes the whole table once more. A flush that failed may have left pages that the kernel holds
  // for clean and no disk has. Places whose entries are missing are free from here on.
  Status WriteAgain();
  // Returns when every place that was given before the call outlives power loss. After a failure
  // every later call fails.
  Status Flush();

  // Places of a file that were given.
  uint64_t given_count(uint32_t file) const {
    // Relaxed: a statistic.
    return given_counts_[file].load(std::memory_order_relaxed);
  }
  // All places of a file that are given lie before this one. Not beside Give.
  uint64_t PlaceEnd(uint32_t file) const;
  // Calls cut(end) with that end, while no place is given.
  template <typename Cut>
  void CutAtEnd(uint32_t file, const Cut& cut) {
    const std::lock_guard<std::mutex> lock(mutex_);
    cut(PlaceEnd(file));
  }

 private:
  // Of a place. kFreed: given back in this opening, and freed.
  enum class State : uint8_t { kNone, kFreed, kGiven };

  static constexpr uint64_t kPage = format::kTablePageSegments;
  static constexpr uint64_t kListedPerEntry = 4;

  static bool IsHole(const format::SegmentEntry& entry) {
    return entry.bucket == 0 && entry.index == 0 && entry.check == 0;
  }
  format::SegmentEntry EntryOf(uint32_t bucket, uint64_t index, uint64_t number) const;
  // Calls take(entry, number) for each entry that is not zero, of `count` from `number` on.
  // *read_count: how many of them the file has.
  template <typename TakeFn>
  Status ReadEntries(uint64_t number, size_t count, size_t* read_count, const TakeFn& take) const;
  // How long the lists may be together, with so many entries that outlive power loss.
  uint64_t MostListed(uint64_t entry_count) const {
    return entry_count * paths_.size() * kListedPerEntry + file_count_ * kPage * 2;
  }
  Status ReadMostListed(uint64_t* most_listed) const;
  uint64_t EntryCount() const;
  bool IsSound(const format::SegmentEntry& entry, uint64_t number) const;
  Status TakeEntry(const format::SegmentEntry& entry, uint64_t number, uint64_t most_listed,
                   bool beside_writer, uint64_t* damaged_count);
  SegmentPlace PlaceOf(uint64_t number) const {
    const uint64_t page = number / kPage;
    return {static_cast<uint32_t>(page % file_count_),
            static_cast<uint32_t>(page / file_count_ * kPage + number % kPage)};
  }
  // The file of a path that has the segments of a bucket.
  uint32_t FileOf(const Path& path, uint32_t bucket) const {
    return path.first_file +
           static_cast<uint32_t>(uint64_t{bucket} * path.file_count / geometry_.bucket_count);
  }
  uint64_t CapacityOf(uint32_t file) const;
  void Note(const SegmentPlace& place, State state);
  void FindNext();
  // Calls visit(bucket, index, number) for each segment that has a place.
  template <typename Visit>
  void ForEachGiven(const Visit& visit) const;
  const Path* ChoosePath(uint32_t bucket, uint64_t index,
                         std::span<const uint64_t> free_bytes) const;
  bool Choose(uint32_t bucket, uint64_t index, std::span<const uint64_t> free_bytes, bool alone,
              SegmentPlace* first, uint64_t* count);
  Status PrepareAndGive(uint32_t bucket, uint64_t index, const SegmentPlace& place,
                        PrepareFn prepare, std::unique_lock<std::mutex>* lock);
  Status WriteEntries(std::span<const format::SegmentEntry> entries, uint64_t number);
  Status GiveChosen(uint32_t bucket, uint64_t index, const SegmentPlace& first, uint64_t count);
  Status WasInterrupted() const;

  const Geometry geometry_;
  const uint64_t seed_id_;
  const std::vector<Path> paths_;
  uint32_t file_count_ = 0;
  const io::File* file_ = nullptr;

  std::vector<std::atomic<uint64_t>> given_counts_;

  std::mutex mutex_;  // guards what follows, but for Find and SegmentEnd
  SegmentLists lists_;
  // Of each file: its places, and the first one that may be given. Before the first flush it lies
  // behind all that Load has found: a power loss may bring back what free ones had.
  std::vector<std::vector<State>> states_;
  std::vector<uint64_t> next_;
  uint64_t flushed_count_ = 0;  // of all files' places when the last flush began
  bool lacks_entries_ = false;
  bool has_flushed_ = false;
  // Load found entries that nothing may have flushed.
  bool unsynced_ = true;
  // A write has failed, and its entries may be there. Others of the same segments would be two.
  bool in_doubt_ = false;

  std::mutex flush_mutex_;     // one flush at a time; taken before mutex_
  bool flush_failed_ = false;  // under flush_mutex_
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_SEGMENT_TABLE_H_
