// What a store opens, makes and leaves behind in directories that others may have prepared: names,
// permissions and the directories around it.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <vector>

#include "engine_race/log/store_files.h"
#include "test/faults/system_calls.h"
#include "test/log/log_test_util.h"
#include "test/log/store_files_test_util.h"

namespace engine_race {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> NamesIn(const std::string& dir) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(dir)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

mode_t ModeOf(const std::string& path) {
  struct stat info = {};
  EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 0777;
}

class StoreSafetyTest : public test::StoreFilesFixture {};

TEST_F(StoreSafetyTest, ASymlinkInThePlaceOfAFileIsRefused) {
  Make();
  for (const std::string& name : NamesIn(Dir())) {
    const std::string outside = dir_.Join("outside");
    fs::rename(Join(name), outside);
    fs::create_symlink(outside, Join(name));
    for (const Status& refused : {Open(test::TinyLogOptions()), OpenToRead()}) {
      EXPECT_EQ(refused.code(), Code::kCorruption) << name << ": " << refused.ToString();
      EXPECT_NE(refused.message().find(name), std::string::npos) << refused.ToString();
      EXPECT_NE(refused.message().find("Options::paths"), std::string::npos) << name;
    }
    fs::remove(Join(name));
    fs::rename(outside, Join(name));
  }
  Make();
}

TEST_F(StoreSafetyTest, ASymlinkInThePlaceOfAPathsFileIsRefused) {
  Make(Striped());
  for (const char* name : {"value_00", "manifest_path", "manifest_lock"}) {
    fs::rename(dir_.Join("b/") + name, dir_.Join("outside"));
    fs::create_symlink(dir_.Join("outside"), dir_.Join("b/") + name);
    EXPECT_EQ(Open(Striped()).code(), Code::kCorruption) << name;
    EXPECT_EQ(OpenToRead().code(), Code::kCorruption) << name;
    fs::remove(dir_.Join("b/") + name);
    fs::rename(dir_.Join("outside"), dir_.Join("b/") + name);
  }
  Make(Striped());
}

TEST_F(StoreSafetyTest, DirectoriesMayBeSymlinks) {
  fs::create_directories(dir_.Join("disk/store"));
  fs::create_directory(dir_.Join("disk/a"));
  fs::create_directory_symlink(dir_.Join("disk/store"), Dir());
  fs::create_directory_symlink(dir_.Join("disk/a"), dir_.Join("a"));
  Make(Striped());
  Make(Striped());
  EXPECT_TRUE(OpenToRead().ok());
  EXPECT_TRUE(fs::exists(dir_.Join("disk/store/manifest")));
  EXPECT_TRUE(fs::exists(dir_.Join("disk/a/value_00")));
}

// A creation writes only to files that it has made.
TEST_F(StoreSafetyTest, NothingPreparedIsWrittenTo) {
  Options options = Striped();
  options.paths.push_back(Dir());
  for (const char* directory : {"store", "a", "b"}) fs::create_directory(dir_.Join(directory));
  std::ofstream(dir_.Join("victim")) << "untouched";
  for (const char* name : {"manifest.new", "manifest_path.new", "key_00", "value_00",
                           "staging_keys", "staging_values"}) {
    fs::create_symlink(dir_.Join("victim"), Join(name));
    fs::create_symlink(dir_.Join("victim"), dir_.Join("a/") + name);
  }
  Make(options);
  EXPECT_EQ(fs::file_size(dir_.Join("victim")), 9u);
  // A later opening does not write through a symlink either.
  fs::create_symlink(dir_.Join("victim"), Join("manifest.new"));
  fs::rename(dir_.Join("b"), dir_.Join("moved"));
  options.paths[1] = dir_.Join("moved");
  Make(options);
  EXPECT_EQ(fs::file_size(dir_.Join("victim")), 9u);
  EXPECT_FALSE(fs::exists(Join("manifest.new")));
}

TEST_F(StoreSafetyTest, WhatIsMadeIsItsUsersAlone) {
  const mode_t before = ::umask(0022);
  Make(Striped());
  ::umask(before);
  for (const std::string& dir : {Dir(), dir_.Join("a"), dir_.Join("b")}) {
    EXPECT_EQ(ModeOf(dir), 0700u) << dir;
    for (const std::string& name : NamesIn(dir)) EXPECT_EQ(ModeOf(dir + "/" + name), 0600u) << name;
  }
}

TEST_F(StoreSafetyTest, OptionsSayWhatOthersMay) {
  Options options = Striped();
  options.directory_mode = 0755;
  options.file_mode = 0664;
  fs::create_directory(dir_.Join("a"));
  ASSERT_EQ(::chmod(dir_.Join("a").c_str(), 0711), 0);
  const mode_t before = ::umask(0002);
  Make(options);
  ::umask(before);
  EXPECT_EQ(ModeOf(dir_.Join("a")), 0711u) << "it was given";
  for (const std::string& dir : {Dir(), dir_.Join("b")}) {
    EXPECT_EQ(ModeOf(dir), 0755u) << dir;
    for (const std::string& name : NamesIn(dir)) EXPECT_EQ(ModeOf(dir + "/" + name), 0664u) << name;
  }
}

TEST_F(StoreSafetyTest, AJournalHasTheModeOfTheOthers) {
  Options options = test::TinyLogOptions();
  options.sync_mode = SyncMode::kGroup;
  options.journal_bytes = kMinJournalBytes;
  const mode_t before = ::umask(0);
  for (const uint32_t mode : {0600u, 0640u}) {
    fs::remove_all(Dir());
    options.file_mode = mode;
    {
      const auto log = test::OpenLog(options, Dir());
      EXPECT_TRUE(log->Append(1, test::ValueOf(1, 1).data()).ok());
    }
    EXPECT_EQ(ModeOf(Join(format::kJournalName)), mode);
  }
  ::umask(before);
}

TEST_F(StoreSafetyTest, SecondNamesAreWarnedOf) {
  Make();
  std::vector<std::string> lines;
  Options options;
  options.log = [&lines](LogLevel, std::string_view line) { lines.emplace_back(line); };
  const auto warned = [&] {
    return std::any_of(lines.begin(), lines.end(), [](const std::string& line) {
      return line.find("value_01 has 2 names") != std::string::npos;
    });
  };
  Make(options);
  EXPECT_FALSE(warned());
  fs::create_hard_link(Join("value_01"), dir_.Join("backup"));
  Make(options);
  EXPECT_TRUE(warned());
}

TEST_F(StoreSafetyTest, WhatIsRefusedLeavesNothingBehind) {
  fs::create_directory(Dir());
  Options options = test::TinyLogOptions();
  options.create_if_missing = false;
  EXPECT_EQ(Open(options).code(), Code::kNotFound);
  EXPECT_EQ(OpenToRead().code(), Code::kNotFound);
  EXPECT_TRUE(fs::is_empty(Dir()));
  options = Striped();
  options.paths[1] = "/dev/engine_race-no-such-disk";
  const Status refused = Open(options);
  EXPECT_EQ(refused.code(), Code::kInvalidArgument) << refused.ToString();
  EXPECT_NE(refused.message().find(options.paths[1]), std::string::npos) << refused.ToString();
  EXPECT_FALSE(fs::exists(options.paths[1]));
  EXPECT_TRUE(fs::is_empty(Dir()));
  EXPECT_TRUE(fs::is_empty(dir_.Join("a")));
}

TEST_F(StoreSafetyTest, NoStoreIsMadeAmongDevices) {
  StoreFiles files;
  for (const char* dir : {"/dev/engine_race-no-such-disk", "/dev"}) {
    EXPECT_EQ(OpenStoreFiles(test::TinyLogOptions(), dir, &files).code(), Code::kInvalidArgument);
    files = StoreFiles();
    EXPECT_FALSE(fs::exists(std::string(dir) + "/manifest_lock"));
  }
  EXPECT_FALSE(fs::exists("/dev/engine_race-no-such-disk"));
}

TEST_F(StoreSafetyTest, AnothersPathIsNoDirectoryForAStore) {
  Make(Striped());
  StoreFiles files;
  const auto names = NamesIn(dir_.Join("a"));
  for (const Options& options : {test::TinyLogOptions(), Striped()}) {
    const Status refused = OpenStoreFiles(options, dir_.Join("a"), &files);
    EXPECT_EQ(refused.code(), Code::kInvalidArgument) << refused.ToString();
    EXPECT_NE(refused.message().find("path 0 of another"), std::string::npos);
    files = StoreFiles();
    EXPECT_EQ(NamesIn(dir_.Join("a")), names);
  }
  Make(Striped());
}

TEST_F(StoreSafetyTest, ItsOwnInterruptedCreationMayHaveMarkedIt) {
  Options options = Striped();
  options.paths[0] = Dir();
  Make(options);
  fs::rename(Join("manifest"), Join("manifest.draft"));
  Make(options);
  Make(options);
}

// Notes which directories are flushed, and when the manifest takes its name.
class FlushWatch : public test::SystemCallHook {
 public:
  long OnCall(test::SystemCall* call) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (call->kind == test::CallKind::kFsync) events.push_back(test::PathOf(*call));
    if (call->kind == test::CallKind::kRenameAt &&
        std::string(call->new_name) == format::kManifestName) {
      events.emplace_back("manifest");
    }
    return call->Proceed();
  }
  std::vector<std::string> events;

 private:
  std::mutex mutex_;
};

TEST_F(StoreSafetyTest, EveryNameAboveIsDurableBeforeTheManifest) {
  const std::string root = fs::canonical(dir_.path()).string();
  // In the second round the directories are there already, as a killed creation leaves them.
  for (const bool made_before : {false, true}) {
    Options options = Striped();
    options.paths = {dir_.Join("x/y/a"), dir_.Join("v/b")};
    if (made_before) {
      fs::remove_all(dir_.Join("x/store"));
      for (const std::string& path : options.paths) fs::remove(path + "/manifest_path");
      fs::create_directory(dir_.Join("x/store"));
    }
    FlushWatch watch;
    StoreFiles files;
    {
      const test::ScopedHook hook(&watch);
      const Status made = OpenStoreFiles(options, dir_.Join("x/store"), &files);
      ASSERT_TRUE(made.ok()) << made.ToString();
    }
    const auto manifest = std::find(watch.events.begin(), watch.events.end(), "manifest");
    ASSERT_NE(manifest, watch.events.end());
    std::vector<std::string> holders = {"/x", "/x/y", "/v"};
    if (!made_before) holders.emplace_back("");
    for (const std::string& holder : holders) {
      EXPECT_NE(std::find(watch.events.begin(), manifest, root + holder), manifest) << holder;
    }
  }
}

}  // namespace
}  // namespace engine_race
