// The stores of the bench about the index. They are filled without values and closed with all of
// their index on disk. Then children or this process open them and write to them.
#ifndef HARNESS_CLAIMS_INDEX_STORES_H_
#define HARNESS_CLAIMS_INDEX_STORES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine_race/base/latency_histogram.h"
#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "engine_race/store.h"
#include "harness/load/fill_keys.h"
#include "harness/system/child_process.h"

namespace engine_race::harness {

// The most disk space that the index takes for a record: its files take up to twice what they hold.
inline constexpr uint64_t kIndexBytesPerRecord = 40;
// A limit that no index of the bench comes to.
inline constexpr uint64_t kAnyIndexBytes = uint64_t{1} << 60;

// Removes the root of the index of a closed store, so that the next opening builds all of it. A
// store without a root is left as it is.
void RemoveIndexRoot(const std::string& store_dir);
// The disk space that the files of the index take, root included.
uint64_t IndexDiskBytes(const std::string& store_dir);
// The blocks of an index of this many keys, each block full.
uint64_t IndexBlockBytes(uint64_t key_count);
// How many of `asked` records with values a disk with `free_bytes` has room for. A tenth of it is
// left free.
uint64_t FittingRecords(uint64_t asked, uint64_t free_bytes);

// Opens the store with a budget and gives the bytes that the index may have under it.
using IndexBytesFn = std::function<Status(uint64_t budget_bytes, uint64_t* index_bytes)>;

struct IndexBudget {
  uint64_t budget_bytes = 0;
  uint64_t index_bytes = 0;  // under that budget

  // Whether index_bytes is within a tenth of `wanted_bytes`.
  bool Has(uint64_t wanted_bytes) const;
};

// Tries budgets until one gives `wanted_bytes`, within a tenth. Otherwise the last one that was
// tried: when the store's least budget gives more, or no budget leads nearer.
Status FindIndexBudget(uint64_t wanted_bytes, const IndexBytesFn& bytes_under, IndexBudget* found);

// Uniform writes beside uniform reads. Half of the writes replace a record, the others add one.
struct IndexLoad {
  uint32_t writer_count = 1;
  uint32_t reader_count = 0;  // they read until the writers are done
  uint64_t write_count = 0;   // of all writers together
  // Number of the first new key, see IndexKeys::New. A load uses (write_count + 1) / 2 numbers.
  uint64_t first_new = 0;
  uint64_t seed = 1;

  uint64_t new_key_count() const { return (write_count + 1) / 2; }
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(IndexLoad, writer_count, reader_count, write_count, first_new,
                                   seed)

struct IndexLoadResult {
  double seconds = 0;
  uint64_t read_count = 0;
  LatencyHistogram write_latency;  // in nanoseconds
};

Status RunIndexLoad(Store* store, const IndexKeys& keys, const IndexLoad& load,
                    IndexLoadResult* result);

// The works of children, see harness/system/child_process.h. Each opens a store afresh, in memory
// of its own. The last two count lookups of present and absent keys that are right. One reads
// through the public interface. The other looks up keys in the index alone and compares the slots,
// because all values read alike.
inline constexpr char kOpenWork[] = "open";
inline constexpr char kKillWork[] = "kill";
inline constexpr char kBillionReadsWork[] = "billion-reads";
inline constexpr char kBillionSlotsWork[] = "billion-slots";
ChildWorks IndexWorks();

class FilledStore {
 public:
  // `load` has the seed of keys and values, and the number of writers.
  FilledStore(std::string dir, const Options& options, uint64_t key_count, const IndexLoad& load);

  // Makes the store and closes it with all of its index on disk.
  Status Fill();
  // Opens the store in a child, after the page cache was dropped, reads, and closes it with all of
  // its index on disk. *cost gets "seconds" from Open until the first Read has returned, the
  // "wait_count" of the opening thread meanwhile, and "peak_rss_bytes".
  Status Reopen(nlohmann::json* cost) { return OpenInChild(/*builds=*/false, cost); }
  // Reopen without a root, until the index is built from the key logs.
  Status Rebuild(nlohmann::json* cost);
  // A child writes records and is killed. It writes none of the index. The next Reopen reads some
  // of the records after its first Read.
  Status KillWriter(uint64_t write_count);

  // Opens it in this process, with its index ready.
  Status Open(const Options& options, std::unique_ptr<Store>* store) const;
  // Writes to the open store beside `reader_count` readers.
  Status Load(Store* store, uint64_t write_count, uint32_t reader_count, IndexLoadResult* result);

  const std::string& dir() const { return dir_; }
  const Options& options() const { return options_; }
  const IndexKeys& keys() const { return keys_; }
  double DiskBytesPerKey() const;

 private:
  Status OpenInChild(bool builds, nlohmann::json* cost);

  const std::string dir_;
  const Options options_;
  const uint64_t seed_;
  const IndexKeys keys_;
  IndexLoad load_;  // the next one
  uint64_t open_count_ = 0;
  std::vector<uint64_t> written_keys_;  // before a kill
};

}  // namespace engine_race::harness

#endif  // HARNESS_CLAIMS_INDEX_STORES_H_
