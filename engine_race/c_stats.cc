// Counters and properties of the C API.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

#include "engine_race/base/guarded.h"
#include "engine_race/c_handles.h"
#include "engine_race/store.h"
#include "include/engine_race_c.h"

using engine_race::Guarded;
using engine_race::Status;
using engine_race::StoreStats;
using engine_race::c_api::Answer;
using engine_race::c_api::CopyText;
using engine_race::c_api::NullArgument;

namespace {

struct Stat {
  const char* name;
  uint64_t (*get)(const StoreStats& stats);
};

#define ENGINE_RACE_STAT(member)                                                         \
  Stat {                                                                                 \
#member, [](const StoreStats& stats) { return static_cast<uint64_t>(stats.member); } \
  }

// New ones are added behind the last one: a counter keeps its number.
constexpr Stat kStats[] = {
    ENGINE_RACE_STAT(record_count),
    ENGINE_RACE_STAT(synced_record_count),
    ENGINE_RACE_STAT(flush_count),
    ENGINE_RACE_STAT(durable_write_count),
    ENGINE_RACE_STAT(log_memory_bytes),
    ENGINE_RACE_STAT(index_memory_bytes),
    ENGINE_RACE_STAT(index_written_bytes),
    ENGINE_RACE_STAT(index_disk_bytes),
    ENGINE_RACE_STAT(range_memory_bytes),
    ENGINE_RACE_STAT(task_memory_bytes),
    ENGINE_RACE_STAT(iterator_memory_bytes),
    ENGINE_RACE_STAT(frame_memory_bytes),
    ENGINE_RACE_STAT(frame_limit_bytes),
    ENGINE_RACE_STAT(frame_value_bytes),
    ENGINE_RACE_STAT(frame_block_bytes),
    ENGINE_RACE_STAT(frame_hit_count),
    ENGINE_RACE_STAT(frame_miss_count),
    ENGINE_RACE_STAT(frame_admission_count),
    ENGINE_RACE_STAT(frame_eviction_count),
    ENGINE_RACE_STAT(block_hit_count),
    ENGINE_RACE_STAT(block_miss_count),
    ENGINE_RACE_STAT(memory_budget_bytes),
    ENGINE_RACE_STAT(view_count),
    ENGINE_RACE_STAT(view_pinned_bytes),
    ENGINE_RACE_STAT(oldest_view_age_ms),
    ENGINE_RACE_STAT(bucket_count),
    ENGINE_RACE_STAT(bucket_capacity_records),
    ENGINE_RACE_STAT(staging_mapped),
    ENGINE_RACE_STAT(path_count),
};

struct Property {
  std::string_view name;
  std::string (*get)(const StoreStats& stats);
};

constexpr Property kProperties[] = {
    {"io_backend", [](const StoreStats& stats) { return stats.io_backend; }},
    {"write_backend", [](const StoreStats& stats) { return stats.write_backend; }},
    {"key_range",
     [](const StoreStats& stats) {
       return std::to_string(stats.key_range.first) + "-" + std::to_string(stats.key_range.last);
     }},
};

}  // namespace

extern "C" {

const char* engine_race_stat_name(size_t index) {
  return index < std::size(kStats) ? kStats[index].name : nullptr;
}

int engine_race_stats(engine_race_store* store, uint64_t* values, size_t count, size_t* given) {
  if (given == nullptr) return NullArgument();
  *given = 0;
  if (store == nullptr || (count > 0 && values == nullptr)) return NullArgument();
  return Answer(Guarded([&] {
    const StoreStats stats = store->store->Stats();
    for (; *given < std::min(count, std::size(kStats)); ++*given) {
      values[*given] = kStats[*given].get(stats);
    }
    return Status::Ok();
  }));
}

int engine_race_property(engine_race_store* store, const char* name, char** text) {
  if (text == nullptr) return NullArgument();
  *text = nullptr;
  if (store == nullptr || name == nullptr) return NullArgument();
  return Answer(Guarded([&] {
    const auto* const property =
        std::find_if(std::begin(kProperties), std::end(kProperties),
                     [&](const Property& one) { return one.name == std::string_view(name); });
    if (property == std::end(kProperties)) {
      return Status::InvalidArgument("there is no property \"" + std::string(name) + "\"");
    }
    return CopyText(property->get(store->store->Stats()), text);
  }));
}

}  // extern "C"
