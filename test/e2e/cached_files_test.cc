// Stores that go through the kernel's page cache, in turn with stores that go around it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

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
      if (name.rfind(format::kValueFilePrefix, 0) != 0 &&
          name.rfind(format::kKeyFilePrefix, 0) != 0) {
        continue;
      }
      const int flags = ::fcntl(std::stoi(entry.path().filename()), F_GETFL);
      ++((flags & O_DIRECT) != 0 ? direct_count : buffered_count);
    }
  }
  int direct_count = 0;
  int buffered_count = 0;
};

class CachedFilesTest : public ReadOnlyTest {};

TEST_F(CachedFilesTest, FilesAreOpenedThroughIt) {
  for (const bool page_cache : {true, false}) {
    Options options = TinyOptions();
    options.page_cache = page_cache;
    LogLines log;
    options.log = log.Callback();
    auto store = OpenStore(store_, options);
    ASSERT_NE(store, nullptr);
    ASSERT_TRUE(store->Write(KeyOf(1), ValueOf(1, 1)).ok());
    const OpenFiles files;
    EXPECT_EQ(page_cache ? files.direct_count : files.buffered_count, 0);
    EXPECT_GE(files.direct_count + files.buffered_count, 2);
    // It was asked for, so nobody need be warned of it.
    EXPECT_FALSE(log.Said("page cache"));
    EXPECT_EQ(store->Stats().frame_value_bytes, 0u);
  }
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

// What the page cache has of a value is not what a reader gets once a writer has gone around it.
TEST_F(CachedFilesTest, WritersOfBothKindsInTurn) {
  Make();
  for (int turn = 0; turn < 4; ++turn) {
    const bool cached = turn % 2 == 1;
    for (const Options& options : {Cached(ReadOnly()), ReadOnly()}) {
      EXPECT_EQ(InChild([&] { return Reads(options); }), 0) << turn;
    }
    const auto store = OpenStore(store_, cached ? Cached(TinyOptions()) : TinyOptions());
    ASSERT_NE(store, nullptr);
    const uint64_t begin = 2807 + turn * 2800;
    Change(store.get(), begin, begin + 2800, &contents_);
    // Slots are used again.
    ASSERT_TRUE(store->Compact().ok());
    ASSERT_TRUE(store->Sync().ok());
  }
  for (const Options& options : {Cached(ReadOnly()), ReadOnly()}) {
    EXPECT_EQ(InChild([&] { return Reads(options); }), 0);
  }
}

// Writes of a killed process are the kernel's.
TEST_F(CachedFilesTest, KilledWriter) {
  Make();
  EXPECT_EQ(InChild([&] {
              const auto store = OpenStore(store_, Cached(TinyOptions()));
              if (store == nullptr) return 1;
              Change(store.get(), 2807, 4200, &contents_);
              ::_exit(17);
              return 2;
            }),
            17);
  Change(nullptr, 2807, 4200, &contents_);
  EXPECT_EQ(InChild([&] { return Reads(Cached(ReadOnly())); }), 0);
}

}  // namespace
}  // namespace engine_race::test
