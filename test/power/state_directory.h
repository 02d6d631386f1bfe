// Where crash states lie while they are looked at.
//
// Not thread-safe. Owns its directory.
#ifndef TEST_POWER_STATE_DIRECTORY_H_
#define TEST_POWER_STATE_DIRECTORY_H_

#include <cstdint>
#include <string>

#include "test/power/file_model.h"
#include "test/test_util.h"

namespace engine_race::test {

// A directory for crash states, in memory where that is possible. Removed with the object.
class StateDirectory {
 public:
  // A new empty directory, or the name of a file to be.
  std::string NewDirectory();
  std::string NewPath();

 private:
  const TempDir dir_{FastParent()};
  uint64_t count_ = 0;
};

// A file to stand for the machine's boot id, one for every boot.
std::string NewBootId(StateDirectory* states, Random* random);

}  // namespace engine_race::test

#endif  // TEST_POWER_STATE_DIRECTORY_H_
