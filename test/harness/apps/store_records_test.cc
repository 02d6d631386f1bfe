// get, put, delete, scan and count of bin/store.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "engine_race/store.h"
#include "test/harness/apps/store_fixture.h"
#include "test/test_util.h"

namespace engine_race::harness {
namespace {

using test::KeyOf;
using test::ValueOf;

class StoreRecordsTest : public StoreFixture {
 protected:
  // Stores the keys 10, 20, ... 50.
  void SetUp() override {
    StoreFixture::SetUp();
    if (IsSkipped()) return;
    const std::unique_ptr<Store> store = Open();
    for (uint64_t key = 10; key <= 50; key += 10) {
      ASSERT_TRUE(store->Write(KeyOf(key), ValueOf(key, 1)).ok());
    }
  }

  // What the store has under the key; empty where it has nothing.
  std::string StoredAt(const std::string& key) const {
    std::string value;
    const Status read = Open()->Read(key, &value);
    EXPECT_TRUE(read.ok() || read.code() == Code::kNotFound) << read.ToString();
    return value;
  }
};

TEST_F(StoreRecordsTest, GetWritesTheBytesOfAValue) {
  EXPECT_EQ(OutputOf({"get", store_dir(), "20"}, 0), ValueOf(20, 1));
  EXPECT_EQ(OutputOf({"get", store_dir(), "14", "--key_format", "hex"}, 0), ValueOf(20, 1));
  EXPECT_EQ(OutputOf({"get", store_dir(), "0x1e", "--out", temp_.Join("out")}, 0), "");
  EXPECT_EQ(ReadFile("out"), ValueOf(30, 1));
  ExpectOutput({"get", store_dir(), "20", "--out", temp_.Join("none/out")}, 2, "none/out");
}

TEST_F(StoreRecordsTest, AKeyThatIsNotThereIsAFailureOfItsOwn) {
  ExpectOutput({"get", store_dir(), "21", "--out", temp_.Join("out")}, 1,
               "key 0x0000000000000015 is not there");
  EXPECT_FALSE(std::filesystem::exists(temp_.Join("out")));
  ExpectOutput({"get", temp_.Join("nothing"), "20"}, 2, "there is no store");
  ExpectOutput({"get", store_dir(), "x20"}, 2, "'x20' is no key");
  ExpectOutput({"get", store_dir(), "20", "--key_format", "octal"}, 2, "unknown format octal");
}

TEST_F(StoreRecordsTest, PutTakesAValueOfItsSizeAlone) {
  const std::string value = ValueOf(60, 2);
  OutputOf({"put", store_dir(), "60"}, 0, value);
  EXPECT_EQ(StoredAt(KeyOf(60)), value);
  const std::string file = WriteFile("value", ValueOf(61, 2));
  OutputOf({"put", store_dir(), "8 bytes!", file}, 0);
  EXPECT_EQ(StoredAt("8 bytes!"), ValueOf(61, 2));
  ExpectOutput({"put", store_dir(), "62"}, 2, "has 4095", value.substr(1));
  ExpectOutput({"put", store_dir(), "62", "--pad"}, 2, "has more", value + "x");
  ExpectOutput({"put", store_dir(), "62", temp_.Join("nothing")}, 2, "nothing");
  EXPECT_EQ(StoredAt(KeyOf(62)), "");
  OutputOf({"put", store_dir(), "62", "--pad"}, 0, "short");
  EXPECT_EQ(StoredAt(KeyOf(62)), "short" + std::string(4091, '\0'));
  OutputOf({"put", store_dir(), "62", "--pad", "--value", "text"}, 0);
  EXPECT_EQ(StoredAt(KeyOf(62)), "text" + std::string(4092, '\0'));
  // An empty word is one.
  OutputOf({"put", store_dir(), "62", "--pad", "--value", ""}, 0, value);
  EXPECT_EQ(StoredAt(KeyOf(62)), std::string(4096, '\0'));
  OutputOf({"put", store_dir(), "62", ""}, 2, value);
}

TEST_F(StoreRecordsTest, PutMakesAStoreOnlyIfAsked) {
  std::vector<std::string> put = {"put", temp_.Join("new"), "1", "--value", "x", "--pad"};
  ExpectOutput(put, 2, "there is no store");
  EXPECT_FALSE(std::filesystem::exists(temp_.Join("new")));
  put.emplace_back("--create");
  OutputOf(put, 0);
  EXPECT_EQ(OutputOf({"count", temp_.Join("new")}, 0), "1\n");
}

TEST_F(StoreRecordsTest, AStoreThatIsMadeMayHaveOtherValues) {
  const std::string sized = temp_.Join("sized");
  OutputOf({"put", sized, "1", "--create", "--value_size", "100"}, 0, ValueOf(1, 1, 100));
  EXPECT_EQ(OutputOf({"get", sized, "1"}, 0), ValueOf(1, 1, 100));
  ExpectOutput({"put", sized, "2"}, 2, "a value has 100 bytes, and this one has more",
               ValueOf(2, 1));
  ExpectOutput({"put", sized, "2"}, 2, "a value has 100 bytes, and this one has 99; --pad",
               std::string(99, 'x'));
  ExpectOutput({"put", sized, "2", "--value_size", "101", "--pad", "--value", ""}, 2,
               "that of the store is 100");
  ExpectOutput({"put", temp_.Join("none"), "2", "--create", "--value_size", "7"}, 2, "7");
  EXPECT_FALSE(std::filesystem::exists(temp_.Join("none")));
  ExpectOutput({"dump", sized}, 0, "values            100 bytes each\n");
  ExpectOutput({"verify", sized}, 0, "1 records verified");
  ExpectOutput({"copy", sized, temp_.Join("copy")}, 0, "1 records copied");
  EXPECT_EQ(OutputOf({"get", temp_.Join("copy"), "1"}, 0), ValueOf(1, 1, 100));
  ExpectOutput({"backup", sized, temp_.Join("backup"), "--verify"}, 0, "1 records verified");
  ExpectOutput({"restore", temp_.Join("backup"), temp_.Join("restored")}, 0, "1 records restored");
  EXPECT_EQ(OutputOf({"get", temp_.Join("restored"), "1"}, 0), ValueOf(1, 1, 100));
}

TEST_F(StoreRecordsTest, DeleteTakesEachKeyAndNamesAMissingOne) {
  OutputOf({"delete", store_dir(), "10", "0x14"}, 0);
  EXPECT_EQ(OutputOf({"count", store_dir()}, 0), "3\n");
  ExpectOutput({"delete", store_dir(), "31", "30"}, 1, "key 0x000000000000001f is not there");
  EXPECT_EQ(OutputOf({"count", store_dir()}, 0), "2\n");
  // With a wrong key nothing is deleted.
  OutputOf({"delete", store_dir(), "40", "wrong"}, 2);
  EXPECT_EQ(OutputOf({"count", store_dir()}, 0), "2\n");
}

TEST_F(StoreRecordsTest, ScanPrintsARangeInOrder) {
  const std::vector<std::string> scan = {"scan", store_dir(), "--keys-only", "--key_format",
                                         "decimal"};
  const auto with = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), scan.begin(), scan.end());
    return OutputOf(flags, 0);
  };
  EXPECT_EQ(with({}), "10\n20\n30\n40\n50\n");
  EXPECT_EQ(with({"--from", "20", "--to", "40"}), "20\n30\n");
  EXPECT_EQ(with({"--reverse", "--from", "20", "--to", "50", "--limit", "2"}), "40\n30\n");
  EXPECT_EQ(with({"--from", "41", "--limit", "9"}), "50\n");
  EXPECT_EQ(with({"--from", "40", "--to", "20"}), "");
  EXPECT_EQ(OutputOf({"count", store_dir(), "--from", "20", "--to", "50"}, 0), "3\n");
  EXPECT_EQ(OutputOf({"count", store_dir(), "--json"}, 0), "{\"count\":5}\n");
  OutputOf({"scan", store_dir(), "--from", "x"}, 2);
  OutputOf({"count", store_dir(), "--from", ""}, 2);
  OutputOf({"count", store_dir(), "--to", ""}, 2);
  OutputOf({"scan", temp_.Join("nothing")}, 2);
}

TEST_F(StoreRecordsTest, ScanShowsTheStartOfEachValue) {
  OutputOf({"put", store_dir(), "5", "--pad", "--value", "a\\b\nc"}, 0);
  EXPECT_EQ(OutputOf({"scan", store_dir(), "--limit", "1"}, 0),
            "0x0000000000000005  a\\x5cb\\x0ac\n");
  OutputOf({"put", store_dir(), "5"}, 0, std::string(4096, 'x'));
  EXPECT_EQ(OutputOf({"scan", store_dir(), "--limit", "1"}, 0),
            "0x0000000000000005  " + std::string(64, 'x') + "...\n");
}

TEST_F(StoreRecordsTest, JsonHasKeysAndValuesInHexadecimal) {
  std::istringstream lines(OutputOf({"scan", store_dir(), "--json"}, 0));
  std::string line;
  for (uint64_t key = 10; key <= 50; key += 10) {
    ASSERT_TRUE(std::getline(lines, line));
    const nlohmann::json json = nlohmann::json::parse(line);
    EXPECT_EQ(std::stoull(json.at("key").get<std::string>(), nullptr, 16), key);
    const std::string hex = json.at("value");
    ASSERT_EQ(hex.size(), 2 * kValueBytes);
    std::string value;
    for (size_t i = 0; i < hex.size(); i += 2) {
      value += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
    }
    EXPECT_EQ(value, ValueOf(key, 1));
  }
  EXPECT_FALSE(std::getline(lines, line)) << line;
  const nlohmann::json got =
      nlohmann::json::parse(OutputOf({"get", store_dir(), "50", "--json"}, 0));
  EXPECT_EQ(got.at("key"), "0x0000000000000032");
  EXPECT_EQ(OutputOf({"scan", store_dir(), "--json", "--keys-only", "--limit", "1"}, 0),
            "{\"key\":\"0x000000000000000a\"}\n");
}

TEST_F(StoreRecordsTest, ReadersShareAStoreAndAWriterHasItAlone) {
  {
    Options options;
    options.read_only = true;
    const std::unique_ptr<Store> reader = Open(options);
    EXPECT_EQ(OutputOf({"count", store_dir()}, 0), "5\n");
    ExpectOutput({"put", store_dir(), "1", "--value", "x", "--pad"}, 2, "open elsewhere");
    ExpectOutput({"delete", store_dir(), "10"}, 2, "open elsewhere");
  }
  const std::unique_ptr<Store> writer = Open();
  ExpectOutput({"get", store_dir(), "10"}, 2, "open elsewhere");
  ExpectOutput({"scan", store_dir()}, 2, "open elsewhere");
}

// The file's times would tell.
TEST_F(StoreRecordsTest, CommandsThatReadChangeNoFile) {
  const auto changed = [&] {
    auto latest = std::filesystem::last_write_time(store_dir());
    for (const auto& file : std::filesystem::directory_iterator(store_dir())) {
      latest = std::max(latest, file.last_write_time());
    }
    return latest;
  };
  const auto before = changed();
  OutputOf({"get", store_dir(), "10"}, 0);
  OutputOf({"scan", store_dir()}, 0);
  OutputOf({"count", store_dir()}, 0);
  EXPECT_EQ(changed(), before);
}

TEST_F(StoreRecordsTest, DamageAndAFullOutputFail) {
  ExpectOutput({"scan", store_dir(), "--keys-only"}, 0, "0x");
  // In lines of JSON the buffer overflows before the end.
  for (const char* const flag : {"--keys-only", "--json"}) {
    const ChildResult full = RunChild({"bash", "-c", "exec \"$@\" 2>&1 > /dev/full", "bash",
                                       program_, "scan", store_dir(), flag});
    EXPECT_EQ(full.exit_code, 2);
    EXPECT_NE(full.output.find("No space left"), std::string::npos) << full.output;
  }
  // Values of few records lie in staging.
  const auto bytes = std::filesystem::file_size(store_dir() + "/staging_values");
  std::ofstream(store_dir() + "/staging_values", std::ios::binary) << std::string(bytes, 'x');
  ExpectOutput({"get", store_dir(), "10"}, 1, "kCorruption");
  ExpectOutput({"scan", store_dir()}, 1, "kCorruption");
}

}  // namespace
}  // namespace engine_race::harness
