// Switches `perf record --control fifo:CONTROL,ANSWER` on and off.
//
// Not thread-safe.
#ifndef HARNESS_SYSTEM_PROFILER_SWITCH_H_
#define HARNESS_SYSTEM_PROFILER_SWITCH_H_

#include <string>

namespace engine_race::harness {

class ProfilerSwitch {
 public:
  // The paths of both fifos. Without paths Turn does nothing.
  ProfilerSwitch(std::string control_path, std::string answer_path);
  // False when the profiler does not answer.
  bool Turn(bool on) const;

 private:
  const std::string control_path_;
  const std::string answer_path_;
};

}  // namespace engine_race::harness

#endif  // HARNESS_SYSTEM_PROFILER_SWITCH_H_
