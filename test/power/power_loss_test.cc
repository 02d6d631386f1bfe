// Random stores that lose power, thousands of times: what was promised survives, the rest survives
// as a prefix of every bucket, and what was cut off never comes back.
//
// POWER_STATES sets how many states are judged. A failure prints POWER_SEED and POWER_STATE, which
// repeat the one run that the state came from.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "test/power/power_run.h"
#include "test/sweep.h"
#include "test/test_util.h"

namespace engine_race::test {
namespace {

constexpr uint32_t kProcessCount = 2;

void SayHowToRepeat(uint64_t seed, uint64_t number) {
  std::cout << "POWER_SEED=" << seed << " POWER_STATE=" << number * PowerRun::kStatesPerRun
            << " repeats this run:" << std::endl;
}

// The run number `number` of a seed. False when it went wrong, which is printed.
bool RunNumber(uint64_t seed, uint64_t number, Life life, PowerTally* tally) {
  std::seed_seq sequence{seed, number};
  std::vector<uint32_t> words(2);
  sequence.generate(words.begin(), words.end());
  PowerRun run(uint64_t{words[0]} << 32 | words[1], life, tally);
  std::string complaint;
  if (run.Run(&complaint)) return true;
  SayHowToRepeat(seed, number);
  std::cout << complaint << std::endl;
  return false;
}

// The runs `first`, `first` + kProcessCount, ... until `states` have been judged.
bool RunShare(uint64_t seed, uint64_t first, uint64_t states, Life life, PowerTally* tally) {
  for (uint64_t number = first; tally->states < states; number += kProcessCount) {
    tally->run_number = number;
    if (!RunNumber(seed, number, life, tally)) return false;
  }
  return true;
}

// Tallies that forked children fill.
class SharedTallies {
 public:
  SharedTallies() {
    void* const memory = ::mmap(nullptr, sizeof(PowerTally) * kProcessCount, PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    tallies_ = memory == MAP_FAILED ? nullptr : static_cast<PowerTally*>(memory);
  }
  SharedTallies(const SharedTallies&) = delete;
  ~SharedTallies() { ::munmap(tallies_, sizeof(PowerTally) * kProcessCount); }
  bool made() const { return tallies_ != nullptr; }
  PowerTally* of(uint32_t process) { return &tallies_[process]; }

  template <typename Field>
  uint64_t Sum(Field field) const {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < kProcessCount; ++i) sum += tallies_[i].*field;
    return sum;
  }

 private:
  PowerTally* tallies_;
};

// Runs lives in processes, not threads: there is one hook in a process. POWER_STATE repeats one.
void RunLives(Life life, uint64_t states, SharedTallies* tallies) {
  const uint64_t seed = FromEnvironment("POWER_SEED", SweepSeed());
  ASSERT_TRUE(tallies->made());
  if (std::getenv("POWER_STATE") != nullptr) {
    const uint64_t number = FromEnvironment("POWER_STATE", 0) / PowerRun::kStatesPerRun;
    EXPECT_TRUE(RunNumber(seed, number, life, tallies->of(0)));
    return;
  }
  std::vector<pid_t> children;
  for (uint32_t i = 0; i < kProcessCount; ++i) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a test that is given up leaves nobody behind
    const bool good = RunShare(seed, i, states / kProcessCount, life, tallies->of(i));
    ::syscall(SYS_exit_group, good ? 0 : 1);
  }
  for (uint32_t i = 0; i < kProcessCount; ++i) {
    int status = 0;
    ASSERT_EQ(::waitpid(children[i], &status, 0), children[i]);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
    // One that was killed could not say.
    if (!WIFEXITED(status)) SayHowToRepeat(seed, tallies->of(i)->run_number);
  }
  const auto sum = [&](uint64_t PowerTally::*field) { return tallies->Sum(field); };
  std::cout << sum(&PowerTally::states) << " states, " << sum(&PowerTally::lossy_states)
            << " with losses, " << sum(&PowerTally::whole_states) << " lucky, "
            << sum(&PowerTally::striped_states) << " striped, "
            << sum(&PowerTally::remounted_states) << " remounted, "
            << sum(&PowerTally::recovery_states) << " in recovery, "
            << sum(&PowerTally::creation_states) << " in creation; "
            << sum(&PowerTally::lost_writes) << " writes lost, " << sum(&PowerTally::durable_writes)
            << " in sync modes, " << sum(&PowerTally::batches) << " batches, "
            << sum(&PowerTally::failed_flushes) << " failed flushes; "
            << sum(&PowerTally::row_states) << " states with rows, "
            << sum(&PowerTally::compacting_states) << " in Compact, "
            << sum(&PowerTally::moved_records) << " records moved and "
            << sum(&PowerTally::freed_records) << " freed" << std::endl;
  if (testing::Test::HasFailure()) return;
  EXPECT_GE(sum(&PowerTally::states), states / kProcessCount * kProcessCount);
  // What the states are worth.
  EXPECT_GT(sum(&PowerTally::lossy_states), states / 10);
  EXPECT_GT(sum(&PowerTally::whole_states), states / 50);
  EXPECT_GT(sum(&PowerTally::striped_states), states / 8);
  EXPECT_GT(sum(&PowerTally::remounted_states), states / 5);
  EXPECT_GT(sum(&PowerTally::durable_writes), states);
  EXPECT_GT(sum(&PowerTally::batches), states);
}

TEST(PowerLossTest, RandomLives) {
  const uint64_t states = FromEnvironment("POWER_STATES", PartOf(Sized(20000, 4000), 16));
  SharedTallies tallies;
  RunLives(Life::kAnyUse, states, &tallies);
  if (HasFailure() || std::getenv("POWER_STATE") != nullptr) return;
  EXPECT_GT(tallies.Sum(&PowerTally::recovery_states), states / 100);
  EXPECT_GT(tallies.Sum(&PowerTally::creation_states), states / 100);
  EXPECT_GT(tallies.Sum(&PowerTally::failed_flushes), states / 200);
}

// Few keys, overwritten, deleted and compacted away.
TEST(PowerLossTest, RandomLivesThatUseSlotsAgain) {
  const uint64_t states = FromEnvironment("POWER_STATES", PartOf(Sized(3000, 400), 5));
  SharedTallies tallies;
  RunLives(Life::kReuse, states, &tallies);
  if (HasFailure() || std::getenv("POWER_STATE") != nullptr) return;
  EXPECT_GT(tallies.Sum(&PowerTally::row_states), states / 8);
  EXPECT_GT(tallies.Sum(&PowerTally::compacting_states), states / 20);
  EXPECT_GT(tallies.Sum(&PowerTally::recovery_states), states / 100);
  EXPECT_GT(tallies.Sum(&PowerTally::moved_records), states);
  EXPECT_GT(tallies.Sum(&PowerTally::freed_records), 16 * states);
}

}  // namespace
}  // namespace engine_race::test
