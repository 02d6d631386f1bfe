// What an iterator's handle refers to: the view, the batch of keys at hand, buffers for values.
//
// One thread at a time. Owned by its handle, and by the pool while it waits to be used again. Its
// store may end first; what is left then is to say so and to be deleted.
#ifndef ENGINE_RACE_SCAN_ITERATOR_IMPL_H_
#define ENGINE_RACE_SCAN_ITERATOR_IMPL_H_

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "engine_race/base/status.h"
#include "engine_race/index/index.h"
#include "engine_race/scan/iterator.h"
#include "engine_race/scan/key_range.h"
#include "engine_race/scan/window_reader.h"

namespace engine_race {

class IteratorPool;

class Iterator::Impl {
 public:
  explicit Impl(IteratorPool* pool) noexcept;

  // Begins to be used, at `view`, which it takes over. Not at a record yet.
  void Begin(const ViewRegistry::View& view, const KeyRange& range, const IteratorOptions& options);
  // Gives back what is not worth keeping: the view, windows of the pool. False: its pool is gone.
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

  bool closed() const { return view_.registry->closed(); }
  const Status& status() const;
  IteratorPool* pool() const { return pool_; }
  uint64_t memory_bytes() const;

 private:
  static constexpr uint32_t kFirstBatch = 8;
  static constexpr uint32_t kInlineKeys = 32;
  static constexpr uint32_t kMaxBatch = 256;

  struct Free {
    void operator()(char* data) const { std::free(data); }
  };

  Status FirstKeys(uint64_t from, size_t* count) const noexcept;
  Status LastKeys(uint64_t from, size_t* count) const noexcept;
  // Fills the batch from a key on, or up to it, and stands at that end of it.
  void Load(uint64_t from, Stand* stand);
  void LoadBack(uint64_t from, Stand* stand);
  // What FirstKeys or LastKeys brought; false when there is nothing to stand at.
  bool TakeBatch(uint32_t count, Stand* stand);
  void StandAt(uint32_t i, Stand* stand);
  // Which of the keys at hand it stands at.
  uint32_t PlaceOf(const Stand& stand) const {
    const char* const keys = reinterpret_cast<const char*>(keys_);
    return static_cast<uint32_t>((stand.at - keys) / kKeyBytes);
  }
  Status StandAgain(uint64_t key, Stand* stand);
  // How many of the keys at hand are below `key`.
  uint32_t Rank(uint64_t key) const;
  uint64_t KeyAt(uint32_t i) const { return __builtin_bswap64(keys_[i]); }
  // Makes the next batch larger if it goes on as the last one did.
  void Grow(bool backwards);
  // Ready for a seek to `key`: the store is open and the key is one.
  bool MaySeek(std::string_view key) const { return IsKey(key) && !closed(); }
  void RefuseSeek(std::string_view key, Stand* stand);
  void BeginSeek(bool backwards);
  // When it is time to, moves on to the latest state by itself.
  void CountStep();
  // Of another state nothing at hand is right.
  void DropState();
  void Fail(Status status, Stand* stand) noexcept;
  void Tell(const Status& status) const noexcept;

  Status ReadValue(uint64_t key);
  Status ReadAlone(uint64_t key);
  Status ReadAhead(uint64_t key);

  IteratorPool* const pool_;
  const Index* const index_;
  ViewRegistry::View view_;
  KeyRange range_;

  // The batch: every key from covered_first_ to covered_last_ that there is, big-endian. With none,
  // both pairs of bounds hold nothing.
  uint64_t* keys_ = few_keys_;
  uint32_t count_ = 0;
  uint32_t room_ = kFirstBatch;
  uint64_t covered_first_ = 1;
  uint64_t first_key_ = 1;
  uint64_t last_key_ = 0;
  uint64_t covered_last_ = 0;
  // It came from LastKeys.
  bool loaded_backwards_ = false;
  // The way of the walk, as far as value() knows.
  bool walks_backwards_ = false;
  // value_key_ is of this walk.
  bool value_seen_ = false;

  uint32_t prefetch_records_ = 0;
  uint64_t refresh_every_steps_ = 0;
  uint64_t steps_ = 0;

  // The value of value_key_ at this state; null: none at hand.
  const char* value_ = nullptr;
  uint64_t value_key_ = 0;
  std::unique_ptr<char, Free> value_buffer_;
  std::unique_ptr<WindowReader> window_;
  // Only looking at it finds that the store is closed.
  mutable Status status_;
  std::unique_ptr<uint64_t[]> many_keys_;
  uint64_t few_keys_[kInlineKeys];
};

}  // namespace engine_race

#endif  // ENGINE_RACE_SCAN_ITERATOR_IMPL_H_
