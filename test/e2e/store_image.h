// A store's directory held in memory, so that it can be damaged there and laid out again, often.
//
// Plain values. For stores of a few MiB: files are held whole, holes included.
#ifndef TEST_E2E_STORE_IMAGE_H_
#define TEST_E2E_STORE_IMAGE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine_race/log/format.h"
#include "engine_race/log/geometry.h"
#include "engine_race/log/slot_table.h"
#include "engine_race/log/store_files.h"

namespace engine_race::test {

struct StoreImage {
  struct Node {
    enum class Kind { kFile, kDirectory, kSymlink, kFifo };
    Kind kind = Kind::kFile;
    std::string bytes;  // a file's content, a symlink's target
    bool operator==(const Node&) const = default;
  };

  // Reads the files of `dir`; other things in it are not a store's.
  static StoreImage Load(const std::string& dir);
  // Makes `dir` hold this and nothing else. Pages of zeros become holes.
  void WriteTo(const std::string& dir) const;

  std::string& file(const std::string& name) { return nodes.at(name).bytes; }
  const std::string& file(const std::string& name) const { return nodes.at(name).bytes; }
  bool operator==(const StoreImage&) const = default;

  std::map<std::string, Node> nodes;
};

// A stretch of one file.
struct Extent {
  std::string file;
  uint64_t offset = 0;
  uint64_t size = 0;
};

// Where the records of a sound store lie.
class StoreLayout {
 public:
  // `dir` is for its use, and is left empty.
  StoreLayout(const StoreImage& image, const std::string& dir);

  const Geometry& geometry() const { return geometry_; }
  uint64_t store_id() const { return store_id_; }
  uint64_t RecordCount(uint32_t bucket) const {
    return Payload(bucket, format::WordKind::kRecords);
  }
  const SlotTable& table(uint32_t bucket) const { return tables_[bucket]; }
  // Where the rows' head of a bucket lies in their file, and the images of a row.
  uint64_t RowHeadOffset(uint32_t bucket) const { return geometry_.RowHeadOffset(bucket); }
  bool HasPlace(uint32_t bucket, uint32_t row) const { return files_.slots.HasPlace(bucket, row); }
  bool HasBareRows(uint32_t bucket) const;
  uint64_t RowOffset(uint32_t bucket, uint32_t row) const;
  // The slots that hold counted records, ascending. In a bucket without rows they are the sequence
  // numbers.
  const std::vector<uint64_t>& held_slots(uint32_t bucket) const { return held_slots_[bucket]; }
  // The payload of a word of the counts.
  uint64_t Payload(uint32_t bucket, format::WordKind kind) const;

  // Where Open finds the entry or value of a slot that holds a record: its log, or its place.
  Extent KeyExtent(uint32_t bucket, uint64_t slot) const;
  Extent ValueExtent(uint32_t bucket, uint64_t slot) const;

  // The bucket that a byte of a log or staging file belongs to; -1 for other files.
  int64_t BucketAt(const std::string& file, uint64_t offset) const;

 private:
  void ReadTables(const std::string& dir);
  // *sequence: of the record in the slot. False: it is read from the log.
  bool IsStaged(uint32_t bucket, uint64_t slot, format::WordKind logged, uint64_t* sequence) const;

  const StoreImage& image_;
  Geometry geometry_;
  uint64_t store_id_ = 0;
  StoreFiles files_;
  // By the numbers of the segments' entries.
  std::map<uint64_t, uint32_t> bucket_of_segment_;
  std::vector<SlotTable> tables_;
  std::vector<std::vector<uint64_t>> held_slots_;
};

}  // namespace engine_race::test

#endif  // TEST_E2E_STORE_IMAGE_H_
