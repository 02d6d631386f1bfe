// Counters, latencies and properties of the C API.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "engine_race/base/guarded.h"
#include "engine_race/base/key.h"
#include "engine_race/base/nearest_name.h"
#include "engine_race/c_handles.h"
#include "engine_race/stats_fields.h"
#include "engine_race/stats_text.h"
#include "engine_race/store.h"
#include "include/engine_race_c.h"

using engine_race::BucketSpace;
using engine_race::Guarded;
using engine_race::LatencyHistogram;
using engine_race::LatencyKind;
using engine_race::Status;
using engine_race::Store;
using engine_race::StoreLatencies;
using engine_race::StoreStats;
using engine_race::c_api::Answer;
using engine_race::c_api::BadArgument;
using engine_race::c_api::CopyText;
using engine_race::c_api::IsStructSize;
using engine_race::c_api::NullArgument;
using engine_race::c_api::StoreCall;

namespace {

struct Property {
  std::string_view name;
  Status (*get)(const Store& store, std::string* text);
};

template <auto kMember>
Status MemberText(const Store& store, std::string* text) {
  *text = store.Stats().*kMember;
  return Status::Ok();
}

Status KeyRangeText(const Store& store, std::string* text) {
  *text = engine_race::ToString(store.Stats().key_range);
  return Status::Ok();
}

Status StatsTextOf(const Store& store, std::string* text) {
  *text = engine_race::StatsText(store.Stats(), store.Latencies());
  return Status::Ok();
}

Status PrometheusTextOf(const Store& store, std::string* text) {
  return engine_race::PrometheusText(store.Stats(), store.Latencies(), {}, text);
}

constexpr Property kProperties[] = {
    {"io_backend", MemberText<&StoreStats::io_backend>},
    {"write_backend", MemberText<&StoreStats::write_backend>},
    {"key_range", KeyRangeText},
    {"stats", StatsTextOf},
    {"prometheus", PrometheusTextOf},
};

// As of version 0.9; no padding.
constexpr size_t kLatencyBytes = 7 * sizeof(uint64_t);
constexpr size_t kLatenciesBytes =
    2 * sizeof(uint64_t) + engine_race::kLatencyKindCount * kLatencyBytes;
static_assert(sizeof(engine_race_latency) == kLatencyBytes);
static_assert(sizeof(engine_race_latencies) == kLatenciesBytes);

engine_race_latency LatencyOf(const StoreLatencies& all, LatencyKind kind) {
  const LatencyHistogram& histogram = all.Of(kind);
  return {histogram.count(),
          static_cast<uint64_t>(std::llround(histogram.mean_ns())),
          histogram.PercentileNs(0.5),
          histogram.PercentileNs(0.95),
          histogram.PercentileNs(0.99),
          histogram.PercentileNs(0.999),
          histogram.max_ns()};
}

}  // namespace

extern "C" {

const char* engine_race_stat_name(size_t index) {
  const auto fields = engine_race::StatsFields();
  // The names are literals.
  return index < fields.size() ? fields[index].name.data() : nullptr;
}

int engine_race_stats(engine_race_store* store, uint64_t* values, size_t count, size_t* given) {
  if (given == nullptr) return NullArgument();
  *given = 0;
  if (count > 0 && values == nullptr) return NullArgument();
  const StoreCall call(store);
  if (!call.ok()) return call.Refused();
  return Answer(Guarded([&] {
    const StoreStats stats = call->Stats();
    const auto fields = engine_race::StatsFields();
    for (; *given < std::min(count, fields.size()); ++*given) {
      values[*given] = fields[*given].get(stats);
    }
    return Status::Ok();
  }));
}

int engine_race_bucket_space(engine_race_store* store, uint64_t* live_bytes, uint64_t* dead_bytes,
                             size_t count, size_t* given) {
  if (given == nullptr) return NullArgument();
  *given = 0;
  const StoreCall call(store);
  if (!call.ok()) return call.Refused();
  return Answer(Guarded([&] {
    std::vector<BucketSpace> buckets;
    ENGINE_RACE_RETURN_IF_ERROR(call->SpaceByBucket(&buckets));
    for (; *given < std::min(count, buckets.size()); ++*given) {
      if (live_bytes != nullptr) live_bytes[*given] = buckets[*given].live_bytes;
      if (dead_bytes != nullptr) dead_bytes[*given] = buckets[*given].dead_bytes;
    }
    return Status::Ok();
  }));
}

int engine_race_latency_stats(engine_race_store* store, engine_race_latencies* latencies) {
  if (latencies == nullptr) return NullArgument();
  if (!IsStructSize(latencies->struct_bytes, kLatenciesBytes)) {
    return BadArgument("struct_bytes of the latencies is not their size");
  }
  const StoreCall call(store);
  if (!call.ok()) return call.Refused();
  return Answer(Guarded([&] {
    const StoreLatencies all = call->Latencies();
    const size_t struct_bytes = latencies->struct_bytes;
    // Members that a newer header has are 0.
    std::memset(latencies, 0, struct_bytes);
    *latencies = {struct_bytes,
                  all.measured ? uint64_t{1} : 0,
                  LatencyOf(all, LatencyKind::kRead),
                  LatencyOf(all, LatencyKind::kMultiRead),
                  LatencyOf(all, LatencyKind::kAsyncRead),
                  LatencyOf(all, LatencyKind::kWrite),
                  LatencyOf(all, LatencyKind::kRange),
                  LatencyOf(all, LatencyKind::kSync),
                  LatencyOf(all, LatencyKind::kGroupWrite),
                  LatencyOf(all, LatencyKind::kFlush)};
    return Status::Ok();
  }));
}

int engine_race_property(engine_race_store* store, const char* name, char** text) {
  if (text == nullptr) return NullArgument();
  *text = nullptr;
  if (name == nullptr) return NullArgument();
  const StoreCall call(store);
  if (!call.ok()) return call.Refused();
  return Answer(Guarded([&] {
    const auto* const property =
        std::find_if(std::begin(kProperties), std::end(kProperties),
                     [&](const Property& one) { return one.name == std::string_view(name); });
    if (property == std::end(kProperties)) {
      std::vector<std::string_view> names;
      for (const Property& one : kProperties) names.push_back(one.name);
      return Status::InvalidArgument("there is no property \"" + std::string(name) + "\"" +
                                     engine_race::DidYouMean(name, names));
    }
    std::string found;
    ENGINE_RACE_RETURN_IF_ERROR(property->get(*call, &found));
    return CopyText(found, text);
  }));
}

}  // extern "C"
