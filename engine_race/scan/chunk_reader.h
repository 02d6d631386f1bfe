// Reads chunks for one scan alone. Users are short ranges, scans that have left the shared pass,
// ranges at a snapshot, and iterators that read values ahead.
//
// Values in frames are copied. The others are read from the log: one read for neighbouring slots,
// several reads overlapped. A long walk reads its next chunk while it visits the one at hand.
//
// It never waits for memory: windows are taken from the pool while some are free, otherwise a few
// records' worth comes from the heap.
//
// One thread at a time. It gives its windows back to its pool; the pool outlives it unless it is
// told otherwise. Invariant: the values of a chunk are good until the next Read.
#ifndef ENGINE_RACE_SCAN_CHUNK_READER_H_
#define ENGINE_RACE_SCAN_CHUNK_READER_H_

#include <cstdint>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/scan/chunk.h"
#include "engine_race/scan/chunk_builder.h"
#include "engine_race/scan/scan_context.h"
#include "engine_race/scan/window_pool.h"

namespace engine_race {

class ChunkReader {
 public:
  ChunkReader(ScanContext* context, WindowPool* pool)
      : context_(context), pool_(pool), builder_(context) {}
  ~ChunkReader() { GiveBack(); }
  ChunkReader(const ChunkReader&) = delete;
  ChunkReader& operator=(const ChunkReader&) = delete;

  // Reads the first records of [first_key, last_key] that a view of `version` shows. They are as
  // many as the windows hold, and at most `max_records`, which is not 0. next_key() is where to go
  // on, or complete() says that there are no more. Values that cannot be read fail by themselves.
  Status Read(uint64_t first_key, uint64_t last_key, uint64_t version = kLatestVersion,
              uint32_t max_records = WindowPool::kWindowRecords);

  // Begins to read what follows the chunk at hand, of a view that stays until GiveBack. Does
  // nothing without free memory for a few records.
  void ReadAhead(uint32_t max_records) noexcept;
  // Makes the chunk read ahead the one at hand, and waits for it. False if there is none that has
  // `key`, of a view of `version` and up to the same last key.
  bool TakeAhead(uint64_t key, uint64_t last_key, uint64_t version);

  // Makes sure of windows for a reading of `max_records`. *record_count: how many it may bring.
  // That is 0 if no window is free and `may_allocate` is false.
  Status Reserve(uint32_t max_records, bool may_allocate, uint32_t* record_count) {
    return Reserve(at_hand_, max_records, may_allocate, record_count);
  }

  // Which of the records read is that of `key`.
  bool Find(uint64_t key, uint32_t* entry) const;
  // Its value, verified, good until the next reading.
  Status Value(uint32_t entry, const char** value);

  // Forgets the chunk at hand. Waits for nothing.
  void Clear();
  // Ends what is read ahead, gives the windows back to the pool and keeps the rest.
  void GiveBack();
  // GiveBack when the pool is gone.
  void Abandon();
  // Beside the windows.
  uint64_t memory_bytes() const;

  // Calls visit(key, value) for each record read, in order, verified just before; ends with the
  // first error, a failed Read's included.
  template <typename Visit>
  Status VisitAll(const Visit& visit) {
    Chunk& chunk = at_hand_->chunk;
    const uint32_t end = record_count();
    uint32_t count = 0;
    const uint32_t at = chunk.VisitEntries(*context_, 0, end, [&](uint64_t key, const char* value) {
      visit(key, value);
      if (++count % Chunk::kBatchRecords == 0) KeepReading();
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
             Reading* reading);
  void EndAtBucket(uint32_t record_count, Chunk* chunk);
  void TakeHot(Reading* reading);
  // Reads the values of a chunk that was built, and makes it ready.
  void Load(Chunk* chunk);
  void Show(Chunk* chunk);
  // False, with nothing begun, if memory for it is refused.
  bool Begin(ChunkLoader* loader, Chunk* chunk) noexcept;
  void Finish(ChunkLoader* loader, Chunk* chunk);
  // Has the chunk ahead read on.
  void KeepReading();
  void EndAhead();

  ScanContext* const context_;
  WindowPool* const pool_;
  ChunkBuilder builder_;
  Reading readings_[2];
  Reading* at_hand_ = &readings_[0];
  Reading* ahead_ = &readings_[1];
  bool has_ahead_ = false;
  ChunkLoader* ahead_loader_ = nullptr;
  std::vector<Chunk*> loaded_;  // of no use, but loaders tell
};

}  // namespace engine_race

#endif  // ENGINE_RACE_SCAN_CHUNK_READER_H_
