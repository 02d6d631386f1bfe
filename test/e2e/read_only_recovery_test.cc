// Stores that are opened for reading only after a kill or a power loss: what needs no recovery is
// read as it is, what needs one is recovered first or refused.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine_race/log/directory_lock.h"
#include "test/e2e/read_only_fixture.h"
#include "test/faults/call_watch.h"
#include "test/log/page_cache_test_util.h"

namespace engine_race::test {
namespace {

using ReadOnlyRecoveryTest = ReadOnlyTest;

std::vector<BucketState> StatesOf(const std::string& dir) {
  StoreFiles files;
  EXPECT_TRUE(OpenStoreFilesToRead(dir, &files).ok());
  std::vector<BucketState> states;
  EXPECT_TRUE(Staging(files).ReadCounts(&states).ok());
  return states;
}

// Killed with staged records and groups on their way: readers find all of it as it is.
TEST_F(ReadOnlyRecoveryTest, AKilledWriterNeedsNoRecovery) {
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
    Change(nullptr, 0, 1000, &contents_);
    for (uint64_t i = 0; i < 5; ++i) contents_[NthKey(20000 + i)] = 2;
    const Fingerprint before(store_);
    EXPECT_EQ(InChild([&] { return Reads(ReadOnly()); }), 0);
    EXPECT_TRUE(Fingerprint(store_) == before);
  }
}

// After a restart that lost nothing, readers verify what was not synced, and change nothing.
TEST_F(ReadOnlyRecoveryTest, ARestartThatLostNothing) {
  Make();
  Restart(store_, StoreId());
  const Fingerprint before(store_);
  EXPECT_EQ(InChild([&] { return Reads(ReadOnly()); }), 0);
  EXPECT_TRUE(Fingerprint(store_) == before);
}

// A power loss took the last counts, and not what the log got meanwhile. A writer goes on from the
// log, so readers must not stay behind, wherever the count ends. Rows that were freed before are
// filled again with runs of records, and some counts end where a run begins.
TEST_F(ReadOnlyRecoveryTest, CountsThatAreOlderThanTheLog) {
  constexpr uint64_t kAppended = 600;
  Make();
  const StoreImage base = StoreImage::Load(store_);
  const uint64_t begin = StatesOf(store_)[0].record_count;
  const auto append = [this](uint64_t count) {
    // Reclaim would make the counts durable before it frees a slot.
    Options options = TinyOptions();
    options.reclaim = Reclaim::kOff;
    const auto store = OpenStore(store_, options);
    // All in the first bucket.
    for (uint64_t i = 0; i < count; ++i) {
      ASSERT_TRUE(store->Write(KeyOf(i), ValueOf(i, 1)).ok());
    }
  };
  append(kAppended);
  const StoreImage late = StoreImage::Load(store_);
  uint64_t run_begin = begin;
  for (const Row& row : StatesOf(store_)[0].table.rows()) {
    if (row.has_run() && row.number < begin + kAppended)
      run_begin = std::max(run_begin, row.number);
  }
  ASSERT_GT(run_begin, begin) << "no row was filled again";
  const uint64_t count = run_begin - begin;
  for (const uint64_t counted : {count, count - 1}) {
    base.WriteTo(store_);
    append(counted);
    StoreImage lost = late;
    for (const auto& [name, node] : StoreImage::Load(store_).nodes) {
      if (name.starts_with("staging_")) lost.nodes[name] = node;
    }
    lost.WriteTo(store_);
    Restart(store_, StoreId());
    lost = StoreImage::Load(store_);
    contents_ = ContentsOf(store_);
    lost.WriteTo(store_);
    EXPECT_EQ(InChild([&] { return Reads(ReadOnly()); }), 0) << counted;
  }
}

// A power loss took staged records: the opening recovers the store as a writer does.
TEST_F(ReadOnlyRecoveryTest, RecoversFirst) {
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

// Others that look whether the store needs a recovery keep it from that, for a while.
TEST_F(ReadOnlyRecoveryTest, WaitsForOthersThatRead) {
  Make();
  LosePower(store_, StoreId());
  UniqueFd dir;
  ASSERT_TRUE(sys::OpenDirectory(store_, /*create=*/false, &dir).ok());
  std::optional<DirectoryLock> other(std::in_place);
  ASSERT_TRUE(DirectoryLock::TakeToRead(dir.get(), &*other).ok());
  int lock_count = 0;
  CallWatch watch([&](SystemCall* call) {
    if (call->kind == CallKind::kFileLock && ++lock_count == 9) other.reset();
    return call->Proceed();
  });
  const ScopedHook hook(&watch);
  std::unique_ptr<Store> store;
  const Status opened = Store::Open(ReadOnly(), store_, &store);
  EXPECT_TRUE(opened.ok()) << opened.ToString();
  EXPECT_GT(lock_count, 9);
}

// The paths that a reader gives are its own view of them: the store keeps the names that it has.
TEST_F(ReadOnlyRecoveryTest, TheRecoveryKeepsThePaths) {
  Options options = TinyOptions();
  options.paths = {dir_.Join("a"), dir_.Join("b")};
  {
    const auto store = OpenStore(store_, options);
    Change(store.get(), 0, 1000, &contents_);
  }
  LosePower(store_, StoreId());
  const std::string manifest = store_ + "/" + format::kManifestName;
  const auto file_of_manifest = std::filesystem::last_write_time(manifest);
  std::filesystem::create_directory_symlink(dir_.Join("a"), dir_.Join("a2"));
  std::filesystem::create_directory_symlink(dir_.Join("b"), dir_.Join("b2"));
  Options read_only = ReadOnly();
  read_only.paths = {dir_.Join("a2"), dir_.Join("b2")};
  EXPECT_EQ(InChild([&] {
              std::unique_ptr<Store> store;
              return Store::Open(AsRun(read_only), store_, &store).ok() ? 0 : 1;
            }),
            0);
  EXPECT_EQ(std::filesystem::last_write_time(manifest), file_of_manifest);
  EXPECT_EQ(IdentityOf(store_).paths, options.paths);
  contents_ = ContentsOf(store_);
  EXPECT_EQ(InChild([&] { return Reads(read_only); }), 0);
}

// Several at once: each of them reads, whichever of them recovers.
TEST_F(ReadOnlyRecoveryTest, RecoversFirstForAll) {
  Make();
  LosePower(store_, StoreId());
  const StoreImage lost = StoreImage::Load(store_);
  contents_ = ContentsOf(store_);
  lost.WriteTo(store_);
  std::array<int, 2> go{};
  ASSERT_EQ(::pipe(go.data()), 0);
  // They begin together.
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
    const Status opened = Store::Open(AsRun(ReadOnly()), store_, &store);
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

TEST_F(ReadOnlyRecoveryTest, ARecoveryThatMayNotWriteIsRefused) {
  Make();
  LosePower(store_, StoreId());
  const Fingerprint before(store_);
  const int read = OnReadOnlyMount(store_, [&] {
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
