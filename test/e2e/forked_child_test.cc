// A store belongs to the process that opened it, whatever its forked children do.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine_race/store.h"
#include "test/e2e/engine_fixture.h"
#include "test/test_util.h"

namespace engine_race::test {
namespace {

class ForkedChildTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(::pipe(go_.data()), 0); }
  void TearDown() override {
    for (const int fd : go_) ::close(fd);
  }

  std::unique_ptr<Store> Open() {
    std::unique_ptr<Store> store;
    Options options = TinyOptions();
    // ThreadSanitizer ends a child whose thread gets the id of one that its parent had.
    if (kSanitized) options.reclaim = Reclaim::kOff;
    const Status opened = Store::Open(AsRun(options), dir_.path(), &store);
    EXPECT_TRUE(opened.ok()) << opened.ToString();
    return store;
  }

  static void Write(Store* store, uint64_t begin, uint64_t end) {
    for (uint64_t i = begin; i < end; ++i) {
      ASSERT_TRUE(store->Write(KeyOf(i), ValueOf(i, 1)).ok()) << i;
    }
  }

  static void ExpectRecords(Store* store, uint64_t count) {
    std::string value;
    uint64_t found = 0;
    ASSERT_TRUE(store->Range({}, {}, [&](std::string_view, std::string_view) { ++found; }).ok());
    EXPECT_EQ(found, count);
    for (uint64_t i = 0; i < count; ++i) {
      ASSERT_TRUE(store->Read(KeyOf(i), &value).ok() && value == ValueOf(i, 1)) << i;
    }
  }

  // A child that waits for LetGo, then answers with its exit code.
  pid_t Fork(const std::function<bool()>& holds) {
    const pid_t child = ::fork();
    if (child != 0) return child;
    char byte = 0;
    ::_exit(::read(go_[0], &byte, 1) == 1 && holds() ? 0 : 1);
  }
  void LetGo(pid_t child) {
    ASSERT_EQ(::write(go_[1], "x", 1), 1);
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }

  TempDir dir_;
  std::array<int, 2> go_{};
};

// A parent that returns from main after it has forked, as daemons do, closes the store.
TEST_F(ForkedChildTest, WritesNothingBesideTheNextOpener) {
  std::unique_ptr<Store> store = Open();
  Write(store.get(), 0, 300);
  const pid_t child = Fork([&] {
    std::string value;
    const bool refused = store->Write(KeyOf(7), ValueOf(7, 9)).code() == Code::kInvalidArgument &&
                         store->Delete(KeyOf(8)).code() == Code::kInvalidArgument &&
                         store->Sync().code() == Code::kInvalidArgument;
    store.reset();
    return refused;
  });
  store.reset();
  store = Open();
  ASSERT_NE(store, nullptr);
  Write(store.get(), 300, 700);
  LetGo(child);
  ExpectRecords(store.get(), 700);
  store.reset();
  store = Open();
  ExpectRecords(store.get(), 700);
}

TEST_F(ForkedChildTest, IsRefusedByEveryCall) {
  std::unique_ptr<Store> store = Open();
  Write(store.get(), 0, 10);
  ExpectRecords(store.get(), 10);
  Snapshot held;
  ASSERT_TRUE(store->GetSnapshot(&held).ok());
  const pid_t child = Fork([&] {
    const auto is_refused = [](const Status& status) {
      return status.code() == Code::kInvalidArgument &&
             status.message().find("forked") != std::string::npos;
    };
    std::string value;
    std::string row(kValueBytes, 0);
    const std::string key = KeyOf(1);
    const std::array<std::string_view, 1> keys = {key};
    const std::array<uint64_t, 1> numbers = {1};
    std::array<std::string, 1> values;
    std::array<Status, 1> statuses;
    std::array<Code, 1> codes;
    Snapshot snapshot;
    Iterator iterator;
    std::vector<BucketSpace> buckets;
    const VisitFn visit = [](std::string_view, std::string_view) {};
    return is_refused(store->Read(key, &value)) && is_refused(store->ReadInto(1, row.data())) &&
           is_refused(store->MultiRead(keys, values, statuses)) &&
           is_refused(store->MultiReadInto(numbers, row.data(), codes)) &&
           is_refused(store->ReadAsync(key, &value, [](const Status&) {})) &&
           is_refused(store->ReadAsyncInto(1, row.data(), [](const Status&) {})) &&
           is_refused(store->Range({}, {}, visit)) && is_refused(store->GetSnapshot(&snapshot)) &&
           is_refused(store->NewIterator({}, &iterator)) &&
           is_refused(store->Read(held, key, &value)) &&
           is_refused(store->ReadInto(held, 1, row.data())) &&
           is_refused(store->Range(held, {}, {}, visit)) && is_refused(store->Compact()) &&
           is_refused(store->SpaceByBucket(&buckets));
  });
  LetGo(child);
  ExpectRecords(store.get(), 10);
}

// One that it opens itself is its own.
TEST_F(ForkedChildTest, OpensTheStoreAfterItsParent) {
  std::unique_ptr<Store> store = Open();
  Write(store.get(), 0, 10);
  const pid_t child = Fork([&] {
    std::unique_ptr<Store> own;
    if (!Store::Open(AsRun(TinyOptions()), dir_.path(), &own).ok()) return false;
    return own->Write(KeyOf(10), ValueOf(10, 1)).ok();
  });
  store.reset();
  LetGo(child);
  store = Open();
  ExpectRecords(store.get(), 11);
}

}  // namespace
}  // namespace engine_race::test
