// How the index learns of records: what a bucket holds when it is cut, and every later append. And
// how reclaim learns of groups of entries.
//
// Thread safety: the log calls an AppendListener under the lock of the bucket that it names, in the
// order of sequence numbers. The log keeps the pointer until DetachListener; the index owns the
// listener. Invariant: it hears of every record of its bucket from its cut on, each once, until it
// is suspended. It also hears of each record that moves. A suspended one is still asked for views.
#ifndef ENGINE_RACE_LOG_APPEND_LISTENER_H_
#define ENGINE_RACE_LOG_APPEND_LISTENER_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "engine_race/base/function_ref.h"
#include "engine_race/base/round_up.h"
#include "engine_race/base/status.h"
#include "engine_race/log/entry_codec.h"
#include "engine_race/log/format.h"
#include "engine_race/log/slot_table.h"

namespace engine_race {

// Told of each new record of a bucket once the bucket has been cut.
class AppendListener {
 public:
  virtual ~AppendListener() = default;
  // Called first of all for a record that is no deletion, and before the commit of a batch that has
  // one. kFull: the listener has no room for more keys now. A few loads.
  virtual Status CheckRoom() { return Status::Ok(); }
  // Called before anything of a write is visible: makes room, or refuses the write.
  virtual Status Prepare(uint32_t bucket) = 0;
  using KeyFn = FunctionRef<uint64_t(uint32_t i)>;
  // Prepare for `count` records of a batch. key_of(i) is the key of the i-th. OnAppend tells of
  // them later.
  virtual Status PrepareMany(uint32_t bucket, uint32_t count, KeyFn key_of) {
    static_cast<void>(count);
    static_cast<void>(key_of);
    return Prepare(bucket);
  }
  // Between these two calls the log tells of records that a view shows whole or not at all. Several
  // threads may be between them. BeginBatch may wait for views that are being taken, and views wait
  // for EndBatch.
  virtual void BeginBatch() noexcept {}
  virtual void EndBatch() noexcept {}
  // Called once the record is staged, or in the logs, and counted, before the write is
  // acknowledged.
  virtual void OnAppend(uint32_t bucket, const KeyRecord& record) noexcept = 0;
  // Called for a record that was moved to another slot. It is still the newest of its key.
  virtual void OnMove(uint32_t bucket, const KeyRecord& record) noexcept {
    OnAppend(bucket, record);
  }
  // Another process writes the store. The bucket's records are not those any more that the listener
  // was told of. So the log detaches it, under the bucket's lock, and before any reader can notice
  // that. From now on the listener answers nothing about the bucket until it has cut it anew.
  virtual void OnDetach(uint32_t /*bucket*/) noexcept {}
  // Likewise, under the bucket's lock: slots were used again that views from before now may show.
  virtual void OnReuse(uint32_t /*bucket*/) noexcept {}
  // Views of this version or later ones show what is appended from now on. Views of lower versions
  // do not show it.
  virtual uint64_t CurrentVersion() const noexcept { return 0; }
  // Whether a view of a version in [first, end) may be live.
  virtual bool HasViewIn(uint64_t /*first*/, uint64_t /*end*/) const noexcept { return false; }
};

// Told of each group of entries that was written to the key log.
class KeyGroupListener {
 public:
  virtual ~KeyGroupListener() = default;
  // Called by the thread that has written the group, without any lock. The bucket has at least
  // `record_count` records. The entry of a record may be zeros if the record was synced before the
  // group was full.
  virtual void OnKeyGroup(uint32_t bucket, std::span<const format::KeyEntry> entries,
                          uint64_t record_count) noexcept = 0;
};

// Keeps the rows of a bucket as they are for the reader of a cut.
class CutPin {
 public:
  CutPin() = default;
  explicit CutPin(std::atomic<uint32_t>* count) : count_(count) {
    // Relaxed: raised and looked at under the lock of the bucket.
    count_->fetch_add(1, std::memory_order_relaxed);
  }
  CutPin(CutPin&& other) noexcept : count_(std::exchange(other.count_, nullptr)) {}
  CutPin& operator=(CutPin&& other) noexcept {
    std::swap(count_, other.count_);
    return *this;
  }
  ~CutPin() {
    // Release pairs with the acquire in RowMover::CanRelease: the reads have ended.
    if (count_ != nullptr) count_->fetch_sub(1, std::memory_order_release);
  }

 private:
  std::atomic<uint32_t>* count_ = nullptr;
};

// The content of one bucket when it was cut: its rows, and the appended records from
// first_sequence on.
struct BucketCut {
  // The staged entries begin here. The others are to be read from the key log.
  uint64_t first_staged() const { return std::max(first_sequence, logged_key_watermark); }
  // How many slots, from the first one on, may hold records.
  uint64_t slot_end() const { return table.SlotEnd(record_count); }
  bool Holds(uint64_t slot) const { return table.Holds(slot, record_count); }
  // With first_sequence 0 the entries of slots below this are read from the key log, in whole
  // pages. PutStaged replaces those that are staged.
  uint64_t logged_slot_end() const {
    return table.has_rows() ? slot_end() : RoundUp(logged_key_watermark, format::kPageEntries);
  }
  // Puts the staged entries into their slots. `entries` has slot_end() of them.
  void PutStaged(format::KeyEntry* entries) const {
    for (size_t i = 0; i < staged_keys.size(); ++i) {
      entries[table.SlotOf(first_staged() + i)] = staged_keys[i];
    }
  }

  uint64_t first_sequence = 0;
  uint64_t record_count = 0;
  // The entries of appended records below this are in the key log.
  uint64_t logged_key_watermark = 0;
  // Appended records below this are in both logs.
  uint64_t logged_watermark = 0;
  // The entries of appended records from first_staged() to record_count.
  std::vector<format::KeyEntry> staged_keys;
  SlotTable table;
  CutPin pin;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_APPEND_LISTENER_H_
