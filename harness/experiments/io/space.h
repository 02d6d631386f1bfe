// The space of an experiment: directories of its own on one medium, and files of noise to read.
//
// Everything lies below fresh directories, one in each directory that the user named. The
// destructor removes them, and nothing else is touched.
#ifndef HARNESS_EXPERIMENTS_IO_SPACE_H_
#define HARNESS_EXPERIMENTS_IO_SPACE_H_

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/base/sys.h"
#include "harness/system/work_dir.h"

namespace engine_race::harness {

struct RawFile {
  UniqueFd fd;
  uint64_t size_bytes = 0;
  // False when the file system refuses O_DIRECT: then the figures are those of the page cache.
  bool direct = false;
  std::string name;
};

struct IoSpaceOptions {
  std::string medium;
  // The store's own directory is made in here.
  std::string parent;
  // Directories, best on devices of their own. When the user named none, directories in `parent`
  // stand in for them.
  std::vector<std::string> paths;
  uint32_t stand_in_count = 4;
  // The size of the noise on all paths together.
  uint64_t raw_bytes = 0;
};

class IoSpace {
 public:
  explicit IoSpace(IoSpaceOptions options) : options_(std::move(options)) {}
  IoSpace(const IoSpace&) = delete;
  IoSpace& operator=(const IoSpace&) = delete;

  // Makes the directories.
  Status Prepare();
  // One file on each path, written in full, opened direct for reading and writing. The first call
  // makes them; `*files` lives as long as the space.
  Status RawFiles(std::span<const RawFile>* files);

  const std::string& medium() const { return options_.medium; }
  const std::string& dir() const { return dir_; }
  const std::vector<std::string>& paths() const { return paths_; }
  bool has_stand_ins() const { return options_.paths.empty(); }

 private:
  // Makes a fresh directory in `parent` and gives its name.
  Status MakeIn(const std::string& parent, std::string* made);
  Status MakeRawFile(const std::string& path, uint64_t size_bytes, RawFile* file);

  const IoSpaceOptions options_;
  std::deque<ScratchDir> made_;
  std::string dir_;
  std::vector<std::string> paths_;
  std::vector<RawFile> files_;
};

}  // namespace engine_race::harness

#endif  // HARNESS_EXPERIMENTS_IO_SPACE_H_
