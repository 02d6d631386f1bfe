// Many threads, several engines, and reads and ranges beside writes.
#include <gtest/gtest.h>

#include <atomic>
#include <random>

#include "test/e2e/engine_fixture.h"
#include "test/sweep.h"

namespace engine_race::test {
namespace {

using polar_race::kSucc;
using Expected = std::map<uint64_t, uint64_t>;

TEST(EngineThreadsTest, ThreadsComeAndGoInAnyNumber) {
  TempDir dir;
  Expected expected;
  std::unique_ptr<Engine> engine = OpenEngine(dir.path());
  uint64_t next = 0;
  for (const uint32_t writers : {1, 7, 64, 200, 3}) {
    const uint64_t per_thread = Sized(PartOf(60, 3), 10);
    RunThreads(writers, [&](uint32_t t) {
      for (uint64_t i = next + t * per_thread; i < next + (t + 1) * per_thread; ++i) {
        ASSERT_EQ(engine->Write(KeyOf(NthKey(i)), ValueOf(NthKey(i), 1)), kSucc);
      }
    });
    for (uint64_t i = next; i < next + writers * per_thread; ++i) expected[NthKey(i)] = 1;
    next += writers * per_thread;
    const uint32_t readers = 201 - writers;
    RunThreads(readers, [&](uint32_t t) {
      for (uint64_t i = t; i < next; i += readers) {
        ASSERT_EQ(VersionOf(engine.get(), NthKey(i)), 1u);
      }
    });
    const Versions all(expected.begin(), expected.end());
    RunThreads(writers > 64 ? 64 : writers,
               [&](uint32_t) { EXPECT_TRUE(RangeOf(engine.get(), "", "") == all); });
  }
  engine.reset();
  engine = OpenEngine(dir.path());
  ExpectHolds(engine.get(), expected);
}

TEST(EngineThreadsTest, SeveralEnginesInOneProcess) {
  constexpr uint32_t kEngines = 4;
  TempDir dir;
  std::vector<std::unique_ptr<Engine>> engines;
  for (uint32_t e = 0; e < kEngines; ++e) {
    engines.push_back(OpenEngine(dir.Join("store" + std::to_string(e))));
  }
  const uint64_t count = Sized(PartOf(500, 2), 100);
  // Each thread goes through all engines, and leaves its mark as the version.
  RunThreads(8, [&](uint32_t t) {
    for (uint64_t i = t; i < count; i += 8) {
      for (uint32_t e = 0; e < kEngines; ++e) {
        ASSERT_EQ(engines[e]->Write(KeyOf(NthKey(i)), ValueOf(NthKey(i), e + 1)), kSucc);
        ASSERT_EQ(VersionOf(engines[e].get(), NthKey(i)), e + 1);
      }
    }
  });
  engines[1].reset();
  for (uint32_t e = 0; e < kEngines; ++e) {
    if (e == 1) engines[e] = OpenEngine(dir.Join("store1"));
    Expected expected;
    for (uint64_t i = 0; i < count; ++i) expected[NthKey(i)] = e + 1;
    ExpectHolds(engines[e].get(), expected);
  }
}

// Each writer owns some keys and writes growing versions, noted before and after each write; so a
// reader knows what it must see at the least and may see at the most.
class BesideWriters {
 public:
  BesideWriters(Store* store, uint32_t writer_count, uint64_t keys_per_writer)
      : store_(store),
        writer_count_(writer_count),
        keys_per_writer_(keys_per_writer),
        notes_(writer_count * keys_per_writer) {
    for (uint64_t i = 0; i < notes_.size(); ++i) index_of_[NthKey(i)] = i;
  }

  void Write(uint32_t writer, uint64_t round_count) {
    std::mt19937_64 rng(writer);
    for (uint64_t round = 1; round <= round_count; ++round) {
      const uint64_t i = writer * keys_per_writer_ + rng() % keys_per_writer_;
      const uint64_t version = notes_[i].started + 1;
      notes_[i].started = version;
      const Status status = store_->Write(KeyOf(NthKey(i)), ValueOf(NthKey(i), version));
      ASSERT_TRUE(status.ok()) << status.ToString();
      notes_[i].acknowledged = version;
    }
    ++writers_done_;
  }

  void ReadUntilDone(uint32_t reader) {
    std::mt19937_64 rng(1000 + reader);
    std::vector<uint64_t> last_seen(notes_.size(), 0);
    while (writers_done_ < writer_count_) {
      const uint64_t i = rng() % notes_.size();
      const uint64_t at_least = std::max<uint64_t>(notes_[i].acknowledged, last_seen[i]);
      last_seen[i] = VersionOf(store_, NthKey(i));
      ASSERT_GE(last_seen[i], at_least) << "an acknowledged write was missed";
      ASSERT_LE(last_seen[i], notes_[i].started);
    }
  }

  void RangeUntilDone() {
    std::vector<uint64_t> at_least(notes_.size(), 0);
    while (writers_done_ < writer_count_) {
      for (uint64_t i = 0; i < notes_.size(); ++i) {
        at_least[i] = std::max<uint64_t>(at_least[i], notes_[i].acknowledged);
      }
      std::vector<uint64_t> seen(notes_.size(), 0);
      for (const auto& [key, version] : RangeOf(store_, "", "")) {
        ASSERT_TRUE(index_of_.contains(key)) << "a key that nobody wrote";
        seen[index_of_[key]] = version;
      }
      for (uint64_t i = 0; i < notes_.size(); ++i) {
        ASSERT_GE(seen[i], at_least[i]) << "a range missed an acknowledged write";
        ASSERT_LE(seen[i], notes_[i].started);
        // Nor may a later range go back.
        at_least[i] = seen[i];
      }
    }
  }

  Expected Final() const {
    Expected expected;
    for (uint64_t i = 0; i < notes_.size(); ++i) {
      if (notes_[i].acknowledged > 0) expected[NthKey(i)] = notes_[i].acknowledged;
    }
    return expected;
  }

 private:
  struct Note {
    std::atomic<uint64_t> started = 0;
    std::atomic<uint64_t> acknowledged = 0;
  };

  Store* store_;
  const uint32_t writer_count_;
  const uint64_t keys_per_writer_;
  std::vector<Note> notes_;
  std::map<uint64_t, uint64_t> index_of_;
  std::atomic<uint32_t> writers_done_ = 0;
};

// `read_before` builds the index before the first write, so that all of them go through its delta.
void RunBesideWriters(const Options& options, bool read_before) {
  TempDir dir;
  std::unique_ptr<Store> store = OpenStore(dir.path(), options);
  if (read_before) ExpectHolds(store.get(), {});
  constexpr uint32_t kWriters = 4;
  constexpr uint32_t kReaders = 3;
  constexpr uint32_t kRangers = 2;
  BesideWriters load(store.get(), kWriters, 200);
  RunThreads(kWriters + kReaders + kRangers, [&](uint32_t t) {
    if (t < kWriters) {
      load.Write(t, Sized(PartOf(4000, 3), 500));
    } else if (t < kWriters + kReaders) {
      load.ReadUntilDone(t);
    } else {
      load.RangeUntilDone();
    }
  });
  ExpectHolds(store.get(), load.Final());
  store.reset();
  ExpectHolds(OpenStore(dir.path()).get(), load.Final());
}

TEST(EngineThreadsTest, ReadsAndRangesBesideWriters) {
  RunBesideWriters(Options(), false);
  RunBesideWriters(Options(), true);
}

TEST(EngineThreadsTest, ReadsAndRangesBesideWritersInTinyGroups) {
  Options options = TinyOptions();
  RunBesideWriters(options, false);
  options.value_group_bytes = 4096;
  options.memory_budget_bytes = 16 << 20;
  RunBesideWriters(options, true);
}

TEST(EngineThreadsTest, ReadsBesideWritersWithoutChecksums) {
  // The halves are reused under the readers' hands; only pins keep the values whole.
  Options options = TinyOptions();
  options.bucket_count = 1;
  options.file_count = 1;
  options.value_group_bytes = 4096;
  options.verify_checksums = false;
  RunBesideWriters(options, true);
}

TEST(EngineThreadsTest, ManyThreadsOverwriteOneKey) {
  TempDir dir;
  constexpr uint32_t kThreads = 64;
  const uint64_t per_thread = Sized(PartOf(1000, 4), 50);
  const uint64_t key = 99;
  {
    const auto store = OpenStore(dir.path(), TinyOptions());
    RunThreads(kThreads, [&](uint32_t t) {
      for (uint64_t i = 1; i <= per_thread; ++i) {
        const uint64_t version = t * per_thread + i;
        ASSERT_TRUE(store->Write(KeyOf(key), ValueOf(key, version)).ok());
      }
    });
    EXPECT_EQ(store->Stats().record_count, kThreads * per_thread);
  }
  const auto store = OpenStore(dir.path());
  const Versions seen = RangeOf(store.get(), "", "");
  ASSERT_EQ(seen.size(), 1u);
  // The last write of one of the threads.
  EXPECT_EQ(seen[0].second % per_thread, 0u);
  EXPECT_EQ(VersionOf(store.get(), key), seen[0].second);
}

TEST(EngineThreadsTest, ScansStartTogetherLateAndNested) {
  TempDir dir;
  const uint64_t count = Sized(PartOf(20000, 4), 2000);
  Expected expected;
  const auto store = OpenStore(dir.path());
  for (uint64_t i = 0; i < count; ++i) {
    expected[NthKey(i)] = 1;
    ASSERT_TRUE(store->Write(KeyOf(NthKey(i)), ValueOf(NthKey(i), 1)).ok());
  }
  const Versions all(expected.begin(), expected.end());
  RunThreads(16, [&](uint32_t t) {
    std::this_thread::sleep_for(std::chrono::milliseconds(t % 4 * 10));
    if (t % 5 == 4) {
      // A part, and a short scan within each hundredth visit.
      const uint64_t first = all[all.size() / 3].first;
      uint64_t visited = 0;
      const Status status =
          store->Range(KeyOf(first), "", [&](std::string_view key, std::string_view) {
            if (++visited % 100 != 0) return;
            const uint64_t number = DecodeKey(key.data());
            EXPECT_EQ(RangeOf(store.get(), KeyOf(number), KeyOf(number + 1)).size(), 1u);
          });
      EXPECT_TRUE(status.ok()) << status.ToString();
      EXPECT_EQ(visited, all.size() - all.size() / 3);
    } else {
      EXPECT_TRUE(RangeOf(store.get(), "", "") == all);
    }
  });
}

}  // namespace
}  // namespace engine_race::test
