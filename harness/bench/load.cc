#include "harness/bench/load.h"

#include <algorithm>
#include <exception>
#include <string>

#include "harness/data/key_source.h"
#include "harness/load/read_loops.h"

namespace engine_race::harness {
namespace {

class WriteLoad final : public Load {
 public:
  WriteLoad(const LoadContext& context, WriteOrder order, bool is_ycsb)
      : Load(context), draw_(context.config, order, context.thread), is_ycsb_(is_ycsb) {}

  void Prepare(uint64_t call) override {
    const uint64_t number = draw_.NumberAt(call);
    key_ = is_ycsb_ ? YcsbKey(number) : KeyOfNumber(config_, number);
    MakeValue(call);
  }
  Status Call(uint64_t /*call*/, CallResult* result) override {
    return Put(is_ycsb_ ? OperationKind::kInsert : OperationKind::kWrite, result);
  }

 private:
  const WriteDraw draw_;
  const bool is_ycsb_;
};

class DeleteLoad final : public Load {
 public:
  using Load::Load;

  Status Call(uint64_t call, CallResult* result) override {
    result->kind = OperationKind::kDelete;
    // A value goes away, but only its key is written.
    result->bytes = result->written_bytes = sizeof(uint64_t);
    return store_->Delete(DrawnKey(call));
  }
};

class ReadLoad final : public Load {
 public:
  // A store that was filled with another --num may have the keys that are `missing`.
  ReadLoad(const LoadContext& context, bool missing) : Load(context), missing_(missing) {}

  void Prepare(uint64_t call) override {
    key_ = missing_ ? MissingKey(config_, AsBelow(words_.At(call), config_.num)) : DrawnKey(call);
  }
  Status Call(uint64_t /*call*/, CallResult* result) override { return Get(value_.data(), result); }

 private:
  const bool missing_;
};

// db_bench's readrandomwriterandom and updaterandom: reads and writes by the same threads.
class MixedLoad final : public Load {
 public:
  explicit MixedLoad(const LoadContext& context)
      : Load(context),
        is_update_(context.config.benchmark == "updaterandom"),
        write_percent_(WritePercent(context.config)) {}

  void Prepare(uint64_t call) override {
    key_ = DrawnKey(call);
    writes_ = CallWrites(write_percent_, call);
    if (writes_) MakeValue(call);
  }

  // An update writes a record that is missing, too.
  Status Call(uint64_t /*call*/, CallResult* result) override {
    if (is_update_ || !writes_) ENGINE_RACE_RETURN_IF_ERROR(Get(read_.data(), result));
    if (!writes_) return Status::Ok();
    return Put(is_update_ ? OperationKind::kUpdate : OperationKind::kWrite, result);
  }

 private:
  const bool is_update_;
  const uint32_t write_percent_;
  bool writes_ = false;
  std::vector<char> read_ = std::vector<char>(config_.value_bytes);
};

class MultiReadLoad final : public Load {
 public:
  explicit MultiReadLoad(const LoadContext& context)
      : Load(context),
        keys_(context.config.batch_size),
        codes_(context.config.batch_size),
        values_(uint64_t{context.config.batch_size} * context.config.value_bytes) {}

  void Prepare(uint64_t call) override {
    const uint64_t first = call * config_.batch_size;
    // The last batch may be a smaller one.
    if (config_.duration_seconds == 0) {
      keys_.resize(std::min<uint64_t>(config_.batch_size, ReadsOfThread(config_) - first));
      codes_.resize(keys_.size());
    }
    for (size_t i = 0; i < keys_.size(); ++i) keys_[i] = DrawnKey(first + i);
  }
  Status Call(uint64_t /*call*/, CallResult* result) override {
    ENGINE_RACE_RETURN_IF_ERROR(store_->MultiGet(keys_, values_.data(), codes_));
    result->operations = result->lookup_count = keys_.size();
    for (size_t i = 0; i < keys_.size(); ++i) {
      if (codes_[i] == Code::kNotFound) continue;
      if (codes_[i] != Code::kOk) return {codes_[i], KeyFailure(keys_[i], "not read")};
      ++result->found_count;
      result->bytes += config_.record_bytes();
      ENGINE_RACE_RETURN_IF_ERROR(Check(keys_[i], &values_[i * config_.value_bytes]));
    }
    return Status::Ok();
  }

 private:
  std::vector<uint64_t> keys_;
  std::vector<Code> codes_;
  std::vector<char> values_;
};

// Walks over the records in order of key, one with each call.
class WalkLoad final : public Load {
 public:
  WalkLoad(const LoadContext& context, bool backwards) : Load(context), backwards_(backwards) {}

  Status Open() override { return OpenCursor(); }
  Status Call(uint64_t call, CallResult* result) override {
    if (call == 0) {
      backwards_ ? cursor_->SeekToLast() : cursor_->SeekToFirst();
    } else {
      backwards_ ? cursor_->Prev() : cursor_->Next();
    }
    if (!cursor_->Valid()) {
      result->operations = 0;
      return cursor_->Error();
    }
    return ReadHere(result);
  }

 private:
  const bool backwards_;
};

class SeekLoad final : public Load {
 public:
  using Load::Load;

  Status Open() override { return OpenCursor(); }
  void Prepare(uint64_t call) override { key_ = DrawnKey(call); }
  Status Call(uint64_t /*call*/, CallResult* result) override {
    result->kind = OperationKind::kSeek;
    result->lookup_count = 1;
    cursor_->Seek(key_);
    if (cursor_->Valid() && cursor_->Key() == key_) result->found_count = 1;
    // As in db_bench, each step reads the value that it leaves. Without steps no value is read.
    for (uint32_t step = 0; step < config_.seek_nexts && cursor_->Valid(); ++step) {
      ENGINE_RACE_RETURN_IF_ERROR(ReadHere(result));
      cursor_->Next();
    }
    return cursor_->Error();
  }
};

// A query of short ranges of keys, as sysbench counts rows.
class RangesLoad final : public Load {
 public:
  explicit RangesLoad(const LoadContext& context)
      : Load(context), starts_(context.config.range_count) {}

  Status Open() override { return OpenCursor(); }
  void Prepare(uint64_t call) override {
    for (size_t i = 0; i < starts_.size(); ++i) starts_[i] = DrawnKey(call * starts_.size() + i);
  }
  Status Call(uint64_t /*call*/, CallResult* result) override {
    result->kind = OperationKind::kScan;
    const uint32_t size = config_.range_size == 0 ? kKeysPerRange : config_.range_size;
    for (const uint64_t start : starts_) {
      cursor_->Seek(start);
      uint64_t last = start;
      for (uint32_t i = 0; i < size && cursor_->Valid(); ++i) {
        const uint64_t key = cursor_->Key();
        if (i == 0 ? key < start : key <= last)
          return Status::Corruption(KeyFailure(key, "not ascending"));
        last = key;
        result->bytes += sizeof(key);
        if (i + 1 < size) cursor_->Next();
      }
      ENGINE_RACE_RETURN_IF_ERROR(cursor_->Error());
    }
    return Status::Ok();
  }

 private:
  std::vector<uint64_t> starts_;
};

// Visits every record with one call.
class ScanAllLoad final : public Load {
 public:
  using Load::Load;

  Status Call(uint64_t call, CallResult* result) override {
    result->kind = OperationKind::kScan;
    result->operations = 0;
    if (call > 0) return Status::Ok();
    const Status status = Scan(result);
    // The records since the last look.
    goes_on_(result->operations % kRecordsPerLook);
    return status;
  }

 private:
  struct Stopped : std::exception {};

  static constexpr uint64_t kRecordsPerLook = 64;

  Status Scan(CallResult* result) {
    Status bad;
    uint64_t last_key = 0;
    try {
      ENGINE_RACE_RETURN_IF_ERROR(store_->ScanAll([&](uint64_t key, const char* value) {
        bad = Check(key, value);
        if (bad.ok() && result->operations > 0 && key <= last_key) {
          bad = Status::Corruption(KeyFailure(key, "not ascending"));
        }
        if (!bad.ok()) throw Stopped();
        last_key = key;
        ++result->operations;
        result->bytes += config_.record_bytes();
        if (result->operations % kRecordsPerLook == 0 && !goes_on_(kRecordsPerLook)) {
          throw Stopped();
        }
      }));
    } catch (const Stopped&) {
      return bad;
    }
    return Status::Ok();
  }
};

// Null for a benchmark that is none.
std::unique_ptr<Load> NewLoad(const LoadContext& context) {
  const std::string& name = context.config.benchmark;
  if (name == "deleterandom") return std::make_unique<DeleteLoad>(context);
  if (name.starts_with("fill") || name == "overwrite" || name == "ycsbload") {
    return std::make_unique<WriteLoad>(context, WriteOrderOf(name), name == "ycsbload");
  }
  if (name == "readrandom" || name == "readwhilewriting" || name == "readmissing") {
    return std::make_unique<ReadLoad>(context, name == "readmissing");
  }
  if (name == "multireadrandom") return std::make_unique<MultiReadLoad>(context);
  if (name == "readseq" || name == "readreverse") {
    return std::make_unique<WalkLoad>(context, name == "readreverse");
  }
  if (name == "readrandomwriterandom" || name == "updaterandom") {
    return std::make_unique<MixedLoad>(context);
  }
  if (name == "seekrandom" || name == "seekrandomwhilewriting") {
    return std::make_unique<SeekLoad>(context);
  }
  if (name == "select_random_ranges") return std::make_unique<RangesLoad>(context);
  if (name == "scanall") return std::make_unique<ScanAllLoad>(context);
  return MakeYcsbLoad(context);
}

}  // namespace

Status Load::Get(char* value, CallResult* result) {
  ++result->lookup_count;
  Status status = store_->Get(key_, value);
  if (status.code() == Code::kNotFound) return Status::Ok();
  if (!status.ok()) return status;
  ++result->found_count;
  result->bytes += config_.record_bytes();
  return Check(key_, value);
}

Status Load::ReadHere(CallResult* result) {
  const char* const value = cursor_->Value();
  if (value == nullptr) {
    const Status status = cursor_->Error();
    return status.ok() ? Status::IOError("the cursor has no value") : status;
  }
  result->bytes += config_.record_bytes();
  return Check(cursor_->Key(), value);
}

void CallResult::Add(const CallResult& other) {
  operations += other.operations;
  bytes += other.bytes;
  written_bytes += other.written_bytes;
  lookup_count += other.lookup_count;
  found_count += other.found_count;
}

Status Load::WrongValue(uint64_t key) {
  return Status::Corruption(KeyFailure(key, "wrong bytes: no benchmark wrote this value"));
}

WriteOrder WriteOrderOf(std::string_view benchmark) {
  if (benchmark == "fillseq" || benchmark == "ycsbload") return WriteOrder::kSequential;
  return benchmark == "filluniquerandom" ? WriteOrder::kUnique : WriteOrder::kRandom;
}

std::unique_ptr<Load> MakeBackgroundWriter(const LoadContext& context) {
  return std::make_unique<WriteLoad>(context, WriteOrder::kRandom, /*is_ycsb=*/false);
}

Status MakeLoad(const LoadContext& context, std::unique_ptr<Load>* load) {
  *load = NewLoad(context);
  if (*load != nullptr) return (*load)->Open();
  return Status::InvalidArgument("there is no benchmark " + context.config.benchmark);
}

}  // namespace engine_race::harness
