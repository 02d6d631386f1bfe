// Reads batches of random keys from an existing store through MultiRead or MultiReadInto, and
// prints the rows a second as JSON. python/benchmarks/read_many.py runs it in turn with the same
// reads from Python. The store has the keys from 0 to --keys - 1.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine_race/base/key.h"
#include "engine_race/store.h"
#include "harness/data/mix.h"
#include "harness/measure/timed.h"
#include "harness/system/command_line.h"
#include "harness/system/exit_codes.h"

namespace harness {
namespace {

using engine_race::Code;
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

// What a call of one batch reads and fills. Made once, so that the timed reads take no new memory.
struct Batch {
  explicit Batch(size_t size)
      : numbers(size),
        keys(size, engine_race::KeyBytes(0)),
        views(size),
        values(size),
        statuses(size),
        rows(size * engine_race::kValueBytes),
        codes(size) {}

  std::vector<uint64_t> numbers;
  std::vector<engine_race::KeyBytes> keys;
  std::vector<std::string_view> views;
  std::vector<std::string> values;
  std::vector<Status> statuses;
  std::vector<char> rows;
  std::vector<Code> codes;
};

// Why a key of a batch was not read.
Status KeyFailed(const Status& status) {
  if (status.code() != Code::kNotFound) return status;
  return Status(Code::kNotFound, "a key: are those from 0 to --keys - 1 in the store?");
}

// Reads batches until the time is up; `first` is the first draw of the keys.
Status ReadBatches(const Flags& flags, Store* store, uint64_t first, Batch* batch,
                   TimedThread* self) {
  auto& [numbers, keys, views, values, statuses, rows, codes] = *batch;
  self->Start();
  do {
    for (uint64_t& number : numbers) {
      number = AsBelow(MixAt(flags.seed, first++), flags.key_count);
    }
    if (flags.kind == kInto) {
      ENGINE_RACE_RETURN_IF_ERROR(store->MultiReadInto(numbers, rows.data(), codes));
      for (const Code code : codes) {
        if (code != Code::kOk) return KeyFailed(Status(code, "a key"));
      }
    } else {
      for (size_t i = 0; i < keys.size(); ++i) {
        keys[i] = engine_race::KeyBytes(numbers[i]);
        views[i] = keys[i].view();
      }
      ENGINE_RACE_RETURN_IF_ERROR(store->MultiRead(views, values, statuses));
      for (const Status& status : statuses) {
        if (!status.ok()) return KeyFailed(status);
      }
    }
    self->tally.request_count += keys.size();
  } while (self->Running());
  return Status::Ok();
}

Status Measure(const Flags& flags, double* rows_per_second) {
  engine_race::Options options;
  options.create_if_missing = false;
  options.memory_budget_bytes = flags.memory_budget_bytes;
  std::unique_ptr<Store> store;
  ENGINE_RACE_RETURN_IF_ERROR(Store::Open(options, flags.dir, &store));
  Batch batch(flags.batch_size);
  uint64_t drawn = 0;
  for (const double seconds : {flags.warming_seconds, flags.seconds}) {
    TimedPoint point;
    ENGINE_RACE_RETURN_IF_ERROR(RunTimed(
        1, seconds,
        [&](uint32_t, TimedThread* self) {
          return ReadBatches(flags, store.get(), drawn, &batch, self);
        },
        &point));
    drawn += point.request_count;
    *rows_per_second = point.RequestsPerSecond();
  }
  return Status::Ok();
}

}  // namespace
}  // namespace harness

int main(int argc, char** argv) {
  harness::Flags flags;
  CLI::App app("Reads batches of random keys from a store, and prints rows a second as JSON.");
  app.add_option("--dir", flags.dir, "of the store")->required();
  app.add_option("--kind", flags.kind, "multi_read or multi_read_into")
      ->required()
      ->check(harness::OneOf("kind", {harness::kStrings, harness::kInto}));
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
  double rows_per_second = 0;
  const engine_race::Status status = harness::Measure(flags, &rows_per_second);
  if (status.ok()) {
    std::printf("{\"%s\": %.1f}\n", flags.kind.c_str(), rows_per_second);
    return harness::kExitDone;
  }
  std::fprintf(stderr, "multi_read: %s\n", status.ToString().c_str());
  return harness::kExitRefused;
}
