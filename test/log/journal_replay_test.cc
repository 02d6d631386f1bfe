#include "engine_race/log/journal_replay.h"

#include <gtest/gtest.h>

#include <string>

#include "test/log/log_test_util.h"
#include "test/log/page_cache_test_util.h"

namespace engine_race::test {
namespace {

TEST(JournalReplayTest, ATornBatchEndsItAndAnotherStoresIsNotRead) {
  const TempDir dir;
  uint64_t store_id = 0;
  UniqueFd directory;
  ASSERT_TRUE(sys::OpenDirectory(dir.path(), false, &directory).ok());
  {
    const auto log = OpenLog(TinyLogOptions(SyncMode::kEveryWrite), dir.path());
    store_id = log->store_id();
    AppendMany(log.get(), 0, 10);
  }
  JournalReplay whole;
  ASSERT_TRUE(whole.Read(directory.get(), OwnIds(store_id), kValueBytes).ok());
  EXPECT_EQ(whole.EndSequence(0), 10u);
  EXPECT_EQ(whole.EndSequence(1), 0u);
  ASSERT_NE(whole.Find(0, 9), nullptr);
  EXPECT_EQ(whole.Find(0, 10), nullptr);

  JournalReplay foreign;
  ASSERT_TRUE(foreign.Read(directory.get(), OwnIds(store_id + 1), kValueBytes).ok());
  EXPECT_EQ(foreign.EndSequence(0), 0u);

  JournalReplay of_source;
  ASSERT_TRUE(of_source.Read(directory.get(), {store_id, store_id + 1}, kValueBytes).ok());
  EXPECT_EQ(of_source.EndSequence(0), 0u) << "its seed is another";

  // One write a batch: a header and a value. The seventh header loses a sector.
  const std::string sector(512, 'x');
  Overwrite(dir.path() + "/" + format::kJournalName, sector.data(), sector.size(),
            6 * 2 * format::kJournalBlockBytes + 512);
  JournalReplay torn;
  ASSERT_TRUE(torn.Read(directory.get(), OwnIds(store_id), kValueBytes).ok());
  EXPECT_EQ(torn.EndSequence(0), 6u);

  ASSERT_TRUE(JournalReplay::Erase(directory.get()).ok());
  JournalReplay erased;
  ASSERT_TRUE(erased.Read(directory.get(), OwnIds(store_id), kValueBytes).ok());
  EXPECT_EQ(erased.EndSequence(0), 0u);
}

}  // namespace
}  // namespace engine_race::test
