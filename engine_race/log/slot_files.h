// Where the slots of buckets lie: the key files and value files of a store, in its own directory or
// on its paths, in segments.
//
// Each place of a segment in a key file has one in the value file beside that. A path that is a
// directory has some value files, and one that is a raw device is a value file itself. The key
// files of all paths lie in the store's directory. A group of values never crosses a segment.
//
// The first file of each path is always open. The others are open from their first segment on.
// That is before a place in them is published, so a location always has an open file.
//
// Owner of the files, of the paths' locks and of the table of segments. Immutable once opened, but
// for the table and for files that Give opens. Calls are thread-safe but for those that say
// otherwise.
#ifndef ENGINE_RACE_LOG_SLOT_FILES_H_
#define ENGINE_RACE_LOG_SLOT_FILES_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/io/file.h"
#include "engine_race/log/file_growth.h"
#include "engine_race/log/geometry.h"
#include "engine_race/log/planned_files.h"
#include "engine_race/log/segment_table.h"
#include "engine_race/log/slot_location.h"
#include "engine_race/log/value_path.h"

namespace engine_race {

class SlotFiles {
 public:
  // Takes the paths; `dir_fd` is the store's own directory. `caching`: of key files and value
  // files. Then the table is to be opened, through mutable_table_file, and the files of plan() that
  // are not opened late.
  void Init(const Geometry& geometry, int dir_fd, std::vector<ValuePath> paths,
            io::Caching caching = io::Caching::kDirect);
  // The key file of that number, and the value file beside it unless that is a device.
  std::span<const PlannedFile> plan(uint32_t file) const { return plans_[file]; }
  // Reads the table. *damaged_count: entries of the table that are damaged.
  Status Load(uint64_t seed_id, uint64_t* damaged_count, bool beside_writer = false);
  // Opens the files that have segments, and, from then on, each file that gets its first one.
  // Unless `read_only`, files that a power loss has left short get the size of what they hold.
  Status OpenUsed(bool read_only);
  // In a store that only reads: takes the places over that another process has given this bucket.
  Status Reload(uint32_t bucket);
  // Closes files that a creation has made and not used.
  void CloseUnused();
  bool is_open(uint32_t file) const {
    // Acquire, of the release in Open.
    return growths_[file].is_open.load(std::memory_order_acquire);
  }
  // Called by any thread with each number whose files are opened from now on, before they are used.
  // After a failure it is called again. Not beside Give.
  void set_on_open(std::function<Status(uint32_t file)> on_open) { on_open_ = std::move(on_open); }

  // Of up to `slot_count` slots. Where nothing was ever written, no read succeeds.
  SlotLocation LocateValues(uint32_t bucket, uint64_t slot, uint64_t slot_count = 1) const {
    return Locate(value_files_, bucket, slot, slot_count);
  }
  SlotLocation LocateKeys(uint32_t bucket, uint64_t slot, uint64_t slot_count = 1) const {
    return Locate(key_files_, bucket, slot, slot_count);
  }
  // Gives slots their place, where they have none yet. kFull: the paths, or the table, have no
  // room. kOutOfMemory: also when there is no descriptor for a file.
  Status Give(uint32_t bucket, uint64_t slot, uint64_t slot_count) const;
  // Gives one row its place. `prepare`, which may be null: see SegmentTable.
  Status GiveRow(uint32_t bucket, uint64_t row, const SegmentTable::PrepareFn* prepare) const;
  // Files whose last places are free get shorter. Without `exactly`, only if these are a larger
  // part of the file. A failure costs space and nothing else.
  void CutFreeEnds(bool exactly) const noexcept;
  // No slot of the bucket from this one on has a place.
  uint64_t SlotEnd(uint32_t bucket) const {
    return table_->SegmentEnd(bucket) * geometry_.row_records();
  }
  // The first slot from `slot` on whose segment has no place, or one from `end` on.
  uint64_t PlacedEnd(uint32_t bucket, uint64_t slot, uint64_t end) const;
  // For messages: the file of a location, or the table where a segment has no place.
  const std::string& NameOf(const SlotLocation& location) const {
    return location.found() ? location.file->name() : table_file_->name();
  }
  // *number: of the row's entry in the table; see SegmentTable. False: it has no place.
  bool NumberOf(uint32_t bucket, uint64_t row, uint64_t* number) const;
  bool HasPlace(uint32_t bucket, uint64_t row) const;

  // Reads values, each into Geometry::slot_bytes, or whole pages of entries, of neighbouring slots,
  // wherever they lie. Unverified. Slots that were never written read as zeros or as anything
  // older.
  Status ReadValues(uint32_t bucket, uint64_t slot, uint64_t slot_count, void* buffer) const;
  Status ReadKeys(uint32_t bucket, uint64_t slot, uint64_t slot_count, void* buffer) const;
  // Writes them, and gives them their place. Blocks that have other slots, too, are read and
  // written again: nobody else may write values of the bucket meanwhile. kFull, kIOError.
  Status WriteValues(uint32_t bucket, uint64_t slot, uint64_t slot_count, const void* data) const;
  Status WriteKeys(uint32_t bucket, uint64_t slot, uint64_t slot_count, const void* data) const;

  // Asks for space for slots that have a place, where the file system can reserve it. kFull: a path
  // has less.
  Status ReserveValues(uint32_t bucket, uint64_t slot, uint64_t slot_count) const;
  Status ReserveKeys(uint32_t bucket, uint64_t slot, uint64_t slot_count) const;
  // Give back the space of neighbouring slots, but not their place. Blocks that have other slots,
  // too, stay. Where a path cannot do that, *supported is false and nothing has happened there.
  // Entries are punched by whole pages.
  Status PunchValues(uint32_t bucket, uint64_t slot, uint64_t slot_count, bool* supported) const;
  Status PunchKeys(uint32_t bucket, uint64_t slot, uint64_t slot_count, bool* supported) const;
  // Whether values of slots may take space that PunchValues would give back.
  bool MayHoldValues(uint32_t bucket, uint64_t slot, uint64_t slot_count) const;

  void SettleLocks();  // the store is there: see DirectoryLock::Settle

  // Segments that held records have lost their places. So no place is given, or erased, that may be
  // one of them. After a failure this opening alone knows.
  Status KeepLost();
  // Erases the entries in places that were not given. A loss of power may have kept them, and not
  // that their segments had those places. Given anew, they would bring the entries back. Not beside
  // Give.
  Status EraseUngiven() const;

  SegmentTable& table() const { return *table_; }
  // Whether Load found damaged entries.
  bool has_damage() const { return has_damage_; }
  // For people: the kind of a path, and how much of it is taken.
  std::string Describe(const ValuePath& path) const;

  const std::vector<ValuePath>& paths() const { return paths_; }
  // Of key files, and as many value files.
  uint32_t file_count() const { return static_cast<uint32_t>(key_files_.size()); }
  const io::File& key_file(uint32_t number) const { return key_files_[number]; }
  const io::File& value_file(uint32_t number) const { return value_files_[number]; }
  const io::File& table_file() const { return *table_file_; }
  io::File* mutable_table_file() { return table_file_.get(); }

 private:
  using Files = std::vector<io::File>;

  uint64_t SlotBytesOf(const Files& files) const {
    return &files == &key_files_ ? format::kKeyEntryBytes : geometry_.slot_bytes();
  }
  SlotLocation Locate(const Files& files, uint32_t bucket, uint64_t slot,
                      uint64_t slot_count) const;
  // Calls visit(location, end_slot) for each part of a range of slots that lies in one piece of a
  // file. The part ends before slot `end_slot`.
  template <typename Visit>
  Status ForEachPiece(const Files& files, uint32_t bucket, uint64_t slot, uint64_t slot_count,
                      const Visit& visit) const;
  bool IsDevice(uint32_t file) const { return value_bases_[file] != 0; }
  uint64_t OffsetOf(const Files& files, const SegmentPlace& place) const {
    if (&files == &key_files_) return place.place * geometry_.segment_key_bytes();
    return value_bases_[place.file] + place.place * geometry_.segment_value_bytes();
  }
  Status Read(const Files& files, uint32_t bucket, uint64_t slot, uint64_t slot_count,
              void* buffer) const;
  Status Write(const Files& files, uint32_t bucket, uint64_t slot, uint64_t slot_count,
               const void* data) const;
  Status Reserve(const Files& files, uint32_t bucket, uint64_t slot, uint64_t slot_count) const;
  // Of a value file; perhaps none.
  Blocks WholeBlocksOf(const SlotLocation& location, uint64_t end_slot) const;
  bool IsNeeded(uint32_t file) const;
  bool HasRoom(uint32_t file, uint64_t place_count) const {
    // Acquire, of the release in GrowTo and Open: the file is open.
    return place_count <= growths_[file].room.load(std::memory_order_acquire);
  }
  // Of the path with that number. The largest number for a device, whose places are space, and
  // where the file system does not tell.
  uint64_t FreeBytes(size_t path) const;
  // By an opening's thread, under the growth's mutex, or in a store that only reads by Reload.
  Status Open(uint32_t file) const;
  Status Grow(uint32_t file, uint64_t place_count) const;
  Status GrowTo(uint32_t file, uint64_t room) const;
  Status Resize(uint32_t file, uint64_t room) const;
  Status ErasePlaces(uint32_t file, uint64_t begin, uint64_t end) const;

  Geometry geometry_;
  std::vector<ValuePath> paths_;
  io::Access access_ = io::Access::kReadWrite;
  std::vector<std::vector<PlannedFile>> plans_;
  Files key_files_;
  Files value_files_;
  mutable std::vector<FileGrowth> growths_;  // by number
  std::function<Status(uint32_t file)> on_open_;
  // Where the places of a value file begin: 0, or behind the header of a device.
  std::vector<uint64_t> value_bases_;
  // On the heap: the table keeps its address when the store's files are moved.
  std::unique_ptr<io::File> table_file_ = std::make_unique<io::File>();
  std::unique_ptr<SegmentTable> table_;
  std::unique_ptr<std::mutex> load_mutex_ = std::make_unique<std::mutex>();  // of Reload
  bool has_damage_ = false;
  // So that the next opening finds no places to set aside that were never given.
  bool grows_exactly_ = false;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_SLOT_FILES_H_
