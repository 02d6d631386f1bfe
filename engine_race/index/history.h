// What the records of a part were before: for each superseded record that some live view may show,
// when it was superseded and what it said.
//
// The state of a key at epoch s is the oldest of its undo records that was superseded after s, else
// what the run holds. An undo record that no live view can need may be left out at any time: views
// of now see newer ones.
//
// Thread safety: const calls from any thread; never changes.
#ifndef ENGINE_RACE_INDEX_HISTORY_H_
#define ENGINE_RACE_INDEX_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine_race/index/index.h"
#include "engine_race/index/live_epochs.h"

#include "engine_race/base/assert.h"

namespace engine_race {

struct UndoRecord {
  uint64_t key = 0;
  uint64_t superseded_at = 0;  // the stamp of what came after it
  ValueRef ref;                // ValueRef::None() where there was nothing
};
static_assert(sizeof(UndoRecord) == 24);

// Which of the undo records of a key live views need. The records of one key after another, each
// key's in the order in which they were superseded.
//
// A record that says that there was nothing is of no use before another one that says so, or where
// the key is not there now either: keys that came and went between two views leave nothing.
class UndoFilter {
 public:
  explicit UndoFilter(const LiveEpochs& live) : live_(live) {}

  void BeginKey() {
    shown_from_ = 0;
    holds_nothing_ = false;
  }
  // Calls keep(record) with what is needed of this record and of those before it, as far as that is
  // known.
  template <typename KeepFn>
  void Add(const UndoRecord& record, const KeepFn& keep) {
    // The records of a key come in the order in which they were superseded.
    ENGINE_RACE_ASSERT(record.superseded_at >= shown_from_);
    const bool is_seen = live_.AnyIn(shown_from_, record.superseded_at);
    shown_from_ = record.superseded_at;
    if (!is_seen) return;
    if (record.ref.none()) {
      // The later one stands for both.
      holds_nothing_ = true;
      nothing_ = record;
      return;
    }
    if (holds_nothing_) keep(nothing_);
    holds_nothing_ = false;
    keep(record);
  }
  // Calls keep(record) with what is needed of the rest. is_absent() answers whether the key has no
  // record behind its history, and is called only where that matters.
  template <typename IsAbsentFn, typename KeepFn>
  void EndKey(const IsAbsentFn& is_absent, const KeepFn& keep) {
    if (holds_nothing_ && !is_absent()) keep(nothing_);
  }

 private:
  const LiveEpochs& live_;
  uint64_t shown_from_ = 0;
  // A record of this key that says that there was nothing, not yet followed by one that says more.
  bool holds_nothing_ = false;
  UndoRecord nothing_;
};

class History {
 public:
  // Not empty; by key, those of a key in the order in which they were superseded.
  explicit History(std::vector<UndoRecord> records);

  // What `key` was at `epoch`; false when that is what the run says.
  bool Find(uint64_t key, uint64_t epoch, ValueRef* ref) const;
  // How many records have lower keys.
  size_t Rank(uint64_t key) const;

  std::span<const UndoRecord> records() const { return records_; }
  uint64_t max_key() const { return records_.back().key; }
  // A view of this epoch or of a later one needs none of the records.
  uint64_t end_epoch() const { return end_epoch_; }
  size_t memory_bytes() const { return sizeof(*this) + records_.capacity() * sizeof(UndoRecord); }

  // Whether so much of it is of no use any more that a sweep pays.
  bool WorthSweeping(const LiveEpochs& live) const { return live.oldest() >= sweep_epoch_; }
  // What of it is still needed: `history` itself when that is everything, null when it is nothing.
  // Records that only a look at the part's run could show to be useless stay. May throw bad_alloc.
  static std::shared_ptr<const History> Sweep(const std::shared_ptr<const History>& history,
                                              const LiveEpochs& live);

 private:
  std::vector<UndoRecord> records_;
  uint64_t end_epoch_ = 0;
  // Once the oldest view is of this epoch, about half of the records are of no use.
  uint64_t sweep_epoch_ = 0;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_HISTORY_H_
