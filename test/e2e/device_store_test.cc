// Stores whose values lie on raw block devices.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "engine_race/base/sys.h"
#include "engine_race/log/format.h"
#include "engine_race/log/segment_format.h"
#include "test/e2e/device_fixture.h"

namespace engine_race::test {
namespace {

TEST_F(DeviceStoreTest, OverOneDevice) {
  options_.paths = {first_.path()};
  MustOpen();
  Write(0, kKeys, 1);
  ExpectAll(kKeys, 1);
  Reopen();
  ExpectAll(kKeys, 1);
  EXPECT_EQ(Verify(Code::kOk).record_count, kKeys);
}

TEST_F(DeviceStoreTest, OverTwoDevices) {
  MustOpen();
  Write(0, kKeys, 1);
  ASSERT_TRUE(store_->Sync().ok());
  ExpectAll(kKeys, 1);
  // The values are on both, and in no file.
  std::string bytes;
  for (const LoopDevice* device : {&first_, &second_}) {
    ASSERT_TRUE(device->Read(kMiB, kValueBytes, &bytes));
    EXPECT_NE(bytes, std::string(kValueBytes, '\0')) << device->path();
  }
  for (const auto& entry : std::filesystem::directory_iterator(Dir())) {
    EXPECT_FALSE(entry.path().filename().string().starts_with(format::kValueFilePrefix));
  }
  EXPECT_EQ(Verify(Code::kOk).record_count, kKeys);
  // Without being told: the manifest names them.
  options_.paths.clear();
  MustOpen();
  ExpectAll(kKeys, 1);
}

TEST_F(DeviceStoreTest, BesideADirectory) {
  options_.paths = {first_.path(), dir_.Join("values")};
  MustOpen();
  Write(0, kKeys, 1);
  Reopen();
  ExpectAll(kKeys, 1);
  EXPECT_EQ(Verify(Code::kOk).record_count, kKeys);
}

TEST_F(DeviceStoreTest, WritersReadersAndSyncsAtOnce) {
  constexpr uint64_t kThreads = 4;
  MustOpen();
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t] {
      Write(t * kKeys / kThreads, (t + 1) * kKeys / kThreads, 1);
      EXPECT_TRUE(store_->Sync().ok());
      std::string value;
      for (uint64_t i = t * kKeys / kThreads; i < (t + 1) * kKeys / kThreads; ++i) {
        ASSERT_TRUE(store_->Read(KeyOf(NthKey(i)), &value).ok());
        ASSERT_EQ(value, ValueOf(NthKey(i), 1));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Reopen();
  ExpectAll(kKeys, 1);
}

TEST_F(DeviceStoreTest, InEverySyncMode) {
  for (const SyncMode mode : {SyncMode::kEveryWrite, SyncMode::kGroup}) {
    options_.sync_mode = mode;
    options_.journal_bytes = kMinJournalBytes;
    MustOpen();
    Write(0, 300, static_cast<uint64_t>(mode));
    Reopen();
    ExpectAll(300, static_cast<uint64_t>(mode));
    store_.reset();
  }
}

TEST_F(DeviceStoreTest, FullAtTheEndOfTheDevice) {
  // Sixteen segments, two for each bucket.
  const LoopDevice small(17 * kMiB);
  ASSERT_TRUE(small.valid()) << small.why();
  options_.paths = {small.path()};
  MustOpen();
  uint64_t written = 0;
  Status status;
  while (status.ok() && written < 10'000) {
    status = store_->Write(KeyOf(NthKey(written)), ValueOf(NthKey(written), 1));
    if (status.ok()) ++written;
  }
  EXPECT_EQ(status.code(), Code::kFull) << status.ToString();
  EXPECT_GT(written * kValueBytes, 8 * kMiB);
  EXPECT_LT(written * kValueBytes, 17 * kMiB);
  for (int opening = 0; opening < 2; ++opening) {
    ExpectReads(written, 1);
    EXPECT_EQ(CountRange(1), written) << "what was refused is not there";
    EXPECT_EQ(Verify(Code::kOk).record_count, written);
    MustOpen();
  }
}

// A window of keys moves over all buckets. Each fills half of the device, and gives it back.
TEST_F(DeviceStoreTest, WhatOneBucketGivesBackAnotherTakes) {
  options_.paths = {first_.path()};
  MustOpen();
  constexpr uint64_t kCount = kDeviceBytes / 2 / kValueBytes;
  for (uint64_t bucket = 0; bucket < options_.bucket_count; ++bucket) {
    const auto key_of = [&](uint64_t i) { return KeyBytes((bucket << 61) + i); };
    for (uint64_t i = 0; i < kCount; ++i) {
      const Status status = store_->Write(key_of(i).view(), ValueOf(i, bucket));
      ASSERT_TRUE(status.ok()) << bucket << ", " << i << ": " << status.ToString();
    }
    if (bucket % 2 == 0) Reopen();
    std::string value;
    for (uint64_t i = 0; i < kCount; ++i) {
      ASSERT_TRUE(store_->Read(key_of(i).view(), &value).ok());
      ASSERT_EQ(value, ValueOf(i, bucket));
      ASSERT_TRUE(store_->Delete(key_of(i).view()).ok());
    }
    ASSERT_TRUE(store_->Compact().ok());
  }
  EXPECT_EQ(Verify(Code::kOk).record_count, 0u);
}

TEST_F(DeviceStoreTest, WhatLayInALostSegmentIsAnErrorAndNothingElse) {
  MustOpen();
  Write(0, kKeys, 1);
  store_.reset();
  EraseSegments(0, 1, 3);
  EXPECT_GT(Verify(Code::kCorruption).bad_count, 0u);
  MustOpen();
  std::string value;
  uint64_t lost = 0;
  for (uint64_t i = 0; i < kKeys; ++i) {
    const Status status = store_->Read(KeyOf(NthKey(i)), &value);
    if (!status.ok()) ++lost;
    EXPECT_TRUE(status.ok() || status.code() == Code::kCorruption) << status.ToString();
    if (status.ok()) {
      ASSERT_EQ(value, ValueOf(NthKey(i), 1));
    }
  }
  EXPECT_GT(lost, 0u);
  EXPECT_LT(lost, kKeys);
  bool good = true;
  const Status ranged = store_->Range({}, {}, [&](std::string_view key, std::string_view bytes) {
    uint64_t version = 0;
    good = good && ParseValue(DecodeKey(key.data()), bytes, &version);
  });
  EXPECT_FALSE(ranged.ok());
  EXPECT_TRUE(good);
}

TEST_F(DeviceStoreTest, DamageOnTheDeviceIsCorruption) {
  options_.paths = {first_.path()};
  MustOpen();
  Write(0, kKeys, 1);
  store_.reset();
  ASSERT_TRUE(first_.Write(kMiB + 2 * kValueBytes + 100, "damage"));
  EXPECT_EQ(Verify(Code::kCorruption).bad_count, 1u);
  ASSERT_TRUE(first_.Write(20, "damage"));
  ExpectRefusal(Code::kCorruption, "checksum");
}

}  // namespace
}  // namespace engine_race::test
