// What becomes of the index's coverage when a log is cut. Power losses are played by lost staging
// and another page cache in the counts.
#include "engine_race/log/index_coverage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "test/log/log_parts_test_util.h"
#include "test/log/page_cache_test_util.h"

namespace engine_race::test {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kRootId = 99;

TEST(CoverageCheckTest, DependsOnAllThatItIsOf) {
  const uint64_t checks[] = {
      CoverageCheck(1, 2, 3, {4, 5, 6, 7, 8, 0}), CoverageCheck(9, 2, 3, {4, 5, 6, 7, 8, 0}),
      CoverageCheck(1, 9, 3, {4, 5, 6, 7, 8, 0}), CoverageCheck(1, 2, 9, {4, 5, 6, 7, 8, 0}),
      CoverageCheck(1, 2, 3, {9, 5, 6, 7, 8, 0}), CoverageCheck(1, 2, 3, {4, 9, 6, 7, 8, 0}),
      CoverageCheck(1, 2, 3, {4, 5, 9, 7, 8, 0}), CoverageCheck(1, 2, 3, {4, 5, 6, 9, 8, 0}),
      CoverageCheck(1, 2, 3, {4, 5, 6, 7, 9, 0}),
  };
  for (const uint64_t& check : checks) {
    EXPECT_NE(check, 0u);
    EXPECT_EQ(std::count(std::begin(checks), std::end(checks), check), 1);
  }
  EXPECT_EQ(checks[0], CoverageCheck(1, 2, 3, {4, 5, 6, 7, 8, 9}));
}

class CoverageHoldsTest : public testing::Test {
 protected:
  static constexpr uint64_t kEra = uint64_t{1} << 24;

  // Of 6 records and the given births, made whole.
  static format::IndexCoverage Covering(uint64_t births) {
    format::IndexCoverage coverage = {4, births / 2, 6, births, kLastEntry.check, 0};
    coverage.check = CoverageCheck(1, 2, 3, coverage);
    return coverage;
  }
  static bool Holds(const format::IndexCoverage& coverage, const BucketMoment& now,
                    const Status& read = Status::Ok(), const format::KeyEntry& entry = kLastEntry) {
    return CoverageHolds(1, 2, 3, coverage, now, [&](uint64_t sequence, format::KeyEntry* found) {
      EXPECT_EQ(sequence, 5U);
      *found = entry;
      return read;
    });
  }

  static constexpr format::KeyEntry kLastEntry = {5, 0, 0, 6};
};

TEST_F(CoverageHoldsTest, IfTheBucketHasWhatItCovers) {
  EXPECT_TRUE(Holds(Covering(10), {6, 10}));
  EXPECT_TRUE(Holds(Covering(10), {9, 12}));
  EXPECT_FALSE(Holds(Covering(10), {5, 10})) << "records";
  EXPECT_FALSE(Holds(Covering(10), {6, 9})) << "births";
  format::IndexCoverage changed = Covering(10);
  --changed.births;
  EXPECT_FALSE(Holds(changed, {6, 10})) << "the check";
  EXPECT_FALSE(Holds({}, {6, 10}));
}

TEST_F(CoverageHoldsTest, InItsEraAlone) {
  EXPECT_TRUE(Holds(Covering(kEra - 2), {6, kEra - 1}));
  EXPECT_FALSE(Holds(Covering(kEra - 2), {6, kEra}));
  EXPECT_TRUE(Holds(Covering(kEra), {6, kEra + 5}));
}

TEST_F(CoverageHoldsTest, IfTheLastRecordIsTheSameOrIsFreed) {
  EXPECT_FALSE(Holds(Covering(10), {6, 10}, Status::Ok(), {5, 0, 0, 7}));
  EXPECT_FALSE(Holds(Covering(10), {6, 10}, Status(Code::kIOError, {})));
  EXPECT_TRUE(Holds(Covering(10), {6, 10}, Status(Code::kInvalidArgument, {})));
}

// Of a root: a header of this store, and 40 bytes that stand for an extent.
struct RootBytes {
  format::IndexRootHeader header{};
  format::IndexCoverage coverage[4] = {};
  char extent[40] = {'x', 'y'};
};

class IndexCoverageTest : public testing::Test {
 protected:
  // Buckets 0 and 1 get six records each, which are synced, and one more, which is not.
  void SetUp() override {
    const auto log = OpenLog(TinyLogOptions(), dir_.path());
    store_id_ = log->store_id();
    AppendEach(log.get(), 0, 6);
    ASSERT_TRUE(log->Sync().ok());
    AppendEach(log.get(), 6, 7);
  }
  static void AppendEach(BucketLog* log, uint64_t begin, uint64_t end) {
    for (uint64_t key = begin; key < end; ++key) {
      ASSERT_TRUE(log->Append(key, ValueOf(key, 1).data()).ok());
      ASSERT_TRUE(log->Append(kKeyStep + key, ValueOf(key, 1).data()).ok());
    }
  }

  RootBytes RootOf(const std::vector<uint64_t>& record_counts, uint64_t births = 0) const {
    RootBytes root;
    root.header.magic = format::kIndexRootMagic;
    root.header.root_version = format::kIndexRootVersion;
    root.header.bucket_count = 4;
    root.header.store_id = store_id_;
    root.header.seed_id = store_id_;
    root.header.root_id = kRootId;
    root.header.extent_count = 1;
    for (size_t i = 0; i < record_counts.size(); ++i) {
      // The extents hold records up to the count, and all of those below a half of it.
      if (record_counts[i] != 0) {
        root.coverage[i] = {record_counts[i] / 2, 0, record_counts[i], births, 0, 0};
        root.coverage[i].check = CoverageCheck(store_id_, kRootId, i, root.coverage[i]);
      }
    }
    return root;
  }
  void PutRoot(const RootBytes& root) const {
    std::string bytes(kIoAlignment, '\0');
    std::memcpy(bytes.data(), &root, sizeof(root));
    std::ofstream(RootPath(), std::ios::binary) << bytes;
  }
  std::string FoundRoot() const {
    std::ifstream file(RootPath(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // What a root becomes whose coverage of `voided` is voided and nothing else.
  static std::string Voided(RootBytes root, const std::vector<size_t>& voided) {
    for (const size_t bucket : voided) root.coverage[bucket] = {};
    std::string bytes(kIoAlignment, '\0');
    std::memcpy(bytes.data(), &root, sizeof(root));
    return bytes;
  }
  std::string RootPath() const { return dir_.Join(format::kIndexRootName); }

  Status Open() const {
    std::unique_ptr<BucketLog> log;
    return BucketLog::Open(TinyLogOptions(), dir_.path(), &log);
  }
  // What an opening says. Bucket 0 has seven records.
  std::vector<std::string> LinesOfAnOpening() const {
    std::vector<std::string> lines;
    Options options = TinyLogOptions();
    options.log = [&lines](LogLevel, std::string_view line) { lines.emplace_back(line); };
    EXPECT_EQ(RecordsOf(OpenLog(options, dir_.path()).get(), 0).size(), 7u);
    return lines;
  }
  // The root covers more of bucket 0 than there is.
  void ExpectInDoubt(const RootBytes& root) const {
    PutRoot(root);
    const std::vector<std::string> lines = LinesOfAnOpening();
    ASSERT_FALSE(lines.empty());
    EXPECT_NE(lines[0].find("the index covers more"), std::string::npos) << lines[0];
    EXPECT_EQ(FoundRoot(), Voided(root, {0}));
  }
  void ExpectRecords(uint64_t in_first, uint64_t in_second) const {
    const auto log = OpenLog(TinyLogOptions(), dir_.path());
    EXPECT_EQ(RecordsOf(log.get(), 0).size(), in_first);
    EXPECT_EQ(RecordsOf(log.get(), 1).size(), in_second);
  }

  TempDir dir_;
  uint64_t store_id_ = 0;
};

TEST_F(IndexCoverageTest, ACutVoidsWhatIsCoveredPastItAndNothingElse) {
  const RootBytes root = RootOf({7, 6, 0, 1});
  PutRoot(root);
  LosePower(dir_.path(), store_id_);
  ExpectRecords(6, 6);
  EXPECT_EQ(FoundRoot(), Voided(root, {0, 3}));
}

TEST_F(IndexCoverageTest, ALogThatIsNotCutLeavesTheCoverage) {
  const RootBytes root = RootOf({7, 6, 0, 0});
  PutRoot(root);
  ExpectRecords(7, 7);
  Restart(dir_.path(), store_id_);
  ExpectRecords(7, 7);
  EXPECT_EQ(FoundRoot(), Voided(root, {}));
}

// A crash in between would leave counts that are the truth, beside a coverage that is not.
TEST_F(IndexCoverageTest, TheCoverageIsVoidedDurablyBeforeTheCountsAreSet) {
  PutRoot(RootOf({7, 7, 0, 0}));
  LosePower(dir_.path(), store_id_);
  enum class Root { kOld, kWritten, kFlushed } state = Root::kOld;
  int count_writes = 0;
  CallWatch watch([&](SystemCall* call) {
    const std::string path = call->kind == CallKind::kPwrite || call->kind == CallKind::kFdatasync
                                 ? PathOf(*call)
                                 : std::string();
    const long result = call->Proceed();
    if (path == RootPath()) {
      state = call->kind == CallKind::kPwrite ? Root::kWritten : Root::kFlushed;
    }
    if (path == dir_.Join(format::kStagingCountsName) && call->kind == CallKind::kPwrite) {
      ++count_writes;
      EXPECT_EQ(state, Root::kFlushed);
    }
    return result;
  });
  {
    const ScopedHook hook(&watch);
    EXPECT_TRUE(Open().ok());
  }
  EXPECT_GT(count_writes, 0);
}

TEST_F(IndexCoverageTest, AnInterruptedVoidingIsDoneAgain) {
  const RootBytes root = RootOf({7, 7, 0, 0});
  PutRoot(root);
  LosePower(dir_.path(), store_id_);
  {
    FailingCalls failing(CallKind::kFsync, dir_.path(), EIO);
    const ScopedHook hook(&failing);
    EXPECT_EQ(Open().code(), Code::kIOError);
    EXPECT_EQ(failing.count, 1);
  }
  EXPECT_EQ(FoundRoot(), Voided(root, {0, 1})) << "in a directory that was not flushed";
  int flush_count = 0;
  bool durably = false;
  CallWatch watch([&](SystemCall* call) {
    if (call->kind == CallKind::kFdatasync && PathOf(*call) == RootPath()) ++flush_count;
    // The name may lead to an older root after a power loss.
    if (call->kind == CallKind::kFsync && PathOf(*call) == dir_.path()) durably = true;
    if (call->kind == CallKind::kPwrite && PathOf(*call) == dir_.Join(format::kStagingCountsName)) {
      EXPECT_TRUE(durably);
    }
    return call->Proceed();
  });
  {
    const ScopedHook hook(&watch);
    ExpectRecords(6, 6);
  }
  EXPECT_EQ(flush_count, 1);
  EXPECT_TRUE(durably);
  EXPECT_EQ(FoundRoot(), Voided(root, {0, 1}));
}

TEST_F(IndexCoverageTest, ARootThatCannotBeUsedIsRemovedWhenALogIsCut) {
  const std::function<void(format::IndexRootHeader*)> edits[] = {
      [](format::IndexRootHeader* header) { ++header->magic; },
      [](format::IndexRootHeader* header) { ++header->root_version; },
      [](format::IndexRootHeader* header) { header->bucket_count = 8; },
      [](format::IndexRootHeader* header) { ++header->store_id; },
      [](format::IndexRootHeader* header) { ++header->seed_id; },
  };
  for (const auto& edit : edits) {
    RootBytes root = RootOf({6, 6, 0, 0});
    edit(&root.header);
    PutRoot(root);
    ExpectRecords(7, 7);
    EXPECT_EQ(FoundRoot(), Voided(root, {})) << "nothing is cut";
    Restart(dir_.path(), store_id_);
    ExpectRecords(7, 7);
    EXPECT_FALSE(fs::exists(RootPath()));
  }
  for (const uint64_t size_bytes : {uint64_t{0}, sizeof(RootBytes), uint64_t{kIoAlignment - 1}}) {
    PutRoot(RootOf({6, 6, 0, 0}));
    fs::resize_file(RootPath(), size_bytes);
    Restart(dir_.path(), store_id_);
    ExpectRecords(7, 7);
    EXPECT_FALSE(fs::exists(RootPath())) << size_bytes;
  }
}

TEST_F(IndexCoverageTest, ARootThatFailsIsRemovedDurablyBeforeTheCountsAreSet) {
  constexpr std::pair<CallKind, int> kFailures[] = {
      {CallKind::kOpenAt, EIO},    {CallKind::kOpenAt, EACCES}, {CallKind::kFstatAt, EIO},
      {CallKind::kPread, EIO},     {CallKind::kPwrite, EIO},    {CallKind::kPwrite, EROFS},
      {CallKind::kFdatasync, EIO},
  };
  for (const auto& [kind, error] : kFailures) {
    SCOPED_TRACE(std::string(CallName(kind)) + ": " + std::to_string(error));
    PutRoot(RootOf({7, 7, 0, 0}));
    LosePower(dir_.path(), store_id_);
    bool removed = false;
    bool durably = false;
    CallWatch watch([&, failing = kind, error = error](SystemCall* call) -> long {
      const bool is_root = PathOf(*call) == RootPath();
      if (call->kind == failing && is_root) {
        errno = error;
        return -1;
      }
      if (call->kind == CallKind::kUnlinkAt && is_root) removed = true;
      if (call->kind == CallKind::kFsync && PathOf(*call) == dir_.path()) durably = removed;
      if (call->kind == CallKind::kPwrite &&
          PathOf(*call) == dir_.Join(format::kStagingCountsName)) {
        EXPECT_TRUE(durably);
      }
      return call->Proceed();
    });
    {
      const ScopedHook hook(&watch);
      ExpectRecords(6, 6);
    }
    EXPECT_TRUE(durably);
    EXPECT_FALSE(fs::exists(RootPath()));
  }
}

TEST_F(IndexCoverageTest, ARootThatCanNeitherBeVoidedNorRemovedKeepsTheStoreShutAfterAPowerLoss) {
  const RootBytes good = RootOf({7, 7, 0, 0});
  RootBytes foreign = good;
  ++foreign.header.store_id;
  LosePower(dir_.path(), store_id_);
  for (const auto& [root, kind] : {std::pair{&good, CallKind::kPwrite},
                                   {&good, CallKind::kOpenAt},
                                   {&foreign, CallKind::kUnlinkAt}}) {
    PutRoot(*root);
    FailingCalls failing(kind, std::string("/") + format::kIndexRootName, EROFS);
    FailingCalls unlinking(CallKind::kUnlinkAt, std::string("/") + format::kIndexRootName, EROFS);
    CallWatch watch([&](SystemCall* call) {
      return call->kind == CallKind::kUnlinkAt ? unlinking.OnCall(call) : failing.OnCall(call);
    });
    const ScopedHook hook(&watch);
    EXPECT_EQ(Open().code(), Code::kIOError);
    EXPECT_EQ(unlinking.count, 1);
    EXPECT_TRUE(fs::exists(RootPath()));
  }
  // Removed, but not durably.
  for (int i = 0; i < 2; ++i) {
    FailingCalls failing(CallKind::kFsync, dir_.path(), EROFS);
    const ScopedHook hook(&failing);
    EXPECT_EQ(Open().code(), Code::kIOError);
    EXPECT_EQ(failing.count, 1);
    EXPECT_FALSE(fs::exists(RootPath()));
  }
  ExpectRecords(6, 6);
}

TEST_F(IndexCoverageTest, ARootThatIsNoFileIsCorruption) {
  fs::create_symlink("manifest", RootPath());
  EXPECT_EQ(Open().code(), Code::kCorruption);
  LosePower(dir_.path(), store_id_);
  EXPECT_EQ(Open().code(), Code::kCorruption);
  EXPECT_TRUE(fs::is_symlink(RootPath()));
  fs::remove(RootPath());
  ExpectRecords(6, 6);
}

TEST_F(IndexCoverageTest, ARootThatIsBeingWrittenIsLeftAlone) {
  std::ofstream(dir_.Join(format::kIndexRootTempName)) << "a part";
  LosePower(dir_.path(), store_id_);
  ExpectRecords(6, 6);
  EXPECT_EQ(fs::file_size(dir_.Join(format::kIndexRootTempName)), 6u);
}

// Rows that the root covers are lost: other rows would get their births.
TEST_F(IndexCoverageTest, BirthsThatAreLostVoidTheCoverage) {
  const RootBytes root = RootOf({6, 0, 0, 0}, /*births=*/1);
  ASSERT_NO_FATAL_FAILURE(ExpectInDoubt(root));
}

// As in a copy that was made while the store was open: the counts are from before the root.
TEST_F(IndexCoverageTest, CountsBelowTheCoverageAreInDoubt) {
  const RootBytes root = RootOf({8, 7, 0, 0});
  ASSERT_NO_FATAL_FAILURE(ExpectInDoubt(root));
  EXPECT_TRUE(LinesOfAnOpening().empty());
}

// It says nothing of the counts. In doubt the unsynced records would be cut at the first bad value.
TEST_F(IndexCoverageTest, DamagedCoverageIsIgnored) {
  using Coverage = format::IndexCoverage;
  for (uint64_t Coverage::*const field :
       {&Coverage::record_count, &Coverage::end_count, &Coverage::end_births, &Coverage::check}) {
    RootBytes root = RootOf({8, 6, 0, 0});
    root.coverage[0].*field += 100;
    PutRoot(root);
    EXPECT_TRUE(LinesOfAnOpening().empty());
    EXPECT_EQ(FoundRoot(), Voided(root, {}));
  }
  RootBytes root = RootOf({8, 6, 0, 0});
  ++root.header.root_id;
  PutRoot(root);
  EXPECT_TRUE(LinesOfAnOpening().empty());
}

}  // namespace
}  // namespace engine_race::test
