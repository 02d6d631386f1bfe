#include "engine_race/index/giant_build.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "engine_race/index/giant_partitions.h"
#include "engine_race/index/key_log_stream.h"
#include "engine_race/index/newest.h"
#include "engine_race/index/part_builder.h"

namespace engine_race {
namespace {

// How many pages are sampled for each partition, and at most in all.
constexpr uint64_t kPagesPerPartition = 16;
constexpr uint64_t kMaxSamplePages = 4096;
constexpr uint32_t kPiecesInFlight = 4;
constexpr size_t kSlabBytes = size_t{16} << 20;
constexpr size_t kReportedSlots = 16;

class GiantBuild {
 public:
  GiantBuild(BuildContext* context, uint32_t bucket)
      : context_(context), bucket_(bucket), codec_(context->log().codec(bucket)) {
    const BuildLimits& limits = context->limits();
    // A quarter of the memory is for reading, the rest for the partitions.
    const uint64_t pieces = limits.giant_memory_bytes / 4 / limits.piece_bytes;
    workers_ = static_cast<uint32_t>(
        std::clamp<uint64_t>(pieces / kPiecesInFlight, 1, context->thread_count()));
    for (uint32_t i = 0; i < workers_; ++i) {
      slabs_.push_back(
          std::make_unique<SlabAllocator>(kSlabBytes, context->log().placement().memory()));
    }
  }

  Status Run() {
    ENGINE_RACE_RETURN_IF_ERROR(context_->Cut(bucket_, /*first_sequence=*/0, &cut_));
    std::vector<uint64_t> sample;
    ENGINE_RACE_RETURN_IF_ERROR(TakeSample(&sample));
    const std::vector<KeyRange> ranges = Partition(std::move(sample));
    ENGINE_RACE_RETURN_IF_ERROR(RunRounds(ranges));
    if (damaged_count_ > 0) {
      ENGINE_RACE_RETURN_IF_ERROR(context_->log().ConfirmDamage(bucket_));
      std::sort(damaged_slots_.begin(), damaged_slots_.end());
      context_->ReportDamage(bucket_, damaged_slots_, damaged_count_);
      damaged_ = true;
      ENGINE_RACE_RETURN_IF_ERROR(RunRounds(ranges));
    }
    return Install();
  }

 private:
  // A row of parts, with the smallest key of the partition that it was made from.
  struct Finished {
    uint64_t first_key;
    BucketIndex::Row parts;
  };

  bool Decode(const format::KeyEntry& entry, uint64_t slot, KeyRecord* record) const {
    return cut_.table.Decode(codec_, entry, slot, record) &&
           context_->log().geometry().IsIn(bucket_, record->key);
  }

  Status TakeSample(std::vector<uint64_t>* sample);
  std::vector<KeyRange> Partition(std::vector<uint64_t> sample) const;
  // Builds the parts of all `ranges` and adds them to finished_.
  Status RunRounds(std::vector<KeyRange> ranges);
  Status Route(GiantPartitions* partitions, bool first_round);
  Status SortRound(GiantPartitions* partitions);
  void NoteDamage(uint64_t slot, uint64_t count, bool first_round);
  Status Install();

  BuildContext* const context_;
  const uint32_t bucket_;
  const EntryCodec codec_;
  uint32_t workers_ = 1;
  BucketCut cut_;
  std::vector<std::unique_ptr<SlabAllocator>> slabs_;  // one a worker
  std::atomic<uint64_t> finished_bytes_{0};            // of parts that are not installed yet

  std::mutex mutex_;  // guards the members below while threads run
  std::vector<Finished> finished_;
  std::vector<uint32_t> damaged_slots_;  // the first few
  uint64_t damaged_count_ = 0;
  uint64_t found_damaged_ = 0;  // in this round

  // In a damaged bucket records of lower NewestBelow are dropped, and tombstones are kept.
  bool damaged_ = false;
  uint64_t first_provable_ = 0;
};

Status GiantBuild::TakeSample(std::vector<uint64_t>* sample) {
  const uint64_t per_page = kIoAlignment / sizeof(format::KeyEntry);
  const uint64_t page_count = cut_.logged_slot_end() / per_page;
  const uint64_t partitions = cut_.record_count / context_->limits().partition_records + 1;
  const uint64_t taken = std::min({page_count, partitions * kPagesPerPartition, kMaxSamplePages});
  const auto add = [&](const format::KeyEntry& entry, uint64_t slot) {
    KeyRecord record;
    if (cut_.Holds(slot) && Decode(entry, slot, &record)) sample->push_back(record.key);
  };
  Region page;
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(kIoAlignment, false, &page));
  const auto* const entries = reinterpret_cast<const format::KeyEntry*>(page.data());
  for (uint64_t i = 0; i < taken; ++i) {
    const uint64_t first_slot = page_count * i / taken * per_page;
    ENGINE_RACE_RETURN_IF_ERROR(
        context_->log().slots().ReadKeys(bucket_, first_slot, per_page, page.data()));
    for (size_t j = 0; j < per_page; ++j) add(entries[j], first_slot + j);
  }
  for (size_t j = 0; j < cut_.staged_keys.size(); ++j) {
    add(cut_.staged_keys[j], cut_.table.SlotOf(cut_.logged_key_watermark + j));
  }
  return Status::Ok();
}

std::vector<KeyRange> GiantBuild::Partition(std::vector<uint64_t> sample) const {
  std::sort(sample.begin(), sample.end());
  const uint64_t wanted = cut_.record_count / context_->limits().partition_records + 1;
  const Geometry& geometry = context_->log().geometry();
  std::vector<KeyRange> ranges = {geometry.KeysOf(bucket_)};
  for (uint64_t i = 1; i < wanted && !sample.empty(); ++i) {
    const uint64_t splitter = sample[sample.size() * i / wanted];
    if (splitter <= ranges.back().first) continue;
    ranges.push_back({splitter, ranges.back().last});
    ranges[ranges.size() - 2].last = splitter - 1;
  }
  return ranges;
}

Status GiantBuild::RunRounds(std::vector<KeyRange> ranges) {
  finished_.clear();
  finished_bytes_ = 0;
  const BuildLimits& limits = context_->limits();
  const uint64_t memory = limits.giant_memory_bytes / 4 * 3;
  // A quarter more than the expected size, because a sample is not exact.
  const uint64_t per_partition = limits.partition_records * sizeof(RoutedEntry) / 4 * 5;
  const size_t at_once = std::clamp<uint64_t>(memory / per_partition, 1, ranges.size());
  GiantPartitions partitions(at_once, workers_, &cut_.table);
  ENGINE_RACE_RETURN_IF_ERROR(partitions.Allocate(std::min(memory, at_once * per_partition),
                                                  context_->log().placement().memory()));
  bool first_round = !damaged_;
  while (!ranges.empty()) {
    const size_t taken = std::min(at_once, ranges.size());
    partitions.Begin({ranges.data(), taken});
    ENGINE_RACE_RETURN_IF_ERROR(Route(&partitions, first_round));
    if (first_round && damaged_count_ > 0) return Status::Ok();
    first_round = false;
    ENGINE_RACE_RETURN_IF_ERROR(SortRound(&partitions));
    ranges.erase(ranges.begin(), ranges.begin() + static_cast<ptrdiff_t>(taken));
    ranges.insert(ranges.end(), partitions.put_off().begin(), partitions.put_off().end());
    std::sort(ranges.begin(), ranges.end(),
              [](const KeyRange& a, const KeyRange& b) { return a.first < b.first; });
  }
  return Status::Ok();
}

// The first round checks every entry. The others check only the entries of their partitions, unless
// another process writes the store: a slot that it has used again since may have held any key.
Status GiantBuild::Route(GiantPartitions* partitions, bool first_round) {
  const bool checks_all = first_round || context_->log().follows();
  found_damaged_ = 0;
  const auto visit = [&](const KeyLogPiece& piece) {
    if (checks_all && piece.lost_count > 0) {
      NoteDamage(piece.first_slot + piece.entries.size(), piece.lost_count, first_round);
    }
    uint64_t slot = piece.first_slot;
    for (const format::KeyEntry& entry : piece.entries) {
      KeyRecord record;
      if (piece.Holds(cut_, slot) && (checks_all || partitions->InRound(entry.key))) {
        if (!Decode(entry, slot, &record)) {
          if (checks_all) NoteDamage(slot, 1, first_round);
        } else if (!damaged_ || cut_.table.NewestBelow(slot, record.sequence) >= first_provable_) {
          partitions->Add(piece.worker, {record.key, record.sequence, ValueRef(record)});
        }
      }
      ++slot;
    }
    return Status::Ok();
  };
  ENGINE_RACE_RETURN_IF_ERROR(
      StreamKeyLog(context_, bucket_, cut_, workers_, kPiecesInFlight, visit));
  partitions->Flush();
  if (!checks_all || found_damaged_ == damaged_count_) return Status::Ok();
  return Status(Code::kBusy, "bucket " + std::to_string(bucket_) + " has changed meanwhile");
}

Status GiantBuild::SortRound(GiantPartitions* partitions) {
  std::atomic<size_t> next{0};
  return context_->RunThreads(workers_, [&](uint32_t worker) {
    PartBuilder builder(slabs_[worker].get(), context_->limits().split_keys);
    l1::ExtentImage image;
    std::vector<IndexEntry> entries;
    while (!context_->failed()) {
      // Relaxed: each partition must only be handed out once.
      const size_t partition = next.fetch_add(1, std::memory_order_relaxed);
      if (partition >= partitions->count()) break;
      entries.clear();
      for (const RoutedEntry& entry : partitions->Sorted(partition)) {
        if (damaged_ || !entry.ref.tombstone()) entries.push_back({entry.key, entry.ref});
      }
      BucketIndex::Row parts;
      ENGINE_RACE_RETURN_IF_ERROR(builder.MakeParts(entries, &parts));
      for (const auto& part : parts) part->births = cut_.table.births();
      // Relaxed, here and below: an estimate.
      const uint64_t others = finished_bytes_.load(std::memory_order_relaxed);
      if (!damaged_) context_->PageFresh(parts, others, &image);
      for (const auto& part : parts) {
        finished_bytes_.fetch_add(part->memory_bytes(), std::memory_order_relaxed);
      }
      const std::lock_guard lock(mutex_);
      finished_.push_back({partitions->range(partition).first, std::move(parts)});
    }
    return Status::Ok();
  });
}

// The first round decides what is damaged. The others count it.
void GiantBuild::NoteDamage(uint64_t slot, uint64_t count, bool first_round) {
  const std::lock_guard lock(mutex_);
  for (const uint64_t end = slot + count; slot < end; ++slot) {
    if (!cut_.Holds(slot)) continue;
    ++found_damaged_;
    if (!first_round) continue;
    ++damaged_count_;
    if (damaged_slots_.size() < kReportedSlots) {
      damaged_slots_.push_back(static_cast<uint32_t>(slot));
    }
    // As in PartBuilder::BuildFromRecords.
    first_provable_ = std::max(first_provable_, cut_.table.SequenceEnd(slot) + 1);
  }
}

Status GiantBuild::Install() {
  std::sort(finished_.begin(), finished_.end(),
            [](const Finished& a, const Finished& b) { return a.first_key < b.first_key; });
  BucketIndex::Row row;
  for (Finished& each : finished_) {
    for (auto& part : each.parts) row.push_back(std::move(part));
  }
  slabs_.clear();
  const uint64_t births = cut_.table.births();
  return context_->bucket(bucket_).Install(std::move(row), damaged_,
                                           {{}, {cut_.record_count, births}, births});
}

}  // namespace

Status BuildGiant(BuildContext* context, uint32_t bucket) {
  return GiantBuild(context, bucket).Run();
}

}  // namespace engine_race
