// The frame of a bench: claims that are measured in parts, each on stores of its own.
//
// A bench has settings as members, and says which parts it has. A part has its claims and what
// measures them. The frame makes its directories and measures the wanted parts one after another.
// It saves the JSON after each, removes what the part has left, and prints each claim beside its
// aim. A part that fails keeps no other from being measured.
#ifndef HARNESS_CLAIMS_BENCH_H_
#define HARNESS_CLAIMS_BENCH_H_

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engine_race/base/status.h"
#include "harness/measure/claim_rounds.h"
#include "harness/system/disk.h"

namespace engine_race::harness {

// Why parts beside RocksDB cannot be measured.
inline constexpr char kNoRocks[] = "built without RocksDB; scripts/setup.sh rocksdb installs it";

// A setting that stays as it is in a smoke run.
inline constexpr double kSame = -1;

struct Setting {
  // Its name among the settings in the JSON; empty: it is not there. The flag of one of 64 bits
  // whose name ends in _bytes takes sizes such as 8GB.
  std::string name;
  std::variant<uint32_t*, uint64_t*, double*, std::string*> value;
  double smoke = kSame;   // its value in a smoke run
  std::string flag = {};  // empty: no flag sets it
  std::string help = {};
  bool may_be_zero = false;

  // Sets a number.
  void Set(double number) const;
};

// The needs of a part: without them it is not begun.
struct PartNeeds {
  PartNeeds(uint64_t disk = 0, bool tmpfs = false, std::string why_none = {})  // NOLINT: implicit
      : disk_bytes(disk), wants_tmpfs(tmpfs), why_not(std::move(why_none)) {}
  uint64_t disk_bytes;
  bool wants_tmpfs;
  // Why it cannot be measured here; empty when it can. It is left out unless it was asked for.
  std::string why_not;
};
inline const PartNeeds kTmpfs(0, true);

struct BenchPart {
  const char* name;
  std::vector<ClaimTarget> claims;
  std::function<Status()> measure;
  PartNeeds needs = {};
};

// The order for a run.
struct BenchOrder {
  std::string parent = ".";        // a directory on the disk
  std::string tmpfs = "/dev/shm";  // one in memory
  std::string json_path = {};      // empty: the figures are not saved
  // Names of claims and of parts; empty: all that can be measured here.
  std::vector<std::string> only = {};
  // Everything once, tiny: a figure that cannot be measured is no error.
  bool is_smoke = false;
};

template <typename Value>
class Knob;

class Bench {
 public:
  // Both arguments outlive this.
  Bench(const char* name, const char* about) : name_(name), about_(about) {}
  virtual ~Bench() = default;

  const char* name() const { return name_; }
  const char* about() const { return about_; }
  // The claims of all parts.
  std::vector<ClaimTarget> targets();
  const std::vector<Setting>& settings() const { return settings_; }
  // The names that `only` of an order may have.
  std::vector<std::string> Choices();

  // Runs as ordered, prints and saves. Returns the exit code.
  int Run(const BenchOrder& order);

  // The steps of Run, apart. Measure is false when something has failed: errors() says what.
  // Refusal makes the directories and returns why the bench cannot run, or nothing.
  std::string Refusal(const BenchOrder& order);
  bool Measure();
  nlohmann::json ToJson();
  const std::vector<std::string>& errors() const { return errors_; }
  const ClaimRounds& rounds() const { return rounds_; }
  // Empty when a part begins and when the bench has ended.
  const std::string& dir() const { return dir_; }
  const std::string& tmpfs_dir() const { return tmpfs_dir_; }

 protected:
  // Settings that are members.
  using Count32 = Knob<uint32_t>;
  using Count = Knob<uint64_t>;
  using Real = Knob<double>;
  using Path = Knob<std::string>;
  template <typename Value>
  friend class Knob;

  // Their functions are called once the settings and the directories are as ordered.
  virtual std::vector<BenchPart> Parts() = 0;
  // Why the bench cannot run with its settings, before it has directories; or nothing.
  virtual std::string WhyNot() { return {}; }
  // The free space on tmpfs without which the parts that need it fail.
  virtual uint64_t TmpfsBytes() { return 0; }

  // A part is measured by a method of the bench.
  template <typename Derived>
  std::function<Status()> By(Status (Derived::*measure)()) {
    return [this, measure] { return (static_cast<Derived*>(this)->*measure)(); };
  }
  // Adds a setting that is no member of its own.
  void Set(Setting setting) { settings_.push_back(std::move(setting)); }
  bool is_smoke() const { return order_.is_smoke; }
  bool Wants(const std::string& claim) const { return wanted_.contains(claim); }
  const std::set<std::string>& wanted() const { return wanted_; }
  // A directory that goes with the bench, not with a part.
  const std::string& lasting_dir() const { return disk_->path(); }
  // An error that does not end a part. A smoke run has none of these.
  void Complain(const std::string& what) {
    if (!is_smoke()) errors_.push_back(what);
  }
  // A failure of something beside the engine; a smoke run goes on without its figures.
  Status Missed(const Status& status) const;
  // Adds the device's rates to the machine in the JSON, or why there are none.
  void NoteDevice(uint64_t bytes);
  // Has fio read blocks of 4 KiB at random from the value files of a dense store. Notes its rate
  // and the CPU time of a read in nanoseconds.
  Status NoteFioReads(const std::string& store_dir, uint64_t record_count,
                      const std::string& engine, double seconds, const std::string& rate_figure,
                      const std::string& cpu_figure);

  ClaimRounds rounds_{std::span<const ClaimTarget>()};
  // Notes about the measured parts, for the JSON.
  nlohmann::json notes_ = nlohmann::json::object();
  // Merged into the JSON.
  nlohmann::json more_json_ = nlohmann::json::object();
  std::vector<std::string> errors_;

 private:
  void ChooseWanted(const std::vector<BenchPart>& parts);
  bool IsWanted(const BenchPart& part) const;
  // Why the part cannot begin, or kOk.
  Status IsPossible(const BenchPart& part) const;
  // Makes empty directories for a part, or removes them with all that is there.
  void StartDirs() const;
  void RemoveDirs() const;

  const char* const name_;
  const char* const about_;
  std::vector<Setting> settings_;
  BenchOrder order_;
  std::optional<ScratchDir> disk_;
  std::optional<ScratchDir> tmpfs_;
  std::string dir_;
  std::string tmpfs_dir_;  // empty without tmpfs
  std::set<std::string> wanted_;
};

// A setting that is a member of its bench, and its value.
template <typename Value>
class Knob {
 public:
  Knob(Bench* bench, const char* name, Value value, double smoke = kSame, const char* flag = "",
       const char* help = "", bool may_be_zero = false)
      : value_(std::move(value)) {
    bench->Set({name, &value_, smoke, flag, help, may_be_zero});
  }
  Knob(const Knob&) = delete;
  Knob& operator=(const Knob&) = delete;

  operator const Value&() const { return value_; }  // NOLINT(google-explicit-constructor)
  const Value& operator()() const { return value_; }

 private:
  Value value_;
};

}  // namespace engine_race::harness

#endif  // HARNESS_CLAIMS_BENCH_H_
