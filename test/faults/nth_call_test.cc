// One fault at a time, everywhere: a small scenario is run with an error at its first, second, ...
// call that can fail with it, once and from then on, until a run meets none. After each run the
// fault is lifted and the store reopened, and it must hold what it acknowledged.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "engine_race/log/format.h"
#include "engine_race/store.h"
#include "test/faults/fault_plan.h"
#include "test/faults/memory_dir.h"
#include "test/faults/scenario.h"
#include "test/sweep.h"
#include "test/test_util.h"

namespace engine_race::test {
namespace {

// A fault and the store that meets it.
struct Sweep {
  Fault fault = Fault::kIoError;
  Repeat repeat = Repeat::kOnce;
  SyncMode sync_mode = SyncMode::kNone;
  // Another: its calls instead of the others.
  IoBackend reads = IoBackend::kPsync;
  // Only some of the calls of a life that is long enough for the journal to use its halves again.
  bool long_life = false;
  // The values lie on two paths.
  bool striped = false;
  // Records are staged by pwrite.
  bool written = false;
};

// One run of the scenario under one fault.
class FaultyRun {
 public:
  FaultyRun(const std::vector<Step>& steps, const Sweep& sweep, const std::string& dir,
            uint64_t nth)
      : steps_(steps),
        options_(ScenarioOptions(sweep.sync_mode)),
        dir_(dir),
        fault_(sweep.fault),
        has_checkpoints_(sweep.long_life),
        repeat_(sweep.repeat),
        plan_(dir, sweep.fault, nth, sweep.repeat) {
    if (sweep.reads != IoBackend::kPsync) plan_.OnlyReadsBy(sweep.reads);
    if (sweep.striped) options_ = StripedIn(dir, options_);
    options_.value_bytes = SweptValueBytes();
    if (sweep.written) options_.staging_mode = StagingMode::kWritten;
    options_.log = [this](LogLevel level, std::string_view message) {
      if (!plan_.fired()) return;
      if (level != LogLevel::kInfo) logged_.store(true);
      for (const std::string_view words :
           {"does not work here", "its reads are done again", "from now on", "reclaim: "}) {
        if (message.find(words) != std::string_view::npos) replaced_.store(true);
      }
    };
  }

  void Run(IoBackend io_backend) {
    {
      Options options = options_;
      options.io_backend = io_backend;
      const ScopedHook hook(&plan_);
      plan_.Arm();
      // All but the last, which closes the store.
      for (size_t i = 0; i + 1 < steps_.size(); ++i) RunStep(options, steps_[i]);
      plan_.Disarm();
      CheckGoesOn();
      store_.reset();
    }
    CheckErrorsShown();
    CheckAfterwards();
  }
  bool fired() const { return plan_.fired(); }
  const std::string& problem() const { return problem_; }
  std::string ToString() const { return plan_.ToString() + ": " + problem_; }

 private:
  void RunStep(const Options& options, const Step& step) {
    const bool fired_before = plan_.fired();
    const bool writes = step.kind == Step::Kind::kWrite || step.kind == Step::Kind::kDelete;
    if (step.kind == Step::Kind::kOpen) {
      Expect(Store::Open(AsRun(options), dir_, &store_), "Open");
    } else if (store_ != nullptr) {
      RunOnStore(step);
    }
    if (!fired_before && plan_.fired()) fired_in_ = step.kind;
    // Of the opening in which the fault fired.
    if (plan_.fired() && !closed_since_ && (writes || step.kind == Step::Kind::kSync)) {
      fired_in_last_write_ = writes && !fired_before;
    }
    closed_since_ = closed_since_ || (plan_.fired() && step.kind == Step::Kind::kClose);
  }

  void RunOnStore(const Step& step) {
    switch (step.kind) {
      case Step::Kind::kWrite:
        return Answered(
            step,
            store_->Write(KeyOf(step.key), ValueOf(step.key, step.version, options_.value_bytes)),
            "Write");
      case Step::Kind::kDelete:
        return Answered(step, store_->Delete(KeyOf(step.key)), "Delete");
      case Step::Kind::kSync:
        return Expect(store_->Sync(), "Sync");
      case Step::Kind::kRead:
        return ReadOne(step.key);
      case Step::Kind::kRange:
        return RangeAll();
      case Step::Kind::kClose:
        store_.reset();
        return;
      case Step::Kind::kOpen:
        return;
    }
  }

  static constexpr std::string_view kRead = "Read";
  static constexpr std::string_view kRange = "Range";

  void Answered(const Step& step, const Status& status, std::string_view what) {
    Expect(status, what);
    model_.Answered(step.key, step.version, status.ok());
  }

  // A failure must come from the fault, and its code from the fault's error.
  void Expect(const Status& status, std::string_view what) {
    if (status.ok()) return;
    error_shown_ = true;
    const bool reads = what == kRead || what == kRange;
    const bool may_fail = plan_.fired() && CodeFits(fault_, plan_.failed_a_flush(), status.code());
    // A full disk is no matter to reads. Nor do they, or an opening, wait for a shortage to pass.
    const bool is_foreign = (reads && fault_ == Fault::kDiskFull) ||
                            ((reads || what == "Open") && fault_ == Fault::kNoFiles &&
                             status.code() == Code::kOutOfMemory);
    if (may_fail && !is_foreign) return;
    problem_ += std::string(what) + " answered " + status.ToString() + "; ";
  }

  void ReadOne(uint64_t key) {
    std::string value;
    const Status status = store_->Read(KeyOf(key), &value);
    uint64_t version = 0;
    if (status.code() != Code::kNotFound) Expect(status, kRead);
    if (!status.ok() && status.code() != Code::kNotFound) return;
    if (status.ok() && !ParseValue(key, value, &version, options_.value_bytes))
      problem_ += "Read gave wrong bytes; ";
    if (!model_.Allows(key, version)) {
      problem_ += "Read gave version " + std::to_string(version) + "; ";
    }
  }

  // What was visited before a failure must be right as well.
  void RangeAll() {
    Contents seen;
    const Status status =
        store_->Range("", "", [&](std::string_view key_bytes, std::string_view value) {
          const uint64_t key = DecodeKey(key_bytes.data());
          uint64_t version = 0;
          if (!ParseValue(key, value, &version, options_.value_bytes))
            problem_ += "Range gave wrong bytes; ";
          if (!model_.Allows(key, version)) problem_ += "Range gave what was not written; ";
          seen[key] = version;
        });
    Expect(status, kRange);
    if (status.ok()) problem_ += model_.Check(seen);
  }

  // An error that no part of the engine may swallow must have been answered to somebody. A store
  // opens, for reading at least, without what only writes need (a full group's place in the log,
  // the journal) and says so in the log; the next write tries again. So does a checkpoint, on its
  // thread, that met a full disk. So does the index about a bucket whose key log it could not read:
  // it tries again, perhaps for the same call. And a back end that cannot read is replaced by the
  // next best. So is a queue that fails, whose reads are done again. A group that cannot be written
  // is answered to the next write; if the store is closed before one comes, the log has it.
  void CheckErrorsShown() {
    // By the index, in any step: its buckets are read behind the first one. A submission has no
    // file.
    const bool reads_keys = plan_.on_file(format::kKeyFilePrefix) ||
                            plan_.on_file(format::kStagingKeysName) ||
                            plan_.kind() == CallKind::kIoSubmit;
    const bool beside_calls = fired_in_ == Step::Kind::kOpen || fired_in_ == Step::Kind::kClose ||
                              fired_in_last_write_ ||
                              (has_checkpoints_ && fault_ == Fault::kDiskFull) ||
                              (fault_ == Fault::kIoError && reads_keys);
    const bool shown = error_shown_ || replaced_.load() || (logged_.load() && beside_calls);
    if (plan_.fired() && !shown && MustShow()) problem_ += "the error was swallowed; ";
  }

  // The index on disk is derived: no call fails without it. To write it, or to see whether it
  // holds, its keeper also reads logs and staging and flushes the directory.
  bool IsOfIndex() const {
    if (!IsPagedRun()) return false;
    const CallKind kind = plan_.kind();
    return plan_.on_file(format::kIndexFilePrefix) || kind == CallKind::kPread ||
           kind == CallKind::kFsync;
  }

  // Scans populate their buffers, and reads the frames, by madvise ahead of their use. If that call
  // fails, the kernel brings in each page when it is first used. A writer's name in the lock's file
  // is for the messages of refused openers alone. The map reader opens the files of the index so
  // that their maps are read ahead, and the index opens them itself.
  bool IsAdvice() const {
    if (repeat_ != Repeat::kOnce) return false;
    const bool reads = fired_in_ == Step::Kind::kRange || fired_in_ == Step::Kind::kRead;
    return (plan_.kind() == CallKind::kMadvise && reads) ||
           (plan_.kind() == CallKind::kPwrite && plan_.on_file(format::kLockName)) ||
           (plan_.kind() == CallKind::kOpenAt && plan_.on_file(format::kIndexFilePrefix));
  }

  // What finds the disk full is tried again: a write, and with the reserve of space all else. So is
  // a write that finds no descriptor for the file of a log.
  bool IsTriedAgain() const {
    const bool finds_no_descriptor =
        fault_ == Fault::kNoFiles && plan_.kind() == CallKind::kOpenAt &&
        fired_in_ != Step::Kind::kOpen &&
        (plan_.on_file(format::kKeyFilePrefix) || plan_.on_file(format::kValueFilePrefix));
    return repeat_ == Repeat::kOnce && (fault_ == Fault::kDiskFull || finds_no_descriptor);
  }

  bool MustShow() const {
    if (IsOfIndex() || IsAdvice() || IsTriedAgain()) return false;
    switch (plan_.kind()) {
      case CallKind::kPwrite:
      case CallKind::kMadvise:
      case CallKind::kFsync:
      case CallKind::kFdatasync:
      case CallKind::kRenameAt:
        return fault_ == Fault::kIoError || fault_ == Fault::kDiskFull;
      case CallKind::kPread:
      case CallKind::kOpenAt:
      case CallKind::kIoSubmit:
      case CallKind::kIoGetEvents:
      case CallKind::kUringEnter:
      case CallKind::kUringReap:
        return fault_ == Fault::kIoError || fault_ == Fault::kNoFiles;
      case CallKind::kMmap:
        // A scan may do with less memory, a store cannot do without its files.
        return fault_ == Fault::kNoMemory && plan_.on_file();
      default:
        return false;
    }
  }

  // What is open when the fault is lifted. A full disk that is full no more takes writes at once,
  // unless a flush has failed.
  void CheckGoesOn() {
    if (store_ == nullptr || fault_ != Fault::kDiskFull || !plan_.fired()) return;
    if (plan_.failed_a_flush()) return;
    const Step step = {Step::Kind::kWrite, 7, 999999};
    const Status written =
        store_->Write(KeyOf(step.key), ValueOf(step.key, step.version, options_.value_bytes));
    if (!written.ok()) problem_ += "Write with space again: " + written.ToString() + "; ";
    model_.Answered(step.key, step.version, true);
  }

  // The fault is gone: everything acknowledged is there, and the store takes writes again.
  void CheckAfterwards() {
    for (int opening = 0; opening < 2 && problem_.empty(); ++opening) {
      const Status opened = Store::Open(AsRun(options_), dir_, &store_);
      if (!opened.ok()) {
        problem_ += "reopening: " + opened.ToString();
        return;
      }
      const Contents contents = ReadContents(store_.get(), steps_, &problem_);
      problem_ += model_.Check(contents);
      model_.Settle(contents);
      for (uint64_t key = 0; key < 10; ++key) {
        const uint64_t version = 1000000 + key + 100 * static_cast<uint64_t>(opening);
        const Status written =
            store_->Write(KeyOf(key), ValueOf(key, version, options_.value_bytes));
        if (!written.ok()) problem_ += "Write afterwards: " + written.ToString() + "; ";
        model_.Answered(key, version, true);
      }
      store_.reset();
    }
  }

  const std::vector<Step>& steps_;
  Options options_;
  const std::string& dir_;
  const Fault fault_;
  const bool has_checkpoints_;
  const Repeat repeat_;
  FaultPlan plan_;
  std::unique_ptr<Store> store_;
  Model model_;
  bool error_shown_ = false;
  std::atomic<bool> logged_{false};
  std::atomic<bool> replaced_{false};
  Step::Kind fired_in_ = Step::Kind::kOpen;
  // The fault fired in the last write of its opening.
  bool fired_in_last_write_ = false;
  bool closed_since_ = false;
  std::string problem_;
};

class NthCallTest : public ::testing::TestWithParam<Sweep> {};

TEST_P(NthCallTest, EveryCallMayFail) {
  const Sweep& sweep = GetParam();
  const MemoryDir dir;
  // Runs with contexts to end, or with a journal to fill, are slow.
  const bool is_slow =
      kSanitized || sweep.reads == IoBackend::kLibaio || sweep.sync_mode != SyncMode::kNone;
  const Life life = sweep.long_life            ? Life::kLong
                    : is_slow || sweep.written ? Life::kShort
                                               : Life::kMedium;
  const std::vector<Step> steps = MakeScenario(Reads::kWith, life);
  // libaio's contexts that cannot be had are replaced, see FaultPlan::OnlyReadsBy.
  const IoBackend io_backend = sweep.reads == IoBackend::kLibaio ? IoBackend::kAuto : sweep.reads;
  const SweepSteps steps_of_calls(dir.stride() * (sweep.long_life ? Sized(37, 337) : Sized(1, 5)),
                                  10);
  constexpr uint64_t kMaxCalls = 5000;
  constexpr int kMaxProblems = 5;
  int problem_count = 0;
  for (uint64_t nth = steps_of_calls.first; problem_count < kMaxProblems;
       nth += steps_of_calls.stride) {
    ASSERT_LT(nth, kMaxCalls) << "the runs do not come to an end";
    const std::string store_dir = dir.Join("store");
    FaultyRun run(steps, sweep, store_dir, nth);
    run.Run(io_backend);
    std::filesystem::remove_all(store_dir);
    if (!run.problem().empty()) {
      ++problem_count;
      ADD_FAILURE() << run.ToString();
    }
    if (!run.fired()) {
      // Values that share blocks are read by few calls.
      EXPECT_TRUE(nth > 3 || SweptValueBytes() != kValueBytes) << "the fault has hardly met a call";
      return;
    }
  }
}

std::vector<Sweep> AllSweeps() {
  std::vector<Sweep> sweeps;
  for (const Repeat repeat : {Repeat::kOnce, Repeat::kFromThenOn}) {
    for (const Fault fault : {Fault::kIoError, Fault::kDiskFull, Fault::kInterrupt, Fault::kShort,
                              Fault::kNoMemory, Fault::kNoFiles}) {
      sweeps.push_back({fault, repeat, SyncMode::kNone});
    }
    for (const Fault fault :
         {Fault::kIoError, Fault::kInterrupt, Fault::kShort, Fault::kNoMemory, Fault::kBusy}) {
      sweeps.push_back({fault, repeat, SyncMode::kNone, IoBackend::kLibaio});
      sweeps.push_back({fault, repeat, SyncMode::kNone, IoBackend::kIoUring});
    }
    for (const Fault fault :
         {Fault::kIoError, Fault::kDiskFull, Fault::kShort, Fault::kNoMemory, Fault::kNoFiles}) {
      sweeps.push_back(
          {fault, repeat, SyncMode::kNone, IoBackend::kPsync, false, /*striped=*/true});
    }
    for (const Fault fault : {Fault::kIoError, Fault::kDiskFull, Fault::kShort, Fault::kNoMemory}) {
      Sweep sweep{fault, repeat, SyncMode::kNone};
      sweep.written = true;
      sweeps.push_back(sweep);
    }
    for (const Fault fault : {Fault::kIoError, Fault::kDiskFull, Fault::kInterrupt}) {
      sweeps.push_back({fault, repeat, SyncMode::kGroup});
    }
    sweeps.push_back({Fault::kIoError, repeat, SyncMode::kEveryWrite});
    for (const Fault fault : {Fault::kIoError, Fault::kDiskFull}) {
      sweeps.push_back({fault, repeat, SyncMode::kGroup, IoBackend::kPsync, true});
    }
  }
  return sweeps;
}

std::string SweepName(const ::testing::TestParamInfo<Sweep>& info) {
  const Sweep& sweep = info.param;
  std::string name = sweep.fault == Fault::kShort ? "Short" : FaultName(sweep.fault);
  name += sweep.repeat == Repeat::kOnce ? "Once" : "FromThenOn";
  if (sweep.reads == IoBackend::kLibaio) name += "Libaio";
  if (sweep.reads == IoBackend::kIoUring) name += "IoUring";
  if (sweep.sync_mode == SyncMode::kGroup) name += "GroupSync";
  if (sweep.sync_mode == SyncMode::kEveryWrite) name += "EveryWriteSync";
  if (sweep.long_life) name += "LongLife";
  if (sweep.striped) name += "Striped";
  if (sweep.written) name += "WrittenStaging";
  return name;
}

INSTANTIATE_TEST_SUITE_P(Faults, NthCallTest, ::testing::ValuesIn(AllSweeps()), SweepName);

}  // namespace
}  // namespace engine_race::test
