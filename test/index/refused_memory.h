// Refuses one request for memory that the calling thread makes of operator new.
#ifndef TEST_INDEX_REFUSED_MEMORY_H_
#define TEST_INDEX_REFUSED_MEMORY_H_

#include <cstdint>

namespace engine_race::test {

// While it lives, the request after `passed_count` others fails.
class RefuseMemory {
 public:
  explicit RefuseMemory(uint64_t passed_count);
  RefuseMemory(const RefuseMemory&) = delete;
  RefuseMemory& operator=(const RefuseMemory&) = delete;
  ~RefuseMemory();

  // Whether a request was refused.
  bool refused() const;
};

}  // namespace engine_race::test

#endif  // TEST_INDEX_REFUSED_MEMORY_H_
