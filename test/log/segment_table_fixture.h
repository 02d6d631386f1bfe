// A table of segments beside no store.
#ifndef TEST_LOG_SEGMENT_TABLE_FIXTURE_H_
#define TEST_LOG_SEGMENT_TABLE_FIXTURE_H_

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "engine_race/base/sys.h"
#include "engine_race/log/segment_table.h"
#include "test/log/log_parts_test_util.h"

namespace engine_race::test {

inline constexpr uint64_t kSeed = 4711;

class SegmentTableTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(sys::OpenDirectory(dir_.path(), false, &dir_fd_).ok());
    options_ = TinyLogOptions();
    options_.bucket_count = 8;
    options_.bucket_capacity_records = kMaxBucketRecords;
    geometry_ = GeometryFrom(options_);
    ASSERT_TRUE(io::File::Open(dir_fd_.get(), format::kSegmentTableName, io::Access::kReplace,
                               io::Caching::kBuffered, &file_)
                    .ok());
    ASSERT_TRUE(Load().ok());
  }
  Status Load() {
    table_ = std::make_unique<SegmentTable>(geometry_, kSeed, paths_);
    return table_->Load(file_, &damaged_count_);
  }
  Status Give(uint32_t bucket, uint64_t index) {
    const auto has_room = [this](uint32_t file, uint64_t place_count) {
      return place_count <= grown_[file];
    };
    const auto grow = [this](uint32_t file, uint64_t place_count) {
      grown_[file] = place_count;
      return Status::Ok();
    };
    return table_->Give(bucket, index, FreeBytesOf(), has_room, grow);
  }
  // Gives a row's place back, so that others may have it.
  void TakeBack(uint32_t bucket, uint64_t index) {
    SegmentPlace place;
    ASSERT_TRUE(table_->GiveBack(bucket, index, &place).ok());
    ASSERT_TRUE(table_->Flush().ok());
    table_->Free(place);
  }
  // Free space of each path; without an entry it is large.
  std::function<uint64_t(size_t)> FreeBytesOf() {
    return [this](size_t path) {
      const auto found = free_bytes_.find(path);
      return found == free_bytes_.end() ? ~uint64_t{0} : found->second;
    };
  }
  // Where every segment of every bucket lies.
  std::map<std::pair<uint32_t, uint64_t>, std::pair<uint32_t, uint32_t>> All() const {
    std::map<std::pair<uint32_t, uint64_t>, std::pair<uint32_t, uint32_t>> all;
    for (uint32_t bucket = 0; bucket < geometry_.bucket_count; ++bucket) {
      for (uint64_t index = 0; index < table_->SegmentEnd(bucket); ++index) {
        SegmentPlace place;
        if (table_->Find(bucket, index, &place)) all[{bucket, index}] = {place.file, place.place};
      }
    }
    return all;
  }
  void ExpectDistinct() const {
    std::set<std::pair<uint32_t, uint32_t>> places;
    std::set<uint64_t> numbers;
    for (const auto& [segment, place] : All()) {
      EXPECT_TRUE(places.insert(place).second);
      EXPECT_TRUE(numbers.insert(table_->NumberOf({place.first, place.second})).second);
      EXPECT_LT(place.second, grown_.at(place.first));
    }
  }

  TempDir dir_;
  UniqueFd dir_fd_;
  Options options_;
  Geometry geometry_;
  std::vector<SegmentTable::Path> paths_ = {{0, 2, format::kMaxFilePlaces}};
  io::File file_;
  std::unique_ptr<SegmentTable> table_;
  uint64_t damaged_count_ = 0;
  std::map<uint32_t, uint64_t> grown_;
  std::map<size_t, uint64_t> free_bytes_;
};

}  // namespace engine_race::test

#endif  // TEST_LOG_SEGMENT_TABLE_FIXTURE_H_
