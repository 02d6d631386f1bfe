// The files that a store of a given shape has.
//
// Thread safety: stateless functions over files that the caller owns.
#ifndef ENGINE_RACE_LOG_PLANNED_FILES_H_
#define ENGINE_RACE_LOG_PLANNED_FILES_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/io/file.h"

namespace engine_race {

struct StoreFiles;

// A file of the store and its least size. Staging is sparse, and never grows. Key and value files
// and the table of segments do.
struct PlannedFile {
  int dir_fd;
  std::string name;
  // Its name in errors.
  std::string title;
  uint64_t size_bytes;
  io::Caching caching;
  io::File* file;
  // SlotFiles opens it with its first segment, not the opening of the store.
  bool is_opened_late = false;
};

// "value_07"
std::string NumberedName(const char* prefix, uint32_t number);

// All files of fixed names. The results point into `files`.
std::vector<PlannedFile> PlanFiles(StoreFiles* files);

// `file_mode`: of a file that is made.
Status OpenPlanned(const PlannedFile& planned, io::Access access,
                   mode_t file_mode = io::kPrivateMode);

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_PLANNED_FILES_H_
