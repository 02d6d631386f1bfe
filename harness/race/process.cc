#include "harness/race/process.h"

#include <cstdio>
#include <string>
#include <string_view>

#include "harness/race/json.h"
#include "harness/system/child_process.h"
#include "harness/system/own_text.h"

namespace harness {
namespace {

constexpr std::string_view kPhaseFlag = "--run-phase";
// The exit code of a process that cannot parse its order.
constexpr int kBadOrder = 2;

PhaseResult Broken(const std::string& what) {
  PhaseResult result;
  result.error = what;
  return result;
}

}  // namespace

PhaseResult RunPhaseProcess(Phase phase, const RaceConfig& config) {
  const ChildResult child =
      RunChild({SelfPath(), std::string(kPhaseFlag), OrderText({phase, config})});
  if (!child.started) return Broken(child.error);
  const std::optional<PhaseResult> answer = ParseResult(child.output);
  if (answer) return *answer;
  return Broken("the " + std::string(PhaseName(phase)) + " process ended without a result, code " +
                std::to_string(child.exit_code));
}

std::optional<int> PhaseMain(int argc, char** argv) {
  if (argc != 3 || argv[1] != kPhaseFlag) return std::nullopt;
  const std::optional<PhaseOrder> order = ParseOrder(argv[2]);
  if (!order) return kBadOrder;
  if (order->config.moves_text) {
    const engine_race::Status moved = MoveTextToOwnMemory();
    if (!moved.ok()) {
      std::puts(ResultText(Broken("moving the text: " + moved.ToString())).c_str());
      return 1;
    }
  }
  const PhaseResult result = RunPhase(order->phase, order->config);
  std::puts(ResultText(result).c_str());
  return result.ok ? 0 : 1;
}

}  // namespace harness
