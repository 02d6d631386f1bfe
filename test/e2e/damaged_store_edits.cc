// The kinds of damage.
#include <algorithm>
#include <cstring>
#include <utility>

#include "engine_race/log/entry_codec.h"
#include "test/e2e/damaged_store.h"

namespace engine_race::test {
namespace {

constexpr uint64_t kTornSectorBytes = 512;
constexpr uint64_t kTornPageBytes = 4096;
// Of a bucket's counts, but for the reserved one.
constexpr uint32_t kWordCount = 7;

Extent CountsExtent(uint32_t bucket, uint32_t word) {
  return {format::kStagingCountsName,
          bucket * sizeof(format::BucketCounts) + word * sizeof(uint64_t), sizeof(uint64_t)};
}

std::string Bytes(uint64_t word) {
  return std::string(reinterpret_cast<const char*>(&word), sizeof(word));
}

}  // namespace

void Damager::FlipBits() {
  Extent extent = PickUsed(1);
  std::string bytes = BytesAt(image_, extent);
  const uint64_t flip_count = rng_() % 3 == 0 ? 1 + rng_() % 8 : 1;
  for (uint64_t i = 0; i < flip_count; ++i) {
    bytes[0] = static_cast<char>(bytes[0] ^ (1 << rng_() % 8));
    Overwrite(extent, bytes);
    extent.offset += rng_() % 16;
    bytes = BytesAt(image_, extent);
  }
}

void Damager::ZeroBlock() {
  const uint64_t sizes[] = {8, kKeyEntryBytes, kTornSectorBytes, kTornPageBytes,
                            4 * kTornPageBytes};
  const Extent extent = PickUsed(sizes[rng_() % std::size(sizes)]);
  Overwrite(extent, std::string(extent.size, '\0'));
}

void Damager::WriteGarbage() {
  const uint64_t sizes[] = {8, 64, kTornSectorBytes, kTornPageBytes};
  const Extent extent = PickUsed(sizes[rng_() % std::size(sizes)]);
  std::string bytes(extent.size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(rng_());
  Overwrite(extent, bytes);
}

// Two entries, two values, or both, of one bucket or of two.
void Damager::SwapSlots() {
  const uint64_t bucket_count = base_.layout.geometry().bucket_count;
  const auto first_bucket = static_cast<uint32_t>(rng_() % bucket_count);
  const auto second_bucket =
      rng_() % 4 == 0 ? static_cast<uint32_t>(rng_() % bucket_count) : first_bucket;
  const std::vector<uint64_t>& first_slots = base_.layout.held_slots(first_bucket);
  const std::vector<uint64_t>& second_slots = base_.layout.held_slots(second_bucket);
  if (first_slots.empty() || second_slots.empty()) return;
  const uint64_t first = first_slots[rng_() % first_slots.size()];
  const uint64_t second = second_slots[rng_() % second_slots.size()];
  const auto swap = [this](const Extent& a, const Extent& b) {
    const std::string bytes_a = BytesAt(image_, a);
    const std::string bytes_b = BytesAt(image_, b);
    Overwrite(a, bytes_b);
    Overwrite(b, bytes_a);
  };
  const uint64_t what = rng_() % 3;
  if (what != 0) {
    swap(base_.layout.KeyExtent(first_bucket, first),
         base_.layout.KeyExtent(second_bucket, second));
  }
  if (what != 1) {
    swap(base_.layout.ValueExtent(first_bucket, first),
         base_.layout.ValueExtent(second_bucket, second));
  }
}

// Writes that never came: a stretch, or a whole file, as it was before.
void Damager::RestoreOlder() {
  const StoreImage& older = base_.older[rng_() % base_.older.size()];
  const uint64_t sizes[] = {kKeyEntryBytes, kTornSectorBytes, kTornPageBytes, uint64_t{1} << 40};
  Extent extent = PickUsed(sizes[rng_() % std::size(sizes)]);
  extent.size = std::min<uint64_t>(extent.size, image_.file(extent.file).size());
  Overwrite(extent, BytesAt(older, extent));
}

// Writes that went elsewhere.
void Damager::MoveBytes() {
  const uint64_t sizes[] = {kKeyEntryBytes, kTornSectorBytes, kTornPageBytes};
  const Extent from = PickUsed(sizes[rng_() % std::size(sizes)]);
  Extent to = PickUsed(from.size);
  if (rng_() % 2 == 0) to.file = from.file;
  Overwrite(to, BytesAt(image_, from));
}

void Damager::ChangeCountsWord() {
  const uint32_t bucket_count = base_.layout.geometry().bucket_count;
  const auto bucket = static_cast<uint32_t>(rng_() % bucket_count);
  const auto word = static_cast<uint32_t>(rng_() % kWordCount);
  const auto kind = static_cast<format::WordKind>(word);
  const uint64_t truth = base_.layout.Payload(bucket, kind);
  std::string bytes;
  switch (rng_() % 6) {
    case 0:
      bytes = Bytes(rng_());
      break;
    case 1:
      bytes = Bytes(0);
      break;
    case 2:
      bytes = BytesAt(image_, CountsExtent(static_cast<uint32_t>(rng_() % bucket_count), word));
      break;
    case 3:
      bytes = BytesAt(image_, CountsExtent(bucket, static_cast<uint32_t>(rng_() % kWordCount)));
      break;
    case 4:  // the payload alone
      bytes = Bytes(EncodeWord(base_.layout.store_id(), bucket, kind, truth, PayloadBits(kind)) ^
                    (1 + rng_() % 255));
      break;
    default: {  // a good check over another payload
      const uint64_t lies[] = {0, truth + 1, truth - 1, truth * 2, rng_()};
      const uint64_t mask = (uint64_t{1} << PayloadBits(kind)) - 1;
      bytes = Bytes(EncodeWord(base_.layout.store_id(), bucket, kind,
                               lies[rng_() % std::size(lies)] & mask, PayloadBits(kind)));
    }
  }
  Overwrite(CountsExtent(bucket, word), bytes);
}

void Damager::ChangeCountsLine() {
  const uint32_t bucket_count = base_.layout.geometry().bucket_count;
  const auto bucket = static_cast<uint32_t>(rng_() % bucket_count);
  Extent line = CountsExtent(bucket, 0);
  line.size = sizeof(format::BucketCounts);
  Extent from = CountsExtent(static_cast<uint32_t>(rng_() % bucket_count), 0);
  from.size = line.size;
  switch (rng_() % 3) {
    case 0:
      Overwrite(line, BytesAt(image_, from));
      break;
    case 1:
      Overwrite(line, BytesAt(base_.other, line));
      break;
    default:
      Overwrite(line, BytesAt(base_.older[rng_() % base_.older.size()], line));
  }
}

void Damager::ChangeSize() {
  const std::string name = PickFile();
  std::string& bytes = image_.file(name);
  const uint64_t before = bytes.size();
  const uint64_t sizes[] = {0,
                            1,
                            kTornPageBytes,
                            before / 2,
                            before - std::min<uint64_t>(before, 1),
                            before + 1,
                            before - before % 65536,
                            before + kTornPageBytes,
                            rng_() % (before + 1)};
  bytes.resize(sizes[rng_() % std::size(sizes)]);
  whole_store_ = true;
  Say(name + " resized from " + std::to_string(before) + " to " + std::to_string(bytes.size()));
}

void Damager::PutForeignFile() {
  const std::string name = PickFile();
  std::string& bytes = image_.file(name);
  switch (rng_() % 4) {
    case 0: {
      const std::string line = "# another program's file\n";
      for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = line[i % line.size()];
      break;
    }
    case 1: {
      const StoreImage::Node& foreign = image_.nodes.at(PickFile());
      const size_t size = bytes.size();
      bytes = foreign.bytes;
      bytes.resize(size);
      break;
    }
    default:
      bytes = base_.other.file(name);
  }
  whole_store_ = true;
  Say(name + " replaced");
}

void Damager::RemoveFile() {
  const std::string name = PickFile();
  image_.nodes.erase(name);
  whole_store_ = true;
  Say(name + " removed");
}

void Damager::PutAnotherKind() {
  const std::string name = PickFile();
  StoreImage::Node node = image_.nodes.at(name);
  using Kind = StoreImage::Node::Kind;
  const char* const targets[] = {"/dev/null", "/dev/zero", "/dev/full", ".", "nowhere"};
  switch (rng_() % 8) {
    case 0:
      node = {Kind::kDirectory, ""};
      break;
    case 1:
      node = {Kind::kFifo, ""};
      break;
    case 2:
      node = {Kind::kSymlink, name};  // to itself
      break;
    case 3:  // to what it was, or to another file
      image_.nodes["moved"] = image_.nodes.at(rng_() % 2 == 0 ? name : PickFile());
      node = {Kind::kSymlink, "moved"};
      break;
    default:
      node = {Kind::kSymlink, targets[rng_() % std::size(targets)]};
  }
  image_.nodes[name] = node;
  whole_store_ = true;
  Say(name + " is now of kind " + std::to_string(static_cast<int>(node.kind)) + " -> " +
      node.bytes);
}

}  // namespace engine_race::test
