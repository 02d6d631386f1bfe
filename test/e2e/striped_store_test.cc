// Stores whose values are striped over several directories: the same store in every respect, and
// errors that say on which path.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <random>
#include <thread>

#include "engine_race/log/store_files.h"
#include "test/e2e/engine_fixture.h"

namespace engine_race::test {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kBucketCount = 8;

Options StripedOptions(const TempDir& dir, uint32_t path_count) {
  Options options = TinyOptions();
  options.bucket_count = kBucketCount;
  options.value_group_bytes = 16384;
  for (uint32_t i = 0; i < path_count; ++i) {
    options.paths.push_back(dir.Join("disks/" + std::to_string(i)));
  }
  return options;
}

// What the value logs of one path take.
uint64_t BytesOn(const std::string& path) {
  UniqueFd fd;
  EXPECT_TRUE(sys::OpenDirectory(path, false, &fd).ok());
  uint64_t sum = 0;
  for (const auto& entry : fs::directory_iterator(path)) {
    const std::string name = entry.path().filename().string();
    uint64_t bytes = 0;
    EXPECT_TRUE(sys::AllocatedBytes(fd.get(), name, &bytes).ok());
    if (name.starts_with("value_")) sum += bytes;
  }
  return sum;
}

void ExpectSound(const std::string& dir, uint64_t record_count) {
  VerifyReport report;
  const Status status = Store::Verify({}, dir, &report, [](const BadRecord& bad) {
    ADD_FAILURE() << bad.file << " slot " << bad.slot << ": " << bad.what;
  });
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(report.record_count, record_count);
}

class StripedStoreTest : public testing::TestWithParam<uint32_t> {
 protected:
  std::string store_dir() const { return dir_.Join("store"); }

  TempDir dir_{FastParent()};
  std::map<uint64_t, uint64_t> model_;
};

TEST_P(StripedStoreTest, HoldsWhatIsWrittenThroughReopenings) {
  Options options = StripedOptions(dir_, GetParam());
  // Every record is counted at the end.
  options.reclaim = Reclaim::kOff;
  std::mt19937_64 random(GetParam());
  uint64_t version = 0;
  for (int round = 0; round < 4; ++round) {
    // By their names, then by the manifest's.
    Options by_manifest = options;
    by_manifest.paths.clear();
    const auto store = OpenStore(store_dir(), round % 2 == 0 ? options : by_manifest);
    ASSERT_NE(store, nullptr);
    ExpectHolds(store.get(), model_);
    for (int i = 0; i < 1500; ++i) {
      const uint64_t key = NthKey(random() % 1200);
      ++version;
      if (random() % 10 == 0) {
        ASSERT_TRUE(store->Delete(KeyOf(key)).ok());
        model_.erase(key);
      } else {
        ASSERT_TRUE(store->Write(KeyOf(key), ValueOf(key, version)).ok());
        model_[key] = version;
      }
      if (random() % 400 == 0) {
        ASSERT_TRUE(store->Sync().ok());
      }
    }
    ExpectHolds(store.get(), model_);
    // Short ranges read for themselves.
    for (int i = 0; i < 50; ++i) {
      const auto first = model_.lower_bound(random());
      const auto last =
          std::next(first, std::min<ptrdiff_t>(30, std::distance(first, model_.end())));
      const Versions seen =
          RangeOf(store.get(), first == model_.end() ? KeyOf(~uint64_t{0}) : KeyOf(first->first),
                  last == model_.end() ? "" : KeyOf(last->first));
      EXPECT_EQ(seen, Versions(first, last));
    }
  }
  ExpectSound(store_dir(), version);
  EXPECT_FALSE(fs::exists(store_dir() + "/value_00"));
  uint64_t least = ~uint64_t{0};
  uint64_t most = 0;
  for (const std::string& path : options.paths) {
    least = std::min(least, BytesOn(path));
    most = std::max(most, BytesOn(path));
  }
  // A few segments each, not all of which are full.
  EXPECT_GT(least * 2, most) << "the paths share the load";
}

TEST_P(StripedStoreTest, ManyWritersAndReadersAtOnce) {
  const auto store = OpenStore(store_dir(), StripedOptions(dir_, GetParam()));
  ASSERT_NE(store, nullptr);
  constexpr uint64_t kKeysEach = Sized(400, 100);
  RunThreads(8, [&](uint32_t t) {
    for (uint64_t i = t * kKeysEach; i < (t + 1) * kKeysEach; ++i) {
      ASSERT_TRUE(store->Write(KeyOf(NthKey(i)), ValueOf(NthKey(i), 1)).ok());
      const uint64_t known = t * kKeysEach + (i - t * kKeysEach) / 2;
      ASSERT_EQ(VersionOf(store.get(), NthKey(known)), 1u);
    }
  });
  for (uint64_t i = 0; i < 8 * kKeysEach; ++i) model_[NthKey(i)] = 1;
  ExpectHolds(store.get(), model_);
}

// Killed in the middle of writes, twice, the second time right after recovery.
TEST_P(StripedStoreTest, OutlivesItsProcess) {
  const Options options = StripedOptions(dir_, GetParam());
  auto* const done = static_cast<std::atomic<uint64_t>*>(
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(done, MAP_FAILED);
  for (int life = 0; life < 3; ++life) {
    const uint64_t kill_at = done->load() + 500 + 37 * static_cast<uint64_t>(life);
    const int end = InChild([&] {
      std::unique_ptr<Store> store;
      if (!Store::Open(AsRun(options), store_dir(), &store).ok()) return 1;
      std::thread killer([&] {
        while (done->load() < kill_at) std::this_thread::yield();
        ::kill(::getpid(), SIGKILL);
      });
      while (true) {
        const uint64_t key = NthKey(done->load());
        if (!store->Write(KeyOf(key), ValueOf(key, 1)).ok()) ::_exit(2);
        done->fetch_add(1);
      }
      return 0;
    });
    ASSERT_EQ(end, -1 - SIGKILL);
    const auto store = OpenStore(store_dir());
    ASSERT_NE(store, nullptr);
    const uint64_t acknowledged = done->load();
    // One more may have been on its way.
    const uint64_t found = acknowledged + VersionOf(store.get(), NthKey(acknowledged));
    for (uint64_t i = 0; i < found; ++i) model_[NthKey(i)] = 1;
    ExpectHolds(store.get(), model_);
  }
  ::munmap(done, 4096);
}

INSTANTIATE_TEST_SUITE_P(Paths, StripedStoreTest, testing::Values(2U, 3U, 5U));

class StripedDamageTest : public testing::Test {
 protected:
  static constexpr uint64_t kKeyCount = 600;

  void SetUp() override {
    options_ = StripedOptions(dir_, 3);
    const auto store = OpenStore(dir_.Join("store"), options_);
    for (uint64_t i = 0; i < kKeyCount; ++i) {
      // Ascending: slot i / kBucketCount of bucket i % kBucketCount.
      ASSERT_TRUE(store->Write(KeyOf(Key(i)), ValueOf(Key(i), 1)).ok());
    }
  }
  static uint64_t Key(uint64_t i) { return (i % kBucketCount << 61) + i / kBucketCount; }

  TempDir dir_{FastParent()};
  Options options_;
};

TEST_F(StripedDamageTest, AFlippedByteIsCorruptionOfItsPath) {
  // The middle of the value of key number 18 * 8 + 3: slot 18 of bucket 3, segment 0, path 3 % 3.
  const uint64_t key = Key(18 * kBucketCount + 3);
  const std::string path = options_.paths[0];
  std::string file;
  uint64_t offset = 0;
  {
    StoreFiles files;
    ASSERT_TRUE(OpenStoreFilesToRead(dir_.Join("store"), &files).ok());
    const SlotLocation location = files.slots.LocateValues(3, 18);
    file = location.file->name();
    ASSERT_TRUE(file.ends_with(" of " + path)) << file;
    offset = location.offset + 2000;
  }
  UniqueFd fd;
  const std::string name = path + "/" + file.substr(0, file.find(' '));
  ASSERT_TRUE(sys::OpenAt(AT_FDCWD, name, O_RDWR, 0, &fd).ok());
  char byte = 0;
  ASSERT_TRUE(sys::PreadFull(fd.get(), &byte, 1, offset).ok());
  byte = static_cast<char>(byte ^ 1);
  ASSERT_TRUE(sys::PwriteFull(fd.get(), &byte, 1, offset).ok());

  {
    const auto store = OpenStore(dir_.Join("store"));
    std::string value;
    const Status read = store->Read(KeyOf(key), &value);
    EXPECT_EQ(read.code(), Code::kCorruption);
    EXPECT_NE(read.message().find(file), std::string::npos) << read.ToString();
    const Status ranged = store->Range("", "", [](std::string_view, std::string_view) {});
    EXPECT_EQ(ranged.code(), Code::kCorruption);
    EXPECT_NE(ranged.message().find(file), std::string::npos) << ranged.ToString();
    for (uint64_t i = 0; i < kKeyCount; ++i) {
      if (Key(i) == key) continue;
      EXPECT_EQ(VersionOf(store.get(), Key(i)), 1u) << i;
    }
  }
  VerifyReport report;
  std::vector<BadRecord> bad;
  EXPECT_EQ(Store::Verify({}, dir_.Join("store"), &report,
                          [&](const BadRecord& record) { bad.push_back(record); })
                .code(),
            Code::kCorruption);
  ASSERT_EQ(bad.size(), 1u);
  EXPECT_EQ(bad[0].file, file);
  EXPECT_EQ(bad[0].bucket, 3u);
  EXPECT_EQ(bad[0].slot, 18u);
}

// A value log that has been cut short under an open store.
TEST_F(StripedDamageTest, AShortReadNamesItsPath) {
  const auto store = OpenStore(dir_.Join("store"));
  fs::resize_file(options_.paths[2] + "/value_00", 0);
  std::string value;
  // Bucket 2: unit 0.
  const Status read = store->Read(KeyOf(Key(2)), &value);
  EXPECT_EQ(read.code(), Code::kIOError);
  EXPECT_NE(read.message().find("value_00 of " + options_.paths[2]), std::string::npos)
      << read.ToString();
  EXPECT_EQ(VersionOf(store.get(), Key(1)), 1u) << "on path 1";
  const Status ranged = store->Range("", "", [](std::string_view, std::string_view) {});
  EXPECT_EQ(ranged.code(), Code::kIOError);
  EXPECT_NE(ranged.message().find("value_00 of " + options_.paths[2]), std::string::npos)
      << ranged.ToString();
}

TEST(StripedFullTest, FullPathsRefuseWritesUntilTheyHaveRoom) {
  TempDir dir(FastParent());
  const Options options = StripedOptions(dir, 2);
  for (const std::string& path : options.paths) {
    fs::create_directories(path);
    if (::mount("none", path.c_str(), "tmpfs", 0, "size=3m") != 0) {
      GTEST_SKIP() << "no file system can be mounted here";
    }
  }
  std::map<uint64_t, uint64_t> held;
  {
    const auto store = OpenStore(dir.Join("store"), options);
    ASSERT_NE(store, nullptr);
    Status status;
    for (uint64_t i = 0; i < 4096 && status.ok(); ++i) {
      status = store->Write(KeyOf(NthKey(i)), ValueOf(NthKey(i), 1));
      if (status.ok()) held[NthKey(i)] = 1;
    }
    EXPECT_EQ(status.code(), Code::kFull) << status.ToString();
    EXPECT_TRUE(status.message().find(" of " + options.paths[0]) != std::string::npos ||
                status.message().find(" of " + options.paths[1]) != std::string::npos)
        << status.ToString();
    EXPECT_GT(held.size(), 256u);
    EXPECT_EQ(VersionOf(store.get(), NthKey(held.size())), 0u) << "what was refused is not there";
    ExpectHolds(store.get(), held);
  }
  {
    const auto store = OpenStore(dir.Join("store"));
    ASSERT_NE(store, nullptr);
    ExpectHolds(store.get(), held);
    for (const std::string& path : options.paths) {
      ASSERT_EQ(::mount("none", path.c_str(), "tmpfs", MS_REMOUNT, "size=64m"), 0);
    }
    for (uint64_t i = 0; i < 1000; ++i) {
      ASSERT_TRUE(store->Write(KeyOf(NthKey(i)), ValueOf(NthKey(i), 2)).ok());
      held[NthKey(i)] = 2;
    }
    ASSERT_TRUE(store->Sync().ok());
    ExpectHolds(store.get(), held);
  }
  for (const std::string& path : options.paths) EXPECT_EQ(::umount2(path.c_str(), MNT_DETACH), 0);
}

}  // namespace
}  // namespace engine_race::test
