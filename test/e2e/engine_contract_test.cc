// What the contest's interface promises about arguments, codes and ranges.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <stdexcept>

#include "test/e2e/engine_fixture.h"

namespace engine_race::test {
namespace {

using polar_race::kInvalidArgument;
using polar_race::kNotFound;
using polar_race::kSucc;

class EngineContractTest : public ::testing::Test {
 protected:
  void Write(uint64_t key, uint64_t version = 1) {
    ASSERT_EQ(engine_->Write(KeyOf(key), ValueOf(key, version)), kSucc);
  }
  std::vector<uint64_t> KeysIn(const std::string& lower, const std::string& upper) {
    std::vector<uint64_t> keys;
    for (const auto& [key, version] : RangeOf(engine_.get(), lower, upper)) keys.push_back(key);
    return keys;
  }

  TempDir dir_;
  std::unique_ptr<Engine> engine_ = OpenEngine(dir_.Join("store"));
  const std::string good_key_ = KeyOf(77);
  const std::string good_value_ = ValueOf(77, 1);
};

TEST_F(EngineContractTest, WriteRefusesKeysAndValuesOfOtherSizes) {
  for (const size_t size : {0, 1, 7, 9, 4096}) {
    EXPECT_EQ(engine_->Write(std::string(size, 'k'), good_value_), kInvalidArgument) << size;
  }
  for (const size_t size : {0, 1, 8, 4095, 4097, 8192}) {
    EXPECT_EQ(engine_->Write(good_key_, std::string(size, 'v')), kInvalidArgument) << size;
  }
  EXPECT_TRUE(KeysIn("", "").empty());
}

TEST_F(EngineContractTest, WriteRefusesNullPointers) {
  const char* const null = nullptr;
  EXPECT_EQ(engine_->Write(PolarString(null, 8), good_value_), kInvalidArgument);
  EXPECT_EQ(engine_->Write(PolarString(null), good_value_), kInvalidArgument);
  EXPECT_EQ(engine_->Write(good_key_, PolarString(null, 4096)), kInvalidArgument);
  EXPECT_EQ(engine_->Write(good_key_, PolarString(null)), kInvalidArgument);
  EXPECT_TRUE(KeysIn("", "").empty());
}

TEST_F(EngineContractTest, FailedWriteLeavesTheOldValue) {
  Write(77, 1);
  EXPECT_EQ(engine_->Write(good_key_, "short"), kInvalidArgument);
  EXPECT_EQ(VersionOf(engine_.get(), 77), 1u);
}

TEST_F(EngineContractTest, FailedReadLeavesTheCallersString) {
  const char* const null = nullptr;
  std::string value = "as it was";
  EXPECT_EQ(engine_->Read(good_key_, &value), kNotFound);
  EXPECT_EQ(value, "as it was");
  Write(78);
  EXPECT_EQ(engine_->Read(good_key_, &value), kNotFound);
  EXPECT_EQ(value, "as it was");
  for (const size_t size : {0, 7, 9}) {
    EXPECT_EQ(engine_->Read(std::string(size, 'k'), &value), kInvalidArgument) << size;
    EXPECT_EQ(value, "as it was");
  }
  EXPECT_EQ(engine_->Read(PolarString(null, 8), &value), kInvalidArgument);
  EXPECT_EQ(value, "as it was");
  EXPECT_EQ(engine_->Read(KeyOf(78), nullptr), kInvalidArgument);
}

TEST_F(EngineContractTest, ReadReplacesWhateverTheStringHeld) {
  Write(77, 5);
  for (const size_t size : {0, 10, 4096, 100000}) {
    std::string value(size, 'x');
    ASSERT_EQ(engine_->Read(good_key_, &value), kSucc);
    EXPECT_EQ(value, ValueOf(77, 5)) << size;
  }
}

TEST_F(EngineContractTest, RangeRefusesBoundsOfOtherSizes) {
  const char* const null = nullptr;
  Write(77);
  FnVisitor never([](const PolarString&, const PolarString&) { FAIL() << "visited"; });
  for (const size_t size : {1, 7, 9, 16}) {
    const std::string bad(size, 'b');
    EXPECT_EQ(engine_->Range(bad, "", never), kInvalidArgument) << size;
    EXPECT_EQ(engine_->Range("", bad, never), kInvalidArgument) << size;
    EXPECT_EQ(engine_->Range(bad, bad, never), kInvalidArgument) << size;
  }
  EXPECT_EQ(engine_->Range(PolarString(null, 8), "", never), kInvalidArgument);
  EXPECT_EQ(engine_->Range("", PolarString(null, 8), never), kInvalidArgument);
}

TEST_F(EngineContractTest, RangeIsHalfOpen) {
  for (const uint64_t key : {10, 20, 30, 40}) Write(key);
  using Keys = std::vector<uint64_t>;
  EXPECT_EQ(KeysIn("", ""), (Keys{10, 20, 30, 40}));
  EXPECT_EQ(KeysIn(KeyOf(20), KeyOf(40)), (Keys{20, 30}));
  EXPECT_EQ(KeysIn(KeyOf(20), KeyOf(41)), (Keys{20, 30, 40}));
  EXPECT_EQ(KeysIn(KeyOf(11), KeyOf(21)), (Keys{20}));
  EXPECT_EQ(KeysIn(KeyOf(11), KeyOf(20)), (Keys{}));
  EXPECT_EQ(KeysIn("", KeyOf(30)), (Keys{10, 20}));
  EXPECT_EQ(KeysIn(KeyOf(30), ""), (Keys{30, 40}));
  EXPECT_EQ(KeysIn(KeyOf(41), ""), (Keys{}));
  EXPECT_EQ(KeysIn("", KeyOf(0)), (Keys{}));
}

TEST_F(EngineContractTest, RangeWithLowerNotBelowUpperVisitsNothing) {
  for (const uint64_t key : {10, 20, 30}) Write(key);
  EXPECT_TRUE(KeysIn(KeyOf(20), KeyOf(20)).empty());
  EXPECT_TRUE(KeysIn(KeyOf(30), KeyOf(10)).empty());
  EXPECT_TRUE(KeysIn(KeyOf(~uint64_t{0}), KeyOf(0)).empty());
}

TEST_F(EngineContractTest, KeysOfAllZerosAndAllOnes) {
  constexpr uint64_t kLast = ~uint64_t{0};
  Write(0, 3);
  Write(kLast, 4);
  EXPECT_EQ(VersionOf(engine_.get(), 0), 3u);
  EXPECT_EQ(VersionOf(engine_.get(), kLast), 4u);
  using Keys = std::vector<uint64_t>;
  EXPECT_EQ(KeysIn("", ""), (Keys{0, kLast}));
  EXPECT_EQ(KeysIn(KeyOf(0), KeyOf(kLast)), (Keys{0}));
  EXPECT_EQ(KeysIn(KeyOf(1), ""), (Keys{kLast}));
  EXPECT_EQ(KeysIn("", KeyOf(1)), (Keys{0}));
}

TEST_F(EngineContractTest, KeysAreOrderedAsUnsignedBytes) {
  const std::vector<uint64_t> keys = {0,          0x7f,       0x80,       0xff,       0x100,
                                      1ull << 31, 1ull << 55, 1ull << 62, 1ull << 63, ~0ull};
  for (auto key = keys.rbegin(); key != keys.rend(); ++key) Write(*key);
  EXPECT_EQ(KeysIn("", ""), keys);
}

TEST_F(EngineContractTest, VisitorMayCallTheEngine) {
  constexpr uint64_t kCount = 200;
  for (uint64_t key = 0; key < kCount; ++key) Write(key);
  uint64_t visited = 0;
  FnVisitor visitor([&](const PolarString& key, const PolarString&) {
    const uint64_t number = DecodeKey(key.data());
    if (number >= kCount) return;  // written by this visitor
    ++visited;
    EXPECT_EQ(VersionOf(engine_.get(), kCount - 1 - number), number >= kCount / 2 ? 2u : 1u);
    Write(number, 2);
    Write(kCount + number, 1);
    EXPECT_EQ(RangeOf(engine_.get(), KeyOf(number), KeyOf(number + 1)), (Versions{{number, 2}}));
  });
  // The upper half is overwritten after the lower one, and so read back from there.
  ASSERT_EQ(engine_->Range("", "", visitor), kSucc);
  EXPECT_EQ(visited, kCount);
}

TEST_F(EngineContractTest, WhatTheVisitorThrowsLeavesRange) {
  for (uint64_t key = 0; key < 1000; ++key) Write(key * 0x0010000000000000);
  struct Thrown {};
  uint64_t visited = 0;
  FnVisitor visitor([&](const PolarString&, const PolarString&) {
    if (++visited == 5) throw Thrown();
  });
  EXPECT_THROW(engine_->Range("", "", visitor), Thrown);
  EXPECT_EQ(visited, 5u);
  // Nothing is left locked or half done, whoever scans next.
  RunThreads(4, [&](uint32_t) { EXPECT_EQ(KeysIn("", "").size(), 1000u); });
  Write(1, 9);
  EXPECT_EQ(VersionOf(engine_.get(), 1), 9u);
}

TEST_F(EngineContractTest, VisitorThatBlocksHoldsUpNobodyElse) {
  for (uint64_t key = 0; key < 2000; ++key) Write(key * 0x0020000000000000);
  std::promise<void> blocked;
  std::promise<void> others_done;
  std::future<void> others = others_done.get_future();
  std::thread sleeper([&] {
    uint64_t visited = 0;
    FnVisitor visitor([&](const PolarString&, const PolarString&) {
      if (++visited != 10) return;
      blocked.set_value();
      EXPECT_EQ(others.wait_for(std::chrono::seconds(60)), std::future_status::ready)
          << "a scan waits for a blocked visitor";
    });
    EXPECT_EQ(engine_->Range("", "", visitor), kSucc);
    EXPECT_EQ(visited, 2000u);
  });
  blocked.get_future().wait();
  RunThreads(4, [&](uint32_t) { EXPECT_EQ(KeysIn("", "").size(), 2000u); });
  Write(5, 2);
  others_done.set_value();
  sleeper.join();
}

TEST(EngineOpenArgumentsTest, NullResultPointerIsRefused) {
  TempDir dir;
  EXPECT_EQ(Engine::Open(dir.path(), nullptr), kInvalidArgument);
}

TEST(EngineOpenArgumentsTest, FailedOpenGivesNull) {
  auto* engine = reinterpret_cast<Engine*>(0x1);
  EXPECT_NE(Engine::Open("", &engine), kSucc);
  EXPECT_EQ(engine, nullptr);
}

TEST(StoreContractTest, StatusesAnswerAsTheEngineDoes) {
  TempDir dir;
  const auto store = OpenStore(dir.path(), TinyOptions());
  EXPECT_EQ(store->Write("short", ValueOf(1, 1)).code(), Code::kInvalidArgument);
  EXPECT_EQ(store->Write(KeyOf(1), "short").code(), Code::kInvalidArgument);
  EXPECT_EQ(store->Delete("short").code(), Code::kInvalidArgument);
  EXPECT_EQ(store->Delete({}).code(), Code::kInvalidArgument);
  std::string value = "as it was";
  EXPECT_EQ(store->Read(KeyOf(1), &value).code(), Code::kNotFound);
  EXPECT_EQ(store->Read("short", &value).code(), Code::kInvalidArgument);
  EXPECT_EQ(store->Read(KeyOf(1), nullptr).code(), Code::kInvalidArgument);
  EXPECT_EQ(value, "as it was");
  const VisitFn visit = [](std::string_view, std::string_view) {};
  EXPECT_EQ(store->Range("short", {}, visit).code(), Code::kInvalidArgument);
  EXPECT_EQ(store->Range({}, "short", visit).code(), Code::kInvalidArgument);
  EXPECT_EQ(store->Range({}, {}, nullptr).code(), Code::kInvalidArgument);
  EXPECT_TRUE(store->Range({}, {}, visit).ok());
}

TEST(StoreContractTest, OptionsOutOfRangeAreRefused) {
  TempDir dir;
  const auto refused = [&dir](auto change) {
    Options options = TinyOptions();
    change(&options);
    std::unique_ptr<Store> store;
    const Status status = Store::Open(AsRun(options), dir.Join("store"), &store);
    EXPECT_EQ(store, nullptr);
    return status.code() == Code::kInvalidArgument && !status.message().empty();
  };
  EXPECT_TRUE(refused([](Options* o) { o->bucket_count = 0; }));
  EXPECT_TRUE(refused([](Options* o) { o->bucket_count = 3; }));
  EXPECT_TRUE(refused([](Options* o) { o->bucket_count = 1 << 17; }));
  EXPECT_TRUE(refused([](Options* o) { o->file_count = 8; }));
  EXPECT_TRUE(refused([](Options* o) { o->value_group_bytes = 5000; }));
  EXPECT_TRUE(refused([](Options* o) { o->key_group_bytes = 1 << 20; }));
  EXPECT_TRUE(refused([](Options* o) { o->bucket_capacity_records = 1ull << 32; }));
  EXPECT_TRUE(refused([](Options* o) { o->memory_budget_bytes = 1; }));
}

TEST(StoreContractTest, NothingIsMadeWhenNotAskedTo) {
  TempDir dir;
  Options options;
  options.create_if_missing = false;
  std::unique_ptr<Store> store;
  EXPECT_EQ(Store::Open(AsRun(options), dir.path(), &store).code(), Code::kNotFound);
  EXPECT_EQ(store, nullptr);
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(StoreContractTest, NullStorePointerIsRefused) {
  TempDir dir;
  EXPECT_EQ(Store::Open(AsRun(Options()), dir.path(), nullptr).code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace engine_race::test
