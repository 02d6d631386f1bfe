#include "harness/lab/extent_file.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>

#include "engine_race/base/assert.h"
#include "engine_race/base/checksum.h"
#include "engine_race/base/round_up.h"

namespace lab {

using engine_race::Hash64;
using engine_race::MixWords;
using engine_race::RoundUp;

namespace {

constexpr uint64_t kMagic = 0x315F656C62617431;  // "1table_1"
constexpr uint32_t kVersion = 1;
// Suffix of the name under which a table is built.
constexpr char kUnfinishedSuffix[] = ".unfinished";
// Positions that seed the checksums of the header and of the root. Positions of blocks begin at 0.
constexpr uint64_t kHeaderPlace = ~uint64_t{0};
constexpr uint64_t kRootPlace = ~uint64_t{0} - 1;

struct Header {
  uint64_t magic;
  uint32_t version;
  uint32_t encoding;
  uint32_t key_bytes;
  uint32_t payload_bytes;
  uint64_t table_id;
  uint64_t record_count;
  uint64_t extent_count;
  uint64_t root_offset;
  uint64_t root_bytes;
  uint64_t root_sum;
  uint64_t sum;  // of all before it
};
static_assert(sizeof(Header) == 80);

uint64_t ExtentOffset(uint32_t extent) { return kBlockBytes + uint64_t{extent} * kExtentBytes; }

uint64_t SeedOf(uint64_t table_id, uint64_t place) {
  return MixWords(table_id | 1, place ^ 0x9E3779B97F4A7C15);
}

uint64_t PlaceOf(uint32_t extent, uint32_t block) {
  return uint64_t{extent} * kBlocksPerExtent + block;
}

void Seal(uint64_t table_id, uint64_t place, char* block) {
  const uint64_t sum = Hash64(block, kBlockBodyBytes, SeedOf(table_id, place));
  std::memcpy(block + kBlockBodyBytes, &sum, sizeof(sum));
}

bool IsWhole(uint64_t table_id, uint64_t place, const char* block) {
  uint64_t sum;
  std::memcpy(&sum, block + kBlockBodyBytes, sizeof(sum));
  return sum == Hash64(block, kBlockBodyBytes, SeedOf(table_id, place));
}

uint64_t SumOf(const Header& header) {
  return Hash64(&header, offsetof(Header, sum), SeedOf(0, kHeaderPlace));
}

Status Bad(const io::File& file, const std::string& what) {
  return Status::Corruption(file.name() + ": " + what);
}

}  // namespace

// Building.

ExtentFileBuilder::ExtentFileBuilder(int dir_fd, const std::string& name, const TableShape& shape,
                                     const BlockEncoding& encoding)
    : dir_fd_(dir_fd), name_(name), shape_(shape), encoding_(encoding.number) {}

Status ExtentFileBuilder::Create(int dir_fd, const std::string& name, const TableShape& shape,
                                 const BlockEncoding& encoding,
                                 std::unique_ptr<ExtentFileBuilder>* builder) {
  if (!shape.valid()) return Status::InvalidArgument("l1: keys or payloads of another size");
  try {
    std::unique_ptr<ExtentFileBuilder> made(new ExtentFileBuilder(dir_fd, name, shape, encoding));
    made->records_ = encoding.make_builder(shape);
    made->index_ = encoding.make_builder({shape.key_bytes, sizeof(uint64_t)});
    ENGINE_RACE_RETURN_IF_ERROR(sys::RandomWord(&made->table_id_));
    ENGINE_RACE_RETURN_IF_ERROR(
        Region::Allocate(kExtentBytes, /*huge_pages=*/false, &made->extent_));
    ENGINE_RACE_RETURN_IF_ERROR(io::File::Open(
        dir_fd, name + kUnfinishedSuffix, io::Access::kCreate, io::Caching::kDirect, &made->file_));
    ENGINE_RACE_RETURN_IF_ERROR(made->file_.Truncate(0));
    *builder = std::move(made);
    return Status::Ok();
  } catch (const std::bad_alloc&) {
    return Status::OutOfMemory("l1: no memory to build a table");
  }
}

Status ExtentFileBuilder::Add(const char* key, const char* payload) {
  if (broken_) return Status::InvalidArgument("l1: the table's building has failed");
  if (record_count_ > 0 && std::memcmp(last_key_, key, shape_.key_bytes) >= 0) {
    return Status::InvalidArgument("l1: keys of a table ascend");
  }
  broken_ = true;  // until it has worked out
  try {
    if (!records_->Fits(key)) ENGINE_RACE_RETURN_IF_ERROR(FinishBlock());
    records_->Add(key, payload);
  } catch (const std::bad_alloc&) {
    return Status::OutOfMemory("l1: no memory to build a table");
  }
  broken_ = false;
  std::memcpy(last_key_, key, shape_.key_bytes);
  ++record_count_;
  return Status::Ok();
}

Status ExtentFileBuilder::FinishBlock() {
  const uint32_t block = index_->record_count() + 1;
  ENGINE_RACE_ASSERT(block <= kDataBlocksPerExtent);
  char* const data = extent_.data() + size_t{block} * kBlockBytes;
  const uint32_t record_count = records_->record_count();
  char last_key[kMaxKeyBytes];
  std::memcpy(last_key, records_->last_key(), shape_.key_bytes);
  const uint32_t record_bytes = records_->Finish(data);
  Seal(table_id_, PlaceOf(static_cast<uint32_t>(block_counts_.size()), block), data);
  const BlockEntry entry(block, record_bytes == 0 ? 0 : record_count, record_bytes);
  const uint64_t word = entry.word();
  index_->Add(last_key, reinterpret_cast<const char*>(&word));
  return block == kDataBlocksPerExtent ? FinishExtent() : Status::Ok();
}

Status ExtentFileBuilder::FinishExtent() {
  const auto extent = static_cast<uint32_t>(block_counts_.size());
  const uint32_t block_count = index_->record_count();
  const char* last_key = index_->last_key();
  last_keys_.insert(last_keys_.end(), last_key, last_key + shape_.key_bytes);
  block_counts_.push_back(block_count);
  index_->Finish(extent_.data());
  Seal(table_id_, PlaceOf(extent, 0), extent_.data());
  const size_t bytes = (size_t{block_count} + 1) * kBlockBytes;
  end_offset_ = ExtentOffset(extent) + bytes;
  return file_.Write(extent_.data(), bytes, ExtentOffset(extent));
}

Status ExtentFileBuilder::Finish() {
  if (broken_) return Status::InvalidArgument("l1: the table's building has failed");
  broken_ = true;
  try {
    if (records_->record_count() > 0) ENGINE_RACE_RETURN_IF_ERROR(FinishBlock());
    if (index_->record_count() > 0) ENGINE_RACE_RETURN_IF_ERROR(FinishExtent());
    ENGINE_RACE_RETURN_IF_ERROR(WriteRootAndHeader());
    ENGINE_RACE_RETURN_IF_ERROR(file_.Sync());
    ENGINE_RACE_RETURN_IF_ERROR(sys::Rename(dir_fd_, name_ + kUnfinishedSuffix, name_));
    return sys::Fsync(dir_fd_);
  } catch (const std::bad_alloc&) {
    return Status::OutOfMemory("l1: no memory to build a table");
  }
}

Status ExtentFileBuilder::WriteRootAndHeader() {
  Header header = {};
  header.magic = kMagic;
  header.version = kVersion;
  header.encoding = encoding_;
  header.key_bytes = shape_.key_bytes;
  header.payload_bytes = shape_.payload_bytes;
  header.table_id = table_id_;
  header.record_count = record_count_;
  header.extent_count = block_counts_.size();
  header.root_offset = end_offset_;
  header.root_bytes = last_keys_.size() + block_counts_.size() * sizeof(uint32_t);

  const uint64_t stored_bytes =
      std::max<uint64_t>(kBlockBytes, RoundUp(header.root_bytes, kBlockBytes));
  Region root;
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(stored_bytes, /*huge_pages=*/false, &root));
  if (!block_counts_.empty()) {
    std::memcpy(root.data(), last_keys_.data(), last_keys_.size());
    std::memcpy(root.data() + last_keys_.size(), block_counts_.data(),
                block_counts_.size() * sizeof(uint32_t));
  }
  header.root_sum = Hash64(root.data(), header.root_bytes, SeedOf(table_id_, kRootPlace));
  header.sum = SumOf(header);
  ENGINE_RACE_RETURN_IF_ERROR(file_.Write(root.data(), stored_bytes, header.root_offset));
  std::memset(extent_.data(), 0, kBlockBytes);
  std::memcpy(extent_.data(), &header, sizeof(header));
  return file_.Write(extent_.data(), kBlockBytes, 0);
}

// Reading.

Status ExtentFile::Open(int dir_fd, const std::string& name, std::unique_ptr<ExtentFile>* file) {
  try {
    std::unique_ptr<ExtentFile> opened(new ExtentFile);
    ENGINE_RACE_RETURN_IF_ERROR(
        io::File::Open(dir_fd, name, io::Access::kRead, io::Caching::kDirect, &opened->file_));
    ENGINE_RACE_RETURN_IF_ERROR(opened->ReadHeaderAndRoot());
    *file = std::move(opened);
    return Status::Ok();
  } catch (const std::bad_alloc&) {
    return Status::OutOfMemory("l1: no memory to open a table");
  }
}

Status ExtentFile::ReadHeaderAndRoot() {
  uint64_t file_bytes = 0;
  ENGINE_RACE_RETURN_IF_ERROR(file_.Size(&file_bytes));
  if (file_bytes < 2 * kBlockBytes) return Bad(file_, "too short for a table");
  Region buffer;
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(kBlockBytes, /*huge_pages=*/false, &buffer));
  ENGINE_RACE_RETURN_IF_ERROR(file_.Read(buffer.data(), kBlockBytes, 0));
  Header header;
  std::memcpy(&header, buffer.data(), sizeof(header));
  if (header.magic != kMagic) return Bad(file_, "not a table");
  if (header.version != kVersion) {
    return Status::NotSupported(file_.name() + ": tables of version " +
                                std::to_string(header.version));
  }
  if (header.sum != SumOf(header)) return Bad(file_, "its header is damaged");
  shape_ = {header.key_bytes, header.payload_bytes};
  encoding_ = header.encoding;
  table_id_ = header.table_id;
  record_count_ = header.record_count;
  // The checksum guarantees the numbers. The file's size bounds the memory that they ask for.
  const uint64_t stored_bytes =
      std::max<uint64_t>(kBlockBytes, RoundUp(header.root_bytes, kBlockBytes));
  if (header.root_offset + stored_bytes > file_bytes) return Bad(file_, "it was cut off");

  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(stored_bytes, /*huge_pages=*/false, &buffer));
  ENGINE_RACE_RETURN_IF_ERROR(file_.Read(buffer.data(), stored_bytes, header.root_offset));
  if (Hash64(buffer.data(), header.root_bytes, SeedOf(table_id_, kRootPlace)) != header.root_sum) {
    return Bad(file_, "its root is damaged");
  }
  const size_t keys_bytes = header.extent_count * header.key_bytes;
  root_.Build({buffer.data(), buffer.data() + keys_bytes}, header.key_bytes);
  block_counts_.resize(header.extent_count);
  if (header.extent_count > 0) {
    std::memcpy(block_counts_.data(), buffer.data() + keys_bytes,
                header.extent_count * sizeof(uint32_t));
  }
  return Status::Ok();
}

Status ExtentFile::ReadBlock(uint32_t extent, uint32_t block, char* data) const {
  ENGINE_RACE_ASSERT(extent < extent_count() && block <= block_count(extent));
  ENGINE_RACE_RETURN_IF_ERROR(
      file_.Read(data, kBlockBytes, ExtentOffset(extent) + uint64_t{block} * kBlockBytes));
  if (IsWhole(table_id_, PlaceOf(extent, block), data)) [[likely]] {
    return Status::Ok();
  }
  return Bad(file_, "extent " + std::to_string(extent) + ", block " + std::to_string(block) +
                        " does not match its checksum");
}

}  // namespace lab
