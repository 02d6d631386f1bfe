#include "harness/crash/trial.h"
#include "engine_race/log/format.h"
#include "harness/data/mix.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>

namespace engine_race::crash {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kMaxStoreCycles = 20;
constexpr uint32_t kMaxReaders = 4;
constexpr uint32_t kMaxRecoveryKills = 4;
constexpr std::chrono::microseconds kPoll{50};
// Sleeps are coarser than this; shorter waits spin.
constexpr std::chrono::microseconds kShortestSleep{200};
constexpr std::chrono::seconds kHang{120};
// The writing time of a cycle that ends by a kill.
constexpr uint32_t kForeverMs = 60 * 1000;

// waitpid fails for a child of this process only when this file has a bug.
pid_t Wait(pid_t pid, int options, int* status) {
  pid_t result;
  do {
    result = ::waitpid(pid, status, options);
  } while (result < 0 && errno == EINTR);
  if (result < 0) throw std::system_error(errno, std::generic_category(), "waitpid");
  return result;
}

// 0: there is no such file.
uint64_t InodeOf(const std::string& path) {
  struct stat file;
  return ::stat(path.c_str(), &file) == 0 ? file.st_ino : 0;
}

void Pause(uint64_t us) {
  const auto end = Clock::now() + std::chrono::microseconds(us);
  if (std::chrono::microseconds(us) >= kShortestSleep) {
    std::this_thread::sleep_until(end - kPoll);
  }
  while (Clock::now() < end) {
  }
}

}  // namespace

CrashTrial::CrashTrial(const TrialConfig& config)
    : config_(config), oracle_(config.max_key_count, config.thread_count) {}

void CrashTrial::StartStore() {
  RemoveStore();
  Rng rng(harness::Mix64(~config_.seed + summary_.store_count));
  shape_ = MakeShape(rng, config_.keys, config_.geometry, config_.index, config_.max_key_count);
  if (config_.value_bytes != 0) shape_.geometry.value_bytes = config_.value_bytes;
  oracle_.Reset(shape_);
  store_cycle_count_ = 0;
  store_dir_ = config_.dir + "/store_" + std::to_string(summary_.store_count++);
  // An earlier trial may have left a store there.
  std::filesystem::remove_all(store_dir_);
}

void CrashTrial::RemoveStore() {
  if (store_dir_.empty()) return;
  summary_.acknowledged_count += oracle_.AcknowledgedCount();
  std::filesystem::remove_all(store_dir_);
  store_dir_.clear();
}

ChildPlan CrashTrial::DrawPlan() {
  ChildPlan plan;
  plan.dir = store_dir_;
  plan.options = DrawOptions(shape_, rng_);
  plan.seed = rng_();
  return plan;
}

CrashTrial::KillPlan CrashTrial::DrawWriterKill(ChildPlan* plan) {
  plan->writer_count = Chance(rng_, 0.7)
                           ? config_.thread_count
                           : static_cast<uint32_t>(Uniform(rng_, 1, config_.thread_count));
  plan->reader_count = static_cast<uint32_t>(Uniform(rng_, 1, kMaxReaders));
  plan->pace_us = Chance(rng_, 0.5) ? 0 : static_cast<uint32_t>(LogUniform(rng_, 50, 2000));
  plan->sync_pace_us = Chance(rng_, 0.6) ? 0 : static_cast<uint32_t>(LogUniform(rng_, 50, 50000));
  plan->index_first = Chance(rng_, 0.4);
  plan->write_ms = kForeverMs;
  const uint64_t max_record_count = config_.max_store_bytes / shape_.geometry.value_bytes;
  const uint64_t written_count = oracle_.AcknowledgedCount();
  plan->max_record_count = max_record_count - std::min(max_record_count, written_count);

  const uint64_t draw = Uniform(rng_, 0, 99);
  if (draw < 60) {
    const uint64_t ms = Uniform(rng_, config_.min_kill_ms, config_.max_kill_ms);
    return {true, Phase::kWrite, ms * 1000 + Uniform(rng_, 0, 999), Chance(rng_, 0.25)};
  }
  if (draw < 70) return {true, Phase::kOpen, LogUniform(rng_, 30, 30000), false};
  // In these cycles the writer reaches its reads and its end before the kill.
  plan->write_ms =
      static_cast<uint32_t>(Uniform(rng_, config_.min_kill_ms, config_.max_kill_ms)) / 2;
  if (draw < 82) {
    plan->index_first = false;
    return {true, Phase::kFirstRead, LogUniform(rng_, 30, 50000), false};
  }
  if (draw < 94) return {true, Phase::kClose, LogUniform(rng_, 1, 2000), false};
  return {};
}

CrashTrial::KillPlan CrashTrial::DrawRecoveryKill() {
  const uint64_t draw = Uniform(rng_, 0, 99);
  if (draw < 45) return {true, Phase::kOpen, LogUniform(rng_, 30, 30000), false};
  if (draw < 70) return {true, Phase::kFirstRead, LogUniform(rng_, 30, 50000), false};
  if (draw < 85) return {true, Phase::kVerify, LogUniform(rng_, 30, 100000), false};
  return {true, Phase::kClose, LogUniform(rng_, 1, 2000), false};
}

bool CrashTrial::RunCycle(uint32_t cycle) {
  const bool large =
      oracle_.AcknowledgedCount() * shape_.geometry.value_bytes > config_.max_store_bytes / 2;
  if (store_dir_.empty() || store_cycle_count_ >= kMaxStoreCycles || large) StartStore();
  // A cycle's draws depend only on the seed and its number, not on the cycles before it.
  rng_.seed(harness::Mix64(config_.seed + cycle));
  ++store_cycle_count_;
  report_.Clear();
  oracle_.StartCycle();

  ChildPlan plan = DrawPlan();
  const KillPlan kill = DrawWriterKill(&plan);
  RunChild("writer", RunWriter, plan, kill, &summary_.writer_kill_counts);
  if (Chance(rng_, 0.4)) {
    const uint64_t recovery_count = Uniform(rng_, 1, kMaxRecoveryKills);
    for (uint64_t i = 0; i < recovery_count && report_.violation_count() == 0; ++i) {
      RunChild("recovery", RunVerifier, DrawPlan(), DrawRecoveryKill(),
               &summary_.recovery_kill_counts);
    }
  }
  if (report_.violation_count() == 0) {
    RunChild("verification", RunVerifier, DrawPlan(), KillPlan(), nullptr);
  }
  if (report_.violation_count() == 0 && !oracle_.Settle()) {
    report_.AddViolation("the verification ended without having looked at every key");
  }
  ++summary_.cycle_count;
  summary_.checked_count = report_.checked_count();
  if (report_.violation_count() == 0) return true;
  summary_.violation_count = report_.violation_count();
  summary_.broken_dir = store_dir_;
  PrintBroken(cycle);
  return false;
}

void CrashTrial::Finish() {
  if (summary_.broken_dir.empty()) {
    RemoveStore();
  } else {
    summary_.acknowledged_count += oracle_.AcknowledgedCount();
  }
}

pid_t CrashTrial::Fork(ChildMain child_main, const ChildPlan& plan) {
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid > 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(2);
  const int code = child_main(plan, Trial{shape_, oracle_, report_});
  std::fflush(nullptr);
  ::_exit(code);
}

// True once the child is in `phase` or further; false when it has ended before that, with
// *wait_status set.
bool CrashTrial::AwaitPhase(pid_t pid, Phase phase, int* wait_status) {
  const auto deadline = Clock::now() + kHang;
  while (report_.phase() < phase) {
    if (Wait(pid, WNOHANG, wait_status) == pid) return false;
    if (Clock::now() > deadline) {
      report_.AddViolation("a child hangs in " + std::string(PhaseName(report_.phase())));
      ::kill(pid, SIGKILL);
      Wait(pid, 0, wait_status);
      return false;
    }
    // A close would end before a sleeper wakes up.
    if (phase != Phase::kClose) std::this_thread::sleep_for(kPoll);
  }
  return true;
}

void CrashTrial::RunChild(const char* role, ChildMain child_main, const ChildPlan& plan,
                          const KillPlan& kill, std::array<uint32_t, kPhaseCount>* kill_counts) {
  last_role_ = role;
  const uint64_t root_inode = InodeOf(store_dir_ + "/" + format::kIndexRootName);
  report_.SetPhase(Phase::kStart);
  const pid_t pid = Fork(child_main, plan);
  int wait_status = 0;
  if (AwaitPhase(pid, kill.kill ? kill.phase : Phase::kDone, &wait_status)) {
    if (kill.kill) {
      Pause(kill.delay_us / 2);
      if (kill.second_opener) TrySecondOpener(pid);
      Pause(kill.delay_us - kill.delay_us / 2);
      ::kill(pid, SIGKILL);
    }
    Wait(pid, 0, &wait_status);
  }
  const Phase phase = report_.phase();
  const bool killed = WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL;
  if (killed && kill.kill) {
    ++(*kill_counts)[static_cast<size_t>(phase)];
    const bool has_new_root = InodeOf(store_dir_ + "/" + format::kIndexRootName) != root_inode;
    if (phase < Phase::kClose && has_new_root) ++summary_.killed_root_writer_count;
  } else if (WIFSIGNALED(wait_status) && !(killed && report_.violation_count() > 0)) {
    report_.AddViolation(std::string("the ") + role + " died of signal " +
                         ::strsignal(WTERMSIG(wait_status)) + " in " + PhaseName(phase));
  } else if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0) {
    ++summary_.clean_exit_count;
  } else if (report_.violation_count() == 0) {
    report_.AddViolation(std::string("the ") + role + " exited with " +
                         std::to_string(WEXITSTATUS(wait_status)) + " in " + PhaseName(phase));
  }
}

// The phase stays the first opener's: the second one sets none.
void CrashTrial::TrySecondOpener(pid_t first) {
  siginfo_t ended = {};
  if (::waitid(P_PID, static_cast<id_t>(first), &ended, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      ended.si_pid == first) {
    return;
  }
  ++summary_.second_opener_count;
  const pid_t pid = Fork(RunSecondOpener, DrawPlan());
  int wait_status = 0;
  Wait(pid, 0, &wait_status);
  if (wait_status != 0 && report_.violation_count() == 0) {
    report_.AddViolation("the second opener ended with status " + std::to_string(wait_status));
  }
}

void CrashTrial::PrintBroken(uint32_t cycle) const {
  std::fprintf(
      stderr, "VIOLATION in cycle %u (seed %llu, cycle %u of its store), found by the %s\n", cycle,
      static_cast<unsigned long long>(config_.seed), store_cycle_count_, last_role_.c_str());
  std::fprintf(stderr, "  store kept: %s\n  shape: %s\n", store_dir_.c_str(),
               shape_.ToString().c_str());
  for (const std::string& line : report_.Violations()) {
    std::fprintf(stderr, "  %s\n", line.c_str());
  }
  std::fprintf(stderr, "  what the engine said in this cycle:\n");
  for (const std::string& line : report_.LogLines()) {
    std::fprintf(stderr, "    %s\n", line.c_str());
  }
}

}  // namespace engine_race::crash
