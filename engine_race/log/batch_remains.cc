#include "engine_race/log/batch_remains.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "engine_race/base/memory.h"
#include "engine_race/log/entry_codec.h"
#include "engine_race/log/log_reader.h"

namespace engine_race {
namespace {

constexpr uint64_t kPageEntries = kIoAlignment / sizeof(format::KeyEntry);

// Records that agree in this have the same effect.
struct Effect {
  uint64_t key = 0;
  uint32_t value_checksum = 0;
  bool tombstone = false;

  bool operator==(const Effect&) const = default;
};

std::vector<Effect> EffectsOf(const BatchPlan& plan, const BatchPart& part) {
  std::vector<Effect> effects;
  effects.reserve(part.size());
  for (uint32_t item = part.begin; item < part.end; ++item) {
    const WriteBatch::Record& record = plan.record(item);
    const bool tombstone = record.value == nullptr;
    effects.push_back({record.key, tombstone ? 0 : ChecksumOfHash(record.value_hash), tombstone});
  }
  return effects;
}

// The last `count` records of a bucket. Fewer when one of them is not where it was appended.
Status ReadLast(LogContext* context, uint32_t bucket, uint64_t count,
                std::vector<Effect>* effects) {
  BucketCut cut;
  const uint64_t first = context->buckets[bucket].RecordCount() - count;
  ENGINE_RACE_RETURN_IF_ERROR(LogReader(context).LookAtBucket(bucket, first, &cut));
  Region page;
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(kIoAlignment, /*huge_pages=*/false, &page));
  uint64_t page_slot = ~uint64_t{0};
  const EntryCodec codec = context->codec(bucket);
  for (uint64_t sequence = first; sequence < cut.record_count; ++sequence) {
    format::KeyEntry entry{};
    uint64_t slot = 0;
    if (sequence >= cut.first_staged()) {
      entry = cut.staged_keys[sequence - cut.first_staged()];
    } else if (cut.table.SlotOf(sequence, &slot)) {
      const uint64_t in_page = slot % kPageEntries;
      if (page_slot != slot - in_page) {
        page_slot = slot - in_page;
        ENGINE_RACE_RETURN_IF_ERROR(context->files.KeyFile(bucket).Read(
            page.data(), kIoAlignment, context->geometry().KeyOffset(bucket, page_slot)));
      }
      std::memcpy(&entry, page.data() + in_page * sizeof(entry), sizeof(entry));
    }
    KeyRecord record;
    if (SlotTable::DecodeAppended(codec, entry, sequence, &record)) {
      effects->push_back({record.key, record.value_checksum, record.tombstone});
    } else {
      effects->clear();
    }
  }
  return Status::Ok();
}

// The length of the longest beginning of `part` with which `last` ends, by the prefix function of
// Knuth, Morris and Pratt.
size_t CommonLength(const std::vector<Effect>& part, const std::vector<Effect>& last) {
  std::vector<size_t> shorter(part.size());
  const auto extend = [&](size_t length, const Effect& next) {
    while (length > 0 && (length == part.size() || !(part[length] == next))) {
      length = shorter[length - 1];
    }
    return part[length] == next ? length + 1 : length;
  };
  for (size_t i = 1; i < part.size(); ++i) shorter[i] = extend(shorter[i - 1], part[i]);
  size_t length = 0;
  for (const Effect& effect : last) length = extend(length, effect);
  return length;
}

}  // namespace

Status LeaveOutAppended(LogContext* context, BatchPlan* plan) {
  for (BatchPart& part : plan->parts()) {
    const Bucket& bucket = context->buckets[part.bucket];
    if (bucket.damaged) continue;
    std::vector<Effect> last;
    const uint64_t count = std::min<uint64_t>(part.size(), bucket.RecordCount());
    ENGINE_RACE_RETURN_IF_ERROR(ReadLast(context, part.bucket, count, &last));
    part.begin += static_cast<uint32_t>(CommonLength(EffectsOf(*plan, part), last));
  }
  return Status::Ok();
}

}  // namespace engine_race
