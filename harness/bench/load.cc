#include "harness/bench/load.h"

#include <algorithm>
#include <exception>
#include <string>

#include "harness/data/key_source.h"
#include "harness/load/short_ranges.h"

namespace harness {
namespace {

using engine_race::Code;
using engine_race::Status;

constexpr uint32_t kShortRangeKeys = kKeysPerRange;

// Of a thread's calls that read drawn records.
class Reader : public Load {
 public:
  explicit Reader(const LoadContext& context)
      : config_(context.config),
        store_(context.store),
        words_(context.config, context.thread),
        checks_(context.config.checks_values) {}

 protected:
  uint64_t DrawnNumber(uint64_t draw) const { return AsBelow(words_.At(draw), config_.num); }
  Status Open() { return store_->NewCursor(&cursor_); }

  // Reads the record at the cursor.
  Status ReadHere(CallResult* result) { return ReadAt(cursor_.get(), checks_, result); }

  const BenchConfig& config_;
  KvStore* const store_;
  const WordStream words_;
  const ValueChecks checks_;
  std::unique_ptr<KvCursor> cursor_;
};

class WriteLoad final : public Load {
 public:
  WriteLoad(const LoadContext& context, WriteOrder order, bool is_ycsb)
      : config_(context.config),
        store_(context.store),
        draw_(context.config, order, context.thread),
        is_ycsb_(is_ycsb) {}

  void Prepare(uint64_t call) override {
    const uint64_t number = draw_.NumberAt(call);
    key_ = is_ycsb_ ? YcsbKey(number) : KeyOfNumber(config_, number);
    checks_.Fill(key_, call, value_.data());
  }
  Status Call(uint64_t /*call*/, CallResult* result) override {
    result->kind = is_ycsb_ ? OperationKind::kInsert : OperationKind::kWrite;
    result->bytes = result->written_bytes = kBenchRecordBytes;
    return store_->Put(key_, value_.data());
  }

 private:
  const BenchConfig& config_;
  KvStore* const store_;
  const WriteDraw draw_;
  const bool is_ycsb_;
  const ValueChecks checks_{true};
  uint64_t key_ = 0;
  std::vector<char> value_ = std::vector<char>(kValueSize);
};

class DeleteLoad final : public Load {
 public:
  explicit DeleteLoad(const LoadContext& context)
      : config_(context.config),
        store_(context.store),
        draw_(context.config, WriteOrder::kRandom, context.thread) {}

  Status Call(uint64_t call, CallResult* result) override {
    result->kind = OperationKind::kDelete;
    // A value goes away, but only its key is written.
    result->bytes = result->written_bytes = sizeof(uint64_t);
    return store_->Delete(KeyOfNumber(config_, draw_.NumberAt(call)));
  }

 private:
  const BenchConfig& config_;
  KvStore* const store_;
  const WriteDraw draw_;
};

class ReadLoad final : public Reader {
 public:
  // A store that was filled with another --num may have the keys that are `missing`.
  ReadLoad(const LoadContext& context, bool missing) : Reader(context), missing_(missing) {}

  void Prepare(uint64_t call) override {
    const uint64_t number = DrawnNumber(call);
    key_ = missing_ ? MissingKey(config_, number) : KeyOfNumber(config_, number);
  }
  Status Call(uint64_t /*call*/, CallResult* result) override {
    return ReadKey(store_, key_, checks_, value_.data(), result);
  }

 private:
  const bool missing_;
  uint64_t key_ = 0;
  std::vector<char> value_ = std::vector<char>(kValueSize);
};

class MultiReadLoad final : public Reader {
 public:
  explicit MultiReadLoad(const LoadContext& context)
      : Reader(context),
        keys_(context.config.batch_size),
        codes_(context.config.batch_size),
        values_(uint64_t{context.config.batch_size} * kValueSize) {}

  void Prepare(uint64_t call) override {
    const uint64_t first = call * config_.batch_size;
    // The last batch may be a smaller one.
    if (config_.duration_seconds == 0) {
      keys_.resize(std::min<uint64_t>(config_.batch_size, ReadsOfThread(config_) - first));
      codes_.resize(keys_.size());
    }
    for (size_t i = 0; i < keys_.size(); ++i) {
      keys_[i] = KeyOfNumber(config_, DrawnNumber(first + i));
    }
  }
  Status Call(uint64_t /*call*/, CallResult* result) override {
    ENGINE_RACE_RETURN_IF_ERROR(store_->MultiGet(keys_, values_.data(), codes_));
    result->operations = result->lookup_count = keys_.size();
    for (size_t i = 0; i < keys_.size(); ++i) {
      if (codes_[i] == Code::kNotFound) continue;
      if (codes_[i] != Code::kOk) return {codes_[i], KeyFailure(keys_[i], "not read")};
      ++result->found_count;
      result->bytes += kBenchRecordBytes;
      ENGINE_RACE_RETURN_IF_ERROR(checks_.Check(keys_[i], &values_[i * kValueSize]));
    }
    return Status::Ok();
  }

 private:
  std::vector<uint64_t> keys_;
  std::vector<Code> codes_;
  std::vector<char> values_;
};

// Walks over the records in order of key, one with each call.
class WalkLoad final : public Reader {
 public:
  WalkLoad(const LoadContext& context, bool backwards) : Reader(context), backwards_(backwards) {}
  using Reader::Open;

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

class SeekLoad final : public Reader {
 public:
  using Reader::Open;
  using Reader::Reader;

  void Prepare(uint64_t call) override { key_ = KeyOfNumber(config_, DrawnNumber(call)); }
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

 private:
  uint64_t key_ = 0;
};

// A query of short ranges of keys, as sysbench counts rows.
class RangesLoad final : public Reader {
 public:
  explicit RangesLoad(const LoadContext& context)
      : Reader(context), starts_(context.config.range_count) {}
  using Reader::Open;

  void Prepare(uint64_t call) override {
    for (size_t i = 0; i < starts_.size(); ++i) {
      starts_[i] = KeyOfNumber(config_, DrawnNumber(call * starts_.size() + i));
    }
  }
  Status Call(uint64_t /*call*/, CallResult* result) override {
    result->kind = OperationKind::kScan;
    const uint32_t size = config_.range_size == 0 ? kShortRangeKeys : config_.range_size;
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
class ScanAllLoad final : public Reader {
 public:
  explicit ScanAllLoad(const LoadContext& context) : Reader(context), goes_on_(context.goes_on) {}

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
        bad = checks_.Check(key, value);
        if (bad.ok() && result->operations > 0 && key <= last_key) {
          bad = Status::Corruption(KeyFailure(key, "not ascending"));
        }
        if (!bad.ok()) throw Stopped();
        last_key = key;
        ++result->operations;
        result->bytes += kBenchRecordBytes;
        if (result->operations % kRecordsPerLook == 0 && !goes_on_(kRecordsPerLook)) {
          throw Stopped();
        }
      }));
    } catch (const Stopped&) {
      return bad;
    }
    return Status::Ok();
  }

  const std::function<bool(uint64_t)> goes_on_;
};

template <typename CursorLoad, typename... Args>
Status MakeOpened(std::unique_ptr<Load>* load, const LoadContext& context, Args... args) {
  auto made = std::make_unique<CursorLoad>(context, args...);
  ENGINE_RACE_RETURN_IF_ERROR(made->Open());
  *load = std::move(made);
  return Status::Ok();
}

}  // namespace

Status ReadKey(KvStore* store, uint64_t key, const ValueChecks& checks, char* value,
               CallResult* result) {
  ++result->lookup_count;
  Status status = store->Get(key, value);
  if (status.code() == Code::kNotFound) return Status::Ok();
  if (!status.ok()) return status;
  ++result->found_count;
  result->bytes += kBenchRecordBytes;
  return checks.Check(key, value);
}

Status ReadAt(KvCursor* cursor, const ValueChecks& checks, CallResult* result) {
  const char* const value = cursor->Value();
  if (value == nullptr) {
    const Status status = cursor->Error();
    return status.ok() ? Status::IOError("the cursor has no value") : status;
  }
  result->bytes += kBenchRecordBytes;
  // The key after the value: a cursor that begins to read ahead may have moved past a deletion.
  return checks.Check(cursor->Key(), value);
}

void CallResult::Add(const CallResult& other) {
  operations += other.operations;
  bytes += other.bytes;
  written_bytes += other.written_bytes;
  lookup_count += other.lookup_count;
  found_count += other.found_count;
}

Status ValueChecks::Failure(uint64_t key) {
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
  const std::string& name = context.config.benchmark;
  if (name == "deleterandom") {
    *load = std::make_unique<DeleteLoad>(context);
  } else if (name.starts_with("fill") || name == "overwrite" || name == "ycsbload") {
    *load = std::make_unique<WriteLoad>(context, WriteOrderOf(name), name == "ycsbload");
  } else if (name == "readrandom" || name == "readwhilewriting" || name == "readmissing") {
    *load = std::make_unique<ReadLoad>(context, name == "readmissing");
  } else if (name == "multireadrandom") {
    *load = std::make_unique<MultiReadLoad>(context);
  } else if (name == "readseq" || name == "readreverse") {
    return MakeOpened<WalkLoad>(load, context, name == "readreverse");
  } else if (name == "readrandomwriterandom" || name == "updaterandom") {
    *load = MakeMixedLoad(context);
  } else if (name == "seekrandom" || name == "seekrandomwhilewriting") {
    return MakeOpened<SeekLoad>(load, context);
  } else if (name == "select_random_ranges") {
    return MakeOpened<RangesLoad>(load, context);
  } else if (name == "scanall") {
    *load = std::make_unique<ScanAllLoad>(context);
  } else if (name.starts_with("ycsb")) {
    return MakeYcsbLoad(context, load);
  } else {
    return Status::InvalidArgument("there is no benchmark " + name);
  }
  return Status::Ok();
}

}  // namespace harness
