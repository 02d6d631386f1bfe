#include "engine_race/log/planned_files.h"

#include "engine_race/log/format.h"
#include "engine_race/log/segment_format.h"
#include "engine_race/log/store_files.h"

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

std::vector<PlannedFile> PlanFiles(StoreFiles* files) {
  const Geometry& geometry = files->identity.geometry;
  const int dir_fd = files->directory.get();
  std::vector<PlannedFile> plan;
  const auto add = [&](const std::string& name, uint64_t size_bytes, io::Caching caching,
                       io::File* file) {
    plan.push_back({dir_fd, name, name, size_bytes, caching, file});
  };
  SlotFiles& slots = files->slots;
  for (uint32_t i = 0; i < slots.file_count(); ++i) {
    for (const PlannedFile& planned : slots.plan(i)) plan.push_back(planned);
  }
  add(format::kSegmentTableName, 0, io::Caching::kBuffered, slots.mutable_table_file());
  add(format::kStagingCountsName, geometry.staging_counts_bytes(), io::Caching::kBuffered,
      &files->counts);
  add(format::kStagingKeysName, geometry.staging_keys_bytes(), io::Caching::kBuffered,
      &files->staged_keys);
  // It grows as the extra places are used.
  add(format::kStagingValuesName, geometry.staging_base_values_bytes(), io::Caching::kBuffered,
      &files->staged_values);
  if (files->identity.has_rows) {
    add(format::kRowsName, geometry.RowsOffset(0), io::Caching::kBuffered, &files->rows);
  }
  return plan;
}

}  // namespace engine_race
