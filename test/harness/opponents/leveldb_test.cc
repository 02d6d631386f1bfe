// How many files LevelDB keeps open.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "harness/opponents/peers.h"
#include "test/test_util.h"

namespace engine_race::harness {
namespace {

// Sets how many files this process may open, as far as its hard limit allows. The destructor
// restores the limit.
class FileLimit {
 public:
  explicit FileLimit(rlim_t file_count) {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    rlimit limit = before_;
    limit.rlim_cur = std::min(file_count, before_.rlim_max);
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
    file_count_ = limit.rlim_cur;
  }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;
  ~FileLimit() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }

  rlim_t file_count() const { return file_count_; }

 private:
  rlimit before_ = {};
  rlim_t file_count_ = 0;
};

// Of LevelDB. Empty if this program was not linked with it.
std::vector<KvStoreKind> LevelDbHere() {
  std::vector<KvStoreKind> kinds = Peers();
  std::erase_if(kinds, [](const KvStoreKind& kind) { return kind.name != "leveldb"; });
  return kinds;
}

class LevelDbTest : public ::testing::TestWithParam<KvStoreKind> {
 protected:
  static constexpr uint64_t kManyRecords = 10'000'000;  // 40 GB in files of 16 MiB
  // Twice the files of kManyRecords.
  static constexpr rlim_t kFilesOfManyRecords = 4894;
  // LevelDB's tables do not get these.
  static constexpr rlim_t kOtherFiles = 64;

  // Opens a store that will have `record_count` records. How many files may LevelDB keep open then?
  rlim_t MaxOpenFiles(uint64_t record_count) const {
    KvOptions options;
    options.dir = dir_.Join("store");
    options.memory_budget_bytes = uint64_t{64} << 20;
    options.record_count = record_count;
    std::unique_ptr<KvStore> store;
    const Status opened = GetParam().open(options, &store);
    EXPECT_TRUE(opened.ok()) << opened.ToString();
    if (!opened.ok()) return 0;
    const auto count = store->Describe()["max_open_files"]["value"].get<rlim_t>();
    EXPECT_TRUE(store->Close().ok());
    return count;
  }

 private:
  const test::TempDir dir_{test::FastParent()};
};

// LevelDB's default would open and close files all the time.
TEST_P(LevelDbTest, KeepsTheFilesOfManyRecordsOpen) {
  const FileLimit limit(kFilesOfManyRecords + kOtherFiles);
  // The limit is lower if the hard limit is.
  const rlim_t allowed_count = limit.file_count() - kOtherFiles;
  EXPECT_EQ(MaxOpenFiles(0), std::min<rlim_t>(1000, allowed_count));
  EXPECT_EQ(MaxOpenFiles(kManyRecords), allowed_count);
}

// A table that cannot be opened would fail a read.
TEST_P(LevelDbTest, OpensNoMoreFilesThanTheProcessMay) {
  const FileLimit limit(500);
  EXPECT_EQ(MaxOpenFiles(kManyRecords), limit.file_count() - kOtherFiles);
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(LevelDbTest);
INSTANTIATE_TEST_SUITE_P(Here, LevelDbTest, ::testing::ValuesIn(LevelDbHere()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace engine_race::harness
