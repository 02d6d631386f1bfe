#include "harness/guest/power_plan.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <map>

#include "engine_race/base/key.h"

namespace engine_race::powercut {
namespace {

using Versions = std::array<uint64_t, kKeysPerBucket>;

// Deletes leave no version in the store, so a prefix may end a little after the last version found.
constexpr uint32_t kUnseenOperationCount = 128;

std::string Describe(uint64_t version) {
  if (version == 0) return "nothing";
  return "cycle " + std::to_string(version >> 32) + " operation " +
         std::to_string(version & 0xffffffff);
}

std::string KeyName(uint64_t key) {
  char text[32];
  std::snprintf(text, sizeof(text), "%016" PRIx64, key);
  return text;
}

// Collects all that Range visits, by key.
std::string Collect(const Plan& plan, Store* store, std::map<uint64_t, uint64_t>* found) {
  std::string violation;
  uint64_t last = 0;
  bool first = true;
  const Status status =
      store->Range({}, {}, [&](std::string_view key_bytes, std::string_view value) {
        const uint64_t key = DecodeKey(key_bytes.data());
        uint64_t version = 0;
        if (!first && key <= last) violation = "Range is not ascending at " + KeyName(key);
        if (!plan.ReadVersion(key, std::string(value), &version)) {
          violation = "Range shows a value that was never written under " + KeyName(key);
        }
        (*found)[key] = version;
        last = key;
        first = false;
      });
  if (!status.ok()) return "Range: " + status.ToString();
  return violation;
}

// Reads every key of a bucket and takes its keys out of what Range found.
std::string ReadBucket(const Plan& plan, Store* store, uint32_t bucket,
                       std::map<uint64_t, uint64_t>* ranged, Versions* versions) {
  for (uint32_t i = 0; i < kKeysPerBucket; ++i) {
    const uint64_t key = plan.KeyAt(bucket, i);
    std::string value;
    uint64_t version = 0;
    const Status status = store->Read(KeyBytes(key).view(), &value);
    if (!status.ok() && status.code() != Code::kNotFound) {
      return "Read of " + KeyName(key) + ": " + status.ToString();
    }
    if (status.ok() && !plan.ReadVersion(key, value, &version)) {
      return "Read gives a value that was never written under " + KeyName(key);
    }
    const auto in_range = ranged->find(key);
    const uint64_t ranged_version = in_range == ranged->end() ? 0 : in_range->second;
    if (ranged_version != version) {
      return "under " + KeyName(key) + " Read finds " + Describe(version) + ", Range " +
             Describe(ranged_version);
    }
    if (in_range != ranged->end()) ranged->erase(in_range);
    (*versions)[i] = version;
  }
  return {};
}

// Describes the first difference between `found` and `model`, or returns nothing.
std::string Difference(const Plan& plan, uint32_t bucket, const Model& model,
                       const Versions& found) {
  for (uint32_t i = 0; i < kKeysPerBucket; ++i) {
    if (model.versions()[i] == found[i]) continue;
    return "key " + KeyName(plan.KeyAt(bucket, i)) + " has " + Describe(found[i]) +
           " where the acknowledged operations leave " + Describe(model.versions()[i]);
  }
  return {};
}

// Finds the longest prefix of the cycle that leaves the bucket as it is, at least `acked` long.
std::string FindPrefix(const Plan& plan, uint32_t bucket, const std::vector<Kept>& kept,
                       uint32_t cycle, uint32_t acked, const Versions& found, uint32_t* prefix) {
  Model model(plan, bucket);
  for (uint32_t past = 1; past <= kept.size(); ++past) {
    for (uint32_t n = 1; n <= kept[past - 1][bucket]; ++n) model.Apply(past, n);
  }
  uint32_t last_seen = 0;
  for (const uint64_t version : found) {
    if (version >> 32 > cycle) return "a value from a cycle that has not begun";
    if (version >> 32 == cycle) last_seen = std::max(last_seen, static_cast<uint32_t>(version));
  }
  // Without a cycle to verify, the store may only have the state after the earlier cycles.
  const uint32_t end = cycle > kept.size() ? std::max(acked, last_seen) + kUnseenOperationCount : 0;
  bool matched = false;
  std::string violation;
  for (uint32_t n = 0; n <= end; ++n) {
    if (n > 0) model.Apply(cycle, n);
    if (n < acked) continue;
    const std::string difference = Difference(plan, bucket, model, found);
    if (difference.empty()) {
      *prefix = n;
      matched = true;
    } else if (n == std::max(acked, last_seen)) {
      violation = difference;
    }
  }
  if (matched) return {};
  return "bucket " + std::to_string(bucket) + ", cycle " + std::to_string(cycle) +
         ": acknowledged as durable up to operation " + std::to_string(acked) +
         ", seen up to operation " + std::to_string(last_seen) + ": " + violation;
}

}  // namespace

std::string Verify(const Plan& plan, Store* store, const Acked& acked, uint32_t cycle_count,
                   std::vector<Kept>* kept) {
  std::map<uint64_t, uint64_t> ranged;
  std::string violation = Collect(plan, store, &ranged);
  if (!violation.empty()) return violation;
  Kept prefixes = {};
  for (uint32_t bucket = 0; bucket < kBucketCount; ++bucket) {
    Versions found = {};
    violation = ReadBucket(plan, store, bucket, &ranged, &found);
    if (!violation.empty()) return violation;
    violation = FindPrefix(plan, bucket, *kept, cycle_count, acked[Plan::WriterOf(bucket)], found,
                           &prefixes[bucket]);
    if (!violation.empty()) return violation;
  }
  if (!ranged.empty()) return "a key that nobody wrote: " + KeyName(ranged.begin()->first);
  if (cycle_count > kept->size()) kept->push_back(prefixes);
  return {};
}

}  // namespace engine_race::powercut
