// What the thread that opens a store does not wait for before its first read, and what must then
// be made up for.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
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

}  // namespace
}  // namespace engine_race::test
