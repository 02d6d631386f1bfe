// Readers that go through the kernel's page cache, in turn with writers, which go around it.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "test/e2e/read_only_fixture.h"

namespace engine_race::test {
namespace {

Options Cached(Options options = {}) {
  options.page_cache = true;
  return options;
}

// Of the files of keys and values that this process has open: how many go around the page cache,
// and how many through it.
struct OpenFiles {
  OpenFiles() {
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code closed;  // that of the iterator itself
      const std::string name = std::filesystem::read_symlink(entry, closed).filename();
      const bool is_key_file = name.starts_with(format::kKeyFilePrefix) &&
                               !name.starts_with(format::kIndexFilePrefix) &&
                               name != format::kRowsName;
      if (!is_key_file && !name.starts_with(format::kValueFilePrefix)) continue;
      const int flags = ::fcntl(std::stoi(entry.path().filename()), F_GETFL);
      ++((flags & O_DIRECT) != 0 ? direct_count : buffered_count);
    }
  }
  int direct_count = 0;
  int buffered_count = 0;
};

class CachedFilesTest : public ReadOnlyTest {};

TEST_F(CachedFilesTest, ReadersOpenFilesThroughIt) {
  Make();
  for (const bool page_cache : {false, true}) {
    Options options = ReadOnly();
    options.page_cache = page_cache;
    const auto store = OpenStore(store_, options);
    ASSERT_NE(store, nullptr);
    const OpenFiles files;
    if (!page_cache && files.direct_count == 0) GTEST_SKIP() << "no O_DIRECT here";
    EXPECT_EQ(page_cache ? files.direct_count : files.buffered_count, 0);
    EXPECT_GE(files.direct_count + files.buffered_count, 2);
  }
}

TEST_F(CachedFilesTest, WritersMayNot) {
  std::unique_ptr<Store> store;
  const Status status = Store::Open(Cached(), store_, &store);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("page_cache"), std::string::npos) << status.ToString();
  EXPECT_FALSE(std::filesystem::exists(store_));
}

TEST_F(CachedFilesTest, ReadersChangeNothing) {
  Make();
  const Fingerprint before(store_);
  for (const bool paged : {false, true}) {
    Options options = Cached(ReadOnly());
    if (paged) options.index_memory_bytes = 0;
    EXPECT_EQ(InChild([&] { return Reads(options); }), 0);
    EXPECT_TRUE(Fingerprint(store_) == before);
  }
}

// A reader through the page cache must not get pages that a direct write has made stale.
TEST_F(CachedFilesTest, WritersInTurn) {
  Make();
  for (uint64_t begin = 2807; begin < 10000; begin += 2800) {
    EXPECT_EQ(InChild([&] { return Reads(Cached(ReadOnly())); }), 0) << begin;
    const auto store = OpenStore(store_, TinyOptions());
    ASSERT_NE(store, nullptr);
    Change(store.get(), begin, begin + 2800, &contents_);
    // Slots are used again.
    ASSERT_TRUE(store->Compact().ok());
    ASSERT_TRUE(store->Sync().ok());
  }
  EXPECT_EQ(InChild([&] { return Reads(Cached(ReadOnly())); }), 0);
}

}  // namespace
}  // namespace engine_race::test
