#include "engine_race/index/part.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <new>
#include <span>
#include <utility>

namespace engine_race {
namespace {

constexpr uint32_t kMinDeltaLimit = 64;
constexpr uint32_t kMaxDeltaLimit = 1024;
// A history may have room for this part of its records more.
constexpr size_t kSpareFraction = 8;

// Writes a merged sequence into one run, or into two of given sizes, and notes which of its words
// are hot.
class RunWriter {
 public:
  RunWriter(std::vector<SortedRun>* runs, std::vector<PartReplacement::HotWord>* hot_words)
      : runs_(runs), hot_words_(hot_words) {}

  void Append(const uint64_t* keys, const RefWord* refs, size_t count) {
    while (count > 0) {
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

// Where the records of the delta meet the run.
class MergePlan {
 public:
  MergePlan(const SortedRun& run, const Delta& delta, bool keep_tombstones)
      : run_(run), delta_(delta), keep_tombstones_(keep_tombstones), live_count_(run.count()) {
    places_.reserve(delta.count() - delta.superseded_count());
    for (uint32_t i = 0; i < delta.count();) {
      const uint64_t key = delta.keys()[i];
      Place place;
      place.newest = i;
      while (i < delta.count() && delta.keys()[i] == key) ++i;
      place.end = i;
      place.rank = static_cast<uint32_t>(run.Rank(key));
      place.replaces = place.rank < run.count() && run.keys()[place.rank] == key;
      live_count_ += Kept(place);
      live_count_ -= place.replaces;
      places_.push_back(place);
    }
  }

  size_t live_count() const { return live_count_; }

  // Calls append(keys, refs, count) with the merged sequence, stretch by stretch.
  template <typename AppendFn>
  void Emit(const AppendFn& append) const {
    size_t copied = 0;
    for (const Place& place : places_) {
      const size_t rank = place.rank;
      if (rank > copied) append(run_.keys() + copied, run_.refs() + copied, rank - copied);
      if (Kept(place)) append(delta_.keys() + place.newest, delta_.refs() + place.newest, 1);
      copied = rank + place.replaces;
    }
    if (run_.count() > copied) {
      append(run_.keys() + copied, run_.refs() + copied, run_.count() - copied);
    }
  }

  // Calls keep(record) with what live views need of what is no longer in the run: old undo records
  // and those of what the delta supersedes, in the order of a History.
  template <typename KeepFn>
  void EmitUndo(const History* history, const LiveEpochs& live, const FrameSlots& frames,
                const KeepFn& keep) const {
    UndoFilter filter(live);
    const std::span<const UndoRecord> old =
        history == nullptr ? std::span<const UndoRecord>() : history->records();
    size_t at = 0;
    const auto emit = [&](const UndoRecord& record) {
      if (filter.Keeps(record.superseded_at)) keep(record);
    };
    const auto emit_old_key = [&] {
      const uint64_t key = old[at].key;
      for (; at < old.size() && old[at].key == key; ++at) emit(old[at]);
    };
    for (const Place& place : places_) {
      const uint64_t key = delta_.keys()[place.newest];
      for (; at < old.size() && old[at].key < key; emit_old_key()) filter.BeginKey();
      filter.BeginKey();
      if (at < old.size() && old[at].key == key) emit_old_key();
      ValueRef before = place.replaces ? frames.SlotOf(run_.refs()[place.rank]) : ValueRef::None();
      for (uint32_t i = place.end; i-- > place.newest;) {
        emit({key, delta_.stamps()[i], before});
        before = frames.SlotOf(delta_.refs()[i]);
      }
    }
    for (; at < old.size(); emit_old_key()) filter.BeginKey();
  }

  // EmitUndo emits no more.
  size_t MostUndo(const History* history) const {
    return delta_.count() + (history == nullptr ? 0 : history->records().size());
  }

  // The keys at `positions`, ascending, of the merged sequence.
  std::vector<uint64_t> KeysAt(const std::vector<size_t>& positions) const {
    std::vector<uint64_t> found;
    size_t passed = 0;
    Emit([&](const uint64_t* keys, const RefWord*, size_t count) {
      while (found.size() < positions.size() && positions[found.size()] < passed + count) {
        found.push_back(keys[positions[found.size()] - passed]);
      }
      passed += count;
    });
    return found;
  }

 private:
  // Of one key: the delta's records [newest, end), and what they supersede in the run.
  struct Place {
    uint32_t newest;
    uint32_t end;
    uint32_t rank;
    bool replaces;
  };

  bool Kept(const Place& place) const {
    return keep_tombstones_ || !delta_.refs()[place.newest].Load().tombstone();
  }

  const SortedRun& run_;
  const Delta& delta_;
  const bool keep_tombstones_;
  std::vector<Place> places_;
  size_t live_count_;
};

Status MakeRuns(const MergePlan& plan, size_t split_keys, std::vector<SortedRun>* runs,
                std::vector<PartReplacement::HotWord>* hot_words) {
  const size_t live = plan.live_count();
  const size_t left = live > split_keys ? live / 2 : live;
  std::vector<size_t> ends = {0, left - 1};
  if (left < live) ends.insert(ends.end(), {left, live - 1});
  const std::vector<uint64_t> bounds = plan.KeysAt(ends);
  for (size_t i = 0; i < ends.size(); i += 2) {
    const size_t count = ends[i + 1] - ends[i] + 1;
    const CellMap map = CellMap::Over(bounds[i], bounds[i + 1], SortedRun::CellCountFor(count));
    SortedRun run;
    ENGINE_RACE_RETURN_IF_ERROR(SortedRun::Create(count, map, nullptr, &run));
    runs->push_back(std::move(run));
  }
  RunWriter writer(runs, hot_words);
  plan.Emit([&](const uint64_t* keys, const RefWord* refs, size_t count) {
    writer.Append(keys, refs, count);
  });
  for (SortedRun& run : *runs) run.FillCells();
  return Status::Ok();
}

// Spreads what live views need over the parts that hold its keys, or over a part without a run.
void MakeHistories(const MergePlan& plan, const History* history, const LiveEpochs& live,
                   const FrameSlots& frames, uint64_t first_key, PartReplacement* replacement) {
  if (live.empty()) return;
  std::vector<std::unique_ptr<Part>>& parts = replacement->parts;
  // All of them at first: most are for one part, and one pass over an old history is dear enough.
  std::vector<std::vector<UndoRecord>> records(std::max<size_t>(1, parts.size()));
  records[0].reserve(plan.MostUndo(history));
  size_t p = 0;
  plan.EmitUndo(history, live, frames, [&](const UndoRecord& record) {
    while (p + 1 < parts.size() && record.key >= replacement->first_keys[p + 1]) ++p;
    records[p].push_back(record);
  });
  if (parts.empty() && !records[0].empty()) {
    parts.push_back(std::make_unique<Part>());
    replacement->first_keys.push_back(first_key);
  }
  for (size_t p = 0; p < parts.size(); ++p) {
    if (records[p].empty()) continue;
    // What was too much is given back where it is much.
    if (records[p].capacity() - records[p].size() > records[p].size() / kSpareFraction) {
      records[p].shrink_to_fit();
    }
    parts[p]->history = std::make_shared<const History>(std::move(records[p]));
  }
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
  // Before the words are copied: what is unswizzled behind this look changes the count again.
  const uint64_t count = frames.unswizzle_count();
  if (count == unswizzle_count) return;
  for (const HotWord& word : hot_words) word.to->Store(word.from->Load());
  unswizzle_count = count;
}

uint32_t DeltaLimit(size_t run_count) {
  const auto root = static_cast<uint32_t>(std::sqrt(static_cast<double>(run_count)));
  return std::clamp(2 * root, kMinDeltaLimit, kMaxDeltaLimit);
}

Status MergePart(const Part& part, const std::shared_ptr<const History>& history,
                 const LiveEpochs& live, const FrameSlots& frames, bool keep_tombstones,
                 size_t split_keys, PartReplacement* replacement) {
  assert(part.delta.count() > 0);
  const SortedRun no_run;
  const uint64_t first_new_key = part.delta.keys()[0];
  const bool appended = part.run.count() > 0 && first_new_key > part.run.max_key() &&
                        (history == nullptr || first_new_key > history->max_key());
  const bool keeps_old = appended && part.run.count() + part.delta.count() > split_keys;
  replacement->parts.clear();
  replacement->first_keys.clear();
  replacement->keeps_old_run = keeps_old;
  replacement->hot_words.clear();
  // Before any word is copied: see CopyHotWordsAgain.
  replacement->unswizzle_count = frames.unswizzle_count();
  try {
    const MergePlan plan(keeps_old ? no_run : part.run, part.delta, keep_tombstones);
    std::vector<SortedRun> runs;
    if (plan.live_count() > 0) {
      ENGINE_RACE_RETURN_IF_ERROR(MakeRuns(plan, split_keys, &runs, &replacement->hot_words));
    }
    for (SortedRun& run : runs) {
      // What lies before the second part's keys, in the history too, belongs to the first one.
      const bool is_first = replacement->parts.empty();
      replacement->first_keys.push_back(is_first ? first_new_key : run.min_key());
      replacement->parts.push_back(std::make_unique<Part>());
      replacement->parts.back()->run = std::move(run);
    }
    MakeHistories(plan, keeps_old ? nullptr : history.get(), live, frames, first_new_key,
                  replacement);
    return Status::Ok();
  } catch (const std::bad_alloc&) {
    return Status::OutOfMemory("index: no memory to merge new records");
  }
}

}  // namespace engine_race
