#include "harness/claims/bench_c_api.h"

#include <cstring>
#include <memory>
#include <utility>

#include "engine_race/base/key.h"
#include "engine_race/store.h"
#include "harness/data/key_source.h"
#include "harness/data/mix.h"
#include "harness/data/value_maker.h"
#include "harness/load/store_basics.h"
#include "harness/measure/alternating_rounds.h"
#include "harness/measure/cpu_rounds.h"
#include "harness/system/machine.h"
#include "include/engine_race_c.h"

namespace harness {
namespace {

using engine_race::KeyBytes;
using engine_race::Status;
using engine_race::Store;

constexpr char kCost[] = "c_api_cost";
constexpr ClaimTarget kTargets[] = {{kCost, "<= 0.02"}};
constexpr uint64_t kReadStream = 0x72656164;

// Every read is to go through the file system in memory.
constexpr char kHotValueBytes[] = "0";

engine_race::Options StoreOptions() {
  engine_race::Options options = QuietOptions();
  options.hot_value_bytes = 0;
  return options;
}

// Reads as many records as are asked for, first some to warm up, and times them. `read` gets a key
// and returns the first bytes of the value, which it has read.
template <typename Read>
Status TimeReadsWith(const CApiBenchConfig& config, const Read& read, double* ns) {
  const KeySource keys(KeyShape::kUniform, config.record_count, config.seed);
  const ValueMaker values(config.seed);
  const PinnedToOneCpu pinned;
  const uint64_t warm_up_count = config.read_count / 10;
  uint64_t begin_ns = 0;
  for (uint64_t i = 0; i < warm_up_count + config.read_count; ++i) {
    if (i == warm_up_count) begin_ns = CpuNs();
    const uint64_t word = MixAt(config.seed ^ kReadStream, i);
    const uint64_t key = keys.KeyAt(AsBelow(word, config.record_count));
    const char* value = nullptr;
    ENGINE_RACE_RETURN_IF_ERROR(read(key, &value));
    uint64_t version = 0;
    if (!values.CheckEnds(key, value, &version)) {
      return Status::Corruption(KeyFailure(key, "wrong bytes"));
    }
  }
  *ns = static_cast<double>(CpuNs() - begin_ns) / static_cast<double>(config.read_count);
  return Status::Ok();
}

Status FromC(int code) {
  if (code == ENGINE_RACE_OK) return Status::Ok();
  return {static_cast<engine_race::Code>(code), engine_race_error_message()};
}

}  // namespace

BenchCApi::BenchCApi(CApiBenchConfig config) : config_(std::move(config)), rounds_(kTargets) {}

bool BenchCApi::Note(const Status& status) {
  if (!status.ok()) errors_.push_back(status.ToString());
  return status.ok();
}

void BenchCApi::Fill() {
  const KeySource keys(KeyShape::kUniform, config_.record_count, config_.seed);
  const ValueMaker values(config_.seed);
  std::unique_ptr<Store> store;
  if (!Note(Store::Open(StoreOptions(), config_.dir, &store))) return;
  alignas(64) char value[kValueSize];
  for (uint64_t i = 0; i < config_.record_count; ++i) {
    const uint64_t key = keys.KeyAt(i);
    values.Fill(key, i, value);
    if (!Note(store->Write(KeyBytes(key).view(), {value, kValueSize}))) return;
  }
}

Status BenchCApi::TimeReads(bool into_memory, double* ns) const {
  std::unique_ptr<Store> store;
  ENGINE_RACE_RETURN_IF_ERROR(Store::Open(StoreOptions(), config_.dir, &store));
  if (into_memory) {
    alignas(64) char value[kValueSize];
    return TimeReadsWith(
        config_,
        [&](uint64_t key, const char** read) {
          *read = value;
          return store->ReadInto(key, value);
        },
        ns);
  }
  std::string value;
  return TimeReadsWith(
      config_,
      [&](uint64_t key, const char** read) {
        Status status = store->Read(KeyBytes(key).view(), &value);
        *read = value.data();
        return status;
      },
      ns);
}

Status BenchCApi::TimeReadsOfC(double* ns) const {
  const std::unique_ptr<engine_race_options, decltype(&engine_race_options_destroy)> options(
      engine_race_options_create(), engine_race_options_destroy);
  ENGINE_RACE_RETURN_IF_ERROR(
      FromC(engine_race_options_set(options.get(), "hot_value_bytes", kHotValueBytes)));
  engine_race_store* opened = nullptr;
  ENGINE_RACE_RETURN_IF_ERROR(FromC(engine_race_open(config_.dir.c_str(), options.get(), &opened)));
  const std::unique_ptr<engine_race_store, decltype(&engine_race_close)> store(opened,
                                                                               engine_race_close);
  alignas(64) char value[kValueSize];
  return TimeReadsWith(
      config_,
      [&](uint64_t key, const char** read) {
        *read = value;
        const int code = engine_race_read(opened, key, value);
        return code == ENGINE_RACE_OK ? Status::Ok() : FromC(code);
      },
      ns);
}

void BenchCApi::CompareReads() {
  if (!errors_.empty()) return;
  double cpp_ns = 0;
  double into_ns = 0;
  double c_ns = 0;
  const std::vector<Turn> turns = {[&] { return Note(TimeReads(false, &cpp_ns)); },
                                   [&] { return Note(TimeReads(true, &into_ns)); },
                                   [&] { return Note(TimeReadsOfC(&c_ns)); }};
  AlternatingRounds(config_.round_count, turns, [&](uint32_t) {
    // Both fill memory of the caller.
    rounds_.Note(kCost, c_ns / into_ns - 1);
    rounds_.Note("c_api_cost over Store::Read", c_ns / cpp_ns - 1);
    rounds_.Note("engine_race_read, CPU ns", c_ns);
    rounds_.Note("Store::Read, CPU ns", cpp_ns);
    rounds_.Note("Store::ReadInto, CPU ns", into_ns);
  });
}

nlohmann::json BenchCApi::ToJson() const {
  nlohmann::json json = rounds_.ToJson();
  json["config"] = {{"records", config_.record_count},
                    {"reads", config_.read_count},
                    {"rounds", config_.round_count}};
  json["machine"] = DescribeMachine(config_.dir);
  json["errors"] = errors_;
  return json;
}

}  // namespace harness
