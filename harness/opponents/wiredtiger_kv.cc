// WiredTiger: a B-tree with a log that reaches the page cache before a write is acknowledged.
#include <wiredtiger.h>

#include <chrono>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine_race/base/function_ref.h"
#include "engine_race/base/key.h"
#include "harness/load/bare_loops.h"
#include "harness/opponents/peers.h"

namespace engine_race::harness {
namespace {

constexpr char kTable[] = "table:records";
constexpr char kTableConfig[] =
    "key_format=u,value_format=u,block_compressor=,allocation_size=4KB,leaf_page_max=8KB,"
    "access_pattern_hint=random";
// What the kernel is told. It is changed for a phase that walks in order, and back afterwards.
constexpr char kRandomHint[] = "access_pattern_hint=random";
constexpr char kInOrderHint[] = "access_pattern_hint=sequential";
// The rollbacks after which a write is given up.
constexpr int kMostTries = 1000;
// One flush of the log for the writes of all threads that wait.
constexpr size_t kGroupWrites = 1024;
constexpr char kFlushConfig[] = "sync=off";
constexpr char kCheckpointConfig[] = "checkpoint=(wait=60,log_size=2GB)";
constexpr char kEvictionConfig[] = "eviction=(threads_min=4,threads_max=4)";

Status FromWiredTiger(const char* what, int code) {
  if (code == 0) return Status::Ok();
  if (code == WT_NOTFOUND) return Status::NotFound();
  const std::string text = std::string("WiredTiger, ") + what + ": " + wiredtiger_strerror(code);
  if (code == ENOSPC) return Status::Full(text);
  return code == WT_PANIC ? Status::Corruption(text) : Status::IOError(text);
}

WT_ITEM ItemOf(const char* bytes, size_t size) {
  WT_ITEM item = {};
  item.data = bytes;
  item.size = size;
  return item;
}

// A session and its cursor over the table; one thread at a time uses them.
struct Handle {
  WT_SESSION* session = nullptr;
  WT_CURSOR* cursor = nullptr;

  void SetKey(const KeyBytes& key) const {
    const WT_ITEM item = ItemOf(key.view().data(), key.view().size());
    cursor->set_key(cursor, &item);
  }
  // Null, with *status set, when the value is not a whole one.
  const char* Value(uint32_t value_bytes, Status* status) const {
    WT_ITEM item = {};
    *status = FromWiredTiger("value", cursor->get_value(cursor, &item));
    if (status->ok() && item.size != value_bytes) {
      *status =
          Status::Corruption("WiredTiger: a value of " + std::to_string(item.size) + " bytes");
    }
    return status->ok() ? static_cast<const char*>(item.data) : nullptr;
  }
  Status Key(uint64_t* key) const {
    WT_ITEM item = {};
    ENGINE_RACE_RETURN_IF_ERROR(FromWiredTiger("key", cursor->get_key(cursor, &item)));
    if (item.size != kKeyBytes) {
      return Status::Corruption("WiredTiger: a key of " + std::to_string(item.size) + " bytes");
    }
    *key = DecodeKey(static_cast<const char*>(item.data));
    return Status::Ok();
  }
};

class WiredKv final : public KvStore {
 public:
  explicit WiredKv(uint32_t value_bytes)
      : KvStore(value_bytes),
        flushes_(kGroupWrites, [this](auto) { return FlushLog(kFlushConfig); }) {}
  WiredKv(const WiredKv&) = delete;
  WiredKv& operator=(const WiredKv&) = delete;
  ~WiredKv() override {
    if (connection_ != nullptr) connection_->close(connection_, nullptr);
  }

  Status Open(const KvOptions& options) {
    // Half of the memory: the page cache, which holds the other half, keeps blocks too.
    cache_bytes_ = options.memory_budget_bytes / 2;
    // Every thread may hold a few cursors; the store's own threads need sessions as well.
    config_ = "create,cache_size=" + std::to_string(cache_bytes_) +
              ",session_max=" + std::to_string(options.thread_count * 4 + 64) +
              ",log=(enabled=true)," + kCheckpointConfig + "," + kEvictionConfig;
    ENGINE_RACE_RETURN_IF_ERROR(FromWiredTiger(
        "open", wiredtiger_open(options.dir.c_str(), nullptr, config_.c_str(), &connection_)));
    ENGINE_RACE_RETURN_IF_ERROR(WithSession("create", [](WT_SESSION* session) {
      return session->create(session, kTable, kTableConfig);
    }));
    walks_in_order_ = options.walks_in_order;
    return walks_in_order_ ? Hint(kInOrderHint) : Status::Ok();
  }

  Status Put(uint64_t key, const char* value) override { return Write(key, value); }
  Status Delete(uint64_t key) override {
    const Status status = Write(key, nullptr);
    return status.code() == Code::kNotFound ? Status::Ok() : status;
  }
  Status Get(uint64_t key, char* value) override {
    HandleLease handle(this);
    ENGINE_RACE_RETURN_IF_ERROR(handle.Take());
    return GetWith(*handle, key, value);
  }
  Status MultiGet(std::span<const uint64_t> keys, char* values, std::span<Code> codes) override {
    if (codes.size() < keys.size()) return TooFewCodes();
    HandleLease handle(this);
    ENGINE_RACE_RETURN_IF_ERROR(handle.Take());
    for (size_t i = 0; i < keys.size(); ++i) {
      codes[i] = GetWith(*handle, keys[i], values + i * value_bytes()).code();
    }
    return Status::Ok();
  }
  Status NewCursor(std::unique_ptr<KvCursor>* cursor) override {
    return OpenInto(cursor, std::make_unique<Cursor>(this));
  }
  Status Sync() override { return FlushLog("sync=on"); }
  Status Close() override {
    Status status;
    // The hint can be changed only while no cursor is open.
    for (const Handle& handle : std::exchange(free_, {})) {
      const Status closed =
          FromWiredTiger("session", handle.session->close(handle.session, nullptr));
      if (status.ok()) status = closed;
    }
    if (walks_in_order_ && status.ok()) status = Hint(kRandomHint);
    WT_CONNECTION* const connection = std::exchange(connection_, nullptr);
    const Status closed = FromWiredTiger("close", connection->close(connection, nullptr));
    return status.ok() ? closed : status;
  }

  nlohmann::json Describe() const override {
    return {
        {"version", wiredtiger_version(nullptr, nullptr, nullptr)},
        {"kill -9", "loses no acknowledged write: its log record is in the page cache"},
        {"power loss", "loses what was committed since the last Sync"},
        {"open", config_},
        {"create", kTableConfig},
        {"cache_size", Why("half of the memory", "the page cache keeps blocks too: tune_cache")},
        {"log", Why("enabled", "durability of commits: durability_log")},
        {"log_flush", Why(kFlushConfig,
                          "writes the log to the page cache before the writes that wait for it are "
                          "acknowledged: WT_SESSION::log_flush")},
        {"checkpoint", Why(kCheckpointConfig, "so that the log is cut: checkpoint")},
        {"eviction", Why(kEvictionConfig, "several threads evict for many writers: tune_cache")},
        {"direct_io", Why("off", "almost never a good idea: tune_system_buffer_cache")},
        {"block_compressor", Why("none", "the values are random bytes: tune_page_size_and_comp")},
        {"allocation_size", Why("4KB", "the default fits the device: tune_page_size_and_comp")},
        {"leaf_page_max",
         Why("8KB",
             "of 8, 16, 32 and 64 KB it wrote fastest here and read as fast as any: "
             "tune_page_size_and_comp")},
        {"access_pattern_hint",
         Why(walks_in_order_ ? "sequential" : "random",
             "point reads and writes, or scans through large ranges: WT_SESSION::create")}};
  }

 private:
  // A handle out of the pool.
  class HandleLease {
   public:
    explicit HandleLease(WiredKv* store) : store_(store) {}
    HandleLease(const HandleLease&) = delete;
    HandleLease& operator=(const HandleLease&) = delete;
    ~HandleLease() {
      // A cursor that cannot be reset must not be used again.
      if (handle_.cursor == nullptr || handle_.cursor->reset(handle_.cursor) != 0) return;
      const std::lock_guard lock(store_->mutex_);
      store_->free_.push_back(handle_);
    }

    Status Take() { return store_->TakeHandle(&handle_); }
    const Handle& operator*() const { return handle_; }
    const Handle* operator->() const { return &handle_; }

   private:
    WiredKv* const store_;
    Handle handle_;
  };

  class Cursor final : public KvCursor {
   public:
    explicit Cursor(WiredKv* store) : value_bytes_(store->value_bytes()), handle_(store) {}

    Status Open() { return handle_.Take(); }

    void SeekToFirst() override {
      Reset();
      Next();
    }
    void SeekToLast() override {
      Reset();
      Prev();
    }
    void Seek(uint64_t key) override {
      const KeyBytes bytes(key);
      handle_->SetKey(bytes);
      int side = 0;
      int moved = handle_->cursor->search_near(handle_->cursor, &side);
      if (moved == 0 && side < 0) moved = handle_->cursor->next(handle_->cursor);
      Arrive(moved);
    }
    void Next() override { Arrive(handle_->cursor->next(handle_->cursor)); }
    void Prev() override { Arrive(handle_->cursor->prev(handle_->cursor)); }
    bool Valid() override { return valid_; }
    uint64_t Key() override { return key_; }
    const char* Value() override {
      const char* const value = handle_->Value(value_bytes_, &error_);
      valid_ = value != nullptr;
      return value;
    }
    Status Error() override { return error_; }

   private:
    void Reset() { error_ = FromWiredTiger("reset", handle_->cursor->reset(handle_->cursor)); }
    void Arrive(int moved) {
      Status status = FromWiredTiger("cursor", moved);
      if (status.ok()) status = handle_->Key(&key_);
      valid_ = status.ok();
      error_ = status.code() == Code::kNotFound ? Status::Ok() : std::move(status);
    }

    const uint32_t value_bytes_;
    HandleLease handle_;
    uint64_t key_ = 0;
    bool valid_ = false;
    Status error_;
  };

  Status TakeHandle(Handle* handle) {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        *handle = free_.back();
        free_.pop_back();
        return Status::Ok();
      }
    }
    Handle made;
    ENGINE_RACE_RETURN_IF_ERROR(FromWiredTiger(
        "session", connection_->open_session(connection_, nullptr, nullptr, &made.session)));
    const int opened =
        made.session->open_cursor(made.session, kTable, nullptr, nullptr, &made.cursor);
    if (opened != 0) {
      // Nothing to be done about a failure to close what has not been used.
      (void)made.session->close(made.session, nullptr);
      return FromWiredTiger("cursor", opened);
    }
    *handle = made;
    return Status::Ok();
  }

  Status GetWith(const Handle& handle, uint64_t key, char* value) const {
    const KeyBytes bytes(key);
    handle.SetKey(bytes);
    ENGINE_RACE_RETURN_IF_ERROR(FromWiredTiger("search", handle.cursor->search(handle.cursor)));
    Status status;
    const char* const found = handle.Value(value_bytes(), &status);
    if (found != nullptr) std::memcpy(value, found, value_bytes());
    return status;
  }

  // Calls `run`, which returns WiredTiger's code, with a session of its own.
  Status WithSession(const char* what, FunctionRef<int(WT_SESSION* session)> run) {
    WT_SESSION* session = nullptr;
    ENGINE_RACE_RETURN_IF_ERROR(FromWiredTiger(
        "session", connection_->open_session(connection_, nullptr, nullptr, &session)));
    const Status done = FromWiredTiger(what, run(session));
    const Status closed = FromWiredTiger("session", session->close(session, nullptr));
    return done.ok() ? closed : done;
  }
  Status Hint(const char* hint) {
    return WithSession("alter",
                       [&](WT_SESSION* session) { return session->alter(session, kTable, hint); });
  }

  // A null value removes the key.
  Status Write(uint64_t key, const char* value) {
    HandleLease handle(this);
    ENGINE_RACE_RETURN_IF_ERROR(handle.Take());
    const KeyBytes bytes(key);
    WT_CURSOR* const cursor = handle->cursor;
    int written = WT_ROLLBACK;
    // Another thread's write to the same key, or a full cache, rolls the transaction back.
    for (int tries = 0; written == WT_ROLLBACK && tries < kMostTries; ++tries) {
      if (tries > 0) std::this_thread::sleep_for(std::chrono::microseconds(tries));
      handle->SetKey(bytes);
      if (value == nullptr) {
        written = cursor->remove(cursor);
      } else {
        const WT_ITEM item = ItemOf(value, value_bytes());
        cursor->set_value(cursor, &item);
        written = cursor->insert(cursor);
      }
    }
    ENGINE_RACE_RETURN_IF_ERROR(FromWiredTiger("write", written));
    return flushes_.Submit({key, value});
  }

  Status FlushLog(const char* config) {
    HandleLease handle(this);
    ENGINE_RACE_RETURN_IF_ERROR(handle.Take());
    return FromWiredTiger("log", handle->session->log_flush(handle->session, config));
  }

  WT_CONNECTION* connection_ = nullptr;
  uint64_t cache_bytes_ = 0;
  std::string config_;
  bool walks_in_order_ = false;
  std::mutex mutex_;
  std::vector<Handle> free_;
  GroupCommit flushes_;
};

}  // namespace

Status OpenWiredTiger(const KvOptions& options, std::unique_ptr<KvStore>* store) {
  return OpenInto(store, std::make_unique<WiredKv>(options.value_bytes), options);
}

}  // namespace engine_race::harness
