// A store of every form of records for tests that open it for reading only, and a look at whether
// it has changed.
#ifndef TEST_E2E_READ_ONLY_FIXTURE_H_
#define TEST_E2E_READ_ONLY_FIXTURE_H_

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "test/e2e/copied_disks.h"
#include "test/e2e/engine_fixture.h"
#include "test/e2e/store_image.h"

namespace engine_race::test {

inline Options ReadOnly() {
  Options options;
  options.read_only = true;
  return options;
}

// The bytes, sizes, space and times of everything in a directory, and those of the directory.
struct Fingerprint {
  explicit Fingerprint(const std::string& dir) : image(StoreImage::Load(dir)) {
    Add(dir);
    for (const auto& entry : std::filesystem::directory_iterator(dir)) Add(entry.path());
  }
  void Add(const std::string& path) {
    struct stat info = {};
    EXPECT_EQ(::lstat(path.c_str(), &info), 0) << path;
    stats[path] = {info.st_size,
                   info.st_blocks,
                   info.st_mtim.tv_sec,
                   info.st_mtim.tv_nsec,
                   info.st_ctim.tv_sec,
                   info.st_ctim.tv_nsec,
                   static_cast<int64_t>(info.st_ino)};
  }
  bool operator==(const Fingerprint&) const = default;

  StoreImage image;
  std::map<std::string, std::array<int64_t, 7>> stats;
};

class ReadOnlyTest : public ::testing::Test {
 protected:
  // Segments, rows that were freed and filled again, deletions, a large batch, staged records and
  // an index on disk.
  void Make() {
    Options options = TinyOptions();
    // An index on disk, of buckets that are too small to be saved otherwise.
    options.index_memory_bytes = 0;
    const auto store = OpenStore(store_, options);
    ASSERT_NE(store, nullptr);
    for (uint64_t end = 700; end <= 2800; end += 700) {
      Change(store.get(), end - 700, end, &contents_);
      ASSERT_TRUE(store->Compact().ok());
    }
    WriteBatch batch;
    for (uint64_t i = 0; i < 600; ++i) {
      const uint64_t key = NthKey(10000 + i);
      ASSERT_TRUE(batch.Put(KeyOf(key), ValueOf(key, 3)).ok());
      contents_[key] = 3;
    }
    ASSERT_TRUE(store->Write(batch).ok());
    std::string value;
    ASSERT_TRUE(store->Read(KeyOf(NthKey(10000)), &value).ok());
    Change(store.get(), 2800, 2807, &contents_);
  }

  // 0 when the store holds what it must, by every call that reads.
  int Reads(const Options& options) const { return ReadsIn(store_, options); }
  int ReadsIn(const std::string& dir, const Options& options) const {
    std::unique_ptr<Store> store;
    const Status opened = Store::Open(AsRun(options), dir, &store);
    if (!opened.ok()) {
      std::fprintf(stderr, "%s\n", opened.ToString().c_str());
      return 1;
    }
    return ReadsAll(store.get());
  }
  int ReadsAll(Store* store) const {
    KeyVersions found;
    const auto add = [&found](std::string_view key, std::string_view value) {
      const uint64_t number = DecodeKey(key.data());
      uint64_t version = 0;
      if (ParseValue(number, value, &version)) found[number] = version;
    };
    if (!store->Range("", "", add).ok() || found != contents_) return 2;
    std::vector<std::string> texts;
    for (const auto& [key, version] : contents_) texts.push_back(KeyOf(key));
    std::vector<std::string_view> keys(texts.begin(), texts.end());
    std::vector<std::string> values(keys.size());
    std::vector<Status> statuses(keys.size());
    if (!store->MultiRead(keys, values, statuses).ok()) return 3;
    Snapshot snapshot;
    if (!store->GetSnapshot(&snapshot).ok()) return 4;
    Iterator iterator;
    if (!store->NewIterator({}, &iterator).ok()) return 5;
    iterator.SeekToFirst();
    std::string value;
    for (size_t i = 0; i < keys.size(); ++i, iterator.Next()) {
      if (!statuses[i].ok() || !iterator.Valid() || iterator.key() != keys[i]) return 6;
      if (iterator.value() != values[i]) return 7;
      if (!store->Read(keys[i], &value).ok() || value != values[i]) return 8;
      if (!store->Read(snapshot, keys[i], &value).ok() || value != values[i]) return 9;
    }
    return store->Stats().record_count >= contents_.size() ? 0 : 10;
  }

  uint64_t StoreId() const { return IdentityOf(store_).store_id; }

  TempDir dir_;
  const std::string store_ = dir_.Join("store");
  KeyVersions contents_;
};

}  // namespace engine_race::test

#endif  // TEST_E2E_READ_ONLY_FIXTURE_H_
