#include "harness/numa/instance_process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

extern char** environ;

namespace engine_race::harness {

namespace {

// Above the descriptors that the process finds its ends under, so that moving one end there cannot
// close the other.
constexpr int kFirstFreeFd = 16;

Status MakePipe(UniqueFd* in, UniqueFd* out) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Status::FromErrno("pipe", errno);
  const UniqueFd low_in(ends[0]);
  const UniqueFd low_out(ends[1]);
  *in = UniqueFd(::fcntl(low_in.get(), F_DUPFD_CLOEXEC, kFirstFreeFd));
  *out = UniqueFd(::fcntl(low_out.get(), F_DUPFD_CLOEXEC, kFirstFreeFd));
  return in->valid() && out->valid() ? Status::Ok() : Status::FromErrno("fcntl", errno);
}

class SpawnActions {
 public:
  SpawnActions() {
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawnattr_init(&attributes);
  }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;
  ~SpawnActions() {
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
  }

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
};

}  // namespace

InstanceProcess::~InstanceProcess() {
  Kill();
  if (pid_ > 0) Wait();
}

Status InstanceProcess::Start(const std::vector<std::string>& args, const std::string& log_path) {
  UniqueFd its_in;
  UniqueFd its_out;
  ENGINE_RACE_RETURN_IF_ERROR(MakePipe(&its_in, &answers_));
  ENGINE_RACE_RETURN_IF_ERROR(MakePipe(&gate_, &its_out));
  ::fcntl(gate_.get(), F_SETFL, O_NONBLOCK);
  SpawnActions spawn;
  ::posix_spawn_file_actions_addopen(&spawn.actions, STDOUT_FILENO, log_path.c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::posix_spawn_file_actions_adddup2(&spawn.actions, STDOUT_FILENO, STDERR_FILENO);
  ::posix_spawn_file_actions_adddup2(&spawn.actions, its_in.get(), kGateInFd);
  ::posix_spawn_file_actions_adddup2(&spawn.actions, its_out.get(), kGateOutFd);
  // The launcher ignores this signal, which its children would inherit.
  sigset_t defaults;
  ::sigemptyset(&defaults);
  ::sigaddset(&defaults, SIGPIPE);
  ::posix_spawnattr_setsigdefault(&spawn.attributes, &defaults);
  ::posix_spawnattr_setflags(&spawn.attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
  ::posix_spawnattr_setpgroup(&spawn.attributes, 0);
  std::vector<char*> argv;
  argv.reserve(args.size() + 1);
  for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  const int refused =
      ::posix_spawnp(&pid_, argv[0], &spawn.actions, &spawn.attributes, argv.data(), environ);
  if (refused == 0) return Status::Ok();
  pid_ = 0;
  return Status::FromErrno("start " + args[0], refused);
}

bool InstanceProcess::ReadGate() {
  char buffer[4096];
  for (;;) {
    const ssize_t got = ::read(gate_.get(), buffer, sizeof(buffer));
    if (got > 0) {
      lines_.append(buffer, static_cast<size_t>(got));
    } else if (got == 0) {
      return lines_.find('\n') != std::string::npos;
    } else if (errno != EINTR) {
      return errno == EAGAIN;
    }
  }
}

std::optional<std::string> InstanceProcess::TakeLine() {
  const size_t end = lines_.find('\n');
  if (end == std::string::npos) return std::nullopt;
  std::string line = lines_.substr(0, end);
  lines_.erase(0, end + 1);
  return line;
}

bool InstanceProcess::Answer() { return ::write(answers_.get(), "go\n", 3) == 3; }

void InstanceProcess::Stop() {
  answers_.Reset();
  if (pid_ > 0 && !exit_code_) ::kill(-pid_, SIGTERM);
}

void InstanceProcess::Kill() {
  if (pid_ > 0 && !exit_code_) ::kill(-pid_, SIGKILL);
}

int InstanceProcess::Wait() {
  while (!exit_code_ && !Reap(/*wait_options=*/0)) {
    if (errno != EINTR) return -1;
  }
  return *exit_code_;
}

bool InstanceProcess::IsRunning() { return pid_ > 0 && !exit_code_ && !Reap(WNOHANG); }

bool InstanceProcess::Reap(int wait_options) {
  siginfo_t ended = {};
  if (::waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOWAIT | wait_options) != 0 ||
      ended.si_pid != pid_) {
    return false;
  }
  // Ends the children that it left behind. Its group's number stays taken until waitpid.
  ::kill(-pid_, SIGKILL);
  int status = 0;
  if (::waitpid(pid_, &status, 0) != pid_) return false;
  exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return true;
}

namespace fs = std::filesystem;

InstanceDirs::~InstanceDirs() {
  locks_.clear();
  std::error_code ignored;
  // Refused for a directory that is not empty.
  for (auto dir = made_.rbegin(); dir != made_.rend(); ++dir) fs::remove(*dir, ignored);
}

Status InstanceDirs::Take(const std::string& dir) {
  std::error_code error;
  std::vector<fs::path> missing;
  for (fs::path path = dir; !fs::exists(path, error) && path.has_relative_path();
       path = path.parent_path()) {
    missing.push_back(path);
  }
  for (auto path = missing.rbegin(); path != missing.rend(); ++path) {
    const bool made = fs::create_directory(*path, error);
    if (error) return Status::IOError(path->string() + ": " + error.message());
    if (made) made_.push_back(path->string());
  }
  UniqueFd fd;
  ENGINE_RACE_RETURN_IF_ERROR(sys::OpenAt(AT_FDCWD, dir, O_RDONLY | O_DIRECTORY, /*mode=*/0, &fd));
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return Status::InvalidArgument(dir + " is in use by another race");
  }
  locks_.push_back(std::move(fd));
  return Status::Ok();
}

}  // namespace engine_race::harness
