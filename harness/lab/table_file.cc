#include "harness/lab/table_file.h"

#include <algorithm>
#include <utility>

#include "harness/lab/block_cursor.h"

namespace engine_race::lab {

namespace {

// Suffix of the name under which a file is built.
constexpr char kUnfinishedSuffix[] = ".unfinished";

}  // namespace

Status TableFileBuilder::Create(int dir_fd, const std::string& name, Encoding encoding,
                                const TableShape& shape,
                                std::unique_ptr<TableFileBuilder>* builder) {
  if (!shape.valid()) return Status::InvalidArgument("l1: keys or payloads of another size");
  return Guarded([&] {
    std::unique_ptr<TableFileBuilder> made(new TableFileBuilder);
    made->dir_fd_ = dir_fd;
    made->name_ = name;
    made->key_bytes_ = shape.key_bytes;
    made->records_ = MakeBlockBuilder(encoding, shape);
    made->index_ = MakeBlockBuilder(encoding, {shape.key_bytes, sizeof(uint64_t)});
    ENGINE_RACE_RETURN_IF_ERROR(
        Region::Allocate(kExtentBytes, /*huge_pages=*/false, &made->extent_));
    ENGINE_RACE_RETURN_IF_ERROR(io::File::Open(dir_fd, name + kUnfinishedSuffix,
                                               io::Access::kReplace, io::Caching::kDirect,
                                               &made->file_));
    *builder = std::move(made);
    return Status::Ok();
  });
}

Status TableFileBuilder::Add(const char* key, const char* payload) {
  return Guarded([&] {
    if (!records_->Fits(key)) {
      FinishBlock();
      if (index_->record_count() == kDataBlocksPerExtent) {
        ENGINE_RACE_RETURN_IF_ERROR(FinishExtent());
      }
    }
    records_->Add(key, payload);
    return Status::Ok();
  });
}

void TableFileBuilder::FinishBlock() {
  const uint32_t block = index_->record_count() + 1;
  const uint32_t record_count = records_->record_count();
  const std::string last_key(records_->last_key(), key_bytes_);
  const uint32_t record_bytes = records_->Finish(extent_.data() + size_t{block} * kBlockBytes);
  const BlockEntry entry(block, record_bytes == 0 ? 0 : record_count, record_bytes);
  const uint64_t word = entry.word();
  index_->Add(last_key.data(), reinterpret_cast<const char*>(&word));
}

Status TableFileBuilder::FinishExtent() {
  const size_t bytes = (size_t{index_->record_count()} + 1) * kBlockBytes;
  index_->Finish(extent_.data());
  ENGINE_RACE_RETURN_IF_ERROR(file_.Write(extent_.data(), bytes, end_offset_));
  end_offset_ += bytes;
  return Status::Ok();
}

Status TableFileBuilder::Finish() {
  return Guarded([&] {
    if (records_->record_count() > 0) FinishBlock();
    if (index_->record_count() > 0) ENGINE_RACE_RETURN_IF_ERROR(FinishExtent());
    return sys::Rename(dir_fd_, name_ + kUnfinishedSuffix, name_);
  });
}

Status TableFile::Open(int dir_fd, const std::string& name, TableFile* file) {
  ENGINE_RACE_RETURN_IF_ERROR(
      io::File::Open(dir_fd, name, io::Access::kRead, io::Caching::kDirect, &file->file_));
  uint64_t file_bytes = 0;
  ENGINE_RACE_RETURN_IF_ERROR(file->file_.Size(&file_bytes));
  file->block_count_ = file_bytes / kBlockBytes;
  return Status::Ok();
}

Status TableFile::ReadExtent(uint32_t extent, char* data, uint32_t* record_blocks) const {
  const uint64_t first_block = uint64_t{extent} * kBlocksPerExtent;
  const uint64_t count = std::min<uint64_t>(kBlocksPerExtent, block_count_ - first_block);
  *record_blocks = static_cast<uint32_t>(count) - 1;
  return file_.Read(data, count * kBlockBytes, first_block * kBlockBytes);
}

void ExtentRoot::Build(std::vector<char> last_keys, uint32_t key_bytes) {
  last_keys_ = std::move(last_keys);
  key_bytes_ = key_bytes;
  count_ = static_cast<uint32_t>(last_keys_.size() / key_bytes);
  if (count_ > 0) {
    prefix_bytes_ =
        std::min(CommonPrefix(LastKey(0), LastKey(count_ - 1), key_bytes), key_bytes - 1);
  }
  words_.reserve(count_ + kCounted);
  for (uint32_t extent = 0; extent < count_; ++extent) {
    words_.push_back(WordAfter(LastKey(extent), key_bytes, prefix_bytes_));
  }
  words_.resize(count_ + kCounted, ~uint64_t{0});
}

}  // namespace engine_race::lab
