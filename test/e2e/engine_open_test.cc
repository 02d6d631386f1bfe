// What Open makes, what it refuses, and with which code; a refusal says why through the log.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <functional>

#include "engine_race/base/checksum.h"
#include "engine_race/log/format.h"
#include "test/e2e/engine_fixture.h"

namespace engine_race::test {
namespace {

namespace fs = std::filesystem;
using polar_race::kCorruption;
using polar_race::kIOError;
using polar_race::kNotSupported;
using polar_race::kSucc;

constexpr uint32_t kRecordCount = 100;

void WriteSome(Engine* engine, uint64_t version) {
  for (uint64_t i = 0; i < kRecordCount; ++i) {
    ASSERT_EQ(engine->Write(KeyOf(NthKey(i)), ValueOf(NthKey(i), version)), kSucc);
  }
}

std::map<uint64_t, uint64_t> SomeAt(uint64_t version) {
  std::map<uint64_t, uint64_t> expected;
  for (uint64_t i = 0; i < kRecordCount; ++i) expected[NthKey(i)] = version;
  return expected;
}

class EngineOpenTest : public ::testing::Test {
 protected:
  void MakeStore() {
    const auto engine = OpenEngine(store_);
    ASSERT_NE(engine, nullptr);
    WriteSome(engine.get(), 1);
  }

  // Both doors refuse with this code, and the one with a log says something there.
  void ExpectRefused(RetCode code) {
    auto* engine = reinterpret_cast<Engine*>(0x1);
    EXPECT_EQ(Engine::Open(store_, &engine), code);
    EXPECT_EQ(engine, nullptr);
    LogLines log;
    Options options;
    options.log = log.Callback();
    std::unique_ptr<Store> store;
    const Status status = Store::Open(AsRun(options), store_, &store);
    EXPECT_EQ(static_cast<int>(status.code()), static_cast<int>(code)) << status.ToString();
    EXPECT_EQ(store, nullptr);
    EXPECT_FALSE(status.message().empty());
    EXPECT_FALSE(log.lines().empty()) << "no message for " << status.ToString();
  }

  void EditManifest(const std::function<void(format::Manifest*)>& edit) {
    std::fstream file(Manifest(), std::ios::in | std::ios::out | std::ios::binary);
    format::Manifest manifest;
    ASSERT_TRUE(file.read(reinterpret_cast<char*>(&manifest), sizeof(manifest)));
    edit(&manifest);
    file.seekp(0);
    ASSERT_TRUE(file.write(reinterpret_cast<const char*>(&manifest), sizeof(manifest)).flush());
  }

  // As EditManifest, the checksum made to fit.
  void EditManifestSoundly(const std::function<void(format::Manifest*)>& edit) {
    EditManifest([&](format::Manifest* manifest) {
      edit(manifest);
      manifest->checksum =
          Hash64(manifest, offsetof(format::Manifest, checksum), format::kManifestMagic);
    });
  }

  std::string Manifest() const { return store_ + "/" + format::kManifestName; }

  void ExpectUnharmed() {
    const auto engine = OpenEngine(store_);
    ASSERT_NE(engine, nullptr);
    ExpectHolds(engine.get(), SomeAt(1));
  }

  TempDir dir_;
  const std::string store_ = dir_.Join("store");
};

TEST_F(EngineOpenTest, MakesMissingDirectoriesParentsIncluded) {
  const std::string nested = dir_.Join("a/b/c");
  { EXPECT_NE(OpenEngine(nested), nullptr); }
  EXPECT_TRUE(fs::is_directory(nested));
  EXPECT_NE(OpenEngine(nested), nullptr);
}

TEST_F(EngineOpenTest, EmptyStoreStaysSmall) {
  { OpenEngine(store_); }
  uint64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(store_)) {
    struct stat info;
    ASSERT_EQ(::stat(entry.path().c_str(), &info), 0);
    bytes += static_cast<uint64_t>(info.st_blocks) * 512;
  }
  EXPECT_LE(bytes, 16u << 20);
}

TEST_F(EngineOpenTest, FileNamesSayWhatTheyHold) {
  MakeStore();
  for (const auto& entry : fs::directory_iterator(store_)) {
    const std::string name = entry.path().filename();
    EXPECT_TRUE(name.find("manifest") != name.npos || name.find("key") != name.npos ||
                name.find("value") != name.npos || name.find("staging") != name.npos)
        << name;
  }
}

TEST_F(EngineOpenTest, SecondOpenerInTheProcessIsRefusedAndTheFirstUnharmed) {
  const auto first = OpenEngine(store_);
  WriteSome(first.get(), 1);
  ExpectRefused(kIOError);
  WriteSome(first.get(), 2);
  ExpectRefused(kIOError);
  ExpectHolds(first.get(), SomeAt(2));
}

TEST_F(EngineOpenTest, OpenerInAnotherProcessIsRefusedAndTheFirstUnharmed) {
  auto first = OpenEngine(store_);
  WriteSome(first.get(), 1);
  EXPECT_EQ(InChild([&] {
              Engine* second = nullptr;
              return Engine::Open(store_, &second) == kIOError && second == nullptr ? 0 : 1;
            }),
            0);
  WriteSome(first.get(), 2);
  ExpectHolds(first.get(), SomeAt(2));
  first.reset();
  const auto again = OpenEngine(store_);
  ExpectHolds(again.get(), SomeAt(2));
}

TEST_F(EngineOpenTest, LockOfAnotherProcessIsRespectedAndEndsWithIt) {
  int opened[2];
  int release[2];
  ASSERT_EQ(::pipe(opened), 0);
  ASSERT_EQ(::pipe(release), 0);
  char byte = 0;
  const pid_t child = ::fork();
  if (child == 0) {
    Engine* engine = nullptr;
    if (Engine::Open(store_, &engine) != kSucc) ::_exit(1);
    if (::write(opened[1], &byte, 1) != 1 || ::read(release[0], &byte, 1) != 1) ::_exit(2);
    // Its owner goes on as if nobody had knocked, and leaves without closing.
    for (uint64_t i = 0; i < kRecordCount; ++i) {
      if (engine->Write(KeyOf(NthKey(i)), ValueOf(NthKey(i), 1)) != kSucc) ::_exit(3);
    }
    ::_exit(0);
  }
  ASSERT_EQ(::read(opened[0], &byte, 1), 1);
  ExpectRefused(kIOError);
  ASSERT_EQ(::write(release[1], &byte, 1), 1);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  for (const int fd : {opened[0], opened[1], release[0], release[1]}) ::close(fd);
  ExpectUnharmed();
}

TEST_F(EngineOpenTest, FailedOpenReleasesTheLock) {
  MakeStore();
  EditManifest([](format::Manifest* manifest) { manifest->checksum ^= 1; });
  ExpectRefused(kCorruption);
  EditManifest([](format::Manifest* manifest) { manifest->checksum ^= 1; });
  ExpectUnharmed();
}

TEST_F(EngineOpenTest, FileInTheDirectorysPlace) {
  std::ofstream(store_) << "a file";
  ExpectRefused(kIOError);
  EXPECT_EQ(fs::file_size(store_), 6u);
}

TEST_F(EngineOpenTest, FileInAParentsPlace) {
  std::ofstream(dir_.Join("file")) << "a file";
  Engine* engine = nullptr;
  EXPECT_EQ(Engine::Open(dir_.Join("file/store"), &engine), kIOError);
  EXPECT_EQ(engine, nullptr);
}

// Root may write anywhere, so the test goes on as somebody else, in a process of its own.
class EngineOpenUnprivilegedTest : public EngineOpenTest {
 protected:
  int RefusedAsNobody() {
    return InChild([this] {
      if (!DropRights()) return 10;
      LogLines log;
      Options options;
      options.log = log.Callback();
      std::unique_ptr<Store> store;
      const Status status = Store::Open(AsRun(options), store_, &store);
      if (status.code() != Code::kIOError) return 11;
      return log.lines().empty() ? 12 : 0;
    });
  }
};

TEST_F(EngineOpenUnprivilegedTest, DirectoryThatMayNotBeWritten) {
  fs::create_directory(store_);
  ASSERT_EQ(::chmod(dir_.path().c_str(), 0755), 0);
  ASSERT_EQ(::chmod(store_.c_str(), 0555), 0);
  EXPECT_EQ(RefusedAsNobody(), 0);
  EXPECT_TRUE(fs::is_empty(store_));
}

TEST_F(EngineOpenUnprivilegedTest, ParentThatMayNotBeWritten) {
  ASSERT_EQ(::chmod(dir_.path().c_str(), 0555), 0);
  EXPECT_EQ(RefusedAsNobody(), 0);
  EXPECT_FALSE(fs::exists(store_));
  ASSERT_EQ(::chmod(dir_.path().c_str(), 0755), 0);
}

TEST_F(EngineOpenUnprivilegedTest, StoreWhoseFilesMayNotBeWritten) {
  MakeStore();
  ASSERT_EQ(::chmod(dir_.path().c_str(), 0755), 0);
  for (const auto& entry : fs::directory_iterator(store_)) {
    ASSERT_EQ(::chmod(entry.path().c_str(), 0444), 0);
  }
  EXPECT_EQ(RefusedAsNobody(), 0);
  for (const auto& entry : fs::directory_iterator(store_)) {
    ASSERT_EQ(::chmod(entry.path().c_str(), 0644), 0);
  }
  ExpectUnharmed();
}

TEST_F(EngineOpenTest, OtherFormatVersionIsNotSupported) {
  MakeStore();
  // 9 is that of a build before the first release.
  for (const uint32_t version : {2, 9}) {
    EditManifestSoundly([&](format::Manifest* manifest) { manifest->format_version = version; });
    ExpectRefused(kNotSupported);
  }
  // Such a build has written version 1 as well, and no size of entries.
  EditManifestSoundly([](format::Manifest* manifest) {
    manifest->format_version = 1;
    manifest->entry_bytes = 0;
  });
  ExpectRefused(kNotSupported);
  EditManifestSoundly([](format::Manifest* manifest) { manifest->entry_bytes = kKeyEntryBytes; });
  ExpectUnharmed();
}

TEST_F(EngineOpenTest, GeometryThatCannotBeUsedIsNotSupported) {
  MakeStore();
  const auto refused_with = [this](const std::function<void(format::Manifest*)>& edit) {
    format::Manifest before;
    EditManifestSoundly([&](format::Manifest* manifest) {
      before = *manifest;
      edit(manifest);
    });
    ExpectRefused(kNotSupported);
    EditManifest([&](format::Manifest* manifest) { *manifest = before; });
  };
  refused_with([](format::Manifest* m) { m->bucket_count = 0; });
  refused_with([](format::Manifest* m) { m->bucket_count = 1000; });
  refused_with([](format::Manifest* m) { m->bucket_count = 1u << 31; });
  refused_with([](format::Manifest* m) { m->file_count = 0; });
  refused_with([](format::Manifest* m) { m->file_count = m->bucket_count * 2; });
  refused_with([](format::Manifest* m) { m->value_group_bytes = 0; });
  refused_with([](format::Manifest* m) { m->value_group_bytes = 1u << 30; });
  refused_with([](format::Manifest* m) { m->key_group_bytes = 16; });
  refused_with([](format::Manifest* m) { m->value_places = 0; });
  refused_with([](format::Manifest* m) { m->bucket_capacity_records = 1ull << 40; });
  refused_with([](format::Manifest* m) { m->bucket_capacity_records = 0; });
  refused_with([](format::Manifest* m) { m->key_bytes = 16; });
  refused_with([](format::Manifest* m) { m->value_bytes = kMinValueBytes - 1; });
  refused_with([](format::Manifest* m) { m->value_bytes = kMaxValueBytes + 1; });
  ExpectUnharmed();
}

TEST_F(EngineOpenTest, TruncatedManifestIsCorruption) {
  MakeStore();
  std::string whole(format::kManifestBytes, '\0');
  std::ifstream(Manifest(), std::ios::binary).read(whole.data(), whole.size());
  for (const size_t size : {0, 1, 8, 40, 63, 64, 4095}) {
    fs::resize_file(Manifest(), size);
    SCOPED_TRACE(size);
    ExpectRefused(kCorruption);
  }
  std::ofstream(Manifest(), std::ios::binary).write(whole.data(), whole.size());
  ExpectUnharmed();
}

TEST_F(EngineOpenTest, ForeignManifestIsCorruption) {
  MakeStore();
  const std::string foreign = "# another program's manifest\n" + std::string(8192, '#');
  std::ofstream(Manifest(), std::ios::binary).write(foreign.data(), foreign.size());
  ExpectRefused(kCorruption);
  std::ofstream(Manifest(), std::ios::binary).write(std::string(4096, '\0').data(), 4096);
  ExpectRefused(kCorruption);
}

TEST_F(EngineOpenTest, EveryDamagedByteOfTheManifestIsNoticed) {
  MakeStore();
  for (size_t i = 0; i < sizeof(format::Manifest); ++i) {
    SCOPED_TRACE(i);
    const auto flip = [i](format::Manifest* manifest) {
      reinterpret_cast<unsigned char*>(manifest)[i] ^= 0x10;
    };
    EditManifest(flip);
    ExpectRefused(kCorruption);
    EditManifest(flip);
  }
  ExpectUnharmed();
}

TEST_F(EngineOpenTest, RecordsWithoutManifestAreCorruption) {
  MakeStore();
  fs::rename(Manifest(), dir_.Join("kept"));
  ExpectRefused(kCorruption);
  ExpectRefused(kCorruption);
  fs::rename(dir_.Join("kept"), Manifest());
  ExpectUnharmed();
}

TEST_F(EngineOpenTest, OneStagedRecordWithoutManifestIsCorruption) {
  {
    const auto engine = OpenEngine(store_);
    ASSERT_EQ(engine->Write(KeyOf(1), ValueOf(1, 1)), kSucc);
  }
  fs::rename(Manifest(), dir_.Join("kept"));
  ExpectRefused(kCorruption);
  fs::rename(dir_.Join("kept"), Manifest());
  EXPECT_EQ(VersionOf(OpenEngine(store_).get(), 1), 1u);
}

TEST_F(EngineOpenTest, InterruptedCreationIsMadeAnew) {
  { OpenStore(store_, TinyOptions()); }
  fs::remove(Manifest());
  // The next one has another geometry, so it must not build on what is there.
  MakeStore();
  ExpectUnharmed();
}

TEST_F(EngineOpenTest, HalfWrittenManifestOfAnInterruptedCreationIsMadeAnew) {
  { OpenStore(store_, TinyOptions()); }
  fs::rename(Manifest(), store_ + "/" + format::kManifestTempName);
  fs::resize_file(store_ + "/" + format::kManifestTempName, 100);
  fs::remove(store_ + "/value_01");
  MakeStore();
  ExpectUnharmed();
}

TEST_F(EngineOpenTest, MissingOrShortenedFilesAreCorruption) {
  MakeStore();
  for (const char* name : {"value_05", "key_17", format::kStagingCountsName,
                           format::kStagingKeysName, format::kStagingValuesName}) {
    SCOPED_TRACE(name);
    fs::rename(store_ + "/" + name, dir_.Join("kept"));
    ExpectRefused(kCorruption);
    EXPECT_FALSE(fs::exists(store_ + "/" + name)) << "made anew";
    fs::rename(dir_.Join("kept"), store_ + "/" + name);
  }
  const std::string shortened = store_ + "/" + format::kStagingKeysName;
  const uint64_t size_bytes = fs::file_size(shortened);
  fs::resize_file(shortened, 4096);
  ExpectRefused(kCorruption);
  fs::resize_file(shortened, size_bytes);
}

TEST_F(EngineOpenTest, UnknownFilesAreLeftAlone) {
  fs::create_directories(store_ + "/lost+found");
  std::ofstream(store_ + "/notes.txt") << "mine";
  MakeStore();
  ExpectUnharmed();
  EXPECT_TRUE(fs::is_directory(store_ + "/lost+found"));
  EXPECT_EQ(fs::file_size(store_ + "/notes.txt"), 4u);
}

TEST_F(EngineOpenTest, RelativePathsAndTrailingSlashes) {
  MakeStore();
  const fs::path before = fs::current_path();
  fs::current_path(dir_.path());
  {
    const auto engine = OpenEngine("store/");
    ASSERT_NE(engine, nullptr);
    ExpectHolds(engine.get(), SomeAt(1));
  }
  fs::current_path(before);
}

}  // namespace
}  // namespace engine_race::test
