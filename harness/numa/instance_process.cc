#include "harness/numa/instance_process.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "engine_race/base/memory.h"
#include "engine_race/base/sys.h"
#include "engine_race/numa/topology.h"
#include "harness/measure/table.h"
#include "harness/numa/process_memory.h"
#include "harness/system/child_process.h"

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
  const auto prepare = [&](posix_spawn_file_actions_t* actions, posix_spawnattr_t* attributes) {
    ::posix_spawn_file_actions_addopen(actions, STDOUT_FILENO, log_path.c_str(),
                                       O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::posix_spawn_file_actions_adddup2(actions, STDOUT_FILENO, STDERR_FILENO);
    ::posix_spawn_file_actions_adddup2(actions, its_in.get(), kGateInFd);
    ::posix_spawn_file_actions_adddup2(actions, its_out.get(), kGateOutFd);
    // The launcher ignores this signal, which its children would inherit.
    sigset_t defaults;
    ::sigemptyset(&defaults);
    ::sigaddset(&defaults, SIGPIPE);
    ::posix_spawnattr_setsigdefault(attributes, &defaults);
    ::posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
    ::posix_spawnattr_setpgroup(attributes, 0);
  };
  const int refused = Spawn(args, prepare, &pid_);
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

namespace {

constexpr size_t kCopyBytes = size_t{1} << 20;
// A page that is being read by another process cannot be dropped, but soon after it can.
constexpr int kPlaceTries = 3;

Status OpenFile(const std::string& path, UniqueFd* fd) {
  return sys::OpenAt(AT_FDCWD, path, O_RDONLY, /*mode=*/0, fd);
}

// Bytes, not blocks: a reflink would share the blocks, and a kernel may make one of a copy that it
// is asked to make itself.
Status CopyBytes(int from, int to) {
  std::vector<char> buffer(kCopyBytes);
  uint64_t offset = 0;
  for (size_t got = kCopyBytes; got == kCopyBytes; offset += got) {
    ENGINE_RACE_RETURN_IF_ERROR(sys::Pread(from, buffer.data(), kCopyBytes, offset, &got));
    ENGINE_RACE_RETURN_IF_ERROR(sys::PwriteFull(to, buffer.data(), got, offset));
  }
  return sys::Fsync(to);
}

Status CheckNewInode(int source, int target, const std::string& path) {
  bool same = false;
  ENGINE_RACE_RETURN_IF_ERROR(sys::SameFile(source, target, &same));
  bool regular = false;
  uint64_t link_count = 0;
  ENGINE_RACE_RETURN_IF_ERROR(sys::RegularFile(target, &regular, &link_count));
  if (!same && regular && link_count == 1) return Status::Ok();
  return Status::InvalidArgument(path + " is no file of its own: it shares an inode");
}

Status WriteCopy(int from, mode_t mode, int to, const std::string& path) {
  ENGINE_RACE_RETURN_IF_ERROR(CopyBytes(from, to));
  if (::fchmod(to, mode) != 0) return Status::FromErrno("fchmod " + path, errno);
  return CheckNewInode(from, to, path);
}

}  // namespace

Status CheckStaticProgram(const std::string& path) {
  UniqueFd fd;
  ENGINE_RACE_RETURN_IF_ERROR(OpenFile(path, &fd));
  Elf64_Ehdr head = {};
  size_t got = 0;
  ENGINE_RACE_RETURN_IF_ERROR(sys::Pread(fd.get(), &head, sizeof(head), 0, &got));
  if (got < sizeof(head) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
      head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_phentsize != sizeof(Elf64_Phdr)) {
    return Status::NotSupported(path + " is no 64-bit ELF program");
  }
  for (uint32_t i = 0; i < head.e_phnum; ++i) {
    Elf64_Phdr segment = {};
    ENGINE_RACE_RETURN_IF_ERROR(
        sys::PreadFull(fd.get(), &segment, sizeof(segment), head.e_phoff + i * sizeof(segment)));
    if (segment.p_type == PT_INTERP) {
      return Status::NotSupported(path + " needs shared libraries, whose text its copies would " +
                                  "share: use a program that is linked statically");
    }
  }
  return Status::Ok();
}

Status CheckOwnExtents(const std::string& path) {
  constexpr uint32_t kExtentCount = 64;
  UniqueFd fd;
  ENGINE_RACE_RETURN_IF_ERROR(OpenFile(path, &fd));
  alignas(fiemap) char buffer[sizeof(fiemap) + kExtentCount * sizeof(fiemap_extent)];
  auto* const map = reinterpret_cast<fiemap*>(buffer);
  for (uint64_t start = 0;;) {
    std::memset(buffer, 0, sizeof(buffer));
    map->fm_start = start;
    map->fm_length = FIEMAP_MAX_OFFSET - start;
    map->fm_flags = FIEMAP_FLAG_SYNC;
    map->fm_extent_count = kExtentCount;
    if (::ioctl(fd.get(), FS_IOC_FIEMAP, map) != 0) {
      if (errno == EOPNOTSUPP || errno == ENOTTY) return Status::Ok();
      return Status::FromErrno("fiemap " + path, errno);
    }
    for (uint32_t i = 0; i < map->fm_mapped_extents; ++i) {
      const fiemap_extent& extent = map->fm_extents[i];
      if ((extent.fe_flags & FIEMAP_EXTENT_SHARED) != 0) {
        return Status::InvalidArgument(path + " shares blocks with another file: its file system " +
                                       "makes no real copies");
      }
      if ((extent.fe_flags & FIEMAP_EXTENT_LAST) != 0) return Status::Ok();
      start = extent.fe_logical + extent.fe_length;
    }
    if (map->fm_mapped_extents == 0) return Status::Ok();
  }
}

Status CopyProgram(const std::string& source, const std::string& target) {
  UniqueFd from;
  ENGINE_RACE_RETURN_IF_ERROR(OpenFile(source, &from));
  struct stat info = {};
  if (::fstat(from.get(), &info) != 0) return Status::FromErrno("fstat " + source, errno);
  UniqueFd old;
  bool same = false;
  if (OpenFile(target, &old).ok()) {
    ENGINE_RACE_RETURN_IF_ERROR(sys::SameFile(from.get(), old.get(), &same));
  }
  if (same) return Status::InvalidArgument(target + " is the program that is to be copied");
  old.Reset();
  // The target stays as it was until all checks have passed.
  std::string unfinished = target + ".XXXXXX";
  const UniqueFd to(::mkostemp(unfinished.data(), O_CLOEXEC));
  if (to.get() < 0) return Status::FromErrno("make a copy beside " + target, errno);
  Status status = WriteCopy(from.get(), info.st_mode & 0777, to.get(), unfinished);
  if (status.ok()) status = CheckOwnExtents(unfinished);
  if (status.ok()) status = sys::Rename(AT_FDCWD, unfinished, target);
  // What is wrong with the copy matters more than a copy that cannot be removed.
  if (!status.ok()) static_cast<void>(sys::Unlink(AT_FDCWD, unfinished));
  return status;
}

Status CachedPages(const std::string& path, NodeBytes* bytes) {
  UniqueFd fd;
  ENGINE_RACE_RETURN_IF_ERROR(OpenFile(path, &fd));
  uint64_t size = 0;
  ENGINE_RACE_RETURN_IF_ERROR(sys::FileSize(fd.get(), &size));
  bytes->clear();
  if (size == 0) return Status::Ok();
  struct Unmap {
    size_t size;
    void operator()(void* data) const { ::munmap(data, size); }
  };
  void* const data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED | MAP_POPULATE, fd.get(), 0);
  if (data == MAP_FAILED) return Status::FromErrno("mmap " + path, errno);
  const std::unique_ptr<void, Unmap> mapped(data, Unmap{size});
  const auto page_bytes = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  // Only pages that are in this process's page table are told of.
  for (uint64_t i = 0; i < size; i += page_bytes) {
    static_cast<void>(static_cast<const volatile char*>(data)[i]);
  }
  std::vector<NumaMapping> mappings;
  ENGINE_RACE_RETURN_IF_ERROR(ReadNumaMaps("/proc/self/numa_maps", &mappings));
  for (const NumaMapping& mapping : mappings) {
    if (mapping.start == reinterpret_cast<uint64_t>(data)) *bytes = mapping.bytes;
  }
  const uint64_t page_count = (size + page_bytes - 1) / page_bytes;
  if (SumOf(*bytes) == page_count * page_bytes) return Status::Ok();
  return Status::IOError("/proc/self/numa_maps has " + std::to_string(SumOf(*bytes) / page_bytes) +
                         " of the " + std::to_string(page_count) + " pages of " + path);
}

Status PlaceInCache(const std::string& path, const std::vector<uint32_t>& nodes) {
  NodeBytes bytes;
  for (int i = 0; i < kPlaceTries; ++i) {
    if (i > 0) {
      UniqueFd fd;
      ENGINE_RACE_RETURN_IF_ERROR(OpenFile(path, &fd));
      ENGINE_RACE_RETURN_IF_ERROR(sys::Fsync(fd.get()));
      const int error = ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
      if (error != 0) return Status::FromErrno("fadvise " + path, error);
    }
    ENGINE_RACE_RETURN_IF_ERROR(CachedPages(path, &bytes));
    // Only an empty file has no pages.
    if (ShareOn(bytes, nodes).value_or(1) == 1) return Status::Ok();
  }
  const std::string share = Fixed(100 * ShareOn(bytes, nodes).value_or(1), 2);
  return Status::IOError("only " + share + " % of the pages of " + path + " can be had on nodes " +
                         numa::FormatList(nodes));
}

}  // namespace engine_race::harness
