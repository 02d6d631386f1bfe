#include "harness/system/child_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

extern char** environ;

namespace engine_race::harness {

namespace {

// Globals without locks, because a signal handler can use nothing else.
std::atomic<bool> interrupted{false};
std::atomic<pid_t> running_child{0};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<pid_t>::is_always_lock_free);

void OnInterrupt(int) {
  const int interrupted_errno = errno;
  interrupted.store(true);
  const pid_t child = running_child.load();
  if (child > 0) kill(child, SIGTERM);
  errno = interrupted_errno;
}

// Keeps the signals that OnInterrupt handles away from this thread.
class InterruptsBlocked {
 public:
  InterruptsBlocked() {
    sigset_t signals;
    sigemptyset(&signals);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, signal);
    pthread_sigmask(SIG_BLOCK, &signals, &before_);
  }
  InterruptsBlocked(const InterruptsBlocked&) = delete;
  InterruptsBlocked& operator=(const InterruptsBlocked&) = delete;
  ~InterruptsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  const sigset_t& before() const { return before_; }

 private:
  sigset_t before_;
};

// Starts a child whose standard output is `output_fd`. Returns 0 or an errno. An interrupt that
// comes meanwhile reaches the child as well.
int Start(const std::vector<std::string>& args, int output_fd, pid_t* child) {
  const InterruptsBlocked blocked;
  const auto prepare = [&](posix_spawn_file_actions_t* actions, posix_spawnattr_t* attributes) {
    posix_spawn_file_actions_adddup2(actions, output_fd, STDOUT_FILENO);
    posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigmask(attributes, &blocked.before());
  };
  const int refused = Spawn(args, prepare, child);
  if (refused == 0) running_child = *child;
  return refused;
}

// Waits until there is something to read. False when the time is up.
bool WaitToRead(int fd, std::chrono::steady_clock::time_point end) {
  using std::chrono::milliseconds;
  constexpr milliseconds kMostWait = std::chrono::hours(1);
  for (;;) {
    const auto left =
        std::chrono::duration_cast<milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    pollfd waiting = {fd, POLLIN, 0};
    if (poll(&waiting, 1, static_cast<int>(std::min(left, kMostWait).count()) + 1) > 0) return true;
  }
}

// Reads to the end. False when the time is up; 0 seconds are no limit.
bool ReadAll(int fd, double timeout_seconds, std::string* output) {
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::nanoseconds>(
                                             std::chrono::duration<double>(timeout_seconds));
  char buffer[65536];
  for (;;) {
    if (timeout_seconds > 0 && !WaitToRead(fd, end)) return false;
    const ssize_t got = read(fd, buffer, sizeof(buffer));
    if (got > 0) {
      output->append(buffer, static_cast<size_t>(got));
    } else if (got == 0 || errno != EINTR) {
      return true;
    }
  }
}

int WaitFor(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

int Spawn(const std::vector<std::string>& args, const PrepareSpawnFn& prepare, pid_t* child) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  prepare(&actions, &attributes);
  std::vector<char*> argv;
  argv.reserve(args.size() + 1);
  for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  const int refused = posix_spawnp(child, argv[0], &actions, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return refused;
}

ChildResult RunChild(const std::vector<std::string>& args, double timeout_seconds) {
  ChildResult result;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    result.error = std::string("pipe: ") + std::strerror(errno);
    return result;
  }
  pid_t child = 0;
  const int refused = Start(args, ends[1], &child);
  close(ends[1]);
  if (refused != 0) {
    result.error = args[0] + ": " + std::strerror(refused);
  } else {
    // The handler may have come before it knew this child. A second SIGTERM does no harm.
    if (interrupted.load()) kill(child, SIGTERM);
    result.started = true;
    result.timed_out = !ReadAll(ends[0], timeout_seconds, &result.output);
    if (result.timed_out) kill(child, SIGKILL);
    result.exit_code = WaitFor(child);
    running_child = 0;
  }
  close(ends[0]);
  return result;
}

bool DieWithParent(pid_t parent) {
  return prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent;
}

std::string SelfPath() {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::string() : path.string();
}

void CatchInterrupts() {
  struct sigaction action = {};
  action.sa_handler = OnInterrupt;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  // nohup has it ignored.
  struct sigaction before = {};
  sigaction(SIGHUP, nullptr, &before);
  if (before.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);
}

bool Interrupted() { return interrupted.load(); }

Status InterruptedStatus() { return Status(Code::kIncomplete, "interrupted"); }

namespace {

constexpr char kFlag[] = "--child";
constexpr char kError[] = "error";
// The exit code of a child whose order is wrong or whose parent has ended.
constexpr int kNotRun = 2;

Status FailureOf(const std::string& work, const ChildResult& child, const std::string& what) {
  if (Interrupted()) return InterruptedStatus();
  if (!child.started) return Status::IOError(child.error);
  return Status::IOError("the process of " + work + " " + what + ", code " +
                         std::to_string(child.exit_code));
}

}  // namespace

void PrintAnswer(const nlohmann::json& answer) {
  const auto any_bytes = nlohmann::json::error_handler_t::replace;
  std::puts(answer.dump(-1, ' ', false, any_bytes).c_str());
  std::fflush(stdout);
}

std::optional<nlohmann::json> ParseAnswer(const std::string& text) {
  // Libraries may have printed lines before the answer.
  const size_t end = text.find_last_not_of('\n');
  const size_t begin = end == std::string::npos ? 0 : text.rfind('\n', end) + 1;
  nlohmann::json answer =
      nlohmann::json::parse(text.substr(begin), nullptr, /*allow_exceptions=*/false);
  if (!answer.is_object()) return std::nullopt;
  return answer;
}

std::vector<std::string> ChildCommand(const std::string& work, const nlohmann::json& order,
                                      int parent) {
  return {SelfPath(), kFlag, work, order.dump(), std::to_string(parent)};
}

Status RunOwnChild(const std::string& work, const nlohmann::json& order, nlohmann::json* answer,
                   double timeout_seconds) {
  const ChildResult child = RunChild(ChildCommand(work, order, ::getpid()), timeout_seconds);
  const std::optional<nlohmann::json> printed = ParseAnswer(child.output);
  *answer = printed.value_or(nlohmann::json::object());
  if (child.timed_out) return FailureOf(work, child, "had not ended in time");
  if (!printed) return FailureOf(work, child, "ended without an answer");
  const std::string error = answer->value(kError, "");
  if (!error.empty()) return Status::IOError(work + ": " + error);
  return child.exit_code == 0 ? Status::Ok() : FailureOf(work, child, "failed");
}

Status RunKilledChild(const std::string& work, const nlohmann::json& order) {
  const ChildResult child = RunChild(ChildCommand(work, order, ::getpid()));
  if (child.started && child.exit_code == 128 + SIGKILL) return Status::Ok();
  return FailureOf(work, child, "was not killed: " + child.output);
}

std::optional<int> ChildMain(int argc, char** argv, const ChildWorks& works) {
  if (argc != 5 || std::strcmp(argv[1], kFlag) != 0) return std::nullopt;
  const int parent = std::atoi(argv[4]);
  if (parent != 0 && !DieWithParent(parent)) return kNotRun;
  nlohmann::json answer = nlohmann::json::object();
  const auto fail = [&answer](const std::string& error, int code) {
    answer[kError] = error;
    PrintAnswer(answer);
    return code;
  };
  const auto work = works.find(argv[2]);
  if (work == works.end()) return fail(std::string("no work is named ") + argv[2], kNotRun);
  try {
    const Status status = work->second(nlohmann::json::parse(argv[3]), &answer);
    if (!status.ok()) return fail(status.ToString(), 1);
  } catch (const std::exception& error) {
    return fail(error.what(), kNotRun);
  }
  PrintAnswer(answer);
  return answer.value(kError, "").empty() ? 0 : 1;
}

}  // namespace engine_race::harness
