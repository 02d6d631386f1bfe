// Forked children of a process that has a store open.
//
// One thread forks. A child ends without the tests' own cleaning up.
#ifndef TEST_E2E_FORKED_CHILD_H_
#define TEST_E2E_FORKED_CHILD_H_

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "engine_race/store.h"
#include "test/e2e/engine_fixture.h"
#include "test/test_util.h"

namespace engine_race::test {

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

}  // namespace engine_race::test

#endif  // TEST_E2E_FORKED_CHILD_H_
