// An index on disk that something happened to: a power loss, a root that is damaged or of another
// store, files that are missing, short or no files, and calls that fail. The answers are right, and
// the log says why the index was built again.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine_race/log/format.h"
#include "test/eventually.h"
#include "test/faults/system_calls.h"
#include "test/index/fail_index_calls.h"
#include "test/index/paged_index_fixture.h"
#include "test/log/page_cache_test_util.h"

namespace engine_race::test {
namespace {

namespace fs = std::filesystem;

class PagedRecoveryTest : public PagedIndexFixture {
 protected:
  static constexpr uint64_t kKeys = 20000;

  PagedRecoveryTest() : PagedIndexFixture(/*frame_count=*/8) {}

  void SaveAndClose() {
    ASSERT_TRUE(index_->Save(~uint64_t{0}).ok());
    Close();
  }
  void FillAndClose() {
    ASSERT_NO_FATAL_FAILURE(Fill(kKeys));
    ASSERT_NO_FATAL_FAILURE(SaveAndClose());
  }
  std::string PathTo(const std::string& name) const { return dir_.Join(name); }
  std::string Root() const { return PathTo(format::kIndexRootName); }
  std::vector<std::string> IndexFiles() const {
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(dir_.path())) {
      const std::string name = entry.path().filename();
      const bool is_root = name.starts_with(format::kIndexRootName);
      if (name.starts_with("key_index_") && !is_root) files.push_back(entry.path());
    }
    EXPECT_FALSE(files.empty());
    return files;
  }
  // Opens a store whose index on disk is of no use, and expects right answers, and new extents.
  void ExpectBuiltAgain() {
    Open();
    ExpectFinds(7);
    ExpectWalks();
    EXPECT_NE(messages_.text(), "") << "nothing was said";
    std::mt19937_64 random(1);
    ASSERT_NO_FATAL_FAILURE(Churn(2000, &random));
    ExpectFinds(7);
  }
};

// A power loss cuts the log behind the coverage of the root, and before the end of what the extents
// hold.
TEST_F(PagedRecoveryTest, ExtentsDoNotHideRecordsThatACutBringsBack) {
  options_.bucket_count = 1;
  options_.file_count = 1;
  options_.bucket_capacity_records = 1 << 18;
  constexpr uint64_t kMany = 160000;
  ASSERT_NO_FATAL_FAILURE(Fill(kMany));
  ASSERT_TRUE(log_->Sync().ok());
  // The first part has a record that stays in its delta, so that the coverage ends here.
  ASSERT_NO_FATAL_FAILURE(Write(newest_.begin()->first));
  const uint64_t written_bytes = index_->written_bytes();
  // The last part is merged with the records that follow. They delete its last keys.
  constexpr uint64_t kDeletes = 14000;
  constexpr uint64_t kKept = 100;
  const uint64_t cut = log_->RecordCount(0) + kKept;
  auto kept = newest_;
  for (uint64_t i = 0; i < kDeletes; ++i) {
    const uint64_t key = newest_.rbegin()->first;
    if (i < kKept) kept.erase(key);
    ASSERT_NO_FATAL_FAILURE(Write(key, /*tombstone=*/true));
  }
  ASSERT_TRUE(Eventually([&] { return index_->written_bytes() > written_bytes; }));
  ASSERT_TRUE(index_->Save(~uint64_t{0}).ok());
  const std::string key_log = PathTo(log_->slots().LocateKeys(0, 0).file->name());
  const uint64_t lost_offset = log_->slots().LocateKeys(0, cut).offset;
  const uint64_t lost_bytes =
      log_->slots().LocateKeys(0, log_->RecordCount(0)).offset - lost_offset;
  const uint64_t store_id = log_->store_id();
  Close();
  LoseBytes(key_log, lost_offset, lost_bytes);
  LosePower(dir_.path(), store_id, options_.bucket_count);
  newest_ = kept;
  Open();
  ASSERT_EQ(log_->RecordCount(0), cut);
  ExpectFinds(3);
  // The slots are used again.
  for (int i = 0; i < 1000; ++i) ASSERT_NO_FATAL_FAILURE(Write(i));
  ExpectFinds(3);
  ExpectWalks();
}

TEST_F(PagedRecoveryTest, ARootThatIsTornOrOfAnotherStoreIsNotBelieved) {
  ASSERT_NO_FATAL_FAILURE(FillAndClose());
  const uint64_t size_bytes = fs::file_size(Root());
  const auto overwrite = [&](uint64_t offset, const std::string& bytes) {
    std::fstream file(Root(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offset));
    file << bytes;
    ASSERT_TRUE(file.flush().good());
  };
  const std::function<void()> kDamages[] = {
      [&] { fs::resize_file(Root(), 0); },
      [&] { fs::resize_file(Root(), size_bytes / 2); },
      // The extents, and the coverage of some buckets.
      [&] { overwrite(64 + 8 * sizeof(format::IndexCoverage) + 8, std::string(100, '\0')); },
      [&] { overwrite(0, std::string(64, '\xff')); },
      [&] { overwrite(64 + 16, std::string(32, '\x5a')); },
      [&] {
        const TempDir other(FastParent());
        Options options = options_;
        options.log = nullptr;
        ASSERT_TRUE(harness::FillKeyLogs(options, other.path(), kKeys, kSeed).ok());
        std::unique_ptr<BucketLog> log;
        std::unique_ptr<Index> index;
        ASSERT_TRUE(BucketLog::Open(options, other.path(), &log).ok());
        ASSERT_TRUE(Index::Build(log.get(), options, &index).ok());
        ASSERT_TRUE(index->Save(~uint64_t{0}).ok());
        fs::copy_file(other.Join(format::kIndexRootName), Root(),
                      fs::copy_options::overwrite_existing);
      },
  };
  for (size_t i = 0; i < std::size(kDamages); ++i) {
    SCOPED_TRACE("damage " + std::to_string(i));
    fs::remove_all(Root());
    Open();
    ASSERT_NO_FATAL_FAILURE(SaveAndClose());
    messages_.Clear();
    kDamages[i]();
    ASSERT_NO_FATAL_FAILURE(ExpectBuiltAgain());
    Close();
  }
}

// As any other file of a store that is none.
TEST_F(PagedRecoveryTest, ARootThatIsNoFileKeepsTheStoreFromOpening) {
  ASSERT_NO_FATAL_FAILURE(FillAndClose());
  const std::function<void()> kPuts[] = {
      [&] { fs::create_directory(Root()); },
      [&] { fs::create_symlink("elsewhere", Root()); },
  };
  for (const auto& put : kPuts) {
    fs::remove(Root());
    put();
    std::unique_ptr<BucketLog> log;
    EXPECT_EQ(BucketLog::Open(options_, dir_.path(), &log).code(), Code::kCorruption);
  }
  EXPECT_FALSE(fs::exists(PathTo("elsewhere"))) << "a symlink was followed";
  fs::remove(Root());
  Open();
  ExpectFinds(7);
}

TEST_F(PagedRecoveryTest, ExtentsThatAreMissingShortOrNoFilesAreBuiltAgain) {
  ASSERT_NO_FATAL_FAILURE(FillAndClose());
  const std::function<void(const std::string&)> kDamages[] = {
      [](const std::string& path) { fs::remove(path); },
      [](const std::string& path) { fs::resize_file(path, 0); },
      [](const std::string& path) { fs::resize_file(path, 5000); },
      // Zeros that the device never got.
      [](const std::string& path) { LoseFile(path); },
      [](const std::string& path) { fs::remove(path), fs::create_directory(path); },
      [](const std::string& path) { fs::remove(path), fs::create_symlink("elsewhere", path); },
  };
  for (size_t i = 0; i < std::size(kDamages); ++i) {
    SCOPED_TRACE("damage " + std::to_string(i));
    const std::string path = IndexFiles().front();
    messages_.Clear();
    kDamages[i](path);
    ASSERT_NO_FATAL_FAILURE(ExpectBuiltAgain());
    Close();
    for (const std::string& file : IndexFiles()) fs::remove_all(file);
    fs::remove_all(Root());
    Open();
    ASSERT_NO_FATAL_FAILURE(SaveAndClose());
  }
  EXPECT_FALSE(fs::exists(PathTo("elsewhere"))) << "a symlink was followed";
}

TEST_F(PagedRecoveryTest, AnIndexThatCannotBeWrittenStaysInMemory) {
  for (const auto& [kind, error] : {std::pair{CallKind::kPwrite, ENOSPC},
                                    {CallKind::kPwrite, EIO},
                                    {CallKind::kOpenAt, EACCES},
                                    {CallKind::kFdatasync, EIO},
                                    {CallKind::kRenameAt, ENOSPC}}) {
    SCOPED_TRACE(std::string(CallName(kind)) + ": " + std::to_string(error));
    for (const auto& entry : fs::directory_iterator(dir_.path())) fs::remove_all(entry.path());
    newest_.clear();
    messages_.Clear();
    FailIndexCalls refuse(kind, error);
    {
      const ScopedHook hook(&refuse);
      ASSERT_NO_FATAL_FAILURE(Fill(kKeys));
      ExpectFinds(7);
      std::mt19937_64 random(1);
      ASSERT_NO_FATAL_FAILURE(Churn(5000, &random));
      ExpectFinds(7);
      ExpectWalks();
      EXPECT_FALSE(index_->Save(~uint64_t{0}).ok());
      // Where the whole build could not page, another thread said so.
      if (kind == CallKind::kPwrite || kind == CallKind::kOpenAt) {
        ASSERT_TRUE(Eventually([&] { return messages_.Said("work on the index on disk failed"); }));
      }
      EXPECT_GT(refuse.count, 0);
      refuse.is_failing = false;
      EXPECT_TRUE(index_->Save(~uint64_t{0}).ok());
      Close();
    }
    Open();
    ExpectFinds(7);
    Close();
  }
}

TEST_F(PagedRecoveryTest, ExtentsThatCannotBeReadAreBuiltAgain) {
  ASSERT_NO_FATAL_FAILURE(FillAndClose());
  std::mt19937_64 random(1);
  constexpr int kShortRead = 0;
  for (const int error : {EIO, kShortRead}) {
    for (const bool reads_first : {true, false}) {
      SCOPED_TRACE((error == EIO ? "EIO" : "short") + std::string(reads_first ? ", reads" : ""));
      messages_.Clear();
      Open();
      FailIndexCalls refuse(CallKind::kPread, error);
      {
        const ScopedHook hook(&refuse);
        if (reads_first) ExpectFinds(97);
        // Merges read extents, too.
        ASSERT_NO_FATAL_FAILURE(Churn(6000, &random));
        ExpectFinds(97);
        EXPECT_GT(refuse.count, 0);
        EXPECT_TRUE(messages_.Said("built again")) << messages_.text();
      }
      ExpectFinds(7);
      ExpectWalks();
      ASSERT_NO_FATAL_FAILURE(SaveAndClose());
    }
  }
}

// A device that fails now and then costs a second read, and no bucket.
TEST_F(PagedRecoveryTest, ABlockThatCannotBeReadOnceIsReadAgain) {
  ASSERT_NO_FATAL_FAILURE(FillAndClose());
  messages_.Clear();
  Open();
  FailIndexCalls refuse(CallKind::kPread, EIO);
  refuse.limit = 1;
  const ScopedHook hook(&refuse);
  ExpectFinds(97);
  EXPECT_GT(refuse.count, 0);
  EXPECT_EQ(messages_.text(), "");
}

TEST_F(PagedRecoveryTest, ALostBucketComesBackPaged) {
  ASSERT_NO_FATAL_FAILURE(FillAndClose());
  Open();
  const uint64_t paged_bytes = index_->memory_bytes();
  FailIndexCalls refuse(CallKind::kPread, EIO);
  {
    const ScopedHook hook(&refuse);
    refuse.limit = 2;
    ExpectFinds(97);
  }
  EXPECT_TRUE(messages_.Said("built again")) << messages_.text();
  EXPECT_LT(index_->memory_bytes(), paged_bytes + kKeys);
}

// Other threads than the one that makes it write some records when they write an extent.
class WriteBesideExtents final : public SystemCallHook {
 public:
  explicit WriteBesideExtents(std::function<void()> write) : write_(std::move(write)) {}
  long OnCall(SystemCall* call) override {
    const bool is_extent = call->kind == CallKind::kPwrite &&
                           std::this_thread::get_id() != maker_ &&
                           PathOf(*call).find("/key_index_") != std::string::npos;
    if (is_extent && !has_begun_.exchange(true)) {
      write_();
      has_written.store(true);
    }
    return call->Proceed();
  }

  std::atomic<bool> has_written{false};

 private:
  const std::thread::id maker_ = std::this_thread::get_id();
  const std::function<void()> write_;
  std::atomic<bool> has_begun_{false};
};

TEST_F(PagedRecoveryTest, AMergeKeepsTheRecordsThatComeMeanwhile) {
  options_.bucket_count = 1;
  options_.file_count = 1;
  ASSERT_NO_FATAL_FAILURE(Fill(kKeys));
  const uint64_t written_bytes = index_->written_bytes();
  std::vector<uint64_t> keys;
  for (const auto& each : newest_) keys.push_back(each.first);
  std::mutex mutex;  // of newest_
  WriteBesideExtents write([&] {
    const std::lock_guard lock(mutex);
    // New keys, and keys that are there, some of which go.
    for (size_t i = 0; i < keys.size(); i += 97) {
      Write(keys[i] + 1);
      Write(keys[i], /*tombstone=*/i % 2 == 0);
    }
  });
  const ScopedHook hook(&write);
  // Fills the delta until the keeper merges it.
  for (size_t i = 0; i < keys.size() && !write.has_written; ++i) {
    const std::lock_guard lock(mutex);
    ASSERT_NO_FATAL_FAILURE(Write(keys[i]));
  }
  ASSERT_TRUE(Eventually([&] { return index_->written_bytes() > written_bytes; }));
  ASSERT_TRUE(write.has_written);
  ExpectFinds();
  ExpectWalks();
}

TEST_F(PagedRecoveryTest, ExtentsThatTheRootNamesOutliveTheirParts) {
  ASSERT_NO_FATAL_FAILURE(FillAndClose());
  Open();
  ASSERT_NO_FATAL_FAILURE(ExpectFinds(97));
  ASSERT_EQ(messages_.text(), "") << "closing freed them";
  std::mt19937_64 random(4);
  ASSERT_NO_FATAL_FAILURE(Churn(7000, &random));
  ASSERT_TRUE(Eventually([&] { return index_->written_bytes() > 0; })) << "nothing was merged";
  // As a kill does, this leaves the root as it was.
  Close();
  messages_.Clear();
  Open();
  ExpectFinds();
  ExpectWalks();
  EXPECT_EQ(messages_.text(), "");
}

// Nothing but the build has written extents, and nobody has closed the store.
TEST_F(PagedRecoveryTest, AnIdleStoreGetsARootOfWhatItsBuildWrote) {
  options_.index_idle_ms = 10;
  ASSERT_NO_FATAL_FAILURE(Fill(kKeys));
  EXPECT_TRUE(Eventually([&] { return fs::exists(Root()); }));
}

}  // namespace
}  // namespace engine_race::test
