// A temporary directory in memory, where thousands of stores come and go quickly.
#ifndef TEST_FAULTS_MEMORY_DIR_H_
#define TEST_FAULTS_MEMORY_DIR_H_

#include <cstdint>

#include "test/test_util.h"

namespace engine_race::test {

class MemoryDir : public TempDir {
 public:
  MemoryDir() : TempDir(FastParent()) {}

  // By how much a sweep should take longer steps: a disk's flushes take milliseconds each.
  uint64_t stride() const { return path().starts_with("/dev/shm/") ? 1 : 13; }
};

}  // namespace engine_race::test

#endif  // TEST_FAULTS_MEMORY_DIR_H_
