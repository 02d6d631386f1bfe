#include "harness/experiments/l1/child.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <sstream>
#include <string_view>
#include <vector>

#include "harness/experiments/l1/tables.h"
#include "harness/system/child_process.h"
#include "harness/system/cpu_counters.h"
#include "harness/system/own_child.h"

namespace engine_race::harness {

namespace {

// Parts of the names of the functions in which a lookup spends its time in the cache.
constexpr std::string_view kCacheFunctions[] = {"BlockCache::", "pthread_mutex", "lll_lock"};

// Given so that valgrind does not warn about the machine's own cache. Its misses are not used.
constexpr char kLastLevel[] = "--LL=33554432,16,64";

Status LookUp(const L1Lookups& lookups, const L1Answer& answer) {
  for (uint64_t i = 0; i < lookups.chunk_count(); ++i) {
    const L1Chunk chunk = lookups.chunk(i);
    uint64_t sum = 0;
    ENGINE_RACE_RETURN_IF_ERROR(answer(chunk, &sum));
    if (sum != chunk.sum) return Status::Corruption("lookups found other payloads");
  }
  return Status::Ok();
}

// The command of the child, which valgrind or perf starts.
std::vector<std::string> CommandOf(const L1Child& child, uint32_t pass_count,
                                   const std::string& control = "",
                                   const std::string& answer = "") {
  const L1Records& records = child.records;
  return ChildCommand(kL1StepWork, {{"step", child.step},
                                    {"lookups", child.lookup_count},
                                    {"passes", pass_count},
                                    {"dir", child.dir},
                                    {"tables", records.table_count},
                                    {"records_per_table", records.records_per_table},
                                    {"key_bytes", records.shape.key_bytes},
                                    {"payload_bytes", records.shape.payload_bytes},
                                    {"seed", records.seed},
                                    {"control", control},
                                    {"answer", answer}});
}

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

// The totals come last in a file of many megabytes.
std::string FileText(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

Status CountOnce(const L1Child& child, uint32_t pass_count, L1Counts* counts) {
  const std::string path = child.dir + "/cachegrind.out";
  std::string output;
  ENGINE_RACE_RETURN_IF_ERROR(
      RunUnder({"valgrind", "--quiet", "--tool=cachegrind", "--cache-sim=yes", kLastLevel,
                "--cachegrind-out-file=" + path, "--log-file=" + path + ".log"},
               CommandOf(child, pass_count), &output));
  const std::string text = FileText(path);
  unlink(path.c_str());
  unlink((path + ".log").c_str());
  return ParseCachegrind(text, counts);
}

}  // namespace

Status RunL1Step(const nlohmann::json& order, nlohmann::json* /*answer*/) {
  L1Records records;
  order.at("tables").get_to(records.table_count);
  order.at("records_per_table").get_to(records.records_per_table);
  order.at("key_bytes").get_to(records.shape.key_bytes);
  order.at("payload_bytes").get_to(records.shape.payload_bytes);
  order.at("seed").get_to(records.seed);
  std::unique_ptr<L1Files> files;
  ENGINE_RACE_RETURN_IF_ERROR(L1Files::Open(order.at("dir"), records, &files));
  std::unique_ptr<L1Tables> tables;
  ENGINE_RACE_RETURN_IF_ERROR(
      L1Tables::Open(*files, L1StepNamed(order.at("step").get<std::string>()), &tables));
  const L1Lookups lookups(records, {order.at("lookups")});
  const ProfilerSwitch profiler(order.at("control"), order.at("answer"));
  if (!profiler.Turn(true)) return Status::IOError("the profiler does not answer");
  const L1Answer answer = tables->Gets()();
  for (uint32_t i = 0; i < order.at("passes"); ++i) {
    ENGINE_RACE_RETURN_IF_ERROR(LookUp(lookups, answer));
  }
  if (!profiler.Turn(false)) return Status::IOError("the profiler does not answer");
  return Status::Ok();
}

Status CountL1Step(const L1Child& child, L1Counts* counts) {
  constexpr uint32_t kMorePasses = 3;
  L1Counts few;
  L1Counts many;
  ENGINE_RACE_RETURN_IF_ERROR(CountOnce(child, 1, &few));
  ENGINE_RACE_RETURN_IF_ERROR(CountOnce(child, kMorePasses, &many));
  const auto lookups = static_cast<double>((kMorePasses - 1) * child.lookup_count);
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

Status SampleL1Cache(const L1Child& child, double* share) {
  const std::string data = child.dir + "/perf.data";
  const std::string control = child.dir + "/control";
  const std::string answer = child.dir + "/answer";
  for (const std::string& path : {control, answer}) {
    if (mkfifo(path.c_str(), 0600) != 0) return Status::FromErrno("mkfifo " + path, errno);
  }
  std::string output;
  // Nothing is sampled before the child asks for it.
  Status status = RunUnder({"perf", "record", "--quiet", "-e", "cpu-clock", "-F", "999", "-D", "-1",
                            "--control", "fifo:" + control + "," + answer, "-o", data, "--"},
                           CommandOf(child, child.pass_count, control, answer), &output);
  if (status.ok()) {
    status = RunUnder({"perf", "report", "--stdio", "-F", "overhead,sym", "-i", data}, {}, &output);
  }
  for (const std::string& path : {control, answer, data}) unlink(path.c_str());
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
