// The stats file among files that are not the store's, and at its end.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "engine_race/base/sys.h"
#include "engine_race/stats_file.h"
#include "engine_race/store.h"
#include "test/e2e/engine_fixture.h"
#include "test/e2e/stats_file_helpers.h"
#include "test/log_lines.h"
#include "test/test_util.h"

namespace engine_race::test {
namespace {

namespace fs = std::filesystem;

// Files of the user, under either name: the store does without its own.
TEST(StatsFileNamesTest, WhatIsNoStatsFileStaysAsItIs) {
  for (const char* name : {kStatsFileName, kStatsTempName}) {
    TempDir dir;
    { const auto store = OpenStore(dir.path(), TinyOptions()); }
    std::ofstream(dir.Join(name)) << "engine_race statistics of mine";
    LogLines lines;
    Options options = OfferingOptions();
    options.log = lines.Callback();
    {
      const auto store = OpenStore(dir.path(), options);
      ASSERT_NE(store, nullptr);
      EXPECT_TRUE(lines.Said(std::string(name) + " is not a stats file")) << lines.text();
      EXPECT_EQ(CodeOfOpening(dir.path()), Code::kNotSupported);
      EXPECT_TRUE(store->Write(KeyOf(1), ValueOf(1, 1)).ok());
    }
    EXPECT_EQ(ContentOf(dir.Join(name)), "engine_race statistics of mine");
  }
}

// A power loss may take the data of a new file and leave its length.
TEST(StatsFileNamesTest, AStatsFileOfZerosIsReplaced) {
  for (const char* name : {kStatsFileName, kStatsTempName}) {
    TempDir dir;
    { const auto store = OpenStore(dir.path(), TinyOptions()); }
    std::ofstream(dir.Join(name)) << std::string(4096, '\0');
    const auto store = OpenStore(dir.path(), OfferingOptions());
    ASSERT_NE(store, nullptr);
    EXPECT_EQ(CodeOfOpening(dir.path()), Code::kOk) << name;
  }
}

// Files of the user that begin with zero bytes.
TEST(StatsFileNamesTest, ZerosThatNoStatsFileHasStayAsTheyAre) {
  const std::string zeros(4096, '\0');
  const std::string many_zeros(uint64_t{1} << 20, '\0');
  for (const std::string& content : {zeros + "mine", many_zeros, many_zeros + "mine"}) {
    TempDir dir;
    { const auto store = OpenStore(dir.path(), TinyOptions()); }
    std::ofstream(dir.Join(kStatsFileName)) << content;
    const auto store = OpenStore(dir.path(), OfferingOptions());
    ASSERT_NE(store, nullptr);
    EXPECT_EQ(CodeOfOpening(dir.path()), Code::kNotSupported);
    EXPECT_TRUE(ContentOf(dir.Join(kStatsFileName)) == content);
  }
}

// A store is no place for names that are not its own: a user's file `stats` may lie in it.
TEST(StatsFileNamesTest, AUsersFileOfAnotherNameIsNotTouched) {
  TempDir dir;
  std::ofstream(dir.Join("stats")) << "mine";
  std::ofstream(dir.Join("stats.new")) << "mine";
  Options options = OfferingOptions();
  options.create_among_files = true;
  { const auto store = OpenStore(dir.path(), options); }
  EXPECT_EQ(ContentOf(dir.Join("stats")), "mine");
  EXPECT_EQ(ContentOf(dir.Join("stats.new")), "mine");
}

TEST(StatsFileNamesTest, AChildThatOutlivesTheStoreDoesNotHoldItOpen) {
  TempDir dir;
  auto store = OpenStore(dir.path(), OfferingOptions());
  ASSERT_NE(store, nullptr);
  StatsReader reader;
  ASSERT_TRUE(StatsReader::Open(dir.path(), &reader).ok());
  const pid_t child = ::fork();
  if (child == 0) {
    while (true) ::pause();
  }
  UniqueFd stays;
  ASSERT_TRUE(sys::OpenAt(AT_FDCWD, dir.Join(kStatsFileName), O_RDONLY, 0, &stays).ok());
  store.reset();
  bool is_locked = true;
  EXPECT_TRUE(sys::HasExclusiveLock(stays.get(), &is_locked).ok());
  EXPECT_FALSE(is_locked);
  PublishedStats seen;
  bool has_ended = false;
  EXPECT_TRUE(reader.Read(&seen, &has_ended).ok());
  EXPECT_TRUE(has_ended);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

// The process is gone, and its lock is not.
TEST(StatsFileNamesTest, AReaderSeesThatAnotherFileHasTakenTheName) {
  TempDir dir;
  const auto store = OpenStore(dir.path(), OfferingOptions());
  ASSERT_NE(store, nullptr);
  StatsReader reader;
  ASSERT_TRUE(StatsReader::Open(dir.path(), &reader).ok());
  fs::rename(dir.Join(kStatsFileName), dir.Join("elsewhere"));
  std::ofstream(dir.Join(kStatsFileName)) << ContentOf(dir.Join("elsewhere"));
  PublishedStats seen;
  bool has_ended = false;
  EXPECT_TRUE(reader.Read(&seen, &has_ended).ok());
  EXPECT_TRUE(has_ended);
}

TEST(StatsFileNamesTest, LinksPipesAndDirectoriesInItsPlaceAreNotFollowed) {
  TempDir dir;
  { const auto store = OpenStore(dir.path(), TinyOptions()); }
  const std::string path = dir.Join(kStatsFileName);
  const std::string victim = dir.Join("victim");
  std::ofstream(victim) << "precious";
  fs::create_symlink(victim, path);
  EXPECT_EQ(CodeOfOpening(dir.path()), Code::kCorruption);
  { const auto store = OpenStore(dir.path(), OfferingOptions()); }
  EXPECT_TRUE(fs::is_symlink(path));
  fs::rename(path, dir.Join(kStatsTempName));
  { const auto store = OpenStore(dir.path(), OfferingOptions()); }
  EXPECT_TRUE(fs::is_symlink(dir.Join(kStatsTempName)));
  EXPECT_EQ(ContentOf(victim), "precious");
  fs::remove(dir.Join(kStatsTempName));

  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(CodeOfOpening(dir.path()), Code::kCorruption);  // and does not wait for a writer
  fs::remove(path);

  fs::create_directories(path + "/inside");
  LogLines lines;
  Options options = OfferingOptions();
  options.log = lines.Callback();
  const auto store = OpenStore(dir.path(), options);
  ASSERT_NE(store, nullptr);
  EXPECT_TRUE(lines.Said("the store does not offer its stats")) << lines.text();
  EXPECT_TRUE(store->Write(KeyOf(1), ValueOf(1, 1)).ok());
  EXPECT_TRUE(fs::exists(path + "/inside"));
  EXPECT_FALSE(fs::exists(dir.Join(kStatsTempName)));
}

}  // namespace
}  // namespace engine_race::test
