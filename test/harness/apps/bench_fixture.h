// Runs the whole program bin/bench over a store of few records, and reads what it has written.
#ifndef TEST_HARNESS_APPS_BENCH_FIXTURE_H_
#define TEST_HARNESS_APPS_BENCH_FIXTURE_H_

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine_race/base/key.h"
#include "engine_race/store.h"
#include "test/harness/program_fixture.h"
#include "test/test_util.h"

namespace engine_race::harness {

class BenchProgramTest : public ::testing::Test {
 protected:
  void SetUp() override {
    program_ = ProgramPath("bench");
    if (program_.empty()) GTEST_SKIP() << "ENGINE_BIN_DIR is not set";
  }

  ChildResult Bench(std::vector<std::string> flags) const {
    std::vector<std::string> args = {program_,
                                     "--db=" + dir_,
                                     "--num=200",
                                     "--threads=3",
                                     "--json=" + temp_.Join("bench.json"),
                                     "--csv=" + temp_.Join("bench.csv")};
    args.insert(args.end(), flags.begin(), flags.end());
    return RunChild(args);
  }

  std::string Text(const std::string& name) const {
    std::ifstream file(temp_.Join(name));
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  nlohmann::json Report() const {
    return nlohmann::json::parse(Text("bench.json"), nullptr, false);
  }

  // The keys of the store, as the engine itself finds them.
  std::vector<uint64_t> Keys() const {
    std::unique_ptr<Store> store;
    EXPECT_TRUE(Store::Open({}, dir_, &store).ok());
    std::vector<uint64_t> keys;
    if (store == nullptr) return keys;
    EXPECT_TRUE(store
                    ->Range({}, {},
                            [&](std::string_view key, std::string_view) {
                              keys.push_back(DecodeKey(key.data()));
                            })
                    .ok());
    return keys;
  }

  test::TempDir temp_{test::FastParent()};
  const std::string dir_ = temp_.Join("store");
  std::string program_;
};

}  // namespace engine_race::harness

#endif  // TEST_HARNESS_APPS_BENCH_FIXTURE_H_
