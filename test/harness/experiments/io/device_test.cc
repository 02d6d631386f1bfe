// The experiment with a raw device, on a device that is not an NVMe disk.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "harness/experiments/io/lab.h"
#include "test/loop_device.h"
#include "test/test_util.h"

namespace engine_race::harness {
namespace {

using test::LoopDevice;
using test::TempDir;

class IoDeviceTest : public ::testing::Test {
 protected:
  Experiment Run(const std::string& device) {
    IoSpaceOptions options;
    options.medium = "disk";
    options.parent = temp_.path();
    IoSpace space(options);
    IoConfig config;
    config.device = device;
    config.seconds = 0.01;
    return RawDevice(IoLab(config, &space));
  }

  TempDir temp_;
};

TEST_F(IoDeviceTest, EveryBackEndReadsAndPassthroughSaysWhyItDoesNot) {
  const LoopDevice loop(4 << 20);
  if (!loop.valid()) GTEST_SKIP() << "no loop devices here: " << loop.why();
  const Experiment experiment = Run(loop.path());
  EXPECT_EQ(experiment.medium, loop.path());
  std::map<std::string, ResultRow> rows;
  for (const ResultRow& row : experiment.rows) rows[row.at("backend")] = row;
  EXPECT_EQ(rows.size(), RawBackends().size() + 1);
  for (const char* const backend : {"psync", "libaio"}) {
    EXPECT_GT(rows[backend].value("requests_per_second", 0.0), 0.0) << rows[backend];
  }
  EXPECT_NE(rows["nvme passthrough"].dump().find("not a whole NVMe namespace"), std::string::npos)
      << rows["nvme passthrough"];
}

TEST_F(IoDeviceTest, WhatIsNoDeviceSaysSo) {
  const Experiment experiment = Run(temp_.path());
  ASSERT_EQ(experiment.rows.size(), 1u);
  EXPECT_NE(experiment.rows.front().dump().find("not a block device"), std::string::npos);
}

}  // namespace
}  // namespace engine_race::harness
