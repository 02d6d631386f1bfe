// What a store opens, makes and leaves behind in directories that others may have prepared: names,
// permissions, locks of older builds and the directories around it.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "engine_race/base/checksum.h"
#include "engine_race/log/path_marker.h"
#include "engine_race/log/store_files.h"
#include "engine_race/log/verify.h"
#include "test/faults/system_calls.h"
#include "test/log/log_test_util.h"

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

class StoreSafetyTest : public testing::Test {
 protected:
  Status Open(const Options& options) {
    StoreFiles files;
    return OpenStoreFiles(options, Dir(), &files);
  }
  Status OpenToRead() {
    StoreFiles files;
    return OpenStoreFilesToRead(Dir(), &files);
  }
  void Make(const Options& options = test::TinyOptions()) {
    const Status made = Open(options);
    ASSERT_TRUE(made.ok()) << made.ToString();
  }
  Options Striped() const {
    Options options = test::TinyOptions();
    options.stripe_unit_bytes = kMinStripeUnitBytes;
    options.paths = {dir_.Join("a"), dir_.Join("b")};
    return options;
  }
  std::string Dir() const { return dir_.Join("store"); }
  std::string Join(const std::string& name) const { return Dir() + "/" + name; }
  mode_t ModeOf(const std::string& path) const {
    struct stat info = {};
    EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
    return info.st_mode & 0777;
  }

  test::TempDir dir_;
};

TEST_F(StoreSafetyTest, ASymlinkInThePlaceOfAFileIsRefused) {
  Make();
  for (const std::string& name : NamesIn(Dir())) {
    const std::string outside = dir_.Join("outside");
    fs::rename(Join(name), outside);
    fs::create_symlink(outside, Join(name));
    for (const Status& refused : {Open(test::TinyOptions()), OpenToRead()}) {
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
  for (const char* name : {"value_01", "manifest_path", "manifest_lock"}) {
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

// Whatever a creation writes to, it has made itself.
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
  // Nor by what is written later.
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
  Options options = test::TinyOptions();
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
  Options options = test::TinyOptions();
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
    EXPECT_EQ(OpenStoreFiles(test::TinyOptions(), dir, &files).code(), Code::kInvalidArgument);
    files = StoreFiles();
    EXPECT_FALSE(fs::exists(std::string(dir) + "/manifest_lock"));
  }
  EXPECT_FALSE(fs::exists("/dev/engine_race-no-such-disk"));
}

TEST_F(StoreSafetyTest, AnothersPathIsNoDirectoryForAStore) {
  Make(Striped());
  StoreFiles files;
  const auto names = NamesIn(dir_.Join("a"));
  for (const Options& options : {test::TinyOptions(), Striped()}) {
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

// Which directories are flushed, and when the manifest takes its name.
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
  // The second time the directories are there, as a killed creation leaves them.
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

// Stores of format 3, which a build that knows the flock alone may have open.
class OldStoreTest : public StoreSafetyTest {
 protected:
  void SetUp() override {
    Make(Striped());
    SetVersion<format::Manifest>(Join("manifest"), format::kManifestMagic);
    for (const char* path : {"a", "b"}) {
      SetVersion<format::PathMarker>(dir_.Join(path) + "/manifest_path", format::kMarkerMagic);
      fs::remove(dir_.Join(path) + "/manifest_lock");
    }
    fs::remove(Join("manifest_lock"));
    ASSERT_EQ(Version(), 3u);
  }

  template <typename Page>
  void SetVersion(const std::string& path, uint64_t seed) {
    Page page;
    std::ifstream(path, std::ios::binary).read(reinterpret_cast<char*>(&page), sizeof(page));
    page.format_version = format::kFlockFormatVersion;
    page.checksum = Hash64(&page, offsetof(Page, checksum), seed);
    test::Overwrite(path, &page, sizeof(page), 0);
  }
  uint32_t Version() const {
    UniqueFd fd;
    StoreIdentity identity;
    EXPECT_TRUE(sys::OpenDirectory(Dir(), false, &fd).ok());
    EXPECT_TRUE(ReadManifest(fd.get(), &identity).ok());
    return identity.format_version;
  }
  uint32_t MarkerVersion(const std::string& path) const {
    UniqueFd fd;
    format::PathMarker marker{};
    EXPECT_TRUE(sys::OpenDirectory(dir_.Join(path), false, &fd).ok());
    EXPECT_TRUE(ReadPathMarker(fd.get(), &marker).ok());
    return marker.format_version;
  }
  // As a build of that format locks a directory.
  UniqueFd OldLock(const std::string& dir) const {
    UniqueFd fd;
    bool supported = false;
    EXPECT_TRUE(sys::OpenDirectory(dir, false, &fd).ok());
    if (!sys::Flock(fd.get(), sys::LockKind::kExclusive, &supported).ok()) fd.Reset();
    return fd;
  }
};

TEST_F(OldStoreTest, BecomesANewOne) {
  std::vector<std::string> lines;
  Options options;
  options.log = [&lines](LogLevel, std::string_view line) { lines.emplace_back(line); };
  {
    StoreFiles files;
    const Status opened = OpenStoreFiles(options, Dir(), &files);
    ASSERT_TRUE(opened.ok()) << opened.ToString();
    EXPECT_TRUE(OldLock(Dir()).valid()) << "the flock is needed no more";
  }
  EXPECT_EQ(Version(), 4u);
  EXPECT_EQ(MarkerVersion("a"), 4u);
  EXPECT_EQ(MarkerVersion("b"), 4u);
  EXPECT_TRUE(std::any_of(lines.begin(), lines.end(), [](const std::string& line) {
    return line.find("from format 3 to 4") != std::string::npos;
  }));
  for (const std::string& dir : {Dir(), dir_.Join("a"), dir_.Join("b")}) {
    EXPECT_TRUE(fs::exists(dir + "/manifest_lock"));
  }
  Make(Striped());
}

TEST_F(OldStoreTest, IsRefusedWhileAnOldBuildHasIt) {
  for (const std::string& dir : {Dir(), dir_.Join("a"), dir_.Join("b")}) {
    const UniqueFd old_build = OldLock(dir);
    ASSERT_TRUE(old_build.valid());
    EXPECT_EQ(Open(Options()).code(), Code::kIOError) << dir;
    EXPECT_EQ(OpenToRead().code(), Code::kIOError) << dir;
    EXPECT_EQ(Version(), 3u);
    for (const std::string& each : {Dir(), dir_.Join("a"), dir_.Join("b")}) {
      EXPECT_FALSE(fs::exists(each + "/manifest_lock")) << each;
    }
  }
  Make(Striped());
}

TEST_F(OldStoreTest, IsReadAsItIs) {
  StoreFiles first;
  StoreFiles second;
  ASSERT_TRUE(OpenStoreFilesToRead(Dir(), &first).ok());
  ASSERT_TRUE(OpenStoreFilesToRead(Dir(), &second).ok()) << "beside another one";
  EXPECT_FALSE(OldLock(Dir()).valid());
  EXPECT_FALSE(OldLock(dir_.Join("b")).valid());
  EXPECT_EQ(Open(Options()).code(), Code::kIOError);
  first = StoreFiles();
  second = StoreFiles();
  EXPECT_EQ(Version(), 3u);
  EXPECT_FALSE(fs::exists(Join("manifest_lock")));
}

// As an interrupted upgrade leaves it, for an old build to go on with.
TEST_F(OldStoreTest, ALockFileAloneMakesItNoNewStore) {
  for (const std::string& dir : {Dir(), dir_.Join("a"), dir_.Join("b")}) {
    std::ofstream(dir + "/manifest_lock").flush();
  }
  for (const std::string& dir : {Dir(), dir_.Join("a"), dir_.Join("b")}) {
    const UniqueFd old_build = OldLock(dir);
    EXPECT_EQ(OpenToRead().code(), Code::kIOError) << dir;
    EXPECT_EQ(Open(Options()).code(), Code::kIOError) << dir;
  }
  EXPECT_TRUE(OpenToRead().ok());
  EXPECT_EQ(Version(), 3u);
}

TEST_F(OldStoreTest, AnInterruptedUpgradeIsGoneOnWith) {
  StoreIdentity identity;
  UniqueFd fd;
  ASSERT_TRUE(sys::OpenDirectory(Dir(), false, &fd).ok());
  ASSERT_TRUE(ReadManifest(fd.get(), &identity).ok());
  ASSERT_TRUE(sys::OpenDirectory(dir_.Join("a"), false, &fd).ok());
  ASSERT_TRUE(WritePathMarker(fd.get(), identity, 0, 0600).ok());
  Make(Striped());
  EXPECT_EQ(Version(), 4u);
  EXPECT_EQ(MarkerVersion("b"), 4u);
}

// While there is no manifest that it would refuse, an old build has to be kept out otherwise.
TEST_F(OldStoreTest, AnOldBuildAndThisOneDoNotMakeAStoreAtOnce) {
  fs::remove_all(Dir());
  fs::create_directory(Dir());
  {
    const UniqueFd old_build = OldLock(Dir());
    EXPECT_EQ(Open(test::TinyOptions()).code(), Code::kIOError);
    EXPECT_TRUE(fs::is_empty(Dir()));
  }
  Make();
}

TEST_F(StoreSafetyTest, AStrangersFlockKeepsNobodyOut) {
  Make(Striped());
  std::vector<UniqueFd> strangers(3);
  bool supported = false;
  const std::string dirs[] = {Dir(), dir_.Join("a"), dir_.Join("b")};
  for (size_t i = 0; i < strangers.size(); ++i) {
    ASSERT_TRUE(sys::OpenDirectory(dirs[i], false, &strangers[i]).ok());
    ASSERT_TRUE(sys::Flock(strangers[i].get(), sys::LockKind::kExclusive, &supported).ok());
  }
  Make(Striped());
  EXPECT_TRUE(OpenToRead().ok());
}

TEST_F(StoreSafetyTest, SeveralMayReadAndNobodyWritesMeanwhile) {
  Make(Striped());
  StoreFiles reader;
  ASSERT_TRUE(OpenStoreFilesToRead(Dir(), &reader).ok());
  VerifyReport report;
  EXPECT_TRUE(VerifyStore(Dir(), &report, {}).ok());
  EXPECT_EQ(Open(Options()).code(), Code::kIOError);
  reader = StoreFiles();
  StoreFiles writer;
  ASSERT_TRUE(OpenStoreFiles(Options(), Dir(), &writer).ok());
  EXPECT_EQ(OpenToRead().code(), Code::kIOError);
}

TEST_F(StoreSafetyTest, AMissingLockFileIsForTheUserToReplace) {
  Make(Striped());
  fs::remove(Join("manifest_lock"));
  for (const Status& refused : {OpenToRead(), Open(Striped())}) {
    EXPECT_EQ(refused.code(), Code::kCorruption);
    EXPECT_NE(refused.message().find("manifest_lock is missing"), std::string::npos);
    EXPECT_FALSE(fs::exists(Join("manifest_lock")));
  }
  std::ofstream(Join("manifest_lock")).flush();
  Make(Striped());
  EXPECT_TRUE(OpenToRead().ok());
}

TEST_F(StoreSafetyTest, AMissingLockFileOfAPathIsMadeByAWriterAlone) {
  Make(Striped());
  fs::remove(dir_.Join("b/manifest_lock"));
  const Status refused = OpenToRead();
  EXPECT_EQ(refused.code(), Code::kCorruption);
  EXPECT_NE(refused.message().find("manifest_lock is missing"), std::string::npos);
  EXPECT_FALSE(fs::exists(dir_.Join("b/manifest_lock")));
  Make(Striped());
  EXPECT_TRUE(fs::exists(dir_.Join("b/manifest_lock")));
  EXPECT_TRUE(OpenToRead().ok());
}

}  // namespace
}  // namespace engine_race
