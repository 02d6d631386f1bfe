// Stretches of paged runs, read for a call that walks over keys, or for a long walk of many calls.
//
// The walk runs under the lock of its bucket and must not wait. Where it comes to a paged run, it
// asks for the stretch that it needs. If the blocks lie in frames they are copied at once.
// Otherwise the walk ends, the caller calls Load without locks, and the walk begins anew. Each
// stretch that was read stays here, so each attempt gets further. A run that was merged meanwhile
// lies in another extent, and its stretches are read again.
//
// A long walk of many calls keeps the object and reads ahead: Load then reads many blocks at once.
// The last stretch stays for the next call. Each such walk has a permit, which bounds the memory of
// all of them. The walk of the thread that loads chunks has no permit and one RunsAhead instead.
//
// One thread. May throw std::bad_alloc.
#ifndef ENGINE_RACE_INDEX_RUN_SLICES_H_
#define ENGINE_RACE_INDEX_RUN_SLICES_H_

#include <cstdint>
#include <list>
#include <memory>
#include <semaphore>
#include <span>
#include <utility>
#include <vector>

#include "engine_race/base/memory.h"
#include "engine_race/base/status.h"
#include "engine_race/index/frame_slots.h"
#include "engine_race/index/paged_run.h"
#include "engine_race/index/runs_ahead.h"
#include "engine_race/l1/extent_store.h"

namespace engine_race {

// Keys and words of a run, or of a stretch of it. Void words are left out.
struct RunSpan {
  const uint64_t* keys = nullptr;
  const RefWord* refs = nullptr;
  size_t count = 0;
};

// The keys that a walk needs, and from which end.
struct WantedKeys {
  uint64_t first = 0;
  uint64_t last = 0;
  // How many keys the walk takes at most.
  size_t max_count = 0;
  bool from_back = false;
};

class RunSlices {
 public:
  // Outlives the index that it belongs to: iterators may.
  using Permits = std::shared_ptr<std::counting_semaphore<>>;
  // How many walks may read ahead at once. Each takes about 512 KiB.
  static constexpr ptrdiff_t kMaxAhead = 16;

  // For one call.
  RunSlices() = default;
  // For a walk that reads ahead. Takes over one of the permits.
  explicit RunSlices(Permits permits) : permits_(std::move(permits)) {}
  // For a walk over many buckets: see RunsAhead, which outlives it.
  explicit RunSlices(RunsAhead* runs_ahead) : runs_ahead_(runs_ahead) {}
  RunSlices(const RunSlices&) = delete;
  RunSlices& operator=(const RunSlices&) = delete;
  ~RunSlices() {
    if (permits_ != nullptr) permits_->release();
  }

  // The next call of the walk begins. Drops all stretches and fences but those used last.
  void BeginCall();
  // Stops reading ahead for good. False: it did not read ahead.
  bool StopAhead();
  // A stretch of `run` that begins at wanted.first, or ends at wanted.last when the walk comes from
  // the back. Narrows *wanted to the keys that the stretch has all of. False: call Load first.
  bool Find(const PagedRun& run, const BlockFrames& frames, const FrameSlots& slots,
            WantedKeys* wanted, RunSpan* span);

  // Whether Find has answered false since the last Load.
  bool is_wanting() const { return wanted_.extent.valid(); }
  const l1::ExtentId& extent() const { return wanted_.extent; }
  // Reads the blocks that Find wanted. No slot of the bucket from `slot_end` on holds a record.
  // kCorruption, kIOError: the extent cannot be read. kOutOfMemory: as long as StopAhead is true, a
  // walk that begins anew wants less.
  Status Load(const l1::ExtentStore& store, uint64_t slot_end);

 private:
  // Blocks [first_block, first_block + block_count) of an extent, without their headers.
  struct Slice {
    l1::ExtentId extent;
    uint32_t first_block = 0;
    uint32_t block_count = 0;
    std::vector<uint64_t> keys;
    std::vector<RefWord> refs;
  };
  // The blocks that Load reads: the fences of an extent, a stretch of its other blocks, or the
  // fences and the blocks after them.
  struct Wanted {
    l1::ExtentId extent;
    uint32_t first_block = 0;
    uint32_t block_count = 0;
    uint32_t extent_blocks = 0;   // of the whole extent
    l1::KeyBounds keys = {0, 0};  // likewise
    uint64_t births = 0;          // as in PagedRun, both
    std::shared_ptr<const HeldSlots> held;
  };
  struct Fences {
    l1::ExtentId extent;
    std::vector<uint64_t> first_keys;
  };

  // The blocks of *wanted, checked: those that were read ahead, which are the whole extent, or else
  // read into *memory.
  Status ReadWanted(const l1::ExtentStore& store, Wanted* wanted, Region* memory,
                    const char** blocks) const;
  const std::vector<uint64_t>* FencesOf(const PagedRun& run, const BlockFrames& frames);
  const Slice* SliceOf(const PagedRun& run, uint32_t first_block, uint32_t block_count);
  bool CopyFromFrames(const PagedRun& run, const BlockFrames& frames, const FrameSlots& slots,
                      const Wanted& wanted);

  // Of both, the one that was used last is at the end.
  std::list<Fences> fences_;
  std::list<Slice> slices_;
  Wanted wanted_;
  // Null: it does not read ahead.
  Permits permits_;
  RunsAhead* const runs_ahead_ = nullptr;  // may be null
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_RUN_SLICES_H_
