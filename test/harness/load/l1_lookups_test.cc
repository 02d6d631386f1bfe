// Records, drawn lookups and their sums: the foundation of the figures of L1.
#include "harness/load/l1_lookups.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace engine_race::harness {
namespace {

L1Records SmallRecords(uint32_t key_bytes = 16, uint32_t payload_bytes = 8) {
  L1Records records;
  records.shape = {key_bytes, payload_bytes};
  records.table_count = 4;
  records.records_per_table = 1000;
  records.seed = 7;
  return records;
}

// The payloads of each table's records, by key.
using Oracle = std::map<std::pair<uint32_t, std::string>, std::string>;

Oracle AllOf(const L1Records& records) {
  Oracle all;
  std::string key(records.shape.key_bytes, 0);
  std::string payload(records.shape.payload_bytes, 0);
  for (uint32_t table = 0; table < records.table_count; ++table) {
    for (uint64_t i = 0; i < records.records_per_table; ++i) {
      const uint64_t word = records.WordAt(table, i);
      records.FillKey(word, key.data());
      records.FillPayload(word, payload.data());
      all[{table, key}] = payload;
    }
  }
  return all;
}

std::string KeyAt(const L1Records& records, const L1Chunk& chunk, uint32_t i) {
  return {chunk.keys + size_t{i} * records.shape.key_bytes, records.shape.key_bytes};
}

// Answers from the oracle.
L1Answer AnswerFrom(const L1Records& records, const Oracle& oracle) {
  return [&records, &oracle](const L1Chunk& chunk, uint64_t* sum) {
    for (uint32_t i = 0; i < L1Lookups::kChunk; ++i) {
      const auto found = oracle.find({chunk.tables[i], KeyAt(records, chunk, i)});
      if (found == oracle.end()) return Status::NotFound();
      *sum += PayloadWord(found->second.data());
    }
    return Status::Ok();
  };
}

TEST(L1RecordsTest, KeysAreDistinctOverAllTablesAndSortAsTheirWordsDo) {
  for (const uint32_t key_bytes : {8u, 16u, 32u}) {
    const L1Records records = SmallRecords(key_bytes);
    std::set<std::string> keys;
    for (uint32_t table = 0; table < records.table_count; ++table) {
      std::string last;
      for (const uint64_t word : records.SortedWords(table)) {
        std::string key(key_bytes, 0);
        records.FillKey(word, key.data());
        EXPECT_LT(last, key);
        last = key;
        keys.insert(key);
      }
    }
    EXPECT_EQ(keys.size(), records.record_count()) << key_bytes;
  }
}

TEST(L1RecordsTest, PayloadsAreFilledToTheirEnd) {
  for (const uint32_t payload_bytes : {8u, 9u, 15u, 100u, 256u}) {
    const L1Records records = SmallRecords(16, payload_bytes);
    std::string a(payload_bytes + 1, 'x');
    std::string b(payload_bytes + 1, 'y');
    records.FillPayload(42, a.data());
    records.FillPayload(42, b.data());
    EXPECT_EQ(a.substr(0, payload_bytes), b.substr(0, payload_bytes));
    EXPECT_EQ(a.back(), 'x') << "past the end of " << payload_bytes;
    records.FillPayload(43, b.data());
    EXPECT_NE(a.substr(payload_bytes - 8, 8), b.substr(payload_bytes - 8, 8));
  }
}

TEST(L1LookupsTest, KeysAreThereAndSumsAreTheirs) {
  const L1Records records = SmallRecords();
  const Oracle oracle = AllOf(records);
  const L1Lookups lookups(records, {10000});
  EXPECT_EQ(lookups.chunk_count(), 40u);
  const L1Answer answer = AnswerFrom(records, oracle);
  for (uint64_t i = 0; i < lookups.chunk_count(); ++i) {
    uint64_t sum = 0;
    ASSERT_TRUE(answer(lookups.chunk(i), &sum).ok());
    EXPECT_EQ(sum, lookups.chunk(i).sum);
  }
}

TEST(L1LookupsTest, KeysAreSpreadOverTablesAndRecords) {
  const L1Records records = SmallRecords();
  const L1Lookups lookups(records, {uint64_t{1} << 17});
  std::map<uint16_t, uint64_t> by_table;
  std::set<std::string> keys;
  for (uint64_t c = 0; c < lookups.chunk_count(); ++c) {
    const L1Chunk chunk = lookups.chunk(c);
    for (uint32_t i = 0; i < L1Lookups::kChunk; ++i) {
      ++by_table[chunk.tables[i]];
      keys.insert(KeyAt(records, chunk, i));
    }
  }
  ASSERT_EQ(by_table.size(), records.table_count);
  // 32768 each, give or take ten standard deviations.
  for (const auto& [table, count] : by_table) EXPECT_NEAR(count, 32768, 1600) << table;
  // 33 draws a record on average: that one is never drawn has a chance of e^-33.
  EXPECT_EQ(keys.size(), records.record_count());
}

TEST(L1LookupsTest, HotKeysAreFewAndOfOneTable) {
  const L1Records records = SmallRecords();
  const L1Lookups lookups(records, {20000, 1, 40});
  std::set<std::string> keys;
  for (uint64_t c = 0; c < lookups.chunk_count(); ++c) {
    const L1Chunk chunk = lookups.chunk(c);
    for (uint32_t i = 0; i < L1Lookups::kChunk; ++i) {
      EXPECT_EQ(chunk.tables[i], 0);
      keys.insert(KeyAt(records, chunk, i));
    }
  }
  EXPECT_EQ(keys.size(), 40u);
}

TEST(L1LookupsTest, GroupsAreOfOneTableEach) {
  const L1Records records = SmallRecords();
  constexpr uint32_t kGroup = 64;
  const L1Lookups lookups(records, {20000, kGroup});
  std::set<uint16_t> tables;
  for (uint64_t c = 0; c < lookups.chunk_count(); ++c) {
    const L1Chunk chunk = lookups.chunk(c);
    for (uint32_t i = 0; i < L1Lookups::kChunk; ++i) {
      EXPECT_EQ(chunk.tables[i], chunk.tables[i / kGroup * kGroup]);
      tables.insert(chunk.tables[i]);
    }
    EXPECT_NE(KeyAt(records, chunk, 0), KeyAt(records, chunk, 1));
  }
  EXPECT_EQ(tables.size(), records.table_count);
}

TEST(L1LookupsTest, SumsOfSeeksGoOnToTheEndOfTheTable) {
  const L1Records records = SmallRecords();
  const Oracle oracle = AllOf(records);
  constexpr uint32_t kNext = 10;
  const L1Lookups lookups(records, {5000, 1, 0, kNext});
  for (uint64_t c = 0; c < lookups.chunk_count(); ++c) {
    const L1Chunk chunk = lookups.chunk(c);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < L1Lookups::kChunk; ++i) {
      auto at = oracle.find({chunk.tables[i], KeyAt(records, chunk, i)});
      ASSERT_NE(at, oracle.end());
      for (uint32_t n = 0; n <= kNext && at != oracle.end() && at->first.first == chunk.tables[i];
           ++n) {
        sum += PayloadWord((at++)->second.data());
      }
    }
    EXPECT_EQ(sum, chunk.sum);
  }
}

TEST(RunLookupsTest, CountsWhatAllThreadsLookedUp) {
  const L1Records records = SmallRecords();
  const Oracle oracle = AllOf(records);
  const L1Lookups lookups(records, {5000});
  std::atomic<uint64_t> chunk_count{0};
  const MakeL1Answer make = [&]() -> L1Answer {
    return [&, answer = AnswerFrom(records, oracle)](const L1Chunk& chunk, uint64_t* sum) {
      chunk_count.fetch_add(1);
      return answer(chunk, sum);
    };
  };
  TimedPoint run;
  const Status status = RunLookups(lookups, {3, 0.01, 0, 1000000007}, make, &run);
  ASSERT_TRUE(status.ok()) << status.ToString();
  // Each thread warms up with at least one chunk, which is not counted. Here the time for it is 0,
  // so it is one chunk.
  EXPECT_EQ(run.request_count, (chunk_count.load() - 3) * L1Lookups::kChunk);
  EXPECT_GT(run.RequestsPerSecond(), 0);
}

TEST(RunLookupsTest, AWrongPayloadFailsTheRun) {
  const L1Records records = SmallRecords();
  Oracle oracle = AllOf(records);
  const L1Lookups lookups(records, {5000});
  // The last drawn key: another thread reaches it too.
  const L1Chunk last = lookups.chunk(lookups.chunk_count() - 1);
  std::string& payload =
      oracle[{last.tables[L1Lookups::kChunk - 1], KeyAt(records, last, L1Lookups::kChunk - 1)}];
  payload[0] = static_cast<char>(payload[0] + 1);
  const MakeL1Answer make = [&]() -> L1Answer { return AnswerFrom(records, oracle); };
  for (const uint32_t threads : {1u, 3u}) {
    TimedPoint run;
    const uint64_t first = lookups.chunk_count() - 1;
    EXPECT_EQ(RunLookups(lookups, {threads, 0, 0, first}, make, &run).code(), Code::kCorruption)
        << threads;
  }
}

TEST(ForEachOnThreadsTest, DoesEachOnceAndTellsOfAFailure) {
  std::atomic<uint32_t> done[100] = {};
  ASSERT_TRUE(ForEachOnThreads(100, [&](uint32_t i) {
                ++done[i];
                return Status::Ok();
              }).ok());
  for (const auto& times : done) EXPECT_EQ(times.load(), 1u);
  EXPECT_EQ(
      ForEachOnThreads(100, [](uint32_t i) { return i == 17 ? Status::NotFound() : Status::Ok(); })
          .code(),
      Code::kNotFound);
  EXPECT_TRUE(ForEachOnThreads(0, [](uint32_t) { return Status::NotFound(); }).ok());
}

TEST(L1LookupsTest, KeysOfWordsHaveTheSumsOfTheirValues) {
  std::vector<uint64_t> keys(2 * L1Lookups::kChunk);
  std::vector<uint64_t> values(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    keys[i] = ~uint64_t{i};
    values[i] = i < L1Lookups::kChunk ? 1 : 1000;
  }
  const L1Lookups lookups(keys, values);
  ASSERT_EQ(lookups.chunk_count(), 2u);
  for (uint64_t at = 0; at < 2; ++at) {
    const L1Chunk chunk = lookups.chunk(at);
    EXPECT_EQ(chunk.sum, L1Lookups::kChunk * (at == 0 ? 1 : 1000));
    EXPECT_EQ(std::memcmp(chunk.keys, keys.data() + at * L1Lookups::kChunk,
                          L1Lookups::kChunk * sizeof(uint64_t)),
              0);
    EXPECT_EQ(chunk.tables[L1Lookups::kChunk - 1], 0);
  }
}

}  // namespace
}  // namespace engine_race::harness
