#include "harness/claims/space_stores.h"

#include <algorithm>
#include <vector>

#include "harness/claims/space_loads.h"
#include "harness/load/store_runs.h"
#include "harness/system/disk.h"
#include "harness/system/memory_cgroup.h"
#include "harness/system/process_stats.h"

namespace engine_race::harness {

SpaceShape SpaceShape::Below(const std::string& name) const {
  SpaceShape below = *this;
  below.dir += "/" + name;
  return below;
}

Status FillStore(const SpaceShape& shape, const SpaceRecords& records, Store* store) {
  return WriteRecords(PutInto(store), records.keys(), records.values(), shape.thread_count);
}

namespace {

// Far more than are written, so that hardly any is written twice.
constexpr uint64_t kManyRecords = uint64_t{1} << 40;
constexpr uint64_t kSmallBudgetBytes = uint64_t{32} << 20;

Status WriteInSmallMemory(const nlohmann::json& order, nlohmann::json* answer) {
  const std::string cgroup = order.at("cgroup");
  if (!cgroup.empty()) ENGINE_RACE_RETURN_IF_ERROR(MemoryCgroup::Join(cgroup));
  SpaceShape shape = {.dir = order.at("store_dir"), .options = QuietOptions()};
  shape.options.memory_budget_bytes = kSmallBudgetBytes;
  if (order.at("is_written")) shape.options.staging_mode = StagingMode::kWritten;
  const WatchShape watch = {.seconds = order.at("seconds"), .write_count = order.at("write_count")};
  const uint64_t seed = order.at("seed");
  return WithOpenStore(shape, [&](Store* store) {
    SpaceSamples samples;
    ENGINE_RACE_RETURN_IF_ERROR(OverwriteAndWatch({PutInto(store), shape.dir, store},
                                                  SpaceRecords(kManyRecords, seed), {.seed = seed},
                                                  {watch}, &samples));
    (*answer)["writes_per_second"] = WriteRate(samples.front(), samples.back());
    return Status::Ok();
  });
}

Status WriteSmallStores(const nlohmann::json& order, nlohmann::json* answer) {
  RaiseFileLimit();
  // A kernel that refuses leaves the peak of before, which is not far.
  static_cast<void>(ResetPeakRss());
  const std::string parent_dir = order.at("parent_dir");
  const SpaceRecords records(order.at("record_count"), order.at("seed"));
  const uint64_t memory_bytes = PeakRssBytes();
  const uint64_t descriptor_count = OpenFileCount();
  std::vector<std::unique_ptr<Store>> stores(order.at("store_count").get<size_t>());
  const uint64_t began_ns = NowNs();
  for (size_t i = 0; i < stores.size(); ++i) {
    ENGINE_RACE_RETURN_IF_ERROR(
        Store::Open(QuietOptions(), parent_dir + "/" + std::to_string(i), &stores[i]));
    ENGINE_RACE_RETURN_IF_ERROR(
        WriteRecords(PutInto(stores[i].get()), records.keys(), records.values(), 1));
  }
  const double open_seconds = SecondsSince(began_ns);
  const uint64_t open_disk_bytes = AllocatedBytes(parent_dir);
  (*answer)["descriptors"] = OpenFileCount() - descriptor_count;
  const uint64_t closing_ns = NowNs();
  stores.clear();
  (*answer)["closing_seconds"] = SecondsSince(closing_ns);
  (*answer)["seconds"] = open_seconds + SecondsSince(closing_ns);
  (*answer)["memory_bytes"] = PeakRssBytes() - memory_bytes;
  const uint64_t closed_disk_bytes = AllocatedBytes(parent_dir);
  (*answer)["closed_disk_bytes"] = closed_disk_bytes;
  (*answer)["disk_bytes"] = std::max(open_disk_bytes, closed_disk_bytes);
  return Status::Ok();
}

}  // namespace

ChildWorks SpaceWorks() {
  return {{kSmallMemoryWork, WriteInSmallMemory}, {kSmallStoresWork, WriteSmallStores}};
}

}  // namespace engine_race::harness
