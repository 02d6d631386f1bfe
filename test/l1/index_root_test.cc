#include "engine_race/l1/index_root.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>

#include "engine_race/base/checksum.h"
#include "engine_race/base/round_up.h"
#include "engine_race/l1/extent_id.h"
#include "test/faults/system_calls.h"
#include "test/index/refused_memory.h"
#include "test/l1/extent_test_util.h"

namespace engine_race::test {
namespace {

using format::IndexExtent;
using format::IndexRootHeader;
using l1::IndexRoot;

constexpr uint32_t kBuckets = 20;

// Buckets 0, 3 and 19 have extents: 3, 1 and 2.
IndexRoot SampleRoot() {
  IndexRoot root;
  root.root_id = 0xabcdef;
  root.coverages.resize(kBuckets);
  for (uint32_t i = 0; i < kBuckets; i += 3)
    root.coverages[i] = {i * 1000 + 700, i, i * 1000 + 800, i + 9, i * 55 + 1, i * 77 + 1};
  root.extents = {{0, 99, 1001, 4, 100, 0, 0, 5},
                  {100, 5000, 1002, 0, 7, 0, 0, 4},
                  {5001, 9000, 1003, 7, 1, 0, 0, 3},
                  {50, 50, 1004, 1, 1, 3, 0, 2},
                  {7, 8, kLastKey, 100, 2, 19, 0, kLastKey},
                  {kLastKey - 200000, kLastKey, 1, 3, format::kIndexExtentRecords, 19, 0, 1}};
  return root;
}

bool SameBytes(const auto& a, const auto& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(a[0])) == 0;
}

class IndexRootTest : public testing::Test {
 protected:
  Status Load(IndexRoot* root, uint64_t store_id = kExtentStoreId, uint32_t buckets = kBuckets) {
    return l1::LoadIndexRoot(dir_.fd(), OwnIds(store_id), buckets, root);
  }
  Status Store(const IndexRoot& root) {
    return l1::StoreIndexRoot(dir_.fd(), OwnIds(kExtentStoreId), 0640, root, &is_replaced_);
  }
  void ExpectLoads(const IndexRoot& expected) {
    IndexRoot root;
    const Status status = Load(&root, kExtentStoreId, expected.coverages.size());
    ASSERT_TRUE(status.ok()) << status.ToString();
    EXPECT_EQ(root.root_id, expected.root_id);
    EXPECT_TRUE(SameBytes(root.coverages, expected.coverages));
    EXPECT_TRUE(SameBytes(root.extents, expected.extents));
  }
  void ExpectRefused(Code code, const std::string& why) {
    IndexRoot root = SampleRoot();
    const Status status = Load(&root);
    EXPECT_EQ(status.code(), code) << status.ToString();
    EXPECT_NE(status.message().find(why), std::string::npos) << status.ToString();
    EXPECT_EQ(root.root_id, 0u);
    EXPECT_TRUE(root.coverages.empty());
    EXPECT_TRUE(root.extents.empty());
  }

  std::string Path() const { return dir_.Join(format::kIndexRootName); }
  std::string Bytes() const {
    std::ifstream file(Path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void SetBytes(const std::string& bytes) const {
    std::ofstream(Path(), std::ios::binary | std::ios::trunc) << bytes;
  }
  // Changes the header of the stored sample and makes its checksum right again.
  void SetHeader(const std::function<void(IndexRootHeader*)>& change) {
    IndexRoot sample = SampleRoot();
    ASSERT_TRUE(Store(sample).ok());
    std::string bytes = Bytes();
    auto* const header = reinterpret_cast<IndexRootHeader*>(bytes.data());
    change(header);
    const uint64_t seed =
        Hash64(header, offsetof(IndexRootHeader, checksum), format::kIndexRootMagic);
    header->checksum =
        Hash64(sample.extents.data(), sample.extents.size() * sizeof(IndexExtent), seed);
    SetBytes(bytes);
  }
  // Stores a root whose extents were changed, although the checksum is right.
  void SetExtents(const std::function<void(std::vector<IndexExtent>*)>& change) {
    IndexRoot sample = SampleRoot();
    ASSERT_TRUE(Store(sample).ok());
    std::string bytes = Bytes();
    change(&sample.extents);
    ASSERT_EQ(sample.extents.size(), SampleRoot().extents.size());
    const size_t size = sample.extents.size() * sizeof(IndexExtent);
    std::memcpy(bytes.data() + sizeof(IndexRootHeader) + kBuckets * sizeof(format::IndexCoverage),
                sample.extents.data(), size);
    auto* const header = reinterpret_cast<IndexRootHeader*>(bytes.data());
    const uint64_t seed =
        Hash64(header, offsetof(IndexRootHeader, checksum), format::kIndexRootMagic);
    header->checksum = Hash64(sample.extents.data(), size, seed);
    SetBytes(bytes);
  }

  const OpenDir dir_{FastParent()};
  bool is_replaced_ = false;  // by the last Store
};

TEST_F(IndexRootTest, IsLoadedAsItWasStored) {
  IndexRoot empty;
  empty.root_id = 5;
  empty.coverages.resize(1);
  ASSERT_TRUE(Store(empty).ok());
  ExpectLoads(empty);
  ASSERT_TRUE(Store(SampleRoot()).ok());
  ExpectLoads(SampleRoot());
  EXPECT_EQ(std::filesystem::file_size(Path()), 4096u);
  IndexRoot large;
  large.root_id = 6;
  large.coverages.assign(1024, {1, 0, 1, 0, 1, 1});
  for (uint32_t i = 0; i < 9000; ++i) {
    large.extents.push_back({i * 10, i * 10 + 9, i + 1, 8999 - i, 10, i / 10, 0, i});
  }
  ASSERT_TRUE(Store(large).ok());
  ExpectLoads(large);
  EXPECT_EQ(std::filesystem::file_size(Path()) % 4096, 0u);
  EXPECT_FALSE(dir_.Has(format::kIndexRootTempName));
}

TEST_F(IndexRootTest, FindsTheExtentsOfABucket) {
  const IndexRoot root = SampleRoot();
  EXPECT_EQ(root.ExtentsOf(0).size(), 3u);
  EXPECT_EQ(root.ExtentsOf(0).data(), root.extents.data());
  EXPECT_EQ(root.ExtentsOf(3).size(), 1u);
  EXPECT_EQ(root.ExtentsOf(3)[0].generation, 1004u);
  EXPECT_EQ(root.ExtentsOf(19).size(), 2u);
  EXPECT_TRUE(root.ExtentsOf(1).empty());
  EXPECT_TRUE(root.ExtentsOf(18).empty());
  EXPECT_TRUE(IndexRoot().ExtentsOf(0).empty());
}

TEST_F(IndexRootTest, IsNotFoundWhereThereIsNone) {
  ExpectRefused(Code::kNotFound, "");
  ASSERT_TRUE(Store(SampleRoot()).ok());
  std::ofstream(dir_.Join(format::kIndexRootTempName)) << "left by an interruption";
  ASSERT_TRUE(l1::RemoveIndexRoot(dir_.fd()).ok());
  EXPECT_FALSE(dir_.Has(format::kIndexRootName));
  EXPECT_FALSE(dir_.Has(format::kIndexRootTempName));
  ExpectRefused(Code::kNotFound, "");
  EXPECT_TRUE(l1::RemoveIndexRoot(dir_.fd()).ok());
}

TEST_F(IndexRootTest, EveryByteButTheCoverageIsChecked) {
  ASSERT_TRUE(Store(SampleRoot()).ok());
  const std::string bytes = Bytes();
  const size_t coverage_end = sizeof(IndexRootHeader) + kBuckets * sizeof(format::IndexCoverage);
  const size_t end = coverage_end + SampleRoot().extents.size() * sizeof(IndexExtent);
  for (size_t i = 0; i < end; ++i) {
    std::string damaged = bytes;
    damaged[i] ^= static_cast<char>(1 << i % 8);
    SetBytes(damaged);
    IndexRoot root;
    const Status status = Load(&root);
    if (i >= sizeof(IndexRootHeader) && i < coverage_end) {
      ASSERT_TRUE(status.ok()) << i;
      ASSERT_FALSE(SameBytes(root.coverages, SampleRoot().coverages)) << i;
    } else {
      ASSERT_TRUE(status.code() == Code::kCorruption || status.code() == Code::kNotSupported)
          << i << ": " << status.ToString();
      ASSERT_FALSE(status.message().empty());
    }
  }
}

TEST_F(IndexRootTest, OfAnotherLengthItIsDamaged) {
  ASSERT_TRUE(Store(SampleRoot()).ok());
  const std::string bytes = Bytes();
  for (const size_t size : {0, 1, 63, 64, 100, 700, 4095}) {
    SetBytes(bytes.substr(0, size));
    ExpectRefused(Code::kCorruption, size < 64 ? "truncated" : "size");
  }
  SetBytes(bytes + std::string(4096, '\0'));
  ExpectRefused(Code::kCorruption, "size");
}

TEST_F(IndexRootTest, OfAnotherStoreShapeOrVersionItIsRefused) {
  ASSERT_TRUE(Store(SampleRoot()).ok());
  IndexRoot root;
  Status status = Load(&root, kExtentStoreId + 1);
  EXPECT_EQ(status.code(), Code::kCorruption);
  EXPECT_NE(status.message().find("another store"), std::string::npos);
  status = l1::LoadIndexRoot(dir_.fd(), {kExtentStoreId, kExtentStoreId + 1}, kBuckets, &root);
  EXPECT_NE(status.message().find("another store"), std::string::npos) << "its seed is another";
  status = Load(&root, kExtentStoreId, kBuckets + 1);
  EXPECT_EQ(status.code(), Code::kCorruption);
  EXPECT_EQ(status.message(), "key_index_root: it has 20 buckets, the store has 21");
  SetHeader([](IndexRootHeader* header) { header->root_version = format::kIndexRootVersion + 1; });
  ExpectRefused(Code::kNotSupported, "version 3");
  SetHeader([](IndexRootHeader* header) { header->file_count = 8; });
  ExpectRefused(Code::kNotSupported, "8 files");
  SetHeader([](IndexRootHeader* header) { header->magic = 1; });
  ExpectRefused(Code::kCorruption, "not the root");
  SetHeader([](IndexRootHeader*) {});
  ExpectLoads(SampleRoot());
}

// The file is sparse and as long as its count says, so only the count can be refused. Nothing of
// that size is asked for.
TEST_F(IndexRootTest, CountsAreCheckedBeforeMemoryIsAllocated) {
  static bool large_request;
  large_request = false;
  const WatchMemory watch([](size_t size) { large_request |= size > (1 << 20); });
  SetHeader([](IndexRootHeader* header) { header->extent_count = ~0u; });
  ExpectRefused(Code::kCorruption, "too many extents");
  std::filesystem::resize_file(Path(), RoundUp(64 + 48 * kBuckets + 48 * uint64_t{~0u}, 4096));
  ExpectRefused(Code::kCorruption, "too many extents");
  SetHeader([](IndexRootHeader* header) { header->extent_count = l1::kMaxExtentPlaces; });
  ExpectRefused(Code::kCorruption, "size");
  EXPECT_FALSE(large_request);
}

TEST_F(IndexRootTest, ExtentsThatCannotBeAreRefused) {
  using Extents = std::vector<IndexExtent>;
  const struct {
    const char* why;
    std::function<void(Extents*)> change;
  } kChanges[] = {
      {"of no bucket", [](Extents* all) { all->back().bucket = kBuckets; }},
      {"no generation", [](Extents* all) { (*all)[1].generation = 0; }},
      {"out of bounds", [](Extents* all) { (*all)[2].place = l1::kMaxExtentPlaces; }},
      {"impossible number", [](Extents* all) { (*all)[3].record_count = 0; }},
      {"impossible number",
       [](Extents* all) { all->back().record_count = format::kIndexExtentRecords + 1; }},
      {"more records than keys", [](Extents* all) { (*all)[0].record_count = 101; }},
      {"more records than keys", [](Extents* all) { (*all)[1].last_key = 99; }},
      {"out of order", [](Extents* all) { (*all)[1].first_key = 99; }},
      {"out of order", [](Extents* all) { std::swap((*all)[4], (*all)[5]); }},
      {"out of order", [](Extents* all) { (*all)[2].bucket = 4; }},
      {"place 4 is named twice", [](Extents* all) { all->back().place = 4; }},
  };
  for (const auto& [why, change] : kChanges) {
    SCOPED_TRACE(why);
    SetExtents(change);
    ExpectRefused(Code::kCorruption, why);
  }
  SetExtents([](Extents*) {});
  ExpectLoads(SampleRoot());
}

TEST_F(IndexRootTest, ASymlinkIsNotFollowed) {
  ASSERT_TRUE(Store(SampleRoot()).ok());
  std::filesystem::rename(Path(), dir_.Join("elsewhere"));
  std::filesystem::create_symlink("elsewhere", Path());
  ExpectRefused(Code::kCorruption, "");
  // Replaced, not followed.
  ASSERT_TRUE(Store(SampleRoot()).ok());
  EXPECT_FALSE(std::filesystem::is_symlink(Path()));
}

// Notes each step of a replacement and fails one of them.
class Steps final : public SystemCallHook {
 public:
  long OnCall(SystemCall* call) override {
    const std::string step = NameOf(*call);
    if (step.empty()) return call->Proceed();
    steps += step;
    if (static_cast<int>(steps.size()) - 1 != failing_step) return call->Proceed();
    errno = error;
    return -1;
  }

  std::string steps;
  int failing_step = -1;
  int error = EIO;

 private:
  static std::string NameOf(const SystemCall& call) {
    if (call.kind == CallKind::kPwrite) return "w";
    if (call.kind == CallKind::kRenameAt) return "r";
    if (call.kind != CallKind::kFsync) return "";
    return PathOf(call).ends_with(format::kIndexRootTempName) ? "s" : "d";
  }
};

TEST_F(IndexRootTest, IsDurableBeforeItTakesTheOthersPlaceAndThenItsNameIs) {
  Steps steps;
  const ScopedHook hook(&steps);
  ASSERT_TRUE(Store(SampleRoot()).ok());
  EXPECT_EQ(steps.steps, "wwwwsrd");
}

TEST_F(IndexRootTest, AFailureAtAnyStepLeavesTheOldRootOrTheNew) {
  IndexRoot next = SampleRoot();
  next.root_id = 0x123;
  next.extents.resize(1);
  for (int failing = 0; failing < 7; ++failing) {
    SCOPED_TRACE(failing);
    ASSERT_TRUE(Store(SampleRoot()).ok());
    {
      Steps steps;
      steps.failing_step = failing;
      steps.error = failing < 4 ? ENOSPC : EIO;
      const ScopedHook hook(&steps);
      EXPECT_EQ(Store(next).code(), failing < 4 ? Code::kFull : Code::kIOError);
    }
    EXPECT_FALSE(dir_.Has(format::kIndexRootTempName));
    EXPECT_EQ(is_replaced_, failing == 6);
    ExpectLoads(failing < 6 ? SampleRoot() : next);
  }
}

TEST_F(IndexRootTest, TheLimitOnFileSizesIsFullAndNoSignal) {
  ASSERT_TRUE(Store(SampleRoot()).ok());
  struct rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  IndexRoot large = SampleRoot();
  large.coverages.resize(10000);
  const struct rlimit limit = {4096, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  const Status status = Store(large);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(status.code(), Code::kFull) << status.ToString();
  ExpectLoads(SampleRoot());
}

TEST_F(IndexRootTest, RefusedMemoryIsAnError) {
  ASSERT_TRUE(Store(SampleRoot()).ok());
  bool refused = true;
  for (uint64_t passed = 0; refused; ++passed) {
    ASSERT_LT(passed, 100u);
    IndexRoot root;
    Status status;
    {
      const RefuseMemory refuse(passed);
      status = Load(&root);
      refused = refuse.refused();
    }
    EXPECT_EQ(status.code(), refused ? Code::kOutOfMemory : Code::kOk);
    EXPECT_EQ(root.extents.empty(), refused);
  }
}

TEST_F(IndexRootTest, HasItsMode) {
  ASSERT_TRUE(Store(SampleRoot()).ok());
  struct stat status;
  ASSERT_EQ(::stat(Path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640u);
}

}  // namespace
}  // namespace engine_race::test
