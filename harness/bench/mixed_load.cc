// db_bench's readrandomwriterandom and updaterandom: reads and writes by the same threads.
#include <vector>

#include "harness/bench/load.h"

namespace harness {
namespace {

using engine_race::Status;

class MixedLoad final : public Load {
 public:
  explicit MixedLoad(const LoadContext& context)
      : config_(context.config),
        store_(context.store),
        is_update_(context.config.benchmark == "updaterandom"),
        write_percent_(WritePercent(context.config)),
        draw_(context.config, WriteOrder::kRandom, context.thread),
        checks_(context.config.checks_values) {}

  void Prepare(uint64_t call) override {
    key_ = KeyOfNumber(config_, draw_.NumberAt(call));
    writes_ = CallWrites(write_percent_, call);
    if (writes_) checks_.Fill(key_, call, written_.data());
  }

  // An update writes a record that is missing, too.
  Status Call(uint64_t /*call*/, CallResult* result) override {
    if (is_update_ || !writes_) {
      ENGINE_RACE_RETURN_IF_ERROR(ReadKey(store_, key_, checks_, read_.data(), result));
    }
    if (!writes_) return Status::Ok();
    result->kind = is_update_ ? OperationKind::kUpdate : OperationKind::kWrite;
    result->bytes += kBenchRecordBytes;
    result->written_bytes = kBenchRecordBytes;
    return store_->Put(key_, written_.data());
  }

 private:
  const BenchConfig& config_;
  KvStore* const store_;
  const bool is_update_;
  const uint32_t write_percent_;
  const WriteDraw draw_;
  const ValueChecks checks_;
  uint64_t key_ = 0;
  bool writes_ = false;
  std::vector<char> written_ = std::vector<char>(kValueSize);
  std::vector<char> read_ = std::vector<char>(kValueSize);
};

}  // namespace

std::unique_ptr<Load> MakeMixedLoad(const LoadContext& context) {
  return std::make_unique<MixedLoad>(context);
}

}  // namespace harness
