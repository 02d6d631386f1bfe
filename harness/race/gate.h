// Where instances of a race wait for each other: each says a line and goes on when it is answered.
// The lines are "ready" when all is checked and nothing changed yet, then "start PHASE" and
// "done PHASE PID" for each phase.
//
// The launcher of the instances holds the other ends of two pipes. It answers all instances when
// all of them have said their line, and closes its ends to stop them. Stateless; one thread at a
// time.
#ifndef HARNESS_RACE_GATE_H_
#define HARNESS_RACE_GATE_H_

#include <string>

namespace engine_race::harness {

// Descriptors that are inherited by the processes of phases. -1: there are no other instances.
struct GateFds {
  int in = -1;
  int out = -1;
};

// Writes the line and waits for one in return. True at once without other instances; false when the
// other end has been closed.
bool PassGate(const GateFds& fds, const std::string& line);

}  // namespace engine_race::harness

#endif  // HARNESS_RACE_GATE_H_
