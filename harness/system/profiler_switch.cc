#include "harness/system/profiler_switch.h"

#include <fstream>
#include <utility>

namespace engine_race::harness {

ProfilerSwitch::ProfilerSwitch(std::string control_path, std::string answer_path)
    : control_path_(std::move(control_path)), answer_path_(std::move(answer_path)) {}

bool ProfilerSwitch::Turn(bool on) const {
  if (control_path_.empty()) return true;
  std::ofstream control(control_path_);
  control << (on ? "enable\n" : "disable\n") << std::flush;
  std::ifstream answer(answer_path_);
  std::string word;
  return control && std::getline(answer, word) && word.starts_with("ack");
}

}  // namespace engine_race::harness
