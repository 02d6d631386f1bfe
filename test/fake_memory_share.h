// A share of memory whose limit a test moves.
#ifndef TEST_FAKE_MEMORY_SHARE_H_
#define TEST_FAKE_MEMORY_SHARE_H_

#include <cstdint>

#include "engine_race/base/memory_share.h"

namespace engine_race::test {

class FakeMemoryShare final : public MemoryShare {
 public:
  uint64_t LimitBytes() const noexcept override { return limit_bytes; }
  bool Book(uint64_t bytes) noexcept override {
    if (refuses || booked_bytes + bytes > limit_bytes) return false;
    booked_bytes += bytes;
    return true;
  }
  void Cancel(uint64_t bytes) noexcept override { booked_bytes -= bytes; }
  bool Want(uint64_t bytes) noexcept override {
    ++wants;
    limit_bytes += yielded_bytes;
    return booked_bytes + bytes <= limit_bytes;
  }

  bool refuses = false;  // Book fails within the limit, too
  uint64_t limit_bytes = 0;
  uint64_t booked_bytes = 0;
  uint64_t wants = 0;
  uint64_t yielded_bytes = 0;  // by each call of Want
};

}  // namespace engine_race::test

#endif  // TEST_FAKE_MEMORY_SHARE_H_
