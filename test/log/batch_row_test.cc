// Batches beside rows: a bucket begins to use slots again, and records move, while batches are
// written to it.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine_race/base/sys.h"
#include "engine_race/log/batch_intents.h"
#include "engine_race/log/batch_writer.h"
#include "engine_race/log/row_mover.h"
#include "engine_race/log/syncer.h"
#include "test/log/batch_test_util.h"

namespace engine_race::test {
namespace {

Status BeginRows(RowMover* mover, uint32_t bucket) {
  EXPECT_TRUE(mover->Claim(bucket));
  Status begun = mover->Begin(bucket);
  mover->Unclaim(bucket);
  return begun;
}

// Keeps the keys of each bucket apart: two threads may tell of different buckets.
class KeyListener : public TellingListener {
 public:
  void OnAppend(uint32_t bucket, const KeyRecord& record) noexcept override {
    keys[bucket].push_back(record.key);
    slots[bucket].push_back(record.slot);
  }
  std::array<std::vector<uint64_t>, 2> keys;
  std::array<std::vector<uint64_t>, 2> slots;
};

// The classes of the log, with a listener at two buckets.
struct RowParts {
  RowParts(const Options& options, const std::string& dir)
      : parts(options, dir),
        batches(&parts.context, &parts.groups),
        syncer(&parts.context, &parts.writer, &parts.groups),
        mover(&parts.context, &parts.writer, &parts.reader, &syncer) {
    for (uint32_t bucket = 0; bucket < 2; ++bucket) {
      BucketCut cut;
      EXPECT_TRUE(
          parts.reader.CutBucket(bucket, this->bucket(bucket).RecordCount(), &listener, &cut).ok());
    }
  }
  ~RowParts() {
    for (uint32_t bucket = 0; bucket < 2; ++bucket) parts.reader.DetachListener(bucket);
  }

  Bucket& bucket(uint32_t number) { return parts.context.buckets[number]; }
  // 20 records in bucket 0 and one in bucket 1.
  Status Write() {
    WriteBatch batch;
    for (uint64_t n = 0; n < 20; ++n) PutIn(&batch, 0, 1000 + n, 2);
    PutIn(&batch, 1, 0, 2);
    bool too_large = false;
    Status written = batches.Write(batch.records(), /*journal=*/nullptr, &too_large);
    EXPECT_FALSE(too_large);
    return written;
  }
  // Runs `call` in a thread while a batch holds bucket 0 with places for its records. The batch
  // goes on once the call has ended, or waits for the batch.
  void WriteBeside(const std::function<void()>& call) {
    std::atomic<bool> ended{false};
    std::thread thread;
    listener.on_prepare = [&](uint32_t number) {
      if (number != 1 || thread.joinable()) return Status::Ok();
      thread = std::thread([&] {
        call();
        ended.store(true);
      });
      while (!ended.load()) {
        const std::lock_guard<std::mutex> lock(bucket(0).mutex);
        if (bucket(0).awaiting_release != 0) break;
      }
      return Status::Ok();
    };
    EXPECT_TRUE(Write().ok());
    thread.join();
  }

  LogParts parts;
  BatchWriter batches;
  Syncer syncer;
  RowMover mover;
  KeyListener listener;
};

TEST(BatchRowTest, RowsBeginBeforeOrBehindABatch) {
  const TempDir dir;
  const Options options = TinyLogOptions();
  {
    RowParts store(options, dir.path());
    store.parts.AppendKeys(0, 250);
    // Nobody claims a bucket that a batch holds.
    ASSERT_TRUE(store.mover.Claim(0));
    store.WriteBeside([&] { EXPECT_TRUE(store.mover.Begin(0).ok()); });
    store.mover.Unclaim(0);
    EXPECT_EQ(store.bucket(0).table.rows().size(), 2u);
    store.parts.AppendKeys(300, 600);
  }
  const auto log = OpenLog(options, dir.path());
  EXPECT_EQ(ContentOf(log.get()).size(), 250u + 20 + 1 + 300);
}

// The second row of a batch need not lie behind the first.
TEST(BatchRowTest, ABatchMayLieInTwoRows) {
  const TempDir dir;
  const Options options = TinyLogOptions();
  {
    RowParts store(options, dir.path());
    store.parts.AppendKeys(0, 250);
    ASSERT_TRUE(BeginRows(&store.mover, 0).ok());
    uint32_t row = 0;
    ASSERT_TRUE(store.mover.TakeRow(0, /*kept_count=*/0, &row).ok());
    ASSERT_EQ(row, 1u);
    store.listener.slots[0].clear();
    ASSERT_TRUE(store.Write().ok());
    std::vector<uint64_t> wanted;
    for (uint64_t n = 0; n < 20; ++n) wanted.push_back(n < 6 ? 250 + n : 512 + n - 6);
    EXPECT_EQ(store.listener.slots[0], wanted);
  }
  const auto log = OpenLog(options, dir.path());
  EXPECT_EQ(ContentOf(log.get()).size(), 250u + 20 + 1);
}

// Space behind the last row is given back before an append can take the next row.
TEST(BatchRowTest, TheSpaceBehindTheRowsGoesBeforeAnAppend) {
  const TempDir dir;
  RowParts store(TinyLogOptions(), dir.path());
  store.parts.AppendKeys(0, 256);
  ASSERT_TRUE(store.parts.context.files.slots.Give(0, 0, 1024).ok());
  int punch_count = 0;
  CallWatch watch([&](SystemCall* call) {
    if (call->kind != CallKind::kFallocate || !PathOf(*call).ends_with("value_00")) {
      return call->Proceed();
    }
    ++punch_count;
    std::thread([&] {
      const std::unique_lock<std::mutex> lock(store.bucket(0).mutex, std::try_to_lock);
      EXPECT_FALSE(lock.owns_lock());
    }).join();
    return call->Proceed();
  });
  {
    const ScopedHook scope(&watch);
    ASSERT_TRUE(BeginRows(&store.mover, 0).ok());
  }
  EXPECT_EQ(punch_count, 1);
}

// A bucket knows only the space that its own opening has reserved.
TEST(BatchRowTest, SpaceReservedByAnEarlierOpeningGoesToo) {
  const TempDir dir;
  const auto bytes_of = [&](const char* name) {
    uint64_t bytes = 0;
    EXPECT_TRUE(sys::AllocatedBytes(AT_FDCWD, dir.Join(name), &bytes).ok());
    return bytes;
  };
  uint64_t written_bytes = 0;
  {
    RowParts store(TinyLogOptions(), dir.path());
    store.parts.AppendKeys(0, 256);
    const SlotFiles& slots = store.parts.context.files.slots;
    ASSERT_TRUE(slots.Give(0, 0, 1024).ok());
    written_bytes = bytes_of("value_00");
    store.parts.writer.ReserveAhead(0, LaneKind::kValues, 256 / 4);
    if (bytes_of("value_00") == written_bytes) GTEST_SKIP() << "no space can be reserved here";
  }
  RowParts store(TinyLogOptions(), dir.path());
  ASSERT_GT(bytes_of("value_00"), written_bytes);
  ASSERT_TRUE(BeginRows(&store.mover, 0).ok());
  EXPECT_EQ(bytes_of("value_00"), written_bytes);
}

// A group is about to reserve space when the rows of its bucket begin.
TEST(BatchRowTest, SpaceReservedBesideTheBeginningGoesToo) {
  for (const LaneKind kind : {LaneKind::kValues, LaneKind::kKeys}) {
    const TempDir dir;
    const char* const name = kind == LaneKind::kValues ? "value_00" : "key_00";
    RowParts store(TinyLogOptions(), dir.path());
    store.parts.AppendKeys(0, 256);
    ASSERT_TRUE(store.parts.context.files.slots.Give(0, 0, 1024).ok());
    uint64_t bytes_before = 0;
    ASSERT_TRUE(sys::AllocatedBytes(AT_FDCWD, dir.Join(name), &bytes_before).ok());
    bool has_begun = false;
    bool has_reserved = false;
    CallWatch watch([&](SystemCall* call) {
      if (call->kind != CallKind::kFallocate || !PathOf(*call).ends_with(name)) {
        return call->Proceed();
      }
      if ((call->flags & FALLOC_FL_PUNCH_HOLE) != 0) return call->Proceed();
      EXPECT_TRUE(std::exchange(has_begun, true) || BeginRows(&store.mover, 0).ok());
      const long result = call->Proceed();
      has_reserved = result == 0;
      return result;
    });
    {
      const ScopedHook scope(&watch);
      store.parts.writer.ReserveAhead(0, kind, kind == LaneKind::kValues ? 256 / 4 : 2);
    }
    if (!has_reserved) GTEST_SKIP() << "no space can be reserved here";
    uint64_t bytes = 0;
    ASSERT_TRUE(sys::AllocatedBytes(AT_FDCWD, dir.Join(name), &bytes).ok());
    EXPECT_EQ(bytes, bytes_before) << name;
  }
}

// Readers of a staged record look at its slot. A record that no row holds has none.
TEST(BatchRowTest, AnIntentDoesNotCountRecordsThatNoRowHolds) {
  const TempDir dir;
  {
    RowParts store(TinyLogOptions(), dir.path());
    store.parts.AppendKeys(0, 256);
    ASSERT_TRUE(BeginRows(&store.mover, 0).ok());
    ASSERT_EQ(store.bucket(0).table.RunEnd(), 256u);
    BatchIntents intents;
    ASSERT_TRUE(intents.Open(store.parts.context.files, /*mapped=*/false, 0600).ok());
    const std::array<format::BatchIntentEntry, 1> counts = {{{256 + 3, 0, 0}}};
    ASSERT_TRUE(intents.Commit(0, counts).ok());
  }
  for (const bool read_only : {false, true}) {
    Options options = TinyLogOptions();
    options.read_only = read_only;
    const auto log = OpenLog(options, dir.path());
    ASSERT_NE(log, nullptr);
    EXPECT_EQ(log->RecordCount(0), 256u);
    EXPECT_EQ(RecordsOf(log.get(), 0).size(), 256u);
  }
}

// The room that the listener has made for a batch is the batch's.
TEST(BatchRowTest, NoRecordMovesWhileABatchHoldsItsBucket) {
  const TempDir dir;
  RowParts store(TinyLogOptions(), dir.path());
  store.parts.AppendKeys(0, 300);
  ASSERT_TRUE(BeginRows(&store.mover, 0).ok());
  std::vector<KeyRecord> moved(1);
  moved[0].key = 7;
  moved[0].slot = 7;
  uint32_t row = 0;
  ASSERT_TRUE(store.mover.TakeRow(0, /*kept_count=*/0, &row).ok());
  store.listener.keys[0].clear();
  store.WriteBeside([&] { EXPECT_TRUE(store.mover.Publish(0, row, 300, moved).ok()); });
  ASSERT_EQ(store.listener.keys[0].size(), 21u);
  EXPECT_EQ(store.listener.keys[0].back(), 7u);
}

// A batch of a full bucket is refused before it is committed, not in the middle.
TEST(BatchRowTest, ALargeBatchThatHasNoRowsChangesNothing) {
  constexpr uint64_t kRow = 256;
  constexpr uint64_t kCount = 6 * kRow - 8;
  const TempDir dir;
  Options options = TinyLogOptions();
  options.bucket_capacity_records = 8 * kRow;
  const auto append = [](BucketLog* log, uint64_t begin, uint64_t end) {
    for (uint64_t key = begin; key < end; ++key) {
      ASSERT_TRUE(log->Append(key, ValueOf(key, 1).data()).ok()) << key;
    }
  };
  {
    const auto log = OpenLog(options, dir.path());
    ASSERT_NO_FATAL_FAILURE(append(log.get(), 0, kCount));
    ASSERT_TRUE(BeginRows(&log->mover(), 0).ok());
    WriteBatch batch;
    for (uint64_t n = 0; n < 2 * kRow; ++n) PutIn(&batch, 0, n, 2);
    EXPECT_EQ(log->Write(batch).code(), Code::kFull);
    EXPECT_EQ(log->RecordCount(0), kCount);
    ASSERT_NO_FATAL_FAILURE(append(log.get(), 0, 16));
  }
  const auto log = OpenLog(options, dir.path());
  ASSERT_NE(log, nullptr);
  EXPECT_EQ(log->RecordCount(0), kCount + 16);
}

TEST(BatchRowTest, TheFirstBatchKeepsTheRows) {
  const TempDir dir;
  const Options options = TinyLogOptions();
  {
    const auto log = OpenLog(options, dir.path());
    ASSERT_TRUE(log->Append(KeyIn(0, 1), ValueOf(KeyIn(0, 1), 1).data()).ok());
    ASSERT_TRUE(BeginRows(&log->mover(), 0).ok());
    ASSERT_TRUE(log->Write(BatchOverAll(3, 2)).ok());
    ASSERT_TRUE(BeginRows(&log->mover(), 1).ok());
  }
  const auto log = OpenLog(options, dir.path());
  EXPECT_TRUE(log->HasRows(0));
  EXPECT_TRUE(log->HasRows(1));
  EXPECT_FALSE(log->HasRows(2));
}

}  // namespace
}  // namespace engine_race::test
