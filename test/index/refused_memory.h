// Refuses one request for memory that the calling thread makes of operator new, or watches all.
#ifndef TEST_INDEX_REFUSED_MEMORY_H_
#define TEST_INDEX_REFUSED_MEMORY_H_

#include <cstddef>
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

// While it lives, `watch` hears of each request of this thread. It must not make requests itself.
class WatchMemory {
 public:
  explicit WatchMemory(void (*watch)(size_t size));
  WatchMemory(const WatchMemory&) = delete;
  WatchMemory& operator=(const WatchMemory&) = delete;
  ~WatchMemory();
};

}  // namespace engine_race::test

#endif  // TEST_INDEX_REFUSED_MEMORY_H_
