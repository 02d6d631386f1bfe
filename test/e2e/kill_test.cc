// The kill -9 trial, small: bin/crash run as its users run it.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "test/sweep.h"
#include "test/test_util.h"

namespace engine_race::test {
namespace {

namespace fs = std::filesystem;

// Where ENGINE_BIN_DIR says, or beside this build.
std::string CrashProgram() {
  if (const char* dir = std::getenv("ENGINE_BIN_DIR")) return std::string(dir) + "/crash";
  const fs::path here = fs::read_symlink("/proc/self/exe").parent_path();
  for (const fs::path& dir : {here / "../bin", here / "../../../bin"}) {
    if (fs::exists(dir / "crash")) return (dir / "crash").string();
  }
  return "";
}

struct Result {
  int exit_code = -1;
  std::string output;
  nlohmann::json summary;
};

Result RunCrash(const std::string& flags, const fs::path& parent = fs::temp_directory_path()) {
  TempDir dir(parent);
  const std::string json_path = dir.Join("summary.json");
  const std::string command = CrashProgram() + " --dir " + dir.Join("stores") + " --json " +
                              json_path + " " + flags + " 2>&1";
  Result result;
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return result;
  std::array<char, 4096> piece;
  while (const size_t size = std::fread(piece.data(), 1, piece.size(), pipe)) {
    result.output.append(piece.data(), size);
  }
  const int status = ::pclose(pipe);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  std::ifstream json(json_path);
  if (json) result.summary = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  return result;
}

void ExpectClean(const std::string& flags, uint64_t cycle_count,
                 const fs::path& parent = fs::temp_directory_path()) {
  if (CrashProgram().empty()) GTEST_SKIP() << "bin/crash is not built";
  const Result result = RunCrash("--cycles " + std::to_string(cycle_count) + " " + flags, parent);
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(result.summary["cycles"], cycle_count);
  EXPECT_EQ(result.summary["violations"], 0);
  // A trial that wrote or looked at nothing proves nothing. How much it writes until its kills is
  // the machine's matter.
  EXPECT_GT(result.summary["acknowledged_writes"], cycle_count);
  EXPECT_GT(result.summary["records_checked"], cycle_count);
  EXPECT_FALSE(result.summary["writer_kills"].empty());
}

// Kills after 5 to 250 ms, of each test: about 80 together in a plain build, 475 in a full run.
const uint64_t kCycles = kSanitized ? 4 : PartOf(75, 7);

TEST(KillTest, UniformKeysSurvive) { ExpectClean("--keys uniform --key-space 8192", kCycles); }

TEST(KillTest, SkewedKeysSurvive) { ExpectClean("--keys skewed --key-space 8192", kCycles); }

// Values of 1 MiB in one bucket: here Compact moved the same rows to and fro for hours.
TEST(KillTest, RowsOfLargeValuesAreCompactedSoon) {
  if (CrashProgram().empty()) GTEST_SKIP() << "bin/crash is not built";
  const Result result =
      RunCrash("--cycles 4 --keys skewed --key-space 8192 --seed 357819888685538550");
  EXPECT_EQ(result.exit_code, 0) << result.output;
}

TEST(KillTest, UniformKeysSurviveInMemory) {
  ExpectClean("--keys uniform --key-space 8192", kCycles, FastParent());
}

TEST(KillTest, SkewedKeysSurviveInMemory) {
  ExpectClean("--keys skewed --key-space 8192", kCycles, FastParent());
}

TEST(KillTest, TinyGroupsSurvive) {
  ExpectClean("--tiny --max-ms 60", kSanitized ? 6 : PartOf(25, 2));
}

// Kills beside extents and roots that are being written.
TEST(KillTest, PagedIndexesSurvive) {
  ExpectClean("--paged --keys uniform --key-space 8192", kCycles, FastParent());
}

// Few of them are killed after a root that they wrote; killed_root_test.cc has such kills alone.
TEST(KillTest, PagedIndexesOfCrowdedBucketsSurvive) {
  ExpectClean("--paged --tiny --keys skewed --key-space 8192", kCycles, FastParent());
}

TEST(KillTest, BadFlagsAreRefused) {
  if (CrashProgram().empty()) GTEST_SKIP() << "bin/crash is not built";
  EXPECT_NE(RunCrash("--cycles 1 --keys nonsense").exit_code, 0);
  EXPECT_NE(RunCrash("--cycles 1 --min-ms 10 --max-ms 5").exit_code, 0);
}

}  // namespace
}  // namespace engine_race::test
