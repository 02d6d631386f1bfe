// Reads chunks for one scan alone. Users are short ranges, scans that have left the shared pass,
// ranges at a snapshot, and iterators that read values ahead.
//
// Values in frames are copied. The others are read from the log: one read for neighbouring slots,
// several reads overlapped. They are admitted to free frames. A long walk reads its next chunk
// while it visits the one at hand.
//
// It never waits for memory. Short readings take a window of the pool, longer ones buffers that the
// coordinator lends. If neither is free, a window of 16 KiB or one value comes from the heap.
//
// One thread at a time. Owner of two chunks, the one at hand and the one that is read ahead.
// Windows and loaders are the pool's, which outlives it, or Abandon is called. Invariant: values
// are good until the next Read, TakeAhead, Clear or GiveBack.
#ifndef ENGINE_RACE_SCAN_CHUNK_READER_H_
#define ENGINE_RACE_SCAN_CHUNK_READER_H_

#include <cstdint>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/scan/chunk.h"
#include "engine_race/scan/chunk_builder.h"
#include "engine_race/scan/chunk_loader.h"
#include "engine_race/scan/scan_context.h"
#include "engine_race/scan/window_pool.h"

namespace engine_race {

class ChunkReader {
 public:
  ChunkReader(ScanContext* context, WindowPool* pool)
      : context_(context),
        pool_(pool),
        builder_(context),
        filler_(context->frames, context->tuning.admit_time_percent) {}
  ~ChunkReader() { GiveBack(); }
  ChunkReader(const ChunkReader&) = delete;
  ChunkReader& operator=(const ChunkReader&) = delete;

  // Reads the first records of [first_key, last_key] that a view of `version` shows. They are as
  // many as the windows hold, and at most `max_records`, which is not 0. With Keep::kLast the range
  // must have at most `max_records` records. If not all fit, the last ones are read.
  // next_key() is where to go on, or complete() says that there are no more. A value that cannot be
  // read fails in Value and VisitAll alone, and so does an error of the index. kOutOfMemory.
  Status Read(uint64_t first_key, uint64_t last_key, uint64_t version, uint32_t max_records,
              ChunkBuilder::Keep keep = ChunkBuilder::Keep::kFirst);

  // Begins to read what follows the chunk at hand, which a view shows. Does nothing unless a window
  // and a loader are free.
  void ReadAhead(uint32_t max_records) noexcept;
  // Makes the chunk read ahead the one at hand, and waits for it. False if there is none that has
  // `key`, of a view of `version` and up to the same last key.
  bool TakeAhead(uint64_t key, uint64_t last_key, uint64_t version);

  // Makes sure of windows for a reading of `max_records`. *record_count: how many it may bring.
  // That is 0 if no window is free and `may_allocate` is false.
  Status Reserve(uint32_t max_records, bool may_allocate, uint32_t* record_count) {
    return Reserve(at_hand_, max_records, may_allocate, record_count);
  }

  // *entry: the record of `key` among those at hand. False: there is none.
  bool Find(uint64_t key, uint32_t* entry) const;
  // Its value, verified, good until the next reading.
  Status Value(uint32_t entry, const char** value);

  // Ends what is read ahead, if anything, and gives its windows back.
  void DropAhead();
  // Forgets the chunk at hand. Waits for nothing.
  void Clear();
  // Waits for reads ahead, forgets the chunks and gives the windows back.
  void GiveBack();
  // Instead of GiveBack once the pool is gone. The pool has waited for the reads.
  void Abandon();
  // Of what describes the records, without the windows.
  uint64_t memory_bytes() const;

  // Calls visit(key, value) for each record read, in order. Ends with the first error of a value,
  // then with the index's.
  template <typename Visit>
  Status VisitAll(const Visit& visit) {
    Chunk& chunk = at_hand_->chunk;
    const uint32_t end = record_count();
    uint32_t count = 0;
    const uint32_t at = chunk.VisitEntries(*context_, 0, end, [&](uint64_t key, const char* value) {
      visit(key, value);
      if (++count % chunk.batch_records() == 0) KeepReading();
      return true;
    });
    return at < end ? chunk.ErrorOf(*context_, at) : chunk.collect_status;
  }

  uint32_t record_count() const { return static_cast<uint32_t>(at_hand_->chunk.entries.size()); }
  bool complete() const { return at_hand_->chunk.last_key == at_hand_->last_key; }
  uint64_t next_key() const { return at_hand_->chunk.last_key + (complete() ? 0 : 1); }

 private:
  struct Reading {
    Chunk chunk;
    Windows windows;
    uint64_t last_key = 0;  // of the keys that were asked for
  };

  Status Reserve(Reading* reading, uint32_t max_records, bool may_allocate, uint32_t* record_count);
  // Fills an empty chunk that has windows for `record_count`. std::bad_alloc.
  void Build(uint64_t first_key, uint64_t last_key, uint64_t version, uint32_t record_count,
             ChunkBuilder::Keep keep, Reading* reading);
  void EndAtBucket(uint32_t record_count, Chunk* chunk);
  void TakeHot(Reading* reading);
  // Reads the values of a chunk that was built, and makes it ready.
  void Load(Chunk* chunk);
  // All reads have ended. Prepares all values of the latest state.
  void MakeReady(Chunk* chunk);
  // False, with nothing begun, if memory for it is refused.
  bool BeginReads(ChunkLoader* loader, Chunk* chunk) noexcept;
  void FinishReads(ChunkLoader* loader, Chunk* chunk);
  // Has the chunk ahead read on.
  void KeepReading();
  // Waits for all reads of the chunk ahead.
  void EndAhead();

  ScanContext* const context_;
  WindowPool* const pool_;
  ChunkBuilder builder_;
  FrameFiller filler_;
  Reading readings_[2];
  Reading* at_hand_ = &readings_[0];
  Reading* ahead_ = &readings_[1];
  bool has_ahead_ = false;
  ChunkLoader* ahead_loader_ = nullptr;
  std::vector<Chunk*> loaded_;  // scratch for ChunkLoader::Reap
};

}  // namespace engine_race

#endif  // ENGINE_RACE_SCAN_CHUNK_READER_H_
