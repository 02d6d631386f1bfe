#include "harness/lab/shard_routes.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

namespace lab {

uint32_t Routes::SubOf(uint32_t table, const char* key) const {
  const ShardTable& cut = tables[table];
  if (cut.sub_count == 1) [[likely]]
    return cut.first_sub;
  const uint32_t key_bytes = cut.source->shape.key_bytes;
  // The first sub-table has all keys below the others.
  const auto begin = subs.begin() + cut.first_sub;
  const auto above = std::upper_bound(begin + 1, begin + cut.sub_count, key,
                                      [key_bytes](const char* wanted, const SubTable& sub) {
                                        return std::memcmp(wanted, sub.lower.data(), key_bytes) < 0;
                                      });
  return static_cast<uint32_t>(above - subs.begin()) - 1;
}

uint32_t Routes::Find(uint32_t id) const {
  const auto found =
      std::find_if(subs.begin(), subs.end(), [id](const SubTable& sub) { return sub.id == id; });
  return static_cast<uint32_t>(found - subs.begin());
}

uint32_t Routes::AddTable(std::shared_ptr<const ShardSource> source, uint32_t worker) {
  const auto table = static_cast<uint32_t>(tables.size());
  const auto first_sub = static_cast<uint32_t>(subs.size());
  tables.push_back({std::move(source), first_sub, 1});
  subs.push_back({next_id++, table, worker, {}});
  return table;
}

uint32_t Routes::Split(uint32_t sub, std::string key, uint32_t worker) {
  const uint32_t table = subs[sub].table;
  const uint32_t id = next_id++;
  subs.insert(subs.begin() + sub + 1, {id, table, worker, std::move(key)});
  ++tables[table].sub_count;
  for (uint32_t behind = table + 1; behind < tables.size(); ++behind) ++tables[behind].first_sub;
  return id;
}

std::shared_ptr<const Routes> RouteTable::Current() const {
  const std::lock_guard lock(mutex_);
  return current_;
}

Status RouteTable::Change(const std::function<Status(Routes*)>& change) {
  return Guarded([&] {
    std::shared_ptr<const Routes> old;  // destroyed outside the lock
    const std::lock_guard lock(mutex_);
    auto next = std::make_shared<Routes>(*current_);
    ENGINE_RACE_RETURN_IF_ERROR(change(next.get()));
    ++next->version;
    old = std::exchange(current_, std::move(next));
    // Release: pairs with version()'s acquire.
    version_.store(current_->version, std::memory_order_release);
    return Status::Ok();
  });
}

}  // namespace lab
