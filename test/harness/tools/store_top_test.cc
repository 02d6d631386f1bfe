#include "harness/tools/store_command.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>

#include "engine_race/base/clock.h"
#include "engine_race/base/sys.h"
#include "engine_race/stats_file.h"
#include "engine_race/store.h"
#include "test/test_util.h"

namespace engine_race::harness {
namespace {

PublishedStats Before() {
  PublishedStats before;
  before.sequence = 1;
  before.stats.uptime_us = 1000000;
  before.stats.value_bytes = 4096;
  before.stats.read_count = 1000;
  before.stats.frame_hit_count = 100;
  before.stats.memory_budget_bytes = 64 << 20;
  before.latencies.measured = true;
  before.latencies.kinds[static_cast<size_t>(LatencyKind::kRead)].Add(1000000000);
  return before;
}

// Two seconds later.
PublishedStats Now() {
  PublishedStats now = Before();
  now.sequence = 2;
  now.stats.uptime_us += 2000000;
  now.stats.read_count += 5000;
  now.stats.frame_hit_count += 75;
  now.stats.frame_miss_count += 25;
  now.stats.log_written_bytes += 6 << 20;
  now.stats.index_written_bytes += 2 << 20;
  now.stats.write_count += 1024;  // 4 MiB
  now.stats.live_bytes = 5 << 20;
  now.stats.dead_bytes = 3 << 19;
  now.stats.reclaim_read_bytes += 8 << 20;
  now.stats.reclaim_moved_bytes += 1 << 20;
  now.stats.reclaim_freed_bytes += 3 << 20;
  now.stats.index_memory_bytes = 3 << 20;
  now.stats.frame_memory_bytes = 1 << 20;
  for (int i = 0; i < 99; ++i) {
    now.latencies.kinds[static_cast<size_t>(LatencyKind::kRead)].Add(20);
  }
  return now;
}

// The words of the line that begins with a word.
std::string LineOf(const std::string& text, const std::string& first) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(first + " ")) return line;
  }
  return "";
}

TEST(StoreTopTest, RatesAndLatenciesAreThoseOfTheInterval) {
  const std::string table = TopTable("somewhere", Before(), Now());
  std::istringstream read(LineOf(table, "read"));
  std::string name;
  double rate = 0;
  double p50 = -1;
  double p99 = -1;
  read >> name >> rate >> p50 >> p99;
  EXPECT_EQ(rate, 2500) << table;
  EXPECT_EQ(p50, 0.0) << table;
  EXPECT_EQ(p99, 0.0) << "the slow read was before the interval:\n" << table;
  EXPECT_NE(LineOf(table, "hits").find("values 75.0%"), std::string::npos) << table;
  EXPECT_NE(LineOf(table, "hits").find("index -"), std::string::npos) << table;
  EXPECT_NE(LineOf(table, "memory").find("4.0 MiB of 64.0 MiB"), std::string::npos) << table;
  EXPECT_NE(LineOf(table, "written").find("log 3.0 MiB/s"), std::string::npos) << table;
  EXPECT_EQ(LineOf(table, "errors"), "");
}

TEST(StoreTopTest, TwoEqualStatesAreNoDivisionByZero) {
  const PublishedStats same = Before();
  const std::string table = TopTable("somewhere", same, same);
  EXPECT_EQ(table.find("nan"), std::string::npos) << table;
  EXPECT_EQ(table.find("inf"), std::string::npos) << table;
  const auto json = nlohmann::json::parse(TopJson("somewhere", same, same), nullptr, false);
  EXPECT_EQ(json["per_second"]["read_count"], 0);
}

TEST(StoreTopTest, ErrorsAreNamed) {
  PublishedStats now = Now();
  now.stats.error_counts[static_cast<size_t>(Code::kFull)] = 7;
  EXPECT_NE(LineOf(TopTable("somewhere", Before(), now), "errors").find("7 kFull"),
            std::string::npos);
  const auto json = nlohmann::json::parse(TopJson("somewhere", Before(), now), nullptr, false);
  EXPECT_EQ(json["errors"]["kFull"], 7);
  EXPECT_EQ(json["latencies"]["read"]["count"], 99);
  EXPECT_EQ(json["per_second"]["read_count"], 2500);
}

TEST(StoreTopTest, JsonTakesNamesOfAnyBytes) {
  const std::string line = TopJson("a\"\xff\n", Before(), Now());
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_FALSE(nlohmann::json::parse(line, nullptr, false).is_discarded()) << line;
}

// The exit code of a process that follows `dir` and prints into the file `output`.
int RunOnce(const std::string& dir, TopForm form, const char* output) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (std::freopen(output, "w", stdout) == nullptr) ::_exit(100);
    ::_exit(RunTop(dir, form, /*once=*/true));
  }
  int status = 0;
  if (::waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

TEST(StoreTopTest, AnOutputThatCannotBeWrittenIsAnExitCode) {
  test::TempDir dir;
  Options options;
  options.bucket_count = 16;
  options.file_count = 1;
  options.stats_interval_ms = 10;
  std::unique_ptr<Store> store;
  ASSERT_TRUE(Store::Open(options, dir.path(), &store).ok());
  for (const TopForm form : {TopForm::kTable, TopForm::kJson, TopForm::kPrometheus}) {
    EXPECT_EQ(RunOnce(dir.path(), form, "/dev/null"), 0);
    EXPECT_EQ(RunOnce(dir.path(), form, "/dev/full"), 2);
  }
}

// The numbers of a store that is stopped, by a signal for example, are not those of a store that
// runs.
TEST(StoreTopTest, SpaceAndWriteAmplificationAreShown) {
  const std::string table = TopTable("somewhere", Before(), Now());
  EXPECT_EQ(LineOf(table, "written"),
            "written     log 3.0 MiB/s, index 1.0 MiB/s; write amplification 2.00");
  EXPECT_EQ(
      LineOf(table, "space"),
      "space       live 5.0 MiB, dead 1.5 MiB; reclaim read 4.0 MiB/s, wrote again 0.5 MiB/s, "
      "freed 1.5 MiB/s");
  EXPECT_NE(LineOf(TopTable("somewhere", Now(), Now()), "written").find("amplification -"),
            std::string::npos);
}

TEST(StoreTopTest, PrometheusGetsNoStaleNumbers) {
  test::TempDir dir;
  std::ofstream(dir.Join("manifest")) << "there is a store";
  const uint64_t now_ms = BootTimeMs();
  for (const bool is_stale : {false, true}) {
    PublishedStats published = Now();
    published.interval_ms = 1000;
    // As old as the machine: a store that was started with it may be silent for five seconds.
    published.taken_at_ms = is_stale ? 0 : now_ms;
    UniqueFd directory;
    ASSERT_TRUE(sys::OpenDirectory(dir.path(), false, &directory).ok());
    StatsFile file;
    ASSERT_TRUE(StatsFile::Create(std::move(directory), 0600, published, &file).ok());
    EXPECT_EQ(RunOnce(dir.path(), TopForm::kPrometheus, "/dev/null"), is_stale ? 2 : 0);
  }
}

TEST(StoreTopTest, TheLabelIsTheAbsoluteNameAndUtf8) {
  test::TempDir dir;
  std::filesystem::create_directory(dir.Join("a\xff"));
  std::string text;
  ASSERT_TRUE(TopPrometheus(dir.Join("a\xff/.//"), Now(), &text).ok());
  EXPECT_NE(text.find("{store=\"" + dir.path() + "/a\xef\xbf\xbd\""), std::string::npos) << text;
  const auto relative = std::filesystem::relative(dir.path());
  ASSERT_TRUE(relative.is_relative());
  ASSERT_TRUE(TopPrometheus(relative, Now(), &text).ok());
  EXPECT_NE(text.find("{store=\"" + dir.path() + "\""), std::string::npos) << text;
}

}  // namespace
}  // namespace engine_race::harness
