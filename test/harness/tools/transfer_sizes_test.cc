// Imports and exports of stores with values of other sizes.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "test/harness/tools/transfer_fixture.h"

namespace engine_race::harness {
namespace {

class TransferSizesTest : public TransferFixture {
 protected:
  // The one store of the fixture has values of 4096 bytes.
  Transfer Into(const std::string& store, Transfer transfer) const {
    transfer.dir = dir_.Join(store);
    return transfer;
  }
  uint32_t SizeOf(const std::string& store) const {
    Options options;
    options.create_if_missing = false;
    options.value_bytes = 0;
    std::unique_ptr<Store> opened;
    EXPECT_TRUE(Store::Open(options, dir_.Join(store), &opened).ok());
    return opened == nullptr ? 0 : opened->value_bytes();
  }
};

TEST_F(TransferSizesTest, AStoreThatIsMadeHasTheSizeOfTheRows) {
  for (const uint32_t size : {8, 100, 3072, 20000}) {
    const std::string name = std::to_string(size);
    const std::string rows = NpyOfValues(kCount, 1, size);
    Transfer transfer = Into(name, Written(name + ".npy", rows));
    transfer.creates = true;
    const Status imported = Import(transfer, GoOn, &report_);
    ASSERT_TRUE(imported.ok()) << imported.ToString();
    EXPECT_EQ(SizeOf(name), size);
    const Status exported = Export(Into(name, Of(name + "_out.npy")), GoOn, &report_);
    ASSERT_TRUE(exported.ok()) << exported.ToString();
    const std::string out = ReadWhole(dir_.Join(name + "_out.npy"));
    EXPECT_EQ(out.substr(0, 128), NpyStart("'|u1'", "(100, " + name + ")"));
    EXPECT_EQ(out.substr(128), rows.substr(128));
  }
}

TEST_F(TransferSizesTest, RecordsHaveTheSizeOfTheStore) {
  std::vector<uint64_t> keys = SpreadKeys();
  std::sort(keys.begin(), keys.end());
  const std::string records = RecordsOf(keys, 1, 1536);
  Transfer transfer = Into("sized", Written("records", records));
  transfer.creates = true;
  ExpectRefused(Import(transfer, GoOn, &report_), "not");
  EXPECT_FALSE(std::filesystem::exists(dir_.Join("sized")));
  transfer.value_bytes = 1536;
  ASSERT_TRUE(Import(transfer, GoOn, &report_).ok());
  EXPECT_EQ(SizeOf("sized"), 1536u);
  transfer.value_bytes = 0;
  ASSERT_TRUE(Import(transfer, GoOn, &report_).ok()) << "it is the store's";
  ASSERT_TRUE(Export(Into("sized", Of("out")), GoOn, &report_).ok());
  EXPECT_EQ(ReadWhole(dir_.Join("out")), records);
}

TEST_F(TransferSizesTest, RowsOfAnotherSizeThanTheStoresAreRefused) {
  const Transfer small = Written("rows.npy", NpyOfValues(kCount, 1, 100));
  ExpectRefused(Import(small, GoOn, &report_),
                "has rows of 100 bytes, and a value has 4096; --pad");
  Transfer padded = Into("padded", small);
  padded.pads = padded.creates = true;
  padded.value_bytes = 104;
  ASSERT_TRUE(Import(padded, GoOn, &report_).ok());
  EXPECT_EQ(SizeOf("padded"), 104u);
  const Status large =
      Import(Into("padded", Written("large.npy", NpyOfValues(kCount, 1, 108))), GoOn, &report_);
  ExpectRefused(large, "has rows of 108 bytes, and a value has 104");
  padded.value_bytes = 112;
  ExpectRefused(Import(padded, GoOn, &report_), "that of the store is 104");
}

// A piece of a default transfer would take 1 GiB.
TEST_F(TransferSizesTest, LargeValuesGoInSmallPieces) {
  constexpr uint64_t kLarge = 12;
  Transfer transfer = Into("large", Written("large.npy", NpyOfValues(kLarge, 1, kMaxValueBytes)));
  transfer.creates = true;
  transfer.piece_records = Transfer().piece_records;
  std::vector<uint64_t> told;
  const auto tell = [&](uint64_t done, uint64_t) {
    told.push_back(done);
    return true;
  };
  ASSERT_TRUE(Import(transfer, tell, &report_).ok());
  EXPECT_EQ(told, (std::vector<uint64_t>{0, 8, 12}));
}

}  // namespace
}  // namespace engine_race::harness
