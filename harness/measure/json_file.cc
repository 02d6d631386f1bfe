#include "harness/measure/json_file.h"

#include <filesystem>
#include <fstream>
#include <system_error>

namespace harness {

bool SaveJson(const nlohmann::json& json, const std::string& path) {
  if (path.empty()) return true;
  // A folder that cannot be made shows when the file is written.
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  std::ofstream file(path);
  file << json.dump(2) << '\n';
  file.flush();
  return static_cast<bool>(file);
}

}  // namespace harness
