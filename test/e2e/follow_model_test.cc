// Followers beside a writer that is killed again and again, against a model: each bucket is a
// prefix of its history, with all that was acknowledged before the refresh.
//
// The history is a function of a number: operation n writes or deletes one key. The writer's
// process counts in shared memory what it has begun and what was acknowledged. Its parent, which
// has no threads, kills it by that count and starts the next one. That one looks whether the store
// has the batch that was begun last.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "test/e2e/engine_fixture.h"
#include "test/e2e/reclaim_fixture.h"
#include "test/eventually.h"

namespace engine_race::test {
namespace {

constexpr uint64_t kModelKeys = 400;
constexpr uint64_t kModelBuckets = 4;

uint64_t Mixed(uint64_t n) {
  n = (n ^ (n >> 31)) * 0x7fb5d329728ea185;
  return n ^ (n >> 27);
}
// Few keys are written often, so that rows get sparse and records are moved.
uint64_t KeyOfOperation(uint64_t n) {
  const uint64_t i = Mixed(n) % kModelKeys;
  return SpreadKey(Mixed(n * 3) % 4 == 0 ? i : i % (kModelKeys / 4));
}
bool IsDeletion(uint64_t n) { return Mixed(n * 7) % 9 == 0; }
uint64_t BucketOfKey(uint64_t key) { return key / (~uint64_t{0} / kModelBuckets + 1); }

struct Shared {
  std::atomic<uint64_t> begun{0};
  std::atomic<uint64_t> acknowledged{0};
  std::atomic<bool> stop{false};
  std::atomic<bool> failed{false};
};

// Whether the store has the batch of operations [first, last]. To delete once more changes nothing.
bool HasBatch(Store* store, uint64_t first, uint64_t last, uint32_t size) {
  std::string value;
  for (uint64_t n = last; n >= first; --n) {
    const uint64_t key = KeyOfOperation(n);
    bool is_last_of_key = !IsDeletion(n);
    for (uint64_t later = n + 1; later <= last; ++later) {
      is_last_of_key = is_last_of_key && KeyOfOperation(later) != key;
    }
    uint64_t version = 0;
    if (is_last_of_key) {
      return store->Read(KeyOf(key), &value).ok() && ParseValue(key, value, &version, size) &&
             version == n;
    }
  }
  return false;
}

// Writes from the first operation that was not acknowledged on, until it is killed.
int WriteOn(const std::string& dir, const Options& options, Shared* shared) {
  const uint32_t size = options.value_bytes;
  std::unique_ptr<Store> store;
  uint64_t n = shared->acknowledged.load() + 1;
  while (!shared->stop.load()) {
    if (store == nullptr) {
      const Status opened = Store::Open(options, dir, &store);
      if (!opened.ok()) {
        std::fprintf(stderr, "%s\n", opened.ToString().c_str());
        return 1;
      }
      const uint64_t begun = shared->begun.load();
      if (begun >= n && HasBatch(store.get(), n, begun, size)) n = begun + 1;
      shared->acknowledged.store(n - 1);
    }
    const uint64_t kind = Mixed(n * 11) % 64;
    const uint64_t count = kind == 0 ? 20 : 1;
    shared->begun.store(n + count - 1);
    WriteBatch batch(size);
    Status status;
    for (uint64_t i = n; status.ok() && i < n + count; ++i) {
      const std::string key = KeyOf(KeyOfOperation(i));
      status =
          IsDeletion(i) ? batch.Delete(key) : batch.Put(key, ValueOf(KeyOfOperation(i), i, size));
    }
    if (status.ok()) status = store->Write(batch);
    if (!status.ok()) {
      std::fprintf(stderr, "operation %lu: %s\n", n, status.ToString().c_str());
      return 1;
    }
    n += count;
    shared->acknowledged.store(n - 1);
    if (kind == 1) status = store->Sync();
    if (kind == 2 && Mixed(n) % 4 == 0) status = store->Compact();
    if (kind == 3 && Mixed(n) % 4 == 0) store.reset();
    if (!status.ok()) return 1;
  }
  return 0;
}

// Starts writers and kills them.
int RunWriters(const std::string& dir, const Options& options, Shared* shared) {
  uint64_t round = 0;
  while (!shared->stop.load()) {
    const pid_t writer = ::fork();
    if (writer == 0) ::syscall(SYS_exit_group, WriteOn(dir, options, shared));
    const uint64_t end = shared->acknowledged.load() + 200 + Mixed(++round) % 3000;
    int status = 0;
    while (!shared->stop.load() && shared->acknowledged.load() < end) {
      if (::waitpid(writer, &status, WNOHANG) == writer) {
        shared->failed.store(WEXITSTATUS(status) != 0);
        shared->stop.store(true);
        return 1;
      }
      ::usleep(200);
    }
    ::kill(writer, SIGKILL);
    ::waitpid(writer, &status, 0);
  }
  return 0;
}

using Found = std::map<uint64_t, uint64_t>;

// Expects each bucket to show its state after some operation, from `least` on.
void ExpectPrefixes(const Found& found, uint64_t least, uint64_t begun) {
  Found state;
  std::array<uint64_t, kModelBuckets> difference_count{};
  for (const auto& [key, version] : found) ++difference_count[BucketOfKey(key)];
  const auto shows = [&found](uint64_t key, uint64_t version) {
    const auto at = found.find(key);
    return (at == found.end() ? 0 : at->second) == version;
  };
  std::array<bool, kModelBuckets> is_prefix{};
  for (uint64_t n = 1; n <= begun; ++n) {
    const uint64_t key = KeyOfOperation(n);
    uint64_t& version = state[key];
    uint64_t& differences = difference_count[BucketOfKey(key)];
    differences -= shows(key, version) ? 0 : 1;
    version = IsDeletion(n) ? 0 : n;
    differences += shows(key, version) ? 0 : 1;
    for (uint64_t b = 0; n >= least && b < kModelBuckets; ++b) {
      is_prefix[b] = is_prefix[b] || difference_count[b] == 0;
    }
  }
  for (uint64_t b = 0; b < kModelBuckets; ++b) {
    ASSERT_TRUE(is_prefix[b]) << "bucket " << b << " is at no moment from " << least << " to "
                              << begun << " as it is shown";
  }
}

// Expects that a key shows its newest operation up to `least`, or a later one.
void ExpectNotBefore(uint64_t key, uint64_t version, uint64_t least, uint64_t begun) {
  ASSERT_LE(version, begun);
  if (version != 0) {
    ASSERT_EQ(KeyOfOperation(version), key);
    ASSERT_FALSE(IsDeletion(version));
  }
  bool is_shown = version == 0;
  for (uint64_t n = least; n > version; --n) {
    if (KeyOfOperation(n) != key) continue;
    ASSERT_EQ(version, 0u) << "operation " << n << " is missing";
    is_shown = IsDeletion(n);
    break;
  }
  for (uint64_t n = least + 1; !is_shown && n <= begun; ++n) {
    is_shown = IsDeletion(n) && KeyOfOperation(n) == key;
  }
  ASSERT_TRUE(version != 0 || is_shown) << "key " << key << " is missing, least " << least;
}

struct Looks {
  std::atomic<uint64_t> refreshed{0};
  std::atomic<uint64_t> whole{0};  // views that were walked to their end
};

// A walk at a view finds a prefix of each bucket, or fails because slots were used again.
void WalkView(Store* follower, uint32_t size, uint64_t least, const Shared& shared, Looks* looks) {
  Snapshot snapshot;
  ASSERT_TRUE(follower->GetSnapshot(&snapshot).ok());
  IteratorOptions at_view;
  at_view.snapshot = &snapshot;
  Iterator iterator;
  ASSERT_TRUE(follower->NewIterator(at_view, &iterator).ok());
  Found found;
  for (iterator.SeekToFirst(); iterator.Valid(); iterator.Next()) {
    uint64_t version = 0;
    const uint64_t key = DecodeKey(iterator.key().data());
    const std::string_view value = iterator.value();
    if (!iterator.Valid()) break;
    ASSERT_TRUE(ParseValue(key, value, &version, size)) << "wrong bytes";
    found[key] = version;
  }
  if (!iterator.status().ok()) {
    ASSERT_EQ(iterator.status().code(), Code::kIOError) << iterator.status().ToString();
    return;
  }
  ASSERT_NO_FATAL_FAILURE(ExpectPrefixes(found, least, shared.begun.load()));
  ++looks->whole;
}

// One look at the store, with all that reads it.
void Look(Store* follower, uint32_t size, const Shared& shared, Looks* looks) {
  const uint64_t least = shared.acknowledged.load();
  const Status status = follower->Refresh();
  // The writer was killed while it opened the store.
  if (status.code() == Code::kIncomplete) return;
  ASSERT_TRUE(status.ok()) << status.ToString();
  ++looks->refreshed;
  ASSERT_NO_FATAL_FAILURE(WalkView(follower, size, least, shared, looks));
  Found found;
  bool is_whole = true;
  const Status ranged = follower->Range("", "", [&](std::string_view key, std::string_view value) {
    uint64_t version = 0;
    is_whole = ParseValue(DecodeKey(key.data()), value, &version, size) && is_whole;
    found[DecodeKey(key.data())] = version;
  });
  ASSERT_TRUE(ranged.ok()) << ranged.ToString();
  ASSERT_TRUE(is_whole) << "wrong bytes";
  std::string value;
  for (uint64_t i = 0; i < kModelKeys; ++i) {
    const uint64_t key = SpreadKey(i);
    const auto at = found.find(key);
    const uint64_t ranged_version = at == found.end() ? 0 : at->second;
    ASSERT_NO_FATAL_FAILURE(ExpectNotBefore(key, ranged_version, least, shared.begun.load()));
    if (i % 7 != least % 7) continue;
    const Status read = follower->Read(KeyOf(key), &value);
    uint64_t version = 0;
    if (read.code() != Code::kNotFound) {
      ASSERT_TRUE(read.ok()) << read.ToString();
      ASSERT_TRUE(ParseValue(key, value, &version, size)) << "wrong bytes";
    }
    ASSERT_NO_FATAL_FAILURE(ExpectNotBefore(key, version, least, shared.begun.load()));
    // The bucket may have moved on since, but never goes back.
    ASSERT_TRUE(version == 0 || version >= ranged_version);
  }
}

class FollowModelTest : public ::testing::TestWithParam<uint32_t> {};

TEST_P(FollowModelTest, PrefixesOfEachBucket) {
  const TempDir dir(FastParent());
  void* const memory =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* const shared = new (memory) Shared();
  Options options = RegionsOf(8);
  options.value_bytes = GetParam();
  const pid_t parent = ::fork();
  if (parent == 0) ::syscall(SYS_exit_group, RunWriters(dir.path(), options, shared));
  ASSERT_TRUE(Eventually([&] { return shared->acknowledged.load() > 0; }));
  const uint64_t wanted = Sized(30'000, 4'000);
  Looks looks;
  RunThreads(2, [&](uint32_t) {
    Options following;
    following.follow = true;
    following.value_bytes = 0;
    following.memory_budget_bytes = 64 << 20;
    const auto follower = OpenStore(dir.path(), following);
    ASSERT_NE(follower, nullptr);
    while (!shared->stop.load() && !::testing::Test::HasFatalFailure()) {
      Look(follower.get(), options.value_bytes, *shared, &looks);
      if (shared->acknowledged.load() >= wanted && looks.refreshed > 40 && looks.whole > 5) break;
    }
    shared->stop.store(true);
  });
  shared->stop.store(true);
  int status = 0;
  ASSERT_EQ(::waitpid(parent, &status, 0), parent);
  EXPECT_FALSE(shared->failed.load()) << "the writer failed";
  EXPECT_GE(shared->acknowledged.load(), wanted);
  ::munmap(memory, sizeof(Shared));
}

INSTANTIATE_TEST_SUITE_P(Sizes, FollowModelTest, ::testing::Values(512, 4096, 16384));

}  // namespace
}  // namespace engine_race::test
