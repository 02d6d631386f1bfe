#include "harness/bench/store_dir.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>

#include "harness/load/store_basics.h"
#include "harness/system/disk.h"

namespace harness {
namespace {

namespace fs = std::filesystem;

constexpr char kNoteName[] = "bench-store.json";

// fio leaves files when it is killed.
bool IsOurs(const std::string& name) {
  return name == kNoteName || name.starts_with("fio-") || IsStoreFile(name);
}

std::string NoteText(const std::vector<std::string>& value_paths) {
  return nlohmann::json({{"value_paths", value_paths}}).dump() + "\n";
}

std::string ReadNote(const std::string& path) {
  std::ifstream note(fs::path(path) / kNoteName);
  return {std::istreambuf_iterator<char>(note), std::istreambuf_iterator<char>()};
}

bool HasStoreFiles(const std::string& dir) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(dir, error)) {
    if (IsStoreFile(entry.path().filename().string())) return true;
  }
  return false;
}

}  // namespace

StoreDir::~StoreDir() {
  if (!is_fresh_) return;
  RemoveStore();
  std::error_code ignored;
  fs::remove(fs::path(path_) / kNoteName, ignored);
}

bool StoreDir::Prepare(const std::string& path, const std::vector<std::string>& value_paths,
                       std::string* error) {
  const std::string note = path.empty() ? std::string() : ReadNote(path);
  if (!note.empty() && note != NoteText(value_paths)) {
    *error = path + " has a store with other value paths";
    return false;
  }
  for (const std::string& value_path : value_paths) {
    if (note.empty() && HasStoreFiles(value_path)) {
      *error = value_path + " has files of another store: left alone";
      return false;
    }
  }
  if (!dir_.Prepare(path, error, note.empty() ? nullptr : IsOurs)) return false;
  path_ = dir_.path();
  value_paths_ = value_paths;
  is_fresh_ = path.empty();
  return true;
}

bool StoreDir::Adopt(const std::string& path, std::string* error) {
  if (path.empty() || !HasStoreFiles(path)) {
    *error = path.empty() ? "an existing store needs --db" : "there is no store in " + path;
    return false;
  }
  path_ = fs::absolute(path).string();
  return true;
}

bool StoreDir::Empty(std::string* error) {
  RemoveStore();
  std::ofstream note(fs::path(path_) / kNoteName);
  note << NoteText(value_paths_) << std::flush;
  if (note) return true;
  *error = path_ + ": cannot write " + kNoteName;
  return false;
}

uint64_t StoreDir::AllocatedBytes() const {
  uint64_t bytes = harness::AllocatedBytes(path_);
  for (const std::string& value_path : value_paths_) bytes += harness::AllocatedBytes(value_path);
  return bytes;
}

void StoreDir::RemoveStore() const {
  RemoveStoreFiles(path_);
  for (const std::string& value_path : value_paths_) RemoveStoreFiles(value_path);
}

}  // namespace harness
