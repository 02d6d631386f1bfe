// The system calls of placement: pages get the policy that is asked for, threads the CPUs.
#include "engine_race/numa/binding.h"

#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sched.h>

#include <map>
#include <thread>

#include "engine_race/base/buffer_pool.h"
#include "engine_race/base/memory.h"
#include "engine_race/base/parallel.h"
#include "engine_race/numa/topology.h"
#include "test/numa/numa_test_util.h"

namespace engine_race::numa {
namespace {

using test::CanPlace;
using test::Policy;
using test::PolicyOf;
using Ids = std::vector<uint32_t>;

const Policy kDefault = {MPOL_DEFAULT, 0};

class BindingTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!CanPlace()) GTEST_SKIP() << "memory cannot be placed here";
  }
  static Placement Bound() {
    const Ids nodes = {0};
    return Placement(Placement::Mode::kBind, nodes);
  }
  static Placement Interleaved() {
    const Ids nodes = {0};
    return Placement(Placement::Mode::kInterleave, nodes);
  }
};

TEST_F(BindingTest, MemoryIsAllocatedWithItsPolicy) {
  for (const bool huge_pages : {false, true}) {
    Region anywhere;
    Region bound;
    Region interleaved;
    ASSERT_TRUE(Region::Allocate(1 << 20, huge_pages, &anywhere).ok());
    ASSERT_TRUE(Region::Allocate(1 << 20, huge_pages, &bound, Bound()).ok());
    ASSERT_TRUE(Region::Allocate(1 << 20, huge_pages, &interleaved, Interleaved()).ok());
    EXPECT_EQ(PolicyOf(anywhere.data()), kDefault);
    const char* const ends[] = {bound.data(), bound.data() + bound.size() - 1};
    for (const char* end : ends) EXPECT_EQ(PolicyOf(end), (Policy{MPOL_BIND, 1}));
    EXPECT_EQ(PolicyOf(interleaved.data()), (Policy{MPOL_INTERLEAVE, 1}));
  }
  BufferPool pool;
  ASSERT_TRUE(pool.Allocate(4096, 16, /*huge_pages=*/false, Bound()).ok());
  EXPECT_EQ(PolicyOf(pool.base()), (Policy{MPOL_BIND, 1}));
}

TEST_F(BindingTest, AScopeGivesThePolicyBack) {
  {
    const PolicyScope none{Placement()};
    EXPECT_EQ(none.error(), 0);
    EXPECT_EQ(PolicyOf(nullptr), kDefault);
    const PolicyScope outer(Interleaved().OnOneNode(7));
    EXPECT_EQ(PolicyOf(nullptr), (Policy{MPOL_PREFERRED, 1}));
    for (int i = 0; i < 2; ++i) {
      const PolicyScope inner(Bound());
      EXPECT_EQ(inner.error(), 0);
      EXPECT_EQ(PolicyOf(nullptr), (Policy{MPOL_BIND, 1}));
      const PolicyScope again(Bound());
      EXPECT_EQ(again.error(), 0);
      EXPECT_EQ(PolicyOf(nullptr), (Policy{MPOL_BIND, 1}));
    }
    EXPECT_EQ(PolicyOf(nullptr), (Policy{MPOL_PREFERRED, 1}));
  }
  EXPECT_EQ(PolicyOf(nullptr), kDefault);
}

TEST_F(BindingTest, AThreadThatInterleavesIsOnlyBound) {
  {
    const PolicyScope interleaved(Interleaved());
    {
      const PolicyScope preferred(Interleaved().OnOneNode(0));
      EXPECT_EQ(preferred.error(), 0);
      EXPECT_EQ(PolicyOf(nullptr), (Policy{MPOL_INTERLEAVE, 1}));
      const PolicyScope bound(Bound());
      EXPECT_EQ(bound.error(), 0);
      EXPECT_EQ(PolicyOf(nullptr), (Policy{MPOL_BIND, 1}));
    }
    EXPECT_EQ(PolicyOf(nullptr), (Policy{MPOL_INTERLEAVE, 1}));
    const Ids nodes = {Placement::kMaxNodeCount - 1};
    const PolicyScope absent(Placement(Placement::Mode::kBind, nodes));
    EXPECT_NE(absent.error(), 0);
    EXPECT_EQ(PolicyOf(nullptr), (Policy{MPOL_INTERLEAVE, 1}));
  }
  EXPECT_EQ(PolicyOf(nullptr), kDefault);
}

TEST(PlacementTest, InterleavedGroupsHaveOneNodeEach) {
  Topology topology;
  ASSERT_TRUE(ReadTopology(kSysfsRoot, &topology).ok());
  Ids nodes;
  for (const Node& node : topology.nodes) {
    if (node.HasMemory() && node.id < 64) nodes.push_back(node.id);
  }
  const Placement all(Placement::Mode::kInterleave, nodes);
  if (!TryPlacement(all).ok()) GTEST_SKIP() << "memory cannot be placed here";
  std::map<unsigned long, int> counts;  // by the mask of the first 64 nodes
  for (uint64_t number = 0; number < 3 * nodes.size(); ++number) {
    const PolicyScope scope(all.OnOneNode(number));
    ASSERT_EQ(scope.error(), 0);
    const Policy policy = PolicyOf(nullptr);
    EXPECT_EQ(policy.mode, MPOL_PREFERRED);
    ++counts[policy.first_nodes];
  }
  for (const uint32_t node : nodes) {
    EXPECT_EQ(counts[1UL << node], 3) << "node " << node;
  }
}

TEST_F(BindingTest, ANodeThatIsNotThereIsRefused) {
  const Ids nodes = {Placement::kMaxNodeCount - 1};
  const Placement absent(Placement::Mode::kBind, nodes);
  const Status tried = TryPlacement(absent);
  EXPECT_EQ(tried.code(), Code::kNotSupported);
  EXPECT_NE(tried.message().find("mbind"), std::string::npos) << tried.message();
  const PolicyScope scope(absent);
  EXPECT_NE(scope.error(), 0);
  EXPECT_EQ(PolicyOf(nullptr), kDefault);
  // Memory is there all the same.
  Region region;
  ASSERT_TRUE(Region::Allocate(4096, false, &region, absent).ok());
  region.data()[0] = 1;
}

TEST(RunOnTest, ThreadsAndThoseTheyStartStayThere) {
  const Ids all = AvailableCpus();
  ASSERT_FALSE(all.empty());
  Ids own;
  Ids started;
  std::thread([&] {
    EXPECT_TRUE(RunOn(Ids{all.back()}).ok());
    own = AvailableCpus();
    std::thread([&] { started = AvailableCpus(); }).join();
    EXPECT_EQ(static_cast<uint32_t>(::sched_getcpu()), all.back());
  }).join();
  EXPECT_EQ(own, Ids{all.back()});
  EXPECT_EQ(started, Ids{all.back()});
  EXPECT_EQ(AvailableCpus(), all);
}

TEST(RunOnTest, CpusThatAreNotThereAreRefused) {
  const Ids all = AvailableCpus();
  EXPECT_EQ(RunOn({}).code(), Code::kInvalidArgument);
  EXPECT_EQ(RunOn(Ids{100000}).code(), Code::kNotSupported);
  EXPECT_EQ(AvailableCpus(), all);
}

}  // namespace
}  // namespace engine_race::numa
