// Every call that a forked child can make of what it inherits is refused or forgets it. None waits,
// and the parent's objects go on as if there were no child.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "engine_race/io/backend_probe.h"
#include "engine_race/store.h"
#include "test/e2e/forked_child.h"
#include "test/eventually.h"
#include "test/test_util.h"

namespace engine_race::test {
namespace {

// What a child inherits, and the calls that it makes of it. Each call gets an iterator of its own,
// which stands at a record and has read values ahead.
struct Inherited {
  std::unique_ptr<Store> store;
  Snapshot snapshot;
  Iterator iterator;
};
struct Call {
  const char* name;
  std::function<bool(Inherited* held)> is_refused;
};

bool IsRefused(const Status& status) {
  return status.code() == Code::kInvalidArgument &&
         status.message().find("forked") != std::string::npos;
}

// A call of the iterator that answers nothing.
Call Moves(const char* name, void (*move)(Iterator* iterator)) {
  return {name, [move](Inherited* held) {
            move(&held->iterator);
            return !held->iterator.Valid() && IsRefused(held->iterator.status());
          }};
}

std::vector<Call> CallsOfTheStore() {
  static const std::string kKey = KeyOf(1);
  static const std::array<std::string_view, 1> kKeys = {kKey};
  static const std::array<uint64_t, 1> kNumbers = {1};
  static std::string value(kValueBytes, 0);
  static std::array<std::string, 1> values;
  static std::array<Status, 1> statuses;
  static std::array<Code, 1> codes;
  static const VisitFn kVisit = [](std::string_view, std::string_view) {};
  static const ReadDoneFn kDone = [](const Status&) {};
  const auto call = [](const char* name, Status (*make)(Inherited * held)) {
    return Call{name, [make](Inherited* held) { return IsRefused(make(held)); }};
  };
  using In = Inherited*;
  return {
      call("Write", [](In in) { return in->store->Write(kKey, value); }),
      call("Delete", [](In in) { return in->store->Delete(kKey); }),
      call("batch",
           [](In in) {
             WriteBatch batch;
             EXPECT_TRUE(batch.Put(kKey, value).ok());
             return in->store->Write(batch);
           }),
      call("Read", [](In in) { return in->store->Read(kKey, &value); }),
      call("ReadInto", [](In in) { return in->store->ReadInto(1, value.data()); }),
      call("MultiRead", [](In in) { return in->store->MultiRead(kKeys, values, statuses); }),
      call("MultiReadInto",
           [](In in) { return in->store->MultiReadInto(kNumbers, value.data(), codes); }),
      call("ReadAsync", [](In in) { return in->store->ReadAsync(kKey, &value, kDone); }),
      call("ReadAsyncInto", [](In in) { return in->store->ReadAsyncInto(1, value.data(), kDone); }),
      call("Range", [](In in) { return in->store->Range({}, {}, kVisit); }),
      call("Sync", [](In in) { return in->store->Sync(); }),
      call("Refresh", [](In in) { return in->store->Refresh(); }),
      call("Compact", [](In in) { return in->store->Compact(); }),
      call("Checkpoint", [](In in) { return in->store->Checkpoint("/nowhere"); }),
      call("Backup", [](In in) { return in->store->Backup("/nowhere"); }),
      call("GetSnapshot", [](In in) { return in->store->GetSnapshot(&in->snapshot); }),
      call("NewIterator", [](In in) { return in->store->NewIterator({}, &in->iterator); }),
      call("NewIterator of a snapshot",
           [](In in) {
             IteratorOptions options;
             options.snapshot = &in->snapshot;
             return in->store->NewIterator(options, &in->iterator);
           }),
      call("Read of a snapshot", [](In in) { return in->store->Read(in->snapshot, kKey, &value); }),
      call("ReadInto of a snapshot",
           [](In in) { return in->store->ReadInto(in->snapshot, 1, value.data()); }),
      call("MultiRead of a snapshot",
           [](In in) { return in->store->MultiRead(in->snapshot, kKeys, values, statuses); }),
      call("MultiReadInto of a snapshot",
           [](In in) {
             return in->store->MultiReadInto(in->snapshot, kNumbers, value.data(), codes);
           }),
      call("Range of a snapshot",
           [](In in) { return in->store->Range(in->snapshot, {}, {}, kVisit); }),
      call("SpaceByBucket",
           [](In in) {
             std::vector<BucketSpace> buckets;
             return in->store->SpaceByBucket(&buckets);
           }),
      {"Stats", [](In in) { return in->store->Stats().record_count == 0; }},
      {"Latencies", [](In in) { return !in->store->Latencies().measured; }},
  };
}

std::vector<Call> CallsOfViews() {
  const auto refresh = [](const char* name, Status (*make)(Inherited * held)) {
    return Call{name, [make](Inherited* held) {
                  return IsRefused(make(held)) && !held->iterator.Valid() &&
                         IsRefused(held->iterator.status());
                }};
  };
  using In = Inherited*;
  return {
      Moves("no step", [](Iterator*) {}),
      Moves("Next", [](Iterator* it) { it->Next(); }),
      Moves("Prev", [](Iterator* it) { it->Prev(); }),
      Moves("Next beyond all that is at hand",
            [](Iterator* it) {
              for (int i = 0; i < 2000; ++i) it->Next();
            }),
      Moves("Prev beyond all that is at hand",
            [](Iterator* it) {
              for (int i = 0; i < 2000; ++i) it->Prev();
            }),
      Moves("Seek", [](Iterator* it) { it->Seek(KeyOf(7)); }),
      Moves("SeekForPrev", [](Iterator* it) { it->SeekForPrev(KeyOf(7)); }),
      Moves("SeekToFirst", [](Iterator* it) { it->SeekToFirst(); }),
      Moves("SeekToLast", [](Iterator* it) { it->SeekToLast(); }),
      {"value", [](In in) { return in->iterator.value().empty() && !in->iterator.Valid(); }},
      {"value after a step",
       [](In in) {
         in->iterator.Next();
         return in->iterator.value().empty() && IsRefused(in->iterator.status());
       }},
      refresh("Refresh", [](In in) { return in->iterator.Refresh(); }),
      refresh("Refresh to a snapshot", [](In in) { return in->iterator.Refresh(in->snapshot); }),
      refresh("RefreshKeepPosition", [](In in) { return in->iterator.RefreshKeepPosition(); }),
      refresh("RefreshKeepPosition at a snapshot",
              [](In in) { return in->iterator.RefreshKeepPosition(in->snapshot); }),
      {"Iterator::Release",
       [](In in) {
         in->iterator.Release();
         return !in->iterator.Valid() && in->iterator.key().empty();
       }},
      {"assignment to an iterator",
       [](In in) {
         in->iterator = Iterator();
         return !in->iterator.Valid();
       }},
      {"Snapshot::Release",
       [](In in) {
         in->snapshot.Release();
         return !in->snapshot.is_taken();
       }},
      {"assignment to a snapshot",
       [](In in) {
         in->snapshot = Snapshot();
         return !in->snapshot.is_taken();
       }},
      {"the store's destructor",
       [](In in) {
         in->store.reset();
         in->iterator.Seek(KeyOf(3));
         return IsRefused(in->iterator.status());
       }},
  };
}

std::vector<Call> AllCalls() {
  std::vector<Call> calls = CallsOfTheStore();
  for (Call& call : CallsOfViews()) calls.push_back(std::move(call));
  return calls;
}

// Threads that use a store in every way, so that a child finds its locks held.
class BusyThreads {
 public:
  // None unless `is_busy`.
  BusyThreads(Store* store, bool is_busy) : store_(*store) {
    // A sanitizer's own allocator may be locked at a fork, and stays so in the child.
    if (kSanitized || !is_busy) return;
    for (uint32_t i = 0; i < kWays; ++i) {
      threads_.emplace_back([this, i] {
        for (uint64_t round = 0; !stop_; ++round) {
          Use(i, round);
          ++counts_[i];
        }
      });
    }
  }
  ~BusyThreads() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

  // Waits until each thread has done more.
  void Await() {
    for (size_t i = 0; i < threads_.size(); ++i) {
      const uint64_t before = counts_[i];
      EXPECT_TRUE(Eventually([&] { return counts_[i] > before; })) << i;
    }
  }

 private:
  static constexpr uint32_t kWays = 7;

  void Use(uint32_t way, uint64_t round) {
    const std::string key = KeyOf(round % kUsedKeys);
    switch (way) {
      case 0: {
        IteratorOptions options;
        options.prefetch_records = 64;
        Iterator iterator;
        EXPECT_TRUE(store_.NewIterator(options, &iterator).ok());
        iterator.Seek(key);
        EXPECT_EQ(iterator.value().size(), kValueBytes);
        return;
      }
      case 1: {
        Snapshot snapshot;
        EXPECT_TRUE(store_.GetSnapshot(&snapshot).ok());
        return;
      }
      case 2:
        EXPECT_TRUE(store_.Write(key, ValueOf(round % kUsedKeys, 1)).ok());
        return;
      case 3:
        EXPECT_TRUE(store_.Range({}, {}, [](std::string_view, std::string_view) {}).ok());
        return;
      case 4:
        EXPECT_GT(store_.Stats().record_count, 0U);
        return;
      case 5: {
        std::atomic<bool> done{false};
        std::string value;
        EXPECT_TRUE(store_.ReadAsync(key, &value, [&](const Status&) { done = true; }).ok());
        EXPECT_TRUE(Eventually([&] { return done.load(); }));
        return;
      }
      default: {
        std::array<uint64_t, kUsedKeys> keys;
        std::iota(keys.begin(), keys.end(), 0);
        std::array<Code, kUsedKeys> codes;
        std::string rows(kUsedKeys * kValueBytes, 0);
        EXPECT_TRUE(store_.MultiReadInto(keys, rows.data(), codes).ok());
      }
    }
  }

  static constexpr uint64_t kUsedKeys = 200;

  Store& store_;
  std::atomic<bool> stop_{false};
  std::array<std::atomic<uint64_t>, kWays> counts_{};
  std::vector<std::thread> threads_;
};

class InheritedTest : public ForkedChildTest, public ::testing::WithParamInterface<IoBackend> {
 protected:
  static constexpr uint64_t kRecords = 400;

  void SetUp() override {
    ForkedChildTest::SetUp();
    // A call that hangs ends the test: this is no measure of time.
    ::alarm(600);
    Options options = TinyOptions();
    options.io_backend = GetParam();
    options.latency_stats = true;
    options.log = [this](LogLevel, std::string_view) { ++log_count_; };
    if (kSanitized) options.reclaim = Reclaim::kOff;
    held_.store = OpenStore(dir_.path(), options);
    ASSERT_NE(held_.store, nullptr);
    // The order of the slots is not that of the keys, so that a window takes several reads.
    for (uint64_t i = 0; i < kRecords; ++i) {
      const uint64_t key = i * 37 % kRecords;
      ASSERT_TRUE(held_.store->Write(KeyOf(key), ValueOf(key, 1)).ok());
    }
    ASSERT_TRUE(held_.store->GetSnapshot(&held_.snapshot).ok());
  }
  void TearDown() override {
    ::alarm(0);
    ForkedChildTest::TearDown();
  }

  void MakeIterator() {
    IteratorOptions options;
    options.prefetch_records = 64;
    ASSERT_TRUE(held_.store->NewIterator(options, &held_.iterator).ok());
    held_.iterator.Seek(KeyOf(5));
    ASSERT_EQ(held_.iterator.value(), ValueOf(5, 1));
  }

  // The parent's iterator goes on where it was.
  void ExpectWalk() {
    Iterator& at = held_.iterator;
    for (uint64_t key = 5; key < kRecords; ++key, at.Next()) {
      ASSERT_TRUE(at.Valid()) << key << ": " << at.status().ToString();
      ASSERT_EQ(at.value(), ValueOf(key, 1)) << key;
    }
    EXPECT_FALSE(at.Valid());
    EXPECT_TRUE(at.status().ok());
  }

  std::atomic<uint64_t> log_count_{0};
  Inherited held_;
};

TEST_P(InheritedTest, IsRefusedByEveryCallBesideBusyThreads) {
  BusyThreads busy(held_.store.get(), GetParam() == IoBackend::kIoUring);
  for (const Call& call : AllCalls()) {
    SCOPED_TRACE(call.name);
    ASSERT_NO_FATAL_FAILURE(MakeIterator());
    busy.Await();
    const pid_t child = Fork([&] {
      const uint64_t log_count = log_count_;
      return call.is_refused(&held_) && log_count_ == log_count;
    });
    ASSERT_NO_FATAL_FAILURE(LetGo(child));
    ASSERT_NO_FATAL_FAILURE(ExpectWalk());
  }
}

// A child of a child, and the objects as they go out of scope one after another.
TEST_P(InheritedTest, IsForgottenByChildren) {
  BusyThreads busy(held_.store.get(), true);
  for (uint64_t i = 0; i < Sized(10, 2); ++i) {
    ASSERT_NO_FATAL_FAILURE(MakeIterator());
    busy.Await();
    const pid_t child = Fork([&] {
      const pid_t grandchild = ::fork();
      { const Inherited going = std::move(held_); }
      if (grandchild == 0) ::_exit(7);
      int status = -1;
      return ::waitpid(grandchild, &status, 0) == grandchild && WEXITSTATUS(status) == 7;
    });
    ASSERT_NO_FATAL_FAILURE(LetGo(child));
    ASSERT_NO_FATAL_FAILURE(ExpectWalk());
  }
  EXPECT_EQ(held_.iterator.status().code(), Code::kOk);
}

INSTANTIATE_TEST_SUITE_P(BackEnds, InheritedTest,
                         ::testing::Values(IoBackend::kIoUring, IoBackend::kLibaio,
                                           IoBackend::kPsync),
                         [](const auto& param) { return io::BackendName(param.param); });

}  // namespace
}  // namespace engine_race::test
