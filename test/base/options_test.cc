#include "engine_race/base/options.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "engine_race/base/memory_limit.h"
#include "engine_race/base/named_options.h"

namespace engine_race {
namespace {

TEST(OptionsTest, DefaultsAreValid) { EXPECT_TRUE(ValidateOptions(Options()).ok()); }

struct BadField {
  const char* name;
  std::function<void(Options*)> spoil;
};

TEST(OptionsTest, EachFieldOutOfRangeIsNamed) {
  const BadField fields[] = {
      {"value_bytes", [](Options* o) { o->value_bytes = 7; }},
      {"value_bytes", [](Options* o) { o->value_bytes = (1 << 20) + 1; }},
      {"bucket_count", [](Options* o) { o->bucket_count = 0; }},
      {"bucket_count", [](Options* o) { o->bucket_count = 1000; }},
      {"bucket_count", [](Options* o) { o->bucket_count = 131072; }},
      {"file_count", [](Options* o) { o->file_count = 0; }},
      {"file_count", [](Options* o) { o->file_count = 3; }},
      {"file_count", [](Options* o) { o->bucket_count = 16; }},
      {"bucket_capacity_records", [](Options* o) { o->bucket_capacity_records = 1ull << 32; }},
      {"bucket_capacity_records", [](Options* o) { o->bucket_capacity_records = 16; }},
      {"value_group_bytes", [](Options* o) { o->value_group_bytes = 2048; }},
      {"value_group_bytes", [](Options* o) { o->value_group_bytes = 2 << 20; }},
      {"value_group_bytes", [](Options* o) { o->value_group_bytes = 12288; }},
      {"key_group_bytes", [](Options* o) { o->key_group_bytes = 256 << 10; }},
      {"memory_budget_bytes", [](Options* o) { o->memory_budget_bytes = 1 << 20; }},
      {"memory_budget_bytes",
       [](Options* o) {
         o->value_bytes = 1 << 20;
         o->memory_budget_bytes = (64 << 20) - 1;
       }},
      {"index_memory_bytes",
       [](Options* o) {
         o->memory_budget_bytes = kMinMemoryBudgetBytes;
         o->index_memory_bytes = kMinMemoryBudgetBytes + 1;
       }},
      {"index_memory_bytes", [](Options* o) { o->index_memory_bytes = kAutoBytes - 1; }},
      {"async_read_limit", [](Options* o) { o->async_read_limit = (1 << 20) + 1; }},
      {"build_thread_count", [](Options* o) { o->build_thread_count = 5000; }},
      {"stats_interval_ms", [](Options* o) { o->stats_interval_ms = 9; }},
      {"stats_interval_ms", [](Options* o) { o->stats_interval_ms = 3600 * 1000 + 1; }},
      {"directory_mode", [](Options* o) { o->directory_mode = 0600; }},
      {"directory_mode", [](Options* o) { o->directory_mode = 02700; }},
      {"file_mode", [](Options* o) { o->file_mode = 0400; }},
      {"file_mode", [](Options* o) { o->file_mode = 01600; }},
      {"key_range",
       [](Options* o) {
         o->key_range = {8, 7};
       }},
      {"key_range",
       [](Options* o) {
         o->key_range = {~uint64_t{0}, 0};
       }},
      {"numa",
       [](Options* o) {
         o->numa = {NumaMode::kNone, {0}};
       }},
      {"numa",
       [](Options* o) {
         o->numa = {NumaMode::kBind, {}};
       }},
      {"numa.mode", [](Options* o) { o->numa.mode = static_cast<NumaMode>(7); }},
      {"staging_mode", [](Options* o) { o->staging_mode = static_cast<StagingMode>(7); }},
      {"reclaim", [](Options* o) { o->reclaim = static_cast<Reclaim>(7); }},
      {"reclaim_dead_percent", [](Options* o) { o->reclaim_dead_percent = 0; }},
      {"reclaim_dead_percent", [](Options* o) { o->reclaim_dead_percent = 100; }},
  };
  for (const BadField& field : fields) {
    Options options;
    field.spoil(&options);
    const Status status = ValidateOptions(options);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << field.name;
    EXPECT_NE(status.message().find(field.name), std::string::npos) << status.message();
  }
}

TEST(OptionsTest, ModesAreNamedInOctal) {
  Options options;
  options.directory_mode = 0600;
  EXPECT_EQ(ValidateOptions(options).message(), "directory_mode is 0600, not from 0700 to 0777");
}

TEST(OptionsTest, SmallestGeometryIsValid) {
  Options options;
  options.bucket_count = 1;
  options.file_count = 1;
  options.value_group_bytes = 4096;
  options.key_group_bytes = 4096;
  options.bucket_capacity_records = 128;
  EXPECT_TRUE(ValidateOptions(options).ok());
}

TEST(OptionsTest, ReclaimMayBeginAtAnyShareAndRate) {
  Options options;
  for (const uint32_t percent : {1, 99}) {
    for (const uint64_t rate : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) {
      options.reclaim_dead_percent = percent;
      options.reclaim_bytes_per_second = rate;
      EXPECT_TRUE(ValidateOptions(options).ok()) << percent << " " << rate;
    }
  }
}

TEST(OptionsTest, TheIndexMayHaveAllOfTheBudgetOrNoneAndNeverBeWritten) {
  Options options;
  options.index_close_bytes = 0;
  options.index_sync_bytes = 0;
  options.index_idle_ms = 0;
  options.memory_budget_bytes = kMinMemoryBudgetBytes;
  for (const uint64_t bytes : {uint64_t{0}, options.memory_budget_bytes, kAutoBytes}) {
    options.index_memory_bytes = bytes;
    EXPECT_TRUE(ValidateOptions(options).ok()) << bytes;
  }
}

// The names of the options that EffectiveOptions changes.
std::set<std::string_view> ChangedByEffect(const Options& options) {
  const Options effective = EffectiveOptions(options);
  std::set<std::string_view> changed;
  for (size_t i = 0; i < NamedOptionCount(); ++i) {
    std::string before;
    std::string after;
    EXPECT_TRUE(GetOption(OptionName(i), options, &before).ok());
    EXPECT_TRUE(GetOption(OptionName(i), effective, &after).ok());
    if (before != after) changed.insert(OptionName(i));
  }
  return changed;
}

TEST(OptionsTest, TheDefaultBudgetIsAShareOfTheMemory) {
  constexpr uint64_t kGiB = uint64_t{1} << 30;
  EXPECT_EQ(DefaultMemoryBudgetBytes(8 * kGiB, /*read_only=*/false), 2 * kGiB);
  EXPECT_EQ(DefaultMemoryBudgetBytes(8 * kGiB, /*read_only=*/true), kGiB / 2);
  for (const bool read_only : {false, true}) {
    EXPECT_EQ(DefaultMemoryBudgetBytes(kMinMemoryBudgetBytes, read_only), kMinMemoryBudgetBytes);
    Options options;
    options.read_only = read_only;
    options.hot_value_bytes = kMaxMemoryBudgetBytes;
    options.index_memory_bytes = kMinMemoryBudgetBytes;
    EXPECT_TRUE(ValidateOptions(options).ok());
    const Options effective = EffectiveOptions(options);
    EXPECT_EQ(effective.memory_budget_bytes, DefaultMemoryBudgetBytes(MemoryLimit(), read_only));
    EXPECT_EQ(effective.hot_value_bytes, effective.memory_budget_bytes);
    EXPECT_EQ(effective.index_memory_bytes, kMinMemoryBudgetBytes);
  }
  // Without a known limit the budget is one that is valid.
  Options limitless;
  limitless.memory_budget_bytes = DefaultMemoryBudgetBytes(kNoMemoryLimit, /*read_only=*/false);
  EXPECT_TRUE(ValidateOptions(limitless).ok());
}

TEST(OptionsTest, ThePageCacheTakesThePlaceOfHotValues) {
  Options options;
  options.page_cache = true;
  EXPECT_EQ(ValidateOptions(options).code(), Code::kInvalidArgument);
  options.read_only = true;
  EXPECT_TRUE(ValidateOptions(options).ok());
  options.memory_budget_bytes = kMinMemoryBudgetBytes;
  options.io_uring_iopoll = true;
  std::set<std::string_view> changed = ChangedByEffect(options);
  options.page_cache = false;
  for (const std::string_view name : ChangedByEffect(options)) changed.erase(name);
  EXPECT_EQ(changed, (std::set<std::string_view>{"hot_value_bytes", "io_uring_iopoll"}));
  options.page_cache = true;
  EXPECT_EQ(EffectiveOptions(options).hot_value_bytes, 0u);
  options.hot_value_bytes = 4096;
  EXPECT_EQ(EffectiveOptions(options).hot_value_bytes, 4096u);
}

TEST(OptionsTest, ReadOnlyTurnsOffWhatWrites) {
  Options options;
  options.memory_budget_bytes = kMinMemoryBudgetBytes;
  options.sync_mode = SyncMode::kGroup;
  options.sync_on_close = true;
  options.stats_interval_ms = kMinStatsIntervalMs;
  EXPECT_EQ(ChangedByEffect(options), std::set<std::string_view>());
  options.read_only = true;
  EXPECT_EQ(ChangedByEffect(options),
            (std::set<std::string_view>{"create_if_missing", "index_close_bytes", "index_idle_ms",
                                        "index_sync_bytes", "reclaim", "stats_interval_ms",
                                        "sync_mode", "sync_on_close"}));
}

}  // namespace
}  // namespace engine_race
