#include "harness/race/dir.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "harness/load/store_basics.h"
#include "harness/race/json.h"

namespace engine_race::harness {
namespace {

namespace fs = std::filesystem;

constexpr char kNoteName[] = "race.json";

constexpr char kFioPrefix[] = "fio-";

// Files of the engine and of the runs beside it; nothing else is ever removed.
bool IsOurs(const std::string& name) {
  return name == kNoteName || name.starts_with(kFioPrefix) || IsStoreFile(name);
}

}  // namespace

RaceDir::~RaceDir() {
  if (is_fresh_) RemoveStore();
}

bool RaceDir::Prepare(const std::string& path, std::string* error) {
  // Files with names of a store belong to a race only when there is a note.
  const bool has_note = !path.empty() && fs::exists(fs::path(path) / kNoteName);
  if (!dir_.Prepare(path, error, has_note ? IsOurs : nullptr)) return false;
  is_fresh_ = path.empty();
  return true;
}

bool RaceDir::StartStore(const RaceConfig& config, std::string* error) {
  RemoveStore();
  std::ofstream note(fs::path(path()) / kNoteName);
  note << ConfigText(config) << '\n';
  note.flush();
  if (note) return true;
  *error = path() + ": cannot write " + kNoteName;
  return false;
}

std::optional<RaceConfig> RaceDir::ReadNote() const {
  std::ifstream note(fs::path(path()) / kNoteName);
  if (!note) return std::nullopt;
  return ParseConfig({std::istreambuf_iterator<char>(note), std::istreambuf_iterator<char>()});
}

void RaceDir::RemoveStore() { RemoveFiles(path(), IsOurs); }

}  // namespace engine_race::harness
