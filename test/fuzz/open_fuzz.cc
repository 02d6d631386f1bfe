// A libFuzzer target: the input says how a tiny store is damaged; then it is opened, read,
// verified, written to, closed and opened again. The store may refuse or answer with errors; a
// wrong byte, a crash, a hang or a sanitizer's finding ends the run.
//
// An input is read from its front: a byte that picks the base store and what boot it is of, then
// edits of some bytes each until it ends. Every input means something, so no corpus is needed.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "engine_race/base/checksum.h"
#include "engine_race/log/entry_codec.h"
#include "test/e2e/damaged_store.h"
#include "test/test_util.h"

namespace engine_race::test {
namespace {

constexpr uint32_t kMaxEdits = 8;

class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  bool empty() const { return size_ == 0; }
  // The next `bytes` as a number; past the end there are zeros.
  uint64_t Take(size_t bytes) {
    uint64_t number = 0;
    const size_t available = std::min(bytes, size_);
    std::memcpy(&number, data_, available);
    data_ += available;
    size_ -= available;
    return number;
  }
  std::string TakeBytes(size_t bytes) {
    std::string taken(reinterpret_cast<const char*>(data_), std::min(bytes, size_));
    data_ += taken.size();
    size_ -= taken.size();
    return taken;
  }

 private:
  const uint8_t* data_;
  size_t size_;
};

Options TinyTuning() {
  Options options;
  options.memory_budget_bytes = kMinMemoryBudgetBytes;
  options.build_thread_count = 1;
  options.io_backend = IoBackend::kPsync;
  options.journal_bytes = kMinJournalBytes;
  return options;
}

std::vector<std::unique_ptr<BaseStore>> MakeBases(const std::string& dir) {
  BaseShape shape;
  shape.options = TinyTuning();
  // A thread that cleans would change files while an image is read.
  shape.options.reclaim = Reclaim::kOff;
  shape.options.bucket_count = 2;
  shape.options.file_count = 2;
  shape.options.bucket_capacity_records = 256;
  shape.options.value_group_bytes = 8192;
  std::vector<std::unique_ptr<BaseStore>> bases;
  const auto add = [&](const char* name, uint32_t record_count, uint32_t unsynced_count) {
    shape.name = name;
    shape.record_count = record_count;
    shape.key_count = record_count / 2;
    shape.unsynced_count = unsynced_count;
    bases.push_back(std::make_unique<BaseStore>(shape, dir));
  };
  add("staged", 24, BaseShape::kNeverSynced);
  add("synced, with a tail", 40, 15);
  shape.options.bucket_capacity_records = 512;
  add("keys in the log", 420, 5);
  shape.options.bucket_capacity_records = 256;
  shape.options.key_range = {uint64_t{1} << 62, uint64_t{3} << 62};
  add("a part of the keys", 40, 15);
  shape.options.key_range.reset();
  shape.options.sync_mode = SyncMode::kGroup;
  shape.killed = true;
  add("killed, group commit", 30, BaseShape::kNeverSynced);
  return bases;
}

// The store that one input makes.
class Damaged {
 public:
  Damaged(const BaseStore& base, bool other_boot)
      : base_(base), image_(base.image), other_boot_(other_boot) {
    for (uint32_t b = 0; other_boot && b < base.layout.geometry().bucket_count; ++b) {
      PutCountsWord(b, format::WordKind::kPageCache, 0);
    }
    sound_counts_ = image_.file(format::kStagingCountsName);
  }

  void Edit(Input* input);
  const StoreImage& image() const { return image_; }
  // False when the edits forge what only a checksum could tell from the truth.
  bool judged() const { return judged_; }
  // Before each opening, counted from 1.
  void Instruct(StoreJudge* judge, uint64_t opening) const;

 private:
  // Whether an opening may find the counts in doubt: it then ends buckets at what does not verify.
  bool MayBeInDoubt() const {
    const auto differs = [this](const char* name) {
      const auto now = image_.nodes.find(name);
      const auto before = base_.image.nodes.find(name);
      return now == image_.nodes.end() || before == base_.image.nodes.end() ||
             now->second.bytes != before->second.bytes;
    };
    return other_boot_ || image_.nodes.contains(format::kJournalName) ||
           differs(format::kStagingKeysName) || differs(format::kStagingValuesName);
  }
  void PutCountsWord(uint32_t bucket, format::WordKind kind, uint64_t payload) {
    const uint32_t bits = PayloadBits(kind);
    const uint64_t word = EncodeWord(base_.layout.store_id(), bucket, kind,
                                     payload & ((uint64_t{1} << bits) - 1), bits);
    Put(format::kStagingCountsName,
        bucket * sizeof(format::BucketCounts) + static_cast<size_t>(kind) * sizeof(word),
        std::string(reinterpret_cast<const char*>(&word), sizeof(word)));
  }
  void ForgeManifest(Input* input);
  void ForgePaths(uint64_t store_id, Input* input);
  void ForgeJournal(Input* input);
  void Put(const std::string& file, uint64_t offset, const std::string& bytes);

  const BaseStore& base_;
  StoreImage image_;
  std::string sound_counts_;
  const bool other_boot_;
  bool judged_ = true;
};

void Damaged::Put(const std::string& file, uint64_t offset, const std::string& bytes) {
  const auto node = image_.nodes.find(file);
  if (node == image_.nodes.end() || offset >= node->second.bytes.size()) return;
  const size_t size = std::min<size_t>(bytes.size(), node->second.bytes.size() - offset);
  node->second.bytes.replace(offset, size, bytes, 0, size);
}

// Fields that no checksum guards against: all but the checksum itself.
void Damaged::ForgeManifest(Input* input) {
  const auto node = image_.nodes.find(format::kManifestName);
  if (node == image_.nodes.end() || node->second.bytes.size() < sizeof(format::Manifest)) return;
  format::Manifest manifest;
  std::memcpy(&manifest, node->second.bytes.data(), sizeof(manifest));
  const size_t field = 8 + input->Take(1) % 11 * 4;
  const uint32_t value = static_cast<uint32_t>(input->Take(4));
  std::memcpy(reinterpret_cast<char*>(&manifest) + field, &value, sizeof(value));
  // What is made of a geometry is limited by the files' sizes, but for a store of gigabytes.
  manifest.checksum =
      Hash64(&manifest, offsetof(format::Manifest, checksum), format::kManifestMagic);
  std::memcpy(node->second.bytes.data(), &manifest, sizeof(manifest));
  ForgePaths(manifest.store_id, input);
  judged_ = false;
}

// The second part of the manifest: right for a forged store id, and often wrong itself.
void Damaged::ForgePaths(uint64_t store_id, Input* input) {
  format::ManifestPaths paths;
  std::string& bytes = image_.nodes.at(format::kManifestName).bytes;
  if (bytes.size() < format::kManifestBytes) return;
  std::memcpy(&paths, bytes.data() + sizeof(format::Manifest), sizeof(paths));
  const uint64_t choice = input->Take(1);
  if (choice % 4 == 0) paths.path_count = static_cast<uint32_t>(input->Take(1));
  if (choice % 4 == 1) paths.segment_records = input->Take(4);
  if (choice % 2 == 0) {
    const std::string names = input->TakeBytes(input->Take(1));
    std::memcpy(paths.names, names.data(), std::min(names.size(), sizeof(paths.names)));
  }
  if (choice % 8 >= 6) {
    paths.first_key = input->Take(8);
    paths.last_key = input->Take(8);
  }
  paths.checksum = Hash64(&paths, offsetof(format::ManifestPaths, checksum), store_id);
  std::memcpy(bytes.data() + sizeof(format::Manifest), &paths, sizeof(paths));
}

void Damaged::ForgeJournal(Input* input) {
  const auto node = image_.nodes.find(format::kJournalName);
  if (node == image_.nodes.end()) return;
  const uint64_t half = node->second.bytes.size() / format::kJournalHalves;
  const uint64_t offset = input->Take(1) % format::kJournalHalves * half +
                          input->Take(1) % 16 * format::kJournalBlockBytes;
  if (offset + format::kJournalBlockBytes > node->second.bytes.size()) return;
  char* const block = node->second.bytes.data() + offset;
  const uint64_t place = input->Take(2) % (format::kJournalBlockBytes - 8);
  const uint64_t word = input->Take(8);
  std::memcpy(block + place, &word, sizeof(word));
  auto* const header = reinterpret_cast<format::JournalHeader*>(block);
  header->checksum = 0;
  header->checksum = Hash64(block, format::kJournalBlockBytes, format::kJournalMagic);
  judged_ = false;
}

void Damaged::Edit(Input* input) {
  if (image_.nodes.empty()) return;
  const uint64_t operation = input->Take(1) % 12;
  auto node = image_.nodes.begin();
  std::advance(node, static_cast<int64_t>(input->Take(1) % image_.nodes.size()));
  const std::string& name = node->first;
  const std::string& bytes = node->second.bytes;
  const auto& sectors = base_.used_sectors;
  const auto used = sectors.find(name);
  const uint64_t sector_number = input->Take(2);
  uint64_t offset = sector_number * 512 % std::max<uint64_t>(bytes.size(), 1);
  if (used != sectors.end() && operation % 2 == 0) {
    offset = used->second[sector_number % used->second.size()];
  }
  offset += input->Take(2) % 512;
  const uint64_t size = uint64_t{1} << input->Take(1) % 15;
  const auto older_bytes = [&](const StoreImage& from) {
    const auto found = from.nodes.find(name);
    if (found == from.nodes.end() || offset >= found->second.bytes.size()) return std::string();
    return found->second.bytes.substr(offset, size);
  };
  switch (operation) {
    case 0:
    case 1:
      return Put(name, offset, input->TakeBytes(1 + input->Take(1) % 32));
    case 2:
    case 3:
      if (offset < bytes.size()) {
        node->second.bytes[offset] =
            static_cast<char>(node->second.bytes[offset] ^ (1 << input->Take(1) % 8));
      }
      return;
    case 4:
      return Put(name, offset, std::string(size, '\0'));
    case 5:
      node->second.bytes.resize(std::min<uint64_t>(offset, node->second.bytes.size()));
      return;
    case 6:
      return Put(name, offset, older_bytes(base_.older[size % base_.older.size()]));
    case 7:
      return Put(name, offset, older_bytes(base_.other));
    case 8: {
      const uint64_t from = input->Take(2) * kKeyEntryBytes % std::max<uint64_t>(bytes.size(), 1);
      return Put(name, offset, bytes.substr(from, size));
    }
    case 9:
      return PutCountsWord(static_cast<uint32_t>(size % 2),
                           static_cast<format::WordKind>(input->Take(1) % 7), input->Take(4));
    case 10:
      return input->Take(1) % 2 == 0 ? ForgeManifest(input) : ForgeJournal(input);
    default:
      if (size == 1) image_.nodes.erase(node);
  }
}

void Damaged::Instruct(StoreJudge* judge, uint64_t opening) const {
  const auto counts = image_.nodes.find(format::kStagingCountsName);
  for (uint32_t b = 0; b < base_.layout.geometry().bucket_count; ++b) {
    if (MayBeInDoubt()) {
      judge->AllowCutsFrom(b, base_.layout.Payload(b, format::WordKind::kSynced));
    }
    if (counts == image_.nodes.end() || counts->second.bytes.size() != sound_counts_.size()) {
      continue;
    }
    if (CompareCounts(base_.layout, sound_counts_, counts->second.bytes, b) ==
        MetadataState::kOther) {
      judge->AllowCutsFrom(b, 0);
      // Slots may have been given out twice: entries of their former records may lie behind them.
      if (opening > 1 && MayBeInDoubt()) judge->AllowAnyVersion(b);
    }
  }
}

void Require(bool right, const std::string& what) {
  if (right) return;
  std::fprintf(stderr, "WRONG: %s\n", what.c_str());
  std::abort();
}

void RunOne(const BaseStore& base, const Damaged& damaged, const std::string& dir) {
  damaged.image().WriteTo(dir);
  StoreJudge judge(base.truth);
  Options options = TinyTuning();
  options.create_if_missing = false;
  VerifyReport report;
  const Status verified = Store::Verify(options, dir, &report, {});
  for (uint64_t opening = 1; opening <= 2; ++opening) {
    damaged.Instruct(&judge, opening);
    std::unique_ptr<Store> store;
    if (!Store::Open(options, dir, &store).ok()) return;
    judge.Examine(store.get());
    judge.WriteSome(store.get(), 1'000'000 + opening, opening);
    if (damaged.judged()) Require(judge.complaint().empty(), base.name + ": " + judge.complaint());
    // What a read meets, Verify must have seen before.
    if (opening == 1 && damaged.judged()) {
      Require(judge.error_count() == 0 || !verified.ok(), base.name + ": Verify saw nothing");
    }
  }
}

}  // namespace
}  // namespace engine_race::test

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace engine_race::test;  // NOLINT: a main function of sorts
  static const TempDir dir(FastParent());
  static const std::string store = dir.Join("store");
  static const std::vector<std::unique_ptr<BaseStore>> bases = MakeBases(store);
  Input input(data, size);
  const uint64_t choice = input.Take(1);
  const BaseStore& base = *bases[choice % bases.size()];
  Damaged damaged(base, choice / 16 % 2 == 1);
  for (uint32_t i = 0; i < kMaxEdits && !input.empty(); ++i) damaged.Edit(&input);
  RunOne(base, damaged, store);
  return 0;
}
