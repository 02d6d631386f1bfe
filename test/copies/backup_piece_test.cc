// Backups of values of any size: what is written is walked again, and restored, and what does not
// fit is refused.
#include "engine_race/copies/backup_piece.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "engine_race/base/checksum.h"
#include "engine_race/copies/backup_chain.h"
#include "engine_race/copies/copies.h"
#include "test/log/log_test_util.h"

namespace engine_race::test {
namespace {

constexpr uint64_t kStoreId = 11;

class BackupPieceTest : public testing::TestWithParam<uint32_t> {
 protected:
  // Several pieces: of small values for the number of keys, of large ones for their bytes.
  uint64_t RecordCount() const { return GetParam() > 1536 ? (5 << 20) / GetParam() / 2 : 9000; }
  static bool IsChanged(uint64_t key) { return key % 3 == 1; }
  static uint64_t VersionOf(uint64_t key) { return IsChanged(key) ? 2 : 1; }

  std::string DirOf(const std::string& name) const { return dir_.Join(name); }

  // A backup of keys 0 to RecordCount() - 1 in bucket 0, and of none in the others. With a parent
  // it has the values of those that changed.
  void Write(const std::string& name, uint32_t value_bytes, const BackupIdentity* parent,
             BackupIdentity* identity) {
    UniqueFd directory;
    ASSERT_TRUE(sys::OpenDirectory(DirOf(name), /*create=*/true, &directory).ok());
    io::File data;
    ASSERT_TRUE(io::File::Open(directory.get(), format::kBackupDataName, io::Access::kReplace,
                               io::Caching::kDirect, &data, 0600)
                    .ok());
    *identity = {};
    Options options = SizedLogOptions(value_bytes);
    options.bucket_capacity_records = 16384;
    identity->SetGeometry(GeometryFrom(options));
    format::BackupManifest& manifest = identity->manifest;
    manifest.store_id = kStoreId;
    manifest.chain_length = parent == nullptr ? 1 : 2;
    manifest.backup_id = manifest.chain_length + 100;
    if (parent != nullptr) {
      manifest.parent_id = parent->manifest.backup_id;
      manifest.parent_checksum = parent->manifest.checksum;
      std::strcpy(manifest.parent_name, DirOf("first").c_str());
    }
    identity->cut.assign(manifest.bucket_count, 0);
    PieceTotals totals;
    PieceWriter writer(data, manifest.backup_id, value_bytes, &totals);
    ASSERT_TRUE(writer.Init().ok());
    for (uint64_t key = 0; key < RecordCount(); ++key) {
      const bool is_here = parent == nullptr || IsChanged(key);
      // No byte behind it may be read.
      const std::string value = ValueOf(key, manifest.chain_length, value_bytes);
      const std::vector<char> exact(value.begin(), value.end());
      ASSERT_TRUE(
          writer.Add(0, key, is_here ? exact.data() : nullptr, HashValue(exact.data(), value_bytes))
              .ok());
    }
    ASSERT_TRUE(writer.Finish(0).ok());
    ASSERT_TRUE(writer.Finish(1).ok());
    manifest.record_count = totals.record_count.load();
    manifest.value_count = totals.value_count.load();
    manifest.piece_count = totals.piece_count.load();
    manifest.data_bytes = totals.next_offset.load();
    manifest.piece_checksum_sum = totals.checksum_sum.load();
    ASSERT_TRUE(CommitBackup(directory.get(), identity, 0600).ok());
  }

  // Changes the manifest of "first" and gives it a good checksum again.
  template <typename Edit>
  Code CodeAfter(const BackupIdentity& identity, const Edit& edit) {
    UniqueFd directory;
    EXPECT_TRUE(sys::OpenDirectory(DirOf("first"), /*create=*/false, &directory).ok());
    BackupIdentity changed = identity;
    edit(&changed.manifest);
    EXPECT_TRUE(CommitBackup(directory.get(), &changed, 0600).ok());
    BackupChain chain;
    return chain.Open(DirOf("first")).code();
  }

  const TempDir dir_{FastParent()};
};

INSTANTIATE_TEST_SUITE_P(Sizes, BackupPieceTest, testing::ValuesIn(kValueSizes),
                         testing::PrintToStringParamName());

TEST_P(BackupPieceTest, PiecesHaveAboutAMebibyteOfValues) {
  BackupIdentity first;
  ASSERT_NO_FATAL_FAILURE(Write("first", GetParam(), nullptr, &first));
  EXPECT_EQ(first.manifest.record_count, RecordCount());
  EXPECT_EQ(first.manifest.value_count, RecordCount());
  EXPECT_GE(first.manifest.piece_count, 2u);
  EXPECT_EQ(first.manifest.data_bytes % 4096, 0u);
  const uint64_t piece_bytes = first.manifest.data_bytes / first.manifest.piece_count;
  EXPECT_LE(piece_bytes, (1u << 20) + (128u << 10));
  EXPECT_EQ(std::filesystem::file_size(DirOf("first") + "/" + format::kBackupDataName),
            first.manifest.data_bytes);
  // Earlier builds read backups of 4096, and refuse others.
  EXPECT_EQ(first.manifest.backup_version, GetParam() == 4096 ? 1u : 2u);
  EXPECT_EQ(first.manifest.value_bytes, GetParam() == 4096 ? 0u : GetParam());
}

TEST_P(BackupPieceTest, AChainIsWalkedAndRestored) {
  BackupIdentity first;
  BackupIdentity second;
  ASSERT_NO_FATAL_FAILURE(Write("first", GetParam(), nullptr, &first));
  ASSERT_NO_FATAL_FAILURE(Write("second", GetParam(), &first, &second));
  BackupChain chain;
  const Status opened = chain.Open(DirOf("second"));
  ASSERT_TRUE(opened.ok()) << opened.ToString();
  EXPECT_EQ(chain.newest().geometry.value_bytes(), GetParam());
  uint64_t next_key = 0;
  const Status walked = chain.WalkBucket(0, [&](uint64_t key, const char* value) {
    EXPECT_EQ(key, next_key);
    EXPECT_TRUE(std::string(value, GetParam()) == ValueOf(key, VersionOf(key), GetParam())) << key;
    ++next_key;
    return Status::Ok();
  });
  ASSERT_TRUE(walked.ok()) << walked.ToString();
  EXPECT_EQ(next_key, RecordCount());

  const Status restored = RestoreStore({}, DirOf("second"), DirOf("store"), nullptr, {});
  ASSERT_TRUE(restored.ok()) << restored.ToString();
  VerifyReport report;
  EXPECT_TRUE(VerifyStore(DirOf("store"), &report, {}).ok());
  EXPECT_EQ(report.record_count, RecordCount());
  const auto log = OpenLog(SizedLogOptions(GetParam()), DirOf("store"));
  ASSERT_NE(log, nullptr);
  for (uint64_t slot = 0; slot < RecordCount(); slot += 1 + RecordCount() / 50) {
    EXPECT_TRUE(ReadSlot(*log, 0, slot) == ValueOf(slot, VersionOf(slot), GetParam())) << slot;
  }
}

// The last byte of the last value: zeros follow.
TEST_P(BackupPieceTest, ADamagedValueIsFound) {
  BackupIdentity first;
  ASSERT_NO_FATAL_FAILURE(Write("first", GetParam(), nullptr, &first));
  const std::string file = DirOf("first") + "/" + format::kBackupDataName;
  const uint64_t last_piece_values = RecordCount() % format::BackupPieceValues(GetParam()) == 0
                                         ? format::BackupPieceValues(GetParam())
                                         : RecordCount() % format::BackupPieceValues(GetParam());
  const uint64_t padding = (4096 - last_piece_values * GetParam() % 4096) % 4096;
  UniqueFd fd;
  char byte = 0;
  ASSERT_TRUE(sys::OpenAt(AT_FDCWD, file, O_RDWR, 0, &fd).ok());
  const uint64_t at = first.manifest.data_bytes - padding - 1;
  ASSERT_TRUE(sys::PreadFull(fd.get(), &byte, 1, at).ok());
  byte = static_cast<char>(~byte);
  ASSERT_TRUE(sys::PwriteFull(fd.get(), &byte, 1, at).ok());
  EXPECT_EQ(VerifyBackupFiles(DirOf("first"), nullptr, {}).code(), Code::kCorruption);
  byte = static_cast<char>(~byte);
  ASSERT_TRUE(sys::PwriteFull(fd.get(), &byte, 1, at).ok());
  EXPECT_TRUE(VerifyBackupFiles(DirOf("first"), nullptr, {}).ok());
}

TEST_P(BackupPieceTest, AParentWithValuesOfAnotherSizeIsRefused) {
  BackupIdentity first;
  BackupIdentity second;
  ASSERT_NO_FATAL_FAILURE(Write("first", 16, nullptr, &first));
  ASSERT_NO_FATAL_FAILURE(Write("second", GetParam(), &first, &second));
  BackupChain chain;
  EXPECT_EQ(chain.Open(DirOf("second")).code(), Code::kInvalidArgument);
}

TEST_P(BackupPieceTest, OtherVersionsAndImpossibleSizesAreRefused) {
  using Manifest = format::BackupManifest;
  BackupIdentity first;
  ASSERT_NO_FATAL_FAILURE(Write("first", GetParam(), nullptr, &first));
  const auto code_after = [&](const auto& edit) { return CodeAfter(first, edit); };
  EXPECT_EQ(code_after([](Manifest*) {}), Code::kOk);
  for (const uint32_t version : {0, 3}) {
    EXPECT_EQ(code_after([&](Manifest* m) { m->backup_version = version; }), Code::kNotSupported);
  }
  for (const uint32_t size : {0, 7, (1 << 20) + 1}) {
    EXPECT_EQ(code_after([&](Manifest* m) { m->backup_version = 2, m->value_bytes = size; }),
              Code::kNotSupported)
        << size;
  }
  if (GetParam() == 4096) {
    EXPECT_EQ(code_after([&](Manifest* m) { m->backup_version = 2, m->value_bytes = 4096; }),
              Code::kOk);
  }
}

}  // namespace
}  // namespace engine_race::test
