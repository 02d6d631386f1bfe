// Imports of bin/store.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "engine_race/store.h"
#include "harness/tools/store_rows.h"
#include "test/faults/system_calls.h"
#include "test/harness/tools/row_files.h"
#include "test/harness/tools/transfer_fixture.h"
#include "test/test_util.h"

namespace engine_race::harness {
namespace {

namespace fs = std::filesystem;
using test::KeyOf;
using test::ValueOf;

class StoreImportTest : public TransferFixture {};

TEST_F(StoreImportTest, RowNumbersAreKeys) {
  const Transfer transfer = Written("rows.npy", NpyOfValues(kCount));
  uint64_t next = 0;
  const auto tell = [&](uint64_t done, uint64_t total) {
    EXPECT_EQ(done, next);
    EXPECT_EQ(total, kCount);
    next = std::min(done + kPiece, kCount);
    return true;
  };
  ASSERT_TRUE(Import(transfer, tell, &report_).ok());
  EXPECT_EQ(next, kCount);
  EXPECT_EQ(report_.record_count, kCount);
  EXPECT_EQ(report_.moved_count, kCount);
  EXPECT_EQ(Stored(), Expected(RowNumbers()));
  EXPECT_FALSE(fs::exists(dir_.Join("rows.npy.note")));
}

TEST_F(StoreImportTest, KeysComeFromAnArrayOrFromRecords) {
  const std::vector<uint64_t> keys = SpreadKeys();
  ASSERT_TRUE(Import(Written("records", RecordsOf(keys)), GoOn, &report_).ok());
  EXPECT_EQ(Stored(), Expected(keys));
  for (const char* const type : {"'<u8'", "'<i8'"}) {
    std::vector<uint64_t> positive = keys;
    for (uint64_t& key : positive) key >>= 1;
    Written("rows.npy", NpyOfValues(kCount));
    Written("keys.npy", NpyOfKeys(positive, type));
    fs::remove_all(dir_.Join("store"));
    MakeStore("store");
    ASSERT_TRUE(Import(Of("rows.npy", "keys.npy"), GoOn, &report_).ok());
    EXPECT_EQ(Stored(), Expected(positive));
  }
  std::string key_bytes = NpyStart("'|S8'", "(100,)");
  for (const uint64_t key : keys) key_bytes += KeyOf(key);
  Written("keys.npy", key_bytes);
  fs::remove_all(dir_.Join("store"));
  MakeStore("store");
  ASSERT_TRUE(Import(Of("rows.npy", "keys.npy"), GoOn, &report_).ok());
  EXPECT_EQ(Stored(), Expected(keys));
}

TEST_F(StoreImportTest, LaterRowsOfAKeyWin) {
  ASSERT_TRUE(Import(Written("records", RecordsOf({5, 6, 5})), GoOn, &report_).ok());
  EXPECT_EQ(Stored(), (Records{{5, ValueOf(2, 1)}, {6, ValueOf(1, 1)}}));
}

TEST_F(StoreImportTest, ShortRowsAreFilledWithZerosIfAsked) {
  Transfer transfer = Written("rows.npy", NpyStart("'|S5'", "(2,)") + "firstother");
  ExpectRefused(Import(transfer, GoOn, &report_), "rows of 5 bytes");
  transfer.pads = true;
  ASSERT_TRUE(Import(transfer, GoOn, &report_).ok());
  const std::string zeros(4091, '\0');
  EXPECT_EQ(Stored(), (Records{{0, "first" + zeros}, {1, "other" + zeros}}));
}

TEST_F(StoreImportTest, WrongSourcesWriteNothing) {
  ExpectRefused(Import(Written("rows.npy", NpyOfValues(3).substr(0, 9000)), GoOn, &report_),
                "not 3 rows");
  ExpectRefused(Import(Written("records", RecordsOf({1, 2}).substr(8)), GoOn, &report_), "rows");
  const std::string large = NpyStart("'|u1'", "(1, 4097)") + std::string(4097, 'x');
  Transfer padded = Written("rows.npy", large);
  padded.pads = true;
  ExpectRefused(Import(padded, GoOn, &report_), "rows of 4097 bytes");
  Written("rows.npy", NpyOfValues(3));
  const auto with_keys = [&](const std::string& bytes) {
    Written("keys.npy", bytes);
    return Import(Of("rows.npy", "keys.npy"), GoOn, &report_);
  };
  ExpectRefused(with_keys(NpyOfKeys({1, 2})), "2 keys for 3 rows");
  ExpectRefused(with_keys(NpyOfKeys({1, 2, 3}, "'<f8'")), "type '<f8'");
  ExpectRefused(with_keys(NpyStart("'<u8'", "(3, 2)") + std::string(48, 'x')), "one dimension");
  ExpectRefused(with_keys(NpyStart("'<u8'", "(3, 1)") + std::string(24, 'x')), "one dimension");
  ExpectRefused(with_keys(NpyOfKeys({1, 2, 3}).substr(0, 140)), "not 3 rows");
  ExpectRefused(with_keys(NpyOfKeys({7, ~uint64_t{0}, 9}, "'<i8'")),
                "record 1: its key is below 0");
  ExpectRefused(Import(Of("records", "keys.npy"), GoOn, &report_), "belong to arrays");
  EXPECT_EQ(Import(Of("nothing"), GoOn, &report_).code(), Code::kIOError);
  EXPECT_EQ(Stored(), Records());
}

TEST_F(StoreImportTest, AStoreThatIsMissingOrInUseIsRefused) {
  Transfer transfer = Written("rows.npy", NpyOfValues(3));
  {
    const std::unique_ptr<Store> store = Open();
    EXPECT_EQ(Import(transfer, GoOn, &report_).code(), Code::kIOError);
    EXPECT_EQ(Export(Of("out"), GoOn, &report_).code(), Code::kIOError);
  }
  transfer.dir = dir_.Join("new");
  EXPECT_EQ(Import(transfer, GoOn, &report_).code(), Code::kNotFound);
  EXPECT_FALSE(fs::exists(transfer.dir));
  transfer.creates = true;
  ASSERT_TRUE(Import(transfer, GoOn, &report_).ok());
  EXPECT_EQ(Stored("new"), Expected(RowNumbers(3)));
}

TEST_F(StoreImportTest, AnImportThatWasCancelledGoesOn) {
  Transfer transfer = Written("rows.npy", NpyOfValues(kCount));
  StopAt(5 * kPiece, Import, transfer);
  EXPECT_EQ(NotedIn("rows.npy.note"), 5 * kPiece);
  EXPECT_EQ(Stored(), Expected(RowNumbers(5 * kPiece)));
  // A call that goes on does not write this again.
  ASSERT_TRUE(Open()->Write(KeyOf(0), ValueOf(0, 2)).ok());
  transfer.resumes = true;
  ASSERT_TRUE(Import(transfer, GoOn, &report_).ok());
  EXPECT_EQ(report_.record_count, kCount);
  EXPECT_EQ(report_.moved_count, kCount - 5 * kPiece);
  Records expected = Expected(RowNumbers());
  expected[0].second = ValueOf(0, 2);
  EXPECT_EQ(Stored(), expected);
  EXPECT_FALSE(fs::exists(dir_.Join("rows.npy.note")));
  // Without a note all is written.
  ASSERT_TRUE(Import(transfer, GoOn, &report_).ok());
  EXPECT_EQ(report_.moved_count, kCount);
  EXPECT_EQ(Stored(), Expected(RowNumbers()));
}

TEST_F(StoreImportTest, WithoutResumeAnImportBeginsAnew) {
  const Transfer transfer = Written("rows.npy", NpyOfValues(kCount));
  StopAt(5 * kPiece, Import, transfer);
  StopAt(kPiece, Import, transfer);
  EXPECT_EQ(NotedIn("rows.npy.note"), kPiece);
}

TEST_F(StoreImportTest, ASourceThatIsCutShortMeanwhileFails) {
  Transfer transfer = Written("rows.npy", NpyOfValues(kCount));
  const Status cut = Import(
      transfer,
      [&](uint64_t done, uint64_t) {
        if (done == 4 * kPiece) fs::resize_file(transfer.file, 128 + 5 * kPiece * kValueBytes + 1);
        return true;
      },
      &report_);
  EXPECT_EQ(cut.code(), Code::kIOError) << cut.ToString();
  EXPECT_EQ(NotedIn("rows.npy.note"), 5 * kPiece);
  EXPECT_EQ(Stored(), Expected(RowNumbers(5 * kPiece)));
}

TEST_F(StoreImportTest, ANoteOfSomethingElseIsRefused) {
  Transfer transfer = Written("rows.npy", NpyOfValues(kCount));
  StopAt(kPiece, Import, transfer);
  transfer.resumes = true;
  const std::string note = ReadWhole(dir_.Join("rows.npy.note"));
  Transfer other = transfer;
  MakeStore("other");
  other.dir = dir_.Join("other");
  ExpectRefused(Import(other, GoOn, &report_), "note of another store");
  Written("keys.npy", NpyOfKeys(SpreadKeys()));
  other = transfer;
  other.keys = dir_.Join("keys.npy");
  ExpectRefused(Import(other, GoOn, &report_), "note of another store");
  fs::last_write_time(transfer.file, fs::file_time_type::clock::now() - std::chrono::hours(1));
  ExpectRefused(Import(transfer, GoOn, &report_), "note of another store");
  EXPECT_EQ(Stored("other"), Records());
}

TEST_F(StoreImportTest, AFileThatIsNoNoteIsNotReplaced) {
  Transfer transfer = Written("rows.npy", NpyOfValues(kCount));
  for (const char* const suffix : {".note", ".note.new"}) {
    for (const char* const text : {"mine", "[]", "{\"done\":1,\"key\":0,\"transfer\":1}x"}) {
      WriteWhole(transfer.file + suffix, text);
      for (const bool resumes : {false, true}) {
        // A file that begins as a note does may be what a kill has left of the next one.
        if (suffix == std::string(".note.new") && *text == '{' && text[1] == '"') continue;
        transfer.resumes = resumes;
        ExpectRefused(Import(transfer, GoOn, &report_), "is no note");
        EXPECT_EQ(ReadWhole(transfer.file + suffix), text);
      }
    }
    fs::remove(transfer.file + suffix);
  }
  // The note of an export.
  transfer.resumes = false;
  StopAt(0, Export, Of("out"));
  fs::rename(dir_.Join("out.note"), transfer.file + ".note");
  ExpectRefused(Import(transfer, GoOn, &report_), "is no note");
  EXPECT_EQ(Stored(), Records());
}

TEST_F(StoreImportTest, ANoteOfAStoreThatLayThereBeforeIsRefused) {
  Transfer transfer = Written("rows.npy", NpyOfValues(kCount));
  StopAt(kPiece, Import, transfer);
  fs::remove_all(transfer.dir);
  MakeStore("store");
  transfer.resumes = true;
  ExpectRefused(Import(transfer, GoOn, &report_), "note of another store");
  transfer.resumes = false;
  ASSERT_TRUE(Import(transfer, GoOn, &report_).ok());
  EXPECT_EQ(Stored(), Expected(RowNumbers()));
}

TEST_F(StoreImportTest, ANoteCountsNothingThatIsNotDurable) {
  Transfer transfer = Written("rows.npy", NpyOfValues(kCount));
  const auto fails = [&](auto move, const Transfer& which, const std::string& file) {
    FlushFailureHook failure(file);
    const test::ScopedHook scope(&failure);
    const Status status = move(
        which, [&](uint64_t done, uint64_t) { return done > 0 || failure.Arm(); }, &report_);
    EXPECT_EQ(status.code(), Code::kIOError);
    EXPECT_NE(status.message().find("after a failed sync"), std::string::npos) << status.ToString();
    EXPECT_EQ(report_.record_count, 3 * kPiece);
  };
  fails(Import, transfer, transfer.dir);
  EXPECT_EQ(NotedIn("rows.npy.note"), 0u);
  transfer.resumes = true;
  ASSERT_TRUE(Import(transfer, GoOn, &report_).ok());
  EXPECT_EQ(report_.moved_count, kCount);
  const Transfer out = Of("out");
  fails(Export, out, dir_.Join("out.part"));
  EXPECT_EQ(NotedIn("out.note"), 0u);
  EXPECT_FALSE(fs::exists(out.file));
}

TEST_F(StoreImportTest, ANoteKnowsAFileByAnyOfItsNames) {
  const std::string name = "rows\xff.npy";
  Transfer transfer = Written(name, NpyOfValues(kCount));
  StopAt(kPiece, Import, transfer);
  transfer.resumes = true;
  transfer.dir += "/";
  transfer.file = dir_.Join("./store/../" + name);
  ASSERT_TRUE(Import(transfer, GoOn, &report_).ok());
  EXPECT_EQ(report_.moved_count, kCount - kPiece);
}

TEST_F(StoreImportTest, ForANoteNoStoreIsMade) {
  Transfer transfer = Written("rows.npy", NpyOfValues(kCount));
  transfer.creates = true;
  StopAt(kPiece, Import, transfer);
  fs::remove_all(transfer.dir);
  transfer.resumes = true;
  EXPECT_EQ(Import(transfer, GoOn, &report_).code(), Code::kNotFound);
  EXPECT_FALSE(fs::exists(transfer.dir));
}

TEST_F(StoreImportTest, KilledAtAnyCallAnImportGoesOn) {
  const std::vector<uint64_t> keys = SpreadKeys();
  Transfer transfer = Written("records", RecordsOf(keys));
  uint64_t resumed_count = 0;
  for (uint64_t nth = 1;; nth += test::Sized(41, 151)) {
    transfer.resumes = false;
    if (DieAt(nth, Import, transfer)) break;
    transfer.resumes = true;
    const Status resumed = Import(transfer, GoOn, &report_);
    ASSERT_TRUE(resumed.ok()) << nth << ": " << resumed.ToString();
    resumed_count += report_.moved_count < kCount;
    ASSERT_EQ(Stored(), Expected(keys)) << nth;
    fs::remove_all(transfer.dir);
    MakeStore("store");
  }
  EXPECT_GT(resumed_count, 0u);
}

// Imports and exports of stores with values of other sizes.

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
