// YCSB's core workloads A to F, as its workload files define them.
#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <string>

#include "harness/bench/load.h"
#include "harness/data/key_source.h"

namespace harness {
namespace {

using engine_race::Code;
using engine_race::Status;

constexpr uint32_t kMaxScanKeys = 100;
// Random words that a call may need: its kind, its record and the length of its scan.
constexpr uint64_t kWordsPerCall = 3;

enum class YcsbKind { kRead, kUpdate, kInsert, kScan, kReadModifyWrite };

// BenchTraits says how many operations are of the second kind.
struct YcsbMix {
  char workload;
  YcsbKind first;
  YcsbKind second;
};

constexpr std::array<YcsbMix, 6> kMixes = {{{'a', YcsbKind::kRead, YcsbKind::kUpdate},
                                            {'b', YcsbKind::kRead, YcsbKind::kUpdate},
                                            {'c', YcsbKind::kRead, YcsbKind::kRead},
                                            {'d', YcsbKind::kRead, YcsbKind::kInsert},
                                            {'e', YcsbKind::kScan, YcsbKind::kInsert},
                                            {'f', YcsbKind::kRead, YcsbKind::kReadModifyWrite}}};

class YcsbLoad final : public Load {
 public:
  YcsbLoad(const LoadContext& context, const YcsbMix& mix)
      : config_(context.config),
        store_(context.store),
        count_(context.ycsb_count),
        draw_(context.ycsb_draw),
        mix_(mix),
        first_percent_(100 - FindBenchmark(context.config.benchmark)->write_percent),
        words_(context.config, context.thread),
        checks_(context.config.checks_values),
        goes_on_(context.goes_on) {}

  Status Open() {
    return mix_.first == YcsbKind::kScan ? store_->NewCursor(&cursor_) : Status::Ok();
  }

  void Prepare(uint64_t call) override {
    const uint64_t* const words = Draw(call);
    kind_ = AsBelow(words[0], 100) < first_percent_ ? mix_.first : mix_.second;
    key_ = YcsbKey(draw_->NumberFrom(words[1], count_->count()));
    const uint32_t most = config_.range_size == 0 ? kMaxScanKeys : config_.range_size;
    scan_keys_ = 1 + static_cast<uint32_t>(AsBelow(words[2], most));
    if (kind_ == YcsbKind::kUpdate) checks_.Fill(key_, call, value_.data());
  }

  Status Call(uint64_t call, CallResult* result) override {
    switch (kind_) {
      case YcsbKind::kRead:
        return Read(result);
      case YcsbKind::kUpdate:
        return Write(OperationKind::kUpdate, result);
      case YcsbKind::kInsert:
        return Insert(call, result);
      case YcsbKind::kScan:
        return Scan(result);
      case YcsbKind::kReadModifyWrite:
        ENGINE_RACE_RETURN_IF_ERROR(Read(result));
        checks_.Fill(key_, call, value_.data());
        return Write(OperationKind::kReadModifyWrite, result);
    }
    return Status::Ok();
  }

 private:
  const uint64_t* Draw(uint64_t call) {
    for (uint64_t i = 0; i < kWordsPerCall; ++i) drawn_[i] = words_.At(call * kWordsPerCall + i);
    return drawn_.data();
  }

  Status Read(CallResult* result) {
    result->lookup_count = 1;
    Status status = store_->Get(key_, value_.data());
    if (status.code() == Code::kNotFound) {
      return {Code::kNotFound, KeyFailure(key_, "a record of ycsbload is missing")};
    }
    if (!status.ok()) return status;
    result->found_count = 1;
    result->bytes += kBenchRecordBytes;
    return checks_.Check(key_, value_.data());
  }

  Status Write(OperationKind kind, CallResult* result) {
    result->kind = kind;
    result->bytes += kBenchRecordBytes;
    result->written_bytes += kBenchRecordBytes;
    return store_->Put(key_, value_.data());
  }

  Status Insert(uint64_t call, CallResult* result) {
    const std::optional<uint64_t> number = count_->Claim([this] { return goes_on_(0); });
    if (!number) {
      result->operations = 0;
      return Status::Ok();
    }
    key_ = YcsbKey(*number);
    checks_.Fill(key_, call, value_.data());
    ENGINE_RACE_RETURN_IF_ERROR(Write(OperationKind::kInsert, result));
    count_->Ack(*number);
    return Status::Ok();
  }

  Status Scan(CallResult* result) {
    result->kind = OperationKind::kScan;
    cursor_->Seek(key_);
    for (uint32_t i = 0; cursor_->Valid(); ++i) {
      ENGINE_RACE_RETURN_IF_ERROR(ReadAt(cursor_.get(), checks_, result));
      if (i + 1 == scan_keys_) break;
      cursor_->Next();
    }
    return cursor_->Error();
  }

  const BenchConfig& config_;
  KvStore* const store_;
  AckedCounter* const count_;
  const YcsbDraw* const draw_;
  const YcsbMix& mix_;
  const uint32_t first_percent_;
  const WordStream words_;
  const ValueChecks checks_;
  const std::function<bool(uint64_t)> goes_on_;
  std::array<uint64_t, kWordsPerCall> drawn_ = {};
  std::unique_ptr<KvCursor> cursor_;
  YcsbKind kind_ = YcsbKind::kRead;
  uint64_t key_ = 0;
  uint32_t scan_keys_ = 0;
  std::vector<char> value_ = std::vector<char>(kValueSize);
};

}  // namespace

Status MakeYcsbLoad(const LoadContext& context, std::unique_ptr<Load>* load) {
  for (const YcsbMix& mix : kMixes) {
    if (context.config.benchmark != std::string("ycsb") + mix.workload) continue;
    auto made = std::make_unique<YcsbLoad>(context, mix);
    ENGINE_RACE_RETURN_IF_ERROR(made->Open());
    *load = std::move(made);
    return Status::Ok();
  }
  return Status::InvalidArgument("there is no benchmark " + context.config.benchmark);
}

}  // namespace harness
