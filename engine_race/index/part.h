// A part: all that the index keeps of one stretch of a bucket's keys. It has a sorted run that
// never changes, a delta of newer records, and a history of superseded records that live views may
// show. The run lies flat in memory, in an extent on disk, or in both.
//
// Thread safety: const calls from any thread, while nothing changes the delta.
#ifndef ENGINE_RACE_INDEX_PART_H_
#define ENGINE_RACE_INDEX_PART_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine_race/base/placement.h"
#include "engine_race/base/status.h"
#include "engine_race/index/crossed_tombstones.h"
#include "engine_race/index/delta.h"
#include "engine_race/index/frame_slots.h"
#include "engine_race/index/history.h"
#include "engine_race/index/live_versions.h"
#include "engine_race/index/paged_run.h"
#include "engine_race/index/ref_word.h"
#include "engine_race/index/sorted_run.h"
#include "engine_race/index/value_ref.h"
#include "engine_race/log/slot_table.h"

namespace engine_race {

struct alignas(64) Part {
  SortedRun run;  // empty if the part is paged
  Delta delta;
  // Null when it would be empty. A sweep may replace it under the lock of the bucket's index.
  std::shared_ptr<const History> history;
  // Where the run lies on disk; null if it was not written.
  PagedRunPtr extent;
  // The births of the bucket when the records of the run were the newest of their keys. None of
  // them lies in a row that was born later.
  uint64_t births = 0;
  // Not of an empty delta: all its records came after this moment.
  BucketMoment delta_since;
  // Likewise for the records that came after NoteCopied.
  BucketMoment later_since;
  bool has_later = false;
  CrossedTombstones crossed;  // of the delta

  // A record is about to come into the delta: the first one after `before`. With the lock of the
  // bucket's index.
  void NoteRecord(const BucketMoment& before) {
    if (delta.count() == 0) delta_since = before;
    if (!has_later) later_since = before;
    has_later = true;
  }
  // The delta was copied. With the lock that excludes NoteRecord.
  void NoteCopied() { has_later = false; }

  // Whether the run lies on disk alone.
  bool is_paged() const { return extent != nullptr && run.count() == 0; }
  // Whether walks have stepped over so many tombstones of the delta that a merge is worth it.
  bool is_crossed() const { return crossed.is_enough(run_count() + delta.count()); }
  size_t run_count() const { return is_paged() ? extent->record_count : run.count(); }
  // Not of a part without a run.
  uint64_t min_run_key() const { return is_paged() ? extent->min_key : run.min_key(); }

  // The word of the newest record of `key`, tombstones included: from the delta, else from the run.
  // Null when there is none, or when the lookup wants a block.
  RefWord* Locate(uint64_t key, const BlockAccess& access) const {
    RefWord* const word = delta.count() == 0 ? nullptr : delta.Locate(key);
    return word != nullptr ? word : LocateInRun(key, access);
  }
  // The record of `key` at `version`, from the history or from read(word). Also true where the key
  // is known not to have existed: see ValueRef::None. False also when the lookup wants a block.
  template <typename ReadFn>
  bool Find(uint64_t key, uint64_t version, const BlockAccess& access, const ReadFn& read,
            ValueRef* ref) const {
    const RefWord* word = delta.count() == 0 ? nullptr : delta.Locate(key, version);
    if (word == nullptr) {
      if (history != nullptr && history->Find(key, version, ref)) return true;
      word = LocateInRun(key, access);
    }
    if (word == nullptr) return false;
    *ref = read(*word);
    return true;
  }

  // The word that leads to `frame`, which holds a value of `key`; null when there is none. *newest:
  // whether that word is of the key's newest record. With the bucket locked.
  RefWord* LocateFrame(uint64_t key, uint32_t frame, const BlockAccess& access, bool* newest) const;

  size_t history_bytes() const { return history == nullptr ? 0 : history->memory_bytes(); }
  size_t memory_bytes() const {
    return sizeof(Part) + run.memory_bytes() + delta.memory_bytes() + history_bytes() +
           (extent == nullptr ? 0 : sizeof(PagedRun));
  }

 private:
  RefWord* LocateInRun(uint64_t key, const BlockAccess& access) const {
    if (!is_paged()) [[likely]] {
      return run.Locate(key);
    }
    return extent->Locate(key, *access.frames, access.lookup);
  }
};

// Of some parts: how many runs lie flat in memory, and how many records lie on disk alone.
struct RunCounts {
  uint64_t flat_run_count = 0;
  uint64_t paged_record_count = 0;

  void Add(const Part& part) {
    flat_run_count += part.run.count() > 0;
    paged_record_count += part.is_paged() ? part.extent->record_count : 0;
  }
};

inline RunCounts CountsOf(const Part& part) {
  RunCounts counts;
  counts.Add(part);
  return counts;
}

// How many records the delta of a part may have if its run and history have `record_count` records.
// A merge copies the part, so each record costs about record_count / limit copied records. But each
// lookup searches the delta first.
uint32_t DeltaLimit(size_t record_count);
// The limit of a paged part's delta. A merge writes its whole extent, so the delta takes a tenth of
// its records: that is a twenty-fifth of the bytes of their values.
uint32_t PagedDeltaLimit(size_t record_count);

// The sources of a merge: a run, a delta, and a history, which a sweep may replace in the part
// meanwhile.
struct MergeSource {
  // Of the part, or read from its extent.
  const SortedRun* run = nullptr;
  const Delta* delta = nullptr;
  std::shared_ptr<const History> history;
  // The last key of the part's extent; 0 without one. A run that was read from it lacks its void
  // words.
  uint64_t extent_max_key = 0;

  // The records of the run and the history, without the delta.
  size_t record_count() const {
    return run->count() + (history == nullptr ? 0 : history->records().size());
  }
};

// The parts that replace a part whose delta is full, or that part and a neighbour.
struct PartReplacement {
  // The words of one record in the old part and in the new part.
  struct HotWord {
    const RefWord* from;
    RefWord* to;
  };

  // Makes the words that were copied hot lead to where the old ones lead now. Does nothing if no
  // word was unswizzled since the copy. A word that was swizzled after the copy leads to its slot
  // in the new part, and its frame becomes an orphan.
  void CopyHotWordsAgain(const FrameSlots& frames) noexcept;

  // Whether one of `parts` has a history.
  bool keeps_history() const {
    return std::any_of(parts.begin(), parts.end(),
                       [](const auto& part) { return part->history != nullptr; });
  }

  // True: the old part keeps its run and gets an empty delta, and `parts` follow it. False: `parts`
  // replace it.
  bool keeps_old_run = false;
  std::vector<std::unique_ptr<Part>> parts;
  // The smallest key that belongs to each of `parts`. A part that replaces the old one from its
  // beginning takes over the old part's smallest key.
  std::vector<uint64_t> first_keys;
  std::vector<HotWord> hot_words;
  // The bucket's count of unswizzled words before they were copied.
  uint64_t unswizzle_count = 0;
  // The number of records in `parts`, which the merge has copied.
  size_t record_count = 0;
};

// Merges the deltas of one part, or of two neighbours, into their runs. The newest record of each
// key wins. Tombstones are dropped unless keep_tombstones.
//
// The histories of the new parts get the superseded records that live views may show, and undo
// records of the old histories likewise. Other superseded records are dropped. Histories hold
// slots, not frames.
//
// More than `split_records` records, keys and history together, make two parts, unless all are of
// one key. A single part keeps its old run if all the new keys lie above it, as appended keys do,
// and would make it too large.
//
// No source is changed. But its words may be swizzled or unswizzled at any time; CopyHotWordsAgain
// makes up for that. kOutOfMemory.
Status MergeParts(std::span<const MergeSource> sources, const LiveVersions& live,
                  const FrameSlots& frames, bool keep_tombstones, size_t split_records,
                  PartReplacement* replacement, const Placement& placement);

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_PART_H_
