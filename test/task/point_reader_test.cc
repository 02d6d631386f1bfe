#include "engine_race/task/point_reader.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <string>

#include "engine_race/base/memory.h"
#include "test/log/log_test_util.h"

namespace engine_race::test {
namespace {

constexpr uint64_t kRecords = 6;

// One bucket: keys 0 to 3 are flushed, 4 and 5 staged.
class PointReaderTest : public ::testing::Test {
 protected:
  // Never used: the index is flat.
  BlockLookup lookup_;
  PointReaderTest() {
    options_ = TinyLogOptions();
    options_.bucket_count = options_.file_count = 1;
    log_ = OpenLog(options_, dir_.path());
    for (uint64_t key = 0; key < kRecords; ++key) Put(key, 1);
    EXPECT_TRUE(Index::Build(log_.get(), options_, &index_).ok());
    reader_ = std::make_unique<PointReader>(*log_, *index_, nullptr, /*verify_checksums=*/true);
    EXPECT_TRUE(Region::Allocate(kValueBytes, /*huge_pages=*/false, &buffer_).ok());
  }

  void Put(uint64_t key, uint64_t version) {
    ASSERT_TRUE(log_->Append(key, ValueOf(key, version).data()).ok());
  }
  void Damage(uint64_t slot) {
    Overwrite(dir_.Join("value_00"), "damage", 6, log_->slots().LocateValues(0, slot).offset + 100);
  }

  const TempDir dir_{FastParent()};
  Options options_;
  std::unique_ptr<BucketLog> log_;
  std::unique_ptr<Index> index_;
  std::unique_ptr<PointReader> reader_;
  Region buffer_;
};

TEST_F(PointReaderTest, LoggedAndStagedValuesReadAlike) {
  ASSERT_EQ(log_->LoggedValueWatermark(0), 4u);
  std::string value;
  for (uint64_t key = 0; key < kRecords; ++key) {
    ASSERT_TRUE(reader_->Read(key, &value).ok());
    EXPECT_EQ(value, ValueOf(key, 1));
  }
}

TEST_F(PointReaderTest, AFailureLeavesTheValueAsItWas) {
  Damage(2);
  std::string value = "as it was";
  EXPECT_EQ(reader_->Read(2, &value).code(), Code::kCorruption);
  EXPECT_EQ(reader_->Read(kRecords, &value).code(), Code::kNotFound);
  EXPECT_EQ(value, "as it was");
  ASSERT_TRUE(reader_->Read(1, &value).ok()) << "its neighbour is whole";
}

TEST_F(PointReaderTest, WithoutVerificationADamagedValueIsHandedOver) {
  Damage(2);
  const PointReader trusting(*log_, *index_, nullptr, /*verify_checksums=*/false);
  std::string value;
  EXPECT_TRUE(trusting.Read(2, &value).ok());
  EXPECT_NE(value, ValueOf(2, 1));
}

TEST_F(PointReaderTest, ReadsWhatAViewShows) {
  ViewRegistry::View view;
  ASSERT_TRUE(index_->views().Take(&view).ok());
  Put(1, 2);
  ASSERT_TRUE(reader_->ReadAt(1, view.version, buffer_.data()).ok());
  EXPECT_EQ(std::string(buffer_.data(), kValueBytes), ValueOf(1, 1));
  ASSERT_TRUE(reader_->ReadAt(1, kLatestVersion, buffer_.data()).ok());
  EXPECT_EQ(std::string(buffer_.data(), kValueBytes), ValueOf(1, 2));
  ViewRegistry::Release(&view);
}

// The steps of a read, as a task uses them: find, request, check, deliver.
TEST_F(PointReaderTest, ThePartsMakeUpARead) {
  PointReader::Found found;
  std::string value;
  ASSERT_TRUE(reader_->Find(5, kLatestVersion, &found, &lookup_, &value).ok());
  EXPECT_TRUE(found.staged);
  ASSERT_TRUE(reader_->ReadBlocking(found, buffer_.data()).ok());
  ASSERT_TRUE(reader_->Deliver(5, found, buffer_.data(), &value).ok());
  EXPECT_EQ(value, ValueOf(5, 1));

  ASSERT_TRUE(reader_->Find(3, kLatestVersion, &found, &lookup_, &value).ok());
  EXPECT_FALSE(found.staged);
  EXPECT_FALSE(found.delivered);
  const io::ReadRequest request = reader_->RequestFor(found, buffer_.data());
  EXPECT_EQ(request.size_bytes, kValueBytes);
  EXPECT_EQ(request.offset, log_->slots().LocateValues(0, 3).offset);
  ASSERT_TRUE(log_->slots()
                  .LocateValues(0, 3)
                  .file->Read(request.buffer, request.size_bytes, request.offset)
                  .ok());
  io::ReadCompletion completion;
  completion.read_bytes = kValueBytes;
  EXPECT_TRUE(reader_->Check(found, completion).ok());
  ASSERT_TRUE(reader_->Deliver(3, found, buffer_.data(), &value).ok());
  EXPECT_EQ(value, ValueOf(3, 1));
}

TEST_F(PointReaderTest, ThePartsMakeUpAReadAtAView) {
  ViewRegistry::View view;
  ASSERT_TRUE(index_->views().Take(&view).ok());
  PointReader::Found found;
  std::string value;
  ASSERT_TRUE(reader_->Find(5, view.version, &found, &lookup_, &value).ok());
  EXPECT_TRUE(found.staged && found.version == view.version);
  ASSERT_TRUE(reader_->ReadBlocking(found, buffer_.data()).ok());
  ASSERT_TRUE(reader_->Deliver(5, found, buffer_.data(), &value).ok());
  EXPECT_EQ(value, ValueOf(5, 1));

  Put(3, 2);
  ASSERT_TRUE(reader_->Find(3, view.version, &found, &lookup_, &value).ok());
  EXPECT_FALSE(found.staged);
  EXPECT_FALSE(found.delivered);
  EXPECT_EQ(reader_->RequestFor(found, buffer_.data()).offset,
            log_->slots().LocateValues(0, 3).offset);
  ASSERT_TRUE(reader_->Read(3, &value, view.version).ok());
  EXPECT_EQ(value, ValueOf(3, 1));
  EXPECT_EQ(reader_->Read(kRecords, &value, view.version).code(), Code::kNotFound);
  EXPECT_EQ(value, ValueOf(3, 1));
  ViewRegistry::Release(&view);
}

TEST_F(PointReaderTest, ARequestThatFailedOrCameOutShortIsAnIOErrorThatNamesTheFile) {
  PointReader::Found found;
  std::string value;
  ASSERT_TRUE(reader_->Find(3, kLatestVersion, &found, &lookup_, &value).ok());
  io::ReadCompletion failed;
  failed.error = EIO;
  EXPECT_EQ(reader_->Check(found, failed).code(), Code::kIOError);
  EXPECT_NE(reader_->Check(found, failed).message().find("value_00"), std::string::npos);
  io::ReadCompletion short_read;
  short_read.read_bytes = kValueBytes - 512;
  EXPECT_EQ(reader_->Check(found, short_read).code(), Code::kIOError);
}

}  // namespace
}  // namespace engine_race::test
