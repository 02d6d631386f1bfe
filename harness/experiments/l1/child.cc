#include "harness/experiments/l1/race.h"

#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <sstream>
#include <string_view>
#include <vector>

#include "harness/experiments/l1/tables.h"
#include "harness/measure/table.h"
#include "harness/system/child_process.h"
#include "harness/system/process_stats.h"

namespace engine_race::harness {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TableShape, key_bytes, payload_bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(L1Records, shape, table_count, records_per_table, seed)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(L1Child, dir, records, step, lookup_count, pass_count, control,
                                   answer)

namespace {

// Parts of the names of the functions in which a lookup spends its time in the cache.
constexpr std::string_view kCacheFunctions[] = {"BlockCache::", "pthread_mutex", "lll_lock"};

// Given so that valgrind does not warn about the machine's own cache. Its misses are not used.
constexpr char kLastLevel[] = "--LL=33554432,16,64";

// Runs `head`, followed by the child's arguments, and gives its output.
Status RunUnder(std::vector<std::string> head, const std::vector<std::string>& args,
                std::string* output) {
  const std::string program = head[0];
  head.insert(head.end(), args.begin(), args.end());
  const ChildResult result = RunChild(head);
  if (!result.started || result.exit_code == 127) return Status::NotSupported(result.error);
  if (result.exit_code != 0) {
    return Status::NotSupported(program + " ended with code " + std::to_string(result.exit_code));
  }
  *output = result.output;
  return Status::Ok();
}

Status CountOnce(const L1Child& child, L1Counts* counts) {
  const std::string path = child.dir + "/cachegrind.out";
  std::string output;
  ENGINE_RACE_RETURN_IF_ERROR(
      RunUnder({"valgrind", "--quiet", "--tool=cachegrind", "--cache-sim=yes", kLastLevel,
                "--cachegrind-out-file=" + path, "--log-file=" + path + ".log"},
               ChildCommand(kL1StepWork, child), &output));
  // The totals come last in a file of many megabytes.
  const std::string text = LoadText(path).value_or("");
  unlink(path.c_str());
  unlink((path + ".log").c_str());
  return ParseCachegrind(text, counts);
}

}  // namespace

Status RunL1Step(const nlohmann::json& order, nlohmann::json* /*answer*/) {
  const auto child = order.get<L1Child>();
  std::unique_ptr<L1Files> files;
  ENGINE_RACE_RETURN_IF_ERROR(L1Files::Open(child.dir, child.records, &files));
  std::unique_ptr<L1Tables> tables;
  ENGINE_RACE_RETURN_IF_ERROR(L1Tables::Open(*files, L1StepNamed(child.step), &tables));
  const L1Lookups lookups(child.records, {child.lookup_count});
  const ProfilerSwitch profiler(child.control, child.answer);
  if (!profiler.Turn(true)) return Status::IOError("the profiler does not answer");
  const L1Answer answer = tables->Gets()();
  uint64_t next = 0;
  uint64_t unused_count = 0;
  for (uint32_t pass = 0; pass < child.pass_count; ++pass) {
    // A pass ends when the first chunk is the next one again.
    ENGINE_RACE_RETURN_IF_ERROR(LookUpChunks(
        lookups, answer, [&next] { return next > 0; }, &next, &unused_count));
  }
  if (!profiler.Turn(false)) return Status::IOError("the profiler does not answer");
  return Status::Ok();
}

Status CountL1Step(L1Child child, L1Counts* counts) {
  constexpr uint32_t kMorePasses = 2;
  L1Counts few;
  L1Counts many;
  ENGINE_RACE_RETURN_IF_ERROR(CountOnce(child, &few));
  child.pass_count += kMorePasses;
  ENGINE_RACE_RETURN_IF_ERROR(CountOnce(child, &many));
  const auto lookups = static_cast<double>(kMorePasses * child.lookup_count);
  *counts = {(many.instructions - few.instructions) / lookups,
             (many.l1d_misses - few.l1d_misses) / lookups};
  return Status::Ok();
}

Status ParseCachegrind(const std::string& text, L1Counts* counts) {
  std::vector<std::string> names;
  std::map<std::string, double> sums;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string head;
    words >> head;
    if (head == "events:") {
      for (std::string name; words >> name;) names.push_back(name);
    } else if (head == "summary:") {
      double sum;
      for (size_t i = 0; i < names.size() && words >> sum; ++i) sums[names[i]] = sum;
    }
  }
  for (const char* name : {"Ir", "D1mr", "D1mw"}) {
    if (!sums.contains(name))
      return Status::Corruption("cachegrind counted no " + std::string(name));
  }
  *counts = {sums["Ir"], sums["D1mr"] + sums["D1mw"]};
  return Status::Ok();
}

Status SampleL1Cache(L1Child child, double* share) {
  const std::string data = child.dir + "/perf.data";
  child.control = child.dir + "/control";
  child.answer = child.dir + "/answer";
  for (const std::string& path : {child.control, child.answer}) {
    if (mkfifo(path.c_str(), 0600) != 0) return Status::FromErrno("mkfifo " + path, errno);
  }
  std::string output;
  // Nothing is sampled before the child asks for it.
  Status status =
      RunUnder({"perf", "record", "--quiet", "-e", "cpu-clock", "-F", "999", "-D", "-1",
                "--control", "fifo:" + child.control + "," + child.answer, "-o", data, "--"},
               ChildCommand(kL1StepWork, child), &output);
  if (status.ok()) {
    status = RunUnder({"perf", "report", "--stdio", "-F", "overhead,sym", "-i", data}, {}, &output);
  }
  for (const std::string& path : {child.control, child.answer, data}) unlink(path.c_str());
  return status.ok() ? ParseCacheShare(output, share) : status;
}

Status ParseCacheShare(const std::string& text, double* share) {
  double all = 0;
  double cache = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    double percent;
    char sign;
    if (!(words >> percent >> sign) || sign != '%') continue;
    all += percent;
    for (const std::string_view name : kCacheFunctions) {
      if (line.find(name) == std::string::npos) continue;
      cache += percent;
      break;
    }
  }
  if (all <= 0) return Status::NotSupported("perf took no samples");
  *share = cache / all;
  return Status::Ok();
}

}  // namespace engine_race::harness
