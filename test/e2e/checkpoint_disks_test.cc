// Checkpoints that share blocks with their store, and checkpoints on a disk that fills up.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "engine_race/log/format.h"
#include "engine_race/log/store_files.h"
#include "test/e2e/copied_disks.h"
#include "test/e2e/engine_fixture.h"
#include "test/e2e/small_disk.h"
#include "test/faults/call_watch.h"
#include "test/faults/system_calls.h"
#include "test/log/page_cache_test_util.h"

namespace engine_race::test {
namespace {

namespace fs = std::filesystem;
using Contents = KeyVersions;

// Calls a function before a file is cloned: the first one before the cut, the second one behind it.
class BeforeClone : public SystemCallHook {
 public:
  BeforeClone(int number, std::function<void()> function)
      : number_(number), function_(std::move(function)) {}
  long OnCall(SystemCall* call) override {
    if (call->kind == CallKind::kClone && ++clone_count_ == number_) function_();
    return call->Proceed();
  }

 private:
  const int number_;
  const std::function<void()> function_;
  int clone_count_ = 0;
};

// On file systems that share blocks.
class SharedBlocksTest : public testing::TestWithParam<DiskKind> {
 protected:
  void SetUp() override { ASSERT_TRUE(disk_.mounted()); }
  std::string source() const { return disk_.StoreDir(); }
  std::string parent() const { return fs::path(disk_.StoreDir()).parent_path(); }
  std::string target() const { return parent() + "/checkpoint"; }

  // Fails if records are copied.
  static CheckpointOptions Shared() {
    CheckpointOptions how;
    how.on_progress = [](uint64_t, uint64_t) {
      ADD_FAILURE() << "the records were copied";
      return false;
    };
    return how;
  }

  std::string second() const { return parent() + "/second"; }

  // Makes a checkpoint of the clone, closes both stores, and looks at all three.
  void ExpectAllWithASecond(std::unique_ptr<Store> store, std::unique_ptr<Store> clone,
                            const Contents& mine, const Contents& theirs) {
    ASSERT_TRUE(clone->Checkpoint(second(), Shared()).ok());
    store.reset();
    clone.reset();
    for (const std::string& dir : {source(), target(), second()}) ExpectSound(dir);
    EXPECT_EQ(ContentsOf(source()), mine);
    EXPECT_EQ(ContentsOf(target()), theirs);
    EXPECT_EQ(ContentsOf(second()), theirs);
  }

  SmallDisk disk_{GetParam(), 512 * kMiB};
  int clone_count_ = 0;
};

TEST_P(SharedBlocksTest, HoldsWhatWasThereAndNothingLater) {
  Contents contents;
  auto store = OpenStore(source(), TinyOptions());
  Change(store.get(), 0, 1500, &contents);
  Status made = store->Checkpoint(target(), Shared());
  ASSERT_TRUE(made.ok()) << made.ToString();
  const Contents then = contents;
  Change(store.get(), 1500, 1900, &contents);
  ExpectSound(target());
  EXPECT_EQ(ContentsOf(target()), then);
  EXPECT_EQ(ContentsOf(store.get()), contents);
  store.reset();
  const StoreIdentity original = IdentityOf(source());
  const StoreIdentity clone = IdentityOf(target());
  EXPECT_NE(clone.store_id, original.store_id);
  EXPECT_EQ(clone.seed_id(), original.store_id);
}

TEST_P(SharedBlocksTest, BothStoresGoOnByThemselves) {
  Contents mine;
  auto store = OpenStore(source(), TinyOptions());
  Change(store.get(), 0, 1000, &mine);
  ASSERT_TRUE(store->Checkpoint(target(), Shared()).ok());
  Contents theirs = mine;
  auto clone = OpenStore(target(), TinyOptions());
  Change(store.get(), 1000, 1700, &mine);
  Change(clone.get(), 5000, 5700, &theirs);
  ASSERT_TRUE(store->Sync().ok());
  ASSERT_TRUE(clone->Sync().ok());
  EXPECT_EQ(ContentsOf(store.get()), mine);
  EXPECT_EQ(ContentsOf(clone.get()), theirs);
  // A checkpoint of a clone keeps the first seed.
  ExpectAllWithASecond(std::move(store), std::move(clone), mine, theirs);
  EXPECT_EQ(IdentityOf(second()).seed_id(), IdentityOf(source()).store_id);
}

// Slots are freed for the first time while the logs are being cloned.
TEST_P(SharedBlocksTest, RowsThatBeginMeanwhileTakeNothingFromIt) {
  Options options = TinyOptions();
  options.reclaim = Reclaim::kOff;
  auto store = OpenStore(source(), options);
  Contents contents;
  Change(store.get(), 0, 6000, &contents);
  BeforeClone watch(2, [&] { EXPECT_TRUE(store->Compact().ok()); });
  {
    const ScopedHook scope(&watch);
    const Status made = store->Checkpoint(target(), Shared());
    ASSERT_TRUE(made.ok()) << made.ToString();
  }
  EXPECT_TRUE(fs::exists(source() + "/" + format::kRowsName));
  ExpectSound(target());
  EXPECT_EQ(ContentsOf(target()), contents);
  EXPECT_EQ(ContentsOf(store.get()), contents);
}

// Slots are freed for the first time just before the cut, and records of the cut get new rows.
TEST_P(SharedBlocksTest, RowsThatBeginBeforeTheCutAreShared) {
  Options options = TinyOptions();
  options.reclaim = Reclaim::kOff;
  auto store = OpenStore(source(), options);
  Contents contents;
  const auto put = [&](uint64_t key, uint64_t version) {
    ASSERT_TRUE(store->Write(KeyOf(key), ValueOf(key, version)).ok());
    contents[key] = version;
  };
  // Every other record is needed: those move to rows behind the last one.
  for (uint64_t i = 0; i < 2000; ++i) {
    put(NthKey(10000 + i), 1);
    put(NthKey(i % 64), i + 1);
  }
  BeforeClone watch(1, [&] {
    EXPECT_TRUE(store->Compact().ok());
    for (uint64_t i = 2000; i < 8000; ++i) put(NthKey(i % 64), i + 1);
  });
  {
    const ScopedHook scope(&watch);
    const Status made = store->Checkpoint(target(), Shared());
    ASSERT_TRUE(made.ok()) << made.ToString();
  }
  EXPECT_TRUE(fs::exists(source() + "/" + format::kRowsName));
  ExpectSound(target());
  EXPECT_EQ(ContentsOf(target()), contents);
}

// Before each file is cloned, records are overwritten, moved, freed and written to free rows.
TEST_P(SharedBlocksTest, RowsThatChangeBetweenFilesStayAsTheyWere) {
  Options options = TinyOptions();
  options.reclaim = Reclaim::kOff;
  auto store = OpenStore(source(), options);
  Contents contents;
  uint64_t next = 0;
  const auto change = [&](Store* changed, Contents* held) {
    Change(changed, next, next + 1500, held);
    next += 1500;
    EXPECT_TRUE(changed->Compact().ok());
  };
  for (int i = 0; i < 3; ++i) change(store.get(), &contents);
  ASSERT_TRUE(fs::exists(source() + "/" + format::kRowsName));
  Change(store.get(), next, next + 500, &contents);
  const Contents then = contents;
  CallWatch watch([&](SystemCall* call) {
    if (call->kind == CallKind::kClone && ++clone_count_ > 1) change(store.get(), &contents);
    return call->Proceed();
  });
  {
    const ScopedHook scope(&watch);
    const Status made = store->Checkpoint(target(), Shared());
    ASSERT_TRUE(made.ok()) << made.ToString();
  }
  // The first asks whether it can be done, and the last one is of the table of segments.
  EXPECT_EQ(clone_count_, 1 + 2 * static_cast<int>(options.file_count) + 1);
  ExpectSound(target());
  EXPECT_EQ(ContentsOf(target()), then);
  EXPECT_EQ(ContentsOf(store.get()), contents);
  // The clone frees rows and moves records of its own.
  Contents theirs = then;
  auto clone = OpenStore(target(), options);
  change(clone.get(), &theirs);
  change(store.get(), &contents);
  ExpectAllWithASecond(std::move(store), std::move(clone), contents, theirs);
}

// The store writes to free rows while its files are cloned. The clone gives the same rows to
// records with the same numbers, and a restart of the machine looks for more of them there.
TEST_P(SharedBlocksTest, FreeRowsKeepNothingOfTheSource) {
  Options options = TinyOptions();
  options.reclaim = Reclaim::kOff;
  auto store = OpenStore(source(), options);
  Contents contents;
  Change(store.get(), 0, 6000, &contents);
  ASSERT_TRUE(store->Compact().ok());
  Contents theirs = contents;
  BeforeClone watch(2, [&] { Change(store.get(), 6000, 10000, &contents); });
  {
    const ScopedHook scope(&watch);
    ASSERT_TRUE(store->Checkpoint(target(), Shared()).ok());
  }
  store.reset();
  auto clone = OpenStore(target(), options);
  Change(clone.get(), 20000, 21300, &theirs);
  clone.reset();
  Restart(target(), IdentityOf(target()).seed_id());
  EXPECT_EQ(ContentsOf(target(), options), theirs);
  ExpectSound(target());
}

TEST_P(SharedBlocksTest, OfAPartOfTheKeys) {
  Options options = TinyOptions();
  options.key_range = KeyRange{1000, uint64_t{1} << 40};
  auto store = OpenStore(source(), options);
  Contents contents;
  for (uint64_t key = 1000; key < 2000; ++key) {
    ASSERT_TRUE(store->Write(KeyOf(key), ValueOf(key, 1)).ok());
    contents[key] = 1;
  }
  ASSERT_TRUE(store->Checkpoint(target(), Shared()).ok());
  EXPECT_EQ(IdentityOf(target()).geometry.keys(), *options.key_range);
  EXPECT_EQ(ContentsOf(target(), options), contents);
}

TEST_P(SharedBlocksTest, CopiesWhenItIsAskedTo) {
  Contents contents;
  auto store = OpenStore(source(), TinyOptions());
  Change(store.get(), 0, 1000, &contents);
  CheckpointOptions how;
  how.reflink = false;
  ASSERT_TRUE(store->Checkpoint(target(), how).ok());
  EXPECT_EQ(IdentityOf(target()).seed_id(), IdentityOf(target()).store_id) << "no clone";
  EXPECT_EQ(ContentsOf(target()), contents);
}

TEST_P(SharedBlocksTest, BesideWritersIsOneMoment) {
  Options options = TinyOptions();
  options.bucket_count = 8;
  auto store = OpenStore(source(), options);
  const std::jthread cleaner([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) EXPECT_TRUE(store->Compact().ok());
  });
  ExpectOneMoment(store.get(), parent(), Shared());
}

// The index and the journal of one put into the other are not taken for its own.
TEST_P(SharedBlocksTest, FilesOfTheOneAreRefusedInTheOther) {
  Options options = TinyOptions();
  options.sync_mode = SyncMode::kGroup;
  options.journal_bytes = kMinJournalBytes;
  options.index_memory_bytes = 0;
  Contents mine;
  auto store = OpenStore(source(), options);
  Change(store.get(), 0, 1000, &mine);
  ASSERT_TRUE(store->Checkpoint(target(), Shared()).ok());
  Contents theirs = mine;
  Change(store.get(), 1000, 1100, &mine);
  ContentsOf(store.get());  // makes the index, which closing writes
  store.reset();
  ASSERT_TRUE(fs::exists(source() + "/key_index_root"));
  auto clone = OpenStore(target(), options);
  Change(clone.get(), 5000, 5100, &theirs);
  clone.reset();
  for (const fs::directory_entry& entry : fs::directory_iterator(source())) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("key_index_") && name != "staging_journal") continue;
    fs::remove(target() + "/" + name);
    fs::copy_file(entry.path(), target() + "/" + name);
  }
  LogLines lines;
  options.log = lines.Callback();
  EXPECT_EQ(ContentsOf(target(), options), theirs);
  EXPECT_TRUE(lines.Said("it is of another store"));
}

INSTANTIATE_TEST_SUITE_P(Disks, SharedBlocksTest,
                         testing::ValuesIn(Mountable({DiskKind::kXfs, DiskKind::kBtrfs})),
                         NameOfDisk);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SharedBlocksTest);

// A disk that fills up while the checkpoint is made.
class FullCheckpointTest : public testing::TestWithParam<DiskKind> {};

TEST_P(FullCheckpointTest, LeavesNoHalfStoreAndTheSourceUnharmed) {
  SmallDisk disk(GetParam());
  ASSERT_TRUE(disk.mounted());
  const std::string target = disk.StoreDir() + "2";
  Options options = TinyOptions();
  // It would make room.
  options.reclaim = Reclaim::kOff;
  Contents contents;
  auto store = OpenStore(disk.StoreDir(), options);
  Change(store.get(), 0, 4000, &contents);
  ASSERT_TRUE(store->Sync().ok());
  const uint64_t free_bytes = fs::space(disk.StoreDir()).available;
  disk.AddBallast(free_bytes - kMiB);
  CheckpointOptions how;
  how.reflink = false;
  const Status made = store->Checkpoint(target, how);
  EXPECT_EQ(made.code(), Code::kFull) << made.ToString();
  EXPECT_TRUE(!fs::exists(target) || fs::is_empty(target));
  EXPECT_EQ(ContentsOf(store.get()), contents);
  disk.DropBallast();
  const Status again = store->Checkpoint(target, how);
  ASSERT_TRUE(again.ok()) << again.ToString();
  EXPECT_EQ(ContentsOf(target), contents);
}

INSTANTIATE_TEST_SUITE_P(Disks, FullCheckpointTest,
                         testing::ValuesIn(Mountable({DiskKind::kTmpfs, DiskKind::kExt4With4KBlocks,
                                                      DiskKind::kXfs, DiskKind::kBtrfs})),
                         NameOfDisk);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FullCheckpointTest);

}  // namespace
}  // namespace engine_race::test
