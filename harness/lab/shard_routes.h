// The routes of the core shards: which worker has which keys of which table.
//
// Each table is cut into sub-tables, ranges of keys that follow each other, and each sub-table has
// one worker. Routes never change: they are replaced as a whole, and have a version that grows.
// Clients and workers keep their routes until they see another version. Tables do not change
// either, so requests that follow old routes still get right answers, only from another worker.
//
// Thread safety: Routes are shared as const; a RouteTable is thread-safe.
#ifndef HARNESS_LAB_SHARD_ROUTES_H_
#define HARNESS_LAB_SHARD_ROUTES_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "harness/lab/engine_names.h"

namespace lab {

// Where a table can be opened; every worker opens it for itself.
struct ShardSource {
  UniqueFd dir;
  std::string name;
  uint64_t table_id = 0;
  TableShape shape;
  uint64_t record_count = 0;
};

struct SubTable {
  uint32_t id = 0;  // for good
  uint32_t table = 0;
  uint32_t worker = 0;
  std::string lower;  // the lowest key that it may hold; empty: the table's lowest
};

struct ShardTable {
  std::shared_ptr<const ShardSource> source;
  uint32_t first_sub = 0;  // in Routes::subs
  uint32_t sub_count = 0;
};

struct Routes {
  uint64_t version = 0;
  uint32_t next_id = 0;
  std::vector<ShardTable> tables;
  std::vector<SubTable> subs;  // by table, then by lower

  // The index in `subs` of the sub-table that has `key`.
  uint32_t SubOf(uint32_t table, const char* key) const;
  // The index in `subs` of the sub-table with this id; subs.size() for none.
  uint32_t Find(uint32_t id) const;

  // The calls below change a copy that no other thread sees yet. They may throw std::bad_alloc.
  uint32_t AddTable(std::shared_ptr<const ShardSource> source, uint32_t worker);
  // Ends `subs[sub]` at `key`, which lies inside it. The keys from `key` on become a new sub-table
  // of `worker`, whose id is returned.
  uint32_t Split(uint32_t sub, std::string key, uint32_t worker);
};

class RouteTable {
 public:
  RouteTable() : current_(std::make_shared<const Routes>()) {}

  // Acquire: pairs with Change's release; Current() is of this version or a later one.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }
  std::shared_ptr<const Routes> Current() const;
  // Replaces the routes by a copy that `change` has changed, unless that fails. kOutOfMemory.
  Status Change(const std::function<Status(Routes*)>& change);

 private:
  // Read before each batch and hardly ever written: a line of its own.
  alignas(64) std::atomic<uint64_t> version_{0};
  alignas(64) mutable std::mutex mutex_;
  std::shared_ptr<const Routes> current_;
};

}  // namespace lab

#endif  // HARNESS_LAB_SHARD_ROUTES_H_
