// The tables of the lookups: built once for each encoding, opened with the settings of a step, and
// warmed until all blocks are in memory.
//
// Files are built on all CPUs, and all steps with the same encoding share them. They stay in their
// directory; a file that exists is not built again.
//
// Building, opening and warming are not thread-safe. Answers follow the rules of L1Answer.
#ifndef HARNESS_EXPERIMENTS_L1_TABLES_H_
#define HARNESS_EXPERIMENTS_L1_TABLES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/base/sys.h"
#include "harness/lab/block_cache.h"
#include "harness/lab/block_shape.h"
#include "harness/lab/node_search.h"
#include "harness/lab/table.h"
#include "harness/lab/table_frames.h"
#include "harness/load/l1_lookups.h"
#include "harness/measure/claim_rounds.h"
#include "harness/measure/report.h"

namespace engine_race::harness {

// The steps from a cache of blocks to direct pointers, as settings of tables. Each contender of a
// comparison is one step.

// The levels between the root and a block of records that are reached by pointer.
enum class L1Reach : uint8_t { kNone, kExtents, kIndexes, kAll };

// Which comparison has a step. The ladder's steps, each of which adds one change to the step before
// it, are also the race's.
enum class L1Use : uint8_t { kSearches, kRace, kLadder };

struct L1Step {
  const char* name;
  L1Use use;
  lab::Encoding encoding;
  L1Reach reach;
  std::optional<lab::NodeSearch> search = {};  // none: the best one on this CPU
  lab::Protection protection = lab::Protection::kEpoch;

  // Whether this CPU has the step's instructions.
  bool available() const;
  lab::TableOptions options() const;
};

inline constexpr char kBaselineStep[] = "baseline";
inline constexpr char kEncodingStep[] = "tree";
inline constexpr char kExtentsStep[] = "extents by pointer";
inline constexpr char kIndexesStep[] = "indexes by pointer";
inline constexpr char kSwizzledStep[] = "swizzled";
inline constexpr char kCountedStep[] = "swizzled, counted";
inline constexpr char kRestartPointerStep[] = "baseline by pointer";

// All steps, or those of the race or of the ladder, in the order in which they build on one
// another.
std::vector<L1Step> L1Steps(L1Use least = L1Use::kSearches);
// The step of this name, which must exist.
const L1Step& L1StepNamed(std::string_view name);

class L1Files {
 public:
  // Opens the existing directory `dir`.
  static Status Open(const std::string& dir, const L1Records& records,
                     std::unique_ptr<L1Files>* files);

  // Builds the tables of this encoding that do not exist yet.
  Status Build(lab::Encoding encoding);
  // Of the encoding's tables, which are built.
  Status CountBlocks(lab::Encoding encoding, uint64_t* block_count) const;
  void Remove(lab::Encoding encoding);

  const L1Records& records() const { return records_; }
  int dir_fd() const { return dir_fd_.get(); }
  std::string NameOf(lab::Encoding encoding, uint32_t table) const;
  // The most that the files of one encoding take, on disk and in memory.
  static uint64_t BytesOf(const L1Records& records);

 private:
  explicit L1Files(const L1Records& records) : records_(records) {}
  Status BuildTable(lab::Encoding encoding, uint32_t table) const;

  const L1Records records_;
  UniqueFd dir_fd_;
  std::string dir_;
};

class L1Tables {
 public:
  // Opens built files and loads every block into memory. `files` outlives this.
  static Status Open(const L1Files& files, const L1Step& step, std::unique_ptr<L1Tables>* tables);

  // Answers by single lookups.
  MakeL1Answer Gets() const;
  // Answers by MultiGet of `batch` keys. The lookups come in groups of `batch` or a multiple of it.
  MakeL1Answer MultiGets(uint32_t batch) const;
  // Answers by a seek to the key and `next_count` calls of Next.
  MakeL1Answer Seeks(uint32_t next_count) const;

  const lab::Table& table(uint32_t index) const { return *tables_[index]; }
  // The memory of the frames and the cache.
  uint64_t memory_bytes() const;

 private:
  explicit L1Tables(const L1Records& records) : records_(records) {}
  Status OpenTables(const L1Files& files, const L1Step& step);

  const L1Records records_;
  // Each may use those above it.
  std::unique_ptr<lab::TableFrames> frames_;
  std::unique_ptr<lab::BlockCache> cache_;
  std::vector<std::unique_ptr<lab::Table>> tables_;
};

// Rounds of lookups. Each contender runs for a moment in each round, and every other round reverses
// their order. A claim is a ratio of two contenders of the same round.

struct L1Contender {
  std::string name;
  const L1Lookups* lookups;
  uint32_t thread_count;
  MakeL1Answer answer = nullptr;
  // Instead of `answer`, for contenders that have threads of their own.
  std::function<Status(const L1RunShape& shape, TimedPoint* point)> run = nullptr;
};

// `name` is the throughput of the fastest `above` over that of the fastest `below`, among those
// that run.
struct L1Ratio {
  std::string name;
  std::vector<std::string> above;
  std::vector<std::string> below;
};

struct L1RoundsShape {
  uint32_t round_count = 9;
  double seconds = 0.4;  // of each run
  double warming_seconds = 0.1;
  uint64_t seed = 1;
};

// The contender that makes a step with this many threads.
std::string L1Named(const std::string& step, uint32_t threads);
// The figure in which a contender's throughput is noted, in lookups a second.
std::string L1Figure(const std::string& contender);
// A row of a table of steps: the medians of the contender and, over it, of the baseline.
ResultRow L1StepRow(const ClaimRounds& rates, const std::string& step, const std::string& baseline,
                    uint32_t threads);

// kCorruption when a contender found a wrong payload. Ends early when the user interrupts.
Status RunL1Rounds(const L1RoundsShape& shape, const std::vector<L1Contender>& contenders,
                   const std::vector<L1Ratio>& ratios, ClaimRounds* rounds);

}  // namespace engine_race::harness

#endif  // HARNESS_EXPERIMENTS_L1_TABLES_H_
