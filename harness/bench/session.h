// The steps of `bin/bench --benchmarks=...` over one store of this engine, with what they print.
//
// Prints to standard output, errors to standard error.
#ifndef HARNESS_BENCH_SESSION_H_
#define HARNESS_BENCH_SESSION_H_

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine_race/base/function_ref.h"
#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "engine_race/base/sys.h"
#include "harness/bench/benchmark.h"
#include "harness/bench/report.h"
#include "harness/bench/timeline.h"
#include "harness/kv/kv_store.h"
#include "harness/system/disk.h"

namespace engine_race::harness {

// The directory of a bench's store: made when missing, and guarded against the loss of other files.
//
// A note beside the store says that a bench made it, and the same note lies in each of its value
// paths. Only directories that have this note, or are empty, are ever emptied. The note keeps
// canonical paths, so it means the same from every working directory. A bench holds the lock of the
// note from Empty on. A bench that is killed before it has written its note leaves it empty, which
// is taken for none.
class StoreDir {
 public:
  // Removes the store and its directory if Prepare has chosen the directory and Empty has taken it.
  ~StoreDir();

  // Takes `path` for new stores; an empty one makes a fresh directory below the current one.
  // `value_paths` are the directories of Options::paths. kInvalidArgument for a directory that
  // cannot be made, or that holds anything but a bench's store with the same value paths.
  Status Prepare(const std::string& path, const std::vector<std::string>& value_paths);
  // Takes the store that lies in `path`, also one that no bench has made. It cannot be emptied.
  // kInvalidArgument when there is none.
  Status Adopt(const std::string& path, const std::vector<std::string>& value_paths);

  // Removes the store and its values, for a new one. Fails, and nothing is removed, while another
  // bench holds the note or a process has the store open.
  Status Empty();

  // All canonical. An adopted store's value paths are those that its manifest names, unless the
  // caller has named them.
  const std::string& path() const { return path_; }
  const std::vector<std::string>& value_paths() const { return value_paths_; }
  // Of the store, on disk. Nothing when it has values on a raw device: those are no file's bytes.
  std::optional<uint64_t> AllocatedBytes() const;

 private:
  Status TakeNote();
  Status ClaimValuePaths() const;
  Status WriteNote();
  Status RemoveStore() const;
  // Removes the notes where no store lies, and gives up the lock.
  void DropNotes();

  WorkDir dir_{"bench-store."};
  std::string path_;
  std::string text_;  // of the note
  std::vector<std::string> value_paths_;
  bool is_fresh_ = false;
  // Open and locked since the first Empty.
  UniqueFd note_;
};

// An estimate made before a session begins: the most records that the store has space for at once
// when it runs these steps. Expected updates count, as if reclaim gave nothing back. Writes by time
// are counted as if by number.
uint64_t MostRecords(const BenchConfig& config, const std::vector<std::string>& steps);

// Empty, or why there is no room for `records` records with values of this size. In question are
// the file systems of the store's directory and of its value paths. A store that lies there makes
// room. Raw devices are not looked at: the engine refuses a small one.
std::string WhyNoRoomFor(uint64_t records, uint32_t record_value_bytes, const std::string& dir,
                         const std::vector<std::string>& value_paths);

struct SessionPlan {
  // Benchmarks, and "stats", "sync" and "compact".
  std::vector<std::string> steps;
  // Of all of them; `benchmark` and `on_second` are the session's.
  BenchConfig config;
  std::string db;
  Options options;
  bool use_existing_db = false;
  bool histogram = false;
  bool statistics = false;
  // Measure the device with fio first.
  bool measures_floor = false;
  // 0: no report file.
  uint32_t report_interval_seconds = 0;
  std::string report_file;
};

// The names that a step may have.
std::vector<std::string> BenchStepNames();

// The records that runs have left in a store that was empty at first.
class LiveRecords {
 public:
  // A run over more records is not tracked: its bits would take over half a gigabyte.
  static constexpr uint64_t kMostTracked = uint64_t{1} << 32;

  void Clear();
  void Note(const BenchConfig& config, const BenchResult& result);
  // Whether `count` has all records, see kMostTracked.
  bool is_known() const { return is_known_; }
  uint64_t count() const { return count_ + ycsb_count_; }

 private:
  std::vector<bool> live_;
  uint64_t count_ = 0;
  uint64_t ycsb_count_ = 0;
  bool is_known_ = true;
};

class BenchSession {
 public:
  explicit BenchSession(SessionPlan plan) : plan_(std::move(plan)) {}

  // Runs the steps until one fails. kIncomplete when the user has interrupted. kInvalidArgument
  // and kNotFound when the flags do not fit the directory; then nothing was done to it.
  Status Run();
  bool has_runs() const { return !runs_.empty(); }
  // Of the runs so far, in the shape of docs/bench.md, but for "config".
  nlohmann::json ToJson() const;

 private:
  Status Prepare();
  // With `syncs` each write is durable before it returns, whatever the options say.
  Status Open(bool syncs);
  Status Close();
  // Begins with an empty store unless it is empty already.
  Status StartFresh(bool syncs);
  // Opens the store anew if it is open in the other mode.
  Status SwitchTo(bool syncs);
  Status RunStep(const std::string& name);
  // Runs and measures one call of the store, by one thread.
  Status RunCall(const std::string& name, FunctionRef<Status()> call);
  // Runs ycsbload where its records are missing.
  Status LoadYcsb();
  // An implicit run has neither rate nor time limit.
  Status Measure(const std::string& benchmark, bool is_implicit);
  // The bytes of the store over those of its live records. Null where these are not known.
  std::optional<double> SpaceAmplification() const;
  // Keeps and prints the figures of a run.
  Status Note(const BenchResult& result, const RunCosts& costs);
  Status PrintHead() const;
  // The directory of the store and those of its values.
  std::vector<std::string> StoreDirs() const;

  SessionPlan plan_;
  StoreDir dir_;
  KvStoreKind kind_;
  std::unique_ptr<KvStore> store_;
  // Nothing was written since it was made.
  bool store_is_empty_ = false;
  bool store_syncs_ = false;  // how it was opened, see Open
  // ycsbload was ended by the time limit.
  bool ycsb_is_cut_off_ = false;
  LiveRecords live_;
  ReportFile report_file_;
  nlohmann::json description_;
  nlohmann::json machine_;
  nlohmann::json floor_;
  nlohmann::json runs_ = nlohmann::json::array();
  std::vector<uint64_t> bucket_fill_;
};

// Why this argument of db_bench, "--name" or "--name=value", cannot be had. Empty for any other
// argument.
std::string WhyNoFlag(std::string_view argument);

// Why this benchmark of db_bench cannot be run. Empty for any other name.
std::string WhyNoBenchmark(std::string_view name);

}  // namespace engine_race::harness

#endif  // HARNESS_BENCH_SESSION_H_
