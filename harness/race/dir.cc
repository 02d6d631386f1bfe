#include "harness/race/dir.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>
#include <system_error>

#include "harness/race/process.h"

namespace harness {
namespace {

namespace fs = std::filesystem;

constexpr char kNoteName[] = "race.json";

// File names of the engine and of the runs beside it; nothing else is ever removed.
constexpr std::array<std::string_view, 5> kOurPrefixes = {"manifest", "key_", "value_", "staging_",
                                                          "fio-"};

bool IsOurs(const std::string& name) {
  if (name == kNoteName) return true;
  for (const std::string_view prefix : kOurPrefixes) {
    if (name.starts_with(prefix)) return true;
  }
  return false;
}

// Empty when the directory may be used, else the name of what is in the way.
std::string WhatIsInTheWay(const std::string& dir) {
  const bool has_note = fs::exists(fs::path(dir) / kNoteName);
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(dir, error)) {
    std::string name = entry.path().filename().string();
    if (name != "lost+found" && !(has_note && IsOurs(name))) return name;
  }
  return error ? error.message() : std::string();
}

}  // namespace

RaceDir::~RaceDir() {
  if (!is_ours_) return;
  RemoveStore();
  std::error_code error;
  fs::remove(path_, error);
}

bool RaceDir::Prepare(const std::string& path, std::string* error) {
  std::error_code failed;
  if (path.empty()) {
    std::string name = "race-store.XXXXXX";
    if (mkdtemp(name.data()) == nullptr) {
      *error = std::string("cannot make a directory here: ") + std::strerror(errno);
      return false;
    }
    path_ = fs::absolute(name, failed).string();
    is_ours_ = true;
    return true;
  }
  fs::create_directories(path, failed);
  if (failed) {
    *error = path + ": " + failed.message();
    return false;
  }
  const std::string obstacle = WhatIsInTheWay(path);
  if (!obstacle.empty()) {
    *error = path + " is not empty and not a race's store (" + obstacle + "): left alone";
    return false;
  }
  path_ = fs::absolute(path, failed).string();
  return true;
}

bool RaceDir::StartStore(const RaceConfig& config, std::string* error) {
  RemoveStore();
  std::ofstream note(fs::path(path_) / kNoteName);
  note << nlohmann::json(config).dump(2) << '\n';
  note.flush();
  if (note) return true;
  *error = path_ + ": cannot write " + kNoteName;
  return false;
}

std::optional<RaceConfig> RaceDir::ReadNote() const {
  std::ifstream note(fs::path(path_) / kNoteName);
  if (!note) return std::nullopt;
  const nlohmann::json json = nlohmann::json::parse(note, nullptr, false);
  try {
    return json.get<RaceConfig>();
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

void RaceDir::RemoveStore() {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(path_, error)) {
    if (entry.is_regular_file(error) && IsOurs(entry.path().filename().string())) {
      fs::remove(entry.path(), error);
    }
  }
  sync();
}

uint64_t FreeBytes(const std::string& dir) {
  struct statvfs stats = {};
  if (statvfs(dir.c_str(), &stats) != 0) return 0;
  return uint64_t{stats.f_bavail} * stats.f_frsize;
}

uint64_t StoreBytes(uint64_t record_count) {
  constexpr uint64_t kRecordBytes = 4096 + 16;
  constexpr uint64_t kStagingBytes = uint64_t{512} << 20;
  return record_count * kRecordBytes + kStagingBytes;
}

std::string FileSystemName(const std::string& dir) {
  struct stat info = {};
  if (stat(dir.c_str(), &info) != 0) return "unknown";
  const std::string device =
      std::to_string(major(info.st_dev)) + ":" + std::to_string(minor(info.st_dev));
  std::ifstream mounts("/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream fields(line);
    std::string id, parent, numbers, word;
    fields >> id >> parent >> numbers;
    if (numbers != device) continue;
    while (fields >> word && word != "-") {
    }
    std::string type, source;
    if (fields >> type >> source) return type.append(" on ").append(source);
  }
  return "unknown";
}

}  // namespace harness
