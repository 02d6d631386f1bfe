// A store, its backups and what is restored of them, for the tests of backups.
//
// The fixture belongs to one thread. Files lie in a directory of its own, on a fast file system.
#ifndef TEST_E2E_BACKUP_FIXTURE_H_
#define TEST_E2E_BACKUP_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine_race/copies/backup_format.h"
#include "engine_race/log/store_files.h"
#include "test/e2e/copied_disks.h"
#include "test/e2e/engine_fixture.h"

namespace engine_race::test {

class BackupTest : public testing::Test {
 protected:
  using Contents = KeyVersions;

  std::string source() const { return dir_.Join("source"); }
  std::string backup(int number) const { return dir_.Join("backup" + std::to_string(number)); }
  std::string restored() const { return dir_.Join("restored"); }

  // Random writes and deletes of few keys in a few ranges, from version `version` on.
  void Change(Store* store, uint64_t count, Contents* contents) {
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t key = (random_() % 4 << 62) + random_() % 300 * 7919;
      if (random_() % 4 == 0) {
        ASSERT_TRUE(store->Delete(KeyOf(key)).ok());
        contents->erase(key);
      } else {
        ++version_;
        ASSERT_TRUE(store->Write(KeyOf(key), ValueOf(key, version_)).ok());
        (*contents)[key] = version_;
      }
    }
  }

  // A backup numbered `number` since the one before it, unless it is number 0.
  Status BackUp(Store* store, int number, BackupReport* report = nullptr) {
    BackupOptions how;
    if (number > 0) how.since = backup(number - 1);
    return store->Backup(backup(number), how, report);
  }

  Status Restore(const std::string& from) {
    std::filesystem::remove_all(restored());
    return Store::Restore({}, from, restored());
  }
  void ExpectRestores(const std::string& from, const Contents& contents) {
    const Status done = Restore(from);
    ASSERT_TRUE(done.ok()) << done.ToString();
    ExpectSound(restored());
    EXPECT_EQ(ContentsOf(restored()), contents);
  }
  void ExpectRefused(const std::string& from, Code code, const std::string& words) {
    const Status done = Restore(from);
    EXPECT_EQ(done.code(), code) << done.ToString();
    EXPECT_NE(done.ToString().find(words), std::string::npos) << done.ToString();
    EXPECT_TRUE(!std::filesystem::exists(restored()) || std::filesystem::is_empty(restored()));
    EXPECT_EQ(Store::VerifyBackup({}, from).code(), code);
  }

  // A chain of three, and what each is to restore.
  void MakeChain() {
    auto store = OpenStore(source(), TinyOptions());
    Contents contents;
    for (int number = 0; number < 3; ++number) {
      Change(store.get(), 500, &contents);
      BackupReport report;
      const Status made = BackUp(store.get(), number, &report);
      ASSERT_TRUE(made.ok()) << made.ToString();
      EXPECT_EQ(report.record_count, contents.size());
      EXPECT_EQ(report.chain_length, static_cast<uint32_t>(number) + 1);
      EXPECT_EQ(report.value_count<report.record_count, number> 0);
      at_.push_back(contents);
    }
    Change(store.get(), 200, &contents);
  }

  // Writes the keys to the store, in this order and with new versions, and closes it.
  void WriteClosed(const std::vector<uint64_t>& keys) {
    auto store = OpenStore(source(), TinyOptions());
    for (const uint64_t key : keys) {
      ++version_;
      ASSERT_TRUE(store->Write(KeyOf(key), ValueOf(key, version_)).ok());
    }
  }

  // The files of a store are sparse.
  static void CopyFiles(const std::string& from, const std::string& to) {
    ASSERT_EQ(std::system(("cp -r --sparse=always " + from + " " + to).c_str()), 0);
  }
  void PutBack(const std::string& older) {
    std::filesystem::remove_all(source());
    CopyFiles(older, source());
  }

  // That the store makes no backup since backup `number`.
  void ExpectNoneGoesOn(int number) {
    const std::string refused = dir_.Join("refused");
    BackupOptions how;
    how.since = backup(number);
    const Status made = OpenStore(source(), TinyOptions())->Backup(refused, how);
    EXPECT_EQ(made.code(), Code::kInvalidArgument) << made.ToString();
    EXPECT_NE(made.message().find("make a full one"), std::string::npos) << made.message();
    EXPECT_TRUE(std::filesystem::is_empty(refused));
  }

  // Changes one byte of a file.
  static void Flip(const std::string& path, uint64_t offset) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    const int byte = file.get();
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(static_cast<char>(byte ^ 0x20));
  }

  TempDir dir_{FastParent()};
  std::mt19937_64 random_{FromEnvironment("BACKUP_SEED", 1)};
  uint64_t version_ = 0;
  std::vector<Contents> at_;
};

}  // namespace engine_race::test

#endif  // TEST_E2E_BACKUP_FIXTURE_H_
