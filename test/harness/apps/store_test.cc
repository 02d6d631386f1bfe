// The whole program bin/store, on a small store with two paths.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "engine_race/base/sys.h"
#include "engine_race/store.h"
#include "test/harness/apps/store_fixture.h"
#include "test/test_util.h"

namespace engine_race::harness {
namespace {

using test::KeyOf;
using test::ValueOf;

class StoreProgramTest : public StoreFixture {
 protected:
  StoreProgramTest() : StoreFixture(std::filesystem::temp_directory_path()) {}

  void SetUp() override {
    StoreFixture::SetUp();
    if (IsSkipped()) return;
    Options options;
    options.bucket_count = 1;
    options.file_count = 1;
    options.value_group_bytes = 16384;
    options.paths = {temp_.Join("a"), temp_.Join("b")};
    const std::unique_ptr<Store> store = Open(options);
    for (uint64_t i = 0; i < 40; ++i) {
      ASSERT_TRUE(store->Write(KeyOf(i), ValueOf(i, 1)).ok());
    }
  }

  void Damage(const std::string& path) {
    UniqueFd fd;
    ASSERT_TRUE(sys::OpenAt(AT_FDCWD, path, O_WRONLY, 0, &fd).ok());
    // In slot 16 of the first segment.
    ASSERT_TRUE(sys::PwriteFull(fd.get(), "damage", 6, 16 * kValueBytes + 100).ok());
  }
};

TEST_F(StoreProgramTest, DumpNamesThePathsAndTheRecords) {
  const std::string output = OutputOf({"dump", temp_.Join("store"), "--buckets"}, 0);
  for (const char* name : {"a", "b"}) {
    EXPECT_NE(output.find(temp_.Join(name) + ": directory\n"), std::string::npos) << output;
  }
  EXPECT_NE(output.find("records           40,"), std::string::npos) << output;
  OutputOf({"dump", temp_.Join("nothing")}, 2);
}

TEST_F(StoreProgramTest, VerifySaysOnWhichPathTheDamageIs) {
  const std::vector<std::string> verify = {"verify", temp_.Join("store")};
  EXPECT_NE(OutputOf(verify, 0).find("40 records verified"), std::string::npos);
  Damage(temp_.Join("a") + "/value_00");
  const std::string output = OutputOf(verify, 1);
  EXPECT_NE(output.find("bad: value_00 of " + temp_.Join("a") + ", bucket 0, slot 16:"),
            std::string::npos)
      << output;
  OutputOf({"verify", temp_.Join("nothing")}, 2);
}

TEST_F(StoreProgramTest, VerifyReadsWhatIsStaged) {
  {
    // Half a group of values, which stays staged.
    std::unique_ptr<Store> store;
    ASSERT_TRUE(Store::Open(Options(), temp_.Join("store"), &store).ok());
    for (const uint64_t key : {40, 41}) ASSERT_TRUE(store->Write(KeyOf(key), ValueOf(key, 1)).ok());
  }
  EXPECT_NE(OutputOf({"verify", temp_.Join("store")}, 0).find("42 records verified"),
            std::string::npos);
  {
    std::fstream staged(temp_.Join("store") + "/staging_values",
                        std::ios::in | std::ios::out | std::ios::binary);
    const std::string junk(1 << 20, 'x');
    staged.write(junk.data(), static_cast<std::streamsize>(junk.size()));
  }
  const std::string output = OutputOf({"verify", temp_.Join("store")}, 1);
  EXPECT_NE(output.find("bad: staging_values, bucket "), std::string::npos) << output;
}

TEST_F(StoreProgramTest, ACopyIsAStoreAndSaysHowMuchItHolds) {
  const std::string to = temp_.Join("copy");
  const std::vector<std::string> copy = {"copy", temp_.Join("store"), to};
  EXPECT_NE(OutputOf(copy, 0).find("40 records copied"), std::string::npos);
  EXPECT_NE(OutputOf({"verify", to}, 0).find("40 records verified"), std::string::npos);
  OutputOf(copy, 2);  // the directory is not empty
  const std::string striped = temp_.Join("striped");
  OutputOf({"copy", to, striped, "--paths", temp_.Join("c") + "," + temp_.Join("d")}, 0);
  const std::string dumped = OutputOf({"dump", striped}, 0);
  EXPECT_NE(dumped.find(temp_.Join("c") + ": directory\n"), std::string::npos) << dumped;
}

TEST_F(StoreProgramTest, ADamagedStoreIsNotCopied) {
  Damage(temp_.Join("a") + "/value_00");
  const std::string to = temp_.Join("copy");
  const std::string output = OutputOf({"copy", temp_.Join("store"), to}, 1);
  EXPECT_NE(output.find("slot 16:"), std::string::npos) << output;
  EXPECT_NE(output.find("there is no copy"), std::string::npos) << output;
  OutputOf({"verify", to}, 2);
}

TEST_F(StoreProgramTest, BackupsAreMadeSinceOneAnotherAndRestored) {
  const std::string full = temp_.Join("full");
  const std::string later = temp_.Join("later");
  EXPECT_NE(OutputOf({"backup", temp_.Join("store"), full}, 0).find("40 records backed up"),
            std::string::npos);
  {
    std::unique_ptr<Store> store;
    ASSERT_TRUE(Store::Open(Options(), temp_.Join("store"), &store).ok());
    ASSERT_TRUE(store->Write(KeyOf(77), ValueOf(77, 1)).ok());
  }
  const std::string made =
      OutputOf({"backup", temp_.Join("store"), later, "--since", full, "--verify"}, 0);
  EXPECT_NE(made.find("41 records backed up; 1 values"), std::string::npos) << made;
  EXPECT_NE(made.find("2 backups needed"), std::string::npos) << made;
  EXPECT_NE(made.find("41 records verified"), std::string::npos) << made;
  OutputOf({"backup", temp_.Join("store"), full}, 2);  // the directory is not empty
  const std::string to = temp_.Join("restored");
  EXPECT_NE(OutputOf({"restore", later, to}, 0).find("41 records restored"), std::string::npos);
  EXPECT_NE(OutputOf({"verify", to}, 0).find("41 records verified"), std::string::npos);
  Damage(full + "/value_backup");
  OutputOf({"backup", later, "--verify"}, 1);
  OutputOf({"restore", later, temp_.Join("again")}, 1);
  OutputOf({"restore", to, temp_.Join("again")}, 2);  // there is no backup
  OutputOf({"backup", temp_.Join("missing"), temp_.Join("nowhere")}, 2);
}

TEST_F(StoreProgramTest, CompactGivesBackTheSpaceOfOverwrittenRecords) {
  {
    Options options;
    options.reclaim = Reclaim::kOff;
    std::unique_ptr<Store> store;
    ASSERT_TRUE(Store::Open(options, temp_.Join("store"), &store).ok());
    for (uint64_t i = 0; i < 2000; ++i) {
      ASSERT_TRUE(store->Write(KeyOf(i % 40), ValueOf(i % 40, i)).ok());
    }
  }
  const std::string output = OutputOf({"compact", temp_.Join("store")}, 0);
  std::istringstream words(output);
  double freed_megabytes = 0;
  words >> freed_megabytes;
  EXPECT_GE(freed_megabytes, 1700 * 4096 / 1e6) << output;
  EXPECT_NE(output.find("0.2 MB are live"), std::string::npos) << output;
  OutputOf({"verify", temp_.Join("store")}, 0);
  OutputOf({"compact", temp_.Join("nothing")}, 2);
  std::unique_ptr<Store> store;
  ASSERT_TRUE(Store::Open({}, temp_.Join("store"), &store).ok());
  OutputOf({"compact", temp_.Join("store")}, 2);  // a process has it open
  std::string value;
  for (uint64_t i = 0; i < 40; ++i) {
    ASSERT_TRUE(store->Read(KeyOf(i), &value).ok());
    EXPECT_EQ(value, ValueOf(i, 1960 + i));
  }
}

TEST_F(StoreProgramTest, RefusesAnUnknownCommand) {
  const ChildResult run = RunChild({program_, "mend", temp_.Join("store")});
  EXPECT_NE(run.exit_code, 0);
  EXPECT_NE(RunChild({program_}).exit_code, 0);
}

}  // namespace
}  // namespace engine_race::harness
