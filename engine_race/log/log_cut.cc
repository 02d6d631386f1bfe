#include "engine_race/log/log_cut.h"

#include "engine_race/log/log_context.h"

namespace engine_race {

Status TakeCut(LogContext* context, std::vector<uint64_t>* record_counts,
               std::vector<SlotTable>* tables) {
  record_counts->assign(context->buckets.size(), 0);
  if (tables != nullptr) tables->assign(context->buckets.size(), SlotTable());
  const std::lock_guard<std::mutex> one_cut(context->cuts.mutex_);
  Status taken;
  context->batches.Cut([&] {
    // Relaxed: the locks of the buckets order the rest, see CutCounter::number.
    const uint64_t number = context->cuts.number_.fetch_add(1, std::memory_order_relaxed) + 1;
    for (uint32_t index = 0; index < context->buckets.size() && taken.ok(); ++index) {
      Bucket& bucket = context->buckets[index];
      if (bucket.damaged) {
        taken = context->DamagedCounts(index);
        continue;
      }
      const std::lock_guard<std::mutex> lock(bucket.mutex);
      bucket.at_cut.See(number, bucket.record_count);
      (*record_counts)[index] = bucket.at_cut.record_count;
      if (tables != nullptr) {
        (*tables)[index] = bucket.table_at_cut.Take(number, bucket.table);
      } else {
        bucket.table_at_cut.Skip(number);
      }
    }
  });
  return taken;
}

}  // namespace engine_race
