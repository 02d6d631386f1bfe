#include "engine_race/log/planned_files.h"

#include "engine_race/log/format.h"

namespace engine_race {

std::string NumberedName(const char* prefix, uint32_t number) {
  const std::string digits = std::to_string(number);
  return prefix + std::string(digits.size() < 2 ? 1 : 0, '0') + digits;
}

Status OpenPlanned(const PlannedFile& planned, io::Access access, mode_t file_mode) {
  const Status opened = io::File::Open(planned.dir_fd, planned.name, access, planned.caching,
                                       planned.file, file_mode);
  if (!opened.ok() && planned.title != planned.name) {
    return opened.Prefixed(planned.title + ": ");
  }
  planned.file->set_name(planned.title);
  return opened;
}

int DirectoryOf(const StoreFiles& files, const ValuePath& path) {
  return path.name.empty() ? files.directory.get() : path.directory.get();
}

std::vector<PlannedFile> PlanFiles(StoreFiles* files) {
  const Geometry& geometry = files->identity.geometry;
  const int dir_fd = files->directory.get();
  std::vector<PlannedFile> plan;
  const auto add = [&](const std::string& name, uint64_t size_bytes, io::Caching caching,
                       io::File* file) {
    plan.push_back({dir_fd, name, name, size_bytes, caching, file});
  };
  files->key_files.resize(geometry.file_count);
  for (uint32_t i = 0; i < geometry.file_count; ++i) {
    add(NumberedName(format::kKeyFilePrefix, i), geometry.key_file_bytes(), io::Caching::kDirect,
        &files->key_files[i]);
  }
  for (const ValuePath& path : files->values.paths()) {
    if (path.units != nullptr) continue;
    for (uint32_t i = 0; i < geometry.file_count; ++i) {
      const std::string name = NumberedName(format::kValueFilePrefix, i);
      plan.push_back({DirectoryOf(*files, path), name,
                      path.name.empty() ? name : name + " of " + path.name,
                      geometry.value_file_bytes(), io::Caching::kDirect,
                      files->values.mutable_file(path.first_file + i)});
    }
  }
  add(format::kStagingCountsName, geometry.staging_counts_bytes(), io::Caching::kBuffered,
      &files->counts);
  add(format::kStagingKeysName, geometry.staging_keys_bytes(), io::Caching::kBuffered,
      &files->staged_keys);
  add(format::kStagingValuesName, geometry.staging_values_bytes(), io::Caching::kBuffered,
      &files->staged_values);
  if (files->identity.has_rows) {
    add(format::kRowsName, geometry.rows_file_bytes(), io::Caching::kBuffered, &files->rows);
  }
  return plan;
}

}  // namespace engine_race
