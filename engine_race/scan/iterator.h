// Walks over the records of a store in order of key, both ways, at one state of it.
//
// An iterator pins a view of its own: the snapshot that it was made from may be released first.
// Making one is cheap: it takes over the memory of one that its thread released
// (Options::cache_iterators). Keeping one is cheaper: Refresh moves it to another state and
// allocates nothing.
//
// Keys come from the index batch by batch, few at first and more the longer a walk goes on. A step
// within a batch, or a seek that ends in it, does without the index. A value is read when it is
// asked for.
//
// A handle: moves, does not copy, releases itself. One thread at a time. It may outlive its store:
// then it is not valid and its status says kInvalidArgument. So it is in a forked child of the
// process that made it, where releasing it frees nothing.
#ifndef ENGINE_RACE_SCAN_ITERATOR_H_
#define ENGINE_RACE_SCAN_ITERATOR_H_

#include <atomic>
#include <cstdint>
#include <string_view>
#include <utility>

#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "engine_race/scan/snapshot.h"

namespace engine_race {

struct IteratorOptions {
  // Null: the latest state, as of the iterator's making. Need not outlive the call.
  const Snapshot* snapshot = nullptr;
  // Keys in [lower_bound, upper_bound); empty means open on its side. Bounds, and the keys of
  // seeks, are clipped to Options::key_range. Copied.
  std::string_view lower_bound;
  std::string_view upper_bound;
  // How many values value() reads at once: the one asked for and those that the walk comes to next.
  // 0: as many as the walk asks for, by its earlier values and by the walk before it. 1: each value
  // by itself. Other numbers are at most 64. There are fewer when the memory for such reads is in
  // use. The walk goes from the last value asked for towards this one. Right after a seek it goes
  // forwards, or backwards after SeekForPrev and SeekToLast.
  uint32_t prefetch_records = 0;
  // After this many calls of Next and Prev the iterator moves on to the latest state by itself and
  // goes on from its key. So a long walk does not pin an old state. 0: never.
  uint64_t refresh_every_steps = 0;
};

class Iterator {
 public:
  // Not valid, and good for nothing but to be assigned to.
  Iterator() noexcept = default;
  Iterator(Iterator&& other) noexcept
      : stand_(std::exchange(other.stand_, {})),
        open_(other.open_),
        impl_(std::exchange(other.impl_, nullptr)) {}
  Iterator& operator=(Iterator&& other) noexcept {
    if (this != &other) {
      Release();
      stand_ = std::exchange(other.stand_, {});
      open_ = other.open_;
      impl_ = std::exchange(other.impl_, nullptr);
    }
    return *this;
  }
  ~Iterator() { Release(); }

  // It stands at a record. False after the last one and after an error: status() tells them apart.
  bool Valid() const {
    // Acquire: pairs with the release in ViewRegistry::Close.
    return stand_.at != nullptr && open_->load(std::memory_order_acquire);
  }
  // Ok, or what ended the walk: kCorruption, kIOError, kInvalidArgument (a key that has not 8
  // bytes, a store that is closed), kOutOfMemory. Cleared by the next seek of any kind. Good until
  // the next call.
  const Status& status() const;

  void SeekToFirst();
  void SeekToLast();
  // To the first record at or after `key`; to the last one at or before it.
  void Seek(std::string_view key);
  void SeekForPrev(std::string_view key);
  // Only when valid; otherwise they do nothing.
  void Next() {
    if (stand_.at != stand_.last) [[likely]] {
      stand_.at += kKeyBytes;
    } else {
      NextBatch();
    }
  }
  void Prev() {
    if (stand_.at != stand_.first) [[likely]] {
      stand_.at -= kKeyBytes;
    } else {
      PrevBatch();
    }
  }

  // The 8 bytes of the key, good until the iterator is moved on, refreshed or released; empty where
  // it stands at no record.
  std::string_view key() const { return {stand_.at, stand_.at == nullptr ? 0 : kKeyBytes}; }
  // The bytes of the value, good as long as the key is. On failure empty, and the iterator is
  // not valid any more.
  std::string_view value();

  // Moves on to the latest state, or to a snapshot's. The position is dropped: not valid until the
  // next seek. kInvalidArgument, and nothing changes, for a snapshot of another store.
  Status Refresh();
  Status Refresh(const Snapshot& snapshot);
  // Refresh, but it stays at its key, or at the next key after it when the new state has no such
  // key. An error of the search for that key stands in status() as well.
  Status RefreshKeepPosition();
  Status RefreshKeepPosition(const Snapshot& snapshot);

  // Gives back the view and the memory; the iterator is as if default-made.
  void Release() noexcept {
    if (impl_ != nullptr) ReleaseImpl();
  }

 private:
  friend class IteratorPool;
  class Impl;

  // The keys at hand, ascending, kKeyBytes bytes each, from `first` to `last`, and the one of them
  // that it stands at. All null at no record.
  struct Stand {
    const char* at = nullptr;
    const char* first = nullptr;
    const char* last = nullptr;
  };

  Iterator(const std::atomic<bool>* open, Impl* impl) noexcept : open_(open), impl_(impl) {}
  void NextBatch();
  void PrevBatch();
  void ReleaseImpl() noexcept;

  Stand stand_;
  // Whether the store is open, and of this process: in the registry of its view.
  const std::atomic<bool>* open_ = nullptr;
  Impl* impl_ = nullptr;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_SCAN_ITERATOR_H_
