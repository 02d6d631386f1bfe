// The loads of the I/O experiments, small: they read the right pages, end, and clean up.
#include "harness/experiments/io/raw.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "harness/experiments/io/lab.h"
#include "harness/measure/timed.h"
#include "test/loop_device.h"
#include "test/test_util.h"

namespace engine_race::harness {
namespace {

namespace fs = std::filesystem;
using test::TempDir;

constexpr uint64_t kRawBytes = 4 << 20;
constexpr double kSeconds = 0.01;

class IoRawTest : public ::testing::Test {
 protected:
  void SetUp() override {
    IoSpaceOptions options;
    options.medium = "disk";
    options.parent = temp_.path();
    options.stand_in_count = 2;
    options.raw_bytes = kRawBytes;
    space_ = std::make_unique<IoSpace>(options);
    ASSERT_TRUE(space_->Prepare().ok());
    ASSERT_TRUE(space_->RawFiles(&files_).ok());
    load_.files = files_;
    load_.depth = 8;
    load_.batch = 2;
    load_.seconds = kSeconds;
  }

  TempDir temp_;
  std::unique_ptr<IoSpace> space_;
  std::span<const RawFile> files_;
  RawLoad load_;
};

TEST_F(IoRawTest, EveryBackEndThatWorksReads) {
  uint32_t working_count = 0;
  for (const RawBackend& backend : RawBackends()) {
    const Status probed = ProbeRawBackend(backend, files_.front());
    if (!probed.ok()) {
      EXPECT_EQ(probed.code(), Code::kNotSupported) << backend.name;
      EXPECT_FALSE(probed.message().empty()) << backend.name;
      continue;
    }
    ++working_count;
    load_.backend = backend;
    for (const uint32_t worker_count : {1u, 2u}) {
      load_.worker_count = worker_count;
      TimedPoint point;
      const Status status = RunRawReads(load_, &point);
      ASSERT_TRUE(status.ok()) << backend.name << ": " << status.ToString();
      EXPECT_GE(point.request_count, 1u) << backend.name;
      EXPECT_EQ(point.byte_count, point.request_count * load_.page_bytes) << backend.name;
      EXPECT_EQ(point.latency.count(), point.request_count) << backend.name;
      EXPECT_GT(point.seconds, 0);
    }
  }
  EXPECT_GE(working_count, 1u) << "psync at the least";
}

TEST_F(IoRawTest, WhatTheEngineTakesWorks) {
  for (const RawFile& file : files_) {
    const RawBackend backend = EngineRawBackend(file);
    EXPECT_TRUE(ProbeRawBackend(backend, file).ok()) << backend.name;
    EXPECT_TRUE(IsPlain(backend)) << backend.name;
  }
}

TEST_F(IoRawTest, AReadPastTheEndIsAFailure) {
  // Claims to be longer than it is, so that reads come short.
  std::vector<RawFile> lying(1);
  lying[0].fd = UniqueFd(dup(files_[0].fd.get()));
  lying[0].size_bytes = uint64_t{1} << 40;
  load_.files = lying;
  load_.backend = RawBackends().front();
  TimedPoint point;
  EXPECT_FALSE(RunRawReads(load_, &point).ok());
  BlockingLoad blocking;
  blocking.files = lying;
  blocking.thread_count = 2;
  blocking.seconds = kSeconds;
  EXPECT_FALSE(RunBlocking(blocking, &point).ok());
}

TEST_F(IoRawTest, AMixCountsReadsAndWritesApart) {
  BlockingLoad load;
  load.files = files_;
  load.thread_count = 4;
  load.seconds = 0.05;
  TimedPoint point;
  ASSERT_TRUE(RunBlocking(load, &point).ok());
  EXPECT_GT(point.latency.count(), 0u);
  EXPECT_EQ(point.write_latency.count(), 0u);
  load.write_percent = 100;
  load.pages_per_write = 2;
  ASSERT_TRUE(RunBlocking(load, &point).ok());
  EXPECT_EQ(point.latency.count(), 0u);
  EXPECT_EQ(point.write_latency.count(), point.request_count);
  EXPECT_EQ(point.byte_count, point.request_count * 2 * load.page_bytes);
  for (const RawFile& file : files_) EXPECT_EQ(fs::file_size(file.name), file.size_bytes);
}

TEST_F(IoRawTest, PagesLieInTheirFilesAndTakeTurns) {
  for (const uint32_t page_bytes : {512u, 4096u, 65536u}) {
    PagePicker picker(files_, page_bytes, 1);
    const uint32_t page_count = 3;
    std::set<uint64_t> offsets;
    for (size_t i = 0; i < 1000; ++i) {
      size_t file = 0;
      uint64_t offset = 0;
      picker.Next(&file, &offset, page_count);
      EXPECT_EQ(file, i % 2);
      EXPECT_EQ(offset % page_bytes, 0u);
      EXPECT_LE(offset + uint64_t{page_count} * page_bytes, files_[file].size_bytes);
      offsets.insert(offset);
    }
    EXPECT_GT(offsets.size(), 10u);
  }
}

TEST_F(IoRawTest, ASpaceLeavesNothingBehind) {
  EXPECT_FALSE(fs::is_empty(temp_.path()));
  files_ = {};
  space_.reset();
  EXPECT_TRUE(fs::is_empty(temp_.path()));
}

TEST(IoPagesTest, AnUpdateWritesWholePages) {
  EXPECT_EQ(PagesTouched(1, 512), 1u);
  EXPECT_EQ(PagesTouched(512, 512), 1u);
  EXPECT_EQ(PagesTouched(513, 512), 2u);
  EXPECT_DOUBLE_EQ(WriteAmplification(4096, 512), 1);
  EXPECT_DOUBLE_EQ(WriteAmplification(4096, 8192), 2);
  // The paper's figures: 100 bytes cost 40 times as much in pages of 4 KiB, 160 times in 16 KiB.
  EXPECT_DOUBLE_EQ(WriteAmplification(100, 4096), 40.96);
  EXPECT_DOUBLE_EQ(WriteAmplification(100, 16384), 163.84);
  EXPECT_DOUBLE_EQ(WriteAmplification(600, 512), 1024.0 / 600);
}

TEST(IoSpaceTest, WorksInEachNamedPathAndTouchesNothingElse) {
  TempDir temp;
  const std::vector<std::string> paths = {temp.Join("a"), temp.Join("b")};
  for (const std::string& path : paths) {
    fs::create_directories(path + "/mine");
  }
  IoSpaceOptions options;
  options.parent = temp.path();
  options.paths = paths;
  options.raw_bytes = kRawBytes;
  {
    IoSpace space(options);
    ASSERT_TRUE(space.Prepare().ok());
    std::span<const RawFile> files;
    ASSERT_TRUE(space.RawFiles(&files).ok());
    ASSERT_EQ(files.size(), 2u);
    EXPECT_FALSE(space.has_stand_ins());
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_TRUE(files[i].name.starts_with(paths[i])) << files[i].name;
    }
  }
  for (const std::string& path : paths) {
    EXPECT_TRUE(fs::exists(path + "/mine"));
    EXPECT_EQ(std::distance(fs::directory_iterator(path), {}), 1);
  }
}

TEST(IoSpaceTest, RefusesWhatIsNoDirectory) {
  TempDir temp;
  IoSpaceOptions options;
  options.parent = temp.path();
  options.paths = {temp.Join("missing")};
  {
    IoSpace space(options);
    EXPECT_EQ(space.Prepare().code(), Code::kInvalidArgument);
  }
  EXPECT_TRUE(fs::is_empty(temp.path()));
}

TEST(RunTimedTest, AddsUpItsThreads) {
  TimedPoint point;
  const Status status = RunTimed(
      3, 60,
      [](uint32_t thread, TimedThread* self) {
        self->Start();
        self->tally.request_count = thread + 1;
        self->tally.latency.Add(thread);
        return Status::Ok();
      },
      &point);
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(point.request_count, 6u);
  EXPECT_EQ(point.latency.count(), 3u);
}

TEST(RunTimedTest, TheFirstFailureEndsTheOthers) {
  TimedPoint point;
  const Status status = RunTimed(
      3, 3600,
      [](uint32_t thread, TimedThread* self) {
        // One thread fails before the start, which must not block the others.
        if (thread == 1) return Status::Corruption("broken");
        self->Start();
        while (self->Running()) {
        }
        return Status::Ok();
      },
      &point);
  EXPECT_EQ(status.code(), Code::kCorruption);
}

TEST(RunTimedTest, WhatABodyThrowsIsItsFailure) {
  TimedPoint point;
  const Status status = RunTimed(
      1, 1,
      [](uint32_t, TimedThread* self) -> Status {
        self->Start();
        throw std::bad_alloc();
      },
      &point);
  EXPECT_FALSE(status.ok());
}

// The experiment with a raw device, on a device that is not an NVMe disk.

using test::LoopDevice;

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
