#include "engine_race/log/value_files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>
#include <tuple>

#include "test/log/log_test_util.h"

namespace engine_race {
namespace {

constexpr uint64_t kUnitBytes = kMinStripeUnitBytes;
constexpr uint64_t kUnitSlots = kUnitBytes / kValueBytes;

Geometry GeometryOf(uint32_t path_count, uint32_t bucket_count, uint32_t file_count,
                    uint64_t capacity_records) {
  Options options = test::TinyLogOptions();
  options.bucket_count = bucket_count;
  options.file_count = file_count;
  options.bucket_capacity_records = capacity_records;
  options.stripe_unit_bytes = kUnitBytes;
  options.paths.assign(path_count, "/anywhere");
  return GeometryFrom(options);
}

ValueFiles FilesOf(const Geometry& geometry) {
  ValueFiles files;
  files.Init(geometry, std::vector<ValuePath>(std::max(geometry.path_count, 1U)));
  return files;
}

// A map that gives places out in the order in which they are asked for.
class CountingMap : public UnitMap {
 public:
  explicit CountingMap(uint64_t room) : room_(room) {}

  uint64_t Find(uint32_t bucket, uint64_t local_unit) const override {
    const auto found = places_.find({bucket, local_unit});
    return found == places_.end() ? kNowhere : found->second;
  }
  Status FindToWrite(uint32_t bucket, uint64_t local_unit, uint64_t* offset) override {
    if (Find(bucket, local_unit) == kNowhere) {
      if (places_.size() == room_) return Status::Full("no place left");
      places_.emplace(std::pair(bucket, local_unit), places_.size() * kUnitBytes);
    }
    *offset = Find(bucket, local_unit);
    return Status::Ok();
  }
  Status Flush() override {
    ++flushes;
    return Status::Ok();
  }
  int flushes = 0;

 private:
  const uint64_t room_;
  std::map<std::pair<uint32_t, uint64_t>, uint64_t> places_;
};

// Every slot has a place of its own, inside the file that the geometry sizes.
TEST(ValueFilesTest, EverySlotHasItsOwnPlace) {
  for (const uint32_t path_count : {0, 1, 2, 3, 5, 7}) {
    const Geometry geometry = GeometryOf(path_count, 8, 2, 512);
    const ValueFiles files = FilesOf(geometry);
    EXPECT_EQ(files.file_count(), std::max(path_count, 1U) * 2);
    std::set<std::pair<uint32_t, uint64_t>> taken;
    for (uint32_t bucket = 0; bucket < geometry.bucket_count; ++bucket) {
      for (uint64_t slot = 0; slot < geometry.bucket_capacity_records; ++slot) {
        const ValueLocation location = files.Locate(bucket, slot);
        ASSERT_EQ(location.offset % kValueBytes, 0u);
        ASSERT_LE(location.offset + kValueBytes, geometry.value_file_bytes());
        ASSERT_EQ(location.file, &files.file(location.file_number));
        ASSERT_TRUE(taken.insert({location.file_number, location.offset}).second)
            << path_count << " paths, bucket " << bucket << ", slot " << slot;
        ValueLocation to_write;
        ASSERT_TRUE(files.LocateToWrite(bucket, slot, &to_write).ok());
        ASSERT_EQ(std::tie(to_write.file, to_write.offset),
                  std::tie(location.file, location.offset));
      }
    }
  }
}

TEST(ValueFilesTest, RunsAreContiguousAndEndWithTheUnit) {
  for (const uint32_t path_count : {0, 1, 2, 3, 5}) {
    const Geometry geometry = GeometryOf(path_count, 4, 2, 256);
    const ValueFiles files = FilesOf(geometry);
    EXPECT_EQ(files.unit_slots(), path_count == 0 ? 256 : kUnitSlots);
    for (uint32_t bucket = 0; bucket < geometry.bucket_count; ++bucket) {
      for (uint64_t slot = 0; slot < 256; ++slot) {
        const ValueLocation location = files.Locate(bucket, slot);
        ASSERT_EQ(location.slot_count, files.unit_slots() - slot % files.unit_slots());
        const ValueLocation last = files.Locate(bucket, slot + location.slot_count - 1);
        ASSERT_EQ(last.file, location.file);
        ASSERT_EQ(last.offset, location.offset + (location.slot_count - 1) * kValueBytes);
      }
    }
  }
}

TEST(ValueFilesTest, UnitsGoRoundThePathsFromTheBucketsOwnOn) {
  const ValueFiles files = FilesOf(GeometryOf(3, 4, 1, 256));
  for (uint32_t bucket = 0; bucket < 4; ++bucket) {
    for (uint64_t unit = 0; unit < 256 / kUnitSlots; ++unit) {
      const ValueLocation location = files.Locate(bucket, unit * kUnitSlots);
      EXPECT_EQ(location.file_number, (unit + bucket) % 3);
      // 16 units on 3 paths: 6 places for each bucket.
      EXPECT_EQ(location.offset, (bucket * 6 + unit / 3) * kUnitBytes);
    }
  }
}

TEST(ValueFilesTest, AUnitIsNeverLargerThanARegion) {
  Geometry geometry = GeometryOf(3, 4, 2, 256);
  geometry.stripe_unit_bytes = kMaxStripeUnitBytes;
  const ValueFiles files = FilesOf(geometry);
  EXPECT_EQ(files.unit_slots(), 256u);
  EXPECT_EQ(geometry.value_file_bytes(), 2 * 256 * kValueBytes);
}

TEST(ValueFilesTest, PathsWithAMapHaveOneFileAndGivePlacesOut) {
  const Geometry geometry = GeometryOf(2, 4, 2, 256);
  std::vector<ValuePath> paths(2);
  auto owned = std::make_unique<CountingMap>(3);
  CountingMap* const map = owned.get();
  paths[1].units = std::move(owned);
  ValueFiles files;
  files.Init(geometry, std::move(paths));
  EXPECT_EQ(files.file_count(), 3u);
  // Bucket 0 has its odd units there.
  const ValueLocation before = files.Locate(0, kUnitSlots + 3);
  EXPECT_EQ(before.offset, UnitMap::kNowhere);
  EXPECT_EQ(before.slot_count, kUnitSlots - 3);
  ValueLocation location;
  ASSERT_TRUE(files.LocateToWrite(2, 3 * kUnitSlots, &location).ok());
  ASSERT_TRUE(files.LocateToWrite(0, kUnitSlots + 3, &location).ok());
  EXPECT_EQ(location.file_number, 2u);
  EXPECT_EQ(location.offset, kUnitBytes + 3 * kValueBytes);
  EXPECT_EQ(files.Locate(0, kUnitSlots + 3).offset, location.offset);
  ASSERT_TRUE(files.LocateToWrite(1, 0, &location).ok());
  EXPECT_EQ(files.LocateToWrite(3, 0, &location).code(), Code::kFull);
  ASSERT_TRUE(files.LocateToWrite(0, 0, &location).ok()) << "on the other path";
  EXPECT_EQ(location.file_number, 0u);
  ASSERT_TRUE(files.FlushMaps().ok());
  EXPECT_EQ(map->flushes, 1);
}

// Real files: what is written slot by slot is read in one go, and space is reserved where it will
// be written.
class StripedFilesTest : public testing::Test {
 protected:
  static constexpr uint32_t kPathCount = 3;

  void SetUp() override {
    geometry_ = GeometryOf(kPathCount, 4, 2, 256);
    files_ = FilesOf(geometry_);
    ASSERT_TRUE(sys::OpenDirectory(dir_.path(), false, &dir_fd_).ok());
    for (uint32_t i = 0; i < files_.file_count(); ++i) {
      ASSERT_TRUE(io::File::Open(dir_fd_.get(), NameOf(i), io::Access::kCreate,
                                 io::Caching::kBuffered, files_.mutable_file(i))
                      .ok());
      ASSERT_TRUE(files_.file(i).Truncate(geometry_.value_file_bytes()).ok());
    }
  }
  static std::string NameOf(uint32_t number) { return "value_" + std::to_string(number); }

  test::TempDir dir_;
  UniqueFd dir_fd_;
  Geometry geometry_;
  ValueFiles files_;
};

TEST_F(StripedFilesTest, ReadsAcrossUnits) {
  for (uint64_t slot = 0; slot < 100; ++slot) {
    ValueLocation location;
    ASSERT_TRUE(files_.LocateToWrite(1, slot, &location).ok());
    const std::string value = test::ValueOf(slot, 1);
    ASSERT_TRUE(location.file->Write(value.data(), value.size(), location.offset).ok());
  }
  std::string values(90 * kValueBytes, 'x');
  ASSERT_TRUE(files_.Read(1, 5, 90, values.data()).ok());
  for (uint64_t i = 0; i < 90; ++i) {
    ASSERT_EQ(values.substr(i * kValueBytes, kValueBytes), test::ValueOf(5 + i, 1)) << i;
  }
  ASSERT_TRUE(files_.Read(1, 5, 0, nullptr).ok());
}

TEST_F(StripedFilesTest, ReservesWhatWillBeWrittenAndNoMore) {
  // Slots [10, 75) of bucket 1: units 0 to 4.
  ASSERT_TRUE(files_.Reserve(1, 10 * kValueBytes, 75 * kValueBytes).ok());
  std::map<uint32_t, uint64_t> wanted;
  for (uint64_t slot = 10; slot < 75; ++slot) {
    wanted[files_.Locate(1, slot).file_number] += kValueBytes;
  }
  for (uint32_t i = 0; i < files_.file_count(); ++i) {
    uint64_t bytes = 0;
    ASSERT_TRUE(sys::AllocatedBytes(dir_fd_.get(), NameOf(i), &bytes).ok());
    EXPECT_EQ(bytes, wanted[i]) << "file " << i;
  }
  // Writing there takes no more.
  for (uint64_t slot = 10; slot < 75; ++slot) {
    const ValueLocation location = files_.Locate(1, slot);
    const std::string value(kValueBytes, 'v');
    ASSERT_TRUE(location.file->Write(value.data(), value.size(), location.offset).ok());
  }
  for (uint32_t i = 0; i < files_.file_count(); ++i) {
    uint64_t bytes = 0;
    ASSERT_TRUE(files_.file(i).Sync().ok());
    ASSERT_TRUE(sys::AllocatedBytes(dir_fd_.get(), NameOf(i), &bytes).ok());
    EXPECT_EQ(bytes, wanted[i]) << "file " << i;
  }
}

}  // namespace
}  // namespace engine_race
