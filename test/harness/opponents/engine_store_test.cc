// Closing this engine behind the benchmarks' interface.
#include "harness/kv/engine_store.h"

#include <errno.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "test/faults/system_calls.h"
#include "test/test_util.h"

namespace harness {
namespace {

using engine_race::Code;
using engine_race::test::CallKind;
using engine_race::test::SystemCall;

// A device that loses what it is told to keep.
class FailingSyncs final : public engine_race::test::SystemCallHook {
 public:
  long OnCall(SystemCall* call) override {
    const bool syncs = call->kind == CallKind::kFsync || call->kind == CallKind::kFdatasync ||
                       call->kind == CallKind::kMsync;
    if (!syncs) return call->Proceed();
    errno = EIO;
    return -1;
  }
};

TEST(EngineStoreTest, ClosingReportsWritesThatAreLost) {
  const engine_race::test::TempDir temp{engine_race::test::FastParent()};
  std::unique_ptr<KvStore> store;
  ASSERT_TRUE(EngineStoreKind().open({temp.Join("store"), 0, 1}, &store).ok());
  const std::vector<char> value(engine_race::kValueBytes, 'v');
  ASSERT_TRUE(store->Put(1, value.data()).ok());
  FailingSyncs failing;
  const engine_race::test::ScopedHook hook(&failing);
  EXPECT_EQ(store->Close().code(), Code::kIOError);
}

TEST(EngineStoreTest, ClosingAWholeStoreIsOk) {
  const engine_race::test::TempDir temp{engine_race::test::FastParent()};
  std::unique_ptr<KvStore> store;
  ASSERT_TRUE(EngineStoreKind().open({temp.Join("store"), 0, 1}, &store).ok());
  const std::vector<char> value(engine_race::kValueBytes, 'v');
  ASSERT_TRUE(store->Put(1, value.data()).ok());
  EXPECT_TRUE(store->Close().ok());
}

}  // namespace
}  // namespace harness
