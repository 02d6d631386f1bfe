#include "test/e2e/damaged_store.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include "engine_race/log/entry_codec.h"
#include "test/test_util.h"

namespace engine_race::test {
namespace {

constexpr uint64_t kSectorBytes = 512;
constexpr uint32_t kCheckedWords = 7;
constexpr uint32_t kOlderStates = 3;

void Require(const Status& status, const char* what) {
  if (!status.ok()) throw std::runtime_error(std::string(what) + ": " + status.ToString());
}

// Of all 64-bit numbers to those of `keys`, in order.
uint64_t ScaledInto(const KeyRange& keys, uint64_t number) {
  const auto product = static_cast<unsigned __int128>(number) * (keys.last - keys.first);
  return keys.HasAllKeys() ? number : keys.first + static_cast<uint64_t>(product >> 64);
}

// Opens the store once more for a read, which builds the index, and closes it with a root.
void WriteIndex(const BaseShape& shape, const std::string& dir) {
  std::unique_ptr<Store> store;
  Require(Store::Open(AsRun(shape.options), dir, &store), "opening a base store");
  std::string value;
  const uint64_t key = ScaledInto(GeometryFrom(shape.options).keys(), 1);
  const Status read = store->Read(KeyOf(key), &value);
  if (read.code() != Code::kNotFound) Require(read, "reading a base store");
  store.reset();
  if (!std::filesystem::exists(dir + "/" + format::kIndexRootName)) {
    throw std::runtime_error("a base store has no root of its index");
  }
}

}  // namespace

BaseStore::BaseStore(const BaseShape& shape, const std::string& dir)
    : name(shape.name),
      image(Make(shape, dir, std::hash<std::string>()(shape.name), /*keep=*/true)),
      other(Make(shape, dir, 1, /*keep=*/false)),
      layout(image, dir) {
  static const std::string zeros(kSectorBytes, '\0');
  for (const auto& [file, node] : image.nodes) {
    for (uint64_t offset = 0; offset < node.bytes.size(); offset += kSectorBytes) {
      const size_t size = std::min<size_t>(kSectorBytes, node.bytes.size() - offset);
      if (std::memcmp(node.bytes.data() + offset, zeros.data(), size) != 0) {
        used_sectors[file].push_back(offset);
      }
    }
  }
  std::filesystem::remove_all(dir);
}

// With `keep`, notes truth and older states on the way.
StoreImage BaseStore::Make(const BaseShape& shape, const std::string& dir, uint64_t seed,
                           bool keep) {
  std::filesystem::remove_all(dir);
  Rng rng(seed);
  StoreTruth written(GeometryFrom(shape.options));
  std::unique_ptr<Store> store;
  Require(Store::Open(AsRun(shape.options), dir, &store), "making a base store");
  for (uint32_t i = 0; i < shape.record_count; ++i) {
    if (i + shape.unsynced_count == shape.record_count) {
      Require(store->Sync(), "Sync of a base store");
    }
    // Two thirds of the records go to the lowest bucket.
    const uint64_t number = rng() % shape.key_count;
    const uint64_t spread = number * 0x9e3779b97f4a7c15 >> (number % 3 == 0 ? 0 : 8);
    const uint64_t key = ScaledInto(written.geometry().keys(), spread);
    const bool is_delete = rng() % 8 == 0;
    Require(is_delete ? store->Delete(KeyOf(key)) : store->Write(KeyOf(key), ValueOf(key, i + 1)),
            "writing to a base store");
    written.Append(key, is_delete ? 0 : i + 1);
    if (shape.compacted_every != 0 && i % shape.compacted_every == shape.compacted_every - 1) {
      Require(store->Compact(), "Compact of a base store");
    }
    if (keep && i % (shape.record_count / kOlderStates) == 7)
      older.push_back(StoreImage::Load(dir));
  }
  if (!shape.killed) {
    store.reset();
    if (IsPagedRun()) WriteIndex(shape, dir);
  }
  StoreImage made = StoreImage::Load(dir);
  if (keep) truth = written;
  return made;
}

MetadataState CompareCounts(const StoreLayout& layout, const std::string& sound,
                            const std::string& damaged, uint32_t bucket) {
  constexpr size_t kBytes = sizeof(format::BucketCounts);
  const size_t offset = bucket * kBytes;
  if (std::memcmp(sound.data() + offset, damaged.data() + offset, kBytes) == 0) {
    return MetadataState::kSame;
  }
  for (uint32_t i = 0; i < kCheckedWords; ++i) {
    const auto kind = static_cast<format::WordKind>(i);
    uint64_t word = 0;
    std::memcpy(&word, damaged.data() + offset + i * sizeof(word), sizeof(word));
    uint64_t payload = 0;
    if (!DecodeWord(layout.store_id(), bucket, kind, word, PayloadBits(kind), &payload)) {
      return MetadataState::kUnreadable;
    }
  }
  return MetadataState::kOther;
}

MetadataState CompareRows(const BaseStore& base, const std::string& damaged, uint32_t bucket) {
  constexpr size_t kWordBytes = sizeof(uint64_t);
  const uint64_t head = base.layout.RowHeadOffset(bucket);
  const auto is_at = [&](const std::string& bytes, uint64_t offset, size_t size) {
    return offset + size <= std::min(bytes.size(), damaged.size()) &&
           bytes.compare(offset, size, damaged, offset, size) == 0;
  };
  const std::string& sound = base.image.file(format::kRowsName);
  const auto was_once = [&](uint64_t offset, size_t size) {
    return is_at(sound, offset, size) ||
           std::any_of(base.older.begin(), base.older.end(), [&](const StoreImage& older) {
             const auto rows = older.nodes.find(format::kRowsName);
             return rows != older.nodes.end() && is_at(rows->second.bytes, offset, size);
           });
  };
  const auto is_zero = [&](uint64_t offset) {
    return offset + kWordBytes <= damaged.size() &&
           damaged.compare(offset, kWordBytes, std::string(kWordBytes, '\0')) == 0;
  };
  if (!was_once(head, sizeof(format::RowsHead))) return MetadataState::kUnreadable;
  const bool is_own_head = is_at(sound, head, sizeof(format::RowsHead));
  MetadataState state = is_own_head ? MetadataState::kSame : MetadataState::kOther;
  std::vector<uint64_t> images;
  for (uint32_t row = 0; row < base.layout.table(bucket).rows().size(); ++row) {
    if (!base.layout.HasPlace(bucket, row)) continue;
    const uint64_t offset = base.layout.RowOffset(bucket, row);
    images.insert(images.end(), {offset, offset + sizeof(format::RowImage)});
  }
  for (const uint64_t image : images) {
    if (is_at(sound, image, sizeof(format::RowImage))) continue;
    const uint64_t last = image + sizeof(format::RowImage) - kWordBytes;
    const bool has_own_words = is_at(sound, image, kWordBytes) && is_at(sound, last, kWordBytes);
    if (has_own_words || is_zero(image) || is_zero(last) || !was_once(image, kWordBytes) ||
        !was_once(last, kWordBytes)) {
      // Rows behind the end of an older head do not count.
      return is_own_head ? MetadataState::kUnreadable : MetadataState::kOther;
    }
    state = MetadataState::kOther;
  }
  return state;
}

Damager::Damager(const BaseStore& base, uint64_t seed)
    : base_(base), rng_(seed), image_(base.image) {
  struct Choice {
    Edit edit;
    uint32_t weight;
  };
  static constexpr Choice kChoices[] = {
      {&Damager::FlipBits, 25},         {&Damager::ZeroBlock, 10},
      {&Damager::WriteGarbage, 6},      {&Damager::SwapSlots, 12},
      {&Damager::RestoreOlder, 12},     {&Damager::MoveBytes, 6},
      {&Damager::ChangeCountsWord, 12}, {&Damager::ChangeCountsLine, 4},
      {&Damager::ChangeSize, 5},        {&Damager::PutForeignFile, 4},
      {&Damager::RemoveFile, 2},        {&Damager::PutAnotherKind, 2},
  };
  uint32_t total = 0;
  for (const Choice& choice : kChoices) total += choice.weight;
  const uint64_t edit_count = rng_() % 4 == 0 ? 2 + rng_() % 3 : 1;
  for (uint64_t i = 0; i < edit_count && !whole_store_; ++i) {
    uint64_t draw = rng_() % total;
    const Choice* choice = kChoices;
    for (; draw >= choice->weight; ++choice) draw -= choice->weight;
    (this->*choice->edit)();
  }
  JudgeCounts();
  JudgeRows();
  JudgeKeptEntries();
}

// A row says below which numbers its kept records are, and not which ones they have.
void Damager::JudgeKeptEntries() {
  for (uint32_t b = 0; !whole_store_ && b < base_.layout.geometry().bucket_count; ++b) {
    const SlotTable& table = base_.layout.table(b);
    const EntryCodec codec(base_.layout.store_id(), b);
    for (const uint64_t slot : base_.layout.held_slots(b)) {
      uint64_t sequence = 0;
      if (table.SequenceOf(slot, &sequence)) continue;
      const Extent extent = base_.layout.KeyExtent(b, slot);
      const std::string bytes = BytesAt(image_, extent);
      if (bytes == BytesAt(base_.image, extent)) continue;
      format::KeyEntry entry;
      std::memcpy(&entry, bytes.data(), sizeof(entry));
      const Row& row = table.rows()[slot / table.row_records()];
      KeyRecord record;
      const bool was_appended = SlotTable::DecodeAppended(codec, entry, entry.sequence(), &record);
      if (entry.sequence() < (was_appended ? row.number : row.horizon) &&
          table.Decode(codec, entry, slot, &record)) {
        passing_.insert(b);
      }
    }
  }
}

void Damager::JudgeRows() {
  const auto rows = image_.nodes.find(format::kRowsName);
  if (whole_store_ || rows == image_.nodes.end()) return;
  for (uint32_t b = 0; b < base_.layout.geometry().bucket_count; ++b) {
    const MetadataState state = CompareRows(base_, rows->second.bytes, b);
    if (state == MetadataState::kUnreadable) unreadable_.insert(b);
    if (state == MetadataState::kOther) passing_.insert(b);
  }
}

void Damager::JudgeCounts() {
  const auto counts = image_.nodes.find(format::kStagingCountsName);
  const bool there = counts != image_.nodes.end() &&
                     counts->second.kind == StoreImage::Node::Kind::kFile &&
                     counts->second.bytes.size() >= base_.image.file(counts->first).size();
  if (!there) return;
  for (uint32_t b = 0; b < base_.layout.geometry().bucket_count; ++b) {
    const MetadataState state =
        CompareCounts(base_.layout, base_.image.file(counts->first), counts->second.bytes, b);
    if (state == MetadataState::kUnreadable) unreadable_.insert(b);
    if (state == MetadataState::kOther) lying_.insert(b);
  }
  lying_counts_ = !lying_.empty();
}

void Damager::Instruct(StoreJudge* judge, bool other_boot) const {
  for (uint32_t b = 0; b < base_.layout.geometry().bucket_count; ++b) {
    const bool touched = whole_store_ || touched_.contains(b);
    if (!touched) judge->ExpectSound(b);
    // A manifest of another store says how the words are checked.
    if (unreadable_.contains(b) && !whole_store_) judge->ExpectUnreadable(b);
    // A store in doubt about its counts ends each bucket at the first record that does not verify:
    // after a restart, with staging that does not, with a journal that has what is not there, and
    // with rows that say less than the counts.
    const bool doubt = other_boot || whole_store_ || staging_touched_ || rows_touched_ ||
                       image_.nodes.contains(format::kJournalName);
    if (touched && doubt) {
      judge->AllowCutsFrom(b, base_.layout.Payload(b, format::WordKind::kSynced));
    }
    if (lying_.contains(b)) judge->AllowCutsFrom(b, 0);
    if (passing_.contains(b)) judge->AllowAnyVersion(b);
  }
}

void Damager::InstructOfDoubt(StoreJudge* judge) const {
  for (uint32_t b = 0; b < base_.layout.geometry().bucket_count; ++b) {
    // Slots were given out once more, and what they held before may lie behind them.
    if (whole_store_ || lying_.contains(b)) {
      judge->AllowAnyVersion(b);
    } else if (touched_.contains(b)) {
      judge->AllowCutsFrom(b, base_.layout.Payload(b, format::WordKind::kSynced));
    }
  }
}

void Damager::Say(const std::string& what) {
  description_ += (description_.empty() ? "" : "; ") + what;
}

std::string Damager::BytesAt(const StoreImage& image, const Extent& extent) const {
  const auto node = image.nodes.find(extent.file);
  if (node == image.nodes.end() || node->second.bytes.size() <= extent.offset) {
    return std::string(extent.size, '\0');
  }
  std::string bytes = node->second.bytes.substr(extent.offset, extent.size);
  bytes.resize(extent.size);
  return bytes;
}

// Puts `bytes` at the beginning of the extent, and notes whose they are.
void Damager::Overwrite(const Extent& extent, const std::string& bytes) {
  std::string& file = image_.file(extent.file);
  if (extent.offset >= file.size()) return;
  const size_t size = std::min<size_t>(bytes.size(), file.size() - extent.offset);
  if (file.compare(extent.offset, size, bytes, 0, size) == 0) return;
  file.replace(extent.offset, size, bytes, 0, size);
  if (extent.file.starts_with("staging_")) staging_touched_ = true;
  if (extent.file == format::kRowsName) rows_touched_ = true;
  const bool is_index = extent.file.starts_with("key_index_");
  Say(extent.file + " at " + std::to_string(extent.offset) + ", " + std::to_string(size) +
      " bytes");
  // Nothing depends on it.
  if (is_index) return;
  // Rows without a place may be those whose entry is damaged.
  for (uint32_t b = 0; b < base_.layout.geometry().bucket_count; ++b) {
    if (extent.file == format::kSegmentTableName && base_.layout.HasBareRows(b)) touched_.insert(b);
  }
  for (uint64_t done = 0; done < size; ++done) {
    const int64_t bucket = base_.layout.BucketAt(extent.file, extent.offset + done);
    if (bucket < 0) {
      whole_store_ = true;
      return;
    }
    if (bucket < base_.layout.geometry().bucket_count)
      touched_.insert(static_cast<uint32_t>(bucket));
    done |= 7;  // no bucket begins within 8 bytes: a head of rows has as many
  }
}

std::string Damager::PickFile() {
  // Small files are as likely as large ones.
  auto node = image_.nodes.begin();
  std::advance(node, static_cast<int64_t>(rng_() % image_.nodes.size()));
  return node->first;
}

// `size_bytes` of a file, aligned to that, mostly where something is.
Extent Damager::PickUsed(uint64_t size_bytes) {
  const std::string file = PickFile();
  const uint64_t file_bytes = image_.file(file).size();
  const auto sectors = base_.used_sectors.find(file);
  uint64_t offset = file_bytes == 0 ? 0 : rng_() % file_bytes;
  if (sectors != base_.used_sectors.end() && rng_() % 10 != 0) {
    offset = sectors->second[rng_() % sectors->second.size()] + rng_() % kSectorBytes;
  }
  return {file, offset / size_bytes * size_bytes, size_bytes};
}

}  // namespace engine_race::test
