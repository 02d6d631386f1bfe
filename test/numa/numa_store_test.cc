// Whole stores with Options::numa: where their memory lies, where their threads run, and that they
// work where nothing can be placed.
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <cerrno>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <set>

#include "engine_race/base/parallel.h"
#include "engine_race/numa/topology.h"
#include "test/e2e/engine_fixture.h"
#include "test/faults/system_calls.h"
#include "test/forbidden_calls.h"
#include "test/numa/made_up_machine.h"
#include "test/numa/numa_test_util.h"

namespace engine_race::test {
namespace {

namespace fs = std::filesystem;

uint64_t NthKey(uint64_t i) { return i * 0x9e3779b97f4a7c15; }

void Fill(Store* store, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t key = NthKey(i);
    ASSERT_TRUE(store->Write(KeyOf(key), ValueOf(key, i + 1)).ok());
  }
}

// Anonymous pages of this process that lie under a policy, as /proc/self/numa_maps names it.
uint64_t PagesUnder(const std::string& policy) {
  std::ifstream maps("/proc/self/numa_maps");
  uint64_t pages = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find(' ' + policy) == std::string::npos) continue;
    const size_t at = line.find(" anon=");
    if (at != std::string::npos) pages += std::stoull(line.substr(at + 6));
  }
  return pages;
}

TEST(NumaStoreTest, AnUnknownNodeMakesNothing) {
  if (!HasNodes()) GTEST_SKIP() << "the kernel shows no nodes";
  const TempDir dir(FastParent());
  std::unique_ptr<Store> store;
  LogLines log;
  Options options = BoundTo(999);
  options.log = log.Callback();
  const Status opened = Store::Open(options, dir.Join("store"), &store);
  EXPECT_EQ(opened.code(), Code::kInvalidArgument);
  EXPECT_NE(opened.message().find("node 999"), std::string::npos) << opened.message();
  EXPECT_FALSE(fs::exists(dir.Join("store")));
  EXPECT_EQ(log.lines().size(), 1u);
}

constexpr char kBound[] = "bind:0";

// How the pages under kBound grow from one kind of memory to the next.
class Growth {
 public:
  void ExpectMore(const char* what, uint64_t least_pages) {
    const uint64_t now = PagesUnder(kBound);
    EXPECT_GE(now, before_ + least_pages) << what;
    before_ = now;
  }

 private:
  uint64_t before_ = PagesUnder(kBound);
};

// Each kind of memory is under the policy as soon as it is used.
TEST(NumaStoreTest, MemoryLiesOnTheNode) {
  if (!CanPlace()) GTEST_SKIP() << "memory cannot be placed here";
  const TempDir dir(FastParent());
  ASSERT_EQ(PagesUnder(kBound), 0u);
  {
    Options options = BoundTo(0);
    options.hot_value_bytes = 0;
    const auto store = OpenStore(dir.path(), options);
    ASSERT_NE(store, nullptr);
    constexpr uint64_t kCount = 4000;
    Fill(store.get(), kCount);
    Growth growth;
    {
      // It waits for all of the index.
      Snapshot snapshot;
      ASSERT_TRUE(store->GetSnapshot(&snapshot).ok());
    }
    growth.ExpectMore("the index, 16 bytes a record", kCount * 16 / 4096);
    Iterator iterator;
    IteratorOptions ahead;
    ahead.prefetch_records = 64;
    ASSERT_TRUE(store->NewIterator(ahead, &iterator).ok());
    iterator.SeekToFirst();
    ASSERT_EQ(iterator.value().size(), kValueBytes);
    growth.ExpectMore("a window", 32);
    ASSERT_EQ(RangeOf(store.get(), "", "").size(), kCount);
    growth.ExpectMore("range buffers", kCount / 2);
    std::vector<std::string> bytes;
    for (uint64_t i = 1000; i < 1100; ++i) bytes.push_back(KeyOf(NthKey(i)));
    const std::vector<std::string_view> keys(bytes.begin(), bytes.end());
    std::vector<std::string> values(keys.size());
    std::vector<Status> statuses(keys.size());
    ASSERT_TRUE(store->MultiRead(keys, values, statuses).ok());
    for (const Status& status : statuses) ASSERT_TRUE(status.ok());
    growth.ExpectMore("the buffers of a worker", 8);
    // All in one bucket, so that its merged parts are large.
    const uint64_t more = 20000;
    for (uint64_t i = 0; i < more; ++i) {
      ASSERT_TRUE(store->Write(KeyOf(i + 1), ValueOf(i + 1, 1)).ok());
    }
    growth.ExpectMore("merged parts", more * 16 / 4096 / 2);
  }
  EXPECT_EQ(PagesUnder(kBound), 0u);
}

// The buffers that groups and batches are written from.
TEST(NumaStoreTest, BuffersOfWritesLieOnTheNode) {
  if (!CanPlace()) GTEST_SKIP() << "memory cannot be placed here";
  Options written = BoundTo(0);
  written.staging_mode = StagingMode::kWritten;
  Options durable = BoundTo(0);
  durable.sync_mode = SyncMode::kEveryWrite;
  for (const auto& [options, least_pages] :
       {std::pair(written, written.value_group_bytes / 4096), std::pair(durable, 2U)}) {
    const TempDir dir(FastParent());
    const auto store = OpenStore(dir.path(), options);
    ASSERT_NE(store, nullptr);
    Growth growth;
    // Some bucket has a full group then.
    Fill(store.get(), 1000);
    growth.ExpectMore("the buffers of writes", least_pages);
  }
}

TEST(NumaStoreTest, FramesLieOnTheNode) {
  if (!CanPlace()) GTEST_SKIP() << "memory cannot be placed here";
  const TempDir dir(FastParent());
  const auto store = OpenStore(dir.path(), BoundTo(0));
  ASSERT_NE(store, nullptr);
  Fill(store.get(), 4000);
  const auto read_often = [&store](uint64_t begin, uint64_t end) {
    std::string value;
    for (uint64_t i = 0; i < 4 * (end - begin); ++i) {
      ASSERT_TRUE(store->Read(KeyOf(NthKey(begin + i % (end - begin))), &value).ok());
    }
  };
  // The first ones touch what describes frames as well.
  read_often(0, 500);
  const uint64_t before = store->Stats().frame_admission_count;
  Growth growth;
  read_often(500, 1500);
  const uint64_t admitted = store->Stats().frame_admission_count - before;
  ASSERT_GT(admitted, 500u);
  growth.ExpectMore("frames", admitted);
}

TEST(NumaStoreTest, WithoutTheOptionNothingIsPlaced) {
  if (!CanPlace()) GTEST_SKIP() << "memory cannot be placed here";
  const TempDir dir(FastParent());
  Options options = BoundTo(0);
  options.numa = {};
  const auto store = OpenStore(dir.path(), options);
  ASSERT_NE(store, nullptr);
  Fill(store.get(), 100);
  EXPECT_EQ(RangeOf(store.get(), "", "").size(), 100u);
  EXPECT_EQ(PagesUnder("bind:0") + PagesUnder("interleave:0"), 0u);
}

TEST(NumaStoreTest, MemoryIsInterleaved) {
  if (!CanPlace()) GTEST_SKIP() << "memory cannot be placed here";
  const TempDir dir(FastParent());
  Options options = BoundTo(0);
  options.numa = {NumaMode::kInterleave, {0}};
  const auto store = OpenStore(dir.path(), options);
  ASSERT_NE(store, nullptr);
  Fill(store.get(), 1000);
  EXPECT_EQ(RangeOf(store.get(), "", "").size(), 1000u);
  EXPECT_GE(PagesUnder("interleave:0"), 500u);
}

// Shows the engine a machine of the test's own.
class OtherMachine : public SystemCallHook {
 public:
  explicit OtherMachine(const MadeUpMachine& machine) : root_(machine.root()) {}
  long OnCall(SystemCall* call) override {
    std::string path;
    const std::string_view name =
        call->kind == CallKind::kOpenAt ? std::string_view(call->name) : std::string_view();
    if (name.starts_with("/sys/devices/system/node/")) path = root_ + std::string(name.substr(4));
    if (name == "/proc/thread-self/status") path = root_ + "/thread-self/status";
    if (!path.empty()) call->name = path.c_str();
    return call->Proceed();
  }

 private:
  const std::string root_;
};

std::set<std::string> Tasks() {
  std::set<std::string> tasks;
  for (const auto& entry : fs::directory_iterator("/proc/self/task")) tasks.insert(entry.path());
  return tasks;
}

// A thread of a read queue, or of the kernel's: it runs where the caller does, or a thread of the
// store, that waits for it.
bool ReadsForACaller(const std::string& task) {
  std::ifstream file(task + "/comm");
  std::string name;
  std::getline(file, name);
  return name == "er-pread" || name.starts_with("iou-wrk");
}

std::string CpusOfTask(const std::string& task) {
  std::ifstream status(task + "/status");
  const std::string label = "Cpus_allowed_list:\t";
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(label)) return line.substr(label.size());
  }
  return "";
}

TEST(NumaStoreTest, ItsThreadsRunOnTheNode) {
  const std::vector<uint32_t> cpus = AvailableCpus();
  if (cpus.size() < 2) GTEST_SKIP() << "there is one CPU here";
  const MadeUpMachine machine;
  machine.SetOnline("0-1");
  machine.AddNode(0, std::to_string(cpus.back()), 1000, "10 20");
  machine.AddNode(1, std::to_string(cpus.front()), 1000, "20 10");
  machine.SetStatus("Cpus_allowed_list:\t" + numa::FormatList(cpus) +
                    "\nMems_allowed_list:\t0-1\n");
  OtherMachine hook(machine);
  const ScopedHook scope(&hook);
  const TempDir dir(FastParent());
  Options options = BoundTo(0);
  options.sync_mode = SyncMode::kGroup;
  const std::set<std::string> before = Tasks();
  const std::string own_cpus = CpusOfTask("/proc/thread-self");
  ASSERT_FALSE(own_cpus.empty());
  const auto store = OpenStore(dir.path(), options);
  ASSERT_NE(store, nullptr);
  Fill(store.get(), 3000);
  ASSERT_EQ(RangeOf(store.get(), "", "").size(), 3000u);
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::string value;
  ASSERT_TRUE(store
                  ->ReadAsync(KeyOf(0), &value,
                              [&](const Status&) {
                                const std::lock_guard<std::mutex> lock(mutex);
                                done = true;
                                changed.notify_one();
                              })
                  .ok());
  {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return done; });
  }
  uint32_t own_count = 0;
  for (const std::string& task : Tasks()) {
    if (before.contains(task) || ReadsForACaller(task)) continue;
    ++own_count;
    EXPECT_EQ(CpusOfTask(task), std::to_string(cpus.back())) << task;
  }
  // The coordinator, a thread of the pool, and the checkpointer.
  EXPECT_GE(own_count, 3u);
  // With offline CPUs, which AvailableCpus does not show.
  EXPECT_EQ(CpusOfTask("/proc/thread-self"), own_cpus) << "the caller's thread is left alone";
}

TEST(NumaStoreTest, AContainerThatForbidsPlacementIsSaid) {
  const std::vector<uint32_t> cpus = AvailableCpus();
  const MadeUpMachine machine;
  machine.SetOnline("0-1");
  machine.AddNode(0, std::to_string(cpus.front()), 1000, "10 20");
  machine.AddNode(1, "4095", 1000, "20 10");
  machine.SetStatus("Cpus_allowed_list:\t" + std::to_string(cpus.front()) +
                    ",4095\nMems_allowed_list:\t0-1\n");
  const TempDir dir(FastParent());
  constexpr int kNoFilter = 77;
  const int exit_code = InChild([&] {
    if (!ForbidCalls({SYS_mbind, SYS_set_mempolicy, SYS_get_mempolicy, SYS_sched_setaffinity})) {
      return kNoFilter;
    }
    OtherMachine hook(machine);
    const ScopedHook scope(&hook);
    LogLines log;
    Options options = BoundTo(0);
    options.log = log.Callback();
    const auto store = OpenStore(dir.path(), options);
    if (store == nullptr) return 1;
    Fill(store.get(), 500);
    if (RangeOf(store.get(), "", "").size() != 500) return 2;
    if (!log.Said("mbind: Operation not permitted")) return 3;
    if (!log.Said("sched_setaffinity: Operation not permitted")) return 4;
    return ::testing::Test::HasFailure() ? 5 : 0;
  });
  if (exit_code == kNoFilter) GTEST_SKIP() << "no filter of system calls can be had here";
  EXPECT_EQ(exit_code, 0);
}

}  // namespace
}  // namespace engine_race::test
