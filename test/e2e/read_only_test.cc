// Stores that are open for reading only: by several processes, on mounts and in files that may not
// be written to. Nothing of such a store changes.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "test/e2e/read_only_fixture.h"

namespace engine_race::test {
namespace {

TEST_F(ReadOnlyTest, ReadsEverythingAndChangesNothing) {
  Make();
  const Fingerprint before(store_);
  Options paged = ReadOnly();
  paged.index_memory_bytes = 0;
  for (const Options& options : {ReadOnly(), paged}) {
    EXPECT_EQ(InChild([&] { return Reads(options); }), 0);
    EXPECT_TRUE(Fingerprint(store_) == before);
  }
  // Without an index on disk it is built, and stays in memory.
  ASSERT_TRUE(std::filesystem::remove(store_ + "/" + format::kIndexRootName));
  const Fingerprint bare(store_);
  for (const Options& options : {ReadOnly(), paged}) {
    EXPECT_EQ(InChild([&] { return Reads(options); }), 0);
    EXPECT_TRUE(Fingerprint(store_) == bare);
  }
}

// EffectiveOptions turns off what writes by itself, so the store writes no stats.
TEST_F(ReadOnlyTest, EffectiveOptionsAreUsed) {
  Make();
  Options options = ReadOnly();
  options.stats_interval_ms = kMinStatsIntervalMs;
  const Fingerprint before(store_);
  EXPECT_EQ(InChild([&] { return Reads(options); }), 0);
  EXPECT_TRUE(Fingerprint(store_) == before);
}

TEST_F(ReadOnlyTest, DamagedIndexRootStays) {
  Make();
  std::filesystem::resize_file(store_ + "/" + format::kIndexRootName, 5000);
  const Fingerprint before(store_);
  EXPECT_EQ(InChild([&] { return Reads(ReadOnly()); }), 0);
  EXPECT_TRUE(Fingerprint(store_) == before);
}

TEST_F(ReadOnlyTest, CallsThatWriteAreRefused) {
  Make();
  const Fingerprint before(store_);
  {
    const auto store = OpenStore(store_, ReadOnly());
    ASSERT_NE(store, nullptr);
    const std::string key = KeyOf(NthKey(10000));
    WriteBatch one;
    ASSERT_TRUE(one.Put(key, ValueOf(NthKey(10000), 9)).ok());
    WriteBatch small;
    WriteBatch large;
    for (uint64_t i = 0; i < 2000; ++i) {
      if (i < 3) {
        ASSERT_TRUE(small.Delete(KeyOf(NthKey(10000 + i))).ok());
      }
      ASSERT_TRUE(large.Put(KeyOf(NthKey(i)), ValueOf(NthKey(i), 9)).ok());
    }
    for (const Status& status :
         {store->Write(key, ValueOf(NthKey(10000), 9)), store->Delete(key), store->Write(one),
          store->Write(small), store->Write(large), store->Sync(), store->Compact()}) {
      EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.ToString();
      EXPECT_NE(status.message().find("read_only"), std::string::npos) << status.ToString();
    }
    EXPECT_EQ(ReadsAll(store.get()), 0);
  }
  EXPECT_TRUE(Fingerprint(store_) == before);
}

TEST_F(ReadOnlyTest, CopiesOfIt) {
  Make();
  ASSERT_TRUE(OpenStore(store_)->Backup(dir_.Join("first")).ok());
  Change(OpenStore(store_).get(), 2807, 2900, &contents_);
  const Fingerprint before(store_);
  {
    const auto store = OpenStore(store_, ReadOnly());
    ASSERT_NE(store, nullptr);
    EXPECT_TRUE(store->Checkpoint(dir_.Join("checkpoint")).ok());
    EXPECT_TRUE(store->Backup(dir_.Join("full")).ok());
    BackupOptions since;
    since.since = dir_.Join("first");
    EXPECT_TRUE(store->Backup(dir_.Join("since"), since).ok());
    // Nothing notes it.
    since.since = dir_.Join("full");
    EXPECT_EQ(store->Backup(dir_.Join("third"), since).code(), Code::kInvalidArgument);
  }
  EXPECT_TRUE(Fingerprint(store_) == before);
  EXPECT_EQ(ContentsOf(dir_.Join("checkpoint")), contents_);
  for (const char* name : {"full", "since"}) {
    const std::string to = dir_.Join(std::string("of_") + name);
    ASSERT_TRUE(Store::Restore({}, dir_.Join(name), to).ok());
    EXPECT_EQ(ContentsOf(to), contents_);
  }
}

TEST_F(ReadOnlyTest, NoStoreIsMade) {
  std::unique_ptr<Store> store;
  const auto refused_with_words = [&] {
    const Status opened = Store::Open(ReadOnly(), store_, &store);
    return opened.code() == Code::kNotFound && !opened.message().empty();
  };
  EXPECT_TRUE(refused_with_words());
  EXPECT_FALSE(std::filesystem::exists(store_));
  std::filesystem::create_directory(store_);
  EXPECT_TRUE(refused_with_words());
  EXPECT_TRUE(std::filesystem::is_empty(store_));
}

TEST_F(ReadOnlyTest, ManyProcessesReadAndNoneWrites) {
  Make();
  std::array<int, 2> ready{};
  std::array<int, 2> go{};
  ASSERT_EQ(::pipe(ready.data()), 0);
  ASSERT_EQ(::pipe(go.data()), 0);
  constexpr int kReaders = 3;
  std::vector<pid_t> readers;
  for (int i = 0; i < kReaders; ++i) {
    const pid_t reader = ::fork();
    if (reader != 0) {
      readers.push_back(reader);
      continue;
    }
    std::unique_ptr<Store> store;
    char byte = 'r';
    const bool is_open = Store::Open(AsRun(ReadOnly()), store_, &store).ok();
    const bool is_told = ::write(ready[1], &byte, 1) == 1 && ::read(go[0], &byte, 1) == 1;
    ::syscall(SYS_exit_group, is_open && is_told ? ReadsAll(store.get()) : 20);
  }
  char byte = 0;
  for (int i = 0; i < kReaders; ++i) ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  // All of them have it open.
  std::unique_ptr<Store> writer;
  const Status refused = Store::Open({}, store_, &writer);
  EXPECT_EQ(refused.code(), Code::kIOError);
  EXPECT_NE(refused.message().find("open elsewhere"), std::string::npos) << refused.ToString();
  EXPECT_EQ(::write(go[1], "123", kReaders), kReaders);
  for (const pid_t reader : readers) {
    int status = -1;
    ASSERT_EQ(::waitpid(reader, &status, 0), reader);
    EXPECT_EQ(status, 0);
  }
  for (const int fd : {ready[0], ready[1], go[0], go[1]}) ::close(fd);
  EXPECT_TRUE(Store::Open({}, store_, &writer).ok());
  std::unique_ptr<Store> reader;
  const Status late = Store::Open(ReadOnly(), store_, &reader);
  EXPECT_EQ(late.code(), Code::kIOError);
  EXPECT_NE(late.message().find("open elsewhere"), std::string::npos) << late.ToString();
}

TEST_F(ReadOnlyTest, ReadOnlyMount) {
  Make();
  const Fingerprint before(store_);
  const int read = OnReadOnlyMount(store_, [&] { return Reads(ReadOnly()); });
  if (read == kMayNotMount) GTEST_SKIP() << "mounting needs root";
  EXPECT_EQ(read, 0);
  EXPECT_TRUE(Fingerprint(store_) == before);
}

TEST_F(ReadOnlyTest, FilesThatMayOnlyBeRead) {
  Make();
  std::filesystem::permissions(dir_.path(), std::filesystem::perms(0755));
  for (const auto& entry : std::filesystem::directory_iterator(store_)) {
    ASSERT_EQ(::chmod(entry.path().c_str(), 0444), 0);
  }
  ASSERT_EQ(::chmod(store_.c_str(), 0555), 0);
  const Fingerprint before(store_);
  EXPECT_EQ(InChild([&] {
              // Directories above may be closed to others.
              if (::chdir(dir_.path().c_str()) != 0) return 29;
              return DropRights() ? ReadsIn("store", ReadOnly()) : 30;
            }),
            0);
  EXPECT_TRUE(Fingerprint(store_) == before);
  ASSERT_EQ(::chmod(store_.c_str(), 0755), 0);
}

}  // namespace
}  // namespace engine_race::test
