// Writers that are killed by SIGKILL once they have written a root of the index: the root covers
// less than the logs hold, or as much.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <new>
#include <string>

#include "engine_race/log/format.h"
#include "engine_race/store.h"
#include "test/e2e/engine_fixture.h"
#include "test/faults/dying_child.h"
#include "test/faults/system_calls.h"
#include "test/test_util.h"

namespace engine_race::test {
namespace {

// A root that is not written by then never will be.
constexpr uint64_t kMostRecords = 200000;

// What the child tells its parent, in memory that both share.
struct Told {
  std::atomic<uint64_t> acknowledged_count;
  std::atomic<uint64_t> root_count;
};

// Counts the roots that take their name.
class RootCount : public SystemCallHook {
 public:
  RootCount(Told* told, uint64_t fatal_root) : told_(*told), fatal_root_(fatal_root) {}
  long OnCall(SystemCall* call) override {
    const bool is_root = call->kind == CallKind::kRenameAt &&
                         std::string(call->new_name).ends_with(format::kIndexRootName);
    const long result = call->Proceed();
    if (is_root && result == 0 && ++told_.root_count == fatal_root_) ::raise(SIGKILL);
    return result;
  }

 private:
  Told& told_;
  const uint64_t fatal_root_;  // 0: none
};

class KilledRootTest : public testing::Test {
 protected:
  KilledRootTest()
      : memory_(::mmap(nullptr, sizeof(Told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                       -1, 0)),
        told_(*new (memory_) Told{}) {
    options_.bucket_count = 1;
    options_.file_count = 1;
    options_.value_group_bytes = 4096;
    options_.key_group_bytes = 4096;
    options_.index_memory_bytes = 0;
    options_.memory_budget_bytes = kMinMemoryBudgetBytes;
    options_.index_idle_ms = 0;
  }
  ~KilledRootTest() override { ::munmap(memory_, sizeof(Told)); }

  bool WriteOne(Store* store) {
    const uint64_t number = told_.acknowledged_count;
    const uint64_t key = number % kKeys;
    if (!store->Write(KeyOf(key), ValueOf(key, number)).ok()) return false;
    ++told_.acknowledged_count;
    return true;
  }
  // The next life of the store: writes and syncs until there is a root. It dies when root number
  // `fatal_root` has its name, or `later_count` records later.
  void LiveOn(uint64_t fatal_root, uint64_t later_count) {
    RootCount hook(&told_, fatal_root);
    const uint64_t roots_before = told_.root_count;
    const End end = InChildUnder(&hook, [&] {
      const auto store = OpenStore(dir_.path(), options_);
      if (store == nullptr || !WriteOne(store.get())) return false;
      // The first read makes the index.
      std::string value;
      if (!store->Read(KeyOf(0), &value).ok()) return false;
      for (uint64_t i = 0; told_.root_count == roots_before; ++i) {
        if (i > kMostRecords || !WriteOne(store.get())) return false;
        if (i % 1000 == 999 && !store->Sync().ok()) return false;
      }
      for (uint64_t i = 0; i < later_count; ++i) {
        if (!WriteOne(store.get())) return false;
      }
      return ::raise(SIGKILL) == 0;
    });
    ASSERT_EQ(end, End::kKilled);
    ASSERT_GT(told_.root_count, roots_before);
  }
  // The write that the kill interrupted may be there too.
  void ExpectAllThere() {
    const uint64_t count = told_.acknowledged_count;
    const auto store = OpenStore(dir_.path(), options_);
    ASSERT_NE(store, nullptr);
    std::string value;
    for (uint64_t key = 0; key < std::min(count, kKeys); ++key) {
      ASSERT_TRUE(store->Read(KeyOf(key), &value).ok()) << key;
      uint64_t version = 0;
      ASSERT_TRUE(ParseValue(key, value, &version)) << key;
      const uint64_t newest = key + (count - 1 - key) / kKeys * kKeys;
      ASSERT_TRUE(version == newest || version == count) << key << ": " << version;
    }
    const uint64_t seen_count = RangeOf(store.get(), "", "").size();
    EXPECT_TRUE(seen_count == std::min(count, kKeys) || seen_count == std::min(count + 1, kKeys))
        << seen_count << " after " << count;
  }

  // Later lives overwrite.
  static constexpr uint64_t kKeys = 11000;

  TempDir dir_{FastParent()};
  Options options_;
  void* memory_;
  Told& told_;
};

TEST_F(KilledRootTest, NothingIsWrittenAfterTheRoot) {
  for (int life = 0; life < 3; ++life) {
    ASSERT_NO_FATAL_FAILURE(LiveOn(/*fatal_root=*/0, /*later_count=*/0));
    ASSERT_NO_FATAL_FAILURE(ExpectAllThere());
  }
}

TEST_F(KilledRootTest, RecordsAreWrittenAfterTheRoot) {
  for (const uint64_t later_count : {1, 3, 500, 9000}) {
    ASSERT_NO_FATAL_FAILURE(LiveOn(/*fatal_root=*/0, later_count));
    ASSERT_NO_FATAL_FAILURE(ExpectAllThere());
  }
}

TEST_F(KilledRootTest, TheRootHasJustTakenItsName) {
  for (int life = 0; life < 3; ++life) {
    ASSERT_NO_FATAL_FAILURE(LiveOn(/*fatal_root=*/told_.root_count + 1, /*later_count=*/0));
    ASSERT_NO_FATAL_FAILURE(ExpectAllThere());
  }
}

}  // namespace
}  // namespace engine_race::test
