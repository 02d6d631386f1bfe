// LMDB without flushes on commit and without a writable map, as lmdb.h advises for databases that
// are larger than memory.
#include <lmdb.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "engine_race/base/round_up.h"
#include "harness/load/bare_loops.h"
#include "harness/opponents/peers.h"

namespace engine_race::harness {
namespace {

// A record takes its own pages but for a short one, and a transaction copies pages before it frees
// the old ones.
constexpr uint64_t kPageBytes = 4096;
uint64_t MapBytesPerRecord(uint64_t value_bytes) {
  return 2 * (RoundUp(value_bytes, kPageBytes) + kPageBytes);
}
constexpr uint64_t kLeastMapBytes = uint64_t{1} << 30;
// For a store of unknown size. Address space only: the file grows as it is written.
constexpr uint64_t kUnknownMapBytes = uint64_t{256} << 30;
// Writes of one transaction at most.
constexpr size_t kGroupWrites = 64;
constexpr unsigned kFlags = MDB_NOSYNC | MDB_NOMEMINIT | MDB_NOTLS;

size_t MapBytes(const KvOptions& options) {
  if (options.record_count == 0) return kUnknownMapBytes;
  return std::max(options.record_count * MapBytesPerRecord(options.value_bytes), kLeastMapBytes);
}

Status FromLmdb(const char* what, int code) {
  if (code == MDB_SUCCESS) return Status::Ok();
  if (code == MDB_NOTFOUND) return Status::NotFound();
  const std::string text = std::string("LMDB, ") + what + ": " + mdb_strerror(code);
  if (code == MDB_MAP_FULL || code == ENOSPC) return Status::Full(text);
  const bool is_damage = code == MDB_CORRUPTED || code == MDB_PAGE_NOTFOUND || code == MDB_INVALID;
  return is_damage ? Status::Corruption(text) : Status::IOError(text);
}

MDB_val ValOf(uint64_t* key) { return {sizeof(*key), key}; }

Status CheckSize(const MDB_val& value, uint32_t value_bytes) {
  if (value.mv_size == value_bytes) return Status::Ok();
  return Status::Corruption("LMDB: a value of " + std::to_string(value.mv_size) + " bytes");
}

class LmdbKv final : public KvStore {
 public:
  explicit LmdbKv(uint32_t value_bytes)
      : KvStore(value_bytes),
        commits_(kGroupWrites, [this](auto writes) { return Commit(writes); }) {}
  LmdbKv(const LmdbKv&) = delete;
  LmdbKv& operator=(const LmdbKv&) = delete;
  ~LmdbKv() override { CloseEnvironment(); }

  Status Open(const KvOptions& options) {
    map_bytes_ = MapBytes(options);
    reads_ahead_ = options.walks_in_order;
    const unsigned flags = kFlags | (reads_ahead_ ? 0 : MDB_NORDAHEAD);
    ENGINE_RACE_RETURN_IF_ERROR(FromLmdb("create", mdb_env_create(&env_)));
    ENGINE_RACE_RETURN_IF_ERROR(FromLmdb("map size", mdb_env_set_mapsize(env_, map_bytes_)));
    // Every thread may hold a few cursors besides its reads.
    ENGINE_RACE_RETURN_IF_ERROR(
        FromLmdb("readers", mdb_env_set_maxreaders(env_, options.thread_count * 4 + 16)));
    ENGINE_RACE_RETURN_IF_ERROR(
        FromLmdb("open", mdb_env_open(env_, options.dir.c_str(), flags, 0600)));
    MDB_txn* txn = nullptr;
    ENGINE_RACE_RETURN_IF_ERROR(FromLmdb("begin", mdb_txn_begin(env_, nullptr, 0, &txn)));
    const int opened = mdb_dbi_open(txn, nullptr, MDB_INTEGERKEY, &dbi_);
    if (opened != MDB_SUCCESS) {
      mdb_txn_abort(txn);
      return FromLmdb("table", opened);
    }
    return FromLmdb("commit", mdb_txn_commit(txn));
  }

  Status Put(uint64_t key, const char* value) override { return commits_.Submit({key, value}); }
  Status Delete(uint64_t key) override { return commits_.Submit({key, nullptr}); }
  Status Get(uint64_t key, char* value) override {
    ReadTxn txn(this);
    ENGINE_RACE_RETURN_IF_ERROR(txn.Begin());
    return GetIn(txn.get(), key, value);
  }
  Status MultiGet(std::span<const uint64_t> keys, char* values, std::span<Code> codes) override {
    if (codes.size() < keys.size()) return TooFewCodes();
    ReadTxn txn(this);
    ENGINE_RACE_RETURN_IF_ERROR(txn.Begin());
    for (size_t i = 0; i < keys.size(); ++i) {
      codes[i] = GetIn(txn.get(), keys[i], values + i * value_bytes()).code();
    }
    return Status::Ok();
  }
  Status NewCursor(std::unique_ptr<KvCursor>* cursor) override {
    return OpenInto(cursor, std::make_unique<Cursor>(this));
  }
  Status Sync() override { return FromLmdb("sync", mdb_env_sync(env_, 1)); }
  Status Close() override {
    CloseEnvironment();
    return Status::Ok();
  }

  nlohmann::json Describe() const override {
    return {{"version", mdb_version(nullptr, nullptr, nullptr)},
            {"kill -9", "loses no acknowledged write: a commit writes its pages to the page cache"},
            {"power loss",
             "loses what was committed since the last Sync, and may damage the database: "
             "lmdb.h, MDB_NOSYNC"},
            {"MDB_NOSYNC", Why(true, "no flush at each commit, as of the other stores")},
            {"MDB_WRITEMAP",
             Why(false, "slower for databases larger than memory: lmdb.h, mdb_env_open")},
            {"MDB_NORDAHEAD",
             Why(!reads_ahead_,
                 "on for random reads of more than memory, off for phases that walk in order: "
                 "lmdb.h, mdb_env_open")},
            {"MDB_NOMEMINIT", Why(true, "saves the zeroing of pages: lmdb.h, mdb_env_open")},
            {"MDB_INTEGERKEY", Why(true, "keys are numbers: lmdb.h, mdb_dbi_open")},
            {"group_commit",
             Why(kGroupWrites, "one writer at a time: writes that wait share a transaction")},
            {"map_size_bytes", Why(map_bytes_,
                                   "address space alone: twice what the records take where their "
                                   "number is known: lmdb.h, mdb_env_set_mapsize")},
            {"cache", "the page cache, which the cap of memory counts"}};
  }

 private:
  // A read transaction out of the pool: it shows the latest state.
  class ReadTxn {
   public:
    explicit ReadTxn(LmdbKv* store) : store_(store) {}
    ReadTxn(const ReadTxn&) = delete;
    ReadTxn& operator=(const ReadTxn&) = delete;
    ~ReadTxn() {
      if (txn_ == nullptr) return;
      mdb_txn_reset(txn_);
      const std::lock_guard lock(store_->mutex_);
      store_->free_txns_.push_back(txn_);
    }

    Status Begin() {
      MDB_txn* txn = store_->TakeTxn();
      const int begun = txn != nullptr ? mdb_txn_renew(txn)
                                       : mdb_txn_begin(store_->env_, nullptr, MDB_RDONLY, &txn);
      if (begun == MDB_SUCCESS) txn_ = txn;
      return FromLmdb("begin", begun);
    }
    MDB_txn* get() const { return txn_; }

   private:
    LmdbKv* const store_;
    MDB_txn* txn_ = nullptr;
  };

  class Cursor final : public KvCursor {
   public:
    explicit Cursor(LmdbKv* store) : store_(store), txn_(store) {}
    Cursor(const Cursor&) = delete;
    Cursor& operator=(const Cursor&) = delete;
    ~Cursor() override {
      if (cursor_ != nullptr) mdb_cursor_close(cursor_);
    }

    Status Open() {
      ENGINE_RACE_RETURN_IF_ERROR(txn_.Begin());
      return FromLmdb("cursor", mdb_cursor_open(txn_.get(), store_->dbi_, &cursor_));
    }

    void SeekToFirst() override { Move(MDB_FIRST); }
    void SeekToLast() override { Move(MDB_LAST); }
    void Seek(uint64_t key) override {
      wanted_ = key;
      key_ = ValOf(&wanted_);
      Move(MDB_SET_RANGE);
    }
    void Next() override { Move(MDB_NEXT); }
    void Prev() override { Move(MDB_PREV); }
    bool Valid() override { return valid_; }
    uint64_t Key() override {
      uint64_t key;
      std::memcpy(&key, key_.mv_data, sizeof(key));
      return key;
    }
    const char* Value() override { return static_cast<const char*>(value_.mv_data); }
    Status Error() override { return error_; }

   private:
    void Move(MDB_cursor_op op) {
      Status status = FromLmdb("cursor", mdb_cursor_get(cursor_, &key_, &value_, op));
      if (status.ok()) status = CheckSize(value_, store_->value_bytes());
      valid_ = status.ok();
      error_ = status.code() == Code::kNotFound ? Status::Ok() : std::move(status);
    }

    LmdbKv* const store_;
    ReadTxn txn_;
    MDB_cursor* cursor_ = nullptr;
    uint64_t wanted_ = 0;
    MDB_val key_ = {};
    MDB_val value_ = {};
    bool valid_ = false;
    Status error_;
  };

  // A transaction that waits to be renewed; null when there is none.
  MDB_txn* TakeTxn() {
    const std::lock_guard lock(mutex_);
    if (free_txns_.empty()) return nullptr;
    MDB_txn* const txn = free_txns_.back();
    free_txns_.pop_back();
    return txn;
  }

  Status GetIn(MDB_txn* txn, uint64_t key, char* value) const {
    MDB_val wanted = ValOf(&key);
    MDB_val found = {};
    ENGINE_RACE_RETURN_IF_ERROR(FromLmdb("get", mdb_get(txn, dbi_, &wanted, &found)));
    ENGINE_RACE_RETURN_IF_ERROR(CheckSize(found, value_bytes()));
    std::memcpy(value, found.mv_data, value_bytes());
    return Status::Ok();
  }

  int Apply(MDB_txn* txn, GroupedWrite write) const {
    MDB_val key = ValOf(&write.key);
    if (write.value == nullptr) {
      const int deleted = mdb_del(txn, dbi_, &key, nullptr);
      return deleted == MDB_NOTFOUND ? MDB_SUCCESS : deleted;
    }
    // LMDB does not write to it.
    MDB_val value = {value_bytes(), const_cast<char*>(write.value)};
    return mdb_put(txn, dbi_, &key, &value, 0);
  }

  Status Commit(std::span<const GroupedWrite> writes) const {
    MDB_txn* txn = nullptr;
    ENGINE_RACE_RETURN_IF_ERROR(FromLmdb("begin", mdb_txn_begin(env_, nullptr, 0, &txn)));
    for (const GroupedWrite& write : writes) {
      const int applied = Apply(txn, write);
      if (applied == MDB_SUCCESS) continue;
      mdb_txn_abort(txn);
      return FromLmdb("write", applied);
    }
    return FromLmdb("commit", mdb_txn_commit(txn));
  }

  void CloseEnvironment() {
    for (MDB_txn* txn : free_txns_) mdb_txn_abort(txn);
    free_txns_.clear();
    if (env_ != nullptr) mdb_env_close(std::exchange(env_, nullptr));
  }

  MDB_env* env_ = nullptr;
  MDB_dbi dbi_ = 0;
  size_t map_bytes_ = 0;
  bool reads_ahead_ = false;
  std::mutex mutex_;
  std::vector<MDB_txn*> free_txns_;
  GroupCommit commits_;
};

}  // namespace

Status OpenLmdb(const KvOptions& options, std::unique_ptr<KvStore>* store) {
  return OpenInto(store, std::make_unique<LmdbKv>(options.value_bytes), options);
}

}  // namespace engine_race::harness
