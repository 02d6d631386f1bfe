// Where the values lie: the value files of a store, in its own directory or striped over its paths.
//
// A bucket's value region is cut into stripe units. Unit u of bucket b lies on path (u + b) % P of
// P, so that small buckets spread over all paths. On that path it is unit u / P of the bucket. A
// group of values never crosses a unit. Without paths the unit is the whole region and the only
// "path" is the store's directory.
//
// In a directory each unit has its offset from the start, found by arithmetic. A path that gives
// out space as units are first written has a UnitMap.
//
// Owner of the files and of the paths' locks. Immutable once opened; calls are thread-safe.
#ifndef ENGINE_RACE_LOG_VALUE_FILES_H_
#define ENGINE_RACE_LOG_VALUE_FILES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine_race/base/assert.h"
#include "engine_race/base/status.h"
#include "engine_race/base/sys.h"
#include "engine_race/io/block_device.h"
#include "engine_race/io/file.h"
#include "engine_race/log/directory_lock.h"
#include "engine_race/log/geometry.h"

namespace engine_race {

// Where the units of a path lie in its one file. Thread-safe.
class UnitMap {
 public:
  // Of a unit that has never been written to; ValueFiles::Read gives zeros for it. Past the end of
  // every device, so that a read there brings nothing.
  static constexpr uint64_t kNowhere = uint64_t{1} << 62;

  virtual ~UnitMap() = default;
  // The offset of a unit in the path's file, or kNowhere.
  virtual uint64_t Find(uint32_t bucket, uint64_t local_unit) const = 0;
  // Find, but gives the unit space when it has none. kFull when there is none left.
  virtual Status FindToWrite(uint32_t bucket, uint64_t local_unit, uint64_t* offset) = 0;
  // Makes all offsets durable that were given out before the call.
  virtual Status Flush() = 0;
  // For people: the kind of path, and how much of it is taken.
  virtual std::string Describe() const { return {}; }
};

struct ValuePath {
  // Absolute; empty for the store's own directory.
  std::string name;
  // Invalid where there is none.
  UniqueFd directory;
  // Of the directory, unless it is the store's own, which is locked already.
  DirectoryLock lock;
  // Of a path that is a raw device, until ValueFiles::Init takes its file.
  io::BlockDevice device;
  // Null: units are found by arithmetic, in as many files as the geometry says. Otherwise the path
  // has one file.
  std::unique_ptr<UnitMap> units;
  // The first of its files.
  uint32_t first_file = 0;
};

// Where a value lies.
struct ValueLocation {
  const io::File* file = nullptr;
  uint64_t offset = 0;
  // Of `file` among all value files, as ValueFiles::file has them.
  uint32_t file_number = 0;
  // How many slots, this one first, lie in one piece from here on.
  uint32_t slot_count = 0;
};

class ValueFiles {
 public:
  // Takes the paths. The files of those without a UnitMap are then to be opened through
  // mutable_file.
  void Init(const Geometry& geometry, std::vector<ValuePath> paths);

  // For a unit that was never written the offset is UnitMap::kNowhere, where no read succeeds.
  ValueLocation Locate(uint32_t bucket, uint64_t slot) const {
    const UnitLocation unit = UnitOf(bucket, slot);
    const ValuePath& path = paths_[unit.path];
    if (path.units == nullptr) [[likely]] {
      return LocateByArithmetic(path, bucket, unit, slot);
    }
    return LocationAt(path.first_file, path.units->Find(bucket, unit.local), slot);
  }
  // For writes: gives a new unit its space. kFull when the path has no room.
  Status LocateToWrite(uint32_t bucket, uint64_t slot, ValueLocation* location) const;

  // Slots from a multiple of this number on lie in one piece.
  uint64_t unit_slots() const { return unit_mask_ + 1; }

  // Reads values of neighbouring slots, wherever they lie. Unverified. Slots that were never
  // written read as zeros or as anything older.
  Status Read(uint32_t bucket, uint64_t slot, uint64_t slot_count, char* buffer) const;

  // Asks for space for bytes [begin, end) of a bucket's region, where a path can reserve it. kFull:
  // a path has less.
  Status Reserve(uint32_t bucket, uint64_t begin_bytes, uint64_t end_bytes) const;

  // Gives back the space of neighbouring slots. Where a path cannot do that, *supported is false
  // and nothing has happened there.
  Status Punch(uint32_t bucket, uint64_t slot, uint64_t slot_count, bool* supported) const;
  // Whether values of slots may take space that Punch would give back.
  bool MayHoldData(uint32_t bucket, uint64_t slot, uint64_t slot_count) const;

  // Makes durable what the maps of the paths have given out.
  Status FlushMaps() const;

  // The store is there, in the newest format: see DirectoryLock::Settle.
  void SettleLocks() {
    for (ValuePath& path : paths_) path.lock.Settle();
  }

  const std::vector<ValuePath>& paths() const { return paths_; }
  uint32_t file_count() const { return static_cast<uint32_t>(files_.size()); }
  const io::File& file(uint32_t number) const { return files_[number]; }
  io::File* mutable_file(uint32_t number) { return &files_[number]; }

 private:
  struct UnitLocation {
    uint32_t path = 0;
    uint32_t local = 0;
  };

  UnitLocation UnitOf(uint32_t bucket, uint64_t slot) const {
    // At most 2^26 units and 2^16 buckets: 32 bits will do, and divide faster.
    const auto unit = static_cast<uint32_t>(slot >> unit_shift_);
    if (paths_.size() == 1) return {0, unit};
    const auto path_count = static_cast<uint32_t>(paths_.size());
    return {(unit + bucket) % path_count, unit / path_count};
  }
  ValueLocation LocateByArithmetic(const ValuePath& path, uint32_t bucket, UnitLocation unit,
                                   uint64_t slot) const {
    const uint64_t region = (bucket & file_mask_) * path_region_bytes_;
    return LocationAt(path.first_file + (bucket >> file_shift_),
                      region + (uint64_t{unit.local} << unit_shift_) * kValueBytes, slot);
  }
  // In a unit that begins at unit_offset.
  ValueLocation LocationAt(uint32_t file_number, uint64_t unit_offset, uint64_t slot) const {
    ENGINE_RACE_ASSERT(file_number < files_.size());
    const uint64_t in_unit = slot & unit_mask_;
    const bool nowhere = unit_offset == UnitMap::kNowhere;
    return {&files_[file_number], nowhere ? unit_offset : unit_offset + in_unit * kValueBytes,
            file_number, static_cast<uint32_t>(unit_mask_ + 1 - in_unit)};
  }

  std::vector<ValuePath> paths_;
  std::vector<io::File> files_;
  // Units are 2^unit_shift_ slots, files 2^file_shift_ buckets.
  uint32_t unit_shift_ = 0;
  uint64_t unit_mask_ = 0;
  uint32_t file_shift_ = 0;
  uint32_t file_mask_ = 0;
  uint64_t path_region_bytes_ = 0;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_VALUE_FILES_H_
