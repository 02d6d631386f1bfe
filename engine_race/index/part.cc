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

// Divides a merged sequence of keys and undo records into shares of about the same size. All
// records of one key are in one share.
class ShareMaker {
 public:
  ShareMaker(uint64_t first_key, size_t share_records)
      : share_records_(share_records), shares_{{first_key, 0, 0}} {}

  void Divide(const MergePlan& plan, std::span<const UndoRecord> undo) {
    size_t at = 0;
    plan.Emit([&](const uint64_t* keys, const RefWord*, size_t count) {
      for (size_t i = 0; i < count; ++i) {
        for (; at < undo.size() && undo[at].key < keys[i]; ++at) ++Of(undo[at].key)->undo_count;
        ++Of(keys[i])->live_count;
      }
    });
    for (; at < undo.size(); ++at) ++Of(undo[at].key)->undo_count;
  }
  std::vector<Share> Take() { return std::move(shares_); }

 private:
  // The share that the next record belongs to.
  Share* Of(uint64_t key) {
    const Share& last = shares_.back();
    if (last.live_count + last.undo_count >= share_records_ && key > last_key_) {
      shares_.push_back({key, 0, 0});
    }
    last_key_ = key;
    return &shares_.back();
  }

  const size_t share_records_;
  uint64_t last_key_ = 0;
  std::vector<Share> shares_;
};

// Divides a merge into shares of at most `split_records`, unless a key has more by itself.
std::vector<Share> MakeShares(const MergePlan& plan, std::span<const UndoRecord> undo,
                              uint64_t first_key, size_t split_records) {
  const size_t count = plan.live_count() + undo.size();
  if (count <= split_records) return {{first_key, plan.live_count(), undo.size()}};
  const size_t share_count = (count + split_records - 1) / split_records;
  ShareMaker maker(first_key, (count + share_count - 1) / share_count);
  maker.Divide(plan, undo);
  return maker.Take();
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
         sources[0].record_count() + sources[0].delta->count() > split_records;
}

// Whether all new keys lie above all old keys.
bool OnlyAppends(const MergeSource& source) {
  const uint64_t first_new_key = source.delta->keys()[0];
  const SortedRun& run = *source.run;
  return run.count() > 0 && first_new_key > std::max(run.max_key(), source.extent_max_key) &&
         (source.history == nullptr || first_new_key > source.history->max_key());
}

}  // namespace

RefWord* Part::LocateFrame(uint64_t key, uint32_t frame, const BlockAccess& access,
                           bool* newest) const {
  const auto leads_there = [frame](const RefWord& word) {
    const ValueRef ref = word.Load();
    return ref.hot() && ref.frame() == frame;
  };
  *newest = true;
  for (size_t i = delta.Rank(key); i < delta.count() && delta.keys()[i] == key; ++i) {
    if (leads_there(delta.refs()[i])) return &delta.refs()[i];
    *newest = false;
  }
  RefWord* const word = LocateInRun(key, access);
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

uint32_t PagedDeltaLimit(size_t record_count) {
  return std::max<uint32_t>(DeltaLimit(record_count), static_cast<uint32_t>(record_count / 10));
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
    const uint64_t first_key = keeps_old ? sources[0].delta->keys()[0] : 0;
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
