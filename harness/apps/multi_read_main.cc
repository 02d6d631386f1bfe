// Reads batches of random keys from an existing store through MultiRead or MultiReadInto, and
// prints the rows a second as JSON. python/benchmarks/read_many.py runs it in turn with the same
// reads from Python. The store has the keys from 0 to --keys - 1.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine_race/base/key.h"
#include "engine_race/store.h"
#include "harness/data/mix.h"
#include "harness/system/command_line.h"
#include "harness/system/exit_codes.h"

namespace {

using engine_race::Code;
using engine_race::kValueBytes;
using engine_race::Status;
using engine_race::Store;

constexpr char kStrings[] = "multi_read";
constexpr char kInto[] = "multi_read_into";

struct Flags {
  std::string dir;
  std::string kind;
  uint64_t key_count = 0;
  uint64_t memory_budget_bytes = engine_race::Options().memory_budget_bytes;
  uint32_t batch_size = 4096;
  double seconds = 1;
  double warming_seconds = 1;
  uint64_t seed = 1;
};

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class BatchReader {
 public:
  BatchReader(Store* store, const Flags& flags)
      : store_(store),
        flags_(flags),
        numbers_(flags.batch_size),
        keys_(flags.batch_size, engine_race::KeyBytes(0)),
        views_(flags.batch_size),
        values_(flags.batch_size),
        statuses_(flags.batch_size),
        rows_(flags.batch_size * kValueBytes),
        codes_(flags.batch_size) {}

  // Sets the rows a second. False when a read fails.
  bool Run(double seconds, double* rows_per_s) {
    const bool into = flags_.kind == kInto;
    const double begin = Now();
    double now = begin;
    uint64_t row_count = 0;
    do {
      if (!(into ? ReadInto() : ReadStrings())) return false;
      row_count += flags_.batch_size;
      now = Now();
    } while (now - begin < seconds);
    *rows_per_s = static_cast<double>(row_count) / (now - begin);
    return true;
  }

 private:
  void Draw() {
    for (uint64_t& number : numbers_) {
      number = harness::AsBelow(harness::MixAt(flags_.seed, draw_count_++), flags_.key_count);
    }
  }

  bool ReadStrings() {
    Draw();
    for (uint32_t i = 0; i < flags_.batch_size; ++i) {
      keys_[i] = engine_race::KeyBytes(numbers_[i]);
      views_[i] = keys_[i].view();
    }
    return store_->MultiRead(views_, values_, statuses_).ok() &&
           std::ranges::all_of(statuses_, &Status::ok);
  }

  bool ReadInto() {
    Draw();
    return store_->MultiReadInto(numbers_, rows_.data(), codes_).ok() &&
           std::ranges::all_of(codes_, [](Code code) { return code == Code::kOk; });
  }

  Store* const store_;
  const Flags flags_;
  uint64_t draw_count_ = 0;
  std::vector<uint64_t> numbers_;
  std::vector<engine_race::KeyBytes> keys_;
  std::vector<std::string_view> views_;
  std::vector<std::string> values_;
  std::vector<Status> statuses_;
  std::vector<char> rows_;
  std::vector<Code> codes_;
};

int Fail(const std::string& why) {
  std::fprintf(stderr, "multi_read: %s\n", why.c_str());
  return harness::kExitRefused;
}

int Measure(const Flags& flags) {
  engine_race::Options options;
  options.create_if_missing = false;
  options.memory_budget_bytes = flags.memory_budget_bytes;
  std::unique_ptr<Store> store;
  const Status status = Store::Open(options, flags.dir, &store);
  if (!status.ok()) return Fail(status.ToString());
  BatchReader reader(store.get(), flags);
  double rows_per_s = 0;
  if (!reader.Run(flags.warming_seconds, &rows_per_s) || !reader.Run(flags.seconds, &rows_per_s)) {
    return Fail("a read failed: are the keys from 0 to --keys - 1 in the store?");
  }
  std::printf("{\"%s\": %.1f}\n", flags.kind.c_str(), rows_per_s);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Reads batches of random keys from a store, and prints rows a second as JSON.");
  app.add_option("--dir", flags.dir, "of the store")->required();
  app.add_option("--kind", flags.kind, "multi_read or multi_read_into")
      ->required()
      ->check(harness::OneOf("kind", {kStrings, kInto}));
  app.add_option("--keys", flags.key_count, "that it has, from 0 on")
      ->required()
      ->check(harness::AboveZero());
  app.add_option("--memory", flags.memory_budget_bytes, "of the store, in bytes")
      ->capture_default_str();
  app.add_option("--batch", flags.batch_size, "keys of one call")
      ->check(CLI::Range(1u, 1u << 20))
      ->capture_default_str();
  app.add_option("--seconds", flags.seconds, "of the timed reads")->capture_default_str();
  app.add_option("--warm-seconds", flags.warming_seconds, "before them")->capture_default_str();
  app.add_option("--seed", flags.seed, "of the keys")->capture_default_str();
  if (const auto code = harness::ParseCommandLine("multi_read", argc, argv, &app)) return *code;
  return Measure(flags);
}
