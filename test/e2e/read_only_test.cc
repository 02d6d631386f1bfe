// Stores that are open for reading only: by several processes, on mounts and in files that may not
// be written to, and after a crash. Nothing of such a store changes.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "test/e2e/copied_disks.h"
#include "test/e2e/engine_fixture.h"
#include "test/e2e/store_image.h"
#include "test/log/page_cache_test_util.h"

namespace engine_race::test {
namespace {

constexpr int kMayNotMount = 100;

Options ReadOnly() {
  Options options;
  options.read_only = true;
  return options;
}

// The bytes, sizes, space and times of everything in a directory, and those of the directory.
struct Fingerprint {
  explicit Fingerprint(const std::string& dir) : image(StoreImage::Load(dir)) {
    Add(dir);
    for (const auto& entry : std::filesystem::directory_iterator(dir)) Add(entry.path());
  }
  void Add(const std::string& path) {
    struct stat info = {};
    EXPECT_EQ(::lstat(path.c_str(), &info), 0) << path;
    stats[path] = {info.st_size,
                   info.st_blocks,
                   info.st_mtim.tv_sec,
                   info.st_mtim.tv_nsec,
                   info.st_ctim.tv_sec,
                   info.st_ctim.tv_nsec,
                   static_cast<int64_t>(info.st_ino)};
  }
  bool operator==(const Fingerprint&) const = default;

  StoreImage image;
  std::map<std::string, std::array<int64_t, 7>> stats;
};

class ReadOnlyTest : public ::testing::Test {
 protected:
  // Segments, rows that were freed and filled again, deletions, a large batch, staged records and
  // an index on disk.
  void Make() {
    Options options = TinyOptions();
    // An index on disk, of buckets that are too small to be saved otherwise.
    options.index_memory_bytes = 0;
    const auto store = OpenStore(store_, options);
    ASSERT_NE(store, nullptr);
    for (uint64_t end = 700; end <= 2800; end += 700) {
      Change(store.get(), end - 700, end, &contents_);
      ASSERT_TRUE(store->Compact().ok());
    }
    WriteBatch batch;
    for (uint64_t i = 0; i < 600; ++i) {
      const uint64_t key = NthKey(10000 + i);
      ASSERT_TRUE(batch.Put(KeyOf(key), ValueOf(key, 3)).ok());
      contents_[key] = 3;
    }
    ASSERT_TRUE(store->Write(batch).ok());
    std::string value;
    ASSERT_TRUE(store->Read(KeyOf(NthKey(10000)), &value).ok());
    Change(store.get(), 2800, 2807, &contents_);
  }

  // 0 when the store holds what it must, by every call that reads.
  int Reads(const Options& options) const {
    std::unique_ptr<Store> store;
    const Status opened = Store::Open(AsRun(options), store_, &store);
    if (!opened.ok()) {
      std::fprintf(stderr, "%s\n", opened.ToString().c_str());
      return 1;
    }
    return ReadsAll(store.get());
  }
  int ReadsAll(Store* store) const {
    KeyVersions found;
    const auto add = [&found](std::string_view key, std::string_view value) {
      const uint64_t number = DecodeKey(key.data());
      uint64_t version = 0;
      if (ParseValue(number, value, &version)) found[number] = version;
    };
    if (!store->Range("", "", add).ok() || found != contents_) return 2;
    std::vector<std::string> texts;
    for (const auto& [key, version] : contents_) texts.push_back(KeyOf(key));
    std::vector<std::string_view> keys(texts.begin(), texts.end());
    std::vector<std::string> values(keys.size());
    std::vector<Status> statuses(keys.size());
    if (!store->MultiRead(keys, values, statuses).ok()) return 3;
    Snapshot snapshot;
    if (!store->GetSnapshot(&snapshot).ok()) return 4;
    Iterator iterator;
    if (!store->NewIterator({}, &iterator).ok()) return 5;
    iterator.SeekToFirst();
    std::string value;
    for (size_t i = 0; i < keys.size(); ++i, iterator.Next()) {
      if (!statuses[i].ok() || !iterator.Valid() || iterator.key() != keys[i]) return 6;
      if (iterator.value() != values[i]) return 7;
      if (!store->Read(keys[i], &value).ok() || value != values[i]) return 8;
      if (!store->Read(snapshot, keys[i], &value).ok() || value != values[i]) return 9;
    }
    return store->Stats().record_count >= contents_.size() ? 0 : 10;
  }

  // With the directory mounted read-only, in a child.
  int OnReadOnlyMount(const std::function<int()>& run) const {
    return InChild([&] {
      // Mounts of the child's own, gone with it.
      const char* const dir = store_.c_str();
      if (::unshare(CLONE_NEWNS) != 0 ||
          ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
          ::mount(dir, dir, nullptr, MS_BIND, nullptr) != 0 ||
          ::mount(nullptr, dir, nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr) != 0) {
        return kMayNotMount;
      }
      return run();
    });
  }

  uint64_t StoreId() const { return IdentityOf(store_).store_id; }

  TempDir dir_;
  const std::string store_ = dir_.Join("store");
  KeyVersions contents_;
};

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

// What would write by itself does not.
TEST_F(ReadOnlyTest, OptionsOfWritingHaveNoEffect) {
  Make();
  Options options = ReadOnly();
  options.sync_mode = SyncMode::kGroup;
  options.sync_on_close = true;
  options.stats_interval_ms = kMinStatsIntervalMs;
  options.index_idle_ms = 1;
  options.reclaim_dead_percent = 1;
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
  EXPECT_EQ(Store::Open(ReadOnly(), store_, &store).code(), Code::kNotFound);
  EXPECT_FALSE(std::filesystem::exists(store_));
  std::filesystem::create_directory(store_);
  EXPECT_EQ(Store::Open(ReadOnly(), store_, &store).code(), Code::kNotFound);
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
  const int read = OnReadOnlyMount([&] { return Reads(ReadOnly()); });
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
              const bool root = ::geteuid() == 0;
              if (root && (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0)) return 30;
              return Reads(ReadOnly());
            }),
            0);
  EXPECT_TRUE(Fingerprint(store_) == before);
  ASSERT_EQ(::chmod(store_.c_str(), 0755), 0);
}

// Killed with staged records and groups on their way: readers find all of it as it is.
TEST_F(ReadOnlyTest, AKilledWriterNeedsNoRecovery) {
  for (const SyncMode mode : {SyncMode::kNone, SyncMode::kGroup}) {
    std::filesystem::remove_all(store_);
    contents_.clear();
    Options options = TinyOptions();
    options.sync_mode = mode;
    options.journal_bytes = kMinJournalBytes;
    ASSERT_EQ(InChild([&] {
                KeyVersions ignored;
                const auto store = OpenStore(store_, options);
                Change(store.get(), 0, 1000, &ignored);
                WriteBatch batch;
                for (uint64_t i = 0; i < 5; ++i) {
                  const uint64_t key = NthKey(20000 + i);
                  if (!batch.Put(KeyOf(key), ValueOf(key, 2)).ok()) return 1;
                }
                if (!store->Write(batch).ok()) return 2;
                return ::kill(::getpid(), SIGKILL);
              }),
              -1 - SIGKILL);
    for (uint64_t i = 0; i < 1000; ++i) {
      const uint64_t key = NthKey(i % 701);
      if (i % 11 == 7) {
        contents_.erase(key);
      } else {
        contents_[key] = i + 1;
      }
    }
    for (uint64_t i = 0; i < 5; ++i) contents_[NthKey(20000 + i)] = 2;
    const Fingerprint before(store_);
    EXPECT_EQ(InChild([&] { return Reads(ReadOnly()); }), 0);
    EXPECT_TRUE(Fingerprint(store_) == before);
  }
}

// After a restart that lost nothing, readers verify what was not synced, and change nothing.
TEST_F(ReadOnlyTest, ARestartThatLostNothing) {
  Make();
  Restart(store_, StoreId());
  const Fingerprint before(store_);
  EXPECT_EQ(InChild([&] { return Reads(ReadOnly()); }), 0);
  EXPECT_TRUE(Fingerprint(store_) == before);
}

// A power loss took staged records: the opening recovers the store as a writer does.
TEST_F(ReadOnlyTest, RecoversFirst) {
  Make();
  LosePower(store_, StoreId());
  const StoreImage lost = StoreImage::Load(store_);
  const auto contents_after = [&] {
    lost.WriteTo(store_);
    return ContentsOf(store_);
  };
  const KeyVersions recovered = contents_after();
  ASSERT_NE(recovered, contents_);
  contents_ = recovered;
  lost.WriteTo(store_);
  EXPECT_EQ(InChild([&] { return Reads(ReadOnly()); }), 0);
  const Fingerprint before(store_);
  EXPECT_EQ(InChild([&] { return Reads(ReadOnly()); }), 0);
  EXPECT_TRUE(Fingerprint(store_) == before) << "it is recovered once";
}

// Several at once: each of them reads, whichever of them recovers.
TEST_F(ReadOnlyTest, RecoversFirstForAll) {
  Make();
  LosePower(store_, StoreId());
  const StoreImage lost = StoreImage::Load(store_);
  contents_ = ContentsOf(store_);
  lost.WriteTo(store_);
  std::array<int, 2> go{};
  ASSERT_EQ(::pipe(go.data()), 0);
  // One reader holds the store back from recovery until all others want it.
  std::vector<pid_t> readers;
  for (int i = 0; i < 3; ++i) {
    const pid_t reader = ::fork();
    if (reader != 0) {
      readers.push_back(reader);
      continue;
    }
    char byte = 0;
    if (::read(go[0], &byte, 1) != 1) ::syscall(SYS_exit_group, 20);
    std::unique_ptr<Store> store;
    Status opened;
    // The one that recovers keeps others out meanwhile.
    do {
      opened = Store::Open(AsRun(ReadOnly()), store_, &store);
    } while (opened.error() == EAGAIN);
    ::syscall(SYS_exit_group, opened.ok() ? ReadsAll(store.get()) : 21);
  }
  EXPECT_EQ(::write(go[1], "123", 3), 3);
  for (const pid_t reader : readers) {
    int status = -1;
    ASSERT_EQ(::waitpid(reader, &status, 0), reader);
    EXPECT_EQ(status, 0);
  }
  ::close(go[0]);
  ::close(go[1]);
}

TEST_F(ReadOnlyTest, ARecoveryThatMayNotWriteIsRefused) {
  Make();
  LosePower(store_, StoreId());
  const Fingerprint before(store_);
  const int read = OnReadOnlyMount([&] {
    std::unique_ptr<Store> store;
    const Status opened = Store::Open(ReadOnly(), store_, &store);
    if (opened.code() != Code::kIncomplete) return 1;
    return opened.message().find("needs a recovery") != std::string::npos ? 0 : 2;
  });
  if (read == kMayNotMount) GTEST_SKIP() << "mounting needs root";
  EXPECT_EQ(read, 0);
  EXPECT_TRUE(Fingerprint(store_) == before);
}

}  // namespace
}  // namespace engine_race::test
