// The stats file: two processes, stores that are killed, and files that nobody may trust.
#include "engine_race/stats_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "engine_race/base/clock.h"
#include "engine_race/base/sys.h"
#include "engine_race/stats_fields.h"
#include "engine_race/store.h"
#include "test/e2e/engine_fixture.h"
#include "test/e2e/small_disk.h"
#include "test/e2e/stats_file_helpers.h"
#include "test/eventually.h"
#include "test/log_lines.h"
#include "test/test_util.h"

namespace engine_race::test {
namespace {

namespace fs = std::filesystem;

// Another process that has a store open until it is killed or destroyed.
class StoreProcess {
 public:
  StoreProcess(const std::string& dir, const Options& options, uint64_t write_count) {
    int ready[2];
    EXPECT_EQ(::pipe2(ready, O_CLOEXEC), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      std::unique_ptr<Store> store;
      char done = Store::Open(AsRun(options), dir, &store).ok() ? 'y' : 'n';
      for (uint64_t key = 0; done == 'y' && key < write_count; ++key) {
        if (!store->Write(KeyOf(key), ValueOf(key, 1)).ok()) done = 'n';
      }
      if (::write(ready[1], &done, 1) != 1) ::_exit(1);
      while (true) ::pause();
    }
    ::close(ready[1]);
    char done = 0;
    EXPECT_EQ(::read(ready[0], &done, 1), 1);
    EXPECT_EQ(done, 'y');
    ::close(ready[0]);
  }
  StoreProcess(const StoreProcess&) = delete;
  StoreProcess& operator=(const StoreProcess&) = delete;
  ~StoreProcess() { Kill(); }

  void Kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  uint64_t pid() const { return static_cast<uint64_t>(pid_); }

 private:
  pid_t pid_ = -1;
};

TEST(StatsFileTest, WhatIsEncodedIsDecoded) {
  const PublishedStats written = NumberedPublishedStats();
  PublishedStats read;
  const std::string text = EncodeStats(written);
  ASSERT_TRUE(DecodeStats(text + "left behind by a longer text", &read).ok());
  EXPECT_EQ(EncodeStats(read), text);
  for (const StatsField& field : StatsFields()) {
    EXPECT_EQ(field.get(read.stats), field.get(written.stats)) << field.name;
  }
  EXPECT_EQ(read.stats.key_range.last, 9u);
  EXPECT_EQ(read.stats.io_backend, "libaio");
  EXPECT_EQ(read.taken_at_ms, 14u);
  for (size_t i = 0; i < kLatencyKindCount; ++i) {
    const LatencyHistogram& histogram = read.latencies.kinds[i];
    EXPECT_EQ(histogram.max_ns(), written.latencies.kinds[i].max_ns());
    EXPECT_EQ(histogram.PercentileNs(0.5), written.latencies.kinds[i].PercentileNs(0.5));
  }
}

TEST(StatsFileTest, NoPartAndNoDamagedTextIsBelieved) {
  const std::string text = EncodeStats(NumberedPublishedStats());
  PublishedStats read;
  for (size_t size = 0; size < text.size(); ++size) {
    ASSERT_EQ(DecodeStats(text.substr(0, size), &read).code(), Code::kCorruption) << size;
  }
  const size_t version_at = text.find('1');
  for (size_t at = 0; at < text.size(); ++at) {
    std::string damaged = text;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    if (at == version_at) continue;
    ASSERT_EQ(DecodeStats(damaged, &read).code(), Code::kCorruption) << at;
  }
}

TEST(StatsFileTest, AnotherFormatVersionIsNoDamage) {
  std::string text = EncodeStats(NumberedPublishedStats());
  text[text.find('1')] = '2';
  PublishedStats read;
  const Status decoded = DecodeStats(text, &read);
  EXPECT_EQ(decoded.code(), Code::kNotSupported);
  EXPECT_NE(decoded.message().find("version 2,"), std::string::npos) << decoded.ToString();
}

// Some file systems cannot reserve space. The store does without it there.
bool CanReserve(const TempDir& dir) {
  const UniqueFd file(::open(dir.Join("trial").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  return ::fallocate(file.get(), FALLOC_FL_KEEP_SIZE, 0, 64 << 10) == 0;
}

// Written by hand, under the lock: a write that stops halfway.
TEST(StatsFileTest, ATornWriteIsNotCalledDamage) {
  TempDir dir;
  UniqueFd directory;
  ASSERT_TRUE(sys::OpenDirectory(dir.path(), false, &directory).ok());
  std::ofstream(dir.Join("manifest")) << "there is a store";
  StatsFile file;
  ASSERT_TRUE(StatsFile::Create(std::move(directory), 0600, NumberedPublishedStats(), &file).ok());
  struct stat info;
  ASSERT_EQ(::stat(dir.Join(kStatsFileName).c_str(), &info), 0);
  const std::string whole = EncodeStats(NumberedPublishedStats());
  EXPECT_EQ(static_cast<size_t>(info.st_size), whole.size());
  if (CanReserve(dir)) {
    EXPECT_GE(static_cast<size_t>(info.st_blocks) * 512, 64u << 10);  // for longer texts
  }
  StatsReader reader;
  ASSERT_TRUE(StatsReader::Open(dir.path(), &reader).ok());
  std::fstream(dir.Join(kStatsFileName)).seekp(100) << "torn";
  PublishedStats seen;
  bool has_ended = true;
  Status read = reader.Read(&seen, &has_ended);
  EXPECT_EQ(read.code(), Code::kIncomplete) << read.ToString();
  EXPECT_FALSE(has_ended);
  file = StatsFile();
  read = reader.Read(&seen, &has_ended);
  EXPECT_EQ(read.code(), Code::kIncomplete) << read.ToString();
  EXPECT_TRUE(has_ended);
}

TEST(StatsFileTest, StatsSayWhenTheyWereTaken) {
  TempDir dir;
  const uint64_t before_ms = BootTimeMs();
  const auto store = OpenStore(dir.path(), OfferingOptions());
  ASSERT_NE(store, nullptr);
  StatsReader reader;
  ASSERT_TRUE(StatsReader::Open(dir.path(), &reader).ok());
  PublishedStats seen;
  bool has_ended = false;
  ASSERT_TRUE(reader.Read(&seen, &has_ended).ok());
  EXPECT_GE(seen.taken_at_ms, before_ms);
  EXPECT_LE(seen.taken_at_ms, BootTimeMs());
}

TEST(StatsFileTest, TwoReadersFollowAStoreOfAnotherProcess) {
  TempDir dir;
  StoreProcess process(dir.path(), OfferingOptions(), 25);
  StatsReader first;
  StatsReader second;
  for (StatsReader* reader : {&first, &second}) {
    const Status opened = StatsReader::Open(dir.path(), reader);
    ASSERT_TRUE(opened.ok()) << opened.ToString();
  }
  PublishedStats seen;
  uint64_t last_sequence = 0;
  for (const StatsReader* reader : {&first, &second, &first}) {
    EXPECT_TRUE(Eventually([&] {
      bool has_ended = true;
      EXPECT_TRUE(reader->Read(&seen, &has_ended).ok());
      EXPECT_FALSE(has_ended);
      return seen.sequence > last_sequence && seen.stats.write_count == 25;
    }));
    last_sequence = seen.sequence;
    EXPECT_EQ(seen.process_id, process.pid());
    EXPECT_EQ(seen.interval_ms, kMinStatsIntervalMs);
  }
  process.Kill();
  bool has_ended = false;
  ASSERT_TRUE(first.Read(&seen, &has_ended).ok());
  EXPECT_TRUE(has_ended);
  EXPECT_EQ(seen.stats.write_count, 25u);
  // The file that the killed process has left behind.
  EXPECT_TRUE(fs::exists(dir.Join(kStatsFileName)));
  EXPECT_EQ(CodeOfOpening(dir.path()), Code::kIncomplete);
}

TEST(StatsFileTest, AFileThatAKilledStoreLeftBehindIsReplaced) {
  TempDir dir;
  StoreProcess(dir.path(), OfferingOptions(), 1).Kill();
  std::ofstream(dir.Join(kStatsTempName)) << "engine_ra";  // of a process that was killed
  {
    // A process without the offer leaves the file alone, and nobody takes it for its own.
    StoreProcess silent(dir.path(), TinyOptions(), 0);
    EXPECT_EQ(CodeOfOpening(dir.path()), Code::kNotSupported);
  }
  {
    const auto store = OpenStore(dir.path(), OfferingOptions());
    ASSERT_NE(store, nullptr);
    StatsReader reader;
    ASSERT_TRUE(StatsReader::Open(dir.path(), &reader).ok());
    PublishedStats seen;
    bool has_ended = true;
    ASSERT_TRUE(reader.Read(&seen, &has_ended).ok());
    EXPECT_FALSE(has_ended);
    EXPECT_EQ(seen.process_id, static_cast<uint64_t>(::getpid()));
    EXPECT_FALSE(fs::exists(dir.Join(kStatsTempName)));
    struct stat info;
    ASSERT_EQ(::stat(dir.Join(kStatsFileName).c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, 0600u);
  }
  EXPECT_FALSE(fs::exists(dir.Join(kStatsFileName)));
  EXPECT_EQ(CodeOfOpening(dir.path()), Code::kIncomplete);
}

TEST(StatsFileTest, NoStoreAndNoOfferAreToldApart) {
  TempDir dir;
  EXPECT_EQ(CodeOfOpening(dir.Join("nothing")), Code::kNotFound);
  EXPECT_EQ(CodeOfOpening(dir.path()), Code::kNotFound);
  { const auto store = OpenStore(dir.path(), TinyOptions()); }
  EXPECT_EQ(CodeOfOpening(dir.path()), Code::kIncomplete);
  const auto store = OpenStore(dir.path(), TinyOptions());
  StatsReader reader;
  const Status opened = StatsReader::Open(dir.path(), &reader);
  EXPECT_EQ(opened.code(), Code::kNotSupported);
  EXPECT_NE(opened.message().find("stats_interval_ms"), std::string::npos) << opened.ToString();
}

// Readers hold whatever locks they can get, and never come to an end.
TEST(StatsFileTest, AHostileReaderHoldsNothingUp) {
  TempDir dir;
  auto store = OpenStore(dir.path(), OfferingOptions());
  ASSERT_NE(store, nullptr);
  UniqueFd held;
  ASSERT_TRUE(sys::OpenAt(AT_FDCWD, dir.Join(kStatsFileName), O_RDONLY, 0, &held).ok());
  EXPECT_EQ(sys::LockFile(held.get(), sys::LockKind::kShared).code(), Code::kIOError);
  store.reset();
  ASSERT_TRUE(sys::LockFile(held.get(), sys::LockKind::kShared).ok());
  store = OpenStore(dir.path(), OfferingOptions());
  EXPECT_EQ(CodeOfOpening(dir.path()), Code::kOk);
}

TEST(StatsFileTest, AnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become somebody else";
  TempDir dir;
  Options options = OfferingOptions();
  StoreProcess process(dir.path(), options, 0);
  ASSERT_EQ(::chmod(dir.path().c_str(), 0755), 0);
  EXPECT_EQ(InChild([&] {
              if (::setuid(kNobody) != 0) return 1;
              StatsReader reader;
              const Status opened = StatsReader::Open(dir.path(), &reader);
              if (opened.code() != Code::kIOError) return 2;
              const bool is_named = opened.message().find("stats") != std::string::npos &&
                                    opened.message().find("Permission") != std::string::npos;
              return is_named ? 0 : 3;
            }),
            0);
}

TEST(StatsFileTest, AStoreOnAFullDiskDoesWithoutTheFile) {
  SmallDisk disk(DiskKind::kExt4With4KBlocks);
  if (!disk.mounted()) GTEST_SKIP() << "no file system could be mounted here: needs root";
  { const auto store = OpenStore(disk.StoreDir(), SmallGroups()); }
  disk.AddBallast(2 * kDiskBytes);
  LogLines lines;
  Options options = SmallGroups();
  options.stats_interval_ms = kMinStatsIntervalMs;
  options.log = lines.Callback();
  const auto store = OpenStore(disk.StoreDir(), options);
  ASSERT_NE(store, nullptr);
  EXPECT_TRUE(lines.Said("the store does not offer its stats: kFull")) << lines.text();
  EXPECT_FALSE(fs::exists(disk.StoreDir() + "/" + kStatsFileName));
  EXPECT_FALSE(fs::exists(disk.StoreDir() + "/" + kStatsTempName));
  EXPECT_EQ(CodeOfOpening(disk.StoreDir()), Code::kNotSupported);
  std::string value;
  EXPECT_EQ(store->Read(KeyOf(1), &value).code(), Code::kNotFound);
}

TEST(StatsFileTest, ReadersSeeWholeStatesOfABusyStore) {
  TempDir dir;
  Options options = OfferingOptions();
  options.latency_stats = true;
  const auto store = OpenStore(dir.path(), options);
  ASSERT_NE(store, nullptr);
  StatsReader reader;
  ASSERT_TRUE(StatsReader::Open(dir.path(), &reader).ok());
  std::atomic<bool> is_over{false};
  RunThreads(4, [&](uint32_t thread) {
    if (thread > 0) {
      for (uint64_t i = 0; !is_over; ++i) {
        const uint64_t key = (i * 4 + thread) % 64;
        ASSERT_TRUE(store->Write(KeyOf(key), ValueOf(key, 1)).ok());
        std::string value;
        ASSERT_TRUE(store->Read(KeyOf(key), &value).ok());
        std::this_thread::yield();
      }
      return;
    }
    PublishedStats before;
    for (int i = 0; i < 20;) {
      PublishedStats now;
      bool has_ended = true;
      const Status read = reader.Read(&now, &has_ended);
      EXPECT_TRUE(read.ok()) << read.ToString();
      EXPECT_FALSE(has_ended);
      EXPECT_GE(now.stats.write_count, before.stats.write_count);
      EXPECT_GE(now.latencies.Of(LatencyKind::kRead).count(),
                before.latencies.Of(LatencyKind::kRead).count());
      if (now.sequence != before.sequence) ++i;
      before = now;
    }
    is_over = true;
  });
}

}  // namespace
}  // namespace engine_race::test
