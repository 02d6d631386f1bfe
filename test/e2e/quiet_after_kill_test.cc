// A late write of a killed process would overwrite what the next opener has written. The first test
// expects no such write once the process has been waited for. The second expects none once the next
// writer holds the locks.
//
// The tests find late writes only on a device that is slow enough. test/faults/log_writes_test.cc
// checks that whole groups are written with pwrite.
//
// They look where groups were on their way. On a device, in the test's own directory: a file system
// in memory has no writes on their way.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "engine_race/base/checksum.h"
#include "engine_race/base/memory.h"
#include "engine_race/base/sys.h"
#include "engine_race/io/file.h"
#include "engine_race/io/piece_writer.h"
#include "engine_race/log/staging.h"
#include "engine_race/log/store_files.h"
#include "test/e2e/engine_fixture.h"
#include "test/eventually.h"

namespace engine_race::test {
namespace {

constexpr uint32_t kThreadCount = 128;

Options LargeGroups() {
  Options options;
  options.bucket_count = kThreadCount;
  options.file_count = 4;
  options.value_group_bytes = kMaxValueGroupBytes;
  options.bucket_capacity_records = 1 << 16;
  return options;
}

// Writes to every bucket until it is killed. Counts the writes.
[[noreturn]] void WriteForever(const std::string& dir, std::atomic<uint64_t>* write_count) {
  std::unique_ptr<Store> store;
  if (!Store::Open(AsRun(LargeGroups()), dir, &store).ok()) ::syscall(SYS_exit_group, 1);
  RunThreads(kThreadCount, [&store, write_count](uint32_t thread) {
    const std::string value = ValueOf(thread, 1);
    for (uint64_t i = 0;; ++i) {
      const uint64_t key = (uint64_t{thread} << 57) | i;
      if (!store->Write(KeyOf(key), value).ok()) ::syscall(SYS_exit_group, 1);
      ++*write_count;
    }
  });
  ::syscall(SYS_exit_group, 1);
  __builtin_unreachable();
}

// Makes the store, with space for all that a round writes: a write that has to find space first is
// waited for whoever makes it, and it is the others that this is about.
void MakeStore(const std::string& dir) {
  constexpr uint64_t kReservedRecords = 8192;
  StoreFiles files;
  ASSERT_TRUE(OpenStoreFiles(LargeGroups(), dir, &files).ok());
  for (uint32_t bucket = 0; bucket < kThreadCount; ++bucket) {
    ASSERT_TRUE(files.slots.Give(bucket, 0, kReservedRecords).ok());
    ASSERT_TRUE(files.slots.ReserveValues(bucket, 0, kReservedRecords).ok());
  }
}

// The first and last blocks of every group that was full and not yet below the watermark: few, so
// that they are read before a write that is still under way can end.
uint64_t HashOfUnlogged(const StoreFiles& files, const std::vector<BucketState>& states,
                        const Region& buffer) {
  uint64_t hash = 0;
  const uint64_t group_records = files.identity.geometry.values_per_group();
  for (uint32_t bucket = 0; bucket < states.size(); ++bucket) {
    const BucketState& state = states[bucket];
    for (uint64_t first = state.logged_value_watermark; first + group_records <= state.record_count;
         first += group_records) {
      for (const uint64_t slot : {first, first + group_records - 1}) {
        EXPECT_TRUE(files.slots.ReadValues(bucket, slot, 1, buffer.data()).ok());
        hash = Hash64(buffer.data(), kValueBytes, hash);
      }
    }
  }
  return hash;
}

TEST(QuietAfterKillTest, NoWriteArrivesAfterTheProcessIsGone) {
  constexpr int kRounds = static_cast<int>(Sized(6, 1));
  Region buffer;
  ASSERT_TRUE(Region::Allocate(kValueBytes, false, &buffer).ok());
  const uint64_t round_of_groups = kThreadCount * LargeGroups().value_group_bytes / kValueBytes;
  void* const shared =
      ::mmap(nullptr, kIoAlignment, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto* const write_count = new (shared) std::atomic<uint64_t>(0);
  for (int round = 0; round < kRounds; ++round) {
    const TempDir dir;
    write_count->store(0);
    ASSERT_NO_FATAL_FAILURE(MakeStore(dir.path()));
    const pid_t child = ::fork();
    if (child == 0) WriteForever(dir.path(), write_count);
    // Each bucket writes its second or third group by then.
    const uint64_t kill_at = round_of_groups * (12 + round) / 8;
    const bool has_written = Eventually([&] { return write_count->load() >= kill_at; });
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    ASSERT_TRUE(has_written);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer ended by itself";
    StoreFiles files;
    ASSERT_TRUE(OpenStoreFilesToRead(dir.path(), &files).ok()) << "its lock went with it";
    std::vector<BucketState> states;
    ASSERT_TRUE(Staging(files).ReadCounts(&states).ok());
    const uint64_t at_once = HashOfUnlogged(files, states, buffer);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    ASSERT_EQ(HashOfUnlogged(files, states, buffer), at_once) << "round " << round;
  }
  ::munmap(shared, kIoAlignment);
}

// Large, so that a killed process leaves much under way.
constexpr uint64_t kPieceBytes = uint64_t{256} << 10;
constexpr uint64_t kPieceCount = 512;

// Writes all pieces of the file again and again, each time with other bytes. Stores in
// *sharer_pid the process id of a child that shares the memory of this process, as between vfork
// and exec.
[[noreturn]] void WritePiecesForever(int dir_fd, std::atomic<pid_t>* sharer_pid) {
  io::File file;
  io::PieceWriter writer;
  const io::File* const only = &file;
  if (!io::File::Open(dir_fd, "pieces", io::Access::kReadWrite, io::Caching::kDirect, &file).ok() ||
      !writer.Init({&only, 1}, /*asynchronous=*/true).ok()) {
    ::syscall(SYS_exit_group, 1);
  }
  static char stack[1 << 16];
  // Without its copies of the descriptors, only requests keep the lock of the file.
  const auto share_memory = [](void*) {
    ::syscall(SYS_close_range, 3, ~0U, 0);
    while (true) ::pause();
    return 0;
  };
  constexpr uint32_t kPieceThreadCount = 8;
  std::atomic<uint32_t> written_count{0};
  RunThreads(kPieceThreadCount, [&](uint32_t thread) {
    Region bytes;
    if (!Region::Allocate(kPieceBytes, false, &bytes).ok()) ::syscall(SYS_exit_group, 1);
    std::vector<io::WriteRequest> requests(kPieceCount / kPieceThreadCount);
    for (uint64_t i = 0;; ++i) {
      std::memset(bytes.data(), static_cast<int>(i + 1), kPieceBytes);
      for (uint64_t piece = 0; piece < requests.size(); ++piece) {
        requests[piece] = {&file, bytes.data(), kPieceBytes,
                           (piece * kPieceThreadCount + thread) * kPieceBytes};
      }
      if (!writer.Write(requests).ok()) ::syscall(SYS_exit_group, 1);
      // Once, after about one round of all threads.
      if (written_count.fetch_add(1) != kPieceThreadCount) continue;
      const pid_t made = ::clone(share_memory, stack + sizeof(stack), CLONE_VM | SIGCHLD, nullptr);
      if (made <= 0) ::syscall(SYS_exit_group, 1);
      sharer_pid->store(made);
    }
  });
  ::syscall(SYS_exit_group, 1);
  __builtin_unreachable();
}

// A process that is killed with this.
class KilledAtEnd {
 public:
  explicit KilledAtEnd(pid_t pid) : pid_(pid) {}
  ~KilledAtEnd() { ::kill(pid_, SIGKILL); }

 private:
  const pid_t pid_;
};

TEST(QuietAfterKillTest, NoPieceArrivesOnceTheNextWriterBegins) {
  constexpr int kRounds = static_cast<int>(Sized(6, 1));
  const TempDir dir;
  UniqueFd dir_fd;
  ASSERT_TRUE(sys::OpenDirectory(dir.path(), false, &dir_fd).ok());
  io::File file;
  ASSERT_TRUE(
      io::File::Open(dir_fd.get(), "pieces", io::Access::kCreate, io::Caching::kDirect, &file)
          .ok());
  ASSERT_TRUE(file.Truncate(kPieceCount * kPieceBytes).ok());
  bool supported = false;
  ASSERT_TRUE(file.Reserve(/*keep_size=*/true, 0, kPieceCount * kPieceBytes, &supported).ok());
  Region page;
  ASSERT_TRUE(Region::Allocate(kValueBytes, false, &page).ok());
  // Reads only the last page of each piece, to finish before a late write does.
  const auto hash = [&] {
    uint64_t hash = 0;
    for (uint64_t piece = 1; piece <= kPieceCount; ++piece) {
      EXPECT_TRUE(file.Read(page.data(), kValueBytes, piece * kPieceBytes - kValueBytes).ok());
      hash = Hash64(page.data(), kValueBytes, hash);
    }
    return hash;
  };
  void* const shared =
      ::mmap(nullptr, kIoAlignment, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto* const sharer_pid = new (shared) std::atomic<pid_t>(0);
  for (int round = 0; round < kRounds; ++round) {
    sharer_pid->store(0);
    const pid_t child = ::fork();
    if (child == 0) WritePiecesForever(dir_fd.get(), sharer_pid);
    ASSERT_GT(child, 0);
    const bool is_shared = Eventually([&] { return sharer_pid->load() > 0; });
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(is_shared && WIFSIGNALED(status)) << "the writer ended by itself";
    const KilledAtEnd sharer(sharer_pid->load());
    io::PieceWriter next;
    const io::File* const only = &file;
    ASSERT_TRUE(next.Init({&only, 1}, /*asynchronous=*/true).ok());
    const uint64_t at_once = hash();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    ASSERT_EQ(hash(), at_once) << "round " << round;
  }
  ::munmap(shared, kIoAlignment);
}

}  // namespace
}  // namespace engine_race::test
