// What the thread that opens a store does not wait for before its first read, and what must then
// be made up for.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "test/e2e/reclaim_fixture.h"
#include "test/faults/system_calls.h"

namespace engine_race::test {
namespace {

// All calls. By the names of their files, "pread key_rows", the calls of the thread that makes it.
class OwnCalls : public SystemCallHook {
 public:
  struct Call {
    bool is_own = false;
    std::string name;
    uint64_t offset = 0;
    uint64_t size = 0;
  };
  long OnCall(SystemCall* call) override {
    const std::string path = PathOf(*call);
    std::string name = CallName(call->kind) + std::string(" ") + path.substr(path.rfind('/') + 1);
    {
      const std::lock_guard lock(mutex_);
      calls.push_back(
          {::gettid() == owner_, std::move(name), static_cast<uint64_t>(call->offset), call->size});
    }
    return call->Proceed();
  }
  // Of the calls that begin so: how many there were, and the number of the first of them.
  size_t CountOf(const std::string& begin, bool own = true) const {
    return static_cast<size_t>(std::count_if(calls.begin(), calls.end(), [&](const Call& call) {
      return call.is_own == own && call.name.starts_with(begin);
    }));
  }
  size_t FirstOf(const std::string& begin) const {
    size_t number = 0;
    while (number < calls.size() &&
           !(calls[number].is_own && calls[number].name.starts_with(begin))) {
      ++number;
    }
    return number;
  }

  std::vector<Call> calls;  // to be looked at while no other thread makes any

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
  // How many preads of the key log an opening and its first read take. The index on disk lacks the
  // records of three rows that lie apart. On a busy machine the restorer comes to the bucket first.
  void CountKeyReads(IoBackend backend, size_t* count) {
    ASSERT_NO_FATAL_FAILURE(OpenWithIndex(backend));
    // They take the rows of records that are superseded.
    for (const uint64_t row : {1, 3, 5}) ASSERT_NO_FATAL_FAILURE(WriteRow(row, 3));
    store_.reset();
    OwnCalls calls;
    std::string value;
    {
      const ScopedHook hook(&calls);
      ASSERT_NO_FATAL_FAILURE(Open());
      ASSERT_TRUE(store_->Read(KeyBytes(SpreadKey(kRowRecords)).view(), &value).ok());
    }
    EXPECT_EQ(value, ValueOf(SpreadKey(kRowRecords), 3));
    ASSERT_NO_FATAL_FAILURE(ExpectHeld());
    store_.reset();
    *count =
        calls.CountOf("pread key_0", /*own=*/true) + calls.CountOf("pread key_0", /*own=*/false);
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
  OwnCalls calls;
  const ScopedHook hook(&calls);
  ASSERT_NO_FATAL_FAILURE(Open());
  std::vector<OwnCalls::Call> reads;
  const std::string counts = std::string("pread ") + format::kStagingCountsName;
  const std::string rows = std::string("pread ") + format::kRowsName;
  for (const OwnCalls::Call& call : calls.calls) {
    if (call.name == counts || call.name == rows) reads.push_back(call);
  }
  ASSERT_GE(reads.size(), 3u);
  EXPECT_EQ(reads[0].name, counts) << "rows are read once the counts are known";
  EXPECT_EQ(reads[1].name, rows);
  EXPECT_EQ(reads[1].offset + reads[1].size,
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
  OwnCalls calls;
  const ScopedHook hook(&calls);
  std::string value;
  ASSERT_TRUE(store_->Read(KeyBytes(SpreadKey(0)).view(), &value).ok());
  // Waits for the threads of the store.
  store_.reset();
  EXPECT_EQ(calls.CountOf("lseek "), 0u);
  for (const char* const file : {"key_0", "key_index_", "value_"}) {
    EXPECT_GT(calls.CountOf(std::string("lseek ") + file, /*own=*/false), 0u) << file;
  }
}

}  // namespace
}  // namespace engine_race::test
