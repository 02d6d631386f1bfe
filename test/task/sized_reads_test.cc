// Reads of values of other sizes: alone, by the steps of a task, and many at a time.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine_race/base/memory.h"
#include "engine_race/base/sys.h"
#include "engine_race/index/index.h"
#include "engine_race/log/bucket_log.h"
#include "engine_race/task/point_reader.h"
#include "engine_race/task/read_pool.h"
#include "engine_race/task/read_worker.h"
#include "test/test_util.h"

namespace engine_race::test {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// One bucket. The last records are staged.
class SizedReadsTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  SizedReadsTest() {
    options_.value_bytes = GetParam();
    options_.bucket_count = options_.file_count = 1;
    options_.value_group_bytes = 4096;
    options_.worker_count = 2;
    options_.tasks_per_worker = 16;
    EXPECT_TRUE(BucketLog::Open(options_, dir_.path(), &log_).ok());
    // More than a segment, where that is no large file.
    record_count_ = value_bytes() > 64 * 1024 ? 9 : 301;
    for (uint64_t key = 0; key < record_count_; ++key) Put(key, 1);
    EXPECT_TRUE(Index::Build(log_.get(), options_, &index_).ok());
    reader_ = std::make_unique<PointReader>(*log_, *index_, nullptr, /*verify_checksums=*/true);
    EXPECT_TRUE(
        Region::Allocate(reader_->layout().read_bytes(), /*huge_pages=*/false, &buffer_).ok());
  }

  uint32_t value_bytes() const { return GetParam(); }
  void Put(uint64_t key, uint64_t version) {
    ASSERT_TRUE(log_->Append(key, ValueOf(key, version, value_bytes()).data()).ok());
  }
  bool IsStaged(uint64_t slot) const { return !log_->Logged(0).Contains(slot); }

  const TempDir dir_{FastParent()};
  Options options_;
  uint64_t record_count_ = 0;
  std::unique_ptr<BucketLog> log_;
  std::unique_ptr<Index> index_;
  std::unique_ptr<PointReader> reader_;
  Region buffer_;
};

TEST_P(SizedReadsTest, EveryValueIsReadWhole) {
  EXPECT_FALSE(IsStaged(0));
  std::string value;
  for (uint64_t key = 0; key < record_count_; ++key) {
    ASSERT_TRUE(reader_->Read(key, &value).ok()) << key;
    ASSERT_TRUE(value == ValueOf(key, 1, value_bytes())) << key;
  }
  EXPECT_EQ(reader_->Read(record_count_, &value).code(), Code::kNotFound);
}

TEST_P(SizedReadsTest, MemoryOfTheCallerBehindAValueIsLeftAlone) {
  std::string row(value_bytes() + 1, '!');
  for (uint64_t key = 0; key < record_count_; ++key) {
    ASSERT_TRUE(reader_->Read(key, ValueSink(row.data())).ok()) << key;
    ASSERT_TRUE(row == ValueOf(key, 1, value_bytes()) + '!') << key;
  }
}

TEST_P(SizedReadsTest, AViewsValueIsAtTheBeginningOfTheBuffer) {
  ViewRegistry::View view;
  ASSERT_TRUE(index_->views().Take(&view).ok());
  Put(1, 2);
  for (uint64_t key = 0; key < record_count_; ++key) {
    ASSERT_TRUE(reader_->ReadAt(key, view.version, buffer_.data()).ok()) << key;
    const std::string_view read(buffer_.data(), value_bytes());
    ASSERT_TRUE(read == ValueOf(key, 1, value_bytes())) << key;
  }
  std::string value;
  ASSERT_TRUE(reader_->Read(1, &value, kLatestVersion).ok());
  EXPECT_TRUE(value == ValueOf(1, 2, value_bytes()));
  ViewRegistry::Release(&view);
}

TEST_P(SizedReadsTest, ARequestIsOfTheBlocksAroundAValue) {
  std::string value;
  for (uint64_t key = 0; key < record_count_; ++key) {
    PointReader::Found found;
    BlockLookup lookup;
    ASSERT_TRUE(reader_->Find(key, kLatestVersion, &found, &lookup, &value).ok());
    if (found.staged) {
      ASSERT_TRUE(reader_->ReadBlocking(found, buffer_.data()).ok());
    } else {
      const io::ReadRequest request = reader_->RequestFor(found, buffer_.data());
      const SlotLocation at = log_->slots().LocateValues(0, found.ref.slot());
      ASSERT_EQ(request.offset % kIoAlignment, 0u);
      ASSERT_EQ(request.size_bytes % kIoAlignment, 0u);
      ASSERT_LE(request.size_bytes, buffer_.size());
      ASSERT_LE(request.offset, at.offset);
      ASSERT_GE(request.offset + request.size_bytes, at.offset + value_bytes());
      ASSERT_TRUE(at.file->Read(request.buffer, request.size_bytes, request.offset).ok());
      io::ReadCompletion completion;
      completion.read_bytes = request.size_bytes;
      ASSERT_TRUE(reader_->Check(found, completion).ok());
      completion.read_bytes -= 1;
      ASSERT_EQ(reader_->Check(found, completion).code(), Code::kIOError);
    }
    ASSERT_TRUE(reader_->Deliver(key, found, buffer_.data(), &value).ok()) << key;
    ASSERT_TRUE(value == ValueOf(key, 1, value_bytes())) << key;
  }
}

TEST_P(SizedReadsTest, ManyAreReadIntoRowsAndStrings) {
  for (const IoBackend backend : {IoBackend::kPsync, IoBackend::kLibaio, IoBackend::kIoUring}) {
    options_.io_backend = backend;
    ReadPool pool(*reader_, options_, {});
    std::vector<uint64_t> keys;
    for (uint64_t key = 0; key <= record_count_; ++key) keys.push_back(key * 7 % record_count_);
    keys.back() = record_count_;
    std::string rows(keys.size() * value_bytes(), '!');
    std::vector<Code> codes(keys.size());
    pool.MultiRead(keys, rows.data(), codes);
    std::vector<std::string> key_bytes;
    for (const uint64_t key : keys) key_bytes.push_back(KeyOf(key));
    const std::vector<std::string_view> names(key_bytes.begin(), key_bytes.end());
    std::vector<std::string> values(keys.size());
    std::vector<Status> statuses(keys.size());
    pool.MultiRead(names, values, statuses);
    for (size_t i = 0; i < record_count_; ++i) {
      const std::string expected = ValueOf(keys[i], 1, value_bytes());
      ASSERT_EQ(codes[i], Code::kOk);
      ASSERT_TRUE(rows.compare(i * value_bytes(), value_bytes(), expected) == 0) << keys[i];
      ASSERT_TRUE(statuses[i].ok());
      ASSERT_TRUE(values[i] == expected) << keys[i];
    }
    EXPECT_EQ(codes.back(), Code::kNotFound);
    EXPECT_EQ(rows.substr(record_count_ * value_bytes()), std::string(value_bytes(), '!'));
    EXPECT_EQ(statuses.back().code(), Code::kNotFound);
    EXPECT_LE(pool.memory_bytes(), ReadPool::MaxMemoryBytes(options_, reader_->layout()));
  }
}

TEST_P(SizedReadsTest, ADamagedValueIsRefusedAndItsNeighboursAreNot) {
  const SlotLocation at = log_->slots().LocateValues(0, 1);
  UniqueFd fd;
  ASSERT_TRUE(sys::OpenAt(AT_FDCWD, dir_.Join("value_00"), O_RDWR, 0, &fd).ok());
  char byte = 0;
  ASSERT_EQ(::pread(fd.get(), &byte, 1, static_cast<off_t>(at.offset + value_bytes() - 1)), 1);
  byte ^= 1;
  ASSERT_TRUE(sys::PwriteFull(fd.get(), &byte, 1, at.offset + value_bytes() - 1).ok());
  ReadPool pool(*reader_, options_, {});
  const std::vector<uint64_t> keys = {0, 1, 2};
  std::string rows(keys.size() * value_bytes(), '!');
  std::vector<Code> codes(keys.size());
  pool.MultiRead(keys, rows.data(), codes);
  EXPECT_EQ(codes, (std::vector<Code>{Code::kOk, Code::kCorruption, Code::kOk}));
  std::string value;
  EXPECT_EQ(reader_->Read(1, &value).code(), Code::kCorruption);
}

INSTANTIATE_TEST_SUITE_P(Sizes, SizedReadsTest, ::testing::ValuesIn(kValueSizes));

TEST(WorkerBuffersTest, TakeNoMoreThanTheirPartOfTheBudget) {
  Options options;
  options.worker_count = 2;
  options.tasks_per_worker = 128;
  const auto count = [&](uint64_t budget_bytes, uint32_t value_bytes) {
    options.memory_budget_bytes = budget_bytes;
    return ReadWorker::TaskCount(options, ValueLayout(value_bytes));
  };
  for (const uint64_t budget_bytes : {16 * kMiB, 1024 * kMiB, kAutoBytes}) {
    EXPECT_EQ(count(budget_bytes, 4096), 128u);
    EXPECT_EQ(count(budget_bytes, 512), 128u) << "a slot never lies in two blocks";
  }
  EXPECT_EQ(count(kAutoBytes, 100), 128u);
  EXPECT_EQ(count(kAutoBytes, 1048576), 16u) << "16 MiB";
  EXPECT_EQ(count(256 * kMiB, 1048576), 8u) << "a sixteenth, for both";
  EXPECT_EQ(count(16 * kMiB, 1048576), 4u) << "the least";
  EXPECT_EQ(count(16 * kMiB, 100), 64u) << "as much as 128 blocks";
  options.worker_count = 8;
  for (const uint32_t value_bytes : {8, 100, 4096}) {
    EXPECT_EQ(ReadWorker::WorkerCount(options, ValueLayout(value_bytes)), 8u);
  }
  options.memory_budget_bytes = 192 * kMiB;
  EXPECT_EQ(ReadWorker::WorkerCount(options, ValueLayout(1048576)), 3u) << "12 MiB, 4 MiB each";
  EXPECT_EQ(ReadWorker::WorkerCount(options, ValueLayout(16384)), 8u);
  options.worker_count = 1;
  options.tasks_per_worker = 2;
  EXPECT_EQ(count(16 * kMiB, 1048576), 2u);
}

}  // namespace
}  // namespace engine_race::test
