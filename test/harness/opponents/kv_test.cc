// One suite over every store that the benchmarks compare: the engine and the peers that are here.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "harness/data/value_maker.h"
#include "harness/kv/kv_store.h"
#include "harness/opponents/peers.h"
#include "harness/system/child_process.h"
#include "test/test_util.h"

extern char** environ;

namespace engine_race::harness {
namespace {

constexpr uint64_t kMemoryBytes = uint64_t{64} << 20;
constexpr uint32_t kWriters = 8;

std::vector<KvStoreKind> Stores() {
  std::vector<KvStoreKind> stores = Peers();
  stores.insert(stores.begin(), EngineStoreKind());
  return stores;
}

KvStoreKind StoreNamed(const std::string& name) {
  for (KvStoreKind& kind : Stores()) {
    if (kind.name == name) return std::move(kind);
  }
  return {};
}

std::vector<std::string> StoreNames() {
  std::vector<std::string> names;
  for (const KvStoreKind& kind : Stores()) names.push_back(kind.name);
  return names;
}

std::vector<char> ValueOf(uint64_t key, uint64_t version, uint32_t value_bytes = kValueSize) {
  std::vector<char> value(value_bytes);
  ValueMaker(5, value_bytes).Fill(key, version, value.data());
  return value;
}

class KvTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { Open(); }
  void TearDown() override {
    if (store_ == nullptr) return;
    EXPECT_TRUE(store_->Close().ok());
  }

  void Open(bool walks_in_order = false, uint64_t record_count = 0) {
    KvOptions options = {dir(), kMemoryBytes, kWriters};
    options.walks_in_order = walks_in_order;
    options.record_count = record_count;
    const Status opened = StoreNamed(GetParam()).open(options, &store_);
    ASSERT_TRUE(opened.ok()) << opened.ToString();
  }
  void Reopen(bool walks_in_order = false, uint64_t record_count = 0) {
    const Status closed = store_->Close();
    store_.reset();
    ASSERT_TRUE(closed.ok()) << closed.ToString();
    Open(walks_in_order, record_count);
  }
  std::string dir() const { return temp_.Join("store"); }

  void Put(uint64_t key, uint64_t version = 0) {
    const Status put = store_->Put(key, ValueOf(key, version).data());
    ASSERT_TRUE(put.ok()) << put.ToString();
    expected_[key] = version;
  }
  void Delete(uint64_t key) {
    const Status deleted = store_->Delete(key);
    ASSERT_TRUE(deleted.ok()) << deleted.ToString();
    expected_.erase(key);
  }
  // Reads every key below and around those that were written.
  void ExpectAll() {
    std::vector<char> value(kValueSize);
    for (const auto& [key, version] : expected_) {
      const Status got = store_->Get(key, value.data());
      ASSERT_TRUE(got.ok()) << key << ": " << got.ToString();
      EXPECT_EQ(value, ValueOf(key, version)) << key;
      if (expected_.contains(key + 1)) continue;
      EXPECT_EQ(store_->Get(key + 1, value.data()).code(), Code::kNotFound) << key;
    }
    auto next = expected_.begin();
    const Status scanned = store_->ScanAll([&](uint64_t key, const char* bytes) {
      ASSERT_NE(next, expected_.end());
      EXPECT_EQ(key, next->first);
      EXPECT_EQ(std::vector<char>(bytes, bytes + kValueSize), ValueOf(key, next->second));
      ++next;
    });
    EXPECT_TRUE(scanned.ok()) << scanned.ToString();
    EXPECT_EQ(next, expected_.end());
  }

  const test::TempDir temp_{test::FastParent()};
  std::unique_ptr<KvStore> store_;
  std::map<uint64_t, uint64_t> expected_;  // versions by key
};

TEST_P(KvTest, KeepsWritesOverwritesAndDeletes) {
  for (uint64_t i = 0; i < 300; ++i) Put(i * 0x9e3779b97f4a7c15);
  for (uint64_t i = 0; i < 300; i += 3) Put(i * 0x9e3779b97f4a7c15, 1);
  for (uint64_t i = 0; i < 300; i += 7) Delete(i * 0x9e3779b97f4a7c15);
  Delete(42);
  ExpectAll();
  Reopen();
  ExpectAll();
  EXPECT_TRUE(store_->Sync().ok());
  Put(~uint64_t{0});
  Put(0);
  ExpectAll();
}

TEST_P(KvTest, HintsChangeNoAnswer) {
  for (uint64_t key = 0; key < 100; ++key) Put(key << 50);
  Reopen(true, 200);
  ExpectAll();
  for (uint64_t key = 100; key < 200; ++key) Put(key << 50);
  Reopen(false, 200);
  ExpectAll();
}

TEST_P(KvTest, RecordsOutliveThatSpaceIsGivenBack) {
  const nlohmann::json usual = store_->Describe();
  KvOptions options = {dir(), kMemoryBytes, kWriters};
  options.record_count = 500;
  options.gives_back_space = true;
  for (uint64_t opening = 0; opening < 3; ++opening) {
    ASSERT_TRUE(store_->Close().ok());
    ASSERT_TRUE(StoreNamed(GetParam()).open(options, &store_).ok());
    for (uint64_t i = 0; i < 8000; ++i) Put(i % 500 * 1000, opening * 16 + i / 500);
  }
  ExpectAll();
  if (GetParam() != "rocksdb") return;
  const nlohmann::json settings = store_->Describe();
  EXPECT_EQ(settings.at("enable_blob_garbage_collection").at("value"), true);
  for (const char* name : {"age_cutoff", "force_threshold"}) {
    const std::string setting = std::string("blob_garbage_collection_") + name;
    EXPECT_LT(settings.at(setting).at("value"), usual.at(setting).at("value")) << setting;
  }
}

TEST_P(KvTest, KeepsValuesOfAnySize) {
  for (const uint32_t value_bytes : {8, 100, 512, 1536, 16384, 1048576}) {
    KvOptions options = {temp_.Join(std::to_string(value_bytes)), kMemoryBytes, kWriters};
    options.value_bytes = value_bytes;
    std::vector<uint64_t> keys;
    for (const uint64_t count : {7, 20}) {
      std::unique_ptr<KvStore> store;
      ASSERT_TRUE(StoreNamed(GetParam()).open(options, &store).ok()) << value_bytes;
      for (; keys.size() < count; keys.push_back(keys.size())) {
        ASSERT_TRUE(store->Put(keys.size(), ValueOf(keys.size(), 1, value_bytes).data()).ok());
      }
      std::vector<char> values(count * value_bytes);
      std::vector<Code> codes(count);
      ASSERT_TRUE(store->MultiGet(keys, values.data(), codes).ok());
      uint64_t next = 0;
      const Status scanned = store->ScanAll([&](uint64_t key, const char* value) {
        ASSERT_EQ(key, next++);
        const std::vector<char> expected = ValueOf(key, 1, value_bytes);
        EXPECT_EQ(std::memcmp(value, expected.data(), value_bytes), 0);
        EXPECT_EQ(std::memcmp(&values[key * value_bytes], expected.data(), value_bytes), 0);
      });
      EXPECT_TRUE(scanned.ok() && next == count && store->Close().ok());
    }
  }
}

TEST_P(KvTest, AnEmptyStoreHasNothing) {
  ExpectAll();
  std::unique_ptr<KvCursor> cursor;
  ASSERT_TRUE(store_->NewCursor(&cursor).ok());
  cursor->SeekToFirst();
  EXPECT_FALSE(cursor->Valid());
  cursor->SeekToLast();
  EXPECT_FALSE(cursor->Valid());
  cursor->Seek(7);
  EXPECT_FALSE(cursor->Valid());
  EXPECT_TRUE(cursor->Error().ok());
}

TEST_P(KvTest, MultiGetAnswersForEachKey) {
  for (uint64_t key = 0; key < 100; key += 2) Put(key);
  std::vector<uint64_t> keys;
  for (uint64_t key = 100; key > 0; --key) keys.push_back(key - 1);
  keys.push_back(keys.front());
  std::vector<char> values(keys.size() * kValueSize);
  std::vector<Code> codes(keys.size());
  const Status got = store_->MultiGet(keys, values.data(), codes);
  ASSERT_TRUE(got.ok()) << got.ToString();
  for (size_t i = 0; i < keys.size(); ++i) {
    ASSERT_EQ(codes[i], keys[i] % 2 == 0 ? Code::kOk : Code::kNotFound) << keys[i];
    if (codes[i] != Code::kOk) continue;
    const auto value = values.begin() + static_cast<ptrdiff_t>(i * kValueSize);
    EXPECT_EQ(std::vector<char>(value, value + kValueSize), ValueOf(keys[i], 0));
  }
  EXPECT_EQ(store_->MultiGet(keys, values.data(), std::span(codes).first(3)).code(),
            Code::kInvalidArgument);
}

TEST_P(KvTest, CursorsWalkBothWays) {
  for (uint64_t i = 1; i <= 50; ++i) Put(i << 40);
  std::unique_ptr<KvCursor> cursor;
  ASSERT_TRUE(store_->NewCursor(&cursor).ok());
  uint64_t seen = 0;
  for (cursor->SeekToFirst(); cursor->Valid(); cursor->Next()) {
    EXPECT_EQ(cursor->Key(), ++seen << 40);
    const char* const value = cursor->Value();
    ASSERT_NE(value, nullptr);
    EXPECT_EQ(std::vector<char>(value, value + kValueSize), ValueOf(cursor->Key(), 0));
  }
  EXPECT_EQ(seen, 50u);
  EXPECT_TRUE(cursor->Error().ok());
  for (cursor->SeekToLast(); cursor->Valid(); cursor->Prev()) {
    EXPECT_EQ(cursor->Key(), seen-- << 40);
    ASSERT_NE(cursor->Value(), nullptr);
  }
  EXPECT_EQ(seen, 0u);
  for (const uint64_t between : {uint64_t{0}, (uint64_t{7} << 40) - 1, (uint64_t{49} << 40) + 1}) {
    cursor->Seek(between);
    ASSERT_TRUE(cursor->Valid());
    EXPECT_EQ(cursor->Key(), ((between >> 40) + 1) << 40);
  }
  cursor->Seek(uint64_t{50} << 40);
  ASSERT_TRUE(cursor->Valid());
  cursor->Prev();
  ASSERT_TRUE(cursor->Valid());
  EXPECT_EQ(cursor->Key(), uint64_t{49} << 40);
  cursor->Seek((uint64_t{50} << 40) + 1);
  EXPECT_FALSE(cursor->Valid());
}

TEST_P(KvTest, ReadsGoOnBesideACursorOfTheSameThread) {
  for (uint64_t key = 0; key < 20; ++key) Put(key);
  std::unique_ptr<KvCursor> first;
  std::unique_ptr<KvCursor> second;
  ASSERT_TRUE(store_->NewCursor(&first).ok());
  ASSERT_TRUE(store_->NewCursor(&second).ok());
  first->SeekToFirst();
  second->SeekToLast();
  ExpectAll();
  EXPECT_EQ(first->Key(), 0u);
  EXPECT_EQ(second->Key(), 19u);
}

TEST_P(KvTest, AThrowLeavesTheScan) {
  for (uint64_t key = 0; key < 20; ++key) Put(key);
  uint64_t seen = 0;
  const auto scan = [&] {
    (void)store_->ScanAll([&](uint64_t, const char*) {
      if (++seen == 5) throw std::runtime_error("enough");
    });
  };
  EXPECT_THROW(scan(), std::runtime_error);
  EXPECT_EQ(seen, 5u);
  ExpectAll();
}

TEST_P(KvTest, ThreadsWriteAndReadAtOnce) {
  constexpr uint64_t kKeys = 200;
  {
    std::vector<std::jthread> threads;
    for (uint64_t thread = 0; thread < kWriters; ++thread) {
      threads.emplace_back([this, thread] {
        std::vector<char> value(kValueSize);
        for (uint64_t i = 0; i < kKeys; ++i) {
          const uint64_t key = thread << 32 | i;
          ASSERT_TRUE(store_->Put(key, ValueOf(key, 0).data()).ok());
          ASSERT_TRUE(store_->Get(key, value.data()).ok());
          EXPECT_EQ(value, ValueOf(key, 0));
        }
      });
    }
  }
  for (uint64_t thread = 0; thread < kWriters; ++thread) {
    for (uint64_t i = 0; i < kKeys; ++i) expected_[thread << 32 | i] = 0;
  }
  ExpectAll();
}

TEST_P(KvTest, DescribesItself) {
  const nlohmann::json words = store_->Describe();
  ASSERT_TRUE(words.is_object());
  EXPECT_FALSE(words.empty());
  if (GetParam() == "engine_race") return;
  EXPECT_TRUE(words.contains("version"));
  EXPECT_TRUE(words.contains("kill -9"));
  EXPECT_TRUE(words.contains("power loss"));
}

// Records that each thread of a killed process had acknowledged.
struct Acknowledged {
  std::atomic<uint64_t> counts[kWriters];
};

Acknowledged* MapAcknowledged(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || ::ftruncate(fd, sizeof(Acknowledged)) != 0) return nullptr;
  void* const mapped =
      ::mmap(nullptr, sizeof(Acknowledged), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  return mapped == MAP_FAILED ? nullptr : static_cast<Acknowledged*>(mapped);
}

uint64_t KilledKey(uint64_t thread, uint64_t i) { return (i * kWriters + thread) << 16 ^ i; }

constexpr char kChildVariable[] = "KV_TEST_CHILD_DIR";
constexpr char kParentVariable[] = "KV_TEST_PARENT_PID";

// What the killed process of KilledLosesNothing does: it writes until then. It does nothing else
// than pass in other processes.
TEST(KvChild, WritesUntilItIsKilled) {
  const char* const dir = std::getenv(kChildVariable);
  if (dir == nullptr) return;
  ASSERT_TRUE(DieWithParent(std::atoi(std::getenv(kParentVariable))));
  const std::string name = std::getenv("KV_TEST_CHILD_STORE");
  Acknowledged* const acknowledged = MapAcknowledged(std::string(dir) + "/acknowledged");
  ASSERT_NE(acknowledged, nullptr);
  std::unique_ptr<KvStore> store;
  ASSERT_TRUE(
      StoreNamed(name).open({std::string(dir) + "/store", kMemoryBytes, kWriters}, &store).ok());
  std::vector<std::jthread> threads;
  for (uint64_t thread = 0; thread < kWriters; ++thread) {
    threads.emplace_back([&, thread] {
      for (uint64_t i = 0;; ++i) {
        const uint64_t key = KilledKey(thread, i);
        ASSERT_TRUE(store->Put(key, ValueOf(key, i).data()).ok());
        acknowledged->counts[thread].store(i + 1);
      }
    });
  }
}

TEST_P(KvTest, KilledLosesNothing) {
  ASSERT_TRUE(store_->Close().ok());
  store_.reset();
  ASSERT_EQ(::setenv(kChildVariable, temp_.path().c_str(), 1), 0);
  ASSERT_EQ(::setenv("KV_TEST_CHILD_STORE", GetParam().c_str(), 1), 0);
  ASSERT_EQ(::setenv(kParentVariable, std::to_string(::getpid()).c_str(), 1), 0);
  Acknowledged* const acknowledged = MapAcknowledged(temp_.Join("acknowledged"));
  ASSERT_NE(acknowledged, nullptr);
  std::string program = SelfPath();
  std::string filter = "--gtest_filter=KvChild.WritesUntilItIsKilled";
  std::string no_report = "--gtest_output=";
  char* const args[] = {program.data(), filter.data(), no_report.data(), nullptr};
  // The parts of a test run would leave the child's only test out.
  ::unsetenv("GTEST_TOTAL_SHARDS");
  ::unsetenv("GTEST_SHARD_INDEX");
  pid_t child = 0;
  ASSERT_EQ(::posix_spawn(&child, program.c_str(), nullptr, nullptr, args, environ), 0);
  const auto total = [&] {
    uint64_t sum = 0;
    for (const auto& count : acknowledged->counts) sum += count.load();
    return sum;
  };
  // More than the write buffers hold.
  const uint64_t wanted = 3 * kMemoryBytes / 2 / kValueSize;
  int ended = 0;
  while (total() < wanted && ::waitpid(child, &ended, WNOHANG) == 0) ::usleep(1000);
  ASSERT_GE(total(), wanted) << "the child ended by itself";
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, &ended, 0), child);
  Open();
  std::vector<char> value(kValueSize);
  for (uint64_t thread = 0; thread < kWriters; ++thread) {
    const uint64_t count = acknowledged->counts[thread].load();
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t key = KilledKey(thread, i);
      const Status got = store_->Get(key, value.data());
      ASSERT_TRUE(got.ok()) << thread << ", " << i << " of " << count << ": " << got.ToString();
      uint64_t version = 0;
      ASSERT_TRUE(ValueMaker(5).CheckAll(key, value.data(), &version)) << thread << ", " << i;
      EXPECT_EQ(version, i);
    }
  }
  ::munmap(acknowledged, sizeof(Acknowledged));
}

INSTANTIATE_TEST_SUITE_P(Stores, KvTest, ::testing::ValuesIn(StoreNames()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace engine_race::harness
