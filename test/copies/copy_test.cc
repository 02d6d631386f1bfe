// CopyStore: what it copies, what it refuses, and that a copy is all there or is no store.
#include "engine_race/copies/copies.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine_race/log/index_coverage.h"
#include "test/faults/fault_plan.h"
#include "test/log/log_test_util.h"
#include "test/log/page_cache_test_util.h"
#include "test/loop_device.h"

namespace engine_race::test {
namespace {

namespace fs = std::filesystem;

// Not a multiple of any group.
constexpr uint64_t kRecordCount = 1003;

uint64_t AllocatedBytes(const std::string& dir) {
  uint64_t bytes = 0;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(dir)) {
    struct stat info;
    if (::stat(entry.path().c_str(), &info) == 0)
      bytes += static_cast<uint64_t>(info.st_blocks) * 512;
  }
  return bytes;
}

class CopyTest : public testing::Test {
 protected:
  // Records spread over all buckets, some overwritten, every tenth a tombstone.
  void Fill(const Options& options) { Fill(options, kRecordCount, ~uint64_t{0} / kRecordCount); }
  void Fill(const Options& options, uint64_t record_count, uint64_t step) {
    const auto log = OpenLog(options, source());
    for (uint64_t i = 0; i < record_count; ++i) {
      const uint64_t key = i % 7 == 6 ? (i - 1) * step : i * step;
      ASSERT_TRUE(log->Append(key, i % 10 == 7 ? nullptr : ValueOf(key, i).data()).ok());
    }
  }

  // Thirty records in one bucket, of which staging and logs are lost.
  void FillJournalAlone(uint64_t* store_id) {
    Options options = TinyLogOptions(SyncMode::kGroup);
    options.bucket_count = 1;
    options.file_count = 1;
    Fill(options, 30, 1);
    {
      StoreFiles files;
      ASSERT_TRUE(OpenStoreFilesToRead(source(), &files).ok());
      *store_id = files.identity.store_id;
    }
    LoseStaging(source());
    for (const char* name : {"key_00", "value_00"}) LoseFile(source() + "/" + name);
  }

  std::string source() const { return dir_.Join("source"); }
  std::string copy() const { return dir_.Join("copy"); }

  Status Copy(const Options& options = {}) { return CopyTo(copy(), options); }
  Status CopyTo(const std::string& to, const Options& options = {}) {
    bad_.clear();
    return CopyStore(options, source(), to, &report_,
                     [this](const BadRecord& bad) { bad_.push_back(bad); });
  }

  // Verifies the copy, then opens both.
  void ExpectEqual(const std::string& to, uint64_t record_count) {
    VerifyReport verified;
    const Status status = VerifyStore(to, &verified, {});
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_EQ(verified.record_count, record_count);
    EXPECT_EQ(verified.lost_tail_count, 0u);
    const auto original = OpenLog(TinyLogOptions(), source());
    const auto copied = OpenLog(TinyLogOptions(), to);
    ASSERT_TRUE(original != nullptr && copied != nullptr);
    EXPECT_NE(original->store_id(), copied->store_id());
    for (uint32_t bucket = 0; bucket < original->geometry().bucket_count; ++bucket) {
      const std::vector<KeyRecord> wanted = RecordsOf(original.get(), bucket);
      const std::vector<KeyRecord> found = RecordsOf(copied.get(), bucket);
      ASSERT_EQ(found.size(), wanted.size()) << bucket;
      EXPECT_EQ(copied->SyncedWatermark(bucket), found.size());
      for (uint64_t slot = 0; slot < wanted.size(); ++slot) {
        EXPECT_EQ(found[slot].key, wanted[slot].key);
        EXPECT_EQ(found[slot].sequence, wanted[slot].sequence);
        ASSERT_EQ(found[slot].tombstone, wanted[slot].tombstone);
        if (wanted[slot].tombstone) continue;
        ASSERT_EQ(ReadSlot(*copied, bucket, slot), ReadSlot(*original, bucket, slot));
      }
    }
  }

  // Whether somebody may take what is there for a store.
  static bool IsStore(const std::string& dir) {
    VerifyReport ignored;
    return VerifyStore(dir, &ignored, {}).ok();
  }

  TempDir dir_{FastParent()};
  VerifyReport report_;
  std::vector<BadRecord> bad_;
};

TEST_F(CopyTest, HoldsWhatItsSourceHoldsAndGoesOn) {
  Fill(TinyLogOptions());
  ASSERT_TRUE(Copy().ok());
  EXPECT_EQ(report_.record_count, kRecordCount);
  ExpectEqual(copy(), kRecordCount);
  {
    const auto log = OpenLog(TinyLogOptions(), copy());
    for (uint64_t key = 0; key < 50; ++key) {
      ASSERT_TRUE(log->Append(key, ValueOf(key, 9999).data()).ok());
    }
    ASSERT_TRUE(log->Sync().ok());
  }
  VerifyReport verified;
  EXPECT_TRUE(VerifyStore(copy(), &verified, {}).ok());
  EXPECT_EQ(verified.record_count, kRecordCount + 50);
}

TEST_F(CopyTest, ACopyOfACopyThatWasNeverOpenedIsTheSame) {
  Fill(TinyLogOptions());
  ASSERT_TRUE(Copy().ok());
  ASSERT_TRUE(CopyStore({}, copy(), dir_.Join("second"), &report_, {}).ok());
  ExpectEqual(dir_.Join("second"), kRecordCount);
}

TEST_F(CopyTest, TheIndexIsNotCopied) {
  Fill(TinyLogOptions());
  for (const char* name : {"key_index_root", "key_index_00", "key_index_03"}) {
    std::ofstream(source() + "/" + name) << "derived";
  }
  ASSERT_TRUE(Copy().ok());
  ExpectEqual(copy(), kRecordCount);
  for (const fs::directory_entry& entry : fs::directory_iterator(copy())) {
    EXPECT_FALSE(entry.path().filename().string().starts_with("key_index")) << entry.path();
  }
}

TEST_F(CopyTest, AnEmptyStoreAndOneWithAllRecordsInOneBucket) {
  Fill(TinyLogOptions(), 0, 1);
  ASSERT_TRUE(Copy().ok());
  ExpectEqual(copy(), 0);
  Fill(TinyLogOptions(), 2000, 1);
  ASSERT_TRUE(CopyTo(dir_.Join("second")).ok());
  ExpectEqual(dir_.Join("second"), 2000);
}

TEST_F(CopyTest, ValuesMayLieOnOtherPathsThanThoseOfTheSource) {
  const auto paths = [&](const std::vector<std::string>& names) {
    Options options = TinyLogOptions();
    for (const std::string& name : names) options.paths.push_back(dir_.Join(name));
    return options;
  };
  Fill(paths({"a", "b", "c"}));
  ASSERT_TRUE(Copy().ok());
  ExpectEqual(copy(), kRecordCount);
  ASSERT_TRUE(CopyTo(dir_.Join("striped"), paths({"d", "e"})).ok());
  ExpectEqual(dir_.Join("striped"), kRecordCount);
  // The paths of one are not those of the other.
  EXPECT_FALSE(CopyTo(dir_.Join("third"), paths({"a", "f"})).ok());
  EXPECT_FALSE(IsStore(dir_.Join("third")));
  StoreFiles files;
  EXPECT_EQ(OpenStoreFiles(paths({"a", "b"}), dir_.Join("striped"), &files).code(),
            Code::kInvalidArgument);
}

TEST_F(CopyTest, FromADeviceAndOntoOne) {
  const LoopDevice first(uint64_t{16} << 20);
  const LoopDevice second(uint64_t{16} << 20);
  if (!first.valid() || !second.valid()) GTEST_SKIP() << first.why() << second.why();
  Options options = TinyLogOptions();
  options.paths = {first.path()};
  Fill(options);
  options.paths = {second.path()};
  ASSERT_TRUE(Copy(options).ok());
  ExpectEqual(copy(), kRecordCount);
}

TEST_F(CopyTest, AnotherFileSystem) {
  Fill(TinyLogOptions());
  const TempDir elsewhere;
  ASSERT_TRUE(CopyTo(elsewhere.Join("copy")).ok());
  ExpectEqual(elsewhere.Join("copy"), kRecordCount);
}

TEST_F(CopyTest, TakesTheSpaceOfItsRecords) {
  Options options = TinyLogOptions();
  options.bucket_capacity_records = uint64_t{1} << 20;
  Fill(options);
  ASSERT_TRUE(Copy().ok());
  const uint64_t value_bytes = kRecordCount * kValueBytes;
  EXPECT_LT(AllocatedBytes(copy()), value_bytes + SpaceReserve::kBytes + (uint64_t{1} << 20));
  EXPECT_LT(AllocatedBytes(copy()), AllocatedBytes(source()));
  EXPECT_EQ(fs::file_size(copy() + "/value_00"), fs::file_size(source() + "/value_00"));
}

TEST_F(CopyTest, DamageIsReportedAndThereIsNoCopy) {
  Fill(TinyLogOptions());
  const std::string junk(kValueBytes, 'x');
  Overwrite(source() + "/value_00", junk.data(), junk.size(), 8 * kValueBytes);
  EXPECT_EQ(Copy().code(), Code::kCorruption);
  ASSERT_EQ(bad_.size(), 1u);
  EXPECT_EQ(bad_[0].file, "value_00");
  EXPECT_EQ(bad_[0].slot, 8u);
  EXPECT_EQ(report_.bad_count, 1u);
  EXPECT_FALSE(fs::exists(copy() + "/manifest"));
  EXPECT_FALSE(IsStore(copy()));
}

TEST_F(CopyTest, DamagedCountsLeaveNoCopyEither) {
  Fill(TinyLogOptions());
  const uint64_t word = 12345;
  Overwrite(source() + "/" + format::kStagingCountsName, &word, sizeof(word), 0);
  EXPECT_EQ(Copy().code(), Code::kCorruption);
  EXPECT_FALSE(IsStore(copy()));
}

// What the next opening would find after a restart of the machine is what is copied.
TEST_F(CopyTest, AfterAPowerLossThePrefixThatSurvivedIsCopied) {
  Options options = TinyLogOptions();
  options.bucket_count = 1;
  options.file_count = 1;
  Fill(options, 300, 1);
  uint64_t store_id = 0;
  uint64_t lost_value_offset = 0;
  {
    const auto log = OpenLog(options, source());
    store_id = log->store_id();
    lost_value_offset = log->slots().LocateValues(0, 205).offset;
  }
  NameAnotherPageCache(source(), store_id, 0);
  ASSERT_TRUE(Copy().ok());
  EXPECT_EQ(report_.record_count, 300u);
  const std::string zeros(kValueBytes, '\0');
  Overwrite(source() + "/value_00", zeros.data(), zeros.size(), lost_value_offset);
  ASSERT_TRUE(CopyTo(dir_.Join("second")).ok());
  EXPECT_EQ(report_.record_count, 205u);
  EXPECT_EQ(report_.lost_tail_count, 95u);
  ExpectEqual(dir_.Join("second"), 205);
}

TEST_F(CopyTest, WhatOnlyTheJournalHoldsIsCopied) {
  uint64_t store_id = 0;
  ASSERT_NO_FATAL_FAILURE(FillJournalAlone(&store_id));
  NameAnotherPageCache(source(), store_id, 0);
  ASSERT_TRUE(Copy().ok());
  EXPECT_EQ(report_.record_count, 30u);
  ExpectEqual(copy(), 30);
}

TEST_F(CopyTest, WhatTheCountsHaveLostIsCopiedFromTheJournal) {
  uint64_t store_id = 0;
  ASSERT_NO_FATAL_FAILURE(FillJournalAlone(&store_id));
  // The counts are gone as well, in a page cache that looks the same.
  for (const format::WordKind kind : {format::WordKind::kRecords, format::WordKind::kLoggedValues,
                                      format::WordKind::kLoggedKeys, format::WordKind::kSynced}) {
    SetWord(source(), store_id, 0, kind, 0);
  }
  ASSERT_TRUE(Copy().ok());
  EXPECT_EQ(report_.record_count, 30u);
  ExpectEqual(copy(), 30);
}

// The counts are older than the logs, and the root of the index shows it. An opening then looks for
// records behind them.
TEST_F(CopyTest, WhatTheCountsHaveLostIsCopiedFromTheLogs) {
  constexpr uint64_t kLogged = 256;
  Options options = TinyLogOptions();
  options.bucket_count = 1;
  options.file_count = 1;
  Fill(options, kLogged, 1);
  StoreIdentity identity;
  {
    StoreFiles files;
    ASSERT_TRUE(OpenStoreFilesToRead(source(), &files).ok());
    identity = files.identity;
  }
  for (const format::WordKind kind : {format::WordKind::kRecords, format::WordKind::kLoggedValues,
                                      format::WordKind::kLoggedKeys}) {
    SetWord(source(), identity.store_id, 0, kind, 0);
  }
  struct Root {
    format::IndexRootHeader header{};
    format::IndexCoverage coverage{};
  } root;
  root.header.magic = format::kIndexRootMagic;
  root.header.root_version = format::kIndexRootVersion;
  root.header.bucket_count = 1;
  root.header.store_id = root.header.seed_id = identity.store_id;
  root.header.root_id = 1;
  root.coverage = {kLogged, 0, kLogged, 0, 0, 0};
  root.coverage.check = CoverageCheck(identity.store_id, root.header.root_id, 0, root.coverage);
  std::string bytes(kIoAlignment, '\0');
  std::memcpy(bytes.data(), &root, sizeof(root));
  std::ofstream(source() + "/" + format::kIndexRootName, std::ios::binary) << bytes;
  ASSERT_TRUE(Copy().ok());
  EXPECT_EQ(report_.record_count, kLogged);
  ExpectEqual(copy(), kLogged);
}

TEST_F(CopyTest, ARootOfTheIndexThatIsNoFileKeepsNothingFromACopy) {
  Fill(TinyLogOptions(), 30, 1);
  const std::string root = source() + "/" + format::kIndexRootName;
  fs::create_directory(root);
  ASSERT_TRUE(Copy().ok());
  // An opening refuses such a root.
  fs::remove(root);
  ExpectEqual(copy(), 30);
}

TEST_F(CopyTest, RefusesWhatItMayNotTouch) {
  EXPECT_EQ(Copy().code(), Code::kNotFound);
  EXPECT_FALSE(fs::exists(copy()));
  Fill(TinyLogOptions());
  {
    const auto log = OpenLog(TinyLogOptions(), source());
    EXPECT_EQ(Copy().code(), Code::kIOError);
    EXPECT_FALSE(fs::exists(copy()));
  }
  EXPECT_FALSE(CopyTo(source()).ok());
  fs::create_directories(copy() + "/lost+found");
  ASSERT_TRUE(Copy().ok());
  EXPECT_EQ(Copy().code(), Code::kInvalidArgument);
  {
    const auto log = OpenLog(TinyLogOptions(), copy());
    EXPECT_FALSE(Copy().ok());
  }
  ExpectEqual(copy(), kRecordCount);
}

TEST_F(CopyTest, AFullTargetIsSaidToBeFullAndHoldsNoPartOfAStore) {
  Fill(TinyLogOptions(), 60, ~uint64_t{0} / 60);
  uint64_t failed_count = 0;
  for (uint64_t nth = 1;; nth += 3) {
    const std::string to = dir_.Join("full" + std::to_string(nth));
    FaultPlan full(to, Fault::kDiskFull, nth, Repeat::kFromThenOn);
    Status status;
    {
      const ScopedHook scope(&full);
      full.Arm();
      status = CopyTo(to);
    }
    if (!full.fired()) {
      EXPECT_TRUE(status.ok()) << status.ToString();
      break;
    }
    ++failed_count;
    EXPECT_EQ(status.code(), Code::kFull) << full.ToString() << ": " << status.ToString();
    // Only the flush of the manifest's name may have failed.
    if (IsStore(to)) ExpectEqual(to, 60);
    fs::remove_all(to);
  }
  EXPECT_GT(failed_count, 5u);
}

// The store is one or none whenever the copying process dies.
TEST_F(CopyTest, KilledAtAnyCallItLeavesNoStoreOrAWholeOne) {
  Fill(TinyLogOptions(), 60, ~uint64_t{0} / 60);
  uint64_t killed_count = 0;
  for (uint64_t nth = 1;; nth += 2) {
    const std::string to = dir_.Join("killed" + std::to_string(nth));
    const pid_t child = ::fork();
    if (child == 0) {
      DeathPlan death(to, nth, nth % 4 == 1 ? DeathMoment::kTorn : DeathMoment::kAfter);
      const ScopedHook scope(&death);
      ::syscall(SYS_exit_group, CopyTo(to).ok() ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    if (WIFEXITED(status)) {
      EXPECT_EQ(WEXITSTATUS(status), 0);
      ExpectEqual(to, 60);
      break;
    }
    ++killed_count;
    if (IsStore(to)) {
      ExpectEqual(to, 60);
    } else {
      EXPECT_FALSE(fs::exists(to + "/manifest")) << nth;
    }
    fs::remove_all(to);
  }
  EXPECT_GT(killed_count, 20u);
}

}  // namespace
}  // namespace engine_race::test
