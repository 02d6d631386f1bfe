// One interface for every store that the benchmarks run over: this engine and its peers.
//
// Keys are the numbers that 8 big-endian bytes are, so every store that compares bytes has their
// order. Values are value_bytes() of the caller's memory. All calls but Close may run on any number
// of threads at once.
#ifndef HARNESS_KV_KV_STORE_H_
#define HARNESS_KV_KV_STORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine_race/base/function_ref.h"
#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "engine_race/store.h"

namespace engine_race::harness {

// A position in order of key, for one thread at a time. It sees a state of the store that is at
// least as new as its last seek or its making.
class KvCursor {
 public:
  virtual ~KvCursor() = default;

  virtual void SeekToFirst() = 0;
  virtual void SeekToLast() = 0;
  virtual void Seek(uint64_t key) = 0;  // to the first record at or after `key`
  virtual void Next() = 0;
  virtual void Prev() = 0;
  virtual bool Valid() = 0;
  virtual uint64_t Key() = 0;
  // KvStore::value_bytes(), good until the cursor moves; null after a failure.
  virtual const char* Value() = 0;
  // OK, or what ended the walk.
  virtual Status Error() = 0;
};

class KvStore {
 public:
  using VisitFn = FunctionRef<void(uint64_t key, const char* value)>;

  virtual ~KvStore() = default;

  uint32_t value_bytes() const { return value_bytes_; }
  virtual Status Put(uint64_t key, const char* value) = 0;
  virtual Status Delete(uint64_t key) = 0;
  // kNotFound for a key that is not there.
  virtual Status Get(uint64_t key, char* value) = 0;
  // values[i * value_bytes()] and codes[i] go with keys[i]. kInvalidArgument for fewer codes than
  // keys.
  virtual Status MultiGet(std::span<const uint64_t> keys, char* values, std::span<Code> codes) {
    if (codes.size() < keys.size()) return TooFewCodes();
    for (size_t i = 0; i < keys.size(); ++i) {
      codes[i] = Get(keys[i], values + i * value_bytes()).code();
    }
    return Status::Ok();
  }
  // Visits every record in order, as fast as the store can while other threads do the same. An
  // exception of `visit` ends the scan and reaches the caller.
  virtual Status ScanAll(VisitFn visit) {
    std::unique_ptr<KvCursor> cursor;
    ENGINE_RACE_RETURN_IF_ERROR(NewCursor(&cursor));
    return Walk(cursor.get(), visit);
  }
  virtual Status NewCursor(std::unique_ptr<KvCursor>* cursor) = 0;
  // Once OK, what was written before outlives a power loss.
  virtual Status Sync() = 0;
  // Gives back the space of overwritten and deleted records before it returns. kNotSupported for a
  // store without such a call.
  virtual Status Compact() {
    return {Code::kNotSupported, "the store has no call that compacts it"};
  }
  // Ends background work, and frees the store: no other call may follow.
  virtual Status Close() = 0;
  // Version and every setting that is not the store's default, with its reason.
  virtual nlohmann::json Describe() const = 0;
  // The store's own counters as lines of text; empty for a store that has none.
  virtual std::string Statistics() const { return {}; }

 protected:
  explicit KvStore(uint32_t value_bytes) : value_bytes_(value_bytes) {}
  static Status TooFewCodes() { return Status::InvalidArgument("fewer codes than keys"); }
  // Visits every record that the cursor finds.
  static Status Walk(KvCursor* cursor, VisitFn visit);

 private:
  const uint32_t value_bytes_;
};

// Opens a store or a cursor that was just made, and gives it away.
template <typename Made, typename Base, typename... Args>
Status OpenInto(std::unique_ptr<Base>* given, std::unique_ptr<Made> made, const Args&... args) {
  ENGINE_RACE_RETURN_IF_ERROR(made->Open(args...));
  *given = std::move(made);
  return Status::Ok();
}

// As PutInto of this engine's stores.
inline auto PutInto(KvStore* store) {
  return [store](uint64_t key, const char* value) { return store->Put(key, value); };
}

// How a store is opened. `memory_budget_bytes` covers caches and buffers of the store.
struct KvOptions {
  std::string dir;
  uint64_t memory_budget_bytes = 0;
  uint32_t thread_count = 1;  // callers at once
  // Most calls will walk over the records in order of key.
  bool walks_in_order = false;
  // That the store will hold; 0: not known.
  uint64_t record_count = 0;
  uint32_t value_bytes = kValueBytes;
  // Overwritten values are to give their space back soon: the store should take at most 1.5 times
  // the live bytes. Only RocksDB has settings for it.
  bool gives_back_space = false;
  // Writes go to no log, and reads look at no checksum. Only RocksDB has settings for it.
  bool lacks_log_and_checksums = false;
};

struct KvStoreKind {
  std::string name;  // "engine_race", "rocksdb", "leveldb", "lmdb", "wiredtiger"
  // Makes the store, or opens what is there.
  std::function<Status(const KvOptions& options, std::unique_ptr<KvStore>* store)> open;
};

// This engine behind the benchmarks' interface of stores.

// The kind "engine_race". Its stores are opened with `options`, but with the size of values of
// KvOptions, and with its memory budget where that is not 0.
KvStoreKind EngineStoreKind(const Options& options);
// With QuietOptions.
KvStoreKind EngineStoreKind();

// How many records were written to each bucket of the closed store in `dir`, overwritten ones and
// tombstones included. Stateless; a status of the store that could not be read.
Status EngineBucketFill(const std::string& dir, std::vector<uint64_t>* counts);

}  // namespace engine_race::harness

#endif  // HARNESS_KV_KV_STORE_H_
