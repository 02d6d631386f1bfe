// Tables of random records on disk, with maps of their contents.
//
// Thread safety: only const calls may run at once.
#ifndef TEST_HARNESS_LAB_SHARDS_TEST_UTIL_H_
#define TEST_HARNESS_LAB_SHARDS_TEST_UTIL_H_

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine_race/base/sys.h"
#include "harness/lab/core_shards.h"
#include "harness/lab/extent_file.h"
#include "test/test_util.h"

namespace engine_race::test {

struct KnownTable {
  std::string name;
  ::harness::TableShape shape;
  std::map<std::string, std::string> records;
  std::vector<std::string> keys;  // of records, in order
};

inline std::string RandomBytes(std::mt19937_64* random, uint32_t count) {
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>((*random)());
  return bytes;
}

inline KnownTable MakeTable(int dir_fd, const std::string& name, const ::harness::TableShape& shape,
                            uint32_t record_count, uint64_t seed) {
  KnownTable table{name, shape, {}, {}};
  std::mt19937_64 random(seed);
  while (table.records.size() < record_count) {
    table.records.emplace(RandomBytes(&random, shape.key_bytes),
                          RandomBytes(&random, shape.payload_bytes));
  }
  std::unique_ptr<::lab::ExtentFileBuilder> builder;
  const Status created =
      ::lab::ExtentFileBuilder::Create(dir_fd, name, shape, ::lab::kTreeEncoding, &builder);
  EXPECT_TRUE(created.ok()) << created.ToString();
  for (const auto& [key, payload] : table.records) {
    table.keys.push_back(key);
    const Status added = builder->Add(key.data(), payload.data());
    EXPECT_TRUE(added.ok()) << added.ToString();
  }
  const Status finished = builder->Finish();
  EXPECT_TRUE(finished.ok()) << finished.ToString();
  return table;
}

// Gets with memory of their own, and their right answers.
class KnownBatch {
 public:
  explicit KnownBatch(const std::vector<KnownTable>* tables) : tables_(*tables) {}

  void Add(uint32_t table, const std::string& key) {
    wanted_.push_back({table, key, std::string(tables_[table].shape.payload_bytes, '\0')});
  }
  // One key in eight has no record.
  void AddRandom(std::mt19937_64* random) {
    const auto table = static_cast<uint32_t>((*random)() % tables_.size());
    const KnownTable& known = tables_[table];
    Add(table, (*random)() % 8 == 0 ? RandomBytes(random, known.shape.key_bytes)
                                    : known.keys[(*random)() % known.keys.size()]);
  }
  std::vector<lab::ShardGet>& gets() {
    gets_.resize(wanted_.size());
    for (size_t i = 0; i < wanted_.size(); ++i) {
      gets_[i].table = wanted_[i].table;
      gets_[i].key = wanted_[i].key.data();
      gets_[i].payload = wanted_[i].payload.data();
      gets_[i].status = Status(Code::kTimedOut, {});  // never the status of an answer
    }
    return gets_;
  }
  // The gets with the answers that they got.
  const std::vector<lab::ShardGet>& gets_now() const { return gets_; }
  // Describes the first wrong answer; empty when there is none. The code `allowed` is always right.
  std::string Wrong(Code allowed = Code::kOk) const {
    for (size_t i = 0; i < gets_.size(); ++i) {
      const Wanted& wanted = wanted_[i];
      const Code code = gets_[i].status.code();
      if (allowed != Code::kOk && code == allowed) continue;
      const auto known = tables_[wanted.table].records.find(wanted.key);
      const bool is_there = known != tables_[wanted.table].records.end();
      if (code != (is_there ? Code::kOk : Code::kNotFound)) {
        return "get " + std::to_string(i) + ": " + gets_[i].status.ToString();
      }
      if (is_there && wanted.payload != known->second) {
        return "get " + std::to_string(i) + ": another payload";
      }
    }
    return {};
  }
  void Clear() {
    wanted_.clear();
    gets_.clear();
  }

 private:
  struct Wanted {
    uint32_t table;
    std::string key;
    std::string payload;
  };
  const std::vector<KnownTable>& tables_;
  std::vector<Wanted> wanted_;
  std::vector<lab::ShardGet> gets_;
};

// Tables of several key and payload sizes in a directory of their own.
class ShardsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = UniqueFd(::open(temp_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ASSERT_TRUE(dir_.valid());
  }
  void MakeTables(uint32_t count, uint32_t record_count) {
    const ::harness::TableShape shapes[] = {{16, 8}, {8, 40}, {32, 256}, {16, 100}};
    for (uint32_t i = 0; i < count; ++i) {
      tables_.push_back(
          MakeTable(dir_.get(), "table" + std::to_string(i), shapes[i % 4], record_count, 100 + i));
    }
  }
  std::unique_ptr<lab::CoreShards> Start(const lab::CoreShardsOptions& options) {
    std::unique_ptr<lab::CoreShards> shards;
    const Status started = lab::CoreShards::Start(options, &shards);
    EXPECT_TRUE(started.ok()) << started.ToString();
    for (uint32_t i = 0; i < tables_.size(); ++i) {
      uint32_t number = 0;
      const Status added = shards->AddTable(dir_.get(), tables_[i].name, &number);
      EXPECT_TRUE(added.ok()) << added.ToString();
      EXPECT_EQ(number, i);
    }
    return shards;
  }
  std::unique_ptr<lab::CoreShards> Start(uint32_t worker_count, uint32_t frame_count = 64) {
    lab::CoreShardsOptions options;
    options.worker_count = worker_count;
    options.frame_count = frame_count;
    return Start(options);
  }
  static std::unique_ptr<lab::ShardClient> ClientOf(lab::CoreShards* shards) {
    std::unique_ptr<lab::ShardClient> client;
    const Status made = shards->MakeClient(&client);
    EXPECT_TRUE(made.ok()) << made.ToString();
    return client;
  }

  const TempDir temp_{FastParent()};
  UniqueFd dir_;
  std::vector<KnownTable> tables_;
};

}  // namespace engine_race::test

#endif  // TEST_HARNESS_LAB_SHARDS_TEST_UTIL_H_
