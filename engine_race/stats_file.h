// The file through which a store offers its stats to other processes.
//
// The store makes the file when it opens, writes it again and again in place, and removes it when
// it closes. It holds the file's exclusive lock, which the kernel drops when the process ends in
// any way. So a reader can tell a file that a killed store has left behind. The store never waits
// for readers and reads nothing that they write.
//
// A file of that name which is not a stats file stays as it is, and the store offers no stats.
//
// The content is text: a line with the size and the checksum of the rest, then a name and its value
// a line. A reader ignores names that it does not know. The file is written with pwrite, so a full
// disk is an error code. Its space is reserved when it is made. A reader that sees a write halfway
// finds that the checksum fails, and reads again.
#ifndef ENGINE_RACE_STATS_FILE_H_
#define ENGINE_RACE_STATS_FILE_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "engine_race/base/status.h"
#include "engine_race/base/sys.h"
#include "engine_race/store_stats.h"

namespace engine_race {

inline constexpr char kStatsFileName[] = "manifest_stats";
inline constexpr char kStatsTempName[] = "manifest_stats.new";

struct PublishedStats {
  StoreStats stats;
  StoreLatencies latencies;
  uint64_t sequence = 0;  // 1 for what the store wrote first
  uint64_t interval_ms = 0;
  uint64_t process_id = 0;   // as the store's process sees itself
  uint64_t taken_at_ms = 0;  // of BootTimeMs, see base/clock.h
};

// The content of the file. Decode: kCorruption for a text that is not whole, kNotSupported for one
// of another format version. *published is then anything.
std::string EncodeStats(const PublishedStats& published);
Status DecodeStats(std::string_view text, PublishedStats* published);

// The store's side. One thread at a time.
class StatsFile {
 public:
  // Makes the file below the open directory, with `first` in it, in the place of an older stats
  // file. kInvalidArgument, and nothing is changed, where something else has the name.
  static Status Create(UniqueFd directory, mode_t file_mode, const PublishedStats& first,
                       StatsFile* file);
  StatsFile() = default;
  StatsFile(StatsFile&&) noexcept = default;
  StatsFile& operator=(StatsFile&&) noexcept = default;
  // Removes the file, unless another one has taken its name. Ends the lock, also for children that
  // were forked meanwhile.
  ~StatsFile();

  Status Write(const PublishedStats& published);

 private:
  UniqueFd directory_;
  UniqueFd file_;
};

// The reader's side. One thread at a time.
class StatsReader {
 public:
  // kNotFound: there is no store. kNotSupported: a process has the store open and offers no stats.
  // kIncomplete: no process has it open. Other codes: the file cannot be read. The messages of
  // kNotFound, kNotSupported and kIncomplete are meant for the user.
  static Status Open(const std::string& dir, StatsReader* reader);

  // The newest stats. *has_ended says whether they are the last ones. They are if the store had
  // been closed, its process had ended, or the file had lost its name, before they were read.
  // kIncomplete: the file has a write that was cut short. With *has_ended it stays so; without, a
  // later Read may succeed. kNotSupported: they are of another format version.
  Status Read(PublishedStats* published, bool* has_ended) const;

 private:
  Status HasEnded(bool* has_ended) const;
  Status ReadOnce(PublishedStats* published) const;

  UniqueFd directory_;
  UniqueFd file_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_STATS_FILE_H_
