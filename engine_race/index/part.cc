#include "engine_race/index/part.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>
#include <span>
#include <utility>

#include "engine_race/base/assert.h"
#include "engine_race/index/merge_plan.h"

namespace engine_race {
namespace {

constexpr uint32_t kMinDeltaLimit = 64;
constexpr uint32_t kMaxDeltaLimit = 1024;
// A history may have unused room for this part of its records.
constexpr size_t kSpareFraction = 8;

// Writes a merged sequence into runs of given sizes and notes which of the words are hot.
class RunWriter {
 public:
  RunWriter(std::vector<SortedRun>* runs, std::vector<PartReplacement::HotWord>* hot_words)
      : runs_(runs), hot_words_(hot_words) {}

  void Append(const uint64_t* keys, const RefWord* refs, size_t count) {
    while (count > 0) {
      ENGINE_RACE_ASSERT(current_ < runs_->size());
      if (used_ == (*runs_)[current_].count()) {
        ++current_;
        used_ = 0;
        continue;
      }
      SortedRun& run = (*runs_)[current_];
      const size_t taken = std::min(count, run.count() - used_);
      std::memcpy(run.mutable_keys() + used_, keys, taken * sizeof(*keys));
      CopyWords(refs, taken, run.mutable_refs() + used_);
      used_ += taken;
      keys += taken;
      refs += taken;
      count -= taken;
    }
  }

 private:
  void CopyWords(const RefWord* from, size_t count, RefWord* to) {
    for (size_t i = 0; i < count; ++i) {
      const ValueRef ref = from[i].Load();
      to[i].Store(ref);
      if (ref.hot()) hot_words_->push_back({&from[i], &to[i]});
    }
  }

  std::vector<SortedRun>* const runs_;
  std::vector<PartReplacement::HotWord>* const hot_words_;
  size_t current_ = 0;
  size_t used_ = 0;
};

// The share of the merged sequence that one new part gets.
struct Share {
  uint64_t first_key = 0;
  size_t live_count = 0;
  size_t undo_count = 0;
};

// Finds the key that about half of a merge's keys and undo records are below.
class MiddleFinder {
 public:
  explicit MiddleFinder(size_t record_count) : half_(record_count / 2) {}

  void Find(const MergePlan& plan, std::span<const UndoRecord> undo) {
    size_t at = 0;
    plan.Emit([&](const uint64_t* keys, const RefWord*, size_t count) {
      for (size_t i = 0; i < count && !is_found_; ++i) {
        for (; at < undo.size() && undo[at].key < keys[i]; ++at) {
          Pass(undo[at].key, &left_.undo_count);
        }
        Pass(keys[i], &left_.live_count);
      }
    });
    for (; at < undo.size() && !is_found_; ++at) Pass(undo[at].key, &left_.undo_count);
  }

  // False when all records from the middle on are of one key.
  bool is_found() const { return is_found_; }
  uint64_t key() const { return last_key_; }
  // How many keys and undo records lie below the middle.
  const Share& left() const { return left_; }

 private:
  void Pass(uint64_t key, size_t* counter) {
    if (is_found_) return;
    is_found_ = passed_ >= half_ && key > last_key_;
    last_key_ = key;
    ++passed_;
    if (!is_found_) ++*counter;
  }

  const size_t half_;
  size_t passed_ = 0;
  uint64_t last_key_ = 0;
  bool is_found_ = false;
  Share left_;
};

// Divides a merge into one share, or into two that are not empty.
std::vector<Share> MakeShares(const MergePlan& plan, std::span<const UndoRecord> undo,
                              uint64_t first_key, size_t split_records) {
  const size_t count = plan.live_count() + undo.size();
  if (count <= split_records) return {{first_key, plan.live_count(), undo.size()}};
  MiddleFinder middle(count);
  middle.Find(plan, undo);
  if (!middle.is_found()) return {{first_key, plan.live_count(), undo.size()}};
  const Share& left = middle.left();
  ENGINE_RACE_ASSERT(left.live_count <= plan.live_count() && left.undo_count <= undo.size());
  ENGINE_RACE_ASSERT(left.live_count + left.undo_count > 0);
  return {{first_key, left.live_count, left.undo_count},
          {middle.key(), plan.live_count() - left.live_count, undo.size() - left.undo_count}};
}

Status MakeRuns(const MergePlan& plan, std::span<const Share> shares, const Placement& placement,
                std::vector<SortedRun>* runs, std::vector<PartReplacement::HotWord>* hot_words) {
  std::vector<size_t> ends;
  size_t begin = 0;
  for (const Share& share : shares) {
    if (share.live_count > 0) ends.insert(ends.end(), {begin, begin + share.live_count - 1});
    begin += share.live_count;
  }
  const std::vector<uint64_t> bounds = plan.KeysAt(ends);
  size_t bound = 0;
  for (const Share& share : shares) {
    SortedRun run;
    if (share.live_count > 0) {
      const CellMap map = CellMap::Over(bounds[bound], bounds[bound + 1],
                                        SortedRun::CellCountFor(share.live_count));
      bound += 2;
      ENGINE_RACE_RETURN_IF_ERROR(
          SortedRun::Create(share.live_count, map, nullptr, &run, placement));
    }
    runs->push_back(std::move(run));
  }
  RunWriter writer(runs, hot_words);
  plan.Emit([&](const uint64_t* keys, const RefWord* refs, size_t count) {
    writer.Append(keys, refs, count);
  });
  for (SortedRun& run : *runs) {
    if (run.count() > 0) run.FillCells();
  }
  return Status::Ok();
}

std::vector<UndoRecord> UndoOf(const MergePlan& plan, const LiveVersions& live,
                               const FrameSlots& frames) {
  std::vector<UndoRecord> undo;
  if (live.empty()) return undo;
  undo.reserve(plan.MostUndo());
  plan.EmitUndo(live, frames, [&undo](const UndoRecord& record) { undo.push_back(record); });
  ENGINE_RACE_ASSERT(undo.size() <= plan.MostUndo());
  return undo;
}

// Divides `undo` among the histories of the new parts.
void MakeHistories(std::vector<UndoRecord> undo, std::span<const Share> shares,
                   std::span<const std::unique_ptr<Part>> parts) {
  if (shares.size() == 1 && !undo.empty()) {
    // Gives unused room back if it is large.
    if (undo.capacity() - undo.size() > undo.size() / kSpareFraction) undo.shrink_to_fit();
    parts[0]->history = std::make_shared<const History>(std::move(undo));
    return;
  }
  auto begin = undo.begin();
  for (size_t i = 0; i < shares.size(); ++i) {
    const auto end = begin + static_cast<ptrdiff_t>(shares[i].undo_count);
    if (begin != end) {
      parts[i]->history = std::make_shared<const History>(std::vector<UndoRecord>(begin, end));
    }
    begin = end;
  }
  ENGINE_RACE_ASSERT(begin == undo.end());
}

// Whether a merge into one part would exceed the limit of records.
bool WouldOverflow(std::span<const MergeSource> sources, size_t split_records) {
  return sources.size() == 1 &&
         sources[0].record_count() + sources[0].part->delta.count() > split_records;
}

// Whether all new keys lie above all old keys.
bool OnlyAppends(const MergeSource& source) {
  const uint64_t first_new_key = source.part->delta.keys()[0];
  const SortedRun& run = source.part->run;
  return run.count() > 0 && first_new_key > run.max_key() &&
         (source.history == nullptr || first_new_key > source.history->max_key());
}

}  // namespace

RefWord* Part::LocateFrame(uint64_t key, uint32_t frame, bool* newest) const {
  const auto leads_there = [frame](const RefWord& word) {
    const ValueRef ref = word.Load();
    return ref.hot() && ref.frame() == frame;
  };
  *newest = true;
  for (size_t i = delta.Rank(key); i < delta.count() && delta.keys()[i] == key; ++i) {
    if (leads_there(delta.refs()[i])) return &delta.refs()[i];
    *newest = false;
  }
  RefWord* const word = run.Locate(key);
  return word != nullptr && leads_there(*word) ? word : nullptr;
}

void PartReplacement::CopyHotWordsAgain(const FrameSlots& frames) noexcept {
  // Before the words are copied: a word that is unswizzled after this load changes the count again.
  const uint64_t count = frames.unswizzle_count();
  if (count == unswizzle_count) return;
  for (const HotWord& word : hot_words) word.to->Store(word.from->Load());
  unswizzle_count = count;
}

uint32_t DeltaLimit(size_t record_count) {
  const auto root = static_cast<uint32_t>(std::sqrt(static_cast<double>(record_count)));
  return std::clamp(2 * root, kMinDeltaLimit, kMaxDeltaLimit);
}

Status MergeParts(std::span<const MergeSource> sources, const LiveVersions& live,
                  const FrameSlots& frames, bool keep_tombstones, size_t split_records,
                  PartReplacement* replacement, const Placement& placement) {
  const bool keeps_old = WouldOverflow(sources, split_records) && OnlyAppends(sources[0]);
  *replacement = PartReplacement();
  replacement->keeps_old_run = keeps_old;
  // Before any word is copied: see CopyHotWordsAgain.
  replacement->unswizzle_count = frames.unswizzle_count();
  try {
    const MergePlan plan(sources, keeps_old, keep_tombstones);
    std::vector<UndoRecord> undo = UndoOf(plan, live, frames);
    replacement->record_count = plan.live_count() + undo.size();
    if (replacement->record_count == 0) return Status::Ok();
    // Unless the old run stays, the first new part begins where the sources did.
    const uint64_t first_key = keeps_old ? sources[0].part->delta.keys()[0] : 0;
    const std::vector<Share> shares = MakeShares(plan, undo, first_key, split_records);
    std::vector<SortedRun> runs;
    ENGINE_RACE_RETURN_IF_ERROR(MakeRuns(plan, shares, placement, &runs, &replacement->hot_words));
    for (size_t i = 0; i < shares.size(); ++i) {
      replacement->first_keys.push_back(shares[i].first_key);
      replacement->parts.push_back(std::make_unique<Part>());
      replacement->parts.back()->run = std::move(runs[i]);
    }
    MakeHistories(std::move(undo), shares, replacement->parts);
    ENGINE_RACE_ASSERT(replacement->parts.size() == replacement->first_keys.size());
    return Status::Ok();
  } catch (const std::bad_alloc&) {
    return Status::OutOfMemory("index: no memory to merge new records");
  }
}

}  // namespace engine_race
