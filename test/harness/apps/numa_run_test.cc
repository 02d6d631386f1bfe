// Instances of a race that run in step, with programs in the place of bin/race that do what a test
// wants. All of them run on node 0, so that any machine will do.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "harness/numa/race_run.h"
#include "harness/numa/report.h"
#include "test/eventually.h"
#include "test/harness/program_fixture.h"
#include "test/test_util.h"

namespace engine_race::harness {
namespace {

namespace fs = std::filesystem;

// What every program begins with: `number` of its instance, `dir` of all, and how it waits.
constexpr char kPreamble[] = R"(#!/bin/sh
while [ $# -gt 0 ]; do
  case $1 in
    --json) json=$2 ;;
    --dir) store=$2 ;;
    --phases) phases=$2 ;;
  esac
  shift
done
own=${store%/store} dir=${own%/*} number=${own##*_}
gate() { echo "$1" >&4; read answer <&3 || exit 9; }
note() { echo "$number $1" >> "$dir/notes"; }
report() {
  figures="\"seconds\": 2, \"cpu_seconds\": $1, \"record_count\": 1000, \"pass_seconds\": [1, 1]"
  latencies="\"mean_ns\": 1, \"p50_ns\": 1, \"p99_ns\": 1"
  phase="{\"engine\": {$figures, $latencies}}"
  echo "{\"phases\": [$phase, $phase]}" > "$json"
}
)";

// Puts a directory in front of PATH for a while.
class PathInFront {
 public:
  explicit PathInFront(const std::string& dir) : before_(std::getenv("PATH")) {
    ::setenv("PATH", (dir + ":" + before_).c_str(), 1);
  }
  PathInFront(const PathInFront&) = delete;
  PathInFront& operator=(const PathInFront&) = delete;
  ~PathInFront() { ::setenv("PATH", before_.c_str(), 1); }

 private:
  const std::string before_;
};

class NumaRunTest : public ::testing::Test {
 protected:
  void SetUp() override {
    settings_.launcher = ProgramPath("numa");
    if (settings_.launcher.empty()) GTEST_SKIP() << "ENGINE_BIN_DIR is not set";
    settings_.text = TextMode::kShared;
    settings_.phases = {"write", "read"};
    ASSERT_TRUE(numa::ReadTopology("/sys", &topology_).ok());
    const std::string node = std::to_string(topology_.nodes.front().id);
    const ChildResult bound = RunChild(
        {"numactl", "--cpunodebind=" + node, "--membind=" + node, settings_.launcher, "bound"});
    if (bound.exit_code != 0) GTEST_SKIP() << "numactl is missing or cannot bind here";
  }

  // What the launcher needs to run the test's program as its only instance, in "race".
  std::vector<std::string> LauncherCommand(const std::string& phases) const {
    return {settings_.launcher,
            "race",
            "--groups",
            "1",
            "--threads",
            "1",
            "--num",
            "1",
            "--dir",
            temp_.Join("race"),
            "--binary",
            settings_.program,
            "--text",
            "shared",
            "--phases",
            phases};
  }

  void Program(const std::string& body, const std::string& before_ready = "") {
    settings_.program = temp_.Join("program");
    std::ofstream(settings_.program) << kPreamble << before_ready << "gate ready\n" << body;
    fs::permissions(settings_.program, fs::perms::owner_all);
  }

  std::vector<InstancePlan> Plans(uint32_t count) const {
    std::vector<InstancePlan> plans(count);
    for (uint32_t i = 0; i < count; ++i) {
      plans[i].number = i;
      plans[i].cpu_nodes = {topology_.nodes.front().id};
      plans[i].memory_nodes = plans[i].cpu_nodes;
      plans[i].cpu_count = 1;
      plans[i].keys = SplitKeys(count)[i];
      plans[i].dir = temp_.Join("instance_" + std::to_string(i));
    }
    return plans;
  }

  // Instances of the program must fail, with all of these words in the message that this returns.
  std::string ExpectFailure(uint32_t count, const std::vector<std::string>& words) const {
    RaceRun run(settings_, Plans(count), topology_);
    EXPECT_TRUE(run.Prepare().ok());
    const Status ran = run.Run();
    EXPECT_FALSE(ran.ok());
    for (const std::string& word : words) {
      EXPECT_NE(ran.message().find(word), std::string::npos) << ran.message();
    }
    return ran.message();
  }
  void ExpectSuccess(uint32_t count) const {
    RaceRun run(settings_, Plans(count), topology_);
    ASSERT_TRUE(run.Prepare().ok());
    const Status ran = run.Run();
    EXPECT_TRUE(ran.ok()) << ran.message();
  }

  std::string Text(const std::string& name) const {
    return LoadText(temp_.Join(name)).value_or("");
  }

  const test::TempDir temp_;
  RaceSettings settings_;
  numa::Topology topology_;
};

TEST_F(NumaRunTest, PhasesRunInStep) {
  Program(R"(
for phase in write read; do
  gate "start $phase"
  note "begins $phase"
  # The later instances are slower.
  sleep 0.0$number
  note "ends $phase"
  gate "done $phase $$"
done
report $number
)");
  constexpr uint32_t kCount = 4;
  RaceRun run(settings_, Plans(kCount), topology_);
  const Status prepared = run.Prepare();
  ASSERT_TRUE(prepared.ok()) << prepared.message();
  const Status ran = run.Run();
  ASSERT_TRUE(ran.ok()) << ran.message();

  std::vector<std::string> notes;
  std::ifstream file(temp_.Join("notes"));
  for (std::string line; std::getline(file, line);) notes.push_back(line.substr(2));
  ASSERT_EQ(notes.size(), kCount * 4u);
  // Whatever order the instances have in a phase, no phase begins before the last one's end.
  for (uint32_t i = 0; i < notes.size(); ++i) {
    EXPECT_EQ(notes[i].ends_with("write"), i < kCount * 2) << i << ": " << notes[i];
  }
  ASSERT_EQ(run.results().size(), kCount);
  for (uint32_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(run.results()[i].phases.size(), 2u);
    EXPECT_DOUBLE_EQ(BusyCpus(run.results()[i].phases[1]), i / 2.0);
  }
  const PhaseSum sum = SumOfPhase(run.results(), 0);
  EXPECT_EQ(sum.bytes, kCount * 1000 * 4096u);
  EXPECT_DOUBLE_EQ(sum.cpu_seconds, 0 + 1 + 2 + 3);
  EXPECT_DOUBLE_EQ(sum.seconds, 2);
}

// The pages of a shared program must have come under the first instance's policy.
TEST_F(NumaRunTest, TheFirstInstanceIsThereBeforeTheOthersStart) {
  Program(R"(
for phase in write read; do gate "start $phase"; gate "done $phase $$"; done
report 1
)",
          R"(
# Others that start beside it would come first.
if [ $number = 0 ]; then sleep 0.3; fi
note starts
)");
  ExpectSuccess(3);
  EXPECT_TRUE(Text("notes").starts_with("0 starts\n")) << Text("notes");
}

bool IsGone(pid_t pid) { return ::kill(pid, 0) != 0 && errno == ESRCH; }

// Instance 0 has a child that would run for long, 2 waits at its gate, 1 fails.
TEST_F(NumaRunTest, AFailureStopsTheOthersAndIsNamed) {
  Program(R"(
gate "start write"
case $number in
  0) sleep 1000 & echo $! > "$dir/child"; echo $$ > "$dir/parent"; wait ;;
  1) while ! [ -s "$dir/parent" ]; do sleep 0.01; done; echo "the disk is on fire"; exit 3 ;;
esac
gate "done write $$"
)");
  const std::string why = ExpectFailure(3, {"instance 1 (nodes", "the disk is on fire"});
  EXPECT_EQ(why.find("instance 0"), std::string::npos) << why;
  const pid_t parent = std::stoi(Text("parent"));
  const pid_t child = std::stoi(Text("child"));
  EXPECT_TRUE(test::Eventually([&] { return IsGone(parent) && IsGone(child); }));
}

TEST_F(NumaRunTest, AFailureAfterTheLastPhaseIsNamedToo) {
  Program(R"(
for phase in write read; do gate "start $phase"; gate "done $phase $$"; done
if [ $number = 2 ]; then echo "cannot write the report"; exit 1; fi
report 1
)");
  ExpectFailure(3, {"instance 2", "cannot write the report"});
}

// The program itself: it must end inside the phase that failed, not report that the phase is done.
TEST_F(NumaRunTest, AStoreThatLostItsRecordsStopsTheRaceInThatPhase) {
  settings_.program = ProgramPath("race");
  settings_.race_flags = {"--threads", "2", "--num", "200", "--memory-limit", "64M"};
  settings_.phases = {"write"};
  ASSERT_NO_FATAL_FAILURE(ExpectSuccess(2));
  for (const auto& entry : fs::directory_iterator(temp_.Join("instance_1/store"))) {
    if (entry.path().filename() != "race.json") fs::remove(entry.path());
  }
  settings_.phases = {"read", "range"};
  ExpectFailure(2, {"instance 1 (nodes", "ended with code 1 before done read", "read FAILED"});
}

TEST_F(NumaRunTest, AForeignFileOfOneInstanceLeavesTheOldStoresOfAll) {
  settings_.program = ProgramPath("race");
  settings_.race_flags = {"--threads", "2", "--num", "200", "--memory-limit", "64M"};
  settings_.phases = {"write"};
  ASSERT_NO_FATAL_FAILURE(ExpectSuccess(2));
  std::ofstream(temp_.Join("instance_1/store/thesis.txt")) << "x";
  ExpectFailure(2, {"thesis.txt"});
  EXPECT_TRUE(fs::exists(temp_.Join("instance_0/store/manifest")));
}

TEST_F(NumaRunTest, AReportWithoutItsFiguresIsAFailure) {
  Program(R"(
for phase in write read; do gate "start $phase"; gate "done $phase $$"; done
echo '{"phases": []}' > "$json"
)");
  ExpectFailure(1, {"instance 0 (nodes", "without its figures"});
}

TEST_F(NumaRunTest, AnInstanceThatTalksNonsenseHasFailed) {
  Program(R"(
if [ $number = 1 ]; then gate "hello"; fi
gate "start write"
)");
  ExpectFailure(2, {"instance 1 (nodes 0) said \"hello\""});
}

TEST_F(NumaRunTest, CopiesOfAProgramThatIsNotStaticAreRefused) {
  Program("exit 0\n");
  settings_.text = TextMode::kCopies;
  RaceRun run(settings_, Plans(2), topology_);
  const Status prepared = run.Prepare();
  EXPECT_EQ(prepared.code(), Code::kNotSupported) << prepared.message();
}

TEST_F(NumaRunTest, AProgramThatCannotBeCopiedIsReported) {
  settings_.program = temp_.Join("none");
  RaceRun run(settings_, Plans(1), topology_);
  const std::string why = run.Prepare().message();
  EXPECT_NE(why.find("the program could not be copied: numa copy: "), std::string::npos) << why;
  EXPECT_FALSE(why.ends_with('\n')) << why;
}

TEST_F(NumaRunTest, OnlyASingleInstanceGoesOnUnbound) {
  Program(R"(
for phase in write read; do gate "start $phase"; gate "done $phase $$"; done
report 1
)");
  fs::create_directory(temp_.Join("bin"));
  std::ofstream(temp_.Join("bin/numactl")) << "#!/bin/sh\nexit 1\n";
  fs::permissions(temp_.Join("bin/numactl"), fs::perms::owner_all);
  const PathInFront path(temp_.Join("bin"));
  RaceRun two(settings_, Plans(2), topology_);
  const Status refused = two.Prepare();
  EXPECT_NE(refused.message().find("instance 0 (nodes 0) cannot be bound"), std::string::npos)
      << refused.message();
  RaceRun one(settings_, Plans(1), topology_);
  const Status prepared = one.Prepare();
  ASSERT_TRUE(prepared.ok()) << prepared.message();
  EXPECT_NE(one.note().find("not bound to nodes: numactl cannot bind"), std::string::npos)
      << one.note();
  const Status ran = one.Run();
  EXPECT_TRUE(ran.ok()) << ran.message();
}

// The log is a directory, so the instance cannot have it as its output.
TEST_F(NumaRunTest, AnInstanceThatCannotBeStartedIsNamed) {
  Program("exit 0\n");
  fs::create_directories(temp_.Join("instance_0/instance_race.log"));
  ExpectFailure(1, {"instance 0 (nodes", "instance_race.log"});
}

TEST_F(NumaRunTest, TheLauncherGivesPhasesInTheirOrderAndOnce) {
  Program(R"(
note "$phases"
for phase in write read; do gate "start $phase"; gate "done $phase $$"; done
report 1
)");
  const ChildResult run = RunChild(LauncherCommand("read,write,read"));
  EXPECT_EQ(run.exit_code, 0) << run.output;
  EXPECT_EQ(Text("race/notes"), "0 write,read\n");
}

TEST_F(NumaRunTest, AnInterruptAfterTheLastPhaseEndsTheLauncher) {
  Program(R"(
for phase in write read; do gate "start $phase"; gate "done $phase $$"; done
note "all done"
sleep 1000
)");
  InstanceProcess launcher;
  ASSERT_TRUE(launcher.Start(LauncherCommand("write,read"), temp_.Join("log")).ok());
  ASSERT_TRUE(test::Eventually([&] { return !Text("race/notes").empty(); })) << Text("log");
  launcher.Stop();
  ASSERT_TRUE(test::Eventually([&] { return !launcher.IsRunning(); }));
  EXPECT_EQ(launcher.Wait(), 130) << Text("log");
}

}  // namespace
}  // namespace engine_race::harness
