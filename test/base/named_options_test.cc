#include "engine_race/base/named_options.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "engine_race/base/key.h"

namespace engine_race {
namespace {

std::string Get(const Options& options, std::string_view name) {
  std::string value;
  const Status status = GetOption(name, options, &value);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return value;
}

TEST(NamedOptionsTest, EveryDefaultIsATextThatSetsIt) {
  const Options defaults;
  for (size_t i = 0; i < NamedOptionCount(); ++i) {
    const std::string_view name = OptionName(i);
    const std::string text = Get(defaults, name);
    Options options;
    const Status status = SetOption(name, text, &options);
    EXPECT_TRUE(status.ok()) << name << ": " << status.ToString();
    EXPECT_EQ(Get(options, name), text) << name;
  }
}

// For each option a text other than its default.
std::string OtherThan(const std::string& text, std::string_view name) {
  for (const char* other : {"true", "false", "7", "0750", "libaio", "group", "written", "off",
                            "bind:0", "0x1-0x2", "/a"}) {
    Options options;
    if (SetOption(name, other, &options).ok() && Get(options, name) != text) return other;
  }
  ADD_FAILURE() << name;
  return text;
}

TEST(NamedOptionsTest, EachNameSetsItsOptionAlone) {
  const Options defaults;
  for (size_t set = 0; set < NamedOptionCount(); ++set) {
    Options options;
    const std::string_view name = OptionName(set);
    const Status status = SetOption(name, OtherThan(Get(defaults, name), name), &options);
    EXPECT_TRUE(status.ok()) << status.ToString();
    for (size_t i = 0; i < NamedOptionCount(); ++i) {
      EXPECT_EQ(Get(options, OptionName(i)) == Get(defaults, OptionName(i)), i != set)
          << name << " and " << OptionName(i);
    }
  }
}

// Stands for a value of every type.
struct Anything {
  template <typename T>
  operator T() const;  // NOLINT(google-explicit-constructor)
};
template <typename T, typename... Values>
constexpr size_t MemberCount() {
  if constexpr (requires { T{Values()..., Anything()}; }) {
    return MemberCount<T, Values..., Anything>();
  } else {
    return sizeof...(Values);
  }
}

TEST(NamedOptionsTest, EveryOptionButTheLogFunctionHasAName) {
  EXPECT_EQ(NamedOptionCount() + 1, MemberCount<Options>());
}

TEST(NamedOptionsTest, AKeyRangeIsWrittenInOneWay) {
  Options options;
  ASSERT_TRUE(SetOption("key_range", "0x10-0x1f", &options).ok());
  EXPECT_EQ(options.key_range, (KeyRange{16, 31}));
  EXPECT_EQ(Get(options, "key_range"), "16-31");
  EXPECT_EQ(ToString(KeyRange()), "0-18446744073709551615");
  EXPECT_FALSE(SetOption("key_range", "16:31", &options).ok());
}

TEST(NamedOptionsTest, ValuesOfEachKind) {
  Options options;
  const auto set = [&](std::string_view name, std::string_view value) {
    const Status status = SetOption(name, value, &options);
    EXPECT_TRUE(status.ok()) << status.ToString();
  };
  set("memory_budget_bytes", "3g");
  EXPECT_EQ(options.memory_budget_bytes, uint64_t{3} << 30);
  set("memory_budget_bytes", "17M");
  EXPECT_EQ(options.memory_budget_bytes, uint64_t{17} << 20);
  set("memory_budget_bytes", "auto");
  EXPECT_EQ(options.memory_budget_bytes, kAutoBytes);
  EXPECT_EQ(Get(options, "memory_budget_bytes"), "auto");
  set("hot_value_bytes", "0");
  EXPECT_EQ(options.hot_value_bytes, 0u);
  set("hot_value_bytes", "auto");
  EXPECT_EQ(options.hot_value_bytes, kAutoBytes);
  set("bucket_count", "4096");
  EXPECT_EQ(options.bucket_count, 4096u);
  set("directory_mode", "0750");
  EXPECT_EQ(options.directory_mode, 0750u);
  EXPECT_EQ(Get(options, "directory_mode"), "0750");
  set("file_mode", "640");
  EXPECT_EQ(options.file_mode, 0640u);
  set("verify_checksums", "false");
  EXPECT_FALSE(options.verify_checksums);
  set("io_backend", "libaio");
  EXPECT_EQ(options.io_backend, IoBackend::kLibaio);
  set("sync_mode", "group");
  EXPECT_EQ(options.sync_mode, SyncMode::kGroup);
  set("staging_mode", "written");
  EXPECT_EQ(options.staging_mode, StagingMode::kWritten);
  set("reclaim", "off");
  EXPECT_EQ(options.reclaim, Reclaim::kOff);
  set("reclaim", "background");
  EXPECT_EQ(options.reclaim, Reclaim::kBackground);
  set("reclaim_dead_percent", "45");
  EXPECT_EQ(options.reclaim_dead_percent, 45u);
  set("reclaim_bytes_per_second", "50m");
  EXPECT_EQ(options.reclaim_bytes_per_second, uint64_t{50} << 20);
  set("paths", "/a:/b c");
  EXPECT_EQ(options.paths, (std::vector<std::string>{"/a", "/b c"}));
  const std::string device = "/dev/disk/by-path/pci-0000:00:1f";
  const std::string escaped = R"(/dev/disk/by-path/pci-0000\:00\:1f:/a\\b)";
  set("paths", escaped);
  EXPECT_EQ(options.paths, (std::vector<std::string>{device, R"(/a\b)"}));
  EXPECT_EQ(Get(options, "paths"), escaped);
  set("paths", "");
  EXPECT_TRUE(options.paths.empty());
  set("key_range", "0x10-0xff");
  ASSERT_TRUE(options.key_range.has_value());
  EXPECT_EQ(*options.key_range, (KeyRange{0x10, 0xff}));
  set("key_range", "");
  EXPECT_FALSE(options.key_range.has_value());
  set("numa", "bind:0,3");
  EXPECT_EQ(options.numa.mode, NumaMode::kBind);
  EXPECT_EQ(options.numa.nodes, (std::vector<uint32_t>{0, 3}));
  EXPECT_EQ(Get(options, "numa"), "bind:0,3");
}

TEST(NamedOptionsTest, AnUnknownNameIsToldWithTheNearest) {
  Options options;
  EXPECT_EQ(SetOption("sync_mod", "none", &options).message(),
            "there is no option \"sync_mod\"; did you mean sync_mode?");
  std::string value;
  EXPECT_EQ(GetOption("bucket_cuont", options, &value).message(),
            "there is no option \"bucket_cuont\"; did you mean bucket_count?");
  EXPECT_EQ(SetOption("frobnicate", "1", &options).message(), "there is no option \"frobnicate\"");
}

TEST(NamedOptionsTest, WhatIsNoValueChangesNothing) {
  const struct {
    const char* name;
    const char* value;
  } bad[] = {
      {"no_such_option", "1"},
      {"", ""},
      {"memory_budget_bytes", ""},
      {"memory_budget_bytes", "g"},
      {"memory_budget_bytes", "-1"},
      {"memory_budget_bytes", "1 g"},
      {"memory_budget_bytes", "1x"},
      {"memory_budget_bytes", "18446744073709551616"},
      {"memory_budget_bytes", "17179869184g"},
      {"bucket_count", "4294967296"},
      {"bucket_count", "auto"},
      {"file_mode", "0900"},
      {"file_mode", ""},
      {"index_close_bytes", "auto"},
      {"file_mode", "600 "},
      {"verify_checksums", "yes"},
      {"verify_checksums", "1"},
      {"io_backend", "kIoUring"},
      {"sync_mode", ""},
      {"reclaim", "kOff"},
      {"reclaim", ""},
      {"reclaim_dead_percent", "30%"},
      {"paths", "/a::/b"},
      {"key_range", "5"},
      {"paths", "/a:"},
      {"paths", ":/a"},
      {"paths", "/a\\"},
      {"paths", ":"},
      {"key_range", "5-"},
      {"key_range", "a-b"},
      {"numa", "bind:x"},
      {"numa", "bind:"},
      {"numa", "bind:0,"},
      {"numa", "everywhere"},
  };
  for (const auto& [name, value] : bad) {
    Options options;
    EXPECT_EQ(SetOption(name, value, &options).code(), Code::kInvalidArgument)
        << name << "=" << value;
    const Options defaults;
    for (size_t i = 0; i < NamedOptionCount(); ++i) {
      EXPECT_EQ(Get(options, OptionName(i)), Get(defaults, OptionName(i))) << name << "=" << value;
    }
  }
  std::string text = "as before";
  EXPECT_EQ(GetOption("no_such_option", Options(), &text).code(), Code::kInvalidArgument);
  EXPECT_EQ(text, "as before");
}

}  // namespace
}  // namespace engine_race
