// Staging: where a record is between its acknowledgement and the write of its group to the log. The
// counts beside it say how far each bucket has come. The kernel holds what is staged, so kill -9
// cannot take it back.
//
// Records are staged in one of two ways, which leave the same bytes in the files. Mapped: by stores
// into mappings of the files, without system calls. Written: by pwrite, on file systems where that
// may be a SIGBUS, such as a full copy-on-write one. Reading is by pread in both ways. Mapped
// places are reserved in steps that double as they fill, or as wholes.
//
// Thread safety: ReserveCounts and the reads from any thread. The places and words of one bucket
// are reserved and written under that bucket's lock, after ReserveCounts has succeeded once.
// Owner of its mappings; the files are StoreFiles'. Invariants: a word is published after what it
// counts; no mapped page is stored into before its space is reserved and the page is populated.
#ifndef ENGINE_RACE_LOG_STAGING_H_
#define ENGINE_RACE_LOG_STAGING_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <vector>

#include "engine_race/base/memory.h"
#include "engine_race/base/options.h"
#include "engine_race/base/placement.h"
#include "engine_race/base/status.h"
#include "engine_race/io/file.h"
#include "engine_race/log/bucket_state.h"
#include "engine_race/log/format.h"
#include "engine_race/log/full_group.h"
#include "engine_race/log/geometry.h"
#include "engine_race/log/region_pool.h"
#include "engine_race/log/store_files.h"

namespace engine_race {

class Staging {
 public:
  static constexpr uint64_t kPageBytes = kIoAlignment;
  // Keeps references into `files`, which must outlive it.
  explicit Staging(const StoreFiles& files);

  // Gives a part of a file that will be mapped space of its own. kFull, kIOError.
  static Status ReserveRange(const io::File& file, uint64_t offset, uint64_t size);

  // Decides how this opening stages records, before it stages any; reads need no decision. The
  // process may use `memory_limit_bytes`, with the page cache of its files. Says in the log why,
  // where kAuto becomes written.
  void Start(StagingMode mode, uint64_t memory_limit_bytes, const LogFn& log,
             const Placement& placement);
  bool mapped() const { return mapped_; }

  // Reads and checks the counts and the rows of every bucket with pread. Damaged ones are marked,
  // not used.
  Status ReadCounts(std::vector<BucketState>* states) const;

  // Makes sure of space for the counts of all buckets. kFull on a full disk. Cheap after the first
  // call. With pwrite, which finds its own space, it does nothing, and neither does ReservePlace.
  Status ReserveCounts() {
    if (HasCounts()) [[likely]] {
      return Status::Ok();
    }
    return ReserveCountsFirst();
  }
  // Gives the space of a bucket's places back, where holes can be punched. Nothing there is needed.
  void GiveBack(uint32_t bucket) noexcept;
  // Makes sure of space for a whole place, in one step. Without it a place gets its space as
  // records are staged in it, which may then be refused. Cheap where it has it.
  Status ReservePlace(LaneKind kind, uint32_t bucket, uint32_t place);

  // Prefetches what StageValue and StageKey look at for a record at these indices, and the counts.
  // The caller computes meanwhile. Advice only.
  void Prefetch(uint32_t bucket, uint32_t value_place, uint64_t value_index, uint32_t key_place,
                uint64_t key_index) const;

  // Put a value (null: zeros) or an entry in a place, at `index` of the group that is there.
  // Through the mapping a large value goes past the caches: the log's write reads it long after. So
  // Fence comes before the record counts. The value is put first: StageValue checks the file size
  // limit for the writes of the entry and the words, too. kFull where the place needs more space
  // and there is none. After a failure (kFull, kIOError) the bytes at `index` are undefined and the
  // others as they were.
  Status StageValue(uint32_t bucket, uint32_t place, uint64_t index, const char* value);
  Status StageKey(uint32_t bucket, uint32_t place, uint64_t index, const format::KeyEntry& entry);
  static void Fence();
  // Puts zeros instead of the first `count` entries of a place.
  Status ClearKeys(uint32_t bucket, uint32_t place, uint64_t count) const;
  // Puts *instead in place of the bucket's entries whose sequence numbers are not below
  // `record_count`. Null: only looks whether there are any. *has_found: set if so.
  Status ReplaceKeysFrom(uint32_t bucket, uint64_t record_count, const format::KeyEntry* instead,
                         bool* has_found) const;

  // Replaces one word of the bucket's counts at once, by a store or a pwrite of eight aligned
  // bytes. Ok when mapped. After kFull the word is as it was; after another failure it may be
  // either.
  Status PublishWord(uint32_t bucket, format::WordKind kind, uint64_t payload) const;
  // PublishWord by a pwrite, also where records are stored through the mapping. At a moment when a
  // store might end in a SIGBUS: nothing has shown that the file system still works.
  Status WriteWord(uint32_t bucket, format::WordKind kind, uint64_t payload) const;
  // PublishWord for the words of a record. StageValue has checked the file size limit for it.
  Status PublishStaged(uint32_t bucket, format::WordKind kind, uint64_t payload) const;
  // Makes sure that the word of the records has its space, for a later PublishStaged.
  // `record_count` is what it says now.
  Status SecureCount(uint32_t bucket, uint64_t record_count) const;
  // Replaces a bucket's line of counts at once, past the mapping: the words below `end`. While
  // nobody else publishes these.
  Status WriteLine(uint32_t bucket, const BucketState& state,
                   format::WordKind end = format::kWordKindEnd) const;

  // Has a full group ready for the write to its log. *group points into what `buffer` holds then.
  // Of values without `by_pread` it may point into the mapping. kOutOfMemory, kIOError.
  Status ReadFull(uint32_t bucket, const FullGroup& full, bool by_pread, RegionPool::Lease* buffer,
                  const char** group);

  // Whether the places word names a place for the group of the record.
  bool HasPlace(LaneKind kind, uint32_t places_word, uint64_t sequence) const;
  // Reads records [sequence, sequence + count) of one group from the place that the places word
  // names for it. By pread: an error is a Status here and a SIGBUS through the mapping. A record
  // takes Geometry::record_bytes.
  Status Read(LaneKind kind, uint32_t bucket, uint32_t places_word, uint64_t sequence,
              uint64_t count, void* buffer) const;

  // Ask for staged entries of neighbouring buckets, or for the first values of a place, to be read
  // into the page cache.
  void PrefetchKeys(uint32_t first_bucket, uint32_t bucket_count) const;
  void PrefetchValues(uint32_t bucket, uint32_t place, uint64_t count) const;

  uint64_t memory_bytes() const;  // of mappings that this opening has made resident at most

 private:
  // A staging file and, when mapped, its mapping.
  struct Area {
    const io::File& file;
    uint64_t group_bytes = 0;
    uint64_t record_bytes = 0;
    SharedMapping mapping = {};
  };
  // Which records of a place's present group can be stored, its pages being populated: those below
  // `end`.
  struct Populated {
    uint32_t place = ~uint32_t{0};
    uint32_t end = 0;
  };
  // Of a bucket, under its lock: what each record looks at, and apart from it what a group does.
  struct PopulatedPlaces {
    Populated values, keys;
  };
  // The bytes of a place that have their space, and those that this opening has populated, or has
  // written by pwrite where pages are placed.
  struct PlaceBytes {
    uint32_t reserved_begin = 0;
    uint32_t reserved_end = 0;
    uint32_t reached = 0;
  };
  struct PlacesOfBucket {
    std::array<PlaceBytes, format::kValuePlaces> values = {};
    std::array<PlaceBytes, format::kKeyPlaces> keys = {};
  };
  // A place of a bucket in its area, from `offset` of the file on.
  struct Place {
    const Area& area;
    Populated& populated;
    PlaceBytes& bytes;
    uint64_t offset;
    uint32_t bucket, number;
  };

  const Area& AreaOf(LaneKind kind) const { return kind == LaneKind::kValues ? values_ : keys_; }
  Place PlaceOf(LaneKind kind, uint32_t bucket, uint32_t number);
  // Whether ReserveCounts has succeeded. Acquire pairs with the release in ReserveCountsFirst.
  bool HasCounts() const { return !mapped_ || counts_reserved_.load(std::memory_order_acquire); }
  uint64_t EncodeWordOf(uint32_t bucket, format::WordKind kind, uint64_t payload) const;
  Status WriteEncoded(uint32_t bucket, format::WordKind kind, uint64_t word) const;
  bool CanBeMapped(uint64_t memory_limit_bytes, const LogFn& log) const;
  Status ReserveCountsFirst();
  Status TouchCounts() const;
  Status Reserve(const Place& place, uint64_t begin, uint64_t end);
  Status Populate(const Area& area, uint32_t bucket, uint64_t offset, uint64_t size) const;
  Status PrepareStore(const Place& place, uint64_t index, char** to);
  Status PopulateAt(const Place& place, uint64_t offset, uint64_t* end_bytes);
  Status WriteRecord(const Place& place, uint64_t index, std::string_view record) const;

  const StoreFiles& files_;
  const Geometry& geometry_;
  bool mapped_ = false;
  Placement placement_;  // of staging pages in the page cache
  Area counts_;
  Area keys_;
  Area values_;
  std::vector<PopulatedPlaces> populated_;
  std::vector<PlacesOfBucket> places_;
  RegionPool group_buffers_;  // for groups on their way to the logs that ReadFull has read
  std::mutex reserve_mutex_;
  std::atomic<bool> counts_reserved_{false};  // changed under reserve_mutex_
  std::atomic<uint64_t> reserved_bytes_{0};
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_STAGING_H_
