// Benchmarks that speak db_bench's language, sysbench's select_random_ranges and YCSB's workloads.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <map>
#include <new>
#include <sstream>
#include <string>
#include <vector>

#include "engine_race/base/named_options.h"
#include "harness/bench/session.h"
#include "harness/load/store_basics.h"
#include "harness/measure/table.h"
#include "harness/system/child_process.h"
#include "harness/system/command_line.h"
#include "harness/system/exit_codes.h"
#include "harness/system/fio_runner.h"

namespace engine_race::harness {
namespace {

constexpr char kProgram[] = "bench";

const std::map<std::string, Distribution> kDistributions = {{"uniform", Distribution::kUniform},
                                                            {"zipfian", Distribution::kZipfian},
                                                            {"latest", Distribution::kLatest}};
const std::map<std::string, KeyLayout> kLayouts = {{"dense", KeyLayout::kDense},
                                                   {"spread", KeyLayout::kSpread}};

// Of seconds and rates.
constexpr double kMostNumber = 1e9;

struct BenchFlags {
  SessionPlan plan;
  std::string benchmarks = "fillrandom,readrandom";
  uint32_t key_size = 8;
  uint32_t value_size = kValueBytes;
  std::string distribution;
  std::string keys = "dense";
  // As in db_bench, -1 stands for --num.
  int64_t reads = -1;
  int64_t writes = -1;
  bool sync = false;
  uint64_t write_bytes_per_second = 0;
  // "name=value"
  std::vector<std::string> options;
  std::string json_path;
  std::string csv_path;
};

template <typename Value>
std::vector<std::string> NamesOf(const std::map<std::string, Value>& values) {
  std::vector<std::string> names;
  names.reserve(values.size());
  for (const auto& entry : values) names.push_back(entry.first);
  return names;
}

void AddWorkFlags(BenchFlags* flags, CLI::App* app) {
  BenchConfig* const config = &flags->plan.config;
  app->add_option("--benchmarks", flags->benchmarks,
                  "what to run, in this order, with commas between: " + ListOf(BenchStepNames()));
  app->add_option("--num", config->num, "records of the store, and writes of all threads together")
      ->check(CLI::Range(uint64_t{1}, kMaxBenchRecords));
  const CLI::Range numbers(int64_t{-1}, static_cast<int64_t>(kMaxBenchRecords));
  app->add_option("--reads", flags->reads, "reads of each thread; 0 or -1: as many as --num")
      ->check(numbers);
  app->add_option(
         "--writes", flags->writes,
         "writes or deletions of all threads together; 0 or -1: as many as --num, in fillsync "
         "a thousandth")
      ->check(numbers);
  app->add_option("--threads", config->thread_count, "threads of every benchmark")
      ->check(CLI::Range(1u, kMaxBenchThreads));
  app->add_option("--duration", config->duration_seconds,
                  "seconds to run for instead of a count, where a benchmark has no end")
      ->check(CLI::Range(0.0, kMostNumber));
  app->add_option("--time_limit", config->time_limit_seconds,
                  "end a benchmark that takes more seconds, and mark it as not finished")
      ->check(CLI::Range(0.0, kMostNumber));
  app->add_option("--seed", config->seed, "seed of the keys that are drawn");
}

void AddRecordFlags(BenchFlags* flags, CLI::App* app) {
  BenchConfig* const config = &flags->plan.config;
  app->add_option("--key_size", flags->key_size, "8: the engine has no other keys");
  app->add_option("--value_size", flags->value_size, "bytes of each value")
      ->check(CLI::Range(kMinValueBytes, kMaxValueBytes));
  app->add_option("--keys", flags->keys,
                  "dense: the keys 0, 1, 2, ...; spread: as many keys evenly over all 64-bit keys")
      ->check(OneOf("layout", NamesOf(kLayouts)));
  app->add_option("--distribution", flags->distribution,
                  "of YCSB's records: uniform, zipfian or latest; by default the workload's own")
      ->check(OneOf("distribution", NamesOf(kDistributions)));
  app->add_option("--check_values", config->checks_values,
                  "whether a value that no benchmark wrote is an error");
}

// Flags of single benchmarks, and rates.
void AddCallFlags(BenchFlags* flags, CLI::App* app) {
  BenchConfig* const config = &flags->plan.config;
  app->add_option("--seek_nexts", config->seek_nexts,
                  "values and steps after each seek of seekrandom and seekrandomwhilewriting");
  app->add_option("--batch_size", config->batch_size, "keys of a call of multireadrandom")
      ->check(CLI::Range(1u, 1u << 20));
  app->add_option("--range_size", config->range_size,
                  "keys of a range: 5 in select_random_ranges, at most 100 in ycsbe");
  app->add_option("--number_of_ranges", config->range_count,
                  "ranges of a query of select_random_ranges")
      ->check(CLI::Range(1u, 1u << 20));
  app->add_option("--readwritepercent", config->read_percent,
                  "how many of 100 operations of readrandomwriterandom read")
      ->check(CLI::Range(1u, 99u));
  app->add_option("--rate", config->rate,
                  "operations a second of all threads; latencies count from the intended start")
      ->check(CLI::Range(0.0, kMostNumber));
  app->add_option("--benchmark_write_rate_limit", flags->write_bytes_per_second,
                  "bytes a second of fills, overwrite and the writer beside readers; 0: no limit");
}

void AddStoreFlags(BenchFlags* flags, CLI::App* app) {
  app->add_option("--db", flags->plan.db,
                  "directory of the store; by default a fresh one here, removed at the end");
  app->add_flag("--use_existing_db", flags->plan.use_existing_db,
                "take the store in --db as it is, and skip benchmarks that need a fresh one");
  app->add_flag("--sync", flags->sync,
                "every write is durable before it returns: --options sync_mode=group");
  app->add_option("--options", flags->options,
                  "NAME=VALUE, an option of the engine; may be given several times")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void AddReportFlags(BenchFlags* flags, CLI::App* app) {
  app->add_flag("--histogram", flags->plan.histogram, "print percentiles of latencies");
  app->add_flag("--statistics", flags->plan.statistics,
                "print the engine's counters after each benchmark");
  app->add_flag("--fio", flags->plan.measures_floor,
                "measure the device with fio first, for --json");
  flags->plan.report_file = "report.csv";
  app->add_option("--report_interval_seconds", flags->plan.report_interval_seconds,
                  "between two lines of --report_file; 0: no lines");
  app->add_option("--report_file", flags->plan.report_file, "operations by interval, as CSV");
  app->add_option("--json", flags->json_path, "also write all figures into this file");
  app->add_option("--csv", flags->csv_path, "also write a line for each benchmark into this file");
}

std::string NoBenchmark(const std::string& step) {
  const std::string reason = WhyNoBenchmark(step);
  if (!reason.empty()) return "there is no benchmark '" + step + "': " + reason;
  return UnknownName("benchmark", step, BenchStepNames());
}

// Sets the engine's options. Returns an empty string or what is wrong.
std::string ParseOptions(const BenchFlags& flags, Options* options) {
  *options = QuietOptions();
  options->value_bytes = flags.value_size;
  if (flags.sync) options->sync_mode = SyncMode::kGroup;
  for (const std::string& option : flags.options) {
    const size_t equals = option.find('=');
    if (equals == std::string::npos) return "--options " + option + " is no NAME=VALUE";
    const Status status = SetOption(option.substr(0, equals), option.substr(equals + 1), options);
    if (!status.ok()) return "--options " + option + ": " + status.message();
  }
  if (flags.sync && options->sync_mode == SyncMode::kNone) {
    return "--sync and --options sync_mode=none contradict each other";
  }
  if (options->value_bytes == 0) return "--options value_bytes=0 is no size";
  const Status valid = ValidateOptions(*options);
  return valid.ok() ? std::string() : "--options: " + valid.message();
}

// Completes the plan. Returns an empty string or what is wrong.
std::string ParseFlags(BenchFlags* flags) {
  SessionPlan* const plan = &flags->plan;
  const std::vector<std::string> names = BenchStepNames();
  std::istringstream steps(flags->benchmarks);
  for (std::string step; std::getline(steps, step, ',');) {
    // As in db_bench, an empty name is none.
    if (step.empty()) continue;
    plan->steps.push_back(step);
    if (std::find(names.begin(), names.end(), step) == names.end()) return NoBenchmark(step);
  }
  if (flags->key_size != kKeyBytes) {
    return "--key_size is " + std::to_string(flags->key_size) + ", but keys have 8 bytes here";
  }
  plan->config.key_layout = kLayouts.at(flags->keys);
  if (!flags->distribution.empty()) {
    plan->config.distribution = kDistributions.at(flags->distribution);
  }
  plan->config.reads = static_cast<uint64_t>(std::max<int64_t>(flags->reads, 0));
  plan->config.writes = static_cast<uint64_t>(std::max<int64_t>(flags->writes, 0));
  std::string wrong = ParseOptions(*flags, &plan->options);
  plan->config.value_bytes = flags->value_size = plan->options.value_bytes;
  plan->config.write_rate = static_cast<double>(flags->write_bytes_per_second) /
                            static_cast<double>(plan->config.record_bytes());
  return wrong;
}

// The flags as they were understood.
nlohmann::json ConfigJson(const BenchFlags& flags) {
  const SessionPlan& plan = flags.plan;
  const BenchConfig& config = plan.config;
  return {{"benchmarks", plan.steps},
          {"db", plan.db},
          {"num", config.num},
          {"reads", config.reads},
          {"writes", config.writes},
          {"threads", config.thread_count},
          {"duration", config.duration_seconds},
          {"time_limit", config.time_limit_seconds},
          {"seed", config.seed},
          {"key_size", flags.key_size},
          {"value_size", flags.value_size},
          {"keys", flags.keys},
          {"seek_nexts", config.seek_nexts},
          {"batch_size", config.batch_size},
          {"range_size", config.range_size},
          {"number_of_ranges", config.range_count},
          {"readwritepercent", config.read_percent},
          {"rate", config.rate},
          {"benchmark_write_rate_limit", flags.write_bytes_per_second},
          {"sync", flags.sync},
          {"distribution", flags.distribution},
          {"check_values", config.checks_values},
          {"use_existing_db", plan.use_existing_db},
          {"options", flags.options}};
}

// Returns why the outputs, fio or the space will not do, or nothing. Makes the outputs' folders and
// changes no file.
std::string CheckOutputsAndSpace(const BenchFlags& flags) {
  const SessionPlan& plan = flags.plan;
  for (const std::string& path : {flags.json_path, flags.csv_path}) {
    if (!CanSave(path)) return "cannot write " + path;
  }
  if (plan.measures_floor && !FioRunner::Available()) return "--fio: there is no fio";
  if (plan.use_existing_db) return {};
  std::string why_not = WhyNoRoomFor(MostRecords(plan.config, plan.steps), plan.config.value_bytes,
                                     plan.db, plan.options.paths);
  if (why_not.empty() || plan.config.duration_seconds == 0) return why_not;
  // The time decides how much is written, not --num and --reads.
  std::fprintf(stderr, "bench: warning: %s\n", why_not.c_str());
  return {};
}

// Returns the paths that could not be written, or nothing.
std::string Save(const BenchFlags& flags, const BenchSession& session) {
  nlohmann::json json = session.ToJson();
  json["config"] = ConfigJson(flags);
  std::string unwritten;
  if (!SaveJson(json, flags.json_path)) unwritten += " " + flags.json_path;
  if (!SaveText(RunsCsv(json["runs"]), flags.csv_path)) unwritten += " " + flags.csv_path;
  return unwritten;
}

Status RunGuarded(BenchSession* session) {
  try {
    return session->Run();
  } catch (const std::bad_alloc&) {
    return Status::IOError("there is not enough memory for this run");
  } catch (const std::exception& error) {
    return Status::IOError(error.what());
  }
}

int Bench(BenchFlags flags) {
  std::string wrong = ParseFlags(&flags);
  if (wrong.empty()) wrong = CheckOutputsAndSpace(flags);
  if (!wrong.empty()) return Refuse(kProgram, wrong);
  CatchInterrupts();
  // A reader that ends early, as `head` does, makes a print fail. The session ends in order then.
  std::signal(SIGPIPE, SIG_IGN);
  BenchSession session(flags.plan);
  const Status status = RunGuarded(&session);
  // Flags that do not fit the directory are found before the first run.
  if (status.code() == Code::kInvalidArgument && !session.has_runs()) {
    return Refuse(kProgram, status.message());
  }
  if (!status.ok() && !Interrupted()) {
    std::fprintf(stderr, "bench: %s\n", status.ToString().c_str());
  }
  const std::string unwritten = Save(flags, session);
  if (!unwritten.empty()) return Refuse(kProgram, "cannot write" + unwritten);
  if (Interrupted()) return kExitInterrupted;
  return status.ok() ? kExitDone : kExitFailure;
}

int Main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string why = WhyNoFlag(argv[i]);
    if (!why.empty())
      return Refuse(kProgram, std::string(argv[i]) + " has no meaning here: " + why);
  }
  BenchFlags flags;
  CLI::App app("Benchmarks of the engine: db_bench's, sysbench's select_random_ranges and YCSB's.");
  // As in db_bench, the last one of a flag counts.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  AddWorkFlags(&flags, &app);
  AddRecordFlags(&flags, &app);
  AddCallFlags(&flags, &app);
  AddStoreFlags(&flags, &app);
  AddReportFlags(&flags, &app);
  if (const auto code = ParseCommandLine("bench", argc, argv, &app)) return *code;
  return Bench(flags);
}

}  // namespace
}  // namespace engine_race::harness

int main(int argc, char** argv) { return engine_race::harness::Main(argc, argv); }
