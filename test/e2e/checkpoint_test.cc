// Checkpoints: one moment of a store that is written to, a store of its own, and nothing at all
// where one could not be finished.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "engine_race/log/store_files.h"
#include "test/e2e/copied_disks.h"
#include "test/e2e/ended_writing.h"
#include "test/e2e/engine_fixture.h"

namespace engine_race::test {
namespace {

namespace fs = std::filesystem;
using Contents = KeyVersions;

// In a temporary directory, where records are copied.
class CheckpointTest : public testing::Test {
 protected:
  std::string source() const { return dir_.Join("source"); }
  std::string target() const { return dir_.Join("checkpoint"); }

  TempDir dir_{FastParent()};
};

TEST_F(CheckpointTest, HoldsWhatWasThereAndNothingLater) {
  Contents contents;
  auto store = OpenStore(source(), TinyOptions());
  Change(store.get(), 0, 3000, &contents);
  uint64_t done = 0;
  uint64_t most = 0;
  CheckpointOptions how;
  how.on_progress = [&](uint64_t done_count, uint64_t most_count) {
    EXPECT_LE(done, done_count);
    EXPECT_LE(done_count, most_count);
    done = done_count;
    most = most_count;
    return true;
  };
  const Status made = store->Checkpoint(target(), how);
  ASSERT_TRUE(made.ok()) << made.ToString();
  EXPECT_EQ(done, contents.size());
  const Contents then = contents;
  Change(store.get(), 3000, 4000, &contents);
  ExpectSound(target());
  EXPECT_EQ(ContentsOf(target()), then);
  EXPECT_EQ(ContentsOf(store.get()), contents);
  // Overwritten and deleted records were not copied.
  VerifyReport report;
  ASSERT_TRUE(Store::Verify({}, target(), &report, {}).ok());
  EXPECT_GE(report.record_count, then.size());
  store.reset();
  EXPECT_NE(IdentityOf(target()).store_id, IdentityOf(source()).store_id);
}

TEST_F(CheckpointTest, OfAnEmptyStoreIsAnEmptyStore) {
  auto store = OpenStore(source(), TinyOptions());
  ASSERT_TRUE(store->Checkpoint(target()).ok());
  EXPECT_TRUE(ContentsOf(target()).empty());
}

TEST_F(CheckpointTest, OfOneBucketWithAllKeys) {
  Options options = TinyOptions();
  auto store = OpenStore(source(), options);
  Contents contents;
  for (uint64_t key = 0; key < 5000; ++key) {
    ASSERT_TRUE(store->Write(KeyOf(key * 3), ValueOf(key * 3, key + 1)).ok());
    contents[key * 3] = key + 1;
  }
  ASSERT_TRUE(store->Checkpoint(target()).ok());
  ExpectSound(target());
  EXPECT_EQ(ContentsOf(target()), contents);
}

TEST_F(CheckpointTest, KeepsTheKeysOfAPart) {
  Options options = TinyOptions();
  options.key_range = KeyRange{NthKey(5) / 2, ~uint64_t{0} - 12345};
  auto store = OpenStore(source(), options);
  Contents contents;
  for (uint64_t i = 0; i < 1500; ++i) {
    const uint64_t key = NthKey(i);
    if (key < options.key_range->first || key > options.key_range->last) continue;
    ASSERT_TRUE(store->Write(KeyOf(key), ValueOf(key, i + 1)).ok());
    contents[key] = i + 1;
  }
  ASSERT_TRUE(store->Checkpoint(target()).ok());
  EXPECT_EQ(ContentsOf(target(), options), contents);
  EXPECT_EQ(IdentityOf(target()).geometry.keys(), *options.key_range);
}

TEST_F(CheckpointTest, OfAStripedStoreLiesInOneDirectory) {
  Options options = TinyOptions();
  options.paths = {dir_.Join("p0"), dir_.Join("p1"), dir_.Join("p2")};
  Contents contents;
  auto store = OpenStore(source(), options);
  Change(store.get(), 0, 2000, &contents);
  ASSERT_TRUE(store->Checkpoint(target()).ok());
  EXPECT_TRUE(IdentityOf(target()).paths.empty());
  EXPECT_EQ(ContentsOf(target()), contents);
}

TEST_F(CheckpointTest, RefusesADirectoryThatHoldsAnything) {
  auto store = OpenStore(source(), TinyOptions());
  fs::create_directory(target());
  std::ofstream(target() + "/mine") << "text";
  EXPECT_EQ(store->Checkpoint(target()).code(), Code::kInvalidArgument);
  EXPECT_TRUE(fs::exists(target() + "/mine"));
  fs::remove(target() + "/mine");
  EXPECT_TRUE(store->Checkpoint(target()).ok()) << "an empty one is taken";
  EXPECT_EQ(store->Checkpoint(target()).code(), Code::kInvalidArgument);
  EXPECT_NE(store->Checkpoint(source()).code(), Code::kOk);
  EXPECT_TRUE(store->Write(KeyOf(1), ValueOf(1, 1)).ok());
}

// A view shows no bucket that is built again after it was taken. All buckets of the index on disk
// are damaged here, and of each copy another one is found so.
TEST_F(CheckpointTest, BeginsAnewWithABucketThatWasBuiltAgain) {
  constexpr uint64_t kKeys = 20000;
  constexpr uint32_t kSize = 64;
  Options options = TinyOptions();
  options.value_bytes = kSize;
  options.index_memory_bytes = 0;
  auto store = OpenStore(source(), options);
  for (uint64_t i = 0; i < kKeys; ++i) {
    ASSERT_TRUE(store->Write(KeyOf(NthKey(i)), ValueOf(NthKey(i), i + 1, kSize)).ok());
  }
  std::string value;
  for (const bool backs_up : {false, true}) {
    ASSERT_TRUE(store->Read(KeyOf(NthKey(0)), &value).ok());
    store = nullptr;
    store = OpenStore(source(), options);
    ASSERT_TRUE(store->Read(KeyOf(NthKey(0)), &value).ok());
    for (const fs::directory_entry& entry : fs::directory_iterator(source())) {
      const std::string name = entry.path().filename();
      if (!name.starts_with("key_index_") || name == "key_index_root") continue;
      const std::string zeros(fs::file_size(entry.path()), '\0');
      Overwrite(entry.path(), zeros.data(), zeros.size(), 0);
    }
    CheckpointOptions how;
    how.reflink = false;
    const Status made =
        backs_up ? store->Backup(dir_.Join("backup")) : store->Checkpoint(target(), how);
    EXPECT_TRUE(made.ok()) << made.ToString();
  }
  store = nullptr;
  ASSERT_TRUE(Store::Restore({}, dir_.Join("backup"), dir_.Join("restored"), nullptr).ok());
  for (const std::string& dir : {target(), dir_.Join("restored")}) {
    store = OpenStore(dir, options);
    for (uint64_t i = 0; i < kKeys; ++i) {
      ASSERT_TRUE(store->Read(KeyOf(NthKey(i)), &value).ok());
      ASSERT_EQ(value, ValueOf(NthKey(i), i + 1, kSize));
    }
  }
}

// What was written when a failure ended writing may not be what the next opening finds.
TEST_F(CheckpointTest, NoneOfAStoreWhoseWritingHasEnded) {
  Contents contents;
  auto store = OpenStore(source(), TinyOptions());
  Change(store.get(), 0, 2000, &contents);
  ASSERT_NO_FATAL_FAILURE(EndWriting(store.get()));
  for (const bool reflink : {true, false}) {
    CheckpointOptions how;
    how.reflink = reflink;
    const Status made = store->Checkpoint(target(), how);
    EXPECT_EQ(made.code(), Code::kIOError) << made.ToString();
    EXPECT_TRUE(fs::is_empty(target()));
  }
}

TEST_F(CheckpointTest, NoneWhenWritingEndsMeanwhile) {
  Contents contents;
  auto store = OpenStore(source(), TinyOptions());
  Change(store.get(), 0, 2000, &contents);
  CheckpointOptions how;
  bool ended = false;
  how.on_progress = [&](uint64_t, uint64_t) {
    if (!ended) EndWriting(store.get());
    ended = true;
    return true;
  };
  EXPECT_EQ(store->Checkpoint(target(), how).code(), Code::kIOError);
  EXPECT_TRUE(ended);
  EXPECT_TRUE(fs::is_empty(target()));
}

TEST_F(CheckpointTest, NoFileGrowsPastTheLimitOfTheProcess) {
  ASSERT_EQ(InChild([&] {
              auto store = OpenStore(source(), TinyOptions());
              Contents contents;
              Change(store.get(), 0, 500, &contents);
              const rlimit limit = {uint64_t{1} << 18, RLIM_INFINITY};
              if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 2;
              // SIGXFSZ would end this process.
              if (store->Checkpoint(target()).code() != Code::kFull) return 3;
              if (!fs::is_empty(target())) return 4;
              return ContentsOf(store.get()) == contents ? 0 : 5;
            }),
            0);
}

TEST_F(CheckpointTest, DamageIsNotCopied) {
  Contents contents;
  auto store = OpenStore(source(), TinyOptions());
  Change(store.get(), 0, 2000, &contents);
  ASSERT_TRUE(store->Sync().ok());
  const UniqueFd fd(::open((source() + "/value_00").c_str(), O_RDWR | O_CLOEXEC));
  const std::string zeros(uint64_t{2000} * kValueBytes, '\0');
  ASSERT_TRUE(sys::PwriteFull(fd.get(), zeros.data(), zeros.size(), 0).ok());
  EXPECT_EQ(store->Checkpoint(target()).code(), Code::kCorruption);
  EXPECT_TRUE(fs::is_empty(target()));
}

// The copy would get an entry with the whole hash of the wrong value.
TEST_F(CheckpointTest, AnotherValueOfTheSameIndexBitsIsNotCopied) {
  auto store = OpenStore(source(), TinyOptions());
  ASSERT_NO_FATAL_FAILURE(ChangeFirstValue(store.get(), source()));
  EXPECT_EQ(store->Checkpoint(target()).code(), Code::kCorruption);
  EXPECT_TRUE(fs::is_empty(target()));
}

TEST_F(CheckpointTest, BesideWritersIsOneMoment) {
  Options options = TinyOptions();
  options.bucket_count = 8;
  auto store = OpenStore(source(), options);
  ExpectOneMoment(store.get(), dir_.path(), {});
}

}  // namespace
}  // namespace engine_race::test
