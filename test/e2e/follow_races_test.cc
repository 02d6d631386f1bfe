// Reads of a follower whose writer uses the slots again, opens the store or repairs it right then.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "engine_race/base/sys.h"
#include "engine_race/log/directory_lock.h"
#include "engine_race/log/format.h"
#include "test/e2e/engine_fixture.h"
#include "test/e2e/reclaim_fixture.h"
#include "test/eventually.h"
#include "test/faults/call_watch.h"

namespace engine_race::test {
namespace {

// How a reader comes to a value.
enum class Reader { kRead, kMultiRead, kReadAsync, kRange, kIterator };
constexpr std::array kNewestReaders = {Reader::kRead, Reader::kMultiRead, Reader::kReadAsync,
                                       Reader::kRange};
constexpr std::array kViewReaders = {Reader::kRead, Reader::kMultiRead, Reader::kRange,
                                     Reader::kIterator};

// One bucket, and values that are read by pread alone.
class FollowRacesTest : public ReclaimTest {
 protected:
  static constexpr uint64_t kKeys = 2 * kRowRecords + 1;
  static constexpr uint64_t kStagedKey = kKeys - 1;
  static constexpr uint32_t kGroupRecords = 16;

  void Follow() {
    Options options;
    options.follow = true;
    options.value_bytes = 0;
    options.memory_budget_bytes = 64 << 20;
    // So that each read is one of a slot.
    options.hot_value_bytes = 0;
    options.io_backend = IoBackend::kPsync;
    options.log = follower_lines_.Callback();
    follower_ = OpenStore(dir_.path(), options);
    ASSERT_NE(follower_, nullptr);
  }
  // The follower has read its bucket.
  void OpenBoth() {
    options_.reclaim = Reclaim::kOff;
    options_.value_group_bytes = kGroupRecords * kValueBytes;
    ASSERT_NO_FATAL_FAILURE(OpenOneRegion(8));
    for (uint64_t i = 0; i < kKeys; ++i) ASSERT_NO_FATAL_FAILURE(Write(i, 1));
    ASSERT_NO_FATAL_FAILURE(Follow());
    ASSERT_NO_FATAL_FAILURE(ExpectHolds(follower_.get(), held_));
  }
  // The newest record of kStagedKey is staged: it is in the middle of a group.
  void Stage() {
    do {
      ASSERT_NO_FATAL_FAILURE(Write(kStagedKey, version_));
      ++record_count_;
    } while (record_count_ % kGroupRecords != kGroupRecords / 2);
  }
  // Every slot holds another record from then on. The last record of a key is in the log.
  void UseSlotsAgain() {
    for (int round = 0; round < 5; ++round) {
      ++version_;
      ASSERT_NO_FATAL_FAILURE(WriteAll(0, kKeys, version_));
      record_count_ += kKeys;
      ASSERT_NO_FATAL_FAILURE(Compact());
    }
  }
  // Reads key `i`, and with ranges and iterators all keys, the key's version into *version. Of
  // another key's bytes, or of a key that is missing, *version is 0.
  Status ReadBy(Reader reader, const Snapshot* snapshot, uint64_t i, uint64_t* version) {
    const uint64_t key = SpreadKey(i);
    const std::string name = KeyOf(key);
    std::string value;
    *version = 0;
    if (reader == Reader::kRange || reader == Reader::kIterator) {
      return Walk(reader, snapshot, key, version);
    }
    Status status;
    if (reader == Reader::kMultiRead) {
      const std::array<std::string_view, 1> keys = {name};
      std::array<std::string, 1> values;
      std::array<Status, 1> statuses;
      const Status all = snapshot != nullptr
                             ? follower_->MultiRead(*snapshot, keys, values, statuses)
                             : follower_->MultiRead(keys, values, statuses);
      EXPECT_TRUE(all.ok()) << all.ToString();
      status = statuses[0];
      value = values[0];
    } else if (reader == Reader::kReadAsync) {
      std::atomic<bool> is_done{false};
      const auto done = [&](const Status& read) {
        status = read;
        is_done = true;
      };
      const Status begun = follower_->ReadAsync(name, &value, done);
      EXPECT_TRUE(begun.ok()) << begun.ToString();
      EXPECT_TRUE(begun.ok() && Eventually([&] { return is_done.load(); }));
    } else {
      status = snapshot != nullptr ? follower_->Read(*snapshot, name, &value)
                                   : follower_->Read(name, &value);
    }
    if (status.ok() && !ParseValue(key, value, version)) *version = 0;
    return status;
  }
  Status Walk(Reader reader, const Snapshot* snapshot, uint64_t wanted, uint64_t* version) {
    uint64_t count = 0;
    bool is_whole = true;
    const auto visit = [&](std::string_view name, std::string_view value) {
      const uint64_t key = DecodeKey(name.data());
      uint64_t found = 0;
      is_whole = ParseValue(key, value, &found) && is_whole;
      if (key == wanted) *version = found;
      ++count;
    };
    Status status;
    if (reader == Reader::kRange) {
      status = snapshot != nullptr ? follower_->Range(*snapshot, "", "", visit)
                                   : follower_->Range("", "", visit);
    } else {
      IteratorOptions options;
      options.snapshot = snapshot;
      Iterator iterator;
      EXPECT_TRUE(follower_->NewIterator(options, &iterator).ok());
      for (iterator.SeekToFirst(); iterator.Valid(); iterator.Next()) {
        const std::string_view value = iterator.value();
        if (iterator.Valid()) visit(iterator.key(), value);
      }
      status = iterator.status();
    }
    if (!is_whole || (status.ok() && count != held_.size())) *version = 0;
    return status;
  }

  LogLines follower_lines_;
  std::unique_ptr<Store> follower_;
  uint64_t version_ = 1;
  uint64_t record_count_ = kKeys;
};

// Uses all slots again when the follower reads a value, before it does. The first read fails if
// `fails`.
class ReusingReads {
 public:
  ReusingReads(std::string file, bool fails, std::function<void()> use_again)
      : watch_([=, this, file = std::move(file)](SystemCall* call) {
          if (call->kind != CallKind::kPread || !is_armed_ ||
              PathOf(*call).find(file) == std::string::npos || !is_armed_.exchange(false)) {
            return call->Proceed();
          }
          use_again();
          return fails ? Refuse(EIO) : call->Proceed();
        }) {}
  void Arm() { is_armed_ = true; }
  bool has_come() const { return !is_armed_; }
  SystemCallHook* hook() { return &watch_; }

 private:
  std::atomic<bool> is_armed_{false};
  CallWatch watch_;
};

// Of a logged value and of a staged one, whose reads fail or not.
class ReadRacesTest : public FollowRacesTest {
 protected:
  // For each case calls `before`, and expects of what `read` gives. Slots are used again beside the
  // first read of the value that `read` makes.
  void ForEachRace(std::span<const Reader> readers,
                   const std::function<void(Reader reader, uint64_t key)>& before,
                   const std::function<Status(Reader reader, uint64_t key)>& read,
                   const std::function<void(const Status& status)>& expect) {
    ASSERT_NO_FATAL_FAILURE(OpenBoth());
    for (const Reader reader : readers) {
      for (const bool fails : {false, true}) {
        for (const uint64_t key : {uint64_t{3}, kStagedKey}) {
          SCOPED_TRACE(testing::Message() << "reader " << static_cast<int>(reader) << ", fails "
                                          << fails << ", key " << key);
          ASSERT_NO_FATAL_FAILURE(Stage());
          ASSERT_TRUE(follower_->Refresh().ok());
          ASSERT_NO_FATAL_FAILURE(before(reader, key));
          const char* const file = key == kStagedKey ? format::kStagingValuesName : "/value_0";
          ReusingReads reads(file, fails, [this] { UseSlotsAgain(); });
          const ScopedHook hook(reads.hook());
          reads.Arm();
          const Status status = read(reader, key);
          ASSERT_TRUE(reads.has_come());
          ASSERT_NO_FATAL_FAILURE(expect(status));
        }
      }
    }
    EXPECT_FALSE(follower_lines_.Said("checksum")) << follower_lines_.text();
  }

  uint64_t read_version_ = 0;
};

// What the slot holds says nothing then, nor does a failure to read it.
TEST_F(ReadRacesTest, SlotsThatAreUsedAgainWhileTheyAreRead) {
  ForEachRace(
      kNewestReaders, [](Reader, uint64_t) {},
      [this](Reader reader, uint64_t key) { return ReadBy(reader, nullptr, key, &read_version_); },
      [this](const Status& status) {
        ASSERT_TRUE(status.ok()) << status.ToString();
        ASSERT_EQ(read_version_, version_);
      });
}

// A view cannot show them any more.
TEST_F(ReadRacesTest, ViewsOfSlotsThatAreUsedAgainWhileTheyAreRead) {
  Snapshot snapshot;
  const auto read = [&](Reader reader, uint64_t key) {
    return ReadBy(reader, &snapshot, key, &read_version_);
  };
  ForEachRace(
      kViewReaders,
      [&](Reader reader, uint64_t key) {
        ASSERT_TRUE(follower_->GetSnapshot(&snapshot).ok());
        ASSERT_TRUE(read(reader, key).ok());
        ASSERT_EQ(read_version_, version_);
      },
      read,
      [&](const Status& status) {
        ASSERT_EQ(status.code(), Code::kIOError) << status.ToString();
        snapshot = Snapshot();
      });
}

// A Refresh waits for a writer that opens the store. The first read does not.
TEST_F(FollowRacesTest, TheFirstReadDoesNotWaitForAnOpeningWriter) {
  ASSERT_NO_FATAL_FAILURE(Open());
  ASSERT_NO_FATAL_FAILURE(WriteAll(0, 100, 1));
  ASSERT_NO_FATAL_FAILURE(Follow());
  store_.reset();
  UniqueFd directory;
  ASSERT_TRUE(sys::OpenDirectory(dir_.path(), /*create=*/false, &directory).ok());
  auto writer = std::make_unique<DirectoryLock>();
  ASSERT_TRUE(DirectoryLock::TakeToWrite(directory.get(), 0644, writer.get()).ok());
  writer->Settle();
  std::atomic<int> look_count{0};
  CallWatch looks([&](SystemCall* call) {
    if (call->kind == CallKind::kPread && PathOf(*call).ends_with(format::kLockName)) ++look_count;
    return call->Proceed();
  });
  const ScopedHook hook(&looks);
  Status refreshed;
  std::thread refresher([&] { refreshed = follower_->Refresh(); });
  EXPECT_TRUE(Eventually([&] { return look_count >= 2; }));
  ExpectHolds(follower_.get(), held_);
  const int before = look_count;
  EXPECT_TRUE(Eventually([&] { return look_count > before; })) << "the Refresh has not waited";
  writer.reset();
  refresher.join();
  EXPECT_TRUE(refreshed.ok()) << refreshed.ToString();
}

// The counts of the bucket are damaged when it is opened, and repaired later.
TEST_F(FollowRacesTest, ARepairedBucketIsBuilt) {
  ASSERT_NO_FATAL_FAILURE(OpenOneRegion(8));
  ASSERT_NO_FATAL_FAILURE(WriteAll(0, 100, 1));
  const std::string path = dir_.Join(format::kStagingCountsName);
  std::fstream counts(path, std::ios::in | std::ios::out | std::ios::binary);
  std::string line(sizeof(format::BucketCounts), '\0');
  counts.read(line.data(), static_cast<std::streamsize>(line.size()));
  const auto write = [&](const std::string& bytes) {
    counts.seekp(0);
    counts.write(bytes.data(), static_cast<std::streamsize>(bytes.size())).flush();
    ASSERT_TRUE(counts.good());
  };
  ASSERT_NO_FATAL_FAILURE(write(std::string(line.size(), '\0')));
  ASSERT_NO_FATAL_FAILURE(Follow());
  std::string value;
  EXPECT_EQ(follower_->Read(KeyOf(SpreadKey(0)), &value).code(), Code::kCorruption);
  ASSERT_NO_FATAL_FAILURE(write(line));
  ASSERT_NO_FATAL_FAILURE(Open());
  const Status refreshed = follower_->Refresh();
  EXPECT_TRUE(refreshed.ok()) << refreshed.ToString();
  ASSERT_NO_FATAL_FAILURE(ExpectHolds(follower_.get(), held_));
}

// The directory's name leads to another store, or to none, while the files of this one live on.
TEST_F(FollowRacesTest, AReplacedDirectoryIsNoticedAndItsReadsGoOn) {
  const TempDir parent(FastParent());
  const std::string dir = parent.Join("store");
  auto writer = OpenStore(dir, options_);
  ASSERT_NE(writer, nullptr);
  ASSERT_TRUE(writer->Write(KeyOf(1), ValueOf(1, 1)).ok());
  Options following;
  following.follow = true;
  following.value_bytes = 0;
  following.memory_budget_bytes = 64 << 20;
  const auto follower = OpenStore(dir, following);
  ASSERT_NE(follower, nullptr);
  ASSERT_TRUE(follower->Refresh().ok());
  std::filesystem::rename(dir, parent.Join("other"));
  std::string value;
  for (const bool has_another : {false, true}) {
    SCOPED_TRACE(has_another);
    if (has_another) {
      writer = OpenStore(dir, options_);
    }
    const Status refreshed = follower->Refresh();
    EXPECT_EQ(refreshed.code(), Code::kIOError);
    EXPECT_NE(refreshed.message().find("removed or replaced"), std::string::npos)
        << refreshed.ToString();
    ASSERT_TRUE(follower->Read(KeyOf(1), &value).ok());
    EXPECT_EQ(value, ValueOf(1, 1));
  }
}

}  // namespace
}  // namespace engine_race::test
