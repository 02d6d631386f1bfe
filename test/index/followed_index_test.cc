// An index of a log that follows a writer: what is built while the writer uses slots again.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "engine_race/index/bucket_index.h"
#include "engine_race/index/build.h"
#include "engine_race/index/giant_build.h"
#include "engine_race/index/index.h"
#include "engine_race/index/unread_buckets.h"
#include "test/faults/call_watch.h"
#include "test/index/key_reads.h"
#include "test/log/follower_fixture.h"
#include "test/log_lines.h"

namespace engine_race::test {
namespace {

class FollowedIndexTest : public FollowerTest {
 protected:
  FollowedIndexTest() {
    reading_.follow = reading_.read_only = true;
    reading_.value_bytes = 0;
    reading_.io_backend = IoBackend::kPsync;
    reading_.log = lines_.Callback();
    reading_.index_idle_ms = 0;
  }

  // Bucket 0 has three full rows, and rows at all: one was moved.
  void FollowThreeRows() {
    options_.bucket_capacity_records = 16384;
    ASSERT_NO_FATAL_FAILURE(OpenWriter());
    ASSERT_NO_FATAL_FAILURE(Append(3 * kRow));
    ASSERT_NO_FATAL_FAILURE(MoveRow(0));
    ASSERT_NO_FATAL_FAILURE(Release());
    follower_ = OpenLog(reading_, dir_.path());
    ASSERT_NE(follower_, nullptr);
  }
  void Release() {
    ASSERT_TRUE(writer_->Sync().ok());
    ASSERT_TRUE(writer_->mover().Settle().ok());
    writer_->mover().Release();
  }
  // A row's slots get other records. Those that lay there were moved.
  void UseRowAgain(uint32_t row) {
    ASSERT_NO_FATAL_FAILURE(MoveRow(row));
    ASSERT_NO_FATAL_FAILURE(Release());
    ASSERT_NO_FATAL_FAILURE(Append(2 * kRow));
  }
  void BuildIndex() {
    const Status built = Index::Build(follower_.get(), reading_, &index_, /*frames=*/nullptr,
                                      /*limit=*/nullptr, Index::Opening::kMayWait);
    ASSERT_TRUE(built.ok()) << built.ToString();
  }
  // Expects the index to find all keys below `end`, in slots that the writer has them in: moved
  // records may have two.
  void ExpectFinds(uint64_t end) {
    std::map<uint64_t, std::set<uint64_t>> slots;
    for (const KeyRecord& record : RecordsOf(writer_.get(), 0)) {
      slots[record.key].insert(record.slot);
    }
    for (uint64_t key = 0; key < end; ++key) {
      ValueRef ref;
      const Status found = index_->Find(key, &ref);
      ASSERT_TRUE(found.ok()) << key << ": " << found.ToString();
      EXPECT_TRUE(slots[key].contains(ref.slot())) << key;
    }
  }
  void TearDown() override {
    if (index_ != nullptr) {
      EXPECT_TRUE(index_->Close(0).ok());
    }
    index_.reset();
  }

  static constexpr uint64_t kRow = 256;

  LogLines lines_;
  Options reading_;
  std::unique_ptr<Index> index_;
};

// Counts the reads of key logs, and calls `change` before the one of that number. What is read
// meanwhile does not count: the change reads, too.
//
// Thread-safe.
class ChangingKeyReads : public SystemCallHook {
 public:
  ChangingKeyReads(uint64_t number, std::function<void()> change)
      : number_(number), change_(std::move(change)) {}
  long OnCall(SystemCall* call) override {
    if (!is_changing_ && ReadsKeyLog(*call) && count++ == number_) {
      is_changing_ = true;
      change_();
      is_changing_ = false;
    }
    return call->Proceed();
  }
  std::atomic<uint64_t> count{0};

 private:
  const uint64_t number_;
  const std::function<void()> change_;
  std::atomic<bool> is_changing_{false};
};

// The cut of the build leads to slots that hold other records by now.
TEST_F(FollowedIndexTest, SlotsThatAreUsedAgainDuringABuildAreNoDamage) {
  ASSERT_NO_FATAL_FAILURE(FollowThreeRows());
  ASSERT_NO_FATAL_FAILURE(BuildIndex());
  ChangingKeyReads reads(0, [this] { UseRowAgain(1); });
  {
    const ScopedHook hook(&reads);
    ValueRef ref;
    const Status found = index_->Find(kRow, &ref);
    ASSERT_TRUE(found.ok()) << found.ToString();
  }
  // The pages lie side by side: one read brings them all.
  constexpr uint64_t kReadsOfABuild = 1;
  EXPECT_GT(reads.count, kReadsOfABuild) << "it is built again";
  ASSERT_NO_FATAL_FAILURE(ExpectFinds(3 * kRow));
  EXPECT_FALSE(lines_.Said("damaged")) << lines_.text();
}

// The entries that the build reads are the old ones, and the bucket has been reset since the cut.
TEST_F(FollowedIndexTest, ABucketThatIsResetDuringItsBuildIsBuiltAgain) {
  ASSERT_NO_FATAL_FAILURE(FollowThreeRows());
  ASSERT_NO_FATAL_FAILURE(BuildIndex());
  ChangingKeyReads reads(0, [this] {
    ASSERT_NO_FATAL_FAILURE(MoveRow(1));
    ASSERT_NO_FATAL_FAILURE(Append(kRow));
    ASSERT_TRUE(Refresh().ok());
    ASSERT_EQ(reset_, std::vector<uint32_t>{0});
  });
  {
    const ScopedHook hook(&reads);
    ValueRef ref;
    const Status found = index_->Find(kRow, &ref);
    ASSERT_TRUE(found.ok()) << found.ToString();
  }
  ASSERT_NO_FATAL_FAILURE(ExpectFinds(4 * kRow));
  ASSERT_NO_FATAL_FAILURE(Append(5));
  ASSERT_TRUE(Refresh().ok());
  EXPECT_TRUE(reset_.empty());
  ASSERT_NO_FATAL_FAILURE(ExpectFinds(4 * kRow + 5));
}

// The call that needs the bucket first builds it anew.
TEST_F(FollowedIndexTest, AResetBucketIsBuiltByTheCallThatNeedsIt) {
  ASSERT_NO_FATAL_FAILURE(FollowThreeRows());
  ASSERT_NO_FATAL_FAILURE(BuildIndex());
  ASSERT_NO_FATAL_FAILURE(ExpectFinds(3 * kRow));
  ASSERT_NO_FATAL_FAILURE(UseRowAgain(1));
  ASSERT_TRUE(Refresh().ok());
  ASSERT_EQ(reset_, std::vector<uint32_t>{0});
  ASSERT_NO_FATAL_FAILURE(ExpectFinds(5 * kRow));
}

// A bucket that is far larger than the memory to sort it: its key log is read once for each of
// several rounds.
class FollowedGiantTest : public FollowedIndexTest {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(FollowThreeRows());
    limits_.giant_records = 100;
    limits_.split_keys = 700;
    limits_.piece_bytes = 4096;
    limits_.partition_records = 100;
    limits_.giant_memory_bytes = 16 << 10;
  }
  Status Build() {
    UnreadBuckets unread;
    std::vector<BucketIndex> buckets(follower_->geometry().bucket_count);
    NullListener listener;
    BuildContext context(follower_.get(), &listener, reading_, limits_, /*thread_count=*/1, buckets,
                         &unread);
    const Status built = BuildBucket(&context, 0, [&] { return BuildGiant(&context, 0); });
    follower_->reader().DetachListener(0);
    return built;
  }
  // Each time on a store of its own: a change makes the bucket larger, and other rows come last.
  void ExpectNoticed(bool in_last_round) {
    uint64_t all = 0;
    {
      ChangingKeyReads reads(~uint64_t{0}, [] {});
      const ScopedHook hook(&reads);
      ASSERT_TRUE(Build().ok());
      all = reads.count;
    }
    // Each page is looked at first, one after the other, to part the keys. So a change before the
    // last of them comes before all reads of the first round. A round's reads run at once.
    const uint64_t page_count = 4 * kRow / format::kPageEntries;
    ASSERT_GE(all, 3 * page_count) << "there is one round";
    ChangingKeyReads reads(in_last_round ? all - 1 : page_count - 1, [this] {
      // Whichever row comes last.
      for (uint32_t row = 1; row < 4; ++row) ASSERT_NO_FATAL_FAILURE(UseRowAgain(row));
    });
    const ScopedHook hook(&reads);
    const Status built = Build();
    EXPECT_EQ(built.code(), Code::kBusy) << built.ToString();
    ASSERT_TRUE(Refresh().ok());
    EXPECT_FALSE(lines_.Said("damaged")) << lines_.text();
  }

  BuildLimits limits_;
};

TEST_F(FollowedGiantTest, SlotsThatAreUsedAgainInTheFirstRoundAreNoticed) {
  ASSERT_NO_FATAL_FAILURE(ExpectNoticed(/*in_last_round=*/false));
}

// The read that comes last: no other one can bring the change.
TEST_F(FollowedGiantTest, SlotsThatAreUsedAgainInTheLastRoundAreNoticed) {
  ASSERT_NO_FATAL_FAILURE(ExpectNoticed(/*in_last_round=*/true));
}

}  // namespace
}  // namespace engine_race::test
