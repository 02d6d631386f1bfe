// The CPU time of a read through the C API beside one in C++. The reads are random, of a store in
// memory, so no device takes part.
//
// Each side opens the store anew in each round. One thread at a time.
#include "include/engine_race_c.h"

#include <cstring>
#include <memory>

#include "engine_race/base/key.h"
#include "engine_race/store.h"
#include "harness/claims/bench.h"
#include "harness/claims/benches.h"
#include "harness/data/key_source.h"
#include "harness/data/mix.h"
#include "harness/data/value_maker.h"
#include "harness/load/store_basics.h"
#include "harness/measure/alternating_rounds.h"
#include "harness/measure/cpu_rounds.h"
#include "harness/system/machine.h"

namespace harness {
namespace {

using engine_race::KeyBytes;
using engine_race::Status;
using engine_race::Store;

constexpr char kCost[] = "c_api_cost";
constexpr ClaimTarget kTargets[] = {{kCost, "<= 0.02"}};

struct CApiConfig {
  uint64_t record_count = 50000;
  uint64_t read_count = 100000;  // of each side in each round
  uint32_t round_count = 41;
  uint64_t seed = 1;
};

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
Status TimeReadsWith(const CApiConfig& config, const Read& read, double* ns) {
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

class CApiBench final : public Bench {
 public:
  CApiBench() : Bench("c-api", "what a read through the C API costs over one in C++", kTargets) {}

  std::vector<Setting> Settings() override {
    return {{"records", &config_.record_count, 500, "--num", "records"},
            {"reads", &config_.read_count, 1000, "--reads", "of each side in each round"},
            {"rounds", &config_.round_count, 1, "--rounds"},
            {"", &config_.seed, kSame, "--seed", "", true}};
  }

 private:
  std::vector<BenchPart> Parts() override {
    return {{"reads", {kCost}, [this] { return CompareReads(); }, 0, true}};
  }
  uint64_t TmpfsBytes() override { return StoreBytes(config_.record_count); }
  void AddTo(nlohmann::json* json) override { (*json)["machine"] = DescribeMachine(tmpfs_dir()); }

  Status Fill() const;
  // CPU time of a read in nanoseconds, by a call of its own for each side.
  Status TimeReads(bool into_memory, double* ns) const;
  Status TimeReadsOfC(double* ns) const;
  Status CompareReads();

  CApiConfig config_;
};

Status CApiBench::Fill() const {
  const KeySource keys(KeyShape::kUniform, config_.record_count, config_.seed);
  const ValueMaker values(config_.seed);
  std::unique_ptr<Store> store;
  ENGINE_RACE_RETURN_IF_ERROR(Store::Open(StoreOptions(), tmpfs_dir(), &store));
  alignas(64) char value[kValueSize];
  for (uint64_t i = 0; i < config_.record_count; ++i) {
    const uint64_t key = keys.KeyAt(i);
    values.Fill(key, i, value);
    ENGINE_RACE_RETURN_IF_ERROR(store->Write(KeyBytes(key).view(), {value, kValueSize}));
  }
  return Status::Ok();
}

Status CApiBench::TimeReads(bool into_memory, double* ns) const {
  std::unique_ptr<Store> store;
  ENGINE_RACE_RETURN_IF_ERROR(Store::Open(StoreOptions(), tmpfs_dir(), &store));
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

Status CApiBench::TimeReadsOfC(double* ns) const {
  const std::unique_ptr<engine_race_options, decltype(&engine_race_options_destroy)> options(
      engine_race_options_create(), engine_race_options_destroy);
  ENGINE_RACE_RETURN_IF_ERROR(
      FromC(engine_race_options_set(options.get(), "hot_value_bytes", kHotValueBytes)));
  engine_race_store* opened = nullptr;
  ENGINE_RACE_RETURN_IF_ERROR(FromC(engine_race_open(tmpfs_dir().c_str(), options.get(), &opened)));
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

Status CApiBench::CompareReads() {
  ENGINE_RACE_RETURN_IF_ERROR(Fill());
  double cpp_ns = 0;
  double into_ns = 0;
  double c_ns = 0;
  return AlternatingRounds(
      config_.round_count,
      {[&] { return TimeReads(false, &cpp_ns); }, [&] { return TimeReads(true, &into_ns); },
       [&] { return TimeReadsOfC(&c_ns); }},
      [&](uint32_t) {
        // Both fill memory of the caller.
        rounds_.Note(kCost, c_ns / into_ns - 1);
        rounds_.Note("c_api_cost over Store::Read", c_ns / cpp_ns - 1);
        rounds_.Note("engine_race_read, CPU ns", c_ns);
        rounds_.Note("Store::Read, CPU ns", cpp_ns);
        rounds_.Note("Store::ReadInto, CPU ns", into_ns);
      });
}

}  // namespace

std::unique_ptr<Bench> MakeCApiBench() { return std::make_unique<CApiBench>(); }

}  // namespace harness
