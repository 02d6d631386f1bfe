// YCSB's core workloads A to F, as its workload files define them.
#include <array>
#include <memory>
#include <optional>
#include <string>

#include "harness/bench/load.h"
#include "harness/data/key_source.h"

namespace engine_race::harness {
namespace {

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
      : Load(context),
        count_(context.ycsb_count),
        draw_(context.ycsb_draw),
        mix_(mix),
        first_percent_(100 - FindBenchmark(context.config.benchmark)->write_percent) {}

  Status Open() override { return mix_.first == YcsbKind::kScan ? OpenCursor() : Status::Ok(); }

  void Prepare(uint64_t call) override {
    const auto word = [&](uint64_t i) { return words_.At(call * kWordsPerCall + i); };
    kind_ = AsBelow(word(0), 100) < first_percent_ ? mix_.first : mix_.second;
    key_ = YcsbKey(draw_->NumberFrom(word(1), count_->count()));
    const uint32_t most = config_.range_size == 0 ? kMaxScanKeys : config_.range_size;
    scan_keys_ = 1 + static_cast<uint32_t>(AsBelow(word(2), most));
    if (kind_ == YcsbKind::kUpdate) MakeValue(call);
  }

  Status Call(uint64_t call, CallResult* result) override {
    switch (kind_) {
      case YcsbKind::kRead:
        return Read(result);
      case YcsbKind::kUpdate:
        return Put(OperationKind::kUpdate, result);
      case YcsbKind::kInsert:
        return Insert(call, result);
      case YcsbKind::kScan:
        return Scan(result);
      case YcsbKind::kReadModifyWrite:
        ENGINE_RACE_RETURN_IF_ERROR(Read(result));
        MakeValue(call);
        return Put(OperationKind::kReadModifyWrite, result);
    }
    return Status::Ok();
  }

 private:
  Status Read(CallResult* result) {
    ENGINE_RACE_RETURN_IF_ERROR(Get(value_.data(), result));
    if (result->found_count > 0) return Status::Ok();
    return {Code::kNotFound, KeyFailure(key_, "a record of ycsbload is missing")};
  }

  Status Insert(uint64_t call, CallResult* result) {
    const std::optional<uint64_t> number = count_->Claim([this] { return goes_on_(0); });
    if (!number) {
      result->operations = 0;
      return Status::Ok();
    }
    key_ = YcsbKey(*number);
    MakeValue(call);
    ENGINE_RACE_RETURN_IF_ERROR(Put(OperationKind::kInsert, result));
    count_->Ack(*number);
    return Status::Ok();
  }

  Status Scan(CallResult* result) {
    result->kind = OperationKind::kScan;
    cursor_->Seek(key_);
    for (uint32_t i = 0; cursor_->Valid(); ++i) {
      ENGINE_RACE_RETURN_IF_ERROR(ReadHere(result));
      if (i + 1 == scan_keys_) break;
      cursor_->Next();
    }
    return cursor_->Error();
  }

  AckedCounter* const count_;
  const YcsbDraw* const draw_;
  const YcsbMix& mix_;
  const uint32_t first_percent_;
  YcsbKind kind_ = YcsbKind::kRead;
  uint32_t scan_keys_ = 0;
};

}  // namespace

std::unique_ptr<Load> MakeYcsbLoad(const LoadContext& context) {
  for (const YcsbMix& mix : kMixes) {
    if (context.config.benchmark != std::string("ycsb") + mix.workload) continue;
    return std::make_unique<YcsbLoad>(context, mix);
  }
  return nullptr;
}

}  // namespace engine_race::harness
