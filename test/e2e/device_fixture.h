// A store whose values lie on two loop devices, and what tests ask of it.
#ifndef TEST_E2E_DEVICE_FIXTURE_H_
#define TEST_E2E_DEVICE_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "engine_race/base/sys.h"
#include "engine_race/log/format.h"
#include "engine_race/log/segment_format.h"
#include "engine_race/store.h"
#include "test/e2e/engine_fixture.h"
#include "test/loop_device.h"
#include "test/test_util.h"

namespace engine_race::test {

class DeviceStoreTest : public testing::Test {
 protected:
  static constexpr uint64_t kDeviceBytes = 32 * kMiB;
  static inline const uint64_t kKeys = Sized(4000, 1500);

  static bool Format(const LoopDevice& device) {
    const std::string command =
        "PATH=$PATH:/usr/sbin:/sbin mkfs.ext4 -q -F " + device.path() + " > /dev/null 2>&1";
    return std::system(command.c_str()) == 0;
  }

  void SetUp() override {
    for (const LoopDevice* device : {&first_, &second_}) {
      if (!device->valid()) GTEST_SKIP() << "no loop devices here: " << device->why();
    }
    options_.bucket_count = 8;
    options_.file_count = 2;
    options_.bucket_capacity_records = 1 << 20;
    options_.value_group_bytes = 16 * 1024;
    options_.memory_budget_bytes = 32 * kMiB;
    options_.paths = {first_.path(), second_.path()};
  }

  Status Open() { return Store::Open(AsRun(options_), Dir(), &store_); }
  // Of a store that opens: nothing else may fail.
  void MustOpen() {
    const Status status = Open();
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  void Reopen() {
    store_.reset();
    MustOpen();
  }
  // The refusal of an opening, which leaves no store open.
  Status Refusal() {
    store_.reset();
    const Status status = Open();
    EXPECT_FALSE(status.ok());
    store_.reset();
    return status;
  }
  void ExpectRefusal(Code code, const std::string& word) {
    const Status status = Refusal();
    EXPECT_EQ(status.code(), code) << status.ToString();
    EXPECT_NE(status.message().find(word), std::string::npos) << status.ToString();
  }

  void Write(uint64_t begin, uint64_t end, uint64_t version) {
    ASSERT_NE(store_, nullptr);
    for (uint64_t i = begin; i < end; ++i) {
      const Status status = store_->Write(KeyOf(NthKey(i)), ValueOf(NthKey(i), version));
      ASSERT_TRUE(status.ok()) << status.ToString();
    }
  }
  void ExpectAll(uint64_t count, uint64_t version) {
    ExpectReads(count, version);
    EXPECT_EQ(CountRange(version), count);
  }
  void ExpectReads(uint64_t count, uint64_t version) {
    ASSERT_NE(store_, nullptr);
    std::string value;
    for (uint64_t i = 0; i < count; ++i) {
      const Status status = store_->Read(KeyOf(NthKey(i)), &value);
      ASSERT_TRUE(status.ok()) << "key " << i << ": " << status.ToString();
      ASSERT_EQ(value, ValueOf(NthKey(i), version)) << "key " << i;
    }
  }
  // How many Range visits, in their order and with values of that version.
  uint64_t CountRange(uint64_t version) {
    uint64_t visited = 0;
    if (store_ == nullptr) return visited;
    uint64_t last = 0;
    bool good = true;
    const Status status = store_->Range({}, {}, [&](std::string_view key, std::string_view value) {
      const uint64_t word = DecodeKey(key.data());
      uint64_t found = 0;
      good = good && (visited == 0 || word > last) && ParseValue(word, value, &found) &&
             found == version;
      last = word;
      ++visited;
    });
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_TRUE(good);
    return visited;
  }
  VerifyReport Verify(Code expected) {
    store_.reset();
    VerifyReport report;
    const Status status = Store::Verify(options_, Dir(), &report, {});
    EXPECT_EQ(status.code(), expected) << status.ToString();
    return report;
  }
  // Entries [begin, end) of a path's segments, as if never written. The path has one file.
  void EraseSegments(uint32_t path, uint64_t begin, uint64_t end) {
    UniqueFd fd;
    ASSERT_TRUE(sys::OpenAt(AT_FDCWD, dir_.Join(std::string("store/") + format::kSegmentTableName),
                            O_RDWR, 0, &fd)
                    .ok());
    const std::string zeros((end - begin) * sizeof(format::SegmentEntry), '\0');
    ASSERT_TRUE(sys::PwriteFull(fd.get(), zeros.data(), zeros.size(),
                                path * kIoAlignment + begin * sizeof(format::SegmentEntry))
                    .ok());
  }

  std::string Dir() const { return dir_.Join("store"); }

  TempDir dir_{FastParent()};
  LoopDevice first_{kDeviceBytes};
  LoopDevice second_{kDeviceBytes};
  Options options_;
  std::unique_ptr<Store> store_;
};

}  // namespace engine_race::test

#endif  // TEST_E2E_DEVICE_FIXTURE_H_
