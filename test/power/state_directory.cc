#include "test/power/state_directory.h"

#include <filesystem>
#include <fstream>

namespace engine_race::test {

std::string StateDirectory::NewPath() { return dir_.Join(std::to_string(count_++)); }

std::string StateDirectory::NewDirectory() {
  std::string path = NewPath();
  std::filesystem::create_directory(path);
  return path;
}

std::string NewBootId(StateDirectory* states, Random* random) {
  std::string path = states->NewPath();
  std::ofstream file(path);
  file << std::hex << (*random)() << "-" << (*random)() << "\n";
  return path;
}

}  // namespace engine_race::test
