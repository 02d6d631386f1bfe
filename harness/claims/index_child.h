// The child processes of the index bench: each opens a store afresh, in memory of its own.
//
// Not thread-safe.
#ifndef HARNESS_CLAIMS_INDEX_CHILD_H_
#define HARNESS_CLAIMS_INDEX_CHILD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "harness/system/own_child.h"

namespace harness {

// The works of these children, see harness/system/own_child.h.
ChildWorks IndexWorks();

// How a child opens its store.
struct OpenOrder {
  std::string store_dir;
  uint64_t memory_budget_bytes = engine_race::Options().memory_budget_bytes;
  // The first read of the child; then these keys, whose reads are not timed.
  uint64_t first_key = 0;
  std::vector<uint64_t> more_keys = {};
};

struct OpenAnswer {
  double seconds = 0;  // from Open until the first Read has returned
  uint64_t peak_rss_bytes = 0;
};

// Opens a store in a child whose page cache was dropped, reads, and closes it with all of its index
// on disk.
engine_race::Status OpenInChild(const OpenOrder& order, OpenAnswer* answer);

// How a child writes records and is killed.
struct KillOrder {
  std::string store_dir;
  uint32_t bucket_count = 0;
  uint64_t key_count = 0;  // that the store was filled with, by `seed`
  uint64_t seed = 1;
  uint64_t write_count = 0;
  uint64_t first_new = 0;  // see IndexLoad
  uint32_t writer_count = 1;
};

// Opens a store in a child that reads once, writes and is killed. It writes none of the index.
engine_race::Status KillInChild(const KillOrder& order);

}  // namespace harness

#endif  // HARNESS_CLAIMS_INDEX_CHILD_H_
