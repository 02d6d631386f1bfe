// Work of this program in a process of its own: for clean memory, a cap on it, or a kill.
//
// The child is the same program, run again with a flag, the name of the work and its order. The
// order and the answer are JSON objects. The answer is the last line that the child prints. It has
// an "error" if the work has failed. A child dies with its parent.
//
// A program that starts children begins its main with ChildMain.
#ifndef HARNESS_SYSTEM_OWN_CHILD_H_
#define HARNESS_SYSTEM_OWN_CHILD_H_

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine_race/base/status.h"

namespace engine_race::harness {

// The works of a child, by name. An exception of a work is a wrong order.
using ChildWork = Status (*)(const nlohmann::json& order, nlohmann::json* answer);
using ChildWorks = std::map<std::string, ChildWork>;

// Runs the work in a child whose time is limited; 0 seconds are no limit. Returns kIOError if the
// work has failed or the child gave no answer, and kIncomplete after an interrupt.
Status RunOwnChild(const std::string& work, const nlohmann::json& order, nlohmann::json* answer,
                   double timeout_seconds = 0);
// Runs work that is to end by SIGKILL. kIOError when it ends in another way.
Status RunKilledChild(const std::string& work, const nlohmann::json& order);

// The command of a child, for another program that starts it. A child that some `parent` has not
// started does nothing; 0: any process may have started it.
std::vector<std::string> ChildCommand(const std::string& work, const nlohmann::json& order,
                                      int parent = 0);

// Runs the work and returns the exit code, if this process was started as a child.
std::optional<int> ChildMain(int argc, char** argv, const ChildWorks& works);

// Prints an answer, which may have text that is not UTF-8.
void PrintAnswer(const nlohmann::json& answer);
// The answer that is the last line of this text; nothing when that is none.
std::optional<nlohmann::json> ParseAnswer(const std::string& text);

}  // namespace engine_race::harness

#endif  // HARNESS_SYSTEM_OWN_CHILD_H_
