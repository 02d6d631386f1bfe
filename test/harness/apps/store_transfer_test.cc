// import and export of bin/store.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include "test/harness/apps/store_fixture.h"
#include "test/harness/terminal.h"
#include "test/test_util.h"

namespace engine_race::harness {
namespace {

using test::KeyOf;
using test::ValueOf;

class StoreTransferProgramTest : public StoreFixture {
 protected:
  static constexpr uint64_t kCount = 3000;

  void SetUp() override {
    StoreFixture::SetUp();
    if (IsSkipped()) return;
    for (uint64_t i = 0; i < kCount; ++i) records_ += KeyOf(i * 7) + ValueOf(i, 1);
    WriteFile("records", records_);
  }
  std::vector<std::string> Import(const std::vector<std::string>& flags = {}) const {
    std::vector<std::string> args = {"import", store_dir(), temp_.Join("records")};
    args.insert(args.end(), flags.begin(), flags.end());
    return args;
  }

  std::string records_;
};

TEST_F(StoreTransferProgramTest, AnImportIsExportedAgain) {
  ExpectOutput(Import(), 2, "there is no store");
  const std::string said = OutputOf(Import({"--create"}), 0);
  EXPECT_TRUE(std::regex_match(said, std::regex("3000 records imported, 3000 of them now, in "
                                                "[0-9.]+ s: [0-9]+ records/s\n")))
      << said;
  EXPECT_EQ(OutputOf({"count", store_dir()}, 0), "3000\n");
  EXPECT_EQ(OutputOf({"get", store_dir(), "14"}, 0), ValueOf(2, 1));
  ExpectOutput({"export", store_dir(), temp_.Join("out")}, 0, "3000 records exported");
  EXPECT_EQ(ReadFile("out"), records_);
  ExpectOutput({"export", store_dir(), temp_.Join("out")}, 2, "is there already");
  ExpectOutput({"export", store_dir(), temp_.Join("out.npy")}, 2, "--keys is needed");
  ExpectOutput({"export", store_dir(), temp_.Join("out.npy"), "--keys", ""}, 2, "files of keys");
  ExpectOutput({"export", store_dir(), temp_.Join("rows.npy"), "--keys", temp_.Join("keys.npy")}, 0,
               "3000 records exported");
  ExpectOutput({"import", temp_.Join("again"), temp_.Join("rows.npy"), "--keys",
                temp_.Join("keys.npy"), "--create"},
               0, "3000 records imported");
  OutputOf({"export", temp_.Join("again"), temp_.Join("again.records")}, 0);
  EXPECT_EQ(ReadFile("again.records"), records_);
}

TEST_F(StoreTransferProgramTest, WrongFilesAreRefused) {
  WriteFile("records", records_.substr(1));
  ExpectOutput(Import({"--create"}), 2, "bytes of rows");
  EXPECT_FALSE(std::filesystem::exists(store_dir()));
  ExpectOutput({"import", store_dir(), temp_.Join("nothing"), "--create"}, 2, "nothing");
  ExpectOutput({"export", store_dir(), temp_.Join("out")}, 2, "there is no store");
}

// A limit on the size of files, as a full disk, ends an export.
TEST_F(StoreTransferProgramTest, AnExportThatFailedGoesOn) {
  OutputOf(Import({"--create"}), 0);
  const std::string out = temp_.Join("out");
  const ChildResult failed = RunChild({"bash", "-c", "ulimit -f 8208; exec \"$@\" 2>&1", "bash",
                                       program_, "export", store_dir(), out});
  EXPECT_EQ(failed.exit_code, 2);
  EXPECT_NE(failed.output.find("kFull"), std::string::npos) << failed.output;
  EXPECT_NE(failed.output.find("2048 records exported"), std::string::npos) << failed.output;
  EXPECT_FALSE(std::filesystem::exists(out));
  ExpectOutput({"export", store_dir(), out, "--resume"}, 0, "3000 records exported, 952 of them");
  EXPECT_EQ(ReadFile("out"), records_);
}

TEST_F(StoreTransferProgramTest, OnATerminalProgressIsShown) {
  std::vector<std::string> args = Import({"--create"});
  args.insert(args.begin(), program_);
  const TerminalResult shown = RunOnTerminal(args);
  EXPECT_EQ(shown.exit_code, 0);
  EXPECT_NE(shown.output.find("k/s"), std::string::npos) << shown.output;
  EXPECT_EQ(shown.output.find("MB/s"), std::string::npos) << shown.output;
  EXPECT_NE(shown.output.find("\033[K3000 records imported"), std::string::npos) << shown.output;
}

}  // namespace
}  // namespace engine_race::harness
