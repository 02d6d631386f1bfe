// What scans say about values that cannot be read or fail their check.
#include <fcntl.h>
#include <gtest/gtest.h>

#include "engine_race/base/guarded.h"
#include "engine_race/base/sys.h"
#include "test/index/refused_memory.h"
#include "test/scan/scan_test_util.h"

namespace engine_race::test {
namespace {

class ScanErrorTest : public ::testing::Test {
 protected:
  // One bucket, keys and slots in the same order, all but the last few in the value log.
  ScanErrorTest() : store_(1) {
    for (uint64_t i = 0; i < kRecords; ++i) store_.Put(KeyAt(i));
    store_.OpenReader(8 * kMiB);
  }

  static uint64_t KeyAt(uint64_t slot) { return (slot + 1) << 40; }

  void Damage(uint64_t slot) { Overwrite(slot, "damage", 6); }

  void Overwrite(uint64_t slot, const char* bytes, size_t size) {
    ASSERT_LT(slot, store_.log->LoggedValueWatermark(0));
    UniqueFd fd;
    const std::string path = store_.dir.Join(store_.log->slots().LocateValues(0, 0).file->name());
    ASSERT_TRUE(sys::OpenAt(AT_FDCWD, path, O_WRONLY, 0, &fd).ok());
    ASSERT_TRUE(sys::PwriteFull(fd.get(), bytes, size,
                                store_.log->slots().LocateValues(0, slot).offset + 100)
                    .ok());
    ASSERT_TRUE(sys::Fsync(fd.get()).ok());
  }

  // The records visited from `first` on, and how the scan ended.
  Status Scan(uint64_t first_slot, uint64_t last_slot, uint64_t* count) {
    *count = 0;
    return store_.Scan(KeyAt(first_slot), KeyAt(last_slot), [&](uint64_t key, const char*) {
      EXPECT_EQ(KeyAt(first_slot + *count), key);
      ++*count;
    });
  }

  static constexpr uint64_t kRecords = 2000;
  ScanStore store_;
};

TEST_F(ScanErrorTest, ADamagedValueEndsTheScanAfterTheRecordsBefore) {
  Damage(700);
  Damage(1200);
  uint64_t count = 0;
  EXPECT_EQ(Code::kCorruption, Scan(0, kRecords - 1, &count).code());
  EXPECT_EQ(700u, count);
  // Between and beside the bad ones all is well, in whichever chunk that lies.
  EXPECT_TRUE(Scan(701, 1199, &count).ok());
  EXPECT_EQ(499u, count);
  EXPECT_EQ(Code::kCorruption, Scan(701, kRecords - 1, &count).code());
  EXPECT_EQ(499u, count);
  EXPECT_TRUE(Scan(1201, kRecords - 1, &count).ok());
}

TEST_F(ScanErrorTest, TheLogNamesFileBucketAndSlot) {
  Damage(700);
  uint64_t count = 0;
  EXPECT_EQ(Code::kCorruption, Scan(0, kRecords - 1, &count).code());
  bool named = false;
  for (const std::string& message : store_.messages()) {
    named = named || (message.find(store_.log->slots().LocateValues(0, 0).file->name()) !=
                          std::string::npos &&
                      message.find("bucket 0") != std::string::npos &&
                      message.find("slot 700") != std::string::npos);
  }
  EXPECT_TRUE(named);
}

TEST_F(ScanErrorTest, AShortScanSaysItToo) {
  Damage(700);
  uint64_t count = 0;
  EXPECT_EQ(Code::kCorruption, Scan(690, 710, &count).code());
  EXPECT_EQ(10u, count);
}

TEST_F(ScanErrorTest, EveryThreadIsTold) {
  Damage(700);
  RunThreads(8, [&](int) {
    uint64_t count = 0;
    EXPECT_EQ(Code::kCorruption, Scan(0, kRecords - 1, &count).code());
    EXPECT_EQ(700u, count);
  });
}

TEST_F(ScanErrorTest, AMendedValueIsFoundAgain) {
  Damage(700);
  uint64_t count = 0;
  EXPECT_EQ(Code::kCorruption, Scan(0, kRecords - 1, &count).code());
  const std::string value = ValueOf(KeyAt(700), 1);
  Overwrite(700, value.data() + 100, 6);
  EXPECT_TRUE(Scan(0, kRecords - 1, &count).ok());
  EXPECT_EQ(kRecords, count);
}

TEST_F(ScanErrorTest, UncheckedValuesAreGivenAsTheyAre) {
  store_.options.verify_checksums = false;
  store_.OpenReader(8 * kMiB);
  Damage(700);
  uint64_t count = 0;
  EXPECT_TRUE(Scan(0, kRecords - 1, &count).ok());
  EXPECT_EQ(kRecords, count);
}

TEST_F(ScanErrorTest, AValueLogCutShortIsAnIoErrorUntilItIsBack) {
  const std::string path = store_.dir.Join(store_.log->slots().LocateValues(0, 0).file->name());
  const uint64_t logged = store_.log->LoggedValueWatermark(0);
  std::string bytes((logged - 1000) * kValueBytes, '\0');
  const uint64_t offset = store_.log->slots().LocateValues(0, 1000).offset;
  UniqueFd file;
  ASSERT_TRUE(sys::OpenAt(AT_FDCWD, path, O_RDWR, 0, &file).ok());
  ASSERT_TRUE(sys::PreadFull(file.get(), bytes.data(), bytes.size(), offset).ok());
  ASSERT_TRUE(sys::Truncate(file.get(), offset).ok());
  for (int round = 0; round < 2; ++round) {
    uint64_t count = 0;
    EXPECT_EQ(Code::kIOError, Scan(0, kRecords - 1, &count).code());
    EXPECT_EQ(1000u, count);
    EXPECT_EQ(Code::kIOError, Scan(990, 1010, &count).code());
  }
  ASSERT_TRUE(sys::PwriteFull(file.get(), bytes.data(), bytes.size(), offset).ok());
  ASSERT_TRUE(sys::Fsync(file.get()).ok());
  uint64_t count = 0;
  EXPECT_TRUE(Scan(0, kRecords - 1, &count).ok());
  EXPECT_EQ(kRecords, count);
}

// Once the thread that loads for all scans is refused, or memory for it, a scan reads for itself.
// The next one finds a thread.
TEST(RefusedCoordinatorTest, TheScanAfterOneThatWentUnsharedIsShared) {
  ScanStore store;
  store.Fill(Sized(4000, 2000));
  uint64_t unshared_count = 0;
  bool was_refused = true;
  for (uint64_t passed_count = 0; was_refused; ++passed_count) {
    SCOPED_TRACE(passed_count);
    ASSERT_LT(passed_count, 10000U);
    store.OpenReader();
    {
      const RefuseMemory refuse(passed_count);
      // With little memory it may fail or be cut short, whichever way it reads.
      (void)Guarded([&] { return store.Scan(0, ~uint64_t{0}, [](uint64_t, const char*) {}); });
      was_refused = refuse.refused();
    }
    const uint64_t use_count = store.reader->UseCount();
    if (use_count == 0) ++unshared_count;
    ExpectScanMatches(store);
    ASSERT_GT(store.reader->UseCount(), use_count);
  }
  EXPECT_GT(unshared_count, 0U);
}

}  // namespace
}  // namespace engine_race::test
