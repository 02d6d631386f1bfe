// Runs the whole program bin/bench over a store of few records, and reads what it has written.
#ifndef TEST_HARNESS_APPS_BENCH_FIXTURE_H_
#define TEST_HARNESS_APPS_BENCH_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine_race/base/key.h"
#include "engine_race/store.h"
#include "test/harness/program_fixture.h"
#include "test/test_util.h"

namespace engine_race::harness {

class BenchProgramTest : public ProgramTest {
 protected:
  BenchProgramTest() : ProgramTest("bench") {}

  ChildResult Bench(const std::vector<std::string>& flags) const {
    return RunWith({"--db=" + dir_, "--num=200", "--threads=3",
                    "--json=" + temp_.Join("bench.json"), "--csv=" + temp_.Join("bench.csv")},
                   flags);
  }

  std::string Text(const std::string& name) const {
    return LoadText(temp_.Join(name)).value_or("");
  }
  nlohmann::json Report() const { return LoadJson(temp_.Join("bench.json")); }

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

  const std::string dir_ = temp_.Join("store");
};

}  // namespace engine_race::harness

#endif  // TEST_HARNESS_APPS_BENCH_FIXTURE_H_
