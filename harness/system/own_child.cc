#include "harness/system/own_child.h"

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "harness/system/child_process.h"

namespace engine_race::harness {

namespace {

constexpr char kFlag[] = "--child";
constexpr char kError[] = "error";
// The exit code of a child whose order is wrong or whose parent has ended.
constexpr int kNotRun = 2;

Status FailureOf(const std::string& work, const ChildResult& child, const std::string& what) {
  if (Interrupted()) return InterruptedStatus();
  if (!child.started) return Status::IOError(child.error);
  return Status::IOError("the process of " + work + " " + what + ", code " +
                         std::to_string(child.exit_code));
}

}  // namespace

void PrintAnswer(const nlohmann::json& answer) {
  const auto any_bytes = nlohmann::json::error_handler_t::replace;
  std::puts(answer.dump(-1, ' ', false, any_bytes).c_str());
  std::fflush(stdout);
}

std::optional<nlohmann::json> ParseAnswer(const std::string& text) {
  // Libraries may have printed lines before the answer.
  const size_t end = text.find_last_not_of('\n');
  const size_t begin = end == std::string::npos ? 0 : text.rfind('\n', end) + 1;
  nlohmann::json answer =
      nlohmann::json::parse(text.substr(begin), nullptr, /*allow_exceptions=*/false);
  if (!answer.is_object()) return std::nullopt;
  return answer;
}

std::vector<std::string> ChildCommand(const std::string& work, const nlohmann::json& order,
                                      int parent) {
  return {SelfPath(), kFlag, work, order.dump(), std::to_string(parent)};
}

Status RunOwnChild(const std::string& work, const nlohmann::json& order, nlohmann::json* answer,
                   double timeout_seconds) {
  const ChildResult child = RunChild(ChildCommand(work, order, ::getpid()), timeout_seconds);
  const std::optional<nlohmann::json> printed = ParseAnswer(child.output);
  *answer = printed.value_or(nlohmann::json::object());
  if (child.timed_out) return FailureOf(work, child, "had not ended in time");
  if (!printed) return FailureOf(work, child, "ended without an answer");
  const std::string error = answer->value(kError, "");
  if (!error.empty()) return Status::IOError(work + ": " + error);
  return child.exit_code == 0 ? Status::Ok() : FailureOf(work, child, "failed");
}

Status RunKilledChild(const std::string& work, const nlohmann::json& order) {
  const ChildResult child = RunChild(ChildCommand(work, order, ::getpid()));
  if (child.started && child.exit_code == 128 + SIGKILL) return Status::Ok();
  return FailureOf(work, child, "was not killed: " + child.output);
}

std::optional<int> ChildMain(int argc, char** argv, const ChildWorks& works) {
  if (argc != 5 || std::strcmp(argv[1], kFlag) != 0) return std::nullopt;
  const int parent = std::atoi(argv[4]);
  if (parent != 0 && !DieWithParent(parent)) return kNotRun;
  nlohmann::json answer = nlohmann::json::object();
  const auto fail = [&answer](const std::string& error, int code) {
    answer[kError] = error;
    PrintAnswer(answer);
    return code;
  };
  const auto work = works.find(argv[2]);
  if (work == works.end()) return fail(std::string("no work is named ") + argv[2], kNotRun);
  try {
    const Status status = work->second(nlohmann::json::parse(argv[3]), &answer);
    if (!status.ok()) return fail(status.ToString(), 1);
  } catch (const std::exception& error) {
    return fail(error.what(), kNotRun);
  }
  PrintAnswer(answer);
  return answer.value(kError, "").empty() ? 0 : 1;
}

}  // namespace engine_race::harness
