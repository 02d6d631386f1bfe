// `bin/store top` as its users run it, on stores of this process and of others.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "engine_race/store.h"
#include "test/harness/program_fixture.h"
#include "test/test_util.h"

namespace engine_race::harness {
namespace {

using test::KeyOf;
using test::ValueOf;

class StoreTopProgramTest : public ProgramTest {
 protected:
  StoreTopProgramTest() : ProgramTest("store", std::filesystem::temp_directory_path()) {
    options_.bucket_count = 4;
    options_.file_count = 1;
    options_.memory_budget_bytes = 64 << 20;
    options_.stats_interval_ms = 50;
    options_.latency_stats = true;
  }

  std::unique_ptr<Store> Open() const {
    std::unique_ptr<Store> store;
    const Status opened = Store::Open(options_, store_dir(), &store);
    EXPECT_TRUE(opened.ok()) << opened.ToString();
    return store;
  }
  std::string store_dir() const { return temp_.Join("store"); }

  // The output has what the program prints to its standard error, too.
  ChildResult Top(const std::string& flags) const {
    return RunChild({"bash", "-c", program_ + " top " + store_dir() + " " + flags + " 2>&1"});
  }
  void ExpectRefusal(const std::string& words) const {
    const ChildResult result = Top("");
    EXPECT_EQ(result.exit_code, 2) << result.output;
    EXPECT_NE(result.output.find(words), std::string::npos) << result.output;
    EXPECT_NE(result.output.find(store_dir()), std::string::npos) << result.output;
  }

  Options options_;
};

TEST_F(StoreTopProgramTest, OnceIsATableOfTheNextInterval) {
  const auto store = Open();
  ASSERT_NE(store, nullptr);
  const ChildResult result = Top("--once");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  for (const char* words : {"per second", "p99 us", "\nread ", "\nwrite ", "\nmemory ", "\nhits ",
                            "process ", " of 64.0 MiB"}) {
    EXPECT_NE(result.output.find(words), std::string::npos) << words << " in\n" << result.output;
  }
  EXPECT_EQ(result.output.find('\x1b'), std::string::npos) << "colours in a pipe";
}

TEST_F(StoreTopProgramTest, WithoutLatenciesTheTableSaysHowToHaveThem) {
  options_.latency_stats = false;
  const auto store = Open();
  const ChildResult result = Top("--once");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(result.output.find("p99"), std::string::npos) << result.output;
  EXPECT_NE(result.output.find("Options::latency_stats"), std::string::npos) << result.output;
}

TEST_F(StoreTopProgramTest, JsonHasEveryNumber) {
  const auto store = Open();
  for (uint64_t key = 0; key < 30; ++key) {
    ASSERT_TRUE(store->Write(KeyOf(key), ValueOf(key, 1)).ok());
  }
  const ChildResult result = Top("--once --json");
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const nlohmann::json json = nlohmann::json::parse(result.output, nullptr, false);
  ASSERT_TRUE(json.is_object()) << result.output;
  EXPECT_EQ(json["stats"]["write_count"], 30);
  EXPECT_EQ(json["stats"]["record_count"], 30);
  EXPECT_EQ(json["process_id"], ::getpid());
  EXPECT_TRUE(json["per_second"].contains("read_count"));
  EXPECT_FALSE(json["per_second"].contains("record_count"));
  EXPECT_TRUE(json["latencies"]["write"].contains("p99_seconds"));
  EXPECT_GT(json["interval_seconds"], 0);
}

TEST_F(StoreTopProgramTest, PrometheusHasTheStoreAsALabel) {
  const auto store = Open();
  ASSERT_TRUE(store->Write(KeyOf(1), ValueOf(1, 1)).ok());
  const ChildResult result = Top("--prometheus");
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_NE(result.output.find("# TYPE engine_race_calls_total counter\n"), std::string::npos);
  EXPECT_NE(result.output.find("engine_race_records{store=\"" + store_dir() + "\"} "),
            std::string::npos)
      << result.output;
  EXPECT_NE(Top("--prometheus --json").exit_code, 0) << "two forms at once";
}

TEST_F(StoreTopProgramTest, SaysWhyThereIsNothingToFollow) {
  ExpectRefusal("there is no store");
  Open().reset();
  ExpectRefusal("no process has the store open");
  options_.stats_interval_ms = 0;
  const auto store = Open();
  ExpectRefusal("stats_interval_ms");
}

TEST_F(StoreTopProgramTest, SaysThatAStoreWasKilledWhileItWasFollowed) {
  int ready[2];
  ASSERT_EQ(::pipe2(ready, O_CLOEXEC), 0);
  const pid_t pid = ::fork();
  if (pid == 0) {
    const auto store = Open();
    if (store == nullptr || ::write(ready[1], "y", 1) != 1) ::_exit(1);
    while (true) ::pause();
  }
  ::close(ready[1]);
  char is_ready = 0;
  ASSERT_EQ(::read(ready[0], &is_ready, 1), 1);
  ::close(ready[0]);
  FILE* const pipe = ::popen((program_ + " top " + store_dir() + " --json 2>&1").c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::array<char, 65536> line;
  // Two intervals, one after the other.
  for (int i = 0; i < 2; ++i) {
    ASSERT_NE(std::fgets(line.data(), line.size(), pipe), nullptr);
    EXPECT_TRUE(nlohmann::json::parse(line.data(), nullptr, false).is_object()) << line.data();
  }
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  std::string last;
  while (std::fgets(line.data(), line.size(), pipe) != nullptr) last = line.data();
  EXPECT_NE(last.find("its process has ended"), std::string::npos) << last;
  const int status = ::pclose(pipe);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1);
  ExpectRefusal("no process has the store open");
}

}  // namespace
}  // namespace engine_race::harness
