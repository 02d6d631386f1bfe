// Thousands of damaged stores: each must refuse to open, or answer rightly or with an error; none
// may give wrong bytes, crash or hang.
//
// Wrong is a value that was never written under its key, and an older one (or none) where a newer
// one was acknowledged, unless the damage is one that no checksum can see. Counts and rows put back
// to what they once were are as sound as the true ones, and so are other entries in the slots of
// kept records. Such cases are held to the older state, or to any older values. Those of counts
// are counted apart.
//
// DAMAGE_SEED makes one damaged store anew, the number that a failure prints.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "test/e2e/damaged_store.h"
#include "test/e2e/engine_fixture.h"
#include "test/faults/system_calls.h"
#include "test/sweep.h"

namespace engine_race::test {
namespace {

constexpr uint32_t kHangSeconds = 60;
volatile sig_atomic_t g_seed_low;
volatile sig_atomic_t g_seed_high;

// Another boot of the machine, as far as the store can see.
class OtherBoot : public SystemCallHook {
 public:
  explicit OtherBoot(std::string path) : path_(std::move(path)) {
    std::ofstream(path_) << "01234567-89ab-cdef-0123-456789abcdef\n";
  }
  long OnCall(SystemCall* call) override {
    if (call->kind == CallKind::kOpenAt &&
        std::string_view(call->name) == "/proc/sys/kernel/random/boot_id") {
      call->name = path_.c_str();
    }
    return call->Proceed();
  }

 private:
  const std::string path_;
};

BaseShape Shape(const char* name, uint32_t bucket_count, uint64_t capacity, uint32_t group_bytes,
                uint32_t record_count, uint32_t key_count) {
  BaseShape shape;
  shape.name = name;
  shape.options.bucket_count = bucket_count;
  shape.options.file_count = std::min<uint32_t>(bucket_count, 2);
  shape.options.bucket_capacity_records = capacity;
  shape.options.value_group_bytes = group_bytes;
  shape.options.memory_budget_bytes = uint64_t{16} << 20;
  shape.options.journal_bytes = kMinJournalBytes;
  // Rows come by Compact alone. A thread that cleans would change files while an image is read.
  shape.options.reclaim = Reclaim::kOff;
  shape.options.io_backend = IoBackend::kPsync;
  shape.record_count = record_count;
  shape.key_count = key_count;
  return shape;
}

std::vector<BaseShape> BaseShapes() {
  std::vector<BaseShape> shapes;
  shapes.push_back(Shape("staged", 4, 256, 8192, 60, 40));
  shapes.push_back(Shape("many groups", 4, 256, 8192, 300, 60));
  shapes.push_back(Shape("keys in the log", 2, 512, 4096, 450, 60));
  shapes.push_back(Shape("large groups", 1, 256, 32768, 100, 30));
  shapes.push_back(Shape("synced, with a tail", 4, 256, 8192, 200, 50));
  shapes.back().unsynced_count = 60;
  shapes.push_back(Shape("synced at its end", 2, 512, 8192, 350, 60));
  shapes.back().options.sync_on_close = true;
  shapes.back().unsynced_count = 0;
  shapes.push_back(Shape("killed", 2, 256, 16384, 120, 40));
  shapes.back().killed = true;
  shapes.push_back(Shape("killed, group commit", 2, 256, 8192, 150, 40));
  shapes.back().options.sync_mode = SyncMode::kGroup;
  shapes.back().killed = true;
  shapes.push_back(Shape("closed, durable writes", 2, 256, 8192, 150, 40));
  shapes.back().options.sync_mode = SyncMode::kEveryWrite;
  shapes.push_back(Shape("compacted", 2, 1024, 8192, 900, 300));
  shapes.back().compacted_every = 250;
  shapes.push_back(Shape("compacted, synced, with a tail", 1, 1024, 32768, 1200, 350));
  shapes.back().compacted_every = 300;
  shapes.back().unsynced_count = 170;
  shapes.push_back(Shape("compacted, killed, group commit", 2, 1024, 8192, 700, 250));
  shapes.back().options.sync_mode = SyncMode::kGroup;
  shapes.back().compacted_every = 300;
  shapes.back().killed = true;
  shapes.push_back(Shape("a part of the keys", 4, 256, 8192, 200, 50));
  shapes.back().options.key_range = {uint64_t{1} << 62, uint64_t{3} << 62};
  shapes.back().unsynced_count = 60;
  return shapes;
}

class DamageTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const TempDir dir(FastParent());
    for (const BaseShape& shape : BaseShapes()) {
      bases_.push_back(std::make_unique<BaseStore>(shape, dir.Join("base")));
    }
    ::signal(SIGALRM, [](int) {
      const uint64_t seed = (static_cast<uint64_t>(g_seed_high) << 16) | g_seed_low;
      char line[] = "hangs: DAMAGE_SEED=00000000000000000000\n";
      char* digit = line + sizeof(line) - 3;
      for (uint64_t rest = seed; rest != 0; rest /= 10)
        *digit-- = static_cast<char>('0' + rest % 10);
      static_cast<void>(!::write(STDERR_FILENO, line, sizeof(line) - 1));
      ::_exit(1);
    });
  }
  static void TearDownTestSuite() {
    ::alarm(0);
    ::signal(SIGALRM, SIG_DFL);
    bases_.clear();
  }

  struct Tally {
    uint64_t refused = 0;
    uint64_t lying = 0;
    uint64_t right_count = 0;
    uint64_t error_count = 0;
  };

  bool SameFiles(const StoreImage& image) const {
    StoreImage files = image;
    std::erase_if(files.nodes, [](const auto& node) {
      return node.second.kind != StoreImage::Node::Kind::kFile;
    });
    return StoreImage::Load(store_) == files;
  }

  // One damaged store; what was wrong with its answers.
  std::string RunCase(uint64_t seed, Tally* tally);

  static std::vector<std::unique_ptr<BaseStore>> bases_;
  TempDir dir_{FastParent()};
  const std::string store_ = dir_.Join("store");
  OtherBoot other_boot_{dir_.Join("boot_id")};
};

std::vector<std::unique_ptr<BaseStore>> DamageTest::bases_;

Options TuningFor(Rng& rng) {
  Options options;
  options.memory_budget_bytes = uint64_t{16} << 20;
  options.build_thread_count = 1;
  options.io_backend = rng() % 16 == 0 ? IoBackend::kAuto : IoBackend::kPsync;
  options.journal_bytes = kMinJournalBytes;
  options.sync_mode = rng() % 8 == 0 ? SyncMode::kGroup : SyncMode::kNone;
  return options;
}

std::string DamageTest::RunCase(uint64_t seed, Tally* tally) {
  g_seed_low = static_cast<sig_atomic_t>(seed & 0xffff);
  g_seed_high = static_cast<sig_atomic_t>(seed >> 16);
  ::alarm(kHangSeconds);
  Rng rng(seed);
  const BaseStore& base = *bases_[rng() % bases_.size()];
  const Damager damager(base, rng());
  const bool new_boot = rng() % 3 == 0;
  const std::unique_ptr<ScopedHook> hook =
      new_boot ? std::make_unique<ScopedHook>(&other_boot_) : nullptr;
  damager.image().WriteTo(store_);
  StoreJudge judge(base.truth);
  damager.Instruct(&judge, new_boot);
  tally->lying += damager.lying_counts();

  const Options options = TuningFor(rng);
  VerifyReport report;
  const Status verified = Store::Verify(options, store_, &report, {});
  std::string complaint;
  if (seed % 8 == 0 && !SameFiles(damager.image())) complaint = "Verify has changed something";
  for (uint64_t opening = 1; opening <= 2 && complaint.empty(); ++opening) {
    // The first one's writes may have put the store in doubt.
    if (opening == 2 && !new_boot) damager.InstructOfDoubt(&judge);
    std::unique_ptr<Store> store;
    const Status opened = Store::Open(AsRun(options), store_, &store);
    if (!opened.ok()) {
      tally->refused += opening == 1;
      if (opening == 1 && verified.ok()) complaint = "Verify saw nothing: " + opened.ToString();
      if (damager.local()) complaint = "it does not open: " + opened.ToString();
      if (opened.code() != Code::kCorruption && opened.code() != Code::kIOError &&
          opened.code() != Code::kNotSupported) {
        complaint = "an odd refusal: " + opened.ToString();
      }
      break;
    }
    judge.Examine(store.get());
    if (opening == 1 && verified.ok() && judge.error_count() > 0) {
      complaint = "Verify saw nothing of what a read met";
    }
    judge.WriteSome(store.get(), 1'000'000 + opening, seed + opening);
    if (!judge.complaint().empty()) complaint = judge.complaint();
  }
  tally->right_count += judge.right_count();
  tally->error_count += judge.error_count();
  if (complaint.empty()) return "";
  return complaint + "\n  base: " + base.name + (new_boot ? ", another boot" : "") +
         "\n  damage: " + damager.description();
}

TEST_F(DamageTest, DamagedStoresGiveNoWrongBytes) {
  Tally tally;
  if (const char* const replayed = std::getenv("DAMAGE_SEED")) {
    EXPECT_EQ(RunCase(std::strtoull(replayed, nullptr, 0), &tally), "");
    return;
  }
  const uint64_t case_count =
      FromEnvironment("DAMAGE_STORES", PartOf(kAddressSanitized ? 5000 : Sized(1500, 300), 8));
  const uint64_t seed = SweepSeed();
  for (uint64_t i = 0; i < case_count; ++i) {
    const std::string complaint = RunCase(seed + i, &tally);
    ASSERT_EQ(complaint, "") << "DAMAGE_SEED=" << seed + i;
  }
  std::printf(
      "%llu damaged stores from seed %llu: %llu refused, %llu with older counts that "
      "nothing can tell; %llu right answers, %llu errors\n",
      static_cast<unsigned long long>(case_count), static_cast<unsigned long long>(seed),
      static_cast<unsigned long long>(tally.refused), static_cast<unsigned long long>(tally.lying),
      static_cast<unsigned long long>(tally.right_count),
      static_cast<unsigned long long>(tally.error_count));
  // A test that damages nothing, or everything, proves nothing.
  EXPECT_GT(tally.error_count, case_count / 2);
  EXPECT_GT(tally.right_count, case_count * 10);
  EXPECT_LT(tally.refused, case_count / 2);
  EXPECT_LT(tally.lying, case_count / 4);
}

TEST_F(DamageTest, UndamagedStoresAreSound) {
  for (const auto& base : bases_) {
    SCOPED_TRACE(base->name);
    base->image.WriteTo(store_);
    VerifyReport report;
    const Status verified = Store::Verify(Options(), store_, &report, [](const BadRecord& bad) {
      ADD_FAILURE() << bad.file << ", slot " << bad.slot << ": " << bad.what;
    });
    EXPECT_TRUE(verified.ok()) << verified.ToString();
    uint64_t record_count = 0;
    for (uint32_t b = 0; b < base->layout.geometry().bucket_count; ++b) {
      record_count += base->layout.held_slots(b).size();
    }
    EXPECT_EQ(report.record_count, record_count);
    EXPECT_EQ(report.bad_count, 0u);
    EXPECT_EQ(report.lost_tail_count, 0u);
    EXPECT_TRUE(SameFiles(base->image)) << "Verify has changed something";

    StoreJudge judge(base->truth);
    for (uint32_t b = 0; b < base->layout.geometry().bucket_count; ++b) judge.ExpectSound(b);
    for (uint64_t opening = 1; opening <= 2; ++opening) {
      const auto store = OpenStore(store_);
      ASSERT_NE(store, nullptr);
      judge.Examine(store.get());
      judge.WriteSome(store.get(), 1'000'000 + opening, opening);
      EXPECT_EQ(judge.complaint(), "");
    }
  }
}

// Overwritten records too: each bit counts.
TEST_F(DamageTest, VerifyNamesTheDamagedRecord) {
  Rng rng(1);
  for (const auto& base : bases_) {
    SCOPED_TRACE(base->name);
    for (int i = 0; i < 20; ++i) {
      const auto bucket = static_cast<uint32_t>(rng() % base->layout.geometry().bucket_count);
      const std::vector<uint64_t>& slots = base->layout.held_slots(bucket);
      if (slots.empty()) continue;
      const uint64_t slot = slots[rng() % slots.size()];
      Extent extent = base->layout.KeyExtent(bucket, slot);
      format::KeyEntry entry;
      std::memcpy(&entry, base->image.file(extent.file).data() + extent.offset, sizeof(entry));
      if (i % 2 != 0 && !entry.tombstone()) extent = base->layout.ValueExtent(bucket, slot);
      StoreImage image = base->image;
      image.file(extent.file)[extent.offset + rng() % extent.size] ^= 1 << rng() % 8;
      image.WriteTo(store_);
      SCOPED_TRACE("bucket " + std::to_string(bucket) + ", slot " + std::to_string(slot) + " in " +
                   extent.file);
      std::vector<BadRecord> bad;
      VerifyReport report;
      const Status verified = Store::Verify(
          Options(), store_, &report, [&bad](const BadRecord& record) { bad.push_back(record); });
      EXPECT_EQ(verified.code(), Code::kCorruption) << verified.ToString();
      ASSERT_EQ(bad.size(), 1u);
      EXPECT_EQ(bad[0].file, extent.file);
      EXPECT_EQ(bad[0].bucket, bucket);
      EXPECT_EQ(bad[0].slot, slot);
      EXPECT_EQ(report.bad_count, 1u);
    }
  }
}

// A directory, a pipe, a device or a symlink astray where a file should be: refused, at once, and
// what is there is left as it was.
TEST_F(DamageTest, NoFileButAnotherThingInItsPlace) {
  using Kind = StoreImage::Node::Kind;
  const StoreImage::Node kinds[] = {{Kind::kDirectory, ""},        {Kind::kFifo, ""},
                                    {Kind::kSymlink, "/dev/null"}, {Kind::kSymlink, "/dev/zero"},
                                    {Kind::kSymlink, "."},         {Kind::kSymlink, "nowhere"}};
  const BaseStore& base = *bases_.front();
  for (const auto& [name, node] : base.image.nodes) {
    // The extents of an index are looked at when it is read.
    if (name.starts_with("key_index_0")) continue;
    for (const StoreImage::Node& kind : kinds) {
      StoreImage image = base.image;
      image.nodes[name] = kind;
      image.WriteTo(store_);
      SCOPED_TRACE(name + " is of kind " + std::to_string(static_cast<int>(kind.kind)) + ", " +
                   kind.bytes);
      ::alarm(kHangSeconds);
      std::unique_ptr<Store> store;
      const Status status = Store::Open(AsRun(Options()), store_, &store);
      EXPECT_TRUE(status.code() == Code::kCorruption || status.code() == Code::kIOError)
          << status.ToString();
      EXPECT_TRUE(SameFiles(image)) << "something has changed";
    }
  }
}

}  // namespace
}  // namespace engine_race::test
