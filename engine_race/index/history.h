// The undo records of one part. Each is a superseded record that a live view may show, with the
// version at which it was superseded.
//
// At version `s` a key has the state of its first undo record that was superseded after `s`. If
// there is none, it has the state that the run holds. An undo record that no live view needs may be
// dropped at any time, because later views show newer records.
//
// Thread safety: const calls from any thread. A history never changes.
#ifndef ENGINE_RACE_INDEX_HISTORY_H_
#define ENGINE_RACE_INDEX_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine_race/base/assert.h"
#include "engine_race/index/live_versions.h"
#include "engine_race/index/value_ref.h"

namespace engine_race {

struct UndoRecord {
  uint64_t key = 0;
  uint64_t superseded_at = 0;  // the stamp of what came after it
  ValueRef ref;                // ValueRef::None() where there was nothing
};
static_assert(sizeof(UndoRecord) == 24);

// Selects the undo records that live views need. Takes the records of one key after another, and
// those of a key in the order in which they were superseded.
//
// Two undo records in a row may say that the key did not exist: then the first is dropped. The last
// is dropped too if the key does not exist now. So keys that were put and deleted between two views
// leave nothing.
class UndoFilter {
 public:
  explicit UndoFilter(const LiveVersions& live) : live_(live) {}

  void BeginKey() {
    shown_from_ = 0;
    holds_nothing_ = false;
  }
  // Calls keep(record) for the records up to this one that are now known to be needed.
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
  // Ends a key: calls keep(record) if its last record is needed and was not kept yet. is_absent()
  // says whether the key has no newer record in the part. It is called only where that matters.
  template <typename IsAbsentFn, typename KeepFn>
  void EndKey(const IsAbsentFn& is_absent, const KeepFn& keep) {
    if (holds_nothing_ && !is_absent()) keep(nothing_);
  }

 private:
  const LiveVersions& live_;
  uint64_t shown_from_ = 0;
  // nothing_ says that this key did not exist, and no record has followed that says more.
  bool holds_nothing_ = false;
  UndoRecord nothing_;
};

class History {
 public:
  // `records` must not be empty. They are sorted by key, those of a key in the order in which they
  // were superseded.
  explicit History(std::vector<UndoRecord> records);

  // The state of `key` at `version`; false when it is the state that the run holds.
  bool Find(uint64_t key, uint64_t version, ValueRef* ref) const;
  // How many undo records have lower keys.
  size_t Rank(uint64_t key) const;

  std::span<const UndoRecord> records() const { return records_; }
  uint64_t max_key() const { return records_.back().key; }
  // A view of this version or of a later one needs none of the undo records.
  uint64_t end_version() const { return end_version_; }
  size_t memory_bytes() const { return sizeof(*this) + records_.capacity() * sizeof(UndoRecord); }

  // Whether enough undo records have become useless for a sweep.
  bool WorthSweeping(const LiveVersions& live) const { return live.oldest() >= sweep_version_; }
  // The undo records that are still needed: `history` itself if all are, null if none is. Keeps
  // records that only a look at the part's run could show to be useless. May throw std::bad_alloc.
  static std::shared_ptr<const History> Sweep(const std::shared_ptr<const History>& history,
                                              const LiveVersions& live);

 private:
  std::vector<UndoRecord> records_;
  uint64_t end_version_ = 0;
  // Once the oldest view is of this version, about half of the undo records are useless.
  uint64_t sweep_version_ = 0;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_HISTORY_H_
