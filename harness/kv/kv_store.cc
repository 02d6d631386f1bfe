#include "harness/kv/kv_store.h"

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "engine_race/base/key.h"
#include "engine_race/base/named_options.h"
#include "engine_race/log/staging.h"
#include "engine_race/log/store_files.h"
#include "engine_race/stats_text.h"
#include "harness/load/store_basics.h"
#include "include/engine_race_c.h"

namespace engine_race::harness {
namespace {

class EngineCursor final : public KvCursor {
 public:
  Status Open(Store* store) { return store->NewIterator({}, &iterator_); }

  void SeekToFirst() override {
    if (Refresh()) iterator_.SeekToFirst();
  }
  void SeekToLast() override {
    if (Refresh()) iterator_.SeekToLast();
  }
  void Seek(uint64_t key) override {
    if (Refresh()) iterator_.Seek(KeyBytes(key).view());
  }
  void Next() override { iterator_.Next(); }
  void Prev() override { iterator_.Prev(); }
  bool Valid() override { return failure_.ok() && iterator_.Valid(); }
  uint64_t Key() override { return DecodeKey(iterator_.key().data()); }

  const char* Value() override {
    if (!Valid()) return nullptr;
    const std::string_view value = iterator_.value();
    return value.empty() ? nullptr : value.data();
  }

  Status Error() override { return failure_.ok() ? iterator_.status() : failure_; }

 private:
  // Moves to the latest state.
  bool Refresh() {
    failure_ = iterator_.Refresh();
    return failure_.ok();
  }

  Iterator iterator_;
  Status failure_;
};

// "name": "value" of every option that is not the default one.
nlohmann::json ChangedOptions(const Options& options) {
  nlohmann::json changed = nlohmann::json::object();
  const Options defaults;
  for (size_t i = 0; i < NamedOptionCount(); ++i) {
    const std::string_view name = OptionName(i);
    std::string value;
    std::string usual;
    if (!GetOption(name, options, &value).ok()) continue;
    const bool has_usual = GetOption(name, defaults, &usual).ok();
    if (!has_usual || value != usual) changed[std::string(name)] = value;
  }
  return changed;
}

class EngineStore final : public KvStore {
 public:
  EngineStore(const Options& options, std::unique_ptr<Store> store)
      : KvStore(options.value_bytes), options_(options), store_(std::move(store)) {}

  Status Put(uint64_t key, const char* value) override {
    return store_->Write(KeyBytes(key).view(), {value, value_bytes()});
  }
  Status Delete(uint64_t key) override { return store_->Delete(KeyBytes(key).view()); }
  Status Get(uint64_t key, char* value) override { return store_->ReadInto(key, value); }

  Status MultiGet(std::span<const uint64_t> keys, char* values, std::span<Code> codes) override {
    return store_->MultiReadInto(keys, values, codes);
  }

  Status ScanAll(VisitFn visit) override {
    return store_->Range({}, {}, [&](std::string_view key, std::string_view value) {
      visit(DecodeKey(key.data()), value.data());
    });
  }

  Status NewCursor(std::unique_ptr<KvCursor>* cursor) override {
    return OpenInto(cursor, std::make_unique<EngineCursor>(), store_.get());
  }

  Status Sync() override { return store_->Sync(); }
  Status Compact() override { return store_->Compact(); }

  // The store's destructor cannot report a failed write.
  Status Close() override {
    Status synced = store_->Sync();
    store_.reset();
    return synced;
  }

  nlohmann::json Describe() const override {
    return {{"version", engine_race_version()}, {"options", ChangedOptions(options_)}};
  }

  std::string Statistics() const override { return StatsText(store_->Stats()); }

 private:
  const Options options_;
  std::unique_ptr<Store> store_;
};

}  // namespace

Status KvStore::Walk(KvCursor* cursor, VisitFn visit) {
  for (cursor->SeekToFirst(); cursor->Valid(); cursor->Next()) {
    const char* const value = cursor->Value();
    if (value == nullptr) {
      const Status status = cursor->Error();
      return status.ok() ? Status::Corruption("a record of another size") : status;
    }
    visit(cursor->Key(), value);
  }
  return cursor->Error();
}

Status EngineBucketFill(const std::string& dir, std::vector<uint64_t>* counts) {
  StoreFiles files;
  Options options;
  options.value_bytes = 0;  // the store's own
  ENGINE_RACE_RETURN_IF_ERROR(OpenStoreFilesToRead(dir, &files, options));
  std::vector<BucketState> states;
  ENGINE_RACE_RETURN_IF_ERROR(Staging(files).ReadCounts(&states));
  counts->clear();
  for (const BucketState& state : states) counts->push_back(state.record_count);
  return Status::Ok();
}

KvStoreKind EngineStoreKind(const Options& options) {
  const auto open = [options](const KvOptions& wanted, std::unique_ptr<KvStore>* store) {
    Options own = options;
    own.value_bytes = wanted.value_bytes;
    if (wanted.memory_budget_bytes != 0) own.memory_budget_bytes = wanted.memory_budget_bytes;
    std::unique_ptr<Store> opened;
    ENGINE_RACE_RETURN_IF_ERROR(Store::Open(own, wanted.dir, &opened));
    *store = std::make_unique<EngineStore>(own, std::move(opened));
    return Status::Ok();
  };
  return {"engine_race", open};
}

KvStoreKind EngineStoreKind() { return EngineStoreKind(QuietOptions()); }

}  // namespace engine_race::harness
