// Copies and verifications of stores with values of any size.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "engine_race/copies/copied_store.h"
#include "engine_race/copies/copies.h"
#include "test/log/log_test_util.h"

namespace engine_race::test {
namespace {

TEST(CopiedGeometryTest, OptionsMakeAStoreOfTheSourcesShape) {
  std::vector<uint32_t> sizes(std::begin(kValueSizes), std::end(kValueSizes));
  for (const uint32_t odd : {9, 127, 4095, 4097, 40000, 600001, 1048575}) sizes.push_back(odd);
  for (const uint32_t value_bytes : sizes) {
    for (uint32_t group_bytes = 4096; group_bytes <= 1 << 20; group_bytes *= 2) {
      Options options;
      options.value_bytes = value_bytes;
      options.value_group_bytes = group_bytes;
      const Geometry geometry = GeometryFrom(options);
      ASSERT_TRUE(CheckGeometry(geometry).ok()) << value_bytes << " in " << group_bytes;
      const Options made = WithGeometryOf(geometry, {});
      EXPECT_TRUE(ValidateOptions(made).ok()) << value_bytes << " in " << group_bytes;
      const Geometry copied = GeometryFrom(made);
      EXPECT_EQ(copied.layout, geometry.layout);
      EXPECT_EQ(copied.bucket_count, geometry.bucket_count);
      EXPECT_EQ(copied.file_count, geometry.file_count);
      EXPECT_EQ(copied.value_group_bytes, geometry.value_group_bytes) << value_bytes;
    }
  }
}

class SizedCopiesTest : public testing::TestWithParam<uint32_t> {
 protected:
  // In bucket 0: more than two segments, or 40 large values.
  uint64_t RecordCount() const { return GetParam() > 20000 ? 40 : 700; }
  static bool IsTombstone(uint64_t key) { return key % 10 == 7; }

  void Fill() {
    const auto log = OpenLog(SizedLogOptions(GetParam()), source());
    for (uint64_t key = 0; key < RecordCount(); ++key) {
      const std::string value = ValueOf(key, 1, GetParam());
      const Status appended = log->Append(key, IsTombstone(key) ? nullptr : value.data());
      ASSERT_TRUE(appended.ok()) << appended.ToString();
    }
    // A segment and all but one place of the last group are in the log.
    logged_count_ = log->LoggedValueWatermark(0);
    for (uint64_t slot = 0; slot < RecordCount(); ++slot) {
      const SlotLocation location = log->slots().LocateValues(0, slot);
      offsets_.push_back(location.found() ? location.offset : 0);
    }
  }
  void ExpectRecords(const std::string& dir) {
    const auto log = OpenLog(SizedLogOptions(GetParam()), dir);
    ASSERT_NE(log, nullptr);
    const std::vector<KeyRecord> records = RecordsOf(log.get(), 0);
    ASSERT_EQ(records.size(), RecordCount());
    for (uint64_t slot = 0; slot < records.size(); ++slot) {
      EXPECT_EQ(records[slot].key, slot);
      ASSERT_EQ(records[slot].tombstone, IsTombstone(slot));
      if (records[slot].tombstone) continue;
      ASSERT_TRUE(ReadSlot(*log, 0, slot) == ValueOf(slot, 1, GetParam())) << slot;
    }
  }
  Status Copy(const Options& options = {}) {
    bad_.clear();
    return CopyStore(options, source(), copy(), &report_,
                     [this](const BadRecord& bad) { bad_.push_back(bad); });
  }
  std::string source() const { return dir_.Join("source"); }
  std::string copy() const { return dir_.Join("copy"); }

  TempDir dir_{FastParent()};
  VerifyReport report_;
  std::vector<BadRecord> bad_;
  uint64_t logged_count_ = 0;
  std::vector<uint64_t> offsets_;
};

INSTANTIATE_TEST_SUITE_P(Sizes, SizedCopiesTest, testing::ValuesIn(kValueSizes),
                         testing::PrintToStringParamName());

TEST_P(SizedCopiesTest, ACopyHasTheValuesOfItsSource) {
  ASSERT_NO_FATAL_FAILURE(Fill());
  // The default size in the options is no wish.
  const Status copied = Copy();
  ASSERT_TRUE(copied.ok()) << copied.ToString();
  EXPECT_EQ(report_.record_count, RecordCount());
  VerifyReport verified;
  EXPECT_TRUE(VerifyStore(copy(), &verified, {}).ok());
  EXPECT_EQ(verified.record_count, RecordCount());
  ASSERT_NO_FATAL_FAILURE(ExpectRecords(copy()));
  ASSERT_NO_FATAL_FAILURE(ExpectRecords(source()));
}

TEST_P(SizedCopiesTest, ACopyOnOtherPathsKeepsTheSize) {
  ASSERT_NO_FATAL_FAILURE(Fill());
  Options options;
  options.paths = {dir_.Join("a"), dir_.Join("b")};
  const Status copied = Copy(options);
  ASSERT_TRUE(copied.ok()) << copied.ToString();
  ASSERT_NO_FATAL_FAILURE(ExpectRecords(copy()));
}

// Also where values share a block.
TEST_P(SizedCopiesTest, OneDamagedValueIsBadAlone) {
  ASSERT_NO_FATAL_FAILURE(Fill());
  const uint64_t damaged = 21;
  if (damaged < logged_count_) {
    Overwrite(source() + "/value_00", "!", 1, offsets_[damaged] + GetParam() - 1);
  } else {
    const Geometry geometry = GeometryFrom(SizedLogOptions(GetParam()));
    Overwrite(source() + "/" + format::kStagingValuesName, "!", 1,
              geometry.ValuePlaceOffset(0, 0) + damaged * geometry.slot_bytes() + GetParam() - 1);
  }
  EXPECT_EQ(Copy().code(), Code::kCorruption);
  ASSERT_EQ(bad_.size(), 1u);
  EXPECT_EQ(bad_[0].slot, damaged);
  EXPECT_FALSE(std::filesystem::exists(copy() + "/" + format::kManifestName));
}

class PaddedCopiesTest : public SizedCopiesTest {};

INSTANTIATE_TEST_SUITE_P(Sizes, PaddedCopiesTest, testing::Values(1001, 5000, 100'000),
                         testing::PrintToStringParamName());

// Bytes between the values of slots are part of none.
TEST_P(PaddedCopiesTest, ACopyTakesOverNothingButValues) {
  constexpr uint64_t kSlot = 21;
  ASSERT_NO_FATAL_FAILURE(Fill());
  ASSERT_GT(ValueLayout(GetParam()).slot_bytes(), GetParam());
  ASSERT_LT(kSlot, logged_count_);
  Overwrite(source() + "/value_00", "!", 1, offsets_[kSlot] + GetParam());
  ASSERT_TRUE(Copy().ok());
  ASSERT_NO_FATAL_FAILURE(ExpectRecords(copy()));
  const SlotLocation location =
      OpenLog(SizedLogOptions(GetParam()), copy())->slots().LocateValues(0, kSlot);
  std::ifstream values(copy() + "/value_00", std::ios::binary);
  values.seekg(static_cast<std::streamoff>(location.offset + GetParam()));
  EXPECT_EQ(values.get(), 0);
}

}  // namespace
}  // namespace engine_race::test
