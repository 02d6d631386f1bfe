#include "engine_race/index/views.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "test/eventually.h"
#include "test/index/views_fixture.h"
#include "test/test_util.h"

namespace engine_race {
namespace {

using test::View;
using test::ViewsTest;

TEST_F(ViewsTest, VersionsGrowAndWritesComeBetweenThem) {
  EXPECT_FALSE(views_->StampWrite().watched);
  View first = Take();
  const ViewRegistry::WriteStamp stamp = views_->StampWrite();
  View second = Take();
  EXPECT_GT(stamp.version, first.version);
  EXPECT_LE(stamp.version, second.version);
  EXPECT_TRUE(stamp.watched);
  ViewRegistry::Release(&first);
  EXPECT_EQ(first.registry, nullptr);
  ViewRegistry::Release(&first);
  EXPECT_TRUE(views_->StampWrite().watched);
  ViewRegistry::Release(&second);
  EXPECT_FALSE(views_->StampWrite().watched);
}

TEST_F(ViewsTest, LiveVersionsAreExact) {
  EXPECT_TRUE(views_->Live().empty());
  std::vector<View> views;
  views.reserve(10);
  for (int i = 0; i < 10; ++i) views.push_back(Take());
  ViewRegistry::Release(&views[3]);
  const LiveVersions live = views_->Live();
  EXPECT_EQ(live.oldest(), views[0].version);
  for (int i = 0; i < 10; ++i) {
    const uint64_t version = views[0].version + static_cast<uint64_t>(i);
    EXPECT_EQ(live.AnyIn(version, version + 1), i != 3) << i;
  }
  EXPECT_FALSE(live.AnyIn(0, views[0].version));
  EXPECT_TRUE(live.AnyIn(0, views[0].version + 1));
  EXPECT_FALSE(live.AnyIn(views[9].version + 1, kLatestVersion));
  EXPECT_FALSE(live.AnyIn(5, 5));
  for (View& view : views) ViewRegistry::Release(&view);
}

TEST(LiveVersionsTest, LaterViewsStandForAllThatFollow) {
  LiveVersions live(std::make_shared<const std::vector<uint64_t>>(std::vector<uint64_t>{5, 9}));
  live.AddAllFrom(20);
  EXPECT_EQ(live.oldest(), 5U);
  EXPECT_TRUE(live.AnyIn(5, 6));
  EXPECT_FALSE(live.AnyIn(6, 9));
  EXPECT_FALSE(live.AnyIn(10, 20));
  EXPECT_TRUE(live.AnyIn(10, 21));
  EXPECT_TRUE(live.AnyIn(1000, 1001));
}

TEST_F(ViewsTest, CopiesKeepAVersionAndRenewedViewsLeaveIt) {
  View source = Take();
  const uint64_t version = source.version;
  View copy;
  ASSERT_TRUE(views_->TakeAt(version, &copy).ok());
  View moved = Take();
  ViewRegistry::RenewAt(version, &moved);
  EXPECT_EQ(copy.version, version);
  EXPECT_EQ(moved.version, version);
  ViewRegistry::Release(&source);
  EXPECT_EQ(views_->TakeCensus().count, 2U);
  EXPECT_EQ(views_->TakeCensus().oldest_version, version);
  ViewRegistry::Renew(&copy);
  EXPECT_GT(copy.version, version);
  EXPECT_EQ(views_->Oldest(), version);
  ViewRegistry::Renew(&moved);
  EXPECT_GT(moved.version, copy.version);
  EXPECT_EQ(views_->Oldest(), copy.version);
  ViewRegistry::Release(&copy);
  ViewRegistry::Release(&moved);
  EXPECT_EQ(views_->TakeCensus().count, 0U);
  EXPECT_EQ(views_->TakeCensus().oldest_version, kLatestVersion);
}

TEST_F(ViewsTest, ThousandsOfViewsStayApart) {
  std::vector<View> views;
  for (int round = 0; round < 2; ++round) {
    while (views.size() < 3000) views.push_back(Take());
    EXPECT_EQ(views_->TakeCensus().count, 3000U);
    const LiveVersions live = views_->Live();
    for (const View& view : views) ASSERT_TRUE(live.AnyIn(view.version, view.version + 1));
    for (size_t i = 0; i < views.size(); i += 2) ViewRegistry::Release(&views[i]);
    std::erase_if(views, [](const View& view) { return view.registry == nullptr; });
    EXPECT_EQ(views_->TakeCensus().count, 1500U);
  }
  for (View& view : views) ViewRegistry::Release(&view);
}

// Any mix of calls beside a model: a multiset of the versions that are held.
TEST_F(ViewsTest, AnyMixOfCallsKeepsTheVersions) {
  std::mt19937_64 random(11);
  std::vector<View> views;
  std::multiset<uint64_t> held;
  // It grows, shrinks and grows, so that versions that no view holds pile up and are dropped.
  for (uint64_t i = 0; i < test::Sized(40000, 8000); ++i) {
    const bool grows = i / 1000 % 2 == 0;
    const uint64_t choice = random() % 10;
    if (views.empty() || choice < (grows ? 5U : 2U)) {
      views.push_back(Take());
      held.insert(views.back().version);
      continue;
    }
    View& view = views[random() % views.size()];
    const uint64_t before = view.version;
    const uint64_t other = views[random() % views.size()].version;
    if (choice < 6) {
      View copy;
      ASSERT_TRUE(views_->TakeAt(other, &copy).ok());
      held.insert(other);
      views.push_back(copy);
    } else if (choice < 8) {
      choice == 6 ? ViewRegistry::Renew(&view) : ViewRegistry::RenewAt(other, &view);
      held.erase(held.find(before));
      held.insert(view.version);
    } else {
      ViewRegistry::Release(&view);
      held.erase(held.find(before));
      std::swap(view, views.back());
      views.pop_back();
    }
    ASSERT_EQ(views_->Oldest(), held.empty() ? kLatestVersion : *held.begin());
    ASSERT_EQ(views_->TakeCensus().count, held.size());
    const uint64_t first = other - std::min<uint64_t>(other, random() % 50);
    const uint64_t end = first + random() % 50;
    const auto found = held.lower_bound(first);
    const bool any = found != held.end() && *found < end;
    ASSERT_EQ(views_->AnyIn(first, end), any) << first << " " << end;
    if (i % 16 == 0) {
      ASSERT_EQ(views_->Live().AnyIn(first, end), any) << first << " " << end;
    }
  }
  for (View& view : views) ViewRegistry::Release(&view);
}

TEST_F(ViewsTest, TheOldestHasAnAge) {
  View view = Take();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  View younger = Take();
  EXPECT_GE(views_->TakeCensus().oldest_age_ms, 40U);
  EXPECT_EQ(views_->TakeCensus().oldest_version, view.version);
  ViewRegistry::Renew(&view);
  EXPECT_EQ(views_->TakeCensus().oldest_version, younger.version);
  ViewRegistry::Release(&younger);
  ViewRegistry::Release(&view);
}

TEST_F(ViewsTest, CloseBeforeTheLastView) {
  View view = Take();
  View other = Take();
  EXPECT_FALSE(views_->closed());
  views_->Close();
  EXPECT_TRUE(view.registry->closed());
  ViewRegistry::Release(&view);
  EXPECT_TRUE(other.registry->closed());
  ViewRegistry::Release(&other);
  views_ = nullptr;
}

// Keeps the registry's lock until it is told to go on.
class HeldSweeper : public ViewRegistry::Sweeper {
 public:
  void RequestSweep() noexcept override {
    entered = true;
    let_go.wait(false);
  }
  std::atomic<bool> entered{false};
  std::atomic<bool> let_go{false};
};

TEST_F(ViewsTest, AForkedChildForgetsViewsBesideAHeldLock) {
  HeldSweeper sweeper;
  views_->set_sweeper(&sweeper);
  View first = Take();
  View second = Take();
  views_->NotePinned();
  std::thread releaser([&] { ViewRegistry::Release(&first); });
  ASSERT_TRUE(test::Eventually([&] { return sweeper.entered.load(); }));
  EXPECT_TRUE(views_->is_usable());
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);  // Ends a child that hangs.
    const uint64_t count = views_->TakeCensus().count;
    const bool is_refused =
        !views_->is_usable() && views_->CheckUsable().code() == Code::kInvalidArgument;
    // The oldest one.
    ViewRegistry::Release(&second);
    ::_exit(is_refused && second.registry == nullptr && views_->TakeCensus().count == count ? 0
                                                                                            : 1);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  sweeper.let_go = true;
  sweeper.let_go.notify_all();
  releaser.join();
  ViewRegistry::Release(&second);
  EXPECT_EQ(views_->TakeCensus().count, 0U);
  // While the sweeper is there.
  views_->Close();
  views_ = nullptr;
}

// The last of Close and the releases deletes the registry. The sanitizers report if none does, or
// two.
TEST(ViewRegistryTest, CloseAndReleaseAtOnce) {
  for (uint64_t round = 0; round < test::Sized(1000, 100); ++round) {
    ViewRegistry* views = nullptr;
    ASSERT_TRUE(ViewRegistry::Create(&views).ok());
    View view;
    ASSERT_TRUE(views->Take(&view).ok());
    std::atomic<int> ready{0};
    std::thread releaser([&] {
      for (++ready; ready < 2;) std::this_thread::yield();
      ViewRegistry::Release(&view);
    });
    for (++ready; ready < 2;) std::this_thread::yield();
    views->Close();
    releaser.join();
  }
}

class CountingSweeper : public ViewRegistry::Sweeper {
 public:
  void RequestSweep() noexcept override { ++count; }
  std::atomic<int> count{0};
};

TEST_F(ViewsTest, TheOldestSweepsWhenSomethingIsPinned) {
  CountingSweeper sweeper;
  views_->set_sweeper(&sweeper);
  View unpinned = Take();
  ViewRegistry::Release(&unpinned);
  EXPECT_EQ(sweeper.count, 0);
  View first = Take();
  View second = Take();
  View third = Take();
  views_->NotePinned();
  ViewRegistry::Release(&third);
  EXPECT_EQ(sweeper.count, 0) << "not the oldest";
  for (int i = 0; i < 10; ++i) {
    View brief = Take();
    ViewRegistry::Release(&brief);
  }
  EXPECT_EQ(sweeper.count, 0);
  ViewRegistry::Release(&first);
  EXPECT_EQ(sweeper.count, 1);
  ViewRegistry::Renew(&second);
  EXPECT_EQ(sweeper.count, 2);
  View source = Take();
  ViewRegistry::RenewAt(source.version, &second);
  EXPECT_EQ(sweeper.count, 3);
  ViewRegistry::Release(&source);
  EXPECT_EQ(sweeper.count, 3) << "the other view of its version is left";
  View left = second;
  views_->Close();
  views_ = nullptr;
  ViewRegistry::Release(&left);
  EXPECT_EQ(sweeper.count, 3) << "the store has gone";
}

// Views are copied and their sources released while other threads look. A version that a view
// always pins is never missed.
TEST_F(ViewsTest, NoViewIsMissedWhileItIsCopied) {
  const uint64_t rounds = test::Sized(400000, 20000);
  View held = Take();
  const uint64_t version = held.version;
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> missed{0};
  std::vector<std::thread> lookers;
  lookers.reserve(2);
  for (int i = 0; i < 2; ++i) {
    lookers.emplace_back([&] {
      while (!stop) {
        if (!views_->Live().AnyIn(version, version + 1)) ++missed;
        if (views_->Oldest() > version) ++missed;
      }
    });
  }
  std::mt19937_64 random(7);
  std::vector<View> others;
  for (uint64_t i = 0; i < rounds; ++i) {
    if (i % 1000 == 0) {
      // So that copies join versions between others.
      for (View& view : others) ViewRegistry::Release(&view);
      others.clear();
      for (uint64_t n = random() % 60; n > 0; --n) others.push_back(Take());
    }
    View copy;
    if (random() % 2 == 0) {
      ASSERT_TRUE(views_->TakeAt(version, &copy).ok());
    } else {
      copy = Take();
      ViewRegistry::RenewAt(version, &copy);
    }
    if (random() % 2 == 0) {
      ViewRegistry::Release(&held);
    } else {
      ViewRegistry::Renew(&held);
      ViewRegistry::Release(&held);
    }
    held = copy;
  }
  stop = true;
  for (std::thread& looker : lookers) looker.join();
  EXPECT_EQ(missed, 0U);
  ViewRegistry::Release(&held);
  for (View& view : others) ViewRegistry::Release(&view);
  EXPECT_TRUE(views_->Live().empty());
}

// A writer's census finds every view of a version below the writer's.
TEST_F(ViewsTest, NoViewBelowAWritersVersionIsMissed) {
  const uint64_t rounds = test::Sized(200000, 20000);
  std::atomic<uint64_t> shown{0};
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> missed{0};
  std::thread writer([&] {
    while (!stop) {
      const ViewRegistry::WriteStamp stamp = views_->StampWrite();
      const LiveVersions live = views_->Live();
      for (int look = 0; look < 50; ++look) {
        // Acquire: pairs with the releases below. So the view shown now was live during the census,
        // or was taken later.
        const uint64_t version = shown.load(std::memory_order_acquire);
        if (version == 0 || version >= stamp.version) continue;
        if (!live.AnyIn(version, version + 1) || !stamp.watched) ++missed;
      }
    }
  });
  View view = Take();
  for (uint64_t i = 0; i < rounds; ++i) {
    if (i % 3 == 0) {
      ViewRegistry::Renew(&view);
    } else {
      view = Take();
    }
    shown.store(view.version, std::memory_order_release);
    for (uint64_t spin = i % 32; spin > 0; --spin)
      std::atomic_signal_fence(std::memory_order_seq_cst);
    shown.store(0, std::memory_order_release);
    if (i % 3 != 2) ViewRegistry::Release(&view);
  }
  stop = true;
  writer.join();
  EXPECT_EQ(missed, 0U);
  EXPECT_TRUE(views_->Live().empty());
}

}  // namespace
}  // namespace engine_race
