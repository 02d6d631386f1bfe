// What the thread that opens a store does not wait for before its first read, and what must then
// be made up for.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "test/e2e/reclaim_fixture.h"
#include "test/faults/system_calls.h"

namespace engine_race::test {
namespace {

// The calls of the thread that makes it, each with the name of its file: "pread key_rows".
class OwnCalls : public SystemCallHook {
 public:
  long OnCall(SystemCall* call) override {
    if (::gettid() == owner_) {
      const std::string path = PathOf(*call);
      calls.push_back(CallName(call->kind) + std::string(" ") + path.substr(path.rfind('/') + 1));
    }
    return call->Proceed();
  }
  // Of the calls that begin so: how many there were, and the number of the first of them.
  size_t CountOf(const std::string& begin) const {
    return static_cast<size_t>(
        std::count_if(calls.begin(), calls.end(),
                      [&](const std::string& call) { return call.starts_with(begin); }));
  }
  size_t FirstOf(const std::string& begin) const {
    size_t number = 0;
    while (number < calls.size() && !calls[number].starts_with(begin)) ++number;
    return number;
  }

  std::vector<std::string> calls;

 private:
  const pid_t owner_ = ::gettid();
};

// The reads of counts and rows by any thread, each with its first byte and its size.
class CountsAndRows : public SystemCallHook {
 public:
  struct Part {
    bool is_of_rows = false;
    uint64_t offset = 0;
    uint64_t size = 0;
  };
  long OnCall(SystemCall* call) override {
    if (call->kind == CallKind::kPread) {
      const std::string path = PathOf(*call);
      const bool is_of_rows = path.ends_with(format::kRowsName);
      const std::lock_guard lock(mutex_);
      if (is_of_rows || path.ends_with(format::kStagingCountsName)) {
        parts.push_back({is_of_rows, static_cast<uint64_t>(call->offset), call->size});
      }
    }
    return call->Proceed();
  }
  std::vector<Part> parts;

 private:
  std::mutex mutex_;
};

// The names of the files whose maps of blocks other threads have asked for.
class MapsOfOthers : public SystemCallHook {
 public:
  long OnCall(SystemCall* call) override {
    if (call->kind == CallKind::kLseek) {
      const std::string path = PathOf(*call);
      const std::lock_guard lock(mutex_);
      (::gettid() == owner_ ? own : others).insert(path.substr(path.rfind('/') + 1));
    }
    return call->Proceed();
  }
  std::set<std::string> own;
  std::set<std::string> others;

 private:
  const pid_t owner_ = ::gettid();
  std::mutex mutex_;
};

class OpenWaitsTest : public ReclaimTest {
 protected:
  // A store with free rows, which was closed. *own has the calls of its opening alone.
  void OpenWithRows(OwnCalls* own) {
    SetRegions(64);
    options_.reclaim = Reclaim::kOff;
    ASSERT_NO_FATAL_FAILURE(Open());
    WriteAll(0, 20 * kRowRecords, 1);
    WriteAll(0, 20 * kRowRecords, 2);
    ASSERT_NO_FATAL_FAILURE(Compact());
    store_.reset();
    ASSERT_TRUE(HasRowFile());
    own->calls.clear();
    ASSERT_NO_FATAL_FAILURE(Open());
  }
  // Rewrites the keys of one row, as they were first written.
  void WriteRow(uint64_t row, uint64_t version) {
    for (uint64_t i = row * kRowRecords; i < (row + 1) * kRowRecords; ++i) {
      ASSERT_NO_FATAL_FAILURE(Write(i, version));
    }
  }
  // Opens a store of one bucket with free rows that lie apart. Its index is on disk.
  void OpenWithIndex(IoBackend backend) {
    store_.reset();
    std::filesystem::remove_all(dir_.path());
    options_.reclaim = Reclaim::kOff;
    options_.key_group_bytes = kRowRecords * kKeyEntryBytes;
    options_.io_backend = backend;
    ASSERT_NO_FATAL_FAILURE(OpenOneRegion(64));
    for (uint64_t row = 0; row < 20; ++row) ASSERT_NO_FATAL_FAILURE(WriteRow(row, 1));
    for (const uint64_t row : {0, 2, 4, 6}) ASSERT_NO_FATAL_FAILURE(WriteRow(row, 2));
    ASSERT_NO_FATAL_FAILURE(Compact());
    // The index goes to disk when the store is closed.
    std::string value;
    ASSERT_TRUE(store_->Read(KeyBytes(SpreadKey(0)).view(), &value).ok());
    ASSERT_NO_FATAL_FAILURE(Open());
  }
  // How often the thread that makes a first read waits for reads of the key log meanwhile. The
  // index on disk lacks the records of three rows that lie apart.
  void CountKeyReads(IoBackend backend, size_t* count) {
    ASSERT_NO_FATAL_FAILURE(OpenWithIndex(backend));
    // They take the rows of records that are superseded.
    for (const uint64_t row : {1, 3, 5}) ASSERT_NO_FATAL_FAILURE(WriteRow(row, 3));
    ASSERT_NO_FATAL_FAILURE(Open());
    OwnCalls own;
    std::string value;
    {
      const ScopedHook hook(&own);
      ASSERT_TRUE(store_->Read(KeyBytes(SpreadKey(kRowRecords)).view(), &value).ok());
    }
    EXPECT_EQ(value, ValueOf(SpreadKey(kRowRecords), 3));
    *count = own.CountOf("pread key_0");
    ASSERT_NO_FATAL_FAILURE(ExpectHeld());
  }
};

TEST_F(OpenWaitsTest, AnOpeningFlushesNothing) {
  OwnCalls own;
  const ScopedHook hook(&own);
  ASSERT_NO_FATAL_FAILURE(OpenWithRows(&own));
  EXPECT_EQ(own.CountOf("fdatasync"), 0u);
  EXPECT_EQ(own.CountOf("fsync"), 0u);
}

// They may be free in the page cache alone, and so may be the watermark below which the records
// are synced that took the place of theirs.
TEST_F(OpenWaitsTest, RowsThatWereFoundFreeAreFlushedBeforeOneIsTaken) {
  OwnCalls own;
  const ScopedHook hook(&own);
  ASSERT_NO_FATAL_FAILURE(OpenWithRows(&own));
  for (uint64_t i = 0; own.CountOf("pwrite key_rows") == 0; ++i) {
    ASSERT_LT(i, options_.bucket_count * 2 * kRowRecords) << "no row was taken";
    ASSERT_NO_FATAL_FAILURE(Write(i, 3));
  }
  EXPECT_LT(own.FirstOf("fdatasync staging_counts"), own.FirstOf("fdatasync key_rows"));
  EXPECT_LT(own.FirstOf("fdatasync key_rows"), own.FirstOf("pwrite key_rows"));
  // Once is enough.
  WriteAll(0, 20 * kRowRecords, 4);
  EXPECT_EQ(own.CountOf("fdatasync staging_counts"), 1u);
}

TEST_F(OpenWaitsTest, RowsThatWereFoundFreeAreFlushedBeforeTheyArePunchedOut) {
  OwnCalls own;
  const ScopedHook hook(&own);
  ASSERT_NO_FATAL_FAILURE(OpenWithRows(&own));
  ASSERT_NO_FATAL_FAILURE(Compact());
  EXPECT_LT(own.FirstOf("fdatasync staging_counts"), own.FirstOf("fdatasync key_rows"));
  EXPECT_LT(own.FirstOf("fdatasync key_rows"), own.FirstOf("fallocate"));
}

// Reads ahead end in about the order in which they began.
TEST_F(OpenWaitsTest, OfTheRowsTheLastAreWaitedForFirst) {
  OwnCalls own;
  ASSERT_NO_FATAL_FAILURE(OpenWithRows(&own));
  store_.reset();
  CountsAndRows read;
  const ScopedHook hook(&read);
  ASSERT_NO_FATAL_FAILURE(Open());
  ASSERT_GE(read.parts.size(), 3u);
  EXPECT_FALSE(read.parts[0].is_of_rows) << "rows are read once the counts are known";
  EXPECT_TRUE(read.parts[1].is_of_rows);
  EXPECT_EQ(read.parts[1].offset + read.parts[1].size,
            std::filesystem::file_size(dir_.Join(format::kRowsName)));
}

TEST_F(OpenWaitsTest, RowsThatLieApartAreReadAtOnce) {
  size_t one_by_one = 0;
  ASSERT_NO_FATAL_FAILURE(CountKeyReads(IoBackend::kPsync, &one_by_one));
  size_t at_once = 0;
  ASSERT_NO_FATAL_FAILURE(CountKeyReads(IoBackend::kAuto, &at_once));
  EXPECT_EQ(one_by_one, at_once + 3);
}

// By another thread, so that the read waits for none of them alone.
TEST_F(OpenWaitsTest, AFirstReadHasTheMapsOfItsFilesRead) {
  ASSERT_NO_FATAL_FAILURE(OpenWithIndex(IoBackend::kAuto));
  MapsOfOthers maps;
  const ScopedHook hook(&maps);
  std::string value;
  ASSERT_TRUE(store_->Read(KeyBytes(SpreadKey(0)).view(), &value).ok());
  // Waits for the threads of the store.
  store_.reset();
  EXPECT_TRUE(maps.own.empty());
  const auto has = [&maps](const std::string& begin) {
    return std::any_of(maps.others.begin(), maps.others.end(),
                       [&](const std::string& name) { return name.starts_with(begin); });
  };
  EXPECT_TRUE(has(format::kKeyFilePrefix + std::string("0")));
  EXPECT_TRUE(has(format::kIndexFilePrefix));
  EXPECT_TRUE(has(format::kValueFilePrefix));
}

}  // namespace
}  // namespace engine_race::test
