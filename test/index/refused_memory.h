// Refuses one request for memory that the calling thread makes of operator new, or watches all. Or
// refuses every new thread.
#ifndef TEST_INDEX_REFUSED_MEMORY_H_
#define TEST_INDEX_REFUSED_MEMORY_H_

#include <pthread.h>

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

// While it lives, no thread of this process can start another one.
class RefuseThreads {
 public:
  RefuseThreads();
  RefuseThreads(const RefuseThreads&) = delete;
  RefuseThreads& operator=(const RefuseThreads&) = delete;
  ~RefuseThreads();

 private:
  pthread_attr_t before_;
};

}  // namespace engine_race::test

#endif  // TEST_INDEX_REFUSED_MEMORY_H_
