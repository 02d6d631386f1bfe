// The implementation behind an iterator's handle: its view, its KeyBatch, and a ChunkReader for
// values.
//
// It moves the handle's Stand within the batch and loads the batch anew at its ends.
//
// One thread at a time. Owned by its handle, and by the pool while it waits to be used again. Its
// store may end first; then all that is left is to say so and to be deleted. Invariant: a Stand at
// a record points into the batch.
#ifndef ENGINE_RACE_SCAN_ITERATOR_IMPL_H_
#define ENGINE_RACE_SCAN_ITERATOR_IMPL_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "engine_race/base/memory.h"
#include "engine_race/base/status.h"
#include "engine_race/index/index.h"
#include "engine_race/scan/bounds.h"
#include "engine_race/scan/chunk_reader.h"
#include "engine_race/scan/iterator.h"
#include "engine_race/scan/key_batch.h"
#include "engine_race/scan/reading_sizes.h"

namespace engine_race {

class IteratorPool;

class Iterator::Impl {
 public:
  explicit Impl(IteratorPool* pool) noexcept;

  // Begins to be used, at `view`, which it takes over. Not at a record yet.
  void Begin(const ViewRegistry::View& view, const KeyRange& range, const IteratorOptions& options);
  // Gives back what is not worth keeping: the view, windows of the pool. False: its pool is gone.
  // Not in a forked child.
  bool End() noexcept;

  void Seek(std::string_view key, Stand* stand);
  void SeekForPrev(std::string_view key, Stand* stand);
  void SeekToFirst(Stand* stand);
  void SeekToLast(Stand* stand);
  // From the end of what `stand` may step over.
  void StepForward(Stand* stand);
  void StepBackward(Stand* stand);
  std::string_view Value(Stand* stand);
  // To a snapshot's state, or the latest when that is null.
  Status Refresh(const Snapshot* snapshot, bool keep_position, Stand* stand);

  // The store is open, and of this process.
  bool is_usable() const { return view_.registry->is_usable(); }
  // The store is the parent's.
  bool is_inherited() const { return view_.registry->is_inherited(); }
  const Status& status() const;
  IteratorPool* pool() const { return pool_; }
  uint64_t memory_bytes() const;

 private:
  // Fills the batch from a key on, or up to it, and stands at that end of it.
  void Load(uint64_t from, Stand* stand);
  void LoadBack(uint64_t from, Stand* stand);
  void StandAt(uint32_t i, Stand* stand);
  void StandNowhere(Status status, Stand* stand) noexcept;
  Status StandAgain(uint64_t key, Stand* stand);
  Status CheckUsable() const noexcept;
  // Ready for a seek to `key`: the store can be used and the key is one.
  bool MaySeek(std::string_view key) const { return IsKey(key) && is_usable(); }
  void RefuseSeek(std::string_view key, Stand* stand);
  void BeginSeek(bool backwards);
  // When it is time to, moves on to the latest state by itself.
  void CountStep();
  // Drops the batch and the value: they belong to another state.
  void DropState();
  void Fail(Status status, Stand* stand) noexcept;
  void Tell(const Status& status) const noexcept;

  Status ReadValue(uint64_t key);
  Status ReadAlone(uint64_t key);
  Status ReadMany(uint64_t key);
  Status ReadChunk(uint64_t key);

  IteratorPool* const pool_;
  const uint32_t value_bytes_;
  const uint32_t value_buffer_bytes_;  // of value_buffer_, if there is one
  // Mutable, because only a look at it finds that the store is closed.
  mutable Status status_;

  // The value of value_key_ at this state; null: none at hand.
  const char* value_ = nullptr;
  uint64_t value_key_ = 0;
  std::unique_ptr<char, FreeMemory> value_buffer_;
  std::unique_ptr<ChunkReader> values_;  // null until several are read at once
  ReadingSizes sizes_;
  std::vector<uint64_t> keys_;  // of values that are read backwards

  // The members that every seek looks at lie together.
  const Index* const index_;
  ViewRegistry::View view_;
  KeyRange range_;
  uint64_t refresh_every_steps_ = 0;
  uint64_t steps_ = 0;
  uint32_t prefetch_records_ = 0;
  // The way of the walk, as far as value() knows.
  bool walks_backwards_ = false;
  // value_key_ is of this walk.
  bool value_seen_ = false;
  KeyBatch batch_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_SCAN_ITERATOR_IMPL_H_
