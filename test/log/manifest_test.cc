#include "engine_race/log/manifest.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <vector>

#include "engine_race/base/checksum.h"
#include "test/log/log_test_util.h"

namespace engine_race {
namespace {

class ManifestTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(sys::OpenDirectory(dir_.path(), false, &dir_fd_).ok());
    identity_.geometry = GeometryFrom(test::TinyLogOptions());
    identity_.geometry.path_count = 2;
    identity_.paths = {"/disks/a", "/b"};
    identity_.store_id = 0xabcdef;
    ASSERT_TRUE(WriteManifest(dir_fd_.get(), identity_, 0600).ok());
  }

  Code ReadCode() {
    StoreIdentity identity;
    return ReadManifest(dir_fd_.get(), &identity).code();
  }

  // Changes the manifest through `edit` and gives it a good checksum again.
  template <typename Edit>
  void Rewrite(Edit edit) {
    UniqueFd fd;
    ASSERT_TRUE(sys::OpenAt(dir_fd_.get(), format::kManifestName, O_RDWR, 0, &fd).ok());
    format::Manifest manifest;
    ASSERT_TRUE(sys::PreadFull(fd.get(), &manifest, sizeof(manifest), 0).ok());
    edit(&manifest);
    manifest.checksum =
        Hash64(&manifest, offsetof(format::Manifest, checksum), format::kManifestMagic);
    ASSERT_TRUE(sys::PwriteFull(fd.get(), &manifest, sizeof(manifest), 0).ok());
  }

  test::TempDir dir_;
  UniqueFd dir_fd_;
  StoreIdentity identity_;
};

TEST_F(ManifestTest, ReadsWhatWasWritten) {
  StoreIdentity identity;
  ASSERT_TRUE(ReadManifest(dir_fd_.get(), &identity).ok());
  EXPECT_EQ(identity.store_id, identity_.store_id);
  EXPECT_EQ(identity.geometry.bucket_count, identity_.geometry.bucket_count);
  EXPECT_EQ(identity.geometry.file_count, identity_.geometry.file_count);
  EXPECT_EQ(identity.geometry.value_group_bytes, identity_.geometry.value_group_bytes);
  EXPECT_EQ(identity.geometry.key_group_bytes, identity_.geometry.key_group_bytes);
  EXPECT_EQ(identity.geometry.bucket_capacity_records, identity_.geometry.bucket_capacity_records);
  EXPECT_EQ(identity.geometry.path_count, 2u);
  EXPECT_EQ(identity.paths, identity_.paths);
  EXPECT_FALSE(std::filesystem::exists(dir_.Join(format::kManifestTempName)));
}

TEST_F(ManifestTest, ItSaysTheSizeOfValues) {
  for (const uint32_t value_bytes : test::kValueSizes) {
    for (const uint32_t group_bytes : {4096, 131072, 1 << 20}) {
      Options options = test::SizedLogOptions(value_bytes);
      options.value_group_bytes = group_bytes;
      identity_.geometry = GeometryFrom(options);
      identity_.geometry.path_count = 2;
      ASSERT_TRUE(WriteManifest(dir_fd_.get(), identity_, 0600).ok());
      StoreIdentity identity;
      const Status read = ReadManifest(dir_fd_.get(), &identity);
      ASSERT_TRUE(read.ok()) << read.ToString();
      EXPECT_EQ(identity.geometry.value_bytes(), value_bytes);
      EXPECT_EQ(identity.geometry.values_per_group(), identity_.geometry.values_per_group());
      EXPECT_TRUE(CheckAgainst(options, identity).ok());
      options.value_bytes = 0;
      EXPECT_TRUE(CheckAgainst(options, identity).ok());
      options.value_bytes = value_bytes + 1;
      EXPECT_EQ(CheckAgainst(options, identity).code(), Code::kInvalidArgument);
    }
  }
}

TEST_F(ManifestTest, ACloneNamesAnotherSeed) {
  identity_.other_seed_id = 0x1234;
  for (const bool has_all_keys : {true, false}) {
    if (!has_all_keys) identity_.geometry.Divide({7, 1000000});
    ASSERT_TRUE(WriteManifest(dir_fd_.get(), identity_, 0600).ok());
    StoreIdentity identity;
    ASSERT_TRUE(ReadManifest(dir_fd_.get(), &identity).ok());
    EXPECT_EQ(identity.store_id, identity_.store_id);
    EXPECT_EQ(identity.seed_id(), 0x1234u);
    EXPECT_EQ(identity.paths, identity_.paths);
    EXPECT_EQ(identity.geometry.keys(), identity_.geometry.keys());
  }
}

// Whatever the store becomes, its manifest has room for all that stands behind the names.
TEST_F(ManifestTest, NamesLeaveRoomForWhatComesLater) {
  identity_.geometry.path_count = 1;
  identity_.paths = {"/" + std::string(3856 - 2, 'n')};
  EXPECT_TRUE(CheckPathNames(identity_).ok());
  identity_.other_seed_id = 0x1234;
  identity_.geometry.Divide({5, 77});
  identity_.noted_backups.fill(9);
  ASSERT_TRUE(WriteManifest(dir_fd_.get(), identity_, 0600).ok());
  StoreIdentity identity;
  ASSERT_TRUE(ReadManifest(dir_fd_.get(), &identity).ok());
  EXPECT_EQ(identity.paths, identity_.paths);
  EXPECT_EQ(identity.noted_backups, identity_.noted_backups);
  EXPECT_EQ(identity.seed_id(), 0x1234u);
  identity_.paths[0] += 'n';
  EXPECT_EQ(CheckPathNames(identity_).code(), Code::kInvalidArgument);
}

TEST_F(ManifestTest, BackupsAreNotedInTheOrderOfTheirUse) {
  StoreIdentity identity = identity_;
  const auto note = [&](uint64_t id, uint64_t parent) {
    ASSERT_TRUE(WriteNoteOfBackup(dir_fd_.get(), 0600, id, parent, &identity).ok());
    StoreIdentity read;
    ASSERT_TRUE(ReadManifest(dir_fd_.get(), &read).ok());
    EXPECT_EQ(read.noted_backups, identity.noted_backups);
    EXPECT_EQ(read.paths, identity_.paths);
  };
  const auto noted = [&](size_t count) {
    return std::vector<uint64_t>(identity.noted_backups.begin(),
                                 identity.noted_backups.begin() + static_cast<ptrdiff_t>(count));
  };
  note(1, 0);
  note(2, 1);
  EXPECT_EQ(noted(3), (std::vector<uint64_t>{2, 1, 0}));
  note(3, 1);
  EXPECT_EQ(noted(4), (std::vector<uint64_t>{3, 1, 2, 0}));
  for (uint64_t id = 4; id <= 16; ++id) note(id, 0);
  EXPECT_EQ(identity.noted_backups.back(), 2u);
  note(17, 2);
  EXPECT_EQ(noted(3), (std::vector<uint64_t>{17, 2, 16}));
  EXPECT_EQ(identity.noted_backups.back(), 3u) << "1 was used longest ago, and has gone";
}

TEST_F(ManifestTest, MissingIsNotFound) {
  std::filesystem::remove(dir_.Join(format::kManifestName));
  EXPECT_EQ(ReadCode(), Code::kNotFound);
}

TEST_F(ManifestTest, TruncatedIsCorruption) {
  for (const uint64_t size : {0, 1, 63, 64, 4095}) {
    std::filesystem::resize_file(dir_.Join(format::kManifestName), size);
    EXPECT_EQ(ReadCode(), Code::kCorruption) << size;
  }
}

TEST_F(ManifestTest, EveryFlippedByteIsCorruption) {
  UniqueFd fd;
  ASSERT_TRUE(sys::OpenAt(dir_fd_.get(), format::kManifestName, O_RDWR, 0, &fd).ok());
  for (size_t i = 0; i < format::kManifestBytes; ++i) {
    char byte = 0;
    ASSERT_TRUE(sys::PreadFull(fd.get(), &byte, 1, i).ok());
    const char flipped = static_cast<char>(byte ^ 0x10);
    ASSERT_TRUE(sys::PwriteFull(fd.get(), &flipped, 1, i).ok());
    EXPECT_EQ(ReadCode(), Code::kCorruption) << "byte " << i;
    ASSERT_TRUE(sys::PwriteFull(fd.get(), &byte, 1, i).ok());
  }
  EXPECT_EQ(ReadCode(), Code::kOk);
}

TEST_F(ManifestTest, WhatThisBuildCannotServeIsNotSupported) {
  // Below and above all sizes. With values of 8 bytes, and of 5000, no group is as large as these.
  for (const uint32_t value_bytes : {0, 7, (1 << 20) + 1, 8, 5000}) {
    Rewrite([&](format::Manifest* m) { m->value_bytes = value_bytes; });
    EXPECT_EQ(ReadCode(), Code::kNotSupported) << value_bytes;
  }
  Rewrite([](format::Manifest* m) { m->value_bytes = 4096, m->bucket_count = 1000; });
  EXPECT_EQ(ReadCode(), Code::kNotSupported);
  Rewrite([](format::Manifest* m) { m->bucket_count = 4, m->value_places = 1000; });
  EXPECT_EQ(ReadCode(), Code::kNotSupported);
  Rewrite([](format::Manifest* m) { m->value_places = format::kValuePlaces; });
  EXPECT_EQ(ReadCode(), Code::kOk);
}

// Whether a refusal says how to bring the store over.
bool NamesTheWay(const Status& read) {
  constexpr char kWay[] = "back the store up with that build, and restore the backup with this one";
  return read.message().find(kWay) != std::string::npos;
}

// Stores of builds before the first release have versions 3 to 9 at the same place.
TEST_F(ManifestTest, AnotherVersionIsNotSupported) {
  for (const uint32_t version : {0, 2, 3, 4, 5, 6, 7, 8, 9, 10}) {
    Rewrite([version](format::Manifest* m) { m->format_version = version; });
    StoreIdentity identity;
    const Status read = ReadManifest(dir_fd_.get(), &identity);
    EXPECT_EQ(read.code(), Code::kNotSupported) << version;
    EXPECT_EQ(NamesTheWay(read), version >= 3 && version <= 9) << read.message();
  }
  Rewrite([](format::Manifest* m) { m->format_version = 1; });
  EXPECT_EQ(ReadCode(), Code::kOk);
}

// The last builds before the first release had version 1 already, with entries of 16 bytes. At the
// place of the entries' size they wrote zero.
TEST_F(ManifestTest, AnotherSizeOfEntriesIsNotSupported) {
  for (const uint16_t entry_bytes : {0, 16, 64}) {
    Rewrite([entry_bytes](format::Manifest* m) { m->entry_bytes = entry_bytes; });
    StoreIdentity identity;
    const Status read = ReadManifest(dir_fd_.get(), &identity);
    EXPECT_EQ(read.code(), Code::kNotSupported) << entry_bytes;
    EXPECT_EQ(NamesTheWay(read), entry_bytes == 0) << read.message();
  }
  Rewrite([](format::Manifest* m) { m->entry_bytes = 32; });
  EXPECT_EQ(ReadCode(), Code::kOk);
}

class KeyRangeManifestTest : public ManifestTest {
 protected:
  void Write(const KeyRange& keys) {
    identity_.geometry.Divide(keys);
    ASSERT_TRUE(WriteManifest(dir_fd_.get(), identity_, 0600).ok());
  }
  KeyRange ReadKeys() {
    StoreIdentity identity;
    const Status status = ReadManifest(dir_fd_.get(), &identity);
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_EQ(identity.paths, identity_.paths);
    return identity.geometry.keys();
  }
  uint64_t WordAt(uint64_t offset) {
    UniqueFd fd;
    uint64_t word = 0;
    EXPECT_TRUE(sys::OpenAt(dir_fd_.get(), format::kManifestName, O_RDONLY, 0, &fd).ok());
    EXPECT_TRUE(sys::PreadFull(fd.get(), &word, sizeof(word), offset).ok());
    return word;
  }
};

TEST_F(KeyRangeManifestTest, NamesTheFirstAndTheLastKey) {
  for (const KeyRange& keys :
       {KeyRange{5, 77}, KeyRange{0, 0}, KeyRange{~uint64_t{0}, ~uint64_t{0}},
        KeyRange{1, ~uint64_t{0}}, KeyRange{0, ~uint64_t{0} - 1}, KeyRange{0, ~uint64_t{0}}}) {
    Write(keys);
    EXPECT_EQ(ReadKeys(), keys);
    EXPECT_EQ(WordAt(88), keys.first);
    EXPECT_EQ(WordAt(96), keys.last);
  }
}

TEST_F(KeyRangeManifestTest, NoKeysAreCorruption) {
  UniqueFd fd;
  ASSERT_TRUE(sys::OpenAt(dir_fd_.get(), format::kManifestName, O_RDWR, 0, &fd).ok());
  for (const auto& [last_key, code] :
       {std::pair{uint64_t{77}, Code::kCorruption}, std::pair{uint64_t{78}, Code::kOk}}) {
    format::ManifestPaths paths;
    ASSERT_TRUE(sys::PreadFull(fd.get(), &paths, sizeof(paths), sizeof(format::Manifest)).ok());
    paths.first_key = 78;
    paths.last_key = last_key;
    paths.checksum = Hash64(&paths, offsetof(format::ManifestPaths, checksum), identity_.store_id);
    ASSERT_TRUE(sys::PwriteFull(fd.get(), &paths, sizeof(paths), sizeof(format::Manifest)).ok());
    EXPECT_EQ(ReadCode(), code) << last_key;
  }
}

TEST_F(ManifestTest, PathsThatCannotBeAreRefused) {
  const std::pair<std::function<void(format::ManifestPaths*)>, Code> edits[] = {
      {[](format::ManifestPaths* p) { p->path_count = 3; }, Code::kCorruption},
      {[](format::ManifestPaths* p) { p->path_count = kMaxPathCount + 1; }, Code::kNotSupported},
      {[](format::ManifestPaths* p) { p->segment_records = 1 << 20; }, Code::kNotSupported},
      {[](format::ManifestPaths* p) { p->segment_records = 128; }, Code::kNotSupported},
      {[](format::ManifestPaths* p) { p->row_form = format::kRowForm - 1; }, Code::kNotSupported},
      {[](format::ManifestPaths* p) { p->row_form = format::kRowForm + 1; }, Code::kNotSupported},
      {[](format::ManifestPaths* p) { std::memset(p->names, 'x', sizeof(p->names)); },
       Code::kCorruption},
      {[](format::ManifestPaths* p) { p->names[0] = '\0'; }, Code::kCorruption},
  };
  UniqueFd fd;
  ASSERT_TRUE(sys::OpenAt(dir_fd_.get(), format::kManifestName, O_RDWR, 0, &fd).ok());
  format::ManifestPaths sound;
  ASSERT_TRUE(sys::PreadFull(fd.get(), &sound, sizeof(sound), sizeof(format::Manifest)).ok());
  for (const auto& [edit, code] : edits) {
    format::ManifestPaths paths = sound;
    edit(&paths);
    paths.checksum = Hash64(&paths, offsetof(format::ManifestPaths, checksum), identity_.store_id);
    ASSERT_TRUE(sys::PwriteFull(fd.get(), &paths, sizeof(paths), sizeof(format::Manifest)).ok());
    EXPECT_EQ(ReadCode(), code) << &edit - &edits[0].first;
  }
}

}  // namespace
}  // namespace engine_race
