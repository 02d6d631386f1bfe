#include "engine_race/log/batch_remains.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine_race/log/entry_codec.h"
#include "engine_race/log/log_reader.h"

namespace engine_race {
namespace {

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

// The last `count` records of a bucket. Fewer when one of them is damaged.
Status ReadLast(LogContext* context, uint32_t bucket, uint64_t count,
                std::vector<Effect>* effects) {
  const LogReader reader(context);
  const EntryCodec codec = context->codec(bucket);
  const uint64_t end = context->buckets[bucket].RecordCount();
  for (uint64_t slot = end - count; slot < end; ++slot) {
    format::KeyEntry entry;
    ENGINE_RACE_RETURN_IF_ERROR(reader.ReadKeyEntry(bucket, slot, &entry));
    KeyRecord record;
    if (codec.Decode(entry, static_cast<uint32_t>(slot), slot + 1, &record)) {
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
