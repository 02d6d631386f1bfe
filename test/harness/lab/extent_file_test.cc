#include "harness/lab/extent_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "test/faults/system_calls.h"
#include "test/harness/lab/table_test_util.h"
#include "test/index/refused_memory.h"

namespace engine_race::test {
namespace {

using ::harness::TableShape;
using ::lab::ExtentFile;
using ::lab::ExtentFileBuilder;
using ::lab::kBlockBytes;
using ::lab::kTreeEncoding;
using ::lab::TreeBlock;

constexpr TableShape kFileShape = {16, 200};

class ExtentFileTest : public ::testing::Test {
 protected:
  // Two extents, the second one short.
  void BuildTwoExtents() {
    std::mt19937_64 random(1);
    records_ = RandomRecords(KeyKind::kRandom, kFileShape, 12000, &random);
    ASSERT_TRUE(dir_.Build("t", kFileShape, kTreeEncoding, records_).ok());
    ASSERT_TRUE(Open().ok());
    ASSERT_EQ(file_->extent_count(), 2u);
    ASSERT_LT(file_->block_count(1), file_->block_count(0));
  }
  Status Open() { return ExtentFile::Open(dir_.fd(), "t", &file_); }

  // Reads blocks as a table does, but keeps none in memory.
  Status Get(const std::string& key, std::string* payload) {
    Region block;
    ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(kBlockBytes, /*huge_pages=*/false, &block));
    const uint32_t extent = file_->root().Find(key.data());
    if (extent == file_->extent_count()) return Status::NotFound();
    const ::lab::NodeSearchFn search = ::lab::NodeSearchKernel(::lab::NodeSearch::kEarlyExit);
    ENGINE_RACE_RETURN_IF_ERROR(file_->ReadBlock(extent, 0, block.data()));
    const uint32_t rank = TreeBlock(block.data()).LowerBound(key.data(), search);
    ENGINE_RACE_RETURN_IF_ERROR(file_->ReadBlock(extent, rank + 1, block.data()));
    const char* const found = TreeBlock(block.data()).Find(key.data(), search);
    if (found == nullptr) return Status::NotFound();
    payload->assign(found, kFileShape.payload_bytes);
    return Status::Ok();
  }

  void FlipBit(uint64_t offset, int bit) {
    std::fstream file(dir_.Join("t"), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    const auto byte = static_cast<char>(file.get() ^ (1 << bit));
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(byte);
  }
  std::string ReadAt(uint64_t offset, size_t size) {
    std::string bytes(size, '\0');
    std::ifstream file(dir_.Join("t"), std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    file.read(bytes.data(), static_cast<std::streamsize>(size));
    return bytes;
  }
  void WriteAt(uint64_t offset, const std::string& bytes) {
    std::fstream file(dir_.Join("t"), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offset));
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  static uint64_t OffsetOf(uint32_t extent, uint32_t block) {
    return kBlockBytes + uint64_t{extent} * ::lab::kExtentBytes + uint64_t{block} * kBlockBytes;
  }

  TableDir dir_;
  Records records_;
  std::unique_ptr<ExtentFile> file_;
};

TEST_F(ExtentFileTest, HasEveryRecord) {
  BuildTwoExtents();
  EXPECT_EQ(file_->record_count(), records_.size());
  EXPECT_EQ(file_->encoding(), kTreeEncoding.number);
  size_t place = 0;
  for (const auto& [key, payload] : records_) {
    if (place++ % 37 != 0) continue;
    std::string found;
    ASSERT_TRUE(Get(key, &found).ok());
    ASSERT_EQ(found, payload);
  }
}

TEST_F(ExtentFileTest, ATableOfNothingIsATable) {
  ASSERT_TRUE(dir_.Build("t", kFileShape, kTreeEncoding, {}).ok());
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(file_->extent_count(), 0u);
  std::string payload;
  EXPECT_EQ(Get(std::string(16, 'k'), &payload).code(), Code::kNotFound);
}

TEST_F(ExtentFileTest, KeysMustAscendAndSizesBeKnown) {
  std::unique_ptr<ExtentFileBuilder> builder;
  for (const TableShape shape : {TableShape{7, 8}, TableShape{16, 7}, TableShape{16, 257}}) {
    EXPECT_EQ(ExtentFileBuilder::Create(dir_.fd(), "t", shape, kTreeEncoding, &builder).code(),
              Code::kInvalidArgument);
  }
  ASSERT_TRUE(ExtentFileBuilder::Create(dir_.fd(), "t", kFileShape, kTreeEncoding, &builder).ok());
  const std::string payload(kFileShape.payload_bytes, 'p');
  ASSERT_TRUE(builder->Add("bbbbbbbbbbbbbbbb", payload.data()).ok());
  EXPECT_EQ(builder->Add("bbbbbbbbbbbbbbbb", payload.data()).code(), Code::kInvalidArgument);
  EXPECT_EQ(builder->Add("abbbbbbbbbbbbbbb", payload.data()).code(), Code::kInvalidArgument);
  EXPECT_TRUE(builder->Add("cbbbbbbbbbbbbbbb", payload.data()).ok());
  EXPECT_TRUE(builder->Finish().ok());
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(file_->record_count(), 2u);
}

TEST_F(ExtentFileTest, AFlippedBitIsCorruptionThatSaysWhere) {
  BuildTwoExtents();
  std::mt19937_64 random(2);
  for (int i = 0; i < 300; ++i) {
    const auto extent = static_cast<uint32_t>(random() % 2);
    const auto block = static_cast<uint32_t>(random() % (file_->block_count(extent) + 1));
    const uint64_t offset = OffsetOf(extent, block) + random() % kBlockBytes;
    const int bit = static_cast<int>(random() % 8);
    FlipBit(offset, bit);
    Region data;
    ASSERT_TRUE(Region::Allocate(kBlockBytes, /*huge_pages=*/false, &data).ok());
    const Status status = file_->ReadBlock(extent, block, data.data());
    EXPECT_EQ(status.code(), Code::kCorruption);
    EXPECT_NE(status.message().find("t: extent " + std::to_string(extent) + ", block " +
                                    std::to_string(block) + " "),
              std::string::npos)
        << status.ToString();
    FlipBit(offset, bit);
    EXPECT_TRUE(file_->ReadBlock(extent, block, data.data()).ok());
  }
}

TEST_F(ExtentFileTest, ADamagedHeaderOrRootDoesNotOpen) {
  BuildTwoExtents();
  const uint64_t root_offset = OffsetOf(1, file_->block_count(1) + 1);
  for (uint64_t offset = 0; offset < 80; ++offset) {
    for (const int bit : {0, 7}) {
      FlipBit(offset, bit);
      const Status status = Open();
      EXPECT_TRUE(status.code() == Code::kCorruption || status.code() == Code::kNotSupported)
          << offset << ": " << status.ToString();
      FlipBit(offset, bit);
    }
  }
  ASSERT_EQ(std::filesystem::file_size(dir_.Join("t")), root_offset + kBlockBytes);
  for (uint64_t offset = root_offset; offset < root_offset + 2 * (16 + 4); ++offset) {
    FlipBit(offset, 3);
    EXPECT_EQ(Open().code(), Code::kCorruption) << offset;
    FlipBit(offset, 3);
  }
  EXPECT_TRUE(Open().ok());
}

TEST_F(ExtentFileTest, BlocksThatChangePlacesAreCorruption) {
  BuildTwoExtents();
  const auto swap = [&](uint64_t a, uint64_t b) {
    const std::string at_a = ReadAt(a, kBlockBytes);
    WriteAt(a, ReadAt(b, kBlockBytes));
    WriteAt(b, at_a);
  };
  Region data;
  ASSERT_TRUE(Region::Allocate(kBlockBytes, /*huge_pages=*/false, &data).ok());
  const std::pair<uint32_t, uint32_t> places[] = {{0, 0}, {0, 1}, {0, 50}, {1, 0}, {1, 1}};
  for (const auto& [extent, block] : places) {
    for (const auto& [other_extent, other_block] : places) {
      if (extent == other_extent && block == other_block) continue;
      swap(OffsetOf(extent, block), OffsetOf(other_extent, other_block));
      EXPECT_EQ(file_->ReadBlock(extent, block, data.data()).code(), Code::kCorruption);
      swap(OffsetOf(extent, block), OffsetOf(other_extent, other_block));
    }
  }
}

TEST_F(ExtentFileTest, ABlockOfAnOlderTableIsCorruption) {
  BuildTwoExtents();
  const std::string old_block = ReadAt(OffsetOf(0, 1), kBlockBytes);
  ASSERT_TRUE(dir_.Build("t", kFileShape, kTreeEncoding, records_).ok());
  ASSERT_TRUE(Open().ok());
  Region data;
  ASSERT_TRUE(Region::Allocate(kBlockBytes, /*huge_pages=*/false, &data).ok());
  ASSERT_TRUE(file_->ReadBlock(0, 1, data.data()).ok());
  WriteAt(OffsetOf(0, 1), old_block);
  EXPECT_EQ(file_->ReadBlock(0, 1, data.data()).code(), Code::kCorruption);
}

TEST_F(ExtentFileTest, AFileThatWasCutOffDoesNotOpen) {
  BuildTwoExtents();
  const uint64_t whole = std::filesystem::file_size(dir_.Join("t"));
  for (const uint64_t left : {whole - 1, whole - kBlockBytes, whole / 2, uint64_t{kBlockBytes},
                              uint64_t{80}, uint64_t{0}}) {
    std::filesystem::resize_file(dir_.Join("t"), left);
    EXPECT_EQ(Open().code(), Code::kCorruption) << left;
  }
}

TEST_F(ExtentFileTest, AnInterruptedBuildingLeavesTheOldTable) {
  BuildTwoExtents();
  {
    std::unique_ptr<ExtentFileBuilder> builder;
    ASSERT_TRUE(
        ExtentFileBuilder::Create(dir_.fd(), "t", kFileShape, kTreeEncoding, &builder).ok());
    size_t added = 0;
    for (const auto& [key, payload] : records_) {
      if (added++ == records_.size() - 10) break;
      ASSERT_TRUE(builder->Add(key.data(), PayloadOf(key, 200, /*version=*/1).data()).ok());
    }
  }
  ASSERT_TRUE(Open().ok());
  std::string payload;
  ASSERT_TRUE(Get(records_.begin()->first, &payload).ok());
  EXPECT_EQ(payload, records_.begin()->second);

  // The next table is complete, and nothing of the unfinished one is left or is in it.
  const Records one = {*records_.begin()};
  ASSERT_TRUE(dir_.Build("t", kFileShape, kTreeEncoding, one).ok());
  size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(dir_.Join("."))) {
    ++files;
  }
  EXPECT_EQ(files, 1u);
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(file_->record_count(), 1u);
  EXPECT_LE(std::filesystem::file_size(dir_.Join("t")), 4 * kBlockBytes);
}

TEST_F(ExtentFileTest, WhoHasAReplacedTableOpenKeepsIt) {
  BuildTwoExtents();
  Records newer;
  for (const auto& [key, payload] : records_) newer[key] = PayloadOf(key, 200, /*version=*/1);
  ASSERT_TRUE(dir_.Build("t", kFileShape, kTreeEncoding, newer).ok());
  const std::string key = std::next(records_.begin(), 5000)->first;
  std::string payload;
  ASSERT_TRUE(Get(key, &payload).ok());
  EXPECT_EQ(payload, records_[key]);
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(Get(key, &payload).ok());
  EXPECT_EQ(payload, newer[key]);
}

// The nth call of a kind fails.
class FailNth : public SystemCallHook {
 public:
  FailNth(CallKind kind, int nth, int error) : kind_(kind), left_(nth), error_(error) {}
  long OnCall(SystemCall* call) override {
    if (call->kind == kind_ && left_-- == 0) {
      errno = error_;
      return -1;
    }
    return call->Proceed();
  }
  bool met() const { return left_ < 0; }

 private:
  const CallKind kind_;
  int left_;
  const int error_;
};

TEST_F(ExtentFileTest, AFailedCallWhileBuildingLeavesTheOldTable) {
  BuildTwoExtents();
  const Records one = {*records_.begin()};
  int met = 0;
  for (const CallKind kind : {CallKind::kOpenAt, CallKind::kPwrite, CallKind::kFsync,
                              CallKind::kFtruncate, CallKind::kRenameAt, CallKind::kMmap}) {
    for (int nth = 0;; ++nth) {
      ASSERT_TRUE(dir_.Build("t", kFileShape, kTreeEncoding, records_).ok());
      FailNth fail(kind, nth, kind == CallKind::kMmap ? ENOMEM : EIO);
      Status status;
      {
        const ScopedHook hook(&fail);
        status = dir_.Build("t", kFileShape, kTreeEncoding, one);
      }
      if (!fail.met()) {
        EXPECT_TRUE(status.ok()) << status.ToString();
        break;
      }
      ++met;
      EXPECT_FALSE(status.ok()) << CallName(kind) << " " << nth;
      ASSERT_TRUE(Open().ok());
      // The new table has its name only if the flush of the directory failed.
      if (file_->record_count() != records_.size()) {
        EXPECT_EQ(kind, CallKind::kFsync);
        EXPECT_EQ(file_->record_count(), 1u);
      }
    }
  }
  EXPECT_GE(met, 8);
}

TEST_F(ExtentFileTest, RefusedMemoryIsAnAnswer) {
  BuildTwoExtents();
  const std::string name = "refused";
  bool refused = true;
  for (uint64_t passed = 0; refused; ++passed) {
    Status status;
    {
      const RefuseMemory refuse(passed);
      std::unique_ptr<ExtentFileBuilder> builder;
      status = ExtentFileBuilder::Create(dir_.fd(), name, kFileShape, kTreeEncoding, &builder);
      for (auto at = records_.begin(); status.ok() && at != records_.end(); ++at) {
        if (std::distance(records_.begin(), at) > 300) break;
        status = builder->Add(at->first.data(), at->second.data());
      }
      if (status.ok()) status = builder->Finish();
      if (status.ok()) status = ExtentFile::Open(dir_.fd(), name, &file_);
      refused = refuse.refused();
    }
    EXPECT_EQ(status.code(), refused ? Code::kOutOfMemory : Code::kOk) << passed;
  }
}

}  // namespace
}  // namespace engine_race::test
