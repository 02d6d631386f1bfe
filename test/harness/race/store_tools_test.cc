#include "harness/race/store_tools.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "engine_race/base/sys.h"
#include "engine_race/store.h"
#include "test/test_util.h"

namespace harness {
namespace {

using engine_race::Options;
using engine_race::Store;
using engine_race::test::KeyOf;
using engine_race::test::TempDir;
using engine_race::test::ValueOf;

class StoreToolsTest : public testing::Test {
 protected:
  void SetUp() override {
    Options options;
    options.bucket_count = 1;
    options.file_count = 1;
    options.value_group_bytes = 16384;
    options.stripe_unit_bytes = 65536;
    options.paths = {dir_.Join("a"), dir_.Join("b")};
    std::unique_ptr<Store> store;
    ASSERT_TRUE(Store::Open(options, dir_.Join("store"), &store).ok());
    for (uint64_t i = 0; i < 40; ++i) {
      ASSERT_TRUE(store->Write(KeyOf(i), ValueOf(i, 1)).ok());
    }
  }

  std::string OutputOf(const std::function<int()>& run, int wanted) {
    testing::internal::CaptureStdout();
    const int code = run();
    std::string output = testing::internal::GetCapturedStdout();
    EXPECT_EQ(code, wanted) << output;
    return output;
  }

  TempDir dir_;
};

TEST_F(StoreToolsTest, DumpNamesThePaths) {
  const std::string output = OutputOf([&] { return DumpStoreIn(dir_.Join("store"), true); }, 0);
  for (const char* name : {"a", "b"}) {
    EXPECT_NE(output.find(dir_.Join(name) + "\n"), std::string::npos) << output;
  }
  EXPECT_NE(output.find("stripe unit       65536 bytes"), std::string::npos) << output;
}

TEST_F(StoreToolsTest, VerifySaysOnWhichPathTheDamageIs) {
  const auto verify = [&] { return VerifyStoreIn(dir_.Join("store")); };
  EXPECT_NE(OutputOf(verify, 0).find("40 records verified"), std::string::npos);
  engine_race::UniqueFd fd;
  const std::string file = dir_.Join("b") + "/value_00";
  ASSERT_TRUE(engine_race::sys::OpenAt(AT_FDCWD, file, O_WRONLY, 0, &fd).ok());
  // Slot 16 begins the second unit.
  ASSERT_TRUE(engine_race::sys::PwriteFull(fd.get(), "damage", 6, 100).ok());
  const std::string output = OutputOf(verify, 1);
  EXPECT_NE(output.find("bad: value_00 of " + dir_.Join("b") + ", bucket 0, slot 16:"),
            std::string::npos)
      << output;
}

TEST_F(StoreToolsTest, ACopyIsAStoreAndSaysHowMuchItHolds) {
  const std::string to = dir_.Join("copy");
  const auto copy = [&] { return CopyStoreIn(dir_.Join("store"), to, {}); };
  EXPECT_NE(OutputOf(copy, 0).find("40 records copied"), std::string::npos);
  const auto verify = [&] { return VerifyStoreIn(to); };
  EXPECT_NE(OutputOf(verify, 0).find("40 records verified"), std::string::npos);
  OutputOf(copy, 2);  // the place is taken
  const std::string striped = dir_.Join("striped");
  OutputOf([&] { return CopyStoreIn(to, striped, {dir_.Join("c"), dir_.Join("d")}); }, 0);
  const std::string dumped = OutputOf([&] { return DumpStoreIn(striped, false); }, 0);
  EXPECT_NE(dumped.find(dir_.Join("c") + "\n"), std::string::npos) << dumped;
}

TEST_F(StoreToolsTest, ADamagedStoreIsNotCopied) {
  engine_race::UniqueFd fd;
  const std::string file = dir_.Join("b") + "/value_00";
  ASSERT_TRUE(engine_race::sys::OpenAt(AT_FDCWD, file, O_WRONLY, 0, &fd).ok());
  ASSERT_TRUE(engine_race::sys::PwriteFull(fd.get(), "damage", 6, 100).ok());
  const std::string to = dir_.Join("copy");
  const std::string output = OutputOf([&] { return CopyStoreIn(dir_.Join("store"), to, {}); }, 1);
  EXPECT_NE(output.find("slot 16:"), std::string::npos) << output;
  EXPECT_NE(output.find("there is no copy"), std::string::npos) << output;
  OutputOf([&] { return VerifyStoreIn(to); }, 2);
}

}  // namespace
}  // namespace harness
