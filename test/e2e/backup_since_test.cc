// What a store goes on from: no backup that was made after the state that it was put back to, and
// none at all once its writing has ended.
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "engine_race/log/format.h"
#include "test/e2e/backup_fixture.h"
#include "test/e2e/ended_writing.h"
#include "test/e2e/engine_fixture.h"
#include "test/faults/system_calls.h"

namespace engine_race::test {
namespace {

namespace fs = std::filesystem;

// No room for a manifest that is written anew.
class FailNotes : public SystemCallHook {
 public:
  long OnCall(SystemCall* call) override {
    if (call->kind != CallKind::kPwrite || !PathOf(*call).ends_with(format::kManifestTempName)) {
      return call->Proceed();
    }
    errno = ENOSPC;
    return -1;
  }
};

class BackupSinceTest : public BackupTest {};

// A store that was put back to an earlier state has given its numbers to other records.
TEST_F(BackupSinceTest, AStoreOlderThanItsBackupIsRefused) {
  WriteClosed({1});
  CopyFiles(source(), dir_.Join("older"));
  WriteClosed({1});
  ASSERT_TRUE(BackUp(OpenStore(source(), TinyOptions()).get(), 0).ok());
  PutBack(dir_.Join("older"));
  ExpectNoneGoesOn(0);
}

// As many records as the backup has, and more. The last of them is the very one that the backup has
// last, so nothing but a note of the backup tells the two apart.
TEST_F(BackupSinceTest, AStoreThatWasPutBackAndWrittenToIsRefused) {
  WriteClosed({1});
  CopyFiles(source(), dir_.Join("older"));
  WriteClosed({2, 3});
  ASSERT_TRUE(BackUp(OpenStore(source(), TinyOptions()).get(), 0).ok());
  const uint64_t last = version_;
  PutBack(dir_.Join("older"));
  WriteClosed({4});
  version_ = last - 1;
  WriteClosed({3});
  ExpectNoneGoesOn(0);
  WriteClosed({5, 6, 7});
  ExpectNoneGoesOn(0);
}

// The files of the older state replace those of their names, and no other file goes.
TEST_F(BackupSinceTest, AStoreThatWasPutBackOverTheNewerOneIsRefused) {
  WriteClosed({1});
  CopyFiles(source(), dir_.Join("older"));
  WriteClosed({2});
  ASSERT_TRUE(BackUp(OpenStore(source(), TinyOptions()).get(), 0).ok());
  CopyFiles(dir_.Join("older") + "/.", source());
  WriteClosed({3});
  ExpectNoneGoesOn(0);
}

TEST_F(BackupSinceTest, AStoreThatWasPutBackBeforeItsSlotsWereUsedAgainIsRefused) {
  auto store = OpenStore(source(), TinyOptions());
  Contents contents;
  Change(store.get(), 3000, &contents);
  store.reset();
  CopyFiles(source(), dir_.Join("older"));
  store = OpenStore(source(), TinyOptions());
  Change(store.get(), 6000, &contents);
  ASSERT_TRUE(store->Compact().ok());
  ASSERT_TRUE(BackUp(store.get(), 0).ok());
  store.reset();
  PutBack(dir_.Join("older"));
  ExpectNoneGoesOn(0);
}

// A store that was empty has no last record to compare.
TEST_F(BackupSinceTest, AnEmptyStoreThatWasPutBackIsRefused) {
  OpenStore(source(), TinyOptions()).reset();
  CopyFiles(source(), dir_.Join("older"));
  ASSERT_TRUE(BackUp(OpenStore(source(), TinyOptions()).get(), 0).ok());
  PutBack(dir_.Join("older"));
  WriteClosed({1});
  ExpectNoneGoesOn(0);
}

// All that an earlier backup has is there: that one has a successor, those after it have none.
TEST_F(BackupSinceTest, AStoreThatWasPutBackGoesOnFromWhatItHadThen) {
  auto store = OpenStore(source(), TinyOptions());
  Contents contents;
  Change(store.get(), 500, &contents);
  ASSERT_TRUE(BackUp(store.get(), 0).ok());
  Change(store.get(), 500, &contents);
  store.reset();
  CopyFiles(source(), dir_.Join("older"));
  const Contents then = contents;
  store = OpenStore(source(), TinyOptions());
  Change(store.get(), 500, &contents);
  ASSERT_TRUE(BackUp(store.get(), 1).ok());
  store.reset();
  PutBack(dir_.Join("older"));
  contents = then;
  store = OpenStore(source(), TinyOptions());
  Change(store.get(), 700, &contents);
  store.reset();
  ExpectNoneGoesOn(1);
  fs::remove_all(backup(1));
  store = OpenStore(source(), TinyOptions());
  ASSERT_TRUE(BackUp(store.get(), 1).ok());
  ExpectRestores(backup(1), contents);
}

// A store notes 16 backups. The one that all others go on from stays among them.
TEST_F(BackupSinceTest, GoesOnFromThoseThatWereUsedLast) {
  auto store = OpenStore(source(), TinyOptions());
  Contents contents;
  ASSERT_TRUE(BackUp(store.get(), 0).ok());
  BackupOptions since_the_first;
  since_the_first.since = backup(0);
  for (int number = 1; number <= 17; ++number) {
    Change(store.get(), 10, &contents);
    const Status made = store->Backup(backup(number), since_the_first);
    ASSERT_TRUE(made.ok()) << number << ": " << made.ToString();
  }
  ExpectRestores(backup(17), contents);
  BackupOptions how;
  how.since = backup(2);
  EXPECT_EQ(store->Backup(backup(18), how).code(), Code::kInvalidArgument);
  how.since = backup(3);
  const Status made = store->Backup(backup(18), how);
  EXPECT_TRUE(made.ok()) << made.ToString();
}

// The backup is whole, but no later one goes on from it.
TEST_F(BackupSinceTest, OfAStoreWithoutRoomForItsNote) {
  std::vector<std::string> warnings;
  Options options = TinyOptions();
  options.log = [&](LogLevel level, std::string_view message) {
    // On a full disk the reserve of space is given up, which is another warning.
    const bool names_the_backup = message.find(backup(0)) != std::string_view::npos;
    if (level == LogLevel::kWarning && names_the_backup) warnings.emplace_back(message);
  };
  auto store = OpenStore(source(), options);
  Contents contents;
  Change(store.get(), 500, &contents);
  {
    FailNotes failing;
    const ScopedHook hook(&failing);
    const Status made = BackUp(store.get(), 0);
    ASSERT_TRUE(made.ok()) << made.ToString();
  }
  EXPECT_EQ(warnings.size(), 1u);
  ExpectRestores(backup(0), contents);
  store.reset();
  ExpectNoneGoesOn(0);
}

// What was written when a failure ended writing may not be what the next opening finds.
TEST_F(BackupSinceTest, NoneOfAStoreWhoseWritingHasEnded) {
  auto store = OpenStore(source(), TinyOptions());
  Contents contents;
  Change(store.get(), 500, &contents);
  ASSERT_NO_FATAL_FAILURE(EndWriting(store.get()));
  EXPECT_EQ(BackUp(store.get(), 0).code(), Code::kIOError);
  EXPECT_TRUE(fs::is_empty(backup(0)));
}

TEST_F(BackupSinceTest, NoneWhenWritingEndsMeanwhile) {
  auto store = OpenStore(source(), TinyOptions());
  Contents contents;
  Change(store.get(), 500, &contents);
  BackupOptions how;
  bool ended = false;
  how.on_progress = [&](uint64_t, uint64_t) {
    if (!ended) EndWriting(store.get());
    ended = true;
    return true;
  };
  EXPECT_EQ(store->Backup(backup(0), how).code(), Code::kIOError);
  EXPECT_TRUE(ended);
  EXPECT_TRUE(fs::is_empty(backup(0)));
}

}  // namespace
}  // namespace engine_race::test
