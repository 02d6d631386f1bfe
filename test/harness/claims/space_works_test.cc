// The works of children of the bench about space, in this process.
#include "harness/claims/space_stores.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "harness/data/value_maker.h"
#include "test/test_util.h"

namespace engine_race::harness {
namespace {

using test::FastParent;
using test::TempDir;

class SpaceWorksTest : public ::testing::Test {
 protected:
  Status Run(const char* work, const nlohmann::json& order) {
    return SpaceWorks().at(work)(order, &answer_);
  }

  const TempDir dir_{FastParent()};
  nlohmann::json answer_ = nlohmann::json::object();
};

TEST_F(SpaceWorksTest, SmallStoresAreOpenAtOnce) {
  const auto run = [&](uint64_t store_count) {
    return Run(kSmallStoresWork, {{"parent_dir", dir_.Join(std::to_string(store_count))},
                                  {"store_count", store_count},
                                  {"record_count", 3},
                                  {"seed", 1}});
  };
  const Status one = run(1);
  ASSERT_TRUE(one.ok()) << one.ToString();
  const nlohmann::json of_one = answer_;
  EXPECT_GT(of_one.at("descriptors"), 2u);
  EXPECT_GE(of_one.at("disk_bytes"), 3 * kValueSize);
  EXPECT_GE(of_one.at("disk_bytes"), of_one.at("closed_disk_bytes"));
  const Status two = run(2);
  ASSERT_TRUE(two.ok()) << two.ToString();
  EXPECT_EQ(answer_.at("descriptors"), 2 * of_one.at("descriptors").get<uint64_t>());
}

TEST_F(SpaceWorksTest, WritesInSmallMemoryHaveARate) {
  for (const bool is_written : {false, true}) {
    const Status done = Run(kSmallMemoryWork, {{"store_dir", dir_.Join("store")},
                                               {"cgroup", ""},
                                               {"is_written", is_written},
                                               {"seconds", 60},
                                               {"seed", 1},
                                               {"write_count", 20}});
    ASSERT_TRUE(done.ok()) << done.ToString();
    EXPECT_GT(answer_.at("writes_per_second"), 0);
  }
}

TEST_F(SpaceWorksTest, AnUnknownGroupIsRefused) {
  EXPECT_FALSE(Run(kSmallMemoryWork, {{"cgroup", dir_.Join("missing")}}).ok());
}

}  // namespace
}  // namespace engine_race::harness
