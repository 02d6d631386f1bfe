#include "harness/measure/table.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>

namespace engine_race::harness {

std::string Table::ToString() const {
  std::vector<size_t> widths(rows_[0].size(), 0);
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (size_t r = 0; r < rows_.size(); ++r) {
    for (size_t i = 0; i < rows_[r].size(); ++i) {
      const std::string& cell = rows_[r][i];
      const std::string space(widths[i] - cell.size(), ' ');
      if (i == 0) {
        text.append(cell).append(space);
      } else {
        text.append(2, ' ').append(space).append(cell);
      }
    }
    text += '\n';
    if (r != 0) continue;
    size_t width = 2 * (widths.size() - 1);
    for (const size_t column : widths) width += column;
    text += std::string(width, '-') + '\n';
  }
  return text;
}

std::string Fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.*f", digits, value);
  return text;
}

std::string Duration(double ns) {
  if (ns < 1e3) return Fixed(ns, 0) + " ns";
  if (ns < 1e6) return Fixed(ns * 1e-3, 1) + " us";
  if (ns < 1e9) return Fixed(ns * 1e-6, 2) + " ms";
  return Fixed(ns * 1e-9, 2) + " s";
}

std::optional<std::string> LoadText(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

nlohmann::json LoadJson(const std::string& path) {
  nlohmann::json json = nlohmann::json::parse(LoadText(path).value_or(""), nullptr, false);
  // A discarded value would be written as text that is no JSON.
  return json.is_discarded() ? nlohmann::json() : json;
}

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
