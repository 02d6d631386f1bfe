// The directory of a race: a guarded working directory with a note of what its store holds.
//
// A note beside the store says that a race made it and with which records. Only a directory that
// has a note, or is empty, is ever written to. Not synchronised.
#ifndef HARNESS_RACE_DIR_H_
#define HARNESS_RACE_DIR_H_

#include <optional>
#include <string>

#include "harness/race/phase.h"
#include "harness/system/work_dir.h"

namespace engine_race::harness {

class RaceDir {
 public:
  RaceDir() = default;
  RaceDir(const RaceDir&) = delete;
  RaceDir& operator=(const RaceDir&) = delete;
  // Removes the store and its directory if Prepare has chosen the directory.
  ~RaceDir();

  // Takes `path` and makes it when it is missing. An empty `path` makes a fresh directory below the
  // current one. Refuses a directory that holds anything but a race's store; *error says why.
  bool Prepare(const std::string& path, std::string* error);

  const std::string& path() const { return dir_.path(); }

  // Empties the directory for a new store and notes what it will hold.
  bool StartStore(const RaceConfig& config, std::string* error);
  // The configuration of the store here; only its threads, records, keys and seed are valid.
  std::optional<RaceConfig> ReadNote() const;
  // Removes the store and the note, and syncs, so that the next writer does not pay for it.
  void RemoveStore();

 private:
  WorkDir dir_;
  bool is_fresh_ = false;
};

}  // namespace engine_race::harness

#endif  // HARNESS_RACE_DIR_H_
