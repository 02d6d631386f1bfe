// Backups, full and incremental: what is restored is exactly the store at the last one's moment,
// and what is no whole chain of one store is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>

#include "engine_race/copies/backup_format.h"
#include "engine_race/log/store_files.h"
#include "test/e2e/backup_fixture.h"
#include "test/e2e/copied_disks.h"
#include "test/e2e/engine_fixture.h"

namespace engine_race::test {
namespace {

namespace fs = std::filesystem;

TEST_F(BackupTest, EachOfAChainRestoresItsOwnMoment) {
  ASSERT_NO_FATAL_FAILURE(MakeChain());
  for (int number = 0; number < 3; ++number) {
    ExpectRestores(backup(number), at_[static_cast<size_t>(number)]);
    EXPECT_TRUE(Store::VerifyBackup({}, backup(number)).ok());
  }
}

TEST_F(BackupTest, GoesOnAfterTheStoreWasClosed) {
  Contents contents;
  for (int number = 0; number < 4; ++number) {
    auto store = OpenStore(source(), TinyOptions());
    Change(store.get(), 300, &contents);
    ASSERT_TRUE(BackUp(store.get(), number).ok());
  }
  ExpectRestores(backup(3), contents);
}

// Records of used slots have sequence numbers of their own. Some of them are staged still.
TEST_F(BackupTest, OfAStoreWhoseSlotsWereUsedAgain) {
  auto store = OpenStore(source(), TinyOptions());
  Contents contents;
  for (int number = 0; number < 3; ++number) {
    Change(store.get(), 6000, &contents);
    ASSERT_TRUE(store->Compact().ok());
    Change(store.get(), 2000, &contents);
    const std::string checkpoint = dir_.Join("checkpoint" + std::to_string(number));
    const Status copied = store->Checkpoint(checkpoint, {});
    ASSERT_TRUE(copied.ok()) << copied.ToString();
    EXPECT_EQ(ContentsOf(checkpoint), contents);
    const Status made = BackUp(store.get(), number);
    ASSERT_TRUE(made.ok()) << made.ToString();
    ExpectRestores(backup(number), contents);
  }
  EXPECT_GT(store->Stats().reclaim_freed_bytes, 0u);
}

// Moved records keep their sequence numbers, also when the store is opened again.
TEST_F(BackupTest, HoldsTheChangesAloneAlsoWhereRecordsWereMoved) {
  auto store = OpenStore(source(), TinyOptions());
  Contents contents;
  for (uint64_t i = 0; i < 8000; ++i) {
    const uint64_t key = (i % 4 << 62) + i;
    contents[key] = ++version_;
    ASSERT_TRUE(store->Write(KeyOf(key), ValueOf(key, version_)).ok());
  }
  ASSERT_TRUE(BackUp(store.get(), 0).ok());
  for (const bool reopened : {false, true}) {
    // Deletes so many records that others are moved.
    for (auto each = contents.begin(); each != contents.end();) {
      ASSERT_TRUE(store->Delete(KeyOf(each->first)).ok());
      each = contents.erase(each);
      if (each != contents.end()) ++each;
    }
    for (uint64_t i = 0; i < 10; ++i) {
      auto& [key, version] = *std::next(contents.begin(), static_cast<int>(i * 7));
      version = ++version_;
      ASSERT_TRUE(store->Write(KeyOf(key), ValueOf(key, version)).ok());
    }
    ASSERT_TRUE(store->Delete(KeyOf(contents.begin()->first)).ok());
    contents.erase(contents.begin());
    if (reopened) {
      store.reset();
      store = OpenStore(source(), TinyOptions());
    }
    ASSERT_TRUE(store->Compact().ok());
    ASSERT_GT(store->Stats().reclaim_moved_bytes, 0u);
    BackupReport report;
    ASSERT_TRUE(BackUp(store.get(), reopened ? 2 : 1, &report).ok());
    EXPECT_EQ(report.value_count, 9u);
  }
  ExpectRestores(backup(2), contents);
}

// Random changes, deletions, cleanings and openings, and backups at any of these moments.
TEST_F(BackupTest, AChainAcrossCleaningsRestoresEachMoment) {
  constexpr int kBackups = 8;
  Options options = TinyOptions();
  options.reclaim_dead_percent = 5;
  auto store = OpenStore(source(), options);
  Contents contents;
  uint64_t left_out_count = 0;
  for (int number = 0; number < kBackups; ++number) {
    for (uint64_t step = random_() % 4; step < 4; ++step) {
      Change(store.get(), random_() % 4 == 0 ? random_() % 3000 : random_() % 100, &contents);
      switch (random_() % 4) {
        case 0:
          ASSERT_TRUE(store->Compact().ok());
          break;
        case 1:
          store.reset();
          store = OpenStore(source(), options);
          break;
        case 2:
          ASSERT_TRUE(store->Sync().ok());
          break;
        default:
          break;
      }
    }
    BackupReport report;
    const Status made = BackUp(store.get(), number, &report);
    ASSERT_TRUE(made.ok()) << made.ToString();
    EXPECT_EQ(report.record_count, contents.size());
    if (number > 0) {
      const Contents& before = at_.back();
      const auto changed_count =
          std::count_if(contents.begin(), contents.end(), [&before](const auto& each) {
            const auto found = before.find(each.first);
            return found == before.end() || found->second != each.second;
          });
      EXPECT_EQ(report.value_count, static_cast<uint64_t>(changed_count));
      left_out_count += report.record_count - report.value_count;
    }
    at_.push_back(contents);
  }
  EXPECT_GT(left_out_count, 0u);
  for (int number = 0; number < kBackups; ++number) {
    ExpectRestores(backup(number), at_[static_cast<size_t>(number)]);
  }
}

TEST_F(BackupTest, OfAnEmptyStoreAndOfOneThatWasEmptied) {
  auto store = OpenStore(source(), TinyOptions());
  ASSERT_TRUE(BackUp(store.get(), 0).ok());
  Contents contents;
  Change(store.get(), 100, &contents);
  ASSERT_TRUE(BackUp(store.get(), 1).ok());
  for (const auto& [key, version] : contents) ASSERT_TRUE(store->Delete(KeyOf(key)).ok());
  ASSERT_TRUE(BackUp(store.get(), 2).ok());
  ExpectRestores(backup(0), {});
  ExpectRestores(backup(1), contents);
  ExpectRestores(backup(2), {});
}

TEST_F(BackupTest, KeepsTheGeometryAndTheKeys) {
  Options options = TinyOptions();
  options.key_range = KeyRange{5, uint64_t{1} << 50};
  auto store = OpenStore(source(), options);
  Contents contents;
  for (uint64_t key = 5; key < 3000; key += 2) {
    ASSERT_TRUE(store->Write(KeyOf(key), ValueOf(key, 3)).ok());
    contents[key] = 3;
  }
  ASSERT_TRUE(BackUp(store.get(), 0).ok());
  ExpectRestores(backup(0), contents);
  const StoreIdentity identity = IdentityOf(restored());
  EXPECT_EQ(identity.geometry.keys(), *options.key_range);
  EXPECT_EQ(identity.geometry.bucket_count, options.bucket_count);
  store.reset();
  EXPECT_NE(identity.store_id, IdentityOf(source()).store_id);
}

TEST_F(BackupTest, ListsThatAreLongerThanAPiece) {
  auto store = OpenStore(source(), TinyOptions());
  Contents contents;
  for (uint64_t key = 0; key < format::kBackupPieceRecords + 1000; ++key) {
    ASSERT_TRUE(store->Write(KeyOf(key), ValueOf(key, 1)).ok());
    contents[key] = 1;
  }
  ASSERT_TRUE(BackUp(store.get(), 0).ok());
  ASSERT_TRUE(store->Delete(KeyOf(77)).ok());
  contents.erase(77);
  ASSERT_TRUE(store->Write(KeyOf(9000), ValueOf(9000, 2)).ok());
  contents[9000] = 2;
  BackupReport report;
  ASSERT_TRUE(BackUp(store.get(), 1, &report).ok());
  EXPECT_EQ(report.value_count, 1u);
  ExpectRestores(backup(1), contents);
}

TEST_F(BackupTest, BesideWritersIsOneMoment) {
  Options options = TinyOptions();
  options.bucket_count = 8;
  auto store = OpenStore(source(), options);
  const BusyWriters writers(store.get());
  while (writers.Acknowledged()[0] < 50) std::this_thread::yield();
  for (int number = 0; number < 4; ++number) {
    const std::vector<uint64_t> before = writers.Acknowledged();
    const Status made = BackUp(store.get(), number);
    const std::vector<uint64_t> after = writers.Begun();
    ASSERT_TRUE(made.ok()) << made.ToString();
    ASSERT_TRUE(Restore(backup(number)).ok());
    const Contents contents = ContentsOf(restored());
    for (uint32_t t = 0; t < BusyWriters::kThreads; ++t) {
      const int64_t prefix = BusyWriters::PrefixOf(t, contents);
      ASSERT_GE(prefix, static_cast<int64_t>(before[t])) << "thread " << t;
      ASSERT_LE(prefix, static_cast<int64_t>(after[t])) << "thread " << t;
    }
  }
}

TEST_F(BackupTest, AMissingParentIsNamed) {
  ASSERT_NO_FATAL_FAILURE(MakeChain());
  fs::rename(backup(0), dir_.Join("elsewhere"));
  ExpectRefused(backup(2), Code::kInvalidArgument, "missing");
  // Beside its child and under its name it is found, wherever both have moved to.
  fs::create_directory(dir_.Join("moved"));
  fs::rename(dir_.Join("elsewhere"), dir_.Join("moved/backup0"));
  fs::rename(backup(1), dir_.Join("moved/backup1"));
  fs::rename(backup(2), dir_.Join("moved/backup2"));
  ExpectRestores(dir_.Join("moved/backup2"), at_[2]);
}

TEST_F(BackupTest, AForeignParentIsRefused) {
  ASSERT_NO_FATAL_FAILURE(MakeChain());
  // Another full backup of the same store.
  auto store = OpenStore(source(), TinyOptions());
  fs::remove_all(backup(0));
  ASSERT_TRUE(store->Backup(backup(0)).ok());
  ExpectRefused(backup(1), Code::kInvalidArgument, "lies backup");
}

TEST_F(BackupTest, GoesOnFromABackupOfItsOwnStoreAlone) {
  ASSERT_NO_FATAL_FAILURE(MakeChain());
  const std::string other = dir_.Join("other");
  BackupOptions how;
  how.since = backup(2);
  EXPECT_EQ(OpenStore(other, TinyOptions())->Backup(backup(3), how).code(), Code::kInvalidArgument);
  how.since = dir_.Join("nothing");
  auto store = OpenStore(source(), TinyOptions());
  EXPECT_EQ(store->Backup(backup(3), how).code(), Code::kInvalidArgument);
  EXPECT_TRUE(fs::is_empty(backup(3)));
}

TEST_F(BackupTest, DamageAnywhereIsFound) {
  ASSERT_NO_FATAL_FAILURE(MakeChain());
  for (int number = 0; number < 3; ++number) {
    const std::string data = backup(number) + "/" + format::kBackupDataName;
    const std::string manifest = backup(number) + "/" + format::kBackupManifestName;
    for (int i = 0; i < 12; ++i) {
      // The header, the list, and anything behind it that a restore of this backup reads.
      const uint64_t offset = i < 4 ? random_() % 64 : 64 + random_() % 100;
      Flip(data, offset);
      EXPECT_EQ(Store::VerifyBackup({}, backup(2)).code(), Code::kCorruption) << data << offset;
      Flip(data, offset);
      const uint64_t in_manifest = random_() % (4096 + 4 * 8);
      Flip(manifest, in_manifest);
      EXPECT_FALSE(Store::VerifyBackup({}, backup(2)).ok()) << manifest << in_manifest;
      Flip(manifest, in_manifest);
    }
    const uint64_t size_bytes = fs::file_size(data);
    Flip(data, size_bytes - 1);  // of the last value
    EXPECT_EQ(Store::VerifyBackup({}, backup(number)).code(), Code::kCorruption);
    Flip(data, size_bytes - 1);
    fs::resize_file(data, size_bytes - 4096);
    EXPECT_EQ(Store::VerifyBackup({}, backup(2)).code(), Code::kCorruption);
    fs::resize_file(data, size_bytes);
    ExpectRefused(backup(number), Code::kCorruption, "checksum");
    return;
  }
}

// The backup would get the whole hash of the wrong value.
TEST_F(BackupTest, AnotherValueOfTheSameIndexBitsIsNotBackedUp) {
  auto store = OpenStore(source(), TinyOptions());
  ASSERT_NO_FATAL_FAILURE(ChangeFirstValue(store.get(), source()));
  EXPECT_EQ(store->Backup(backup(0)).code(), Code::kCorruption);
  EXPECT_TRUE(fs::is_empty(backup(0)));
}

TEST_F(BackupTest, UnfinishedOnesAreRefusedAndReplaced) {
  auto store = OpenStore(source(), TinyOptions());
  Contents contents;
  Change(store.get(), 1000, &contents);
  BackupOptions how;
  how.on_progress = [](uint64_t, uint64_t) { return false; };
  EXPECT_EQ(store->Backup(backup(0), how).code(), Code::kIncomplete);
  EXPECT_TRUE(fs::is_empty(backup(0)));
  EXPECT_EQ(Store::Restore({}, backup(0), restored()).code(), Code::kNotFound);
  EXPECT_EQ(Store::Restore({}, dir_.Join("nothing"), restored()).code(), Code::kNotFound);
  // As a kill leaves it.
  ASSERT_TRUE(store->Backup(backup(0)).ok());
  fs::rename(backup(0) + "/" + format::kBackupManifestName,
             backup(0) + "/" + format::kBackupUnfinishedName);
  ExpectRefused(backup(0), Code::kCorruption, "never finished");
  BackupOptions since;
  since.since = backup(0);
  EXPECT_EQ(store->Backup(backup(1), since).code(), Code::kCorruption);
  ASSERT_TRUE(store->Backup(backup(0)).ok());
  ExpectRestores(backup(0), contents);
  EXPECT_EQ(store->Backup(backup(0)).code(), Code::kInvalidArgument) << "a whole one stays";
  // Nor does a store begin among its files.
  std::unique_ptr<Store> wrong;
  EXPECT_EQ(Store::Open({}, backup(0), &wrong).code(), Code::kCorruption);
}

}  // namespace
}  // namespace engine_race::test
