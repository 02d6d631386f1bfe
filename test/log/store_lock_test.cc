// The locks of a store and its paths beside readers, strangers and users who remove lock files.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "engine_race/copies/copies.h"
#include "engine_race/log/store_files.h"
#include "test/log/store_files_test_util.h"

namespace engine_race {
namespace {

namespace fs = std::filesystem;

class StoreLockTest : public test::StoreFilesFixture {};

TEST_F(StoreLockTest, SeveralMayReadAndNobodyWritesMeanwhile) {
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

TEST_F(StoreLockTest, AMissingLockFileIsForTheUserToReplace) {
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

TEST_F(StoreLockTest, AMissingLockFileOfAPathIsMadeByAWriterAlone) {
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
