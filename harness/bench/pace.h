// When each call of a thread should begin, for a given rate of all threads together; 0: at once.
//
// Immutable; thread-safe.
#ifndef HARNESS_BENCH_PACE_H_
#define HARNESS_BENCH_PACE_H_

#include <cstdint>

namespace engine_race::harness {

class Pace {
 public:
  // `operations` is how many each call does. The threads take turns.
  Pace(double rate, uint32_t thread_count, uint32_t thread, uint32_t operations)
      : step_ns_(rate == 0 ? 0 : 1e9 / rate * thread_count * operations),
        first_ns_(rate == 0 ? 0 : 1e9 / rate * thread * operations) {}

  bool has_rate() const { return step_ns_ > 0; }
  // The intended start of a call, in nanoseconds since the run began.
  uint64_t StartNs(uint64_t call) const {
    return static_cast<uint64_t>(first_ns_ + step_ns_ * static_cast<double>(call));
  }

 private:
  const double step_ns_;
  const double first_ns_;
};

}  // namespace engine_race::harness

#endif  // HARNESS_BENCH_PACE_H_
