#include "harness/measure/result_file.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

namespace engine_race::harness {

bool CanSave(const std::string& path) {
  if (path.empty()) return true;
  std::error_code error;
  const bool exists = std::filesystem::exists(std::filesystem::symlink_status(path, error));
  if (std::filesystem::is_directory(path, error)) return false;
  // A trial would wait for the reader of a pipe, and would make the file that a symlink names.
  if (exists && !std::filesystem::is_regular_file(path, error)) return true;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  const bool opened = std::ofstream(path, std::ios::app).is_open();
  if (opened && !exists) std::filesystem::remove(path, error);
  return opened;
}

bool SaveText(const std::string& text, const std::string& path) {
  if (path.empty()) return true;
  // When the folder cannot be made, writing the file fails.
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  std::ofstream file(path);
  file << text;
  file.flush();
  return static_cast<bool>(file);
}

bool SaveJson(const nlohmann::json& json, const std::string& path) {
  // A path need not be UTF-8.
  const auto any_bytes = nlohmann::json::error_handler_t::replace;
  return path.empty() || SaveText(json.dump(2, ' ', false, any_bytes) + '\n', path);
}

bool PrintAll(const std::string& text) {
  return std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
}

}  // namespace engine_race::harness
